"""Documents parsed by pyoxigraph."""

import hashlib
import re

import pyoxigraph as ox
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.codec.decode import decode_bytes
from motet.codec.options import Limits
from motet.model.errors import DecodeError, UsageError

Graphs = list[tuple[str, list[tuple[str, str, str]]]]
TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
RDF_XML = '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:x="urn:x:">{}</rdf:RDF>'


def decode(
    text: str, content_type: str, event_id: str | None = "urn:e", **limits: int
) -> tuple[Graphs, list[DecodeError]]:
    graphs: Graphs = []
    rejected: list[DecodeError] = []
    for decoded in decode_bytes(text.encode(), content_type, event_id=event_id, limits=Limits(**limits)):
        for row in decoded.events.to_pylist():
            graphs.append((row["id"], [(t["subject"], t["predicate"], t["object"]) for t in row["triples"]]))
        rejected += decoded.rejected
    return graphs, rejected


@pytest.mark.parametrize(
    ("content_type", "text"),
    [
        ("text/turtle", "<> a <#c> ."),
        ("application/n-triples", f"<urn:e> <{TYPE}> <urn:e#c> ."),
        ("application/ld+json", '{"@id": "", "@type": "urn:e#c"}'),
        (
            "application/rdf+xml",
            RDF_XML.format('<rdf:Description rdf:about=""><rdf:type rdf:resource="#c"/></rdf:Description>'),
        ),
    ],
)
def test_a_document_without_graphs_is_one_event(content_type: str, text: str) -> None:
    """A document of triples is one event; its IRI is the base of relative IRIs."""
    assert decode(text, content_type) == ([("urn:e", [("<urn:e>", f"<{TYPE}>", "<urn:e#c>")])], [])


def test_an_event_without_an_id_is_named_by_hash() -> None:
    """Without an id the event is named after the hash of the document."""
    graphs, _ = decode("<urn:s> a <urn:c> .", "text/turtle", None)
    assert [event for event, _ in graphs] == ["urn:motet:event:" + hashlib.sha256(b"<urn:s> a <urn:c> .").hexdigest()]


def test_event_id_must_be_an_iri() -> None:
    """An event id that is not an absolute IRI is a usage error."""
    with pytest.raises(UsageError, match="room 5"):
        decode("<> a <urn:c> .", "text/turtle", "room 5")


def test_trig_graphs_are_events() -> None:
    """Each graph of a TriG document is an event, even if its triples are not consecutive."""
    text = "<urn:a> {<urn:s> <urn:p> 1} <urn:b> {<urn:s> <urn:p> 2} <urn:a> {<urn:s> <urn:p> 3}"
    integer = '"{}"^^<http://www.w3.org/2001/XMLSchema#integer>'.format
    expected = [("urn:a", [1, 3]), ("urn:b", [2])]
    assert decode(text, "application/trig") == (
        [(event, [("<urn:s>", "<urn:p>", integer(i)) for i in values]) for event, values in expected],
        [],
    )


@pytest.mark.parametrize(
    ("content_type", "text"),
    [
        ("application/trig", "<urn:a> {<urn:s> <urn:p> <urn:o>} <urn:s> <urn:p> <urn:stray> ."),
        (
            "application/ld+json",
            '[{"@id": "urn:a", "@graph": {"@id": "urn:s", "urn:p": {"@id": "urn:o"}}},'
            ' {"@id": "urn:s", "urn:p": {"@id": "urn:stray"}}]',
        ),
    ],
)
def test_triples_beside_graphs_are_rejected(content_type: str, text: str) -> None:
    """Triples outside any graph of a document with graphs are rejected; its events are accepted."""
    graphs, [error] = decode(text, content_type)
    assert graphs == [("urn:a", [("<urn:s>", "<urn:p>", "<urn:o>")])]
    assert error.content == "<urn:s> <urn:p> <urn:stray> ."


def test_trig_error_keeps_complete_events() -> None:
    """The events before a syntax error are accepted; the current one and the rest are one rejection."""
    rest = " <urn:s> <urn:p> oops }\n<urn:c> {<urn:s> <urn:p> 3}\n"
    text = "<urn:a> {<urn:s> <urn:p> 1}\n<urn:b> {<urn:s> <urn:p> 2 .\n" + rest
    graphs, [error] = decode(text, "application/trig")
    assert [event for event, _ in graphs] == ["urn:a"]
    assert (error.event, error.line) == ("urn:b", 3)
    assert "oops" in error.reason
    assert str(error.content).endswith(rest)


@pytest.mark.parametrize(
    ("content_type", "text", "word"),
    [
        ("text/turtle", "<> a <urn:c> .\n<> <urn:p> oops .", "oops"),
        ("application/ld+json", '{"@id": "urn:s", "urn:p": NaN}', "NaN|'N'"),
        ("application/ld+json", '{"@id": "urn:s"', "(?i)end|eof"),
        ("application/rdf+xml", "<rdf:RDF", "."),
        ("application/rdf+xml", "\x00", "."),
        ("text/turtle", "", "no triples"),
        ("application/ld+json", '{"name": "no context"}', "no triples"),
        ("application/ld+json", "[]", "no triples"),
        ("application/trig", "", "no triples"),
    ],
)
def test_a_broken_document_is_one_rejection(content_type: str, text: str, word: str) -> None:
    """A document that cannot be parsed, or has no triples, is one rejection with its content."""
    graphs, [error] = decode(text, content_type)
    assert graphs == []
    assert error.content == text
    assert re.search(word, error.reason)


@pytest.mark.parametrize(
    "text",
    [
        "<> <urn:p> <<( <urn:a> <urn:b> <urn:c> )>> .",
        "<> <urn:p> << <urn:a> <urn:b> <urn:c> >> .",
        "<> <urn:p> <urn:o> {| <urn:a> <urn:b> |} .",
        '<> <urn:p> "x"@en--ltr .',
        "<> <urn:p> " + "<<( <urn:a> <urn:b> " * 50_000,
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
    graphs, rejected = decode(text.decode(), "application/trig")
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
