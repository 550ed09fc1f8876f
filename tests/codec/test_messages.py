"""Messages to events."""

from __future__ import annotations

import gzip

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.codec import messages as module
from motet.codec.messages import Message, decode_messages
from motet.model.errors import DecodeError
from motet.model.schemas import EVENTS

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


def parts(messages: list[Message]) -> tuple[pa.Table, list[dict[str, object]]]:
    """The events without their lines, which depend on what stood before them, and the rejections."""
    decoded = decode_messages(messages)
    return pa.Table.from_batches([decoded.events], EVENTS).drop(["line"]), [one.to_json() for one in decoded.rejected]


@given(st.lists(bodies, max_size=8))
def test_messages_together_are_as_each_alone(datas: list[bytes]) -> None:
    """However messages are decoded, the outcome is that of decoding one after another."""
    messages = [Message(data, NQUADS, f"message {n}", n) for n, data in enumerate(datas)]
    alone = [parts([message]) for message in messages]
    events = pa.concat_tables([EVENTS.empty_table().drop(["line"]), *(found for found, _ in alone)])
    together, rejected = parts(messages)
    assert together.to_pylist() == events.to_pylist()
    assert rejected == [error for _, errors in alone for error in errors]


def test_plain_messages_are_decoded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages with nothing odd about them cost one decoding, and the time of each is its own arrival."""

    def refuse(message: Message, limits: object) -> None:
        raise AssertionError(message)

    monkeypatch.setattr(module, "_decode_alone", refuse)
    sent = [Message(b"<urn:s> <urn:p> _:b <urn:e:%d> ." % n, NQUADS, "m", 1000 * n) for n in range(50)]
    events = decode_messages(sent).events
    assert events.column("id").to_pylist() == [f"urn:e:{n}" for n in range(50)]
    assert events.column("end").cast(pa.int64()).to_pylist() == [1000 * n for n in range(50)]


@pytest.mark.parametrize(
    ("content_type", "event_id", "reason"),
    [
        ("no/type", None, "the content type 'no/type' is not known"),
        ("text/turtle", "no iri", "the event id 'no iri' is not an absolute IRI"),
        ("application/cloudevents+json", None, "a CloudEvent is a JSON object"),
    ],
)
def test_a_rejection_holds_the_message(content_type: str, event_id: str | None, reason: str) -> None:
    """What a message says about itself can be wrong too; the dead letter has what was sent."""
    (error,) = decode_messages([Message(b"[5]", content_type, "m 1", 0, event_id=event_id)]).rejected
    assert isinstance(error, DecodeError)
    assert (error.source, error.reason, error.content) == (
        "m 1",
        reason,
        "[5]" if content_type != "application/cloudevents+json" else "5",
    )
