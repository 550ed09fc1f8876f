"""NATS JetStream as a source and a sink, with a real server."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest
from tests.row_carriers import CSV, MAPPING, NDJSON, ROWS, events_of, ingested

from motet.cli.main import main
from motet.connectors.ingestion import IngestResult
from motet.connectors.nats import StreamSource, SubjectSink, deliver, ingest_stream
from motet.lake import Lake
from motet.model.batches import notification_batch, record_rows
from motet.model.errors import DecodeError, EngineError, UsageError
from motet.model.notifications import Notification

if TYPE_CHECKING:
    from nats.js import JetStreamContext

CRASHING = str(Path(__file__).with_name("crashing.py"))
CLOUD_EVENT = {"ce-specversion": "1.0", "ce-id": "7", "ce-source": "/rooms", "ce-type": "alarm"}

With = Callable[[Callable[["JetStreamContext"], Any]], Any]
Sent = tuple[bytes, dict[str, str] | None]


def quad(n: int) -> bytes:
    return f'<urn:e:{n}> <urn:p> "x" <urn:e:{n}> .\n'.encode()


def publish(
    with_jetstream: With, stream: str, messages: list[Sent], *, ack_wait: float | None = None, window: float = 120
) -> None:
    """Create a stream with messages; with ``ack_wait`` also its consumer, which redelivers after that time."""

    async def action(jetstream: JetStreamContext) -> None:
        from nats.js.api import AckPolicy, ConsumerConfig

        await jetstream.add_stream(name=stream, subjects=[f"{stream}.>"], duplicate_window=window)
        for data, headers in messages:
            await jetstream.publish(f"{stream}.x", data, headers=headers)
        if ack_wait is not None:
            config = ConsumerConfig(durable_name="motet", ack_policy=AckPolicy.EXPLICIT, ack_wait=ack_wait)
            await jetstream.add_consumer(stream, config)

    with_jetstream(action)


def stored(with_jetstream: With, stream: str) -> list[tuple[str, bytes, dict[str, str]]]:
    async def action(jetstream: JetStreamContext) -> list[tuple[str, bytes, dict[str, str]]]:
        state = (await jetstream.stream_info(stream)).state
        found = [await jetstream.get_msg(stream, seq=n) for n in range(1, state.messages + 1)]
        return [(one.subject or "", one.data or b"", one.headers or {}) for one in found]

    found: list[tuple[str, bytes, dict[str, str]]] = with_jetstream(action)
    return found


def ingest(url: str, stream: str, lake: Lake) -> tuple[list[IngestResult], list[DecodeError]]:
    results: list[IngestResult] = []
    rejected: list[DecodeError] = []
    ingest_stream(
        StreamSource(url, stream, "motet"),
        lake,
        rejected.extend,
        on_commit=results.append,
        report=print,
        stop_requested=Event(),
        once=True,
    )
    return results, rejected


def rows(lake: Lake, *columns: str) -> list[dict[str, Any]]:
    records = lake.snapshot().records(1, columns=list(columns))  # after those of the settings
    return [row for batch in records for row in batch.to_pylist()]


def test_headers_of_messages(nats_url: str, with_jetstream: With, tmp_path: Path) -> None:
    """Content-Type, CloudEvents headers and Nats-Msg-Id are understood; equal documents are two events."""
    turtle = b"<> <urn:p> 5 ."
    plain = {"Content-Type": "text/turtle"}
    publish(
        with_jetstream,
        "HEADERS",
        [
            (quad(1), None),
            (turtle, plain),
            (turtle, plain),
            (turtle, plain | CLOUD_EVENT),
            (turtle, plain | {"Nats-Msg-Id": "a b"}),
        ],
    )
    lake = Lake.open(tmp_path / "lake")
    results, rejected = ingest(nats_url, "HEADERS", lake)
    assert (sum(result.accepted for result in results), rejected) == (5, [])
    ids = [row["id"] for row in rows(lake, "id")]
    origin = ids[1].removesuffix(":2")
    assert origin.startswith("urn:nats:HEADERS:")
    assert ids == ["urn:e:1", f"{origin}:2", f"{origin}:3", "urn:cloudevents:%2Frooms:7", f"{origin}:id:a%20b"]


def test_undecodable_messages_are_rejected(nats_url: str, with_jetstream: With, tmp_path: Path) -> None:
    """A message that cannot be decoded is rejected with its sequence number and is not delivered again."""
    publish(with_jetstream, "BAD", [(b"junk", None), (b"\xff", {"Content-Type": "image/png"}), (quad(1), None)])
    lake = Lake.open(tmp_path / "lake")
    results, rejected = ingest(nats_url, "BAD", lake)
    assert [(result.inputs, result.accepted, result.rejected) for result in results] == [(3, 1, 2)]
    assert [(error.source, error.content) for error in rejected] == [
        ("BAD message 1", "junk"),
        ("BAD message 2", "\ufffd"),
    ]
    assert ingest(nats_url, "BAD", lake) == ([], [])


def test_messages_with_rows(nats_url: str, with_jetstream: With, tmp_path: Path) -> None:
    """Messages with JSON, NDJSON and CSV are events by the mapping that files have; bad rows are rejected alone."""
    messages: list[Sent] = [
        (json.dumps(ROWS[0]).encode(), {"Content-Type": "application/json"}),
        (NDJSON.encode(), {"Content-Type": "application/x-ndjson"}),
        (CSV.encode() + b"\n4,Heat,noon,hall,1\n", None),
        (b'{"n": 5}', {"Content-Type": "application/json"}),
    ]
    publish(with_jetstream, "ROWS", messages)
    (tmp_path / "m.yaml").write_text(MAPPING)
    rows_of_nats = ["--nats", nats_url, "--stream", "ROWS", "--content-type", "text/csv", "--once"]
    lake = tmp_path / "lake"
    assert main(["ingest", "--lake", str(lake), "--map", str(tmp_path / "m.yaml"), *rows_of_nats]) == 1
    assert events_of(lake) == ingested(tmp_path)
    letters = [json.loads(line) for line in (lake / "dead-letter" / "rejected.jsonl").read_text().splitlines()]
    assert [(letter["source"], letter["line"]) for letter in letters] == [
        ("ROWS message 3", 5),
        ("ROWS message 4", None),
    ]
    assert "there is no column 'kind', 'time', 'room', 'celsius'" in letters[1]["reason"]


def test_messages_with_xml(nats_url: str, with_jetstream: With, tmp_path: Path) -> None:
    """Alone, with an id of the message, or in a CloudEvent; lifted by the mapping of the lake; a bad one is alone."""
    messages: list[Sent] = [
        (b"<order n='1'/>", {"Content-Type": "text/xml"}),
        (b"<order>", {"Content-Type": "application/xml"}),
        (b"<other/>", {"Content-Type": "application/order+xml", "Nats-Msg-Id": "urn:m:3"}),
        (b"<order n='4'/>", CLOUD_EVENT | {"Content-Type": "text/xml"}),
    ]
    publish(with_jetstream, "XML", messages)
    lake = Lake.open(tmp_path, mappings=('event: {root: order, id: "urn:o:{@n}"}\nproperties: {"@n": urn:n}',))
    _, rejected = ingest(nats_url, "XML", lake)
    assert ["not well-formed XML" in error.reason for error in rejected] == [True]
    rows = [row for batch in lake.snapshot().records(1) for row in record_rows(batch)]
    ids = [str(row.id) for row in rows]
    assert [ids[0], ids[2]] == ["urn:o:1", "urn:cloudevents:%2Frooms:7"]
    assert ids[1].startswith("urn:nats:XML:")
    assert ids[1].endswith(":id:urn%3Am%3A3")
    assert [row.payload for row in rows] == [messages[n][0] for n in (0, 2, 3)]
    assert ("<urn:n>", '"4"^^<http://www.w3.org/2001/XMLSchema#integer>') in [triple[1:] for triple in rows[2].triples]


def test_a_conflict_is_a_dead_letter(nats_url: str, with_jetstream: With, tmp_path: Path) -> None:
    """ "in a load or a message only the event, as a dead letter": its message is acknowledged, the others are taken."""
    changed = quad(1).replace(b'"x"', b'"y"')
    publish(with_jetstream, "CHANGED", [(quad(1), None), (changed + quad(2), None), (quad(1), None)])
    lake = Lake.open(tmp_path / "lake")
    (result,), (letter,) = ingest(nats_url, "CHANGED", lake)
    assert (result.inputs, result.accepted, result.repeated, result.rejected) == (3, 2, 1, 1)
    assert (letter.event, (letter.content or "").encode()) == ("urn:e:1", changed)
    assert ingest(nats_url, "CHANGED", lake) == ([], [])


@pytest.mark.parametrize(
    ("call", "count"), [("motet.lake:Lake.append", 1), ("motet.lake:Lake.append", 2), ("nats.aio.msg:Msg.ack", 3)]
)
def test_a_kill_during_ingestion_loses_and_repeats_nothing(
    call: str, count: int, nats_url: str, with_jetstream: With, tmp_path: Path
) -> None:
    """Killed before a commit or between commit and acknowledgement: after the next run every event is there once."""
    stream = f"KILL-{call.rpartition('.')[2]}-{count}"
    messages: list[Sent] = [(quad(n), None) for n in range(600)]
    publish(with_jetstream, stream, [*messages, (b"<> <urn:p> 1 .", {"Content-Type": "text/turtle"})], ack_wait=0.5)
    lake = str(tmp_path / "lake")
    arguments = ["ingest", "--lake", lake, "--nats", nats_url, "--stream", stream, "--once", "--json"]
    command = [sys.executable, CRASHING, call, str(count), *arguments]
    assert subprocess.run(command, capture_output=True, check=False).returncode == -signal.SIGKILL
    assert main(arguments) == 0
    ids = [row["id"] for row in rows(Lake.open(lake), "id")]
    named = sorted(id_ for id_ in ids if id_.startswith("urn:e:"))
    assert (named, len(ids)) == (sorted(f"urn:e:{n}" for n in range(600)), 601)


def test_errors_name_the_problem(nats_url: str, with_jetstream: With, tmp_path: Path) -> None:
    """An unknown stream, a wrong address, an unreachable server and an unsuitable consumer are named."""
    publish(with_jetstream, "THERE", [])
    lake = Lake.open(tmp_path / "lake")
    with pytest.raises(UsageError, match=r"no stream 'ELSEWHERE'\n.*THERE"):
        ingest(nats_url, "ELSEWHERE", lake)
    with pytest.raises(EngineError, match=r"cannot connect to NATS at nats://127.0.0.1:1: "):
        ingest("nats://me:secret@127.0.0.1:1", "THERE", lake)
    with pytest.raises(UsageError, match="is not a NATS URL"):
        ingest("http://127.0.0.1", "THERE", lake)

    async def unacknowledged(jetstream: JetStreamContext) -> None:
        from nats.js.api import AckPolicy, ConsumerConfig

        await jetstream.add_consumer("THERE", ConsumerConfig(durable_name="motet", ack_policy=AckPolicy.NONE))

    with_jetstream(unacknowledged)
    with pytest.raises(UsageError, match="is not a pull consumer with explicit"):
        ingest(nats_url, "THERE", lake)


@pytest.fixture
def notified(tmp_path: Path) -> Lake:
    """A lake with 1 100 notifications, two at each offset."""
    lake = Lake.open(tmp_path / "lake", lateness=None)
    for n in range(2):
        lake.tick(n)
    found = [(Notification(f"s.{n % 2}", n, n, (f"urn:e:{n}",), ()), n // 550) for n in range(1100)]
    lake.commit_notifications(notification_batch(found), 0, 2)
    return lake


def lines(lake: Lake) -> list[str]:
    from motet.model.batches import notification_rows

    return [found.to_line() for batch in lake.notifications() for found, _ in notification_rows(batch)]


@pytest.mark.parametrize(
    ("call", "count"), [("motet.lake:Lake.advance_cursor", 2), ("nats.js.client:JetStreamContext.publish_async", 700)]
)
def test_a_kill_during_delivery_loses_and_repeats_nothing(
    call: str, count: int, nats_url: str, with_jetstream: With, notified: Lake
) -> None:
    """Every notification is in the stream once, in log order, although the first process was killed."""
    subject = f"out{count}"
    publish(with_jetstream, subject, [], window=0.1)  # the server has forgotten the first process's messages by then
    arguments = ["deliver", "--lake", str(notified.store.root), "--nats", nats_url, "--once", "--json"]
    arguments += ["--subject", subject + ".{subscription}"]
    command = [sys.executable, CRASHING, call, str(count), *arguments]
    assert subprocess.run(command, capture_output=True, check=False).returncode == -signal.SIGKILL
    assert main(arguments) == 0
    messages = stored(with_jetstream, subject)
    assert [data.decode() for _, data, _ in messages] == lines(notified)
    assert [(name, headers["Nats-Msg-Id"]) for name, _, headers in messages[:2]] == [
        (f"{subject}.s%2E{n}", json.loads(messages[n][1])["id"]) for n in range(2)
    ]
    assert notified.cursor(f"nats:{subject}.{{subscription}}") == 2


def test_a_second_run_delivers_only_new_notifications(nats_url: str, with_jetstream: With, notified: Lake) -> None:
    """A second run delivers nothing; later notifications follow the earlier ones."""
    publish(with_jetstream, "twice", [])
    counts: list[int] = []
    sink = SubjectSink(nats_url, "twice.all", "me")
    for _ in range(2):
        deliver(notified, sink, on_delivered=counts.append, report=print, stop_requested=Event(), once=True)
    assert counts == [500, 500, 100]
    notified.tick(2)
    notified.commit_notifications(notification_batch([(Notification("s", 9, 9, ("urn:e:9",), ()), 2)]), 2, 3)
    deliver(notified, sink, on_delivered=counts.append, report=print, stop_requested=Event(), once=True)
    assert counts == [500, 500, 100, 1]


def test_a_subject_without_a_stream_is_refused(nats_url: str, notified: Lake) -> None:
    """Nothing is published to a subject that no stream stores."""
    for subject, message in (
        ("nobody.listens", "no stream of .* has the subject"),
        ("a..b", "is not a subject"),
        ("a.*", "is not a subject"),
    ):
        with pytest.raises(UsageError, match=message):
            deliver(
                notified,
                SubjectSink(nats_url, subject, "me"),
                on_delivered=print,
                report=print,
                stop_requested=Event(),
                once=True,
            )
    assert notified.cursor("me") == 0
