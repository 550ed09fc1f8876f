"""A connection to a NATS server, with errors in Motet's own words. The client library is loaded when one is made.

It outlives a restart of the server: the client connects again by itself, and what was not acknowledged comes again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, islice
from types import ModuleType
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from motet.codec.decode import Message, decode_messages
from motet.connectors.ingestion import Fed, SetAside, feed
from motet.lake import Lake, Snapshot
from motet.model.errors import EngineError, UsageError
from motet.model.extras import require_extra
from motet.model.notifications import Notification
from motet.model.tables import notification_rows

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.js import JetStreamContext
    from nats.js.api import ConsumerInfo, PubAck, StreamInfo

CONNECT_SECONDS = 3.0
Say = Callable[[str], object]


@asynccontextmanager
async def connected(url: str, say: Say) -> AsyncIterator[Client]:
    """A connection to the server at this address; ``say`` is told when it is lost and found again."""
    place = address(url)
    nats = _client_library()
    client: Client = nats.NATS()
    reason = "no answer"

    async def lost() -> None:
        if not client.is_closed:
            say(f"the connection to {place} is lost; trying again")

    async def found() -> None:
        say(f"connected to {place} again")

    async def failed(error: Exception) -> None:
        nonlocal reason
        reason = str(error) or type(error).__name__
        if client.is_connected:
            say(f"{place}: {reason}")

    connecting = client.connect(
        url, max_reconnect_attempts=-1, disconnected_cb=lost, reconnected_cb=found, error_cb=failed
    )
    try:
        await asyncio.wait_for(connecting, CONNECT_SECONDS)
    except (TimeoutError, OSError, nats.errors.Error):
        advice = "Start the server, or check the address."
        raise EngineError(f"cannot connect to NATS at {place}: {reason}", advice=advice) from None
    try:
        yield client
    except nats.js.errors.ServiceUnavailableError:
        advice = "Start it with JetStream: nats-server -js"
        raise UsageError(f"the server at {place} keeps no streams", advice=advice) from None
    except nats.errors.Error as error:
        advice = "Look at the server's log, then start again: it goes on where it was."
        raise EngineError(f"NATS at {place} says: {error}", advice=advice) from error
    finally:
        await client.close()


def address(url: str) -> str:
    """Where the server is, without the password that may stand in its address.

    >>> address("nats://me:secret@127.0.0.1:4222")
    'nats://127.0.0.1:4222'
    """
    parts = urlsplit(url)
    if parts.scheme not in ("nats", "tls") or not parts.hostname:
        raise UsageError("the address of the NATS server is no NATS address", advice="Write nats://127.0.0.1:4222.")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _client_library() -> ModuleType:
    require_extra("nats", "a connection to NATS")
    import nats
    import nats.errors
    import nats.js.errors

    return nats


BATCH = 500  # messages of one commit; a message is 1 MB at most unless the server was told otherwise
FETCH_SECONDS = 1.0
MOMENT = 0.05  # seconds


@dataclass(frozen=True)
class Stream:
    """Which messages: those of a stream that its durable consumer of this name has not acknowledged."""

    url: str
    name: str
    durable: str
    content_type: str = "application/n-quads"  # of messages that do not tell


def follow_stream(
    stream: Stream,
    lake: Lake,
    set_aside: SetAside,
    *,
    told: Callable[[Fed], object],
    say: Say,
    stopped: Callable[[], bool],
    once: bool = False,
) -> None:
    """Take in messages until ``stopped``, or, when ``once``, until none is left; ``told`` of each commit."""
    asyncio.run(_follow(stream, lake, set_aside, told, say, stopped, once))


async def _follow(
    stream: Stream,
    lake: Lake,
    set_aside: SetAside,
    told: Callable[[Fed], object],
    say: Say,
    stopped: Callable[[], bool],
    once: bool,
) -> None:
    async with connected(stream.url, say) as client:
        jetstream = client.jetstream()
        origin = await _origin(jetstream, stream)
        await _consumer(jetstream, stream)
        subscription = await jetstream.pull_subscribe_bind(stream.durable, stream=stream.name)
        while not stopped():
            messages = await _fetch(subscription)
            if messages:
                told(await asyncio.to_thread(_take, messages, origin, stream, lake, set_aside))
                for message in messages:
                    await message.ack()
                await client.flush()
            elif once and _is_done(await subscription.consumer_info()):
                return


def _take(messages: list[Msg], origin: str, stream: Stream, lake: Lake, set_aside: SetAside) -> Fed:
    decoded = decode_messages(to_message(message, origin, stream.content_type) for message in messages)
    return feed(lake, [decoded], set_aside, inputs=len(messages))


def to_message(message: Msg, origin: str, content_type: str) -> Message:
    """A message of NATS as one that the codecs read."""
    headers = {name.lower(): value for name, value in (message.headers or {}).items()}
    context = {name: value for name, value in headers.items() if name.startswith("ce-")}
    identity, sequence = headers.get("nats-msg-id"), message.metadata.sequence.stream
    return Message(
        data=message.data,
        content_type=headers.get("content-type", content_type),
        name=f"{message.metadata.stream} message {sequence}",
        arrival_time=_micros(message.metadata.timestamp),
        headers=context or None,
        event_id=f"urn:nats:{origin}:{sequence if identity is None else 'id:' + quote(identity, safe='')}",
    )


async def _origin(jetstream: JetStreamContext, stream: Stream) -> str:
    """The stream's name and when it was made: one that is deleted and made anew counts its messages from 1 again."""
    from nats.js.errors import NotFoundError

    try:
        info: StreamInfo = await jetstream.stream_info(stream.name)
    except NotFoundError:
        names = sorted(one.config.name or "" for one in await jetstream.streams_info())
        there = f"There are: {', '.join(names)}." if names else "There is none yet."
        raise UsageError(f"{address(stream.url)} has no stream {stream.name!r}", advice=there) from None
    made = 0 if info.created is None else _micros(info.created)
    return f"{quote(stream.name, safe='')}:{made}"


