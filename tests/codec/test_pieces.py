"""Splitting of documents into pieces."""

from __future__ import annotations

import time

import pyoxigraph as ox
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.codec.documents import parse_document
from motet.codec.formats import Format
from motet.codec.options import DecodeOptions
from motet.codec.pieces import split

TURTLE = """\
@prefix : <urn:v:> . PREFIX x: <http://x/a.b#> BASE <http://b/>
:s.a :p 1.5, .5, 1., 1.e5, "a . b", 'it''s'@en .
x:a.b-c x:p\\.q "\\" . {" ; :q \"\"\"long . "quoted" {
}\"\"\", '''x " . ''' .  # a comment . {
[] :p [ :q ( 1 2.0 "." ) ], true .
( 1 2 ) :p <rel.x#y>.<c>:p<d>.
_:b.1 :p "x"^^:d.t, "y"@en-GB .
"""


def texts(text: str, syntax: Format) -> list[str]:
    return [piece.text.decode().strip() for piece in split(text.encode(), syntax).pieces]


def test_statements_end_at_dots_that_are_no_parts_of_terms() -> None:
    """Dots in numbers, names, strings, IRIs and comments do not end a statement."""
    text = TURTLE.replace("'it''s'@en", "'its'@en").replace("1., ", "")
    pieces = texts(text, Format.TURTLE)
    assert [piece.split()[0] for piece in pieces] == [
        "@prefix", "PREFIX", "BASE", ":s.a", "x:a.b-c", "[]", "(", "<c>:p<d>.", "_:b.1",
    ]  # fmt: skip
    assert "".join("".join(piece.split()) for piece in pieces) == "".join(text.split())


def test_graphs_of_trig() -> None:
    """A graph is one piece, with or without GRAPH; braces in strings, IRIs and comments do not count."""
    text = "<urn:a> { :s :p 1 . :t :p '}' } GRAPH :b { :s :p 1 } :s :p 2 . [] { :s :p 3 } # }\n{ :s :p 4 }"
    assert [piece.split()[0] for piece in texts(text, Format.TRIG)] == ["<urn:a>", "GRAPH", ":s", "[]", "{"]


def test_a_graph_that_is_not_closed_ends_before_the_next() -> None:
    """A second opening brace ends the graph before it."""
    assert texts(":a { :s :p 1 . :b { :s :p 2 } :c { :s :p 3", Format.TRIG) == [
        ":a { :s :p 1 .", ":b { :s :p 2 }", ":c { :s :p 3",
    ]  # fmt: skip


def test_lines_and_columns() -> None:
    """A piece knows where it begins."""
    text = b"# c\n\n:a :p 1 . :b :p\n2 .\n  :c :p 3 ."
    assert [(p.line, p.column) for p in split(text, Format.TURTLE).pieces] == [(3, 1), (3, 11), (5, 3)]
    items = b'[\n {"a": 1}, {"b": [1,\n2]},\n {"c": 3}]'
    assert [(p.line, p.column) for p in split(items, Format.JSON_LD).pieces] == [(2, 2), (2, 12), (4, 2)]


@pytest.mark.parametrize(
    "text",
    ["[", "[1,", "[{}", "{", "{}", "[] []", "[{}] x", '{"@graph": [{}], "@context": {}', "nonsense", "", '"x"', "[,]"],
)
def test_any_json_can_be_split(text: str) -> None:
    """Text that is not JSON, or not finished, is split as far as it can be."""
    assert isinstance(list(split(text.encode(), Format.JSON_LD).pieces), list)


@pytest.mark.parametrize("text", ["<a", "<rdf:RDF>", "", "<a/>", "\x00", "<rdf:RDF xmlns:rdf='urn:x'><a/></rdf:RDF>"])
def test_any_xml_can_be_split(text: str) -> None:
    """Text that is not XML, or not RDF, is one piece."""
    assert len(list(split(text.encode(), Format.RDF_XML).pieces)) == 1


tokens = st.sampled_from(
    [":a", "x:b.c", "<urn:i>", "<r.x>", '"s . }"', "'q'", '"""l . " {"""', "1", "1.5", ".5", "true", "[", "]", "(", ")",
     ".", ".", ";", ",", "{", "}", "a", "_:b", "@prefix x: <urn:x:> .", "PREFIX : <urn:y:>", "# c . {\n", "\n", '"',
     "<", "'''", "GRAPH", "^^", "@en", "\\", "."]
)  # fmt: skip


@settings(deadline=None, max_examples=300)
@given(st.lists(tokens, max_size=30), st.sampled_from([Format.TURTLE, Format.TRIG]), st.sampled_from(["", " "]))
def test_valid_documents_are_read_as_the_parser_reads_them(words: list[str], syntax: Format, space: str) -> None:
    """Whatever the splitting does, a document that the parser accepts has the parser's quads and no defect."""
    text = ("@prefix : <urn:v:> . @prefix x: <urn:w:> . " + space.join(words)).encode()
    format_ = ox.RdfFormat.TURTLE if syntax is Format.TURTLE else ox.RdfFormat.TRIG
    document = parse_document(text, syntax, DecodeOptions("input", base="http://b/"))
    assert "".join(piece.text.decode().replace(" ", "") for piece in split(text, syntax).pieces).strip() == (
        text.decode().replace(" ", "").strip()
    )
    try:
        expected = [str(quad.predicate) for quad in ox.parse(text, format=format_, base_iri="http://b/")]
    except SyntaxError:
        assert document.defects
        return
    if expected:
        assert ([quad.predicate for quad in document.quads], document.defects) == (expected, [])


@pytest.mark.parametrize(
    "text",
    [
        '"' * 400_000,
        "'" * 400_000,
        "<" * 400_000,
        "{" * 20_000,
        "." * 20_000,
        '"""' + "x . " * 100_000,
        "a" * 400_000,
        "\\" * 400_000,
        "a.b" * 100_000,
        "# " * 200_000,
        "[" * 200_000,
        ":a :b :c .\n" * 20_000 + ":a :b oops .",
    ],
)
@pytest.mark.parametrize("syntax", [Format.TURTLE, Format.TRIG])
def test_splitting_takes_linear_time(text: str, syntax: Format) -> None:
    """No text makes the splitting slow."""
    started = time.process_time()
    assert sum(len(piece.text) for piece in split(text.encode(), syntax).pieces) <= 2 * len(text)
    assert time.process_time() - started < 5
