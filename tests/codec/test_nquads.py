"""The N-Quads decoder compared with pyoxigraph, and the small-request parser compared with the decoder."""

from __future__ import annotations

import re
from itertools import pairwise

import pyarrow as pa
import pyoxigraph as ox
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.codec import nquads
from motet.codec.nquads import NQuadsDecoder, decode_nquads, decode_small_nquads
from motet.codec.options import DecodeOptions
from motet.codec.rejections import BadLine
from motet.model.batches import QUADS
from motet.model.errors import LimitError

XSD = "http://www.w3.org/2001/XMLSchema#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"

Row = tuple[int, str | None, str, str, str]


def decode(*pieces: bytes, max_line_bytes: int = nquads.MAX_LINE_BYTES) -> tuple[list[Row], list[BadLine]]:
    decoder = NQuadsDecoder(max_line_bytes=max_line_bytes)
    outcomes = [*(decoder.feed(piece) for piece in pieces), decoder.finish()]
    for batch, _ in outcomes:
        assert batch.schema == QUADS
        batch.validate(full=True)
    rows = [
        tuple(row[name] for name in ("line", *QUADS.names[:4])) for batch, _ in outcomes for row in batch.to_pylist()
    ]
    return rows, [bad for _, more in outcomes for bad in more]


def oracle(line: bytes) -> list[tuple[str | None, str, str, str]] | None:
    """The quads pyoxigraph parses from one line; None if it, or RDF 1.1, refuses the line."""
    try:
        quads = list(ox.parse(line, ox.RdfFormat.N_QUADS))
    except SyntaxError:
        return None
    if any(isinstance(quad.object, ox.Triple) or getattr(quad.object, "direction", None) for quad in quads):
        return None
    return [_terms(quad) for quad in quads]


def _terms(quad: ox.Quad) -> tuple[str | None, str, str, str]:
    graph = None if isinstance(quad.graph_name, ox.DefaultGraph) else str(quad.graph_name)
    return graph, str(quad.subject), str(quad.predicate), str(quad.object)


def assert_as_pyoxigraph(text: bytes) -> None:
    lines = re.split(rb"\r\n|\r|\n", text)
    outcomes = [oracle(line) for line in lines]
    rows, bad = decode(text)
    assert rows == [(n, *quad) for n, quads in enumerate(outcomes, 1) for quad in quads or []]
    assert [line.line for line in bad] == [n for n, quads in enumerate(outcomes, 1) if quads is None]


PLAIN_IRIS = [
    "urn:e:1",
    "http://example.org/a/b?c=d&e#f",
    "http://example.org:8080/x",
    "http://example.org/ns#Reading",
    "a:",
]
ODD_IRIS = [
    *("http://user@example.org/", "http://[::1]:80/a", "http://example.org/%20%C3%A9", "urn:é/日本語", "HTTP:////x//y"),
    *("tag:a@b.c,2026:x", r"urn:\u00e9\U0001F600", "file:///etc", "http://a:/", "x-y+z.1:?#", "urn:😀", "urn:\ue000"),
    *("http://日本.jp/", "urn:~!$&'()*+,;=:@-", "urn:a#b#c", "relative", "urn:%4", "urn:a b", "http://a:x/", "1:a", ""),
]
LABELS = ["a", "b1", "0a", "ff", "_x", "a-b", "a.b", "é", "00", "-a", "a:b", "a.", ""]
LANGUAGES = [
    "en",
    "en-us",
    "EN-GB",
    "de-Latn-DE",
    "x-foo",
    "i-klingon",
    "a",
    "abcdefgh",
    "abcdefghi",
    "en-a-bb",
    "de-419",
]
DIRECTIONS = ["en--ltr", "ar--rtl", "en--up"]
DATATYPES = [XSD + "string", XSD + "integer", XSD + "strings", RDF + "langString", RDF + "dirLangString", RDF + "HTML"]
ESCAPES = [
    r"\n",
    r"\r",
    r"\t",
    r"\"",
    r"\\",
    r"\b",
    r"\f",
    r"\'",
    r"\u0041",
    r"\u000a",
    r"\U0001F600",
    r"\uFFFE",
    r"\ud800",
]
ODD_CHARACTERS = [
    "\t",
    "\x01",
    "\x7f",
    "\x80",
    "\u07ff",
    "\u0800",
    "\u2028",
    "\ufeff",
    "\ufffe",
    "\uffff",
    "\U0010ffff",
]

