"""Documents parsed by pyoxigraph."""

import re

import pyoxigraph as ox
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.codec import documents
from motet.codec.decode import decode_bytes
from motet.codec.options import Limits
from motet.model.errors import DecodeError

Graphs = list[tuple[str, list[tuple[str, str, str]]]]
TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
RDF_XML = '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:x="urn:x:">{}</rdf:RDF>'


def decode(
    text: str, content_type: str, event_id: str | None = "urn:e", **limits: int
) -> tuple[Graphs, list[DecodeError]]:
    graphs: Graphs = []
    rejected: list[DecodeError] = []
    for decoded in decode_bytes(text.encode(), content_type, id=event_id, limits=Limits(**limits)):
        for row in decoded.events.to_pylist():
            graphs.append((row["id"], [(t["subject"], t["predicate"], t["object"]) for t in row["triples"]]))
        rejected += decoded.rejected
    return graphs, rejected


@pytest.mark.parametrize(
    ("content_type", "text"),
    [
        ("text/turtle", "<> a <#c> ."),
        ("application/n-triples", f"<urn:e> <{TYPE}> <urn:e#c> ."),
        ("application/ld+json", '{"@id": "", "@type": "#c"}'),
        (
            "application/rdf+xml",
            RDF_XML.format('<rdf:Description rdf:about=""><rdf:type rdf:resource="#c"/></rdf:Description>'),
        ),
    ],
)
def test_a_document_with_an_id_is_one_event(content_type: str, text: str) -> None:
    """With an id a document of any format is one event, and <> and <#x> follow its IRI."""
    assert decode(text, content_type) == ([("urn:e", [("<urn:e>", f"<{TYPE}>", "<urn:e#c>")])], [])


def test_trig_graphs_are_events() -> None:
    """Each graph of a TriG document is an event, even if its triples are not consecutive."""
    text = "<urn:a> {<urn:s> <urn:p> 1} <urn:b> {<urn:s> <urn:p> 2} <urn:a> {<urn:s> <urn:p> 3}"
    integer = '"{}"^^<http://www.w3.org/2001/XMLSchema#integer>'.format
    expected = [("urn:a", [1, 3]), ("urn:b", [2])]
    assert decode(text, "application/trig", None) == (
        [(event, [("<urn:s>", "<urn:p>", integer(i)) for i in values]) for event, values in expected],
        [],
    )


def test_a_document_with_many_errors() -> None:
    """Errors cost time for the directives before them, not for the whole document."""
    text = "@prefix x: <urn:x:> .\n" + "x:s x:p oops .\n[] x:p 1 .\n" * 2000
    graphs, rejected = decode(text, "text/turtle", None)
    assert (len(graphs), len(rejected), rejected[-1].line) == (2000, 2000, 4000)


