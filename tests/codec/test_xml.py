"""XML documents as events: identity, interval, triples beside the document, and the order in which they are found."""

from collections import Counter
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import pytest

from motet.codec.decode import Message, decode_bytes, decode_file, decode_messages
from motet.codec.events import Decoded
from motet.codec.identity import BatchInput
from motet.codec.options import DecodeOptions, Limits
from motet.codec.row_mapping import GENERIC, RowMapping
from motet.codec.xml import decode_xml, xml_mapping
from motet.model.batches import EventRow, event_rows
from motet.model.times import parse_datetime

ORDER = b"<order n='7' at='2026-11-15T10:00:00Z'><pay>finished</pay></order>"
MAPPING = """
event: {root: order, id: "urn:order:{@n}", time: "@at"}
properties: {pay: urn:pay}
"""
STATED = b"""<order xmlns:motet="urn:motet:ns#" motet:id="urn:e:9" motet:start="2026-11-15T10:00:00Z"
 motet:end="2026-11-15T10:00:05Z" n="7"/>"""
TEN = parse_datetime("2026-11-15T10:00:00Z")
TIME = ("<urn:order:7>", "<http://www.w3.org/ns/sosa/resultTime>",
        '"2026-11-15T10:00:00Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>')  # fmt: skip


def decode(data: bytes, *mappings: RowMapping, **options: object) -> Decoded:
    return decode_xml(data, DecodeOptions("a.xml", xml_mappings=mappings, **options))  # type: ignore[arg-type]


def event(data: bytes, *mappings: RowMapping, **options: object) -> EventRow:
    [row] = event_rows(decode(data, *mappings, **options).events)
    return row


def reason(data: bytes, *mappings: RowMapping, **options: object) -> str:
    decoded = decode(data, *mappings, **options)
    assert decoded.events.num_rows == 0
    [error] = decoded.rejected
    return error.reason


def test_the_mapping_states_id_and_time() -> None:
    """And the triples; the document is kept as it is."""
    triples = (TIME, ("<urn:order:7>", "<urn:pay>", '"finished"'))
    assert event(ORDER, xml_mapping(MAPPING)) == EventRow("urn:order:7", TEN, TEN, triples, ORDER)


def test_without_a_mapping_the_root_states_id_and_interval() -> None:
    """In attributes of the namespace of Motet; a start alone is a point. No triples are stored."""
    assert event(STATED) == EventRow("urn:e:9", TEN, TEN + 5_000_000, (), STATED)
    point = STATED.replace(b'motet:end="2026-11-15T10:00:05Z"', b"")
    assert (event(point).start, event(point).end) == (TEN, TEN)


def test_the_call_precedes_the_mapping_and_the_mapping_the_root() -> None:
    """What the mapping does not state is read from the root."""
    mapping = xml_mapping('event: {root: order, id: "urn:order:{@n}"}\nproperties: {"@n": urn:n}')
    found = event(STATED, mapping)
    assert (found.id, found.start, found.end) == ("urn:order:7", TEN, TEN + 5_000_000)
    assert event(STATED, mapping, id="urn:call:1").id == "urn:call:1"
    [triple] = event(STATED, mapping, id="urn:call:1").triples
    assert triple[0] == "<urn:call:1>"


def test_identity_from_the_content() -> None:
    """The canonical form; equal documents of one input are numbered, so that reading it again adds nothing."""
    same = b'<order  at="2026-11-15T10:00:00Z" n="7"><!-- paid --><pay>finished</pay></order>'
    canonical = '<order at="2026-11-15T10:00:00Z" n="7"><pay>finished</pay></order>'
    expected = [sha256(f"urn:batch\n{n}\n{canonical}".encode()).hexdigest() for n in range(2)]
    messages = [Message(data, "application/xml", name="queue") for data in (ORDER, same)]
    found = decode_messages(messages, batch=BatchInput("urn:batch", Counter())).events.column("id").to_pylist()
    assert found == [f"urn:motet:event:{digest}" for digest in expected]
    assert (
        event(ORDER).id
        == event(same).id
        == f"urn:motet:event:{sha256(f'{chr(10)}0{chr(10)}{canonical}'.encode()).hexdigest()}"
    )
    assert event(ORDER, input_id="urn:message:1").id == "urn:message:1"


def test_a_message_gives_its_time_to_a_document_without_one() -> None:
    """As to every event that states no time."""
    messages = [Message(data, "text/xml", name="queue", time=5) for data in (ORDER, STATED)]
    assert [row.start for row in event_rows(decode_messages(messages).events)] == [5, TEN]