iris = st.sampled_from(PLAIN_IRIS * 8 + ODD_IRIS).map("<{}>".format)
blank_nodes = st.sampled_from(LABELS).map("_:{}".format)
plain_texts = st.text(
    st.characters(codec="utf-8", exclude_characters='"\\\r\n', exclude_categories=["Cc", "Cs"]), max_size=9
)
texts = st.lists(plain_texts | st.sampled_from(ESCAPES + ODD_CHARACTERS), max_size=4).map("".join)
gaps = st.sampled_from([" "] * 8 + ["", "\t", "  \t"])
no_gaps = st.sampled_from([""] * 8 + [" "])
tags = st.sampled_from(LANGUAGES * 3 + DIRECTIONS)
suffixes = st.one_of(
    st.just(""),
    st.builds("{}@{}".format, no_gaps, tags),
    st.builds("{}^^{}<{}>".format, no_gaps, no_gaps, st.sampled_from(DATATYPES + PLAIN_IRIS)),
)
literals = st.builds('"{}"{}'.format, texts, suffixes)
objects = st.recursive(
    iris | blank_nodes | literals | literals,
    lambda inner: st.builds("<<({} {} {})>>".format, iris, iris, inner),
    max_leaves=3,
)
endings = st.sampled_from([""] * 6 + [" ", " # comment", '#"<', "."])
quad_lines = st.builds(
    "{}{}{}{}{}{}{}{}.{}".format,
    *(iris | blank_nodes, gaps, iris, gaps, objects, gaps, st.just("") | iris | iris | blank_nodes, gaps, endings),
).map(str.encode)
lines = quad_lines | st.sampled_from([b"", b" \t", b"# comment", b'#"\xff'])
line_ends = st.sampled_from([b"\n"] * 6 + [b"\r\n", b"\r", b"\n\n"])
documents = st.lists(st.tuples(lines, line_ends), max_size=8).map(lambda pairs: b"".join(map(b"".join, pairs)))

SCRAPS = rb"""< > " \ . @ ^^ _: # % - : // ? [ { | ` ' \u0041 <<( )>> %4 --ltr 0 Z +""".split()
SCRAPS += [
    b" ",
    b"\t",
    b"\x00",
    b"\x7f",
    b"\xff",
    b"\xc3",
    b"\xe2\x80",
    b"\xed\xa0\x80",
    b"\xc0\x80",
    b"\xf4\x90\x80\x80",
    b"\r",
]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    line = draw(quad_lines)
    for _ in range(draw(st.integers(1, 2))):
        first = draw(st.integers(0, len(line)))
        last = min(len(line), first + draw(st.sampled_from([0, 0, 1, 1, 2, 5, 1000])))
        put = draw(st.sampled_from([b"", *SCRAPS]) | st.binary(min_size=1, max_size=1))
        line = line[:first] + put + line[last:]
    return line


@settings(max_examples=200, deadline=None)
@given(documents)
def test_lines_are_read_as_pyoxigraph_reads_them(text: bytes) -> None:
    """Every form of a quad gives pyoxigraph's terms or pyoxigraph's error, at the right line."""
    assert_as_pyoxigraph(text)


@settings(max_examples=200, deadline=None)
@given(st.lists(mutated(), max_size=12))
def test_mutated_lines_are_accepted_as_by_pyoxigraph(broken: list[bytes]) -> None:
    """A damaged line is accepted exactly when pyoxigraph accepts it, whatever the lines around it."""
    assert_as_pyoxigraph(b"\n".join(broken))


@pytest.mark.parametrize(
    "line",
    [
        '<urn:e:1> <http://example.org:80/p?q#f> "a\\né"@en-us <http://example.org/g> . # c',
        f'_:a1 <urn:p%20x> "5"^^<{XSD}string> _:g .',
        f'<http://h/é> <a:b>\t"x"^^<{RDF}HTML>.',
        '<http://h> <x://:1> "日😀"@de.',
    ],
)
def test_every_change_of_one_byte_is_accepted_as_by_pyoxigraph(line: str) -> None:
    """Inserting or replacing any single byte of a valid line gives the same result as pyoxigraph."""
    text = line.encode()
    others = [bytes([byte]) for byte in range(256) if byte not in b"\r\n"]
    changed = [text[:at] + byte + text[at + gone :] for at in range(len(text)) for byte in others for gone in (0, 1)]
    assert_as_pyoxigraph(b"\n".join(changed))


