"""Which notifications edited subscriptions, or late events, gain and lose over the log of a lake, and why."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from motet.jobs.investigate import WhyInput, from_replay
from motet.jobs.replay import Replay
from motet.language.syntax import Subscription
from motet.model.errors import MotetError
from motet.model.intervals import Interval
from motet.model.notifications import Notification
from motet.provenance.text import TextStyle
from motet.provenance.why import Why, why
from motet.provenance.why_not import WhyNot, why_not

RunReplay = Callable[[Replay, BinaryIO], int]


@dataclass(frozen=True)
class NotificationChange:
    """A notification that only one of two sets of subscriptions emits."""

    gained: bool
    notification: Notification


def edit_status(old: Sequence[Subscription], new: Sequence[Subscription]) -> dict[str, str]:
    """The status of each subscription by name: edited, added, removed or unchanged.

    >>> from motet.language.parse import parse
    >>> edit_status(parse("SUBSCRIPTION s EVENT a WHEN a"), parse("SUBSCRIPTION t EVENT a WHEN a"))
    {'s': 'removed', 't': 'added'}
    """
    before = {subscription.name: subscription for subscription in old}
    after = {subscription.name: subscription for subscription in new}
    status = {}
    for name in dict.fromkeys([*before, *after]):
        if name in before and name in after:
            status[name] = "unchanged" if before[name] == after[name] else "edited"
        else:
            status[name] = "removed" if name in before else "added"
    return status


def replay_changes(old: Replay, new: Replay, run: RunReplay) -> Iterator[NotificationChange]:
    """The changes between two whole replays, in the order of `motet run`."""
    with tempfile.TemporaryFile() as before, tempfile.TemporaryFile() as after:
        for replay, sink in ((old, before), (new, after)):
            run(replay, sink)
            sink.seek(0)
        yield from notification_changes(*(map(_notification, lines) for lines in (before, after)))


def notification_changes(old: Iterable[Notification], new: Iterable[Notification]) -> Iterator[NotificationChange]:
    """The notifications that two sorted sequences do not share; neither is held in memory.

    >>> old, new = (Notification(name, 0, 0, (), ()) for name in "ab")
    >>> [(change.gained, change.notification.subscription) for change in notification_changes([old], [new])]
    [(False, 'a'), (True, 'b')]
    """
    before, after = iter(old), iter(new)
    lost, gained = next(before, None), next(after, None)
    while lost is not None or gained is not None:
        if lost == gained:
            lost, gained = next(before, None), next(after, None)
        elif gained is None or (lost is not None and lost.sort_key <= gained.sort_key):
            assert lost is not None
            yield NotificationChange(False, lost)
            lost = next(before, None)
        else:
            yield NotificationChange(True, gained)
            gained = next(after, None)


def _notification(line: bytes) -> Notification:
    return Notification.from_line(line.decode())


@dataclass(frozen=True)
class ChangeExplanation:
    """Why one side emits a notification, and what prevents it on the other; None where that cannot be said."""

    why: Why | None
    why_not: WhyNot | None


@dataclass(frozen=True)
class ChangeExplainer:
    """Explains the changes between two replays: of an old and a new file, or without and with late events."""

    old: Replay
    new: Replay
    style: TextStyle

    @property
    def is_late(self) -> bool:
        """Whether the new replay reads late events as if they had come in time."""
        return any(group.view.late_caps is not None for group in self.new.groups)

    def side(self, new: bool) -> str:
        """What a text calls one of the replays."""
        if self.is_late:
            return "with the late events" if new else "without the late events"
        return "now" if new else "before"

    def explain(self, change: NotificationChange) -> ChangeExplanation:
        emitting, silent = (self.new, self.old) if change.gained else (self.old, self.new)
        return ChangeExplanation(self._why(emitting, change.notification), self._why_not(silent, change.notification))

    def _why(self, replay: Replay, notification: Notification) -> Why | None:
        log = self._input(replay, notification)
        try:
            return why(log.traced_log, notification, is_complete=log.is_complete)
        except MotetError:  # it needs events beyond those that can be examined
            return None

    def _why_not(self, replay: Replay, notification: Notification) -> WhyNot | None:
        """The answer for the event that gets least far: what the others lack follows from it."""
        if replay.group_of(notification.subscription) is None:
            return None
        log = self._input(replay, notification)
        events = [event for event in notification.events if log.traced_log.start_of(event) is not None]
        answers = [why_not(log.traced_log, notification.subscription, event) for event in events]
        return min(answers, key=lambda answer: answer.nearest.nearness, default=None)

    def _input(self, replay: Replay, notification: Notification) -> WhyInput:
        interval = Interval(notification.start_micros, notification.end_micros)
        return from_replay(replay, notification.subscription, interval, self.style, notification.events)
