"""NATS JetStream as a source of events and a sink for notifications.

Source: messages are committed as they come. A message is acknowledged when its events are in the log or are dead
letters. An unacknowledged message is delivered again and adds nothing, because its events have the same IRIs: one
that has no IRI in its data (as in Turtle) gets it from the id of its message, which is its Nats-Msg-Id, or its
sequence number in the stream. The time of a message is that of events without one.

Sink: notifications are published in log order. The cursor in the lake advances when the server has stored a chunk. At
the start the last stored message is looked up, and delivery continues after it. A message that is sent twice has the
same Nats-Msg-Id, the notification's id, and the server drops it within the stream's duplicate window.

The client reconnects by itself when the server restarts.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, islice
from types import ModuleType
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from motet.codec.decode import Message, decode_messages
from motet.codec.events import OnRejected
from motet.codec.options import decode_settings
from motet.connectors.ingestion import DEFAULT_DOCUMENTS, DocumentOptions, IngestResult, OnCommit, ingest_decoded
from motet.lake import Lake, Snapshot
from motet.model.batches import notification_rows
from motet.model.errors import EngineError, UsageError, require_extra
from motet.model.notifications import Notification

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.js import JetStreamContext
    from nats.js.api import ConsumerInfo, PubAck, StreamInfo

CONNECT_SECONDS = 3.0
FETCH_MESSAGES = 500  # of one commit; a message has 1 MB at most unless the server is configured otherwise
FETCH_SECONDS = 1.0
FETCH_MORE_SECONDS = 0.05
PUBLISH_MESSAGES = 500  # in flight at once, and between two writes of the cursor
PUBLISH_SECONDS = 10.0  # without an acknowledgement: the messages are sent again
POLL_SECONDS = 0.2

Report = Callable[[str], object]  # shows a line to the operator


@asynccontextmanager
async def connect(url: str, report: Report) -> AsyncIterator[Client]:
    """A connection to the server at this address; ``report`` gets a line when it is lost or restored."""
    server = address(url)
    nats = _client_library()
    client: Client = nats.NATS()
    reason = "no answer"

    async def on_disconnected() -> None:
        if not client.is_closed:
            report(f"connection to {server} lost; reconnecting")

    async def on_reconnected() -> None:
        report(f"reconnected to {server}")

    async def on_error(error: Exception) -> None:
        nonlocal reason
        reason = str(error) or type(error).__name__
        if client.is_connected:
            report(f"{server}: {reason}")

    connecting = client.connect(
        url,
        max_reconnect_attempts=-1,
        disconnected_cb=on_disconnected,
        reconnected_cb=on_reconnected,
        error_cb=on_error,
    )
    try:
        await asyncio.wait_for(connecting, CONNECT_SECONDS)
    except (TimeoutError, OSError, nats.errors.Error):
        advice = "Start the server, or check the address."
        raise EngineError(f"cannot connect to NATS at {server}: {reason}", advice=advice) from None
    try:
        yield client
    except nats.js.errors.ServiceUnavailableError:
        advice = "Enable JetStream: nats-server -js"
        raise UsageError(f"JetStream is not enabled on the server at {server}", advice=advice) from None
    except nats.errors.Error as error:
        advice = "Check the server's log, then start again: delivery continues where it stopped."
        raise EngineError(f"error of NATS at {server}: {error}", advice=advice) from error
    finally:
        await client.close()


def address(url: str) -> str:
    """The address of a server without its user and password.

    >>> address("nats://me:secret@127.0.0.1:4222")
    'nats://127.0.0.1:4222'
    """
    split = urlsplit(url)
    if split.scheme not in ("nats", "tls") or not split.hostname:
        raise UsageError("the address of the NATS server is not a NATS URL", advice="Write nats://127.0.0.1:4222.")
    return f"{split.scheme}://{split.netloc.rpartition('@')[2]}"


def _client_library() -> ModuleType:
    require_extra("nats", "a connection to NATS")
    import nats
    import nats.errors
    import nats.js.errors

    return nats


@dataclass(frozen=True)
class StreamSource:
    """The messages of a stream that a durable consumer has not acknowledged."""

    url: str
    name: str
    durable: str
    content_type: str = "application/n-quads"  # of messages without a Content-Type header
    documents: DocumentOptions = DEFAULT_DOCUMENTS


def ingest_stream(
    source: StreamSource,
    lake: Lake,
    on_rejected: OnRejected,
    *,
    on_commit: OnCommit,
    report: Report,
    stop_requested: threading.Event,
    once: bool = False,
) -> None:
    """Ingest messages until a stop is requested; with ``once``, until none is left."""
    asyncio.run(_ingest_stream(source, lake, on_rejected, on_commit, report, stop_requested, once))


async def _ingest_stream(
    source: StreamSource,
    lake: Lake,
    on_rejected: OnRejected,
    on_commit: OnCommit,
    report: Report,
    stop_requested: threading.Event,
    once: bool,
) -> None:
    async with connect(source.url, report) as client:
        jetstream = client.jetstream()
        stream_id = await _stream_id(jetstream, source)
        await _ensure_consumer(jetstream, source)
        subscription = await jetstream.pull_subscribe_bind(source.durable, stream=source.name)
        while not stop_requested.is_set():
            messages = await _fetch(subscription)
            if messages:
                on_commit(await asyncio.to_thread(_ingest, messages, stream_id, source, lake, on_rejected))
                for message in messages:
                    await message.ack()
                await client.flush()
            elif once and _is_drained(await subscription.consumer_info()):
                return


def _ingest(
    messages: list[Msg], stream_id: str, source: StreamSource, lake: Lake, on_rejected: OnRejected
) -> IngestResult:
    decoded = decode_messages(
        (to_message(message, stream_id, source.content_type) for message in messages),
        **decode_settings(lake.snapshot().settings),
        base=source.documents.base,
        rest=source.documents.rest,
        mapping=source.documents.mapping,
    )
    return ingest_decoded(lake, [decoded], on_rejected, inputs=len(messages))


def to_message(message: Msg, stream_id: str, content_type: str) -> Message:
    """A NATS message in the form that the codecs read."""
    headers = {name.lower(): value for name, value in (message.headers or {}).items()}
    cloudevents = {name: value for name, value in headers.items() if name.startswith("ce-")}
    message_id, sequence = headers.get("nats-msg-id"), message.metadata.sequence.stream
    return Message(
        data=message.data,
        content_type=headers.get("content-type", content_type),
        name=f"{message.metadata.stream} message {sequence}",
        time=_micros(message.metadata.timestamp),
        headers=cloudevents or None,
        input_id=f"urn:nats:{stream_id}:{sequence if message_id is None else 'id:' + quote(message_id, safe='')}",
    )


async def _stream_id(jetstream: JetStreamContext, source: StreamSource) -> str:
    """The stream's name and creation time: a stream that is deleted and created again restarts its sequence at 1."""
    from nats.js.errors import NotFoundError

    try:
        info: StreamInfo = await jetstream.stream_info(source.name)
    except NotFoundError:
        names = sorted(info.config.name or "" for info in await jetstream.streams_info())
        advice = f"Its streams are: {', '.join(names)}." if names else "It has no streams yet."
        raise UsageError(f"{address(source.url)} has no stream {source.name!r}", advice=advice) from None
    created = 0 if info.created is None else _micros(info.created)
    return f"{quote(source.name, safe='')}:{created}"