def test_a_document_with_too_many_errors_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work for errors is bounded: beyond it the rest of the document is one rejection."""
    monkeypatch.setattr(documents, "_MAX_REPEATED_BYTES", 10_000)
    text = "@prefix x: <urn:x:> .\n" + "x:s x:p oops .\n[] x:p 1 .\n" * 2000
    graphs, rejected = decode(text, "text/turtle", None)
    assert 10 < len(graphs) < 1000
    assert any("too many errors" in error.reason for error in rejected)


@pytest.mark.parametrize(
    ("content_type", "text", "word"),
    [
        ("text/turtle", "<> a <urn:c> .\n<> <urn:p> oops .", "oops"),
        ("application/ld+json", '{"@id": "urn:s", "urn:p": NaN}', "NaN|'N'"),
        ("application/ld+json", '{"@id": "urn:s"', "(?i)end|eof"),
        ("application/rdf+xml", "<rdf:RDF", "."),
        ("application/rdf+xml", "\x00", "."),
        ("text/turtle", "# nothing", "no triples"),
        ("application/ld+json", '{"name": "no context"}', "no triples"),
        ("application/ld+json", "[]", "no triples"),
        ("application/trig", "# nothing", "no triples"),
    ],
)
def test_a_broken_document_is_one_rejection(content_type: str, text: str, word: str) -> None:
    """A document that cannot be parsed, or has no triples, is one rejection with its content."""
    graphs, [error] = decode(text, content_type)
    assert graphs == []
    assert error.content
    assert error.content in text
    assert re.search(word, error.reason)


@pytest.mark.parametrize(
    "text",
    [
        "<> <urn:p> <<( <urn:a> <urn:b> <urn:c> )>> .",
        "<> <urn:p> << <urn:a> <urn:b> <urn:c> >> .",
        "<> <urn:p> <urn:o> {| <urn:a> <urn:b> |} .",
        '<> <urn:p> "x"@en--ltr .',
        "<> <urn:p> " + "<<( <urn:a> <urn:b> " * 50_000,
        "<> # a comment\r<urn:p> " + "<<( <urn:a> <urn:b> " * 50_000,
    ],
)
def test_rdf_12_is_unsupported(text: str) -> None:
    """Triple terms, however deep, and directional strings are rejected as unsupported."""
    graphs, [error] = decode(text, "text/turtle")
    assert (graphs, "not supported" in error.reason) == ([], True)


def test_rdf_12_marks_inside_strings_are_text() -> None:
    """What looks like RDF 1.2 inside a string, an IRI or a comment is text."""
    text = """<> <urn:p> "<<(", '{|', \"\"\"a " << \"\"\", <urn:x> . # << {|"""
    graphs, rejected = decode(text, "text/turtle")
    assert ([o for _, _, o in graphs[0][1]], rejected) == (['"<<("', '"{|"', '"a \\" << "', "<urn:x>"], [])


def test_documents_are_limited_in_size() -> None:
    """A document larger than the limit is rejected with advice."""
    graphs, [error] = decode("<> a <urn:c> ." + " " * 1000, "text/turtle", max_document_bytes=100)
    assert (graphs, "larger than 100 bytes" in error.reason, "N-Quads" in str(error.advice)) == ([], True, True)


iris = st.sampled_from(["urn:a", "http://x/é", "http://x/y#z"]).map(ox.NamedNode)
literals = st.text(max_size=5).map(ox.Literal) | st.just(ox.Literal("Bonjour", language="FR")) | st.just(ox.Literal(5))
objects = iris | literals | st.sampled_from("xyz").map(ox.BlankNode)


@settings(deadline=None)
@given(st.lists(st.builds(ox.Quad, iris, iris, iris | literals, iris), min_size=1, max_size=8))
def test_trig_reads_as_pyoxigraph_does(quads: list[ox.Quad]) -> None:
    """TriG gives exactly the quads pyoxigraph reads."""
    text = ox.serialize(quads, format=ox.RdfFormat.TRIG)
    assert text is not None
    graphs, rejected = decode(text.decode(), "application/trig", None)
    mine = {f"{s} {p} {o} <{event}>" for event, triples in graphs for s, p, o in triples}
    assert (mine, rejected) == ({str(quad) for quad in quads}, [])


@settings(deadline=None)
@given(st.lists(st.builds(ox.Triple, iris, iris, objects), min_size=1, max_size=8))
def test_turtle_reads_as_pyoxigraph_does(triples: list[ox.Triple]) -> None:
    """Turtle gives the triples pyoxigraph reads, with blank nodes named by their canonical labels."""
    text = ox.serialize(triples, format=ox.RdfFormat.TURTLE)
    assert text is not None
    dataset = ox.Dataset(ox.Quad(t.subject, t.predicate, t.object) for t in triples)
    dataset.canonicalize(ox.CanonicalizationAlgorithm.RDFC_1_0)
    expected = {f"{q.subject} {q.predicate} " + str(q.object).replace("_:c14n", "<urn:e#genid-c14n") for q in dataset}
    graphs, rejected = decode(text.decode(), "text/turtle")
    mine = {" ".join((s, p, o.removesuffix(">") if "genid" in o else o)) for s, p, o in graphs[0][1]}
    assert (mine, rejected) == (expected, [])
