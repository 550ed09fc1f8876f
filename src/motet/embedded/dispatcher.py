"""Delivers notifications to the listeners and streams of a live cloud, one at a time, in log order.

A listener belongs to a consumer, whose cursor says how far it has received the notifications of a subscription. Several
listeners of one consumer each receive everything; the cursor is that of the slowest.

A listener that raises is called again after a while, with the same notification: it falls behind, and the others go on.
After several tries the notification is a dead letter, and the listener continues with the next one.

A stream is a bounded buffer for a consumer that takes notifications at its own pace. When it is full it falls behind,
too, until there is room. A notification is acknowledged when the next one is taken; the cursor of the consumer stays
before those that are not.
"""

from __future__ import annotations

import inspect
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from motet.lake import Snapshot
from motet.model.batches import notification_rows
from motet.model.errors import MotetError, UsageError
from motet.model.notifications import Notification

if TYPE_CHECKING:
    from motet.model.batches import NotificationBatch


# Streams


CAPACITY = 1024


class NotificationStream:
    """The notifications that a consumer has not taken yet, with their emission offsets.

    ``on_offer`` is called, in the delivering thread, when there is something to take after there was nothing.
    """

    def __init__(self, on_offer: Callable[[], object], capacity: int = CAPACITY) -> None:
        self.is_full = False  # a notification was refused and has not been offered again
        self.is_ended = False
        self._on_offer = on_offer
        self._capacity = capacity
        self._buffer: deque[tuple[Notification, int]] = deque()
        self._taken: int | None = None  # the offset of the notification that is not acknowledged yet
        self._lock = threading.Lock()

    def offer(self, notification: Notification, offset: int) -> bool:
        """Add a notification; False if there is no room, or if the stream has ended."""
        with self._lock:
            if self.is_ended:
                return False
            self.is_full = len(self._buffer) >= self._capacity
            if self.is_full:
                return False
            self._buffer.append((notification, offset))
            is_first = len(self._buffer) == 1
        if is_first:
            self._on_offer()
        return True

    def take(self) -> Notification | None:
        """Acknowledge the notification taken before, and take the next one; None if there is none now."""
        with self._lock:
            self._taken = None
            if not self._buffer:
                return None
            notification, self._taken = self._buffer.popleft()
            return notification

    def end(self, *, discard: bool = False) -> None:
        """Accept nothing more; with ``discard`` what was not taken is dropped, too."""
        with self._lock:
            self.is_ended = True
            if discard:
                self._buffer.clear()
        self._on_offer()

    @property
    def has_room(self) -> bool:
        """Whether at least half of the buffer is free, and the stream has not ended."""
        return not self.is_ended and len(self._buffer) <= self._capacity // 2

    @property
    def is_idle(self) -> bool:
        """Whether everything that was offered is acknowledged."""
        with self._lock:
            return not self._buffer and self._taken is None and not self.is_full

    @property
    def unacknowledged(self) -> int | None:
        """The least offset of a notification that is not acknowledged; None if all are.

        Those of several subscriptions need not be in the order of their offsets.
        """
        with self._lock:
            offsets = [offset for _, offset in self._buffer]
            return min(offsets if self._taken is None else [*offsets, self._taken], default=None)


# Delivery


Listener = Callable[[Notification], object]
#: Stores a notification that a consumer has not received: the consumer, the notification, the tries, the error.
StoreDeadLetter = Callable[[str, Notification, int, BaseException], object]
Consumption = tuple[str, str]  # a consumer and a subscription it receives notifications of

MAX_TRIES = 5  # of a listener with one notification
RETRY_SECONDS = 0.2  # before the second try; doubled for each further one
CURSOR_SECONDS = 0.25  # between two writes of the cursors on the way through stored notifications

log = logging.getLogger("motet")


class _Delivery:
    """One listener, or stream, of a consumer in one subscription."""

    __slots__ = (
        "consumer", "first", "is_active", "is_stopped", "listener", "received_at", "received_to", "retry_at", "seen_at",
        "subscription", "tries",
    )  # fmt: skip

    def __init__(
        self,
        subscription: str,
        consumer: str,
        listener: Listener | NotificationStream,
        first: int,
        *,
        is_behind: bool,
    ) -> None:
        self.subscription = subscription
        self.consumer = consumer
        self.listener = listener
        self.first = first  # the first emission offset to deliver
        self.received_to: int | None = first if is_behind else None  # None: all that is processed; else the table first
        self.received_at = 0  # how many notifications at the offset `received_to` it has received
        self.seen_at = 0  # how many notifications at that offset the table has shown, while it catches up
        self.is_stopped = False  # it cannot continue to catch up
        self.tries = 0  # failed ones, with the next notification
        self.retry_at = 0.0  # when it is called again after a failure, by the monotonic clock
        self.is_active = True

    def fall_behind(self, offset: int, received_at: int = 0) -> None:
        """Continue from the table: all notifications below an offset, and so many at it, are received."""
        self.received_to = offset
        self.received_at = received_at

    @property
    def is_due(self) -> bool:
        """Whether a delivery that is behind can continue now."""
        if isinstance(self.listener, NotificationStream):
            return self.listener.has_room
        return self.retry_at <= time.monotonic()

    def cursor(self, processed_to: int) -> int:
        """The emission offset below which everything is received."""
        received = processed_to if self.received_to is None else self.received_to
        if isinstance(self.listener, NotificationStream):
            unacknowledged = self.listener.unacknowledged
            return received if unacknowledged is None else min(received, unacknowledged)
        return received