CE: Mapping[str, str] = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/shop", "ce-type": "order",
                         "ce-time": "2026-11-15T11:00:00+01:00"}  # fmt: skip


def test_the_envelope_of_a_cloudevent_states_id_and_time() -> None:
    """Before the mapping and the root; its attributes are stated of the event, in both modes."""
    binary = list(decode_bytes(STATED, "application/order+xml", headers=CE))
    structured = list(
        decode_bytes(
            b'{"specversion": "1.0", "id": "1", "source": "/shop", "type": "order",'
            b'"time": "2026-11-15T11:00:00+01:00", "datacontenttype": "text/xml", "data": "<order/>"}',
            "application/cloudevents+json",
        )
    )
    [first], [second] = ([row for batch in each for row in event_rows(batch.events)] for each in (binary, structured))
    assert (first.id, first.start, first.end) == ("urn:cloudevents:%2Fshop:1", TEN, TEN)
    assert first[:4] == second[:4]
    assert (first.payload, second.payload) == (STATED, b"<order/>")
    assert ("<urn:cloudevents:%2Fshop:1>", "<urn:cloudevents:attribute:type>", '"order"') in first.triples


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        (b'motet:id="x"', "the attribute id of the root is 'x'"),
        (b'motet:id="urn:motet:tick"', "the attribute id of the root is 'urn:motet:tick'"),
        (b'motet:end="2026-11-15T10:00:00Z"', "the root has the attribute end and no start"),
        (b'motet:time="2026-11-15T10:00:00Z"', "the root has an unknown attribute time in urn:motet:ns#"),
        (b'motet:start="ten"', "the attribute start of the root: 'ten' is not an xsd:dateTime such as 2026-11-15T10:00:00Z"),  # noqa: E501
        (
            b'motet:start="2026-11-15T10:00:00Z" motet:end="2026-11-15T09:00:00Z"',
            "the document ends before it starts",
        ),
    ],
)  # fmt: skip
def test_wrong_attributes_of_the_root_are_refused(attributes: bytes, expected: str) -> None:
    """Nothing of Motet's namespace is ignored."""
    assert reason(b'<a xmlns:motet="urn:motet:ns#" ' + attributes + b"/>") == expected


def test_rdf_xml_is_no_xml_event() -> None:
    """It would be stored, and none of its triples seen."""
    assert reason(b'<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#"/>') == "the document is RDF/XML"


def test_the_limits_of_the_input_hold() -> None:
    """Size and depth."""
    assert reason(ORDER, limits=Limits(max_event_bytes=20)) == "the XML document is larger than 20 bytes"
    assert reason(ORDER, limits=Limits(max_depth=1)) == "the XML has elements nested deeper than 1"


def test_a_bad_document_costs_no_other_its_place(tmp_path: Path) -> None:
    """Its rejection has its line, column and text."""
    messages = [Message(data, "text/xml", name=f"m {n}") for n, data in enumerate((ORDER, b"<a>\n<b>", STATED))]
    decoded = decode_messages(messages)
    assert decoded.events.column("payload").to_pylist() == [ORDER, STATED]
    [error] = decoded.rejected
    assert (error.source, error.line, error.content) == ("m 1", 2, "<a>\n<b>")
    (tmp_path / "bad.xml").write_bytes(b"<!DOCTYPE a><a/>")
    [decoded] = decode_file(str(tmp_path / "bad.xml"))
    assert str(decoded.rejected[0]).startswith(f"{tmp_path}/bad.xml, line 1, column 1: the XML has a document type")


def test_the_first_mapping_for_the_root_is_taken() -> None:
    """Documents that no mapping is for are stored without triples; the generic mapping is for all."""
    other = xml_mapping("event: {root: invoice}\nproperties: {n: urn:n}")
    assert event(ORDER, other).triples == ()
    assert event(ORDER, other, xml_mapping(MAPPING), xml_mapping(GENERIC)).id == "urn:order:7"
    generic = event(ORDER, other, xml_mapping(GENERIC))
    assert {p for _, p, _ in generic.triples} >= {"<urn:xml:@n>", "<urn:xml:@at>", "<urn:xml:pay>"}


def test_the_mappings_id_is_an_iri_of_ones_own() -> None:
    """It may not be reserved, and needs its values."""
    reserved = xml_mapping('event: {root: order, id: "urn:motet:{@n}"}\nproperties: {pay: urn:pay}')
    assert reason(ORDER, reserved) == "the event id <urn:motet:7> is reserved"
    absent = xml_mapping('event: {root: order, id: "urn:o:{@m}"}\nproperties: {pay: urn:pay}')
    assert reason(ORDER, absent) == "@m selects nothing, and the event's id needs it"
