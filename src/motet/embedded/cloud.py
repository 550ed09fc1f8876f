"""The live cloud over a lake: publish events, subscribe, receive notifications.

Publishing and subscribing append records to the log; notifications are computed from them in log order and delivered
at once. The notification table and the cursors of the listeners are written later, for many notifications at a time:
after a crash the missing ones are computed again. A listener that was disconnected receives what it missed when it
subscribes again. Delivery is at least once; a notification that is delivered twice has the same id.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, groupby
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from motet.codec.decode import Decoded, decode_bytes, decode_small
from motet.embedded.backend import (
    Backend,
    InProcessBackend,
    NotificationBatch,
    PipelineBackend,
    ProcessAvailable,
    RecentRecords,
)
from motet.embedded.background import Background
from motet.embedded.dispatcher import Dispatcher, Listener
from motet.embedded.group_commit import GroupCommitter
from motet.embedded.worker import Worker
from motet.lake import EventInput, Lake, Receipt, Snapshot
from motet.language.parse import parse
from motet.language.printer import to_text
from motet.language.syntax import Subscription
from motet.model.batches import EVENTS, NOTIFICATIONS, Triple, notification_batch
from motet.model.control import ControlState
from motet.model.errors import MotetError, UsageError
from motet.model.records import Subscribe, Unsubscribe

__all__ = ["Cloud", "Listener", "ProcessAvailable"]

MAX_BACKLOG = 100_000  # records
MAX_STEP_RECORDS = 65_536  # processed together
PERSIST_RECORDS = 10_000  # between two writes of the notification table
PERSIST_SECONDS = 0.25
STATE_RECORDS = 100_000  # between two state snapshots

log = logging.getLogger("motet")


class Cloud:
    """A live event cloud over a lake, made by `motet.open()`.

    Methods may be called from several threads; listeners are called one at a time, in log order. On the embedded
    engine they have been called when `publish` returns. With `threaded=True`, and on Spark, a worker thread computes
    and delivers notifications, in one step for all events published meanwhile; `publish` waits when the worker is more
    than `backlog` records behind, `flush()` until it has caught up.
    """

    def __init__(
        self,
        lake: Lake,
        process_available: ProcessAvailable | None = None,
        *,
        threaded: bool = False,
        backlog: int = MAX_BACKLOG,
    ) -> None:
        if backlog < 1:
            raise UsageError(f"backlog must be at least 1, not {backlog}", advice="Use 1 or more.")
        self.lake = lake
        self.background = Background(self._change_background)
        self._max_backlog = backlog
        self._new_backend: Callable[[], Backend] = (
            partial(InProcessBackend, lake)
            if process_available is None
            else partial(PipelineBackend, lake, process_available)
        )
        self._backend: Backend = self._new_backend()
        self._dispatcher = Dispatcher()
        self._recent_records = RecentRecords()
        self._committer = GroupCommitter(lake, self._recent_records.add)
        self._published = 0
        self._processed_to: int | None = None  # notifications are delivered up to here; None at first
        self._unpersisted: list[NotificationBatch] = []  # notifications that are not in the table yet
        self._state_saved_to = 0  # offset of the last state snapshot, about
        self._persisted_to = 0  # the table and the cursors are written up to here
        self._controls = ControlState()  # of the records read so far, for the active subscriptions
        self._controls_to = 0
        self._lock = threading.RLock()
        self._is_advancing = False
        self._persist_scheduled = False  # the persister has been woken
        self._worker = Worker(self._advance) if threaded else None
        self._persister = Worker(self._try_persist, delay=PERSIST_SECONDS)

    def publish(
        self,
        data: str | bytes,
        *,
        content_type: str = "application/n-quads",
        event_id: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Receipt:
        """Append the events of one request, all or none; on disk when this returns, unless the lake is not durable.

        A `DecodeError` says what is wrong with the first event that is rejected; then no event is appended.
        """
        body = data.encode() if isinstance(data, str) else data
        has_only_body = event_id is None and not headers
        events: EventInput | None = decode_small(body, content_type) if has_only_body else None
        if events is None:
            events = _accepted_events(decode_bytes(body, content_type, event_id=event_id, headers=headers))
        self._wait_for_room()
        receipt = self._committer.append(events, now=time.time_ns() // 1000)
        self._published += receipt.accepted
        self._process_new()
        return receipt

    def subscribe(
        self, subscription: str | Subscription, listener: Listener, *, syntax: str = "motet"
    ) -> tuple[str, ...]:
        """Register the subscriptions of a text, or one made by `motet.subscription`; returns their names.

        The listener is called for each of their notifications. If an equal subscription is active already, delivery
        continues after the last notification that its listener received.
        """
        subscriptions = parse(subscription, syntax=syntax) if isinstance(subscription, str) else (subscription,)
        with self._lock:
            self._current_offset(self.lake.snapshot())
            self._backend.check(subscriptions)  # before anything is written
            active = self._active()
            for requested in subscriptions:
                _refuse_change(requested, active)
            new = {requested.name: to_text(requested) for requested in subscriptions if requested.name not in active}
            cursors = self.lake.cursors(requested.name for requested in subscriptions if requested.name in active)
            processed_to = self._current_offset(self.lake.snapshot())
            first = self.lake.subscribe_all(new) if new else 0
            for name, cursor in cursors.items():
                self._dispatcher.add(name, listener, max(active[name].offset, cursor), processed_to)
            for offset, name in enumerate(new, first):
                self._dispatcher.add(name, listener, offset, processed_to)
        self._process_new()
        return tuple(requested.name for requested in subscriptions)

    def unsubscribe(self, name: str) -> None:
        """End a subscription; nothing is delivered after this has returned."""
        with self._lock:
            if name not in self._active():
                raise UsageError(f"there is no active subscription {name!r}", advice="`motet inspect` lists them.")
            self._dispatcher.remove(name)
            self.lake.unsubscribe(name)
        self._process_new()

    def tick(self, instant: int) -> None:
        """Advance the frontier to an instant in microseconds: events that end before it are late from now on."""
        self.lake.tick(instant)
        self._process_new()

    def statistics(self) -> dict[str, object]:
        """Counts since the cloud was opened, the offsets it has reached, and its backlog in records."""
        processed_to = self._persisted_to if self._processed_to is None else self._processed_to
        backlog = max(self.lake.snapshot().next_offset - processed_to, 0)
        offsets = {"derived": processed_to, "settled": self._persisted_to}
        return {"published": self._published, **offsets, "backlog": backlog, **self._dispatcher.statistics()}

    def flush(self) -> None:
        """Return when the notifications of all published events are delivered and stored."""
        self.lake.snapshot()
        if self._worker:
            self._worker.flush()
        else:
            self._advance()
        self._persist()

    def close(self) -> None:
        """Deliver and store the remaining notifications, then stop. Safe to call twice."""
        worker, self._worker = self._worker, None
        try:
            if worker:
                worker.close()
        finally:
            self._persister.stop()
            self._persist()
            self._save_state()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _change_background(self, change: Callable[[frozenset[Triple]], frozenset[Triple]]) -> int:
        """Append the changes that a function makes to the background graph, and return their number."""
        with self._lock:
            self.lake.snapshot()
            self._advance()
            before = self._backend.background
            after = change(before)
            if after != before:
                self.lake.background(added=sorted(after - before), removed=sorted(before - after))
        self._process_new()
        return len(after ^ before)

    def _active(self) -> Mapping[str, Subscribe]:
        """The active subscriptions by name, also those of other processes."""
        snapshot = self.lake.snapshot()
        self._controls.apply_all(snapshot.control_records(Subscribe, Unsubscribe, first=self._controls_to))
        self._controls_to = snapshot.next_offset
        return dict(self._controls.subscriptions)

    def _wait_for_room(self) -> None:
        """Wait until the worker is less than the maximal backlog behind."""
        if self._worker:
            self._worker.wait_for(
                lambda: self.lake.cached_snapshot().next_offset - (self._processed_to or 0) < self._max_backlog
            )

    def _process_new(self) -> None:
        if self._worker:
            self._worker.wake()
        else:
            self._advance()

    def _advance(self) -> None:
        """Process the records of the cached snapshot, which has those of this process's commits, and deliver."""
        with self._lock:
            if self._is_advancing:  # called by a listener: the loop that called it continues
                return
            self._is_advancing = True
            try:
                while self._step(self.lake.cached_snapshot()):
                    pass
            finally:
                self._is_advancing = False

    def _step(self, snapshot: Snapshot) -> bool:
        """Process the next records of a snapshot and deliver their notifications; False when none are left."""
        first = self._current_offset(snapshot)
        if self._dispatcher.is_behind:
            self._persist()
            self._dispatcher.catch_up(self.lake.snapshot(), first)
        stop = min(snapshot.next_offset, first + MAX_STEP_RECORDS)
        if stop <= first:
            return self._dispatcher.is_behind
        try:
            notifications = self._backend.advance(self.lake, snapshot, stop, self._recent_records)
            self._unpersisted += [] if self._backend.writes_table else notifications
            self._dispatcher.deliver(notifications)
        except BaseException:  # the backend may have processed some of the records: restore it
            self._reset()
            raise
        self._recent_records.prune(stop)
        self._processed_to = stop
        self._schedule_persist()
        return True

    def _reset(self) -> None:
        self._try_persist()
        self._backend = self._new_backend()
        self._processed_to, self._unpersisted = None, []

    def _current_offset(self, snapshot: Snapshot) -> int:
        """The offset up to which records are processed; at first the end of the notification table."""
        if self._processed_to is None:
            self._backend.restore(snapshot, snapshot.notifications_end)
            self._processed_to = self._persisted_to = self._state_saved_to = snapshot.notifications_end
        return self._processed_to

    def _schedule_persist(self) -> None:
        """Store the notifications of a step: now if there are many records, else after a delay."""
        if self._worker:
            self._worker.notify_progress()
        if (self._processed_to or 0) - self._persisted_to >= PERSIST_RECORDS:
            self._try_persist()
        elif not self._persist_scheduled:
            self._persist_scheduled = True
            self._persister.wake()

    def _try_persist(self) -> None:
        try:
            self._persist()
        except MotetError:  # nothing is lost: it is tried again, or the notifications are computed again
            log.exception("the notifications could not be stored")

    def _persist(self) -> None:
        """Write the delivered notifications to the table, and the cursors of their subscriptions."""
        with self._lock:
            self._persist_scheduled = False
            stop = self._processed_to
            if stop is None or stop == self._persisted_to:
                return
            while (first := self.lake.snapshot().notifications_end) < stop:  # of several processes, one writes a range
                self.lake.commit_notifications(_to_table(self._unpersisted, first, stop), first, stop)
            self._persisted_to = stop
            if stop - self._state_saved_to >= STATE_RECORDS:
                self._save_state()
            self._unpersisted = [batch for batch in self._unpersisted if _last_offset(batch) >= stop]
            if notified := self._dispatcher.drain_notified():
                self._advance_cursors(notified, stop)

    def _save_state(self) -> None:
        """Store a state snapshot, so that the next process need not read the whole log."""
        self._backend.save_state()
        self._state_saved_to = self._persisted_to

    def _advance_cursors(self, notified: set[str], offset: int) -> None:
        try:
            self.lake.advance_cursors(dict.fromkeys(notified, offset))
        except MotetError:
            self._dispatcher.requeue(notified)
            raise


