"""Notifications of a lake to subjects of NATS JetStream, in the order of the log, from where the last run got to.

The cursor in the lake moves when the server has stored the messages. What is sent again after a crash has the same
Nats-Msg-Id, the notification's id, and the server drops it within the stream's duplicate window.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
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
        cursor = lake.cursor(subjects.consumer)
        while not stopped():
            snapshot = lake.snapshot()
            for chunk in _chunks(snapshot, cursor):
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


def _chunks(snapshot: Snapshot, cursor: int) -> Iterator[Sequence[Emitted]]:
    emitted = (one for batch in snapshot.notifications(cursor) for one in notification_rows(batch))
    return iter(lambda: list(islice(emitted, CHUNK)), [])


async def _publish(jetstream: JetStreamContext, subjects: Subjects, chunk: Sequence[Emitted]) -> None:
    """Send messages in order until the server has stored every one of them; it knows those that come twice."""
    from nats.js.errors import NoStreamResponseError  # noqa: PLC0415  (heavy)

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