async def _consumer(jetstream: JetStreamContext, stream: Stream) -> None:
    """Make the durable consumer when there is none; one that is there is used as it is, if it can be."""
    from nats.js.api import AckPolicy, ConsumerConfig
    from nats.js.errors import NotFoundError

    try:
        info = await jetstream.consumer_info(stream.name, stream.durable)
    except NotFoundError:
        wanted = ConsumerConfig(durable_name=stream.durable, ack_policy=AckPolicy.EXPLICIT, max_ack_pending=4 * BATCH)
        await jetstream.add_consumer(stream.name, wanted)
        return
    if info.config.deliver_subject or info.config.ack_policy != AckPolicy.EXPLICIT:
        raise UsageError(
            f"the consumer {stream.durable!r} of {stream.name!r} is not one that pulls and acknowledges each message",
            advice="Choose another --durable name; it is made when there is none.",
        )


async def _fetch(subscription: JetStreamContext.PullSubscription) -> list[Msg]:
    """The next messages: waits for the first, then only a moment for more."""
    first = await _fetch_some(subscription, 1, FETCH_SECONDS)
    return first + await _fetch_some(subscription, BATCH - 1, MOMENT) if first else []


async def _fetch_some(subscription: JetStreamContext.PullSubscription, count: int, seconds: float) -> list[Msg]:
    from nats.errors import TimeoutError as NothingCame

    try:
        return await subscription.fetch(count, timeout=seconds)
    except NothingCame:
        return []


def _is_done(consumer: ConsumerInfo) -> bool:
    """Nothing to come, and nothing given to a process that died and has not come again yet."""
    return not consumer.num_pending and not consumer.num_ack_pending


def _micros(instant: datetime) -> int:
    return int(instant.timestamp() * 1_000_000)


CHUNK = 500  # messages on the way at once, and between two writes of the cursor
LOOK_SECONDS = 0.2
STORED_SECONDS = 10.0  # then the connection has lost something, and the messages are sent again

Emitted = tuple[Notification, int]  # with the offset of the record that made it final
Last = tuple[int, str]  # offset and id


@dataclass(frozen=True)
class Subjects:
    """Where notifications go: ``{subscription}`` in the subject stands for the name of their subscription."""

    url: str
    subject: str
    consumer: str  # the name of the cursor

    def of(self, notification: Notification) -> str:
        """
        >>> from motet.model.notifications import Notification
        >>> Subjects("", "motet.{subscription}", "c").of(Notification("a.b", 0, 0, (), ()))
        'motet.a%2Eb'
        """
        name = quote(notification.subscription, safe="").replace(".", "%2E")
        return self.subject.replace("{subscription}", name)

    @property
    def all(self) -> str:
        """The wildcard of every subject."""
        return ".".join("*" if "{subscription}" in token else token for token in self.subject.split("."))