BROKEN_UTF8 = [
    b"\xed\xa0\x80",
    b"\xe0\x80\x80",
    b"\xc0\x80",
    b"\xf0\x80\x80\x80",
    b"\xf4\x90\x80\x80",
    b"\xc3",
    b"\xff",
]


def test_each_unusual_form_is_read_as_by_pyoxigraph() -> None:
    """An unusual IRI, label, escape, character, tag or datatype in a common line is read as by pyoxigraph."""
    quoted = [f'"{text}"' for text in ESCAPES + ODD_CHARACTERS]
    tagged = [f'"a"@{tag}' for tag in LANGUAGES + DIRECTIONS]
    typed = [f'"a"^^<{datatype}>' for datatype in DATATYPES + ODD_IRIS]
    nodes = [f"<{iri}>" for iri in PLAIN_IRIS + ODD_IRIS] + [f"_:{label}" for label in LABELS]
    forms = [form.encode() for form in quoted + tagged + typed + nodes]
    forms += [b'"%b"' % text for text in BROKEN_UTF8] + [b"<urn:%b>" % text for text in BROKEN_UTF8]
    forms += [
        f'"{chr(value)}\\u{value:04X}"'.encode() for value in range(0x20, 0xFFFF, 23) if not 0xD800 <= value <= 0xDFFF
    ]
    assert_as_pyoxigraph(b"".join(b"<a:s> <a:p> %b .\n%b <a:p> <a:o> %b .\n" % (form, form, form) for form in forms))


@settings(max_examples=100, deadline=None)
@given(st.data(), documents, st.binary(max_size=3))
def test_pieces_may_be_cut_anywhere(data: st.DataObject, text: bytes, tail: bytes) -> None:
    """Input cut into pieces anywhere gives the same quads and bad lines."""
    text += tail
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[first:last] for first, last in pairwise([0, *cuts, len(text)])]
    assert decode(*pieces, max_line_bytes=40) == decode(text, max_line_bytes=40)
    assert decode(*(bytes([byte]) for byte in text)) == decode(text)


def test_valid_documents_equal_a_whole_parse() -> None:
    """Parsing a document whole gives the quads of its lines in their order."""
    text = b'<a:s> <a:p> "1" .\r\n\r\n# c\r<a:s> <a:p> "\\u0032"@EN <a:g> .\n\r<a:s> <a:p> "3" .\n<a:s> <a:p> _:b.'
    rows, bad = decode(text)
    assert [row[1:] for row in rows] == [_terms(quad) for quad in ox.parse(text, ox.RdfFormat.N_QUADS)]
    assert [row[0] for row in rows] == [1, 4, 6, 7]
    assert bad == []


def test_many_uncertain_lines_keep_their_order() -> None:
    """Lines that pyoxigraph parses, valid or not, do not change the order of the others."""
    forms = ['"\\u0041{}"', '"B{}"', '"C{}', '"D{}"', '"\\bE{}"']
    text = "".join(f"<a:s> <a:p> {forms[n % 5].format(n)} .\n" for n in range(1000))
    rows, bad = decode(text.encode())
    printed = ['"A{}"', '"B{}"', None, '"D{}"', '"\\bE{}"']
    expected = [(n + 1, None, "<a:s>", "<a:p>", form.format(n)) for n in range(1000) if (form := printed[n % 5])]
    assert rows == expected
    assert [line.line for line in bad] == list(range(3, 1001, 5))


def test_a_line_longer_than_the_limit_is_skipped_in_bounded_memory() -> None:
    """An over-long line becomes a bad line, in bounded memory, and the next line is read."""
    decoder = NQuadsDecoder(max_line_bytes=2000)
    for _ in range(100):
        assert decoder.feed(b"x" * 1000)[1] == []
        assert len(decoder._partial) <= 2001 + 16 * 1024
    quads, bad = decoder.feed(b"\n<a:s> <a:p> <a:o> .\n")
    assert quads.column("line").to_pylist() == [2]
    assert bad == [BadLine(1, 2001, "the line is longer than the limit of 2000 bytes", "x" * 1000, None)]


