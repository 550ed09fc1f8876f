"""CloudEvents around RDF."""

import base64
import json
from collections.abc import Mapping

import pytest

from motet.codec.decode import decode_bytes
from motet.model.errors import DecodeError

CE = "urn:cloudevents:attribute:"
BASE = {"specversion": "1.0", "id": "a/1", "source": "/rooms", "type": "alarm"}
IRI = "urn:cloudevents:%2Frooms:a%2F1"
STATED = {(f"<{IRI}>", f"<{CE}{name}>", f'"{BASE[name]}"') for name in ("id", "source", "type")}
TRIPLE = (f"<{IRI}>", "<urn:p>", "<urn:o>")

Events = list[tuple[str, set[tuple[str, str, str]]]]


def decode(
    document: object, content_type: str = "application/cloudevents+json", headers: Mapping[str, str] | None = None
) -> tuple[Events, list[DecodeError]]:
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    events: Events = []
    rejected: list[DecodeError] = []
    for decoded in decode_bytes(data, content_type, headers=headers):
        for row in decoded.events.to_pylist():
            events.append((row["id"], {(t["subject"], t["predicate"], t["object"]) for t in row["triples"]}))
        rejected += decoded.rejected
    return events, rejected


@pytest.mark.parametrize(
    "data",
    [
        {"datacontenttype": "text/turtle", "data": "<> <urn:p> <urn:o> ."},
        {"datacontenttype": "text/turtle", "data_base64": base64.b64encode(b"<> <urn:p> <urn:o> .").decode()},
        {"datacontenttype": "application/ld+json", "data": {"@id": "", "urn:p": {"@id": "urn:o"}}},
        {"datacontenttype": "application/ld+json", "data": '{"@id": "", "urn:p": {"@id": "urn:o"}}'},
    ],
)
def test_structured_mode(data: dict[str, object]) -> None:
    """Data without graphs is one event, named by source and id, with the attributes among its triples."""
    assert decode(BASE | data) == ([(IRI, STATED | {TRIPLE})], [])


def test_binary_mode() -> None:
    """Headers carry the attributes, percent-encoded; the body is the data."""
    headers = {f"CE-{name}": value for name, value in BASE.items()} | {"ce-subject": "Stra%C3%9Fe", "Accept": "*/*"}
    subject = (f"<{IRI}>", f"<{CE}subject>", '"Straße"')
    assert decode(b"<> <urn:p> <urn:o> .", "text/turtle", headers) == ([(IRI, STATED | {TRIPLE, subject})], [])


def test_graphs_keep_their_iris() -> None:
    """Data with graphs keeps their IRIs, and the attributes are stated about each of them."""
    data = "<urn:a> {<urn:s> <urn:p> <urn:o>} <urn:b> {<urn:s> <urn:p> <urn:o>}"
    events, rejected = decode(BASE | {"datacontenttype": "application/trig", "data": data})
    own = {name: {(f"<{name}>", p, o) for _, p, o in STATED} for name in ("urn:a", "urn:b")}
    assert (events, rejected) == ([(name, own[name] | {("<urn:s>", "<urn:p>", "<urn:o>")}) for name in own], [])


def test_extensions_and_no_data() -> None:
    """Extensions of any simple type become strings; a CloudEvent without data is its attributes."""
    events, rejected = decode(BASE | {"priority": 5, "urgent": True, "empty": None})
    more = {(f"<{IRI}>", f"<{CE}priority>", '"5"'), (f"<{IRI}>", f"<{CE}urgent>", '"true"')}
    assert (events, rejected) == ([(IRI, STATED | more)], [])


@pytest.mark.parametrize(
    ("triples", "expected"),
    [
        ("<> <urn:p> <urn:o> .", "2026-01-01T00:00:00+00:00"),
        (
            "<> <http://www.w3.org/ns/sosa/resultTime>"
            ' "2020-01-01T00:00:00Z"^^<http://www.w3.org/2001/XMLSchema#dateTime> .',
            "2020-01-01T00:00:00+00:00",
        ),
    ],
)
def test_time(triples: str, expected: str) -> None:
    """The time attribute is the event's time when its triples have none."""
    document = BASE | {"time": "2026-01-01t01:00:00+01:00", "datacontenttype": "text/turtle", "data": triples}
    [decoded] = decode_bytes(json.dumps(document).encode(), "application/cloudevents+json")
    assert [decoded.events.column(name)[0].as_py().isoformat() for name in ("start", "end")] == [expected] * 2


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"specversion": "0.3"}, "specversion"),
        ({"id": None}, "lacks id"),
        ({"source": "", "type": None}, "lacks source, type"),
        ({"Bad-Name": "x"}, "Bad-Name"),
        ({"nested": {"a": 1}}, "nested"),
        ({"time": "yesterday"}, "time"),
        ({"data": {"level": 5}}, "application/json"),
        ({"data": "x", "datacontenttype": "text/plain"}, "text/plain"),
        ({"data": "{}", "datacontenttype": "application/cloudevents+json"}, "contains CloudEvents"),
        ({"data_base64": "!", "datacontenttype": "text/turtle"}, "base64"),
        ({"data": "oops", "datacontenttype": "text/turtle"}, "not TURTLE"),
    ],
)
def test_one_bad_event_of_a_batch(change: dict[str, object], word: str) -> None:
    """Only the bad CloudEvent of a batch is rejected, with a reason."""
    batch = [BASE | {"id": "1"}, {k: v for k, v in (BASE | change).items() if v is not None}, BASE | {"id": "3"}]
    events, [error] = decode(batch, "application/cloudevents-batch+json")
    assert [event for event, _ in events] == ["urn:cloudevents:%2Frooms:1", "urn:cloudevents:%2Frooms:3"]
    assert word in error.reason
    assert error.content


@pytest.mark.parametrize("data", [b"{", b'{"id": NaN}', b"\xff", b"5"])
def test_not_a_cloudevent_at_all(data: bytes) -> None:
    """Bytes that are not a JSON object give one rejection."""
    events, [error] = decode(data)
    assert (events, bool(error.advice)) == ([], True)


def test_incomplete_headers() -> None:
    """A request in binary mode that lacks an attribute gives one rejection."""
    events, [error] = decode(b"<> <urn:p> <urn:o> .", "text/turtle", {"ce-id": "1"})
    assert (events, "specversion" in error.reason) == ([], True)


def test_equal_ids_in_a_batch_are_one_event() -> None:
    """Two CloudEvents with the same source, id and data in a batch are one event, whatever their attributes are."""
    twice = [BASE | {"n": 1}, BASE | {"n": 2}]
    events, rejected = decode(twice, "application/cloudevents-batch+json")
    assert ([(event, len(triples)) for event, triples in events], rejected) == ([(IRI, 4)], [])


@pytest.mark.parametrize("value", ["1e999", '"\\ud800"'])
def test_data_that_json_allows_and_rdf_does_not(value: str) -> None:
    """An infinite number or a lone surrogate in the data rejects only its CloudEvent."""
    bad = json.dumps(BASE | {"datacontenttype": "application/ld+json"})[:-1] + f', "data": {{"urn:p": {value}}}}}'
    events, [error] = decode(f"[{bad}, {json.dumps(BASE)}]".encode(), "application/cloudevents-batch+json")
    assert ([event for event, _ in events], bool(error.reason)) == ([IRI], True)
