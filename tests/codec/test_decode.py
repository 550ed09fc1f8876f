"""Decoding of any bytes in any format, and of messages."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.codec import decode as module
from motet.codec.decode import Message, decode_bytes, decode_file, decode_messages
from motet.codec.formats import Format
from motet.model.batches import EVENTS
from motet.model.errors import DecodeError

SAMPLES = {
    Format.N_QUADS: b'<urn:s> <urn:p> "1"@en <urn:e> .\n_:b <urn:p> <urn:o> <urn:f> .\n',
    Format.TRIG: b'@prefix x: <urn:x:> . x:e { x:s x:p [ x:q ("a" 1 true) ] } x:f { x:s a x:C }',
    Format.TURTLE: b'@prefix x: <urn:x:> . [] x:p """long""", [ x:q 1.5 ] .',
    Format.N_TRIPLES: b'_:s <urn:p> "1"^^<urn:d> .\n',
    Format.JSON_LD: b'{"@context": {"p": "urn:p"}, "p": [1, {"@value": "x", "@language": "en"}]}',
    Format.RDF_XML: b'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:x="urn:x:">'
    b'<x:C rdf:about=""><x:p>1</x:p></x:C></rdf:RDF>',
    Format.CLOUDEVENT: b'{"specversion": "1.0", "id": "1", "source": "s", "type": "t", "time": "2026-01-01T00:00:00Z",'
    b' "datacontenttype": "text/turtle", "data": "<> a <urn:C> ."}',
    Format.CLOUDEVENTS_BATCH: b'[{"specversion": "1.0", "id": "1", "source": "s", "type": "t"}]',
}


@pytest.mark.parametrize("syntax", SAMPLES)
def test_samples_are_valid(syntax: Format) -> None:
    """Each format's sample decodes without rejections (which the next test relies on)."""
    batches = list(decode_bytes(SAMPLES[syntax], syntax.value))
    assert sum(decoded.events.num_rows for decoded in batches) >= 1
    assert [error for decoded in batches for error in decoded.rejected] == []


@pytest.mark.parametrize("syntax", SAMPLES)
@given(data=st.data())
@settings(deadline=None, max_examples=60)
def test_damaged_input_never_raises(syntax: Format, data: st.DataObject) -> None:
    """Damaged input of any format ends in events and rejections with reasons, never in an exception."""
    sample = SAMPLES[syntax]
    start = data.draw(st.integers(0, len(sample)))
    stop = data.draw(st.integers(start, min(len(sample), start + 10)))
    junk = data.draw(
        st.binary(max_size=4) | st.sampled_from([b"<", b'"', b"{", b"}", b"\\u0000", b"\xed\xa0\x80", b"_:", b"<<("])
    )
    for decoded in decode_bytes(sample[:start] + junk + sample[stop:], syntax.value):
        assert decoded.events.schema == EVENTS
        decoded.events.validate(full=True)
        assert all(error.reason and error.source == "input" and str(error) for error in decoded.rejected)


def test_time_properties_can_be_chosen() -> None:
    """The properties that hold the time of an event are a parameter."""
    text = b'<urn:e> <urn:when> "2026-01-01T00:00:00Z"^^<http://www.w3.org/2001/XMLSchema#dateTime> <urn:e> .'
    [decoded] = decode_bytes(text, "application/n-quads", time_properties=(("urn:when",),))
    assert decoded.events.column("start")[0].as_py().isoformat() == "2026-01-01T00:00:00+00:00"


def test_content_type_of_a_file(tmp_path: Path) -> None:
    """A content type selects the format of a file whose name has no known suffix."""
    (tmp_path / "events").write_bytes(SAMPLES[Format.N_QUADS])
    [decoded] = decode_file(str(tmp_path / "events"), content_type="application/n-quads")
    assert decoded.events.column("id").to_pylist() == ["urn:e", "urn:f"]


NQUADS = "application/n-quads"
PROV = "http://www.w3.org/ns/prov#atTime"
DATE = "http://www.w3.org/2001/XMLSchema#dateTime"

quads = st.sampled_from(
    [
        '<urn:s> <urn:p> "o" <urn:e:1> .',
        "<urn:s> <urn:p> _:b <urn:e:1> .",
        "<urn:s> <urn:p> _:b <urn:e:2> .",
        f'<urn:e:3> <{PROV}> "2026-11-15T10:00:00Z"^^<{DATE}> <urn:e:3> .',
        f'<urn:e:3> <{PROV}> "never"^^<{DATE}> <urn:e:3> .',
        "<urn:s> <urn:p> <urn:o> .",
        "<urn:s> <urn:p> junk <urn:e:4> .",
        "# a comment",
        "",
    ]
)
texts = st.builds(lambda lines, end: end.join(lines).encode(), st.lists(quads, max_size=4), st.sampled_from("\n\r"))
bodies = texts | texts.map(lambda text: text + b"\n") | texts.map(gzip.compress)


def decode_rows(messages: list[Message]) -> tuple[pa.Table, list[dict[str, object]]]:
    """The events without their lines, which depend on earlier messages, and the rejections."""
    decoded = decode_messages(messages)
    return pa.Table.from_batches([decoded.events], EVENTS).drop(["line"]), [
        error.to_json() for error in decoded.rejected
    ]


@given(st.lists(bodies, max_size=8))
def test_joined_messages_decode_as_separate_ones(datas: list[bytes]) -> None:
    """Decoding several messages gives the same events and rejections as decoding each separately."""
    messages = [Message(data, NQUADS, f"message {n}", n) for n, data in enumerate(datas)]
    separate = [decode_rows([message]) for message in messages]
    events = pa.concat_tables([EVENTS.empty_table().drop(["line"]), *(events for events, _ in separate)])
    joined, rejected = decode_rows(messages)
    assert joined.to_pylist() == events.to_pylist()
    assert rejected == [error for _, errors in separate for error in errors]


def test_nquads_messages_are_decoded_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Valid N-Quads messages are decoded as one text; events that state no time have that of their message."""

    def refuse(message: Message, limits: object) -> None:
        raise AssertionError(message)

    monkeypatch.setattr(module, "_decode_single", refuse)
    sent = [Message(b"<urn:s> <urn:p> _:b <urn:e:%d> ." % n, NQUADS, "m", 1000 * n) for n in range(50)]
    events = decode_messages(sent).events
    assert events.column("id").to_pylist() == [f"urn:e:{n}" for n in range(50)]
    assert events.column("end").cast(pa.int64()).to_pylist() == [1000 * n for n in range(50)]


@pytest.mark.parametrize(
    ("content_type", "input_id", "reason"),
    [
        ("no/type", None, "the content type 'no/type' is not known"),
        ("text/turtle", "no iri", "the input id 'no iri' is not an absolute IRI"),
        ("application/cloudevents+json", None, "a CloudEvent is a JSON object"),
    ],
)
def test_a_rejection_contains_the_message(content_type: str, input_id: str | None, reason: str) -> None:
    """A message with wrong metadata is rejected, and the rejection contains its data."""
    (error,) = decode_messages([Message(b"[5]", content_type, "m 1", 0, input_id=input_id)]).rejected
    assert isinstance(error, DecodeError)
    assert (error.source, error.reason, error.content) == (
        "m 1",
        reason,
        "[5]" if content_type != "application/cloudevents+json" else "5",
    )