def test_a_line_of_exactly_the_limit_is_read() -> None:
    """The limit counts the bytes before the line end."""
    line = b"<a:s> <a:p> <a:o> ."
    assert decode(line + b"\r\n", max_line_bytes=len(line)) == ([(1, None, "<a:s>", "<a:p>", "<a:o>")], [])
    assert [bad.line for bad in decode(line, max_line_bytes=len(line) - 1)[1]] == [1]


def test_a_truncated_file_loses_only_its_last_line() -> None:
    """The text after the last line end is decoded when the stream ends."""
    rows, bad = decode(b'<a:s> <a:p> "1" <a:g> .\n<a:s> <a:p> "2" <a:g')
    assert rows == [(1, "<a:g>", "<a:s>", "<a:p>", '"1"')]
    assert bad == [BadLine(2, 17, "Unexpected end of file", '<a:s> <a:p> "2" <a:g', None)]


def test_invalid_utf8_is_a_bad_line() -> None:
    """Bytes that are not UTF-8 make their line bad; the error replaces them."""
    rows, bad = decode(b'<a:s> <a:p> "\xff" <urn:e:1> .\n<a:s> <a:p> "1" .\n')
    assert [row[0] for row in rows] == [2]
    assert [(line.line, line.column, line.content, line.graph) for line in bad] == [
        (1, 14, '<a:s> <a:p> "\ufffd" <urn:e:1> .', "urn:e:1")
    ]


@pytest.mark.parametrize("value", ["<<(<a:s> <a:p> <<(<a:s> <a:p> <a:o>)>>)>>", '"hello"@en--ltr'])
def test_rdf_12_terms_are_refused_by_name(value: str) -> None:
    """Triple terms and directions are not RDF 1.1; the error says so and names the event."""
    rows, bad = decode(f"<a:s> <a:p> {value} <urn:e:1> .".encode())
    assert rows == []
    assert bad[0].reason.startswith("RDF 1.2 terms are not supported")
    assert bad[0].graph == "urn:e:1"


def test_text_that_looks_like_a_triple_term_is_text() -> None:
    """The marks of a triple term inside a literal or a comment are text."""
    assert_as_pyoxigraph(b'<a:s> <a:p> "\\u0041<<( \\" <<(" . # "<<(\n<a:s#> <a:p> "\\b" . # <<(')


def test_deeply_nested_triple_terms_are_refused() -> None:
    """Nesting that would overflow the stack of a recursive parser is refused before it is parsed."""
    line = b"<a:s> <a:p> " + b"<<(<a:s> <a:p> " * 200_000 + b"<a:o>" + b")>>" * 200_000 + b" ."
    rows, bad = decode(line)
    assert rows == []
    assert [(line.line, line.column, len(line.content)) for line in bad] == [(1, None, 1000)]


@pytest.mark.parametrize(
    ("line", "graph"),
    [
        (r'<a:s> <a:p> "\x" <a:g> .', "a:g"),
        (r'<a:s> <a:p> "\x"@en <a:g> . # note', "a:g"),
        (r'<a:s> <a:p> "\x"^^<a:d> <a:g> .', "a:g"),
        (r'_:b <a:p> "\x" <a:g>', "a:g"),
        ("<a:s> <p> <a:o> <a:g> .", "a:g"),
        ("<a:s> <p> <a:o> .", None),
        (r'<a:s> <a:p> "\x"^^<a:d> .', None),
        ('<a:s> <a:p> "unfinished <a:o> .', None),
        ("nonsense", None),
    ],
)
def test_the_graph_of_a_bad_line_is_recovered(line: str, graph: str | None) -> None:
    """A bad line has a graph if its fourth term can be distinguished from the third."""
    assert [bad.graph for bad in decode(line.encode())[1]] == [graph]


@pytest.mark.parametrize("pieces", [(), (b"",), (b"\n",), (b"\r", b"\n"), (b"# only a comment",), (b"  \r\n\t",)])
def test_empty_input_gives_no_quads(pieces: tuple[bytes, ...]) -> None:
    """Empty input, blank lines and comments give neither quads nor bad lines."""
    assert decode(*pieces) == ([], [])


