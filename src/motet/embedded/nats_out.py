"""Notifications of a lake to subjects of NATS JetStream, in the order of the log, from where the last run got to.

The cursor in the lake moves when the server has stored some messages. Whoever starts looks up which message was stored
last, and goes on behind it. What is sent again all the same has the same Nats-Msg-Id, the notification's id, and the
server drops it within the stream's duplicate window.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING
from urllib.parse import quote

from motet.embedded.nats_connection import Say, address, connected
from motet.lake import Lake, Snapshot
from motet.model.errors import UsageError
from motet.model.notifications import Notification
from motet.model.tables import notification_rows

if TYPE_CHECKING:
    from nats.js import JetStreamContext
    from nats.js.api import PubAck

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
