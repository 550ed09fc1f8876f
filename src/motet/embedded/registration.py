"""Registers subscriptions in the log of a lake, and lists those that are active, with their consumers."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import count
from typing import NamedTuple

from motet.embedded.dispatcher import Dispatcher
from motet.lake import Lake, Snapshot
from motet.lake.progress import all_cursors, cursor_name, split_cursor_name
from motet.language.parse import parse
from motet.language.printer import to_text
from motet.language.scope import nodes
from motet.language.syntax import No, Subscription
from motet.model.control import ControlState
from motet.model.errors import UsageError
from motet.model.records import EVENT, Subscribe, Unsubscribe
from motet.model.times import to_datetime

log = logging.getLogger("motet")


class SubscriptionState(NamedTuple):
    """An active subscription of a lake."""

    name: str
    text: str
    offset: int  # of its subscribe record
    since: datetime | None  # its SINCE
    consumers: Mapping[str, int]  # by name: the cursor, an emission offset below which the consumer has everything


class Registrations:
    """The active subscriptions of a lake, also those of other processes."""

    def __init__(self, lake: Lake, dispatcher: Dispatcher | None = None) -> None:
        self._lake = lake
        self._dispatcher = dispatcher
        self._controls = ControlState()  # of the records read so far
        self._controls_to = 0

    def active(self) -> Mapping[str, Subscribe]:
        """The subscribe records of the active subscriptions, by name."""
        snapshot = self._lake.snapshot()
        self._controls.apply_all(snapshot.control_records(Subscribe, Unsubscribe, first=self._controls_to))
        self._controls_to = snapshot.next_offset
        return dict(self._controls.subscriptions)

    def states(self) -> tuple[SubscriptionState, ...]:
        """The active subscriptions in the order of their subscribe records."""
        consumers: dict[str, dict[str, int]] = {}
        for name, offset in sorted(all_cursors(self._lake.store).items()):
            consumer, subscription = split_cursor_name(name)
            consumers.setdefault(subscription, {})[consumer] = offset
        for (consumer, subscription), offset in self._dispatcher.starts().items() if self._dispatcher else ():
            consumers.setdefault(subscription, {}).setdefault(consumer, offset)  # it has received nothing yet
        return tuple(
            SubscriptionState(name, record.text, record.offset, _since(record.text), consumers.get(name, {}))
            for name, record in sorted(self.active().items(), key=lambda item: item[1].offset)
        )

    def register(self, subscriptions: Sequence[Subscription], consumers: Mapping[str, str]) -> dict[str, int] | None:
        """Register the subscriptions that are not active; the emission offset from which each consumer receives.

        None, and nothing is done, if another process registers one of them at the same time.
        """
        active = self._refuse_changes(subscriptions)
        starts = {}
        cursors = self._lake.cursors(cursor_name(consumers[name], name) for name in consumers if name in active)
        for name, consumer in consumers.items():
            if name in active:
                start = self._dispatcher.start_of(consumer, name) if self._dispatcher else None
                cursor = cursors[cursor_name(consumer, name)]
                starts[name] = max(active[name].offset, cursor) if start is None else start
        new = {requested.name: to_text(requested) for requested in subscriptions if requested.name not in active}
        if new:
            first = self._lake.subscribe_all(new, after=self._controls_to)
            if first is None:
                return None
            starts |= zip(new, count(first))
            _warn_of_empty_log(
                [requested for requested in subscriptions if requested.name in new], self._lake.snapshot()
            )
        return starts

    def _refuse_changes(self, subscriptions: Sequence[Subscription]) -> Mapping[str, Subscribe]:
        """The active subscriptions; raises if one of those given is active with another text."""
        active = self.active()
        for requested in subscriptions:
            if requested.name in active and parse(active[requested.name].text) != (requested,):
                raise UsageError(
                    f"subscription {requested.name!r} is active with another text",
                    advice="Unsubscribe it first, or give the new one another name.",
                )
        return active


def _since(text: str) -> datetime | None:
    since = parse(text)[0].since
    return None if since is None else to_datetime(since)


def _warn_of_empty_log(subscriptions: Sequence[Subscription], snapshot: Snapshot) -> None:
    """Say that nothing is absent yet, if subscriptions with NO are registered on a log without event or tick."""
    if snapshot.frontier is None and not snapshot.count(EVENT):
        for subscription in subscriptions:
            has_absence = any(isinstance(node, No) for node, _ in nodes(subscription.pattern))
            if has_absence and subscription.since is None:
                log.warning(
                    "subscription %r: the log has no event and no tick, so nothing is absent yet; its NO begins with "
                    "the first event",
                    subscription.name,
                )