def deliver(
    lake: Lake,
    subjects: Subjects,
    *,
    told: Callable[[int], object],
    say: Say,
    stopped: Callable[[], bool],
    once: bool = False,
) -> None:
    """Publish until ``stopped``, or, when ``once``, what is there; ``told`` how many at a time."""
    _check(subjects)
    asyncio.run(_deliver(lake, subjects, told, say, stopped, once))


async def _deliver(
    lake: Lake,
    subjects: Subjects,
    told: Callable[[int], object],
    say: Say,
    stopped: Callable[[], bool],
    once: bool,
) -> None:
    async with connected(subjects.url, say) as client:
        jetstream = client.jetstream()
        cursor, last = lake.cursor(subjects.consumer), await _last_stored(jetstream, subjects)
        while not stopped():
            snapshot = lake.snapshot()
            for chunk in _chunks(_behind(last, snapshot, cursor)):
                await _publish(jetstream, subjects, chunk)
                told(len(chunk))
                lake.advance(subjects.consumer, chunk[-1][1])  # more of that offset may follow
                if stopped():
                    return
            if snapshot.notified_to > cursor:
                cursor = snapshot.notified_to
                lake.advance(subjects.consumer, cursor)
            if once:
                return
            await asyncio.sleep(LOOK_SECONDS)


async def _last_stored(jetstream: JetStreamContext, subjects: Subjects) -> Last | None:
    """What the stream holds last of these subjects: a process that was killed may have got farther than its cursor."""
    from nats.js.errors import NotFoundError

    try:
        stream = await jetstream.find_stream_name_by_subject(subjects.all)
        headers = (await jetstream.get_last_msg(stream, subjects.all)).headers or {}
    except NotFoundError:  # no stream, which publishing will complain about, or no message yet
        return None
    offset = headers.get("Motet-Offset", "")
    return (int(offset), headers.get("Nats-Msg-Id", "")) if offset.isdigit() else None


def _behind(last: Last | None, snapshot: Snapshot, cursor: int) -> Iterator[Emitted]:
    """The notifications from the cursor on, without those up to the one that was stored last, if it is among them."""
    emitted = (one for batch in snapshot.notifications(cursor) for one in notification_rows(batch))
    held: list[Emitted] = []
    if last is not None and last[0] >= cursor:
        for one in emitted:
            held.append(one)
            if one[1] > last[0]:
                break
            if one[0].id == last[1]:
                held.clear()
                break
    return chain(held, emitted)


def _chunks(emitted: Iterator[Emitted]) -> Iterator[Sequence[Emitted]]:
    return iter(lambda: list(islice(emitted, CHUNK)), [])


async def _publish(jetstream: JetStreamContext, subjects: Subjects, chunk: Sequence[Emitted]) -> None:
    """Send messages in order until the server has stored every one of them; it knows those that come twice."""
    from nats.js.errors import NoStreamResponseError

    while True:
        stored = [await _send(jetstream, subjects, *one) for one in chunk]
        done, waiting = await asyncio.wait(stored, timeout=STORED_SECONDS)
        for acknowledgement in waiting:
            acknowledgement.cancel()
        failures = [failure for one in done if (failure := one.exception()) is not None]
        if any(isinstance(failure, NoStreamResponseError) for failure in failures):
            raise UsageError(
                f"no stream of {address(subjects.url)} takes messages to {subjects.subject!r}",
                advice="Make a stream that has the subject, or choose another --subject.",
            )
        if failures:
            raise failures[0]
        if not waiting:
            return


async def _send(
    jetstream: JetStreamContext, subjects: Subjects, notification: Notification, offset: int
) -> asyncio.Future[PubAck]:
    headers = {"Nats-Msg-Id": notification.id, "Content-Type": "application/json", "Motet-Offset": str(offset)}
    return await jetstream.publish_async(subjects.of(notification), notification.to_line().encode(), headers=headers)


def _check(subjects: Subjects) -> None:
    tokens = subjects.subject.replace("{subscription}", "x").split(".")
    if not all(tokens) or any(sign in "*> \t\r\n{}" for token in tokens for sign in token):
        raise UsageError(
            f"{subjects.subject!r} is no subject to publish to",
            advice="Write words with dots between them, such as motet.{subscription}.",
        )