def _accepted_events(decoded: Iterable[Decoded]) -> pa.RecordBatch | pa.Table:
    """The events of a request; raises the first rejection."""
    batches = []
    for batch in decoded:
        if batch.rejected:
            raise batch.rejected[0]
        batches.append(batch.events)
    return batches[0] if len(batches) == 1 else pa.Table.from_batches(batches, schema=EVENTS)


def _last_offset(batch: NotificationBatch) -> int:
    return batch[-1][1] if isinstance(batch, list) else int(batch.column("offset")[-1].as_py())


def _to_table(notifications: Sequence[NotificationBatch], first: int, stop: int) -> pa.Table:
    batches: list[pa.RecordBatch] = []
    for are_rows, group in groupby(notifications, lambda batch: isinstance(batch, list)):
        consecutive = list(group)
        batches += [notification_batch(chain.from_iterable(consecutive))] if are_rows else consecutive
    table = pa.Table.from_batches(batches, schema=NOTIFICATIONS)
    offsets = table["offset"]
    return table.filter(pc.and_(pc.greater_equal(offsets, first), pc.less(offsets, stop)))


def _refuse_change(subscription: Subscription, active: Mapping[str, Subscribe]) -> None:
    if subscription.name in active and parse(active[subscription.name].text) != (subscription,):
        raise UsageError(
            f"subscription {subscription.name!r} is active with another text",
            advice="Unsubscribe it first, or give the new one another name.",
        )