def test_a_piece_too_large_for_a_column_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece has a maximum size, because offsets are 32 bits wide."""
    monkeypatch.setattr(nquads, "MAX_FEED_BYTES", 3)
    with pytest.raises(LimitError, match="4 bytes"):
        NQuadsDecoder().feed(b"1234")


def test_batches_share_no_memory_with_the_input() -> None:
    """A batch does not change when the next piece is decoded."""
    decoder = NQuadsDecoder()
    first, _ = decoder.feed(b"<a:s> <a:p> <a:o> .\n" * 100)
    before = pa.RecordBatch.from_pylist(first.to_pylist(), QUADS)
    decoder.feed(b"<a:x> <a:y> <a:z> <a:g> .\n" * 100)
    assert first.equals(before)


def test_a_line_that_is_too_long_names_its_event() -> None:
    """Only the event of the long literal is rejected: the end of the line names it."""
    decoder = NQuadsDecoder(max_line_bytes=2000)
    for _ in range(100):
        decoder.feed(b'<a:s> <a:p> "' if not decoder._partial else b"x" * 1000)
    _, bad = decoder.feed(b'x"@en <urn:e:1> .\n')
    assert [line.graph for line in bad] == ["urn:e:1"]


OPTIONS = DecodeOptions("input")
IRIS = st.sampled_from(
    [
        "<urn:a>",
        "<urn:b>",
        "<http://h/p?q=1#f>",
        "<http://h:80>",
        "<http://h:x/>",
        "<x:%41>",
        "<x:%4>",
        "<a b:c>",
        "<r>",
    ]
)
TIMES = [
    f'"2026-11-15T10:00:0{n}{rest}"^^<{XSD}dateTime>'
    for n in range(3)
    for rest in ("Z", ".1234567Z", "+01:00", "", "x")
]
OBJECTS = st.one_of(
    IRIS,
    st.sampled_from(
        [*TIMES, f'"x"^^<{XSD}string>', '"x"@en', '"x"@EN', '"x"@en-GB', '"\\n"', '"ä"', "_:b", '"5"', '"']
    ),
    st.text("ab \\\"'.<>@^", max_size=4).map(lambda text: f'"{text}"'),
)
PREDICATES = st.sampled_from(
    ["<urn:p>", *(f"<http://www.w3.org/ns/prov#{n}>" for n in ("startedAtTime", "endedAtTime", "generatedAtTime"))]
)
LINES = st.builds(
    lambda s, p, o, g, blank, end: f"{s}{blank}{p} {o}{blank}{g}{end}",
    IRIS, PREDICATES, OBJECTS, st.sampled_from(["<urn:a>", "<urn:b>"]), st.sampled_from([" ", "\t", "  ", ""]),
    st.sampled_from([" .\n", ".\n", " . \n", " . # c\n", "\n", " .\r\n", " .\n\n"]),
)  # fmt: skip


def decode_columnar(data: bytes) -> tuple[pa.Table, list[str]]:
    decoded = list(decode_nquads(iter([data]), OPTIONS))
    return pa.Table.from_batches([part.events for part in decoded]), [str(e) for part in decoded for e in part.rejected]


@given(st.lists(LINES, min_size=1, max_size=5), st.booleans())
def test_the_small_parser_agrees_with_the_decoder(lines: list[str], whole: bool) -> None:
    """A text that the small parser accepts gives the same events, times and order, and no rejection, in the decoder."""
    text = "".join(lines)
    data = (text if whole else text.rstrip("\n")).encode()
    small = decode_small_nquads(data, OPTIONS)
    if small is not None:
        events, rejected = decode_columnar(data)
        assert rejected == []
        assert pa.Table.from_batches([small]).equals(events)


@pytest.mark.parametrize("value", ['"5"', "<urn:o>", '"x"@en', TIMES[0], TIMES[1], f'"1"^^<{XSD}integer>'])
def test_the_small_parser_reads_common_lines(value: str) -> None:
    """Lines with IRIs, literals and times are read by the small parser."""
    property_ = "<http://www.w3.org/ns/prov#generatedAtTime>" if value in TIMES else "<urn:p>"
    data = f"<urn:e> {property_} {value} <urn:e> .\n<urn:e> <urn:q> <urn:r> <urn:e> .\n".encode()
    small = decode_small_nquads(data, OPTIONS)
    assert small is not None
    assert pa.Table.from_batches([small]).equals(decode_columnar(data)[0])


def test_the_small_parser_declines_an_empty_text() -> None:
    """An empty text is left to the decoder."""
    assert decode_small_nquads(b"", OPTIONS) is None