class Dispatcher:
    """The listeners by subscription, and the emission offset up to which each has received everything."""

    def __init__(self, store_dead_letter: StoreDeadLetter) -> None:
        self.delivered = 0
        self.dead_letters = 0
        self.failures: Counter[str] = Counter()  # calls of listeners that raised, by subscription
        self._store = store_dead_letter
        self._deliveries: dict[str, tuple[_Delivery, ...]] = {}  # by subscription
        self._starts: dict[Consumption, int] = {}  # the first emission offset for every listener
        self._uses: Counter[str] = Counter()  # by consumer: the subscriptions it has listeners in
        self.has_behind = False  # whether a listener may not have received all stored notifications
        self._changed: set[Consumption] = set()  # those whose cursor is to be written
        self._streams: set[Consumption] = set()  # those that have a stream, which is acknowledged at any time

    def starts(self) -> dict[Consumption, int]:
        """For each consumer and subscription the emission offset from which its listeners receive notifications."""
        return dict(self._starts)

    def start_of(self, consumer: str, subscription: str) -> int | None:
        """The emission offset from which the listeners of a consumer receive notifications; None without any."""
        return self._starts.get((consumer, subscription))

    def add(
        self,
        subscription: str,
        consumer: str,
        listener: Listener | NotificationStream,
        first: int,
        processed_to: int,
    ) -> None:
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
        if isinstance(listener, NotificationStream):
            self._streams.add((consumer, subscription))
        if new.received_to is not None:
            self.has_behind = True
            self._changed.add((consumer, subscription))  # the cursor falls to where this listener begins

    def remove(
        self,
        subscription: str,
        consumer: str | None = None,
        before: int | None = None,
        listener: NotificationStream | None = None,
    ) -> set[str]:
        """Remove listeners of a subscription, and return the consumers that have none left.

        All, those of one consumer, those that receive notifications from an offset below ``before`` on, or one stream.
        """
        remaining, removed = [], set()
        for delivery in self._deliveries.pop(subscription, ()):
            is_meant = consumer in (None, delivery.consumer) and listener in (None, delivery.listener)
            if is_meant and (before is None or delivery.first < before):
                delivery.is_active = False
                if isinstance(delivery.listener, NotificationStream):
                    delivery.listener.end(discard=True)
                removed.add(delivery.consumer)
            else:
                remaining.append(delivery)
        if remaining:
            self._deliveries[subscription] = tuple(remaining)
        removed -= {delivery.consumer for delivery in remaining}
        for name in removed:
            del self._starts[name, subscription]
            self._streams.discard((name, subscription))
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
        """Whether a listener that can be called now has not received stored notifications yet."""
        return self.has_behind and any(delivery.received_to is not None and delivery.is_due for delivery in self._all())

    def is_stream_behind(self, streams: Collection[NotificationStream]) -> bool:
        """Whether one of these streams has not been offered everything."""
        return any(delivery.received_to is not None and delivery.listener in streams for delivery in self._all())

    def retry_now(self) -> bool:
        """Call the listeners that have failed again without waiting; False if there are none."""
        failed = [delivery for delivery in self._all() if delivery.tries] if self.has_behind else []
        for delivery in failed:
            delivery.retry_at = 0.0
        return bool(failed)

    def fall_behind(self, offset: int) -> None:
        """Deliver from an offset on from the table: the notifications after it may not have been delivered."""
        for delivery in self._all():
            if delivery.received_to is None:
                delivery.first = max(offset, delivery.first)
                delivery.fall_behind(delivery.first)
                self.has_behind = True

    def catch_up(self, table: Snapshot, processed_to: int, write_cursors: Callable[[], object]) -> None:
        """Deliver stored notifications, up to an offset, to the listeners that are behind.

        ``write_cursors`` is called now and then: a long way is not begun again after a crash.
        """
        written = time.monotonic()
        behind: dict[str, list[_Delivery]] = {}
        for delivery in self._all():
            if delivery.received_to is not None and delivery.is_due:
                behind.setdefault(delivery.subscription, []).append(delivery)
                delivery.seen_at, delivery.is_stopped = 0, False
        for notification, offset in _stored(table, behind, processed_to):
            if time.monotonic() - written > CURSOR_SECONDS:
                write_cursors()
                written = time.monotonic()
            for delivery in behind.get(notification.subscription, ()):
                self._deliver_stored(delivery, notification, offset)
        for delivery in chain.from_iterable(behind.values()):
            if not delivery.is_stopped:
                delivery.received_to = None
            self._changed.add((delivery.consumer, delivery.subscription))
        self.has_behind = any(delivery.received_to is not None for delivery in self._all())

    def _deliver_stored(self, delivery: _Delivery, notification: Notification, offset: int) -> None:
        """Pass the next stored notification to a listener, unless it has received it or has stopped before."""
        assert delivery.received_to is not None, "it is behind"
        if delivery.is_stopped or offset < delivery.received_to:
            return
        if offset > delivery.received_to:
            delivery.fall_behind(offset)  # it has everything below
            delivery.seen_at = 0
        delivery.seen_at += 1
        if delivery.seen_at > delivery.received_at:
            delivery.is_stopped = not self._call(delivery, notification, offset)
            delivery.received_at += not delivery.is_stopped

    def deliver(self, batches: Sequence[NotificationBatch]) -> None:
        """Call the listeners of new notifications."""
        for batch in batches:
            for notification, offset in batch.rows:
                for delivery in self._deliveries.get(notification.subscription, ()):
                    if offset >= delivery.first and delivery.received_to is None:  # noqa: SIM102  (a hot path)
                        if not self._call(delivery, notification, offset):
                            delivery.fall_behind(offset, _number_at(batches, notification, offset))
                            self.has_behind = True

    def changed_cursors(self, processed_to: int) -> dict[Consumption, int]:
        """The cursors of the consumers that received something, or fell behind, since they were last written."""
        changed, self._changed = self._changed, set()
        changed |= self._streams
        cursors: dict[Consumption, int] = {}
        for consumer, subscription in changed:
            received = [
                delivery.cursor(processed_to)
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
        failures = dict(sorted(self.failures.items()))
        return {"delivered": self.delivered, "failures": failures, "dead_letters": self.dead_letters}

    def _all(self) -> Iterator[_Delivery]:
        for deliveries in list(self._deliveries.values()):  # the follower calls this without the lock
            yield from deliveries

    def _call(self, delivery: _Delivery, notification: Notification, offset: int) -> bool:
        """Pass a notification to a listener; False if it must be passed again later."""
        if not delivery.is_active:  # an earlier listener of the batch has removed it
            return True
        self._changed.add((delivery.consumer, delivery.subscription))
        listener = delivery.listener
        try:
            if isinstance(listener, NotificationStream):
                return listener.offer(notification, offset)  # who takes it counts it
            if (result := listener(notification)) is not None:
                _refuse_coroutine(result)
        except Exception as error:  # noqa: BLE001  (a listener is user code: its failure must not stop the cloud)
            return self._on_failure(delivery, notification, error)
        self.delivered += 1
        delivery.tries = 0
        return True

    def store_dead_letter(self, consumer: str, notification: Notification, tries: int, error: BaseException) -> None:
        """Store a notification that a listener has refused at every try."""
        self._store(consumer, notification, tries, error)
        self.dead_letters += 1

    def _on_failure(self, delivery: _Delivery, notification: Notification, error: Exception) -> bool:
        """Schedule the next try, or store a dead letter; True if the listener continues with the next notification."""
        self.failures[delivery.subscription] += 1
        delivery.tries += 1
        what = f"the listener of {delivery.subscription!r} failed on notification {notification.id}"
        if delivery.tries >= MAX_TRIES:
            try:
                self.store_dead_letter(delivery.consumer, notification, delivery.tries, error)
            except MotetError:  # nothing is lost: the listener is called again, and then this is tried again
                log.exception("a dead letter could not be stored")
            else:
                log.error("%s %d times; it is a dead letter now", what, delivery.tries, exc_info=error)
                delivery.tries = 0
                return True
        seconds = RETRY_SECONDS * 2 ** (min(delivery.tries, MAX_TRIES) - 1)
        delivery.retry_at = time.monotonic() + seconds
        log.warning("%s; it is called again in %.1f s", what, seconds, exc_info=error)
        return False


def check_listener(listener: object) -> None:
    """Refuse what cannot be called with a notification, and coroutine functions."""
    if isinstance(listener, NotificationStream):
        return
    if not callable(listener):
        raise UsageError(f"the listener is {listener!r}, which cannot be called", advice="Give a function.")
    if inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(getattr(listener, "__call__", None)):  # noqa: B004  (an object with an async method)
        raise _coroutine_error()


def _refuse_coroutine(result: object) -> None:
    """Refuse what a listener has returned if that is still to be awaited."""
    if inspect.iscoroutine(result):
        result.close()
        raise _coroutine_error()


def _coroutine_error() -> UsageError:
    return UsageError(
        "the listener is a coroutine function, which this cloud cannot run",
        advice="Open the cloud with `async with motet.open_async(…)`, or give an ordinary function.",
    )


def _number_at(batches: Iterable[NotificationBatch], notification: Notification, offset: int) -> int:
    """How many notifications of the same subscription and offset come before this one."""
    number = 0
    for batch in batches:
        for other, at in batch.rows:
            if at == offset and other == notification:
                return number
            number += at == offset and other.subscription == notification.subscription
    raise AssertionError("the notification is one of the batches")


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