async def _ensure_consumer(jetstream: JetStreamContext, source: StreamSource) -> None:
    """Create the durable consumer when there is none; refuse one that cannot be used."""
    from nats.js.api import AckPolicy, ConsumerConfig
    from nats.js.errors import NotFoundError

    try:
        info = await jetstream.consumer_info(source.name, source.durable)
    except NotFoundError:
        config = ConsumerConfig(
            durable_name=source.durable, ack_policy=AckPolicy.EXPLICIT, max_ack_pending=4 * FETCH_MESSAGES
        )
        await jetstream.add_consumer(source.name, config)
        return
    if info.config.deliver_subject or info.config.ack_policy != AckPolicy.EXPLICIT:
        raise UsageError(
            f"the consumer {source.durable!r} of {source.name!r} is not a pull consumer with explicit acknowledgement",
            advice="Choose another --durable name; the consumer is created when there is none.",
        )


async def _fetch(subscription: JetStreamContext.PullSubscription) -> list[Msg]:
    """The next messages: waits for the first, then only briefly for more."""
    first = await _fetch_up_to(subscription, 1, FETCH_SECONDS)
    return first + await _fetch_up_to(subscription, FETCH_MESSAGES - 1, FETCH_MORE_SECONDS) if first else []


async def _fetch_up_to(subscription: JetStreamContext.PullSubscription, count: int, seconds: float) -> list[Msg]:
    from nats.errors import TimeoutError as FetchTimeout

    try:
        return await subscription.fetch(count, timeout=seconds)
    except FetchTimeout:
        return []


def _is_drained(consumer: ConsumerInfo) -> bool:
    """Whether no message is left, also none that a process received and did not acknowledge."""
    return not consumer.num_pending and not consumer.num_ack_pending


def _micros(instant: datetime) -> int:
    return int(instant.timestamp() * 1_000_000)


Emitted = tuple[Notification, int]  # with its emission offset
Stored = tuple[int, str]  # emission offset and notification id of a message


@dataclass(frozen=True)
class SubjectSink:
    """The subjects that notifications are published to: ``{subscription}`` stands for the subscription's name."""

    url: str
    subject: str
    consumer: str  # the name of the cursor

    def subject_of(self, notification: Notification) -> str:
        """
        >>> from motet.model.notifications import Notification
        >>> SubjectSink("", "motet.{subscription}", "c").subject_of(Notification("a.b", 0, 0, (), ()))
        'motet.a%2Eb'
        """
        name = quote(notification.subscription, safe="").replace(".", "%2E")
        return self.subject.replace("{subscription}", name)

    @property
    def wildcard(self) -> str:
        """The wildcard that matches every subject."""
        return ".".join("*" if "{subscription}" in token else token for token in self.subject.split("."))


