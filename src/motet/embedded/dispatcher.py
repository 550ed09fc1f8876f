"""Who is told what: the listeners of a live cloud, called one after another in the order of the log.

A listener that fails is reported and counted, and the others go on. Knows nothing of how notifications come about.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from motet.embedded.backend import NotificationBatch
from motet.lake import Snapshot
from motet.model.batches import notification_rows
from motet.model.notifications import Notification

Listener = Callable[[Notification], object]

log = logging.getLogger("motet")


class Dispatcher:
    """The listeners by subscription, and how far they have got."""

    def __init__(self) -> None:
        self.delivered = 0
        self.failures: Counter[str] = Counter()
        self._listeners: dict[str, Listener] = {}
        self._first_offset: dict[str, int] = {}  # each hears what was made final at this offset or later
        self._behind: dict[str, int] = {}  # those that must first be told what the table holds from this offset on
        self._notified: set[str] = set()

    def add(self, name: str, listener: Listener, first: int, reached: int) -> None:
        """Tell a listener everything from the offset ``first`` on; the cloud has derived up to ``reached``."""
        self._listeners[name] = listener
        self._first_offset[name] = first
        if first < reached:
            self._behind[name] = first

    def remove(self, name: str) -> None:
        for known in (self._listeners, self._first_offset, self._behind):
            known.pop(name, None)

    @property
    def is_behind(self) -> bool:
        return bool(self._behind)

    def catch_up(self, table: Snapshot, reached: int) -> None:
        """Tell the listeners that were away what they have missed, up to the offset ``reached``."""
        behind, self._behind = self._behind, {}
        for batch in table.notifications(min(behind.values())):
            for notification, offset in notification_rows(batch):
                if behind.get(notification.subscription, reached) <= offset < reached:
                    self._call(notification)

    def deliver(self, found: Iterable[NotificationBatch]) -> None:
        """Call the listeners of new notifications."""
        for some in found:
            for notification, offset in some if isinstance(some, list) else notification_rows(some):
                name = notification.subscription
                if name in self._listeners and offset >= self._first_offset[name] and name not in self._behind:
                    self._call(notification)

    def drain_notified(self) -> set[str]:
        """Those that were told something since this was last asked."""
        told, self._notified = self._notified, set()
        return told & self._listeners.keys()

    def requeue(self, names: Iterable[str]) -> None:
        """Take back an answer that could not be used."""
        self._notified.update(names)

    def statistics(self) -> Mapping[str, object]:
        return {"delivered": self.delivered, "failures": dict(sorted(self.failures.items()))}

    def _call(self, notification: Notification) -> None:
        name = notification.subscription
        listener = self._listeners.get(name)
        if listener is None:  # it left a moment ago
            return
        self._notified.add(name)
        try:
            listener(notification)
        except Exception:  # a listener is someone else's code: its failure is reported, not ours to die of
            self.failures[name] += 1
            log.exception("the listener of %r failed on notification %s", name, notification.id)
        else:
            self.delivered += 1
