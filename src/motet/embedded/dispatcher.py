"""Delivers notifications to the listeners of a live cloud, one at a time, in log order.

A listener that raises is logged and counted, and the others are called.
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
    """The listeners by subscription, and the emission offset from which each receives notifications."""

    def __init__(self) -> None:
        self.delivered = 0
        self.failures: Counter[str] = Counter()
        self._listeners: dict[str, Listener] = {}
        self._first_offset: dict[str, int] = {}  # by subscription: the first emission offset to deliver
        self._behind: dict[str, int] = {}  # by subscription: the offset from which the table is to be delivered first
        self._notified: set[str] = set()  # subscriptions whose listener was called since the last drain

    def add(self, name: str, listener: Listener, first: int, processed_to: int) -> None:
        """Deliver to a listener from the emission offset ``first`` on; earlier calls covered up to ``processed_to``."""
        self._listeners[name] = listener
        self._first_offset[name] = first
        if first < processed_to:
            self._behind[name] = first

    def remove(self, name: str) -> None:
        for by_name in (self._listeners, self._first_offset, self._behind):
            by_name.pop(name, None)

    @property
    def is_behind(self) -> bool:
        """Whether a listener has not received stored notifications yet."""
        return bool(self._behind)

    def catch_up(self, table: Snapshot, processed_to: int) -> None:
        """Deliver stored notifications, up to an offset, to the listeners that are behind."""
        behind, self._behind = self._behind, {}
        for batch in table.notifications(min(behind.values())):
            for notification, offset in notification_rows(batch):
                if behind.get(notification.subscription, processed_to) <= offset < processed_to:
                    self._call(notification)

    def deliver(self, batches: Iterable[NotificationBatch]) -> None:
        """Call the listeners of new notifications."""
        for batch in batches:
            for notification, offset in batch if isinstance(batch, list) else notification_rows(batch):
                name = notification.subscription
                if name in self._listeners and offset >= self._first_offset[name] and name not in self._behind:
                    self._call(notification)

    def drain_notified(self) -> set[str]:
        """The subscriptions whose listener was called since the last drain."""
        notified, self._notified = self._notified, set()
        return notified & self._listeners.keys()

    def requeue(self, names: Iterable[str]) -> None:
        """Put names back that a drain returned: their cursors could not be written."""
        self._notified.update(names)

    def statistics(self) -> Mapping[str, object]:
        return {"delivered": self.delivered, "failures": dict(sorted(self.failures.items()))}

    def _call(self, notification: Notification) -> None:
        name = notification.subscription
        listener = self._listeners.get(name)
        if listener is None:  # an earlier listener of the batch has removed it
            return
        self._notified.add(name)
        try:
            listener(notification)
        except Exception:  # a listener is user code: its failure must not stop the cloud
            self.failures[name] += 1
            log.exception("the listener of %r failed on notification %s", name, notification.id)
        else:
            self.delivered += 1
