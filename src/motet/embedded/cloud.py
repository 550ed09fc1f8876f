"""A live event cloud over a lake: publish, subscribe, be told.

The log is the truth: subscribing and publishing append records, notifications are derived from them in log order and
delivered at once. The notification table and the cursors of the listeners follow behind, many at a time: what a crash
keeps from being written is derived again. A listener that was away (or killed) gets what it missed when it subscribes
again; delivery is at least once, and a notification's id tells a repetition.
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
MAX_STEP_RECORDS = 65_536  # records derived together at most
PERSIST_RECORDS = 10_000
STATE_RECORDS = 100_000
PERSIST_SECONDS = 0.25

log = logging.getLogger("motet")


class Cloud:
    """Made by `motet.open()`. Methods may be called from several threads; listeners are called one at a time, in order.

    On the embedded engine a listener has been called by the time `publish` returns. With `threaded=True` (Spark) a
    worker thread derives and delivers, together what was published while it was busy; `publish` waits for it when it
    is more than `backlog` records behind, `flush()` until it has done everything.
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
        self._processed_to: int | None = None  # derived and delivered up to here; None before the first time
        self._unpersisted: list[NotificationBatch] = []  # notifications that are not in the table yet
        self._state_saved_to = 0  # the derivation's state is kept up to about here
        self._persisted_to = 0  # the table and the cursors are written up to here
        self._controls = ControlState()  # the subscriptions in force, as far as read
        self._controls_to = 0
        self._lock = threading.RLock()
        self._is_advancing = False
        self._persist_scheduled = False  # something is to be settled, and the settler knows
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

        A DecodeError names what is wrong with the first event that cannot be taken; then none was.
        """
        body = data.encode() if isinstance(data, str) else data
        plain = event_id is None and not headers
        events: EventInput | None = decode_small(body, content_type) if plain else None
        if events is None:
            events = _accepted_events(decode_bytes(body, content_type, event_id=event_id, headers=headers))
        self._wait_for_room()
        appended = self._committer.append(events, now=time.time_ns() // 1000)
        self._published += appended.accepted
        self._process_new()
        return appended

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
            self._backend.check(subscriptions)  # refuses what cannot be run, before anything is written
            known = self._active()
            for requested in subscriptions:
                _refuse_change(requested, known)
            new = {one.name: to_text(one) for one in subscriptions if one.name not in known}
            cursors = self.lake.cursors(one.name for one in subscriptions if one.name in known)
            reached = self._current_offset(self.lake.snapshot())
            first = self.lake.subscribe_all(new) if new else 0
            for name, cursor in cursors.items():
                self._dispatcher.add(name, listener, max(known[name].offset, cursor), reached)
            for offset, name in enumerate(new, first):
                self._dispatcher.add(name, listener, offset, reached)
        self._process_new()
        return tuple(requested.name for requested in subscriptions)

    def unsubscribe(self, name: str) -> None:
        """End a subscription; nothing is delivered once this has returned."""
        with self._lock:
            if name not in self._active():
                raise UsageError(f"no subscription {name!r} is in force", advice="`motet inspect` lists them.")
            self._dispatcher.remove(name)
            self.lake.unsubscribe(name)
        self._process_new()

    def tick(self, instant: int) -> None:
        """Promise that no event which ends before this instant (microseconds) will come any more."""
        self.lake.tick(instant)
        self._process_new()

    def statistics(self) -> dict[str, object]:
        """What this cloud has done since it was opened, and how many records it is behind."""
        reached = self._persisted_to if self._processed_to is None else self._processed_to
        counts = {"published": self._published, "derived": reached, "settled": self._persisted_to}
        return {
            **counts,
            "backlog": max(self.lake.snapshot().next_offset - reached, 0),
            **self._dispatcher.statistics(),
        }

    def flush(self) -> None:
        """Return when everything published so far has been derived, delivered and written down."""
        self.lake.snapshot()
        if self._worker:
            self._worker.flush()
        else:
            self._advance()
        self._persist()

    def close(self) -> None:
        """Deliver what is left, write everything down and stop. Safe to call twice."""
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
        """Write what a change makes of the background graph, all or nothing; how many triples came or went."""
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
        """The subscriptions in force, of this and of other processes, by name."""
        snapshot = self.lake.snapshot()
        self._controls.apply_all(snapshot.control_records(Subscribe, Unsubscribe, first=self._controls_to))
        self._controls_to = snapshot.next_offset
        return dict(self._controls.subscriptions)

    def _wait_for_room(self) -> None:
        """Wait until the worker is less than a backlog behind."""
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
        """Derive and deliver what is known of the log: after a commit that is all; others first look for newer."""
        with self._lock:
            if self._is_advancing:  # a listener has published or subscribed: the loop around its call goes on
                return
            self._is_advancing = True
            try:
                while self._step(self.lake.cached_snapshot()):
                    pass
            finally:
                self._is_advancing = False

    def _step(self, snapshot: Snapshot) -> bool:
        """Derive and deliver a part of a version's log; False when there is nothing left of it."""
        first = self._current_offset(snapshot)
        if self._dispatcher.is_behind:
            self._persist()
            self._dispatcher.catch_up(self.lake.snapshot(), first)
        stop = min(snapshot.next_offset, first + MAX_STEP_RECORDS)
        if stop <= first:
            return self._dispatcher.is_behind
        try:
            found = self._backend.advance(self.lake, snapshot, stop, self._recent_records)
            self._unpersisted += [] if self._backend.writes_table else found
            self._dispatcher.deliver(found)
        except BaseException:  # the derivation is somewhere between the two offsets: the next step begins anew
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
        """Where this cloud has got; at first, where the notification table ends."""
        if self._processed_to is None:
            self._backend.restore(snapshot, snapshot.notifications_end)
            self._processed_to = self._persisted_to = self._state_saved_to = snapshot.notifications_end
        return self._processed_to

    def _schedule_persist(self) -> None:
        """After a step: see to it that it gets written down."""
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
        except MotetError:  # nothing is lost: it is tried again, and what is not written is derived again
            log.exception("the notifications could not be written down")

    def _persist(self) -> None:
        """Write down the notifications that have been delivered, and that they have been."""
        with self._lock:
            self._persist_scheduled = False
            reached = self._processed_to
            if reached is None or reached == self._persisted_to:
                return
            while (first := self.lake.snapshot().notifications_end) < reached:  # one process writes a range
                self.lake.commit_notifications(_to_table(self._unpersisted, first, reached), first, reached)
            self._persisted_to = reached
            if reached - self._state_saved_to >= STATE_RECORDS:
                self._save_state()
            self._unpersisted = [found for found in self._unpersisted if _last_offset(found) >= reached]
            if told := self._dispatcher.drain_notified():
                self._advance_cursors(told, reached)

    def _save_state(self) -> None:
        """Keep what the derivation remembers: the next process need not read the log again."""
        self._backend.save_state()
        self._state_saved_to = self._persisted_to

    def _advance_cursors(self, told: set[str], reached: int) -> None:
        try:
            self.lake.advance_cursors(dict.fromkeys(told, reached))
        except MotetError:
            self._dispatcher.requeue(told)
            raise


