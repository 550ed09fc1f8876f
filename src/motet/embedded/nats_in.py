"""A NATS JetStream stream as a source: messages are acknowledged when their events are in the log, not before.

What was not acknowledged comes again, and adds nothing, because its events are known by their IRIs. An event that its
data does not name (Turtle, say) is named after its message: by its Nats-Msg-Id, or by its place in the stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import quote

from motet.codec.messages import Message, decode_messages
from motet.embedded.feed import Fed, SetAside, feed
from motet.embedded.nats_connection import Say, address, connected
from motet.lake import Lake
from motet.model.errors import UsageError

if TYPE_CHECKING:
    from nats.aio.msg import Msg
    from nats.js import JetStreamContext
    from nats.js.api import ConsumerInfo, StreamInfo

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
        arrived=_micros(message.metadata.timestamp),
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
