"""Encoding and decoding events."""

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from motet.codec.decode import decode_bytes
from motet.codec.encode import encode
from motet.codec.formats import Format
from motet.model import terms
from motet.model.batches import EVENTS
from motet.model.errors import UsageError

CE = "urn:cloudevents:attribute:"
Event = tuple[str, frozenset[tuple[str, str, str]]]

iris = st.sampled_from(["urn:a", "http://x/é#y", "http://x/y", "urn:e:1"]).map(terms.iri)
predicates = st.sampled_from(
    ["http://x/p", "http://x#level", f"{CE}id", f"{CE}source", f"{CE}type", f"{CE}time", f"{CE}x"]
)
texts = st.text(max_size=4) | st.sampled_from(["2026-01-01T00:00:00Z", "a", '"\\\n\t', "urn:motet:event"])
literals = st.builds(
    terms.literal, texts, datatype=st.sampled_from([None, terms.XSD + "dateTime", "urn:d"])
) | st.builds(terms.literal, texts, language=st.sampled_from(["en", "de-ch"]))
names = st.sampled_from(["urn:e:1", "urn:e:2", "http://x/e#3", "urn:cloudevents:a:a"])


@st.composite
def events(draw: st.DrawFn) -> Event:
    name = draw(names)
    subjects = iris | st.just(terms.iri(name))
    triples = draw(
        st.frozensets(st.tuples(subjects, predicates.map(terms.iri), iris | literals), min_size=1, max_size=5)
    )
    if draw(st.booleans()):
        triples |= {(terms.iri(name), terms.iri(CE + key), '"a"') for key in ("id", "source", "type")}
    return name, triples


def batch(written: list[Event]) -> pa.RecordBatch:
    rows = [
        {
            "id": name,
            "triples": [dict(zip(("subject", "predicate", "object"), t, strict=True)) for t in sorted(triples)],
            "line": 1,
        }
        for name, triples in written
    ]
    return pa.RecordBatch.from_pylist(rows, schema=EVENTS)


def decode(data: bytes, syntax: Format, event_id: str | None = None) -> list[Event]:
    decoded_events = []
    for decoded in decode_bytes(data, syntax.value, id=event_id, time_properties=()):
        assert decoded.rejected == []
        for row in decoded.events.to_pylist():
            triples = [(t["subject"], t["predicate"], t["object"]) for t in row["triples"]]
            assert len(set(triples)) == len(triples)
            decoded_events.append((row["id"], frozenset(triples)))
    return decoded_events


@pytest.mark.parametrize("syntax", [Format.N_QUADS, Format.TRIG, Format.JSON_LD, Format.CLOUDEVENTS_BATCH])
@settings(deadline=None, max_examples=50)
@given(st.lists(events(), max_size=4, unique_by=lambda event: event[0]))
def test_many_events_round_trip(syntax: Format, written: list[Event]) -> None:
    """Decoding encoded events gives the same events."""
    assume(written or syntax in (Format.N_QUADS, Format.CLOUDEVENTS_BATCH))  # others must not be empty
    assume(syntax is not Format.CLOUDEVENTS_BATCH or not any(_has_two_times(event) for event in written))
    assert sorted(decode(encode(batch(written), syntax), syntax)) == sorted(written)


@pytest.mark.parametrize("syntax", [Format.TURTLE, Format.N_TRIPLES, Format.RDF_XML, Format.CLOUDEVENT])
@settings(deadline=None, max_examples=50)
@given(events())
def test_one_event_round_trips(syntax: Format, written: Event) -> None:
    """Decoding an encoded event with the same IRI gives the same event."""
    assume(syntax is not Format.CLOUDEVENT or not _has_two_times(written))
    try:
        data = encode(batch([written]), syntax)
    except UsageError:
        assert syntax is Format.RDF_XML  # not every text is XML
        return
    assert decode(data, syntax, written[0]) == [written]


def _has_two_times(event: Event) -> bool:
    """Whether the time attribute, which CloudEvents read as the event's time, is not one valid time."""
    name, triples = event
    times = [o for s, p, o in triples if (s, p) == (f"<{name}>", f"<{CE}time>")]
    return times not in ([], [terms.literal("2026-01-01T00:00:00Z", datatype=terms.XSD + "dateTime")])


def test_cloudevents_attributes_are_recovered() -> None:
    """An event decoded from a CloudEvent is encoded with the same attributes, and its triples as N-Quads."""
    import json

    stated = {"id": "1", "source": "/a", "type": "t", "subject": "s", "ext": "5"}
    triples = {("<urn:e>", f"<{CE}{key}>", f'"{value}"') for key, value in stated.items()} | {
        ("<urn:e>", "<urn:p>", "<urn:o>")
    }
    assert json.loads(encode(batch([("urn:e", frozenset(triples))]), "application/cloudevents+json")) == stated | {
        "specversion": "1.0",
        "datacontenttype": "application/n-quads",
        "data": "<urn:e> <urn:p> <urn:o> <urn:e> .\n",
    }


def test_a_slice_encodes_only_its_rows() -> None:
    """A slice of a batch is encoded without the other rows."""
    whole = batch([(f"urn:e:{i}", frozenset({("<urn:s>", "<urn:p>", f"<urn:o{i}>")})) for i in range(5)])
    expected = b"".join(b"<urn:s> <urn:p> <urn:o%d> <urn:e:%d> .\n" % (i, i) for i in (2, 3))
    assert encode(whole.slice(2, 2), "application/n-quads") == expected


def test_one_event_formats_refuse_more() -> None:
    """A format of one event refuses several, and says what to use."""
    two = batch([(f"urn:e:{i}", frozenset({("<urn:s>", "<urn:p>", "<urn:o>")})) for i in range(2)])
    with pytest.raises(UsageError, match=r"(?s)one event, not 2.*n-quads"):
        encode(two, "text/turtle")


@pytest.mark.parametrize("triple", [("<urn:s>", "<http://x/>", "<urn:o>"), ("<urn:s>", "<http://x/p>", '"\\u0001"')])
def test_rdf_xml_refuses_terms_it_cannot_express(triple: tuple[str, str, str]) -> None:
    """A predicate without an XML name, or text XML has no characters for, is refused."""
    with pytest.raises(UsageError, match="RDF/XML"):
        encode(batch([("urn:e", frozenset({triple}))]), "application/rdf+xml")