def deliver(
    lake: Lake,
    sink: SubjectSink,
    *,
    on_delivered: Callable[[int], object],
    report: Report,
    stop_requested: threading.Event,
    once: bool = False,
) -> None:
    """Publish notifications until a stop is requested; with ``once``, those that the lake holds now.

    ``on_delivered`` gets the number of notifications in each chunk that the server has stored.
    """
    _check_subject(sink)
    lake.consumers.claim([sink.consumer])
    try:
        asyncio.run(_deliver(lake, sink, on_delivered, report, stop_requested, once))
    finally:
        lake.consumers.release([sink.consumer])


async def _deliver(
    lake: Lake,
    sink: SubjectSink,
    on_delivered: Callable[[int], object],
    report: Report,
    stop_requested: threading.Event,
    once: bool,
) -> None:
    async with connect(sink.url, report) as client:
        jetstream = client.jetstream()
        cursor, last_stored = lake.cursor(sink.consumer), await _last_stored(jetstream, sink)
        while not stop_requested.is_set():
            snapshot = lake.snapshot()
            for chunk in _chunks(_undelivered(last_stored, snapshot, cursor)):
                await _publish(jetstream, sink, chunk)
                on_delivered(len(chunk))
                lake.advance_cursor(sink.consumer, chunk[-1][1])  # the next chunk may begin with the same offset
                if stop_requested.is_set():
                    return
            if snapshot.notifications_end > cursor:
                cursor = snapshot.notifications_end
                lake.advance_cursor(sink.consumer, cursor)
            if once:
                return
            await asyncio.sleep(POLL_SECONDS)


async def _last_stored(jetstream: JetStreamContext, sink: SubjectSink) -> Stored | None:
    """The last message of these subjects: a process that was killed may have delivered beyond its cursor."""
    from nats.js.errors import NotFoundError

    try:
        stream = await jetstream.find_stream_name_by_subject(sink.wildcard)
        headers = (await jetstream.get_last_msg(stream, sink.wildcard)).headers or {}
    except NotFoundError:  # no stream, which publishing reports, or no message yet
        return None
    offset = headers.get("Motet-Offset", "")
    return (int(offset), headers.get("Nats-Msg-Id", "")) if offset.isdigit() else None


def _undelivered(last_stored: Stored | None, snapshot: Snapshot, cursor: int) -> Iterator[Emitted]:
    """The notifications from the cursor on that come after the last stored one, if it is among them."""
    emitted = (row for batch in snapshot.notifications(cursor) for row in notification_rows(batch))
    lookahead: list[Emitted] = []
    if last_stored is not None and last_stored[0] >= cursor:
        for notification, offset in emitted:
            lookahead.append((notification, offset))
            if offset > last_stored[0]:
                break
            if notification.id == last_stored[1]:
                lookahead.clear()
                break
    return chain(lookahead, emitted)


def _chunks(emitted: Iterator[Emitted]) -> Iterator[Sequence[Emitted]]:
    return iter(lambda: list(islice(emitted, PUBLISH_MESSAGES)), [])


async def _publish(jetstream: JetStreamContext, sink: SubjectSink, chunk: Sequence[Emitted]) -> None:
    """Send messages in order until the server has stored all of them; it drops those that it has already."""
    from nats.js.errors import NoStreamResponseError

    while True:
        acknowledgements = [await _send(jetstream, sink, *emitted) for emitted in chunk]
        done, pending = await asyncio.wait(acknowledgements, timeout=PUBLISH_SECONDS)
        for acknowledgement in pending:
            acknowledgement.cancel()
        failures = [failure for future in done if (failure := future.exception()) is not None]
        if any(isinstance(failure, NoStreamResponseError) for failure in failures):
            raise UsageError(
                f"no stream of {address(sink.url)} has the subject {sink.subject!r}",
                advice="Create a stream with this subject, or choose another --subject.",
            )
        if failures:
            raise failures[0]
        if not pending:
            return


async def _send(
    jetstream: JetStreamContext, sink: SubjectSink, notification: Notification, offset: int
) -> asyncio.Future[PubAck]:
    headers = {"Nats-Msg-Id": notification.id, "Content-Type": "application/json", "Motet-Offset": str(offset)}
    return await jetstream.publish_async(
        sink.subject_of(notification), notification.to_line().encode(), headers=headers
    )


def _check_subject(sink: SubjectSink) -> None:
    tokens = sink.subject.replace("{subscription}", "x").split(".")
    if not all(tokens) or any(character in "*> \t\r\n{}" for token in tokens for character in token):
        raise UsageError(
            f"{sink.subject!r} is not a subject that can be published to",
            advice="Write tokens separated by dots, such as motet.{subscription}.",
        )