def _accepted_events(parts: Iterable[Decoded]) -> pa.RecordBatch | pa.Table:
    """The events of a request none of which was rejected."""
    batches = []
    for part in parts:
        if part.rejected:
            raise part.rejected[0]
        batches.append(part.events)
    return batches[0] if len(batches) == 1 else pa.Table.from_batches(batches, schema=EVENTS)


def _last_offset(found: NotificationBatch) -> int:
    return found[-1][1] if isinstance(found, list) else int(found.column("offset")[-1].as_py())


def _to_table(unsettled: Sequence[NotificationBatch], first: int, stop: int) -> pa.Table:
    batches: list[pa.RecordBatch] = []
    for are_few, group in groupby(unsettled, lambda found: isinstance(found, list)):
        together = list(group)
        batches += [notification_batch(chain.from_iterable(together))] if are_few else together
    table = pa.Table.from_batches(batches, schema=NOTIFICATIONS)
    offsets = table["offset"]
    return table.filter(pc.and_(pc.greater_equal(offsets, first), pc.less(offsets, stop)))


def _refuse_change(subscription: Subscription, known: Mapping[str, Subscribe]) -> None:
    if subscription.name in known and parse(known[subscription.name].text) != (subscription,):
        raise UsageError(
            f"subscription {subscription.name!r} is in force with another text",
            advice="Unsubscribe it first, or give the new one another name.",
        )
