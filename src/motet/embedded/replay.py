"""`motet replay` inside one process, and what any engine is asked for: a lake's history through new subscriptions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import BinaryIO

import pyarrow as pa

from motet.embedded.history import History, history_of
from motet.embedded.readiness import get_ready
from motet.engine.kernel import Kernel
from motet.lake import Lake, Snapshot
from motet.language.syntax import Construct, Subscription
from motet.model.errors import UsageError
from motet.model.notifications import Notification
from motet.model.tables import notification_rows
from motet.ontology.entailment import Reasoner
from motet.plan.dag import build
from motet.plan.feeding import feeds

Watch = Callable[[int], None]  # told how many more records have been read


@dataclass(frozen=True)
class Part:
    """Subscriptions that look back equally far."""

    history: History
    subscriptions: tuple[Subscription, ...]


@dataclass(frozen=True)
class Replay:
    """What a replay is asked to do."""

    snapshot: Snapshot
    parts: tuple[Part, ...]

    @property
    def events(self) -> int:
        """How many the log holds, seen or not."""
        return sum(segment.kinds.get("event", 0) for segment in self.snapshot.segments)


def load_replay(
    lake: str, subscriptions: Sequence[Subscription], *, since: int | None = None, until: int | None = None
) -> Replay:
    """A replay of what the lake holds now. ``since`` takes the place of every SINCE of the subscriptions' own."""
    asked = [one if since is None else replace(one, since=since) for one in subscriptions]
    snapshot = Lake.open(lake, create=False).snapshot()
    parts = [
        Part(history_of(snapshot, since=instant, until=until), tuple(group))
        for instant, group in groupby(sorted(asked, key=_since), key=lambda one: one.since)
    ]
    _refuse_feeding_across(parts)
    return Replay(snapshot, tuple(parts))


def replay_embedded(replay: Replay, sink: BinaryIO, watch: Watch = lambda _: None) -> int:
    """Write the notifications as sorted lines; how many there are."""
    found = [one for part in replay.parts for one in told(replay.snapshot, part, watch)]
    found.sort(key=lambda notification: notification.sort_key)
    sink.writelines(f"{notification.to_line()}\n".encode() for notification in found)
    return len(found)


def told(snapshot: Snapshot, part: Part, watch: Watch = lambda _: None) -> Iterator[Notification]:
    """What some subscriptions would have been told, in the order of the log."""
    get_ready()
    history = part.history
    kernel = Kernel(lateness=None, background=history.background)
    kernel.begin(part.subscriptions)

    def events() -> Iterator[pa.RecordBatch]:
        for records in snapshot.records():
            yield history.seen(records)
            watch(len(records))

    for records in history.setting.along(events()):
        yield from (notification for notification, _ in notification_rows(kernel.advance(records)))


def _since(subscription: Subscription) -> tuple[bool, int]:
    return subscription.since is not None, subscription.since or 0


def _refuse_feeding_across(parts: Sequence[Part]) -> None:
    """Whoever sees derived events would see some that others, who look back less far, could not have derived."""
    together = [(number, one) for number, part in enumerate(parts) for one in part.subscriptions]
    if len(parts) < 2 or not any(isinstance(one.delivery, Construct) for _, one in together):
        return
    home = {one.name: number for number, one in together}
    background = parts[0].history.background
    for feed in feeds(build([one for _, one in together]), Reasoner(background)):
        if home[feed.producer] != home[feed.consumer]:
            raise UsageError(
                f"{feed.producer!r} derives events for {feed.consumer!r}, but their SINCE differ",
                advice="Give --since, which holds for both.",
            )
