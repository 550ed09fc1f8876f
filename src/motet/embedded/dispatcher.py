"""Delivers notifications to the listeners of a live cloud, one at a time, in log order.

A listener belongs to a consumer, whose cursor says how far it has received the notifications of a subscription. Several
listeners of one consumer each receive everything; the cursor is that of the slowest. A listener that raises is logged
and counted, and the others are called.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from motet.embedded.backend import NotificationBatch
from motet.lake import Snapshot
from motet.model.batches import notification_rows
from motet.model.notifications import Notification

Listener = Callable[[Notification], object]
Consumption = tuple[str, str]  # a consumer and a subscription it receives notifications of

CURSOR_SECONDS = 0.25  # between two writes of the cursors on the way through stored notifications

log = logging.getLogger("motet")


class _Delivery:
    """One listener of a consumer in one subscription."""

    __slots__ = ("consumer", "first", "is_active", "listener", "received_to", "subscription")

    def __init__(self, subscription: str, consumer: str, listener: Listener, first: int, *, is_behind: bool) -> None:
        self.subscription = subscription
        self.consumer = consumer
        self.listener = listener
        self.first = first  # the first emission offset to deliver
        self.received_to: int | None = first if is_behind else None  # None: all that is processed; else the table first
        self.is_active = True


class Dispatcher:
    """The listeners by subscription, and the emission offset up to which each has received everything."""

    def __init__(self) -> None:
        self.delivered = 0
        self.failures: Counter[str] = Counter()
        self._deliveries: dict[str, tuple[_Delivery, ...]] = {}  # by subscription
        self._starts: dict[Consumption, int] = {}  # the first emission offset for every listener
        self._uses: Counter[str] = Counter()  # by consumer: the subscriptions it has listeners in
        self._has_behind = False
        self._changed: set[Consumption] = set()  # those whose cursor is to be written

    def start_of(self, consumer: str, subscription: str) -> int | None:
        """The emission offset from which the listeners of a consumer receive notifications; None without any."""
        return self._starts.get((consumer, subscription))

    def add(self, subscription: str, consumer: str, listener: Listener, first: int, processed_to: int) -> None:
        """Deliver to a listener from the emission offset ``first`` on; earlier calls covered up to ``processed_to``.

        A listener that the consumer has already is not added again.
        """
        deliveries = self._deliveries.get(subscription, ())
        if any(delivery.consumer == consumer and delivery.listener == listener for delivery in deliveries):
            return
        if (consumer, subscription) not in self._starts:
            self._starts[consumer, subscription] = first
            self._uses[consumer] += 1
        new = _Delivery(subscription, consumer, listener, first, is_behind=first < processed_to)
        self._deliveries[subscription] = (*deliveries, new)
        if new.received_to is not None:
            self._has_behind = True
            self._changed.add((consumer, subscription))  # the cursor falls to where this listener begins

    def remove(self, subscription: str, consumer: str | None = None, before: int | None = None) -> set[str]:
        """Remove listeners of a subscription, and return the consumers that have none left.

        All, those of one consumer, or those that receive notifications from an offset below ``before`` on.
        """
        remaining, removed = [], set()
        for delivery in self._deliveries.pop(subscription, ()):
            if consumer in (None, delivery.consumer) and (before is None or delivery.first < before):
                delivery.is_active = False
                removed.add(delivery.consumer)
            else:
                remaining.append(delivery)
        if remaining:
            self._deliveries[subscription] = tuple(remaining)
        removed -= {delivery.consumer for delivery in remaining}
        for name in removed:
            del self._starts[name, subscription]
        self._uses.subtract(removed)
        return self.without_listeners(removed)

    def has_listener(self, subscription: str, *, before: int) -> bool:
        """Whether a listener receives notifications of a subscription from an offset below ``before`` on."""
        return any(delivery.first < before for delivery in self._deliveries.get(subscription, ()))

    def without_listeners(self, consumers: Iterable[str]) -> set[str]:
        return {name for name in consumers if not self._uses[name]}

    def __len__(self) -> int:
        """The number of subscriptions that have listeners."""
        return len(self._deliveries)

    @property
    def is_behind(self) -> bool:
        """Whether a listener has not received stored notifications yet."""
        return self._has_behind

    def fall_behind(self, offset: int) -> None:
        """Deliver from an offset on from the table: the notifications after it may not have been delivered."""
        for delivery in self._all():
            if delivery.received_to is None:
                delivery.received_to = delivery.first = max(offset, delivery.first)
                self._has_behind = True

    def catch_up(self, table: Snapshot, processed_to: int, write_cursors: Callable[[], object]) -> None:
        """Deliver stored notifications, up to an offset, to the listeners that are behind.

        ``write_cursors`` is called now and then: a long way is not begun again after a crash.
        """
        written = time.monotonic()
        self._has_behind = False
        behind: dict[str, list[_Delivery]] = {}
        for delivery in self._all():
            if delivery.received_to is not None:
                behind.setdefault(delivery.subscription, []).append(delivery)
        try:
            for notification, offset in _stored(table, behind, processed_to):
                if time.monotonic() - written > CURSOR_SECONDS:
                    write_cursors()
                    written = time.monotonic()
                for delivery in behind.get(notification.subscription, ()):
                    if delivery.received_to is not None and delivery.received_to <= offset:
                        delivery.received_to = offset  # it has everything below
                        self._call(delivery, notification)
        except BaseException:
            self._has_behind = True
            raise
        for deliveries in behind.values():
            for delivery in deliveries:
                delivery.received_to = None
                self._changed.add((delivery.consumer, delivery.subscription))

    def deliver(self, batches: Iterable[NotificationBatch]) -> None:
        """Call the listeners of new notifications."""
        for batch in batches:
            for notification, offset in batch if isinstance(batch, list) else notification_rows(batch):
                for delivery in self._deliveries.get(notification.subscription, ()):
                    if offset >= delivery.first and delivery.received_to is None:
                        self._call(delivery, notification)

    def changed_cursors(self, processed_to: int) -> dict[Consumption, int]:
        """The cursors of the consumers that received something, or fell behind, since they were last written."""
        changed, self._changed = self._changed, set()
        cursors: dict[Consumption, int] = {}
        for consumer, subscription in changed:
            received = [
                processed_to if delivery.received_to is None else delivery.received_to
                for delivery in self._deliveries.get(subscription, ())
                if delivery.consumer == consumer
            ]
            if received:
                cursors[consumer, subscription] = min(received)
        return cursors

    def requeue(self, consumptions: Iterable[Consumption]) -> None:
        """Put back what `changed_cursors` returned: these cursors could not be written."""
        self._changed.update(consumptions)

    def statistics(self) -> Mapping[str, object]:
        return {"delivered": self.delivered, "failures": dict(sorted(self.failures.items()))}

    def _all(self) -> Iterator[_Delivery]:
        for deliveries in self._deliveries.values():
            yield from deliveries

    def _call(self, delivery: _Delivery, notification: Notification) -> None:
        if not delivery.is_active:  # an earlier listener of the batch has removed it
            return
        self._changed.add((delivery.consumer, delivery.subscription))
        try:
            delivery.listener(notification)
        except Exception:  # a listener is user code: its failure must not stop the cloud
            self.failures[delivery.subscription] += 1
            log.exception("the listener of %r failed on notification %s", delivery.subscription, notification.id)
        else:
            self.delivered += 1


def _stored(
    table: Snapshot, behind: Mapping[str, Iterable[_Delivery]], processed_to: int
) -> Iterator[tuple[Notification, int]]:
    """The stored notifications below an offset, from the first that a delivery lacks."""
    received = [delivery.received_to for group in behind.values() for delivery in group]
    first = min((offset for offset in received if offset is not None), default=processed_to)
    for batch in table.notifications(first):
        for notification, offset in notification_rows(batch):
            if offset < processed_to:
                yield notification, offset
