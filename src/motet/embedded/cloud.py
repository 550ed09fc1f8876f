"""The live cloud over a lake: publish events, subscribe, receive notifications.

Publishing and subscribing append records to the log; notifications are computed from them in log order and delivered
at once. The notification table and the cursors of the consumers are written later, for many notifications at a time:
after a crash the missing ones are computed again. A consumer that was away receives what it missed when its listener is
there again. Delivery is at least once; a notification that is delivered twice has the same id. A cloud with listeners
follows what other processes append.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, count, groupby
from types import TracebackType
from typing import Self
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from motet.codec.decode import Decoded, decode_bytes, decode_small
from motet.codec.events import NO_EVENTS, join_batches
from motet.codec.options import Rest
from motet.embedded.backend import (
    Backend,
    InProcessBackend,
    NotificationBatch,
    PipelineBackend,
    ProcessAvailable,
    RecentRecords,
)
from motet.embedded.background import Background
from motet.embedded.dispatcher import Consumption, Dispatcher, Listener
from motet.embedded.group_commit import GroupCommitter
from motet.embedded.worker import Poller, Worker
from motet.jobs.heartbeat import Heartbeat
from motet.lake import EventInput, Lake, Receipt, Snapshot
from motet.lake.progress import cursor_name
from motet.language.parse import parse
from motet.language.printer import to_text
from motet.language.scope import nodes
from motet.language.syntax import No, Subscription
from motet.model.batches import NOTIFICATIONS, Triple, notification_batch
from motet.model.control import ControlState
from motet.model.errors import MotetError, UsageError
from motet.model.records import EVENT, Subscribe, Tick, Unsubscribe
from motet.model.times import Instant, to_micros

__all__ = ["Cloud", "Listener", "ProcessAvailable"]

MAX_BACKLOG = 100_000  # records
MAX_STEP_RECORDS = 65_536  # processed together
PERSIST_RECORDS = 10_000  # between two writes of the notification table
PERSIST_SECONDS = 0.25
STATE_RECORDS = 100_000  # between two state snapshots
FOLLOW_SECONDS = 0.2  # between two looks for commits of other processes

_NOT_COUNTED = {  # counts of a receipt: what is said when there is one for the first time
    "late": "an event ends below the frontier and is late: it is stored and never matched (among %s). "
    "Publish sooner, or increase the lateness with `motet settings`; further ones are only counted",
    "repeated": "an event is in the log already, with the same content: it is accepted once (among %s); "
    "further ones are only counted",
    "dropped": "triples that belong to no event are left out, as rest='drop' says (events: %s)",
    "derived": "graphs of derived events are left out: they are derived again (events: %s)",
}

log = logging.getLogger("motet")


class Cloud:
    """A live event cloud over a lake, made by `motet.open()`.

    Methods may be called from several threads; listeners are called one at a time, in log order. On the embedded
    engine they have been called when `publish` returns. With `threaded=True`, and on Spark, a worker thread computes
    and delivers notifications, in one step for all events published meanwhile; `publish` waits when the worker is more
    than `backlog` records behind, `flush()` until it has caught up. While there are listeners, another thread looks for
    records of other processes and delivers their notifications within a second.
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
        self._counts: Counter[str] = Counter(dict.fromkeys(("published", "stamped", *_NOT_COUNTED), 0))
        self._processed_to: int | None = None  # notifications are delivered up to here; None at first
        self._unpersisted: list[NotificationBatch] = []  # notifications that are not in the table yet
        self._state_saved_to = 0  # offset of the last state snapshot, about
        self._persisted_to = 0  # the table and the cursors are written up to here
        self._controls = ControlState()  # of the records read so far, for the active subscriptions
        self._controls_to = 0
        self._lock = threading.RLock()
        self._advancing_thread: int | None = None
        self._step_end = 0  # of the records whose notifications are being delivered, or were last
        self._persist_scheduled = False  # the persister has been woken
        self._worker = Worker(self._advance) if threaded else None
        self._persister = Worker(self._try_persist, delay=PERSIST_SECONDS)
        self._follower = Poller(self._follow, FOLLOW_SECONDS)
        self._had_backlog = False  # at the last look for commits
        self._heartbeat = Heartbeat(lake, spark=process_available is not None)
        self._is_closed = False

    def publish(
        self,
        data: str | bytes,
        *,
        content_type: str = "application/n-quads",
        id: str | None = None,  # noqa: A002  (the language page's name)
        base: str | None = None,
        rest: Rest = "refuse",
        headers: Mapping[str, str] | None = None,
    ) -> Receipt:
        """Append the events of one request, all or none; on disk when this returns, unless the lake is not durable.

        With `id` the data is one event with that IRI. `base` resolves relative IRIs; `rest` says what happens to
        triples that belong to no event: "refuse" the data, "drop" them, or "share" them among all events. Each call is
        an input of its own: publishing a reading without an IRI twice makes two events.

        A `DecodeError` says what is wrong with the first event that is rejected; then no event is appended.
        """
        body = data.encode() if isinstance(data, str) else data
        has_only_body = id is None and not headers
        times = self.lake.cached_snapshot().settings.time_properties
        events: EventInput | None = decode_small(body, content_type, times) if has_only_body else None
        decoded: Decoded | None = None
        if events is None:
            batches = decode_bytes(
                body, content_type, headers=headers, id=id, base=base, rest=rest, input_id=uuid4().urn,
                time_properties=times,
            )  # fmt: skip
            decoded = _accepted(batches)
            events = decoded.events
        self._wait_for_room()
        receipt = self._committer.append(events)
        self._process_new()
        if decoded is not None and decoded.has_counts:
            receipt = _with_counts(receipt, decoded)
        self._count(receipt)
        return receipt

    def _count(self, receipt: Receipt) -> None:
        """Add a receipt to the statistics; the first event that does not count, of each kind, is logged."""
        self._counts["published"] += receipt.accepted
        self._counts["stamped"] += receipt.stamped
        if receipt.accepted == len(receipt.ids) and not (receipt.late or receipt.dropped or receipt.derived):
            return
        for name, text in _NOT_COUNTED.items():
            if count := getattr(receipt, name):
                if not self._counts[name]:
                    log.warning(text, ", ".join(f"<{id_}>" for id_ in receipt.ids[:3]) or "none")
                self._counts[name] += count

    def subscribe(
        self,
        subscription: str | Subscription,
        listener: Listener,
        *,
        consumer: str | None = None,
        syntax: str = "motet",
    ) -> tuple[str, ...]:
        """Register the subscriptions of a text, or one made by `motet.subscription`; returns their names.

        The listener is called for each of their notifications. It belongs to a consumer, by default one with the
        subscription's name: if an equal subscription is active already, delivery continues after the last notification
        that the consumer received. Every consumer receives everything. Several listeners of one consumer each receive
        what it receives from now on and what it missed; a consumer belongs to one process at a time.
        """
        subscriptions = parse(subscription, syntax=syntax) if isinstance(subscription, str) else (subscription,)
        consumers = {requested.name: requested.name if consumer is None else consumer for requested in subscriptions}
        with self._lock:
            if self._is_closed:
                raise UsageError("the cloud is closed", advice="Open it again to listen.")
            self._current_offset(self.lake.snapshot())
            self._backend.check(subscriptions)  # before anything is written
            self.lake.consumers.claim(consumers.values())
            try:
                while (starts := self._register(subscriptions, consumers)) is None:
                    pass  # another process has registered one of them meanwhile
            except BaseException:
                self.lake.consumers.release(self._dispatcher.without_listeners(consumers.values()))
                raise
            processed_to = max(self._current_offset(self.lake.snapshot()), self._step_end)
            for name, start in starts.items():
                self._dispatcher.add(name, consumers[name], listener, start, processed_to)
            self._follower.start()
        self._process_new()
        return tuple(requested.name for requested in subscriptions)

    def unsubscribe(self, name: str) -> None:
        """End a subscription; nothing is delivered after this has returned."""
        with self._lock:
            if name not in self._active():
                raise UsageError(f"there is no active subscription {name!r}", advice="`motet inspect` lists them.")
            self._remove_listeners(name)
            self.lake.unsubscribe(name)
        self._process_new()

    def disconnect(self, name: str, *, consumer: str | None = None) -> None:
        """Remove the listeners of a consumer, by default of the one with the subscription's name.

        The subscription stays active. The consumer receives what it misses when it has a listener again, in this
        process or in another.
        """
        with self._lock:
            consumer_name = name if consumer is None else consumer
            if self._dispatcher.start_of(consumer_name, name) is None:
                raise UsageError(
                    f"consumer {consumer_name!r} has no listener of subscription {name!r} here",
                    advice="Give the names that `subscribe` was called with.",
                )
            self._persist()  # the cursor
            self._remove_listeners(name, consumer_name)

    def tick(self, instant: Instant | None = None, *, force: bool = False) -> None:
        """Advance the frontier to an instant: events that end before it are late from now on.

        The instant is a `datetime` (UTC if it has no zone), an xsd:dateTime as text, or microseconds since 1970.
        Without one it is the greatest that an occurrence waits for: everything that is there is decided. An instant
        later than the clock and the setting `ahead` allow needs ``force``.
        """
        if instant is None:
            self._tick_pending()
        else:
            self.lake.tick(to_micros(instant), force=force)
        self._process_new()

    def _tick_pending(self) -> None:
        """Append a tick at the greatest instant that an occurrence waits for, if there is one."""
        if self._advancing_thread == threading.get_ident():
            raise UsageError(
                "a listener cannot tick without an instant: its records are still being processed",
                advice="Give an instant, or call tick() outside the listener.",
            )
        with self._lock:
            while True:
                self.lake.snapshot()
                self._advance()
                processed_to = self._current_offset(self.lake.cached_snapshot())
                instant = self._backend.waiting(None)
                if instant is None:
                    return
                if self.lake.append_controls([Tick(instant)], at=processed_to, force=True) is not None:
                    return

    def statistics(self) -> dict[str, object]:
        """Counts since the cloud was opened, the offsets it has reached, and its backlog in records."""
        processed_to = self._persisted_to if self._processed_to is None else self._processed_to
        backlog = max(self.lake.snapshot().next_offset - processed_to, 0)
        offsets = {"processed_to": processed_to, "stored_to": self._persisted_to}
        return {**self._counts, **offsets, "backlog": backlog, **self._dispatcher.statistics()}

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
        self._is_closed = True
        self._follower.stop(wait=self._advancing_thread != threading.get_ident())
        worker, self._worker = self._worker, None
        try:
            if worker:
                worker.close()
        finally:
            self._persister.stop()
            self._persist()
            self._save_state()
            self.lake.consumers.release_all()

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

    def _register(self, subscriptions: Sequence[Subscription], consumers: Mapping[str, str]) -> dict[str, int] | None:
        """Register the subscriptions that are not active; the emission offset from which each consumer receives.

        None, and nothing is done, if another process registers one of them at the same time.
        """
        active = self._refuse_changes(subscriptions)
        starts = {}
        cursors = self.lake.cursors(cursor_name(consumers[name], name) for name in consumers if name in active)
        for name, consumer in consumers.items():
            if name in active:
                start = self._dispatcher.start_of(consumer, name)
                cursor = cursors[cursor_name(consumer, name)]
                starts[name] = max(active[name].offset, cursor) if start is None else start
        new = {requested.name: to_text(requested) for requested in subscriptions if requested.name not in active}
        if new:
            first = self.lake.subscribe_all(new, after=self._controls_to)
            if first is None:
                return None
            starts |= zip(new, count(first))
            _warn_of_empty_log(
                [requested for requested in subscriptions if requested.name in new], self.lake.snapshot()
            )
        return starts

    def _refuse_changes(self, subscriptions: Sequence[Subscription]) -> Mapping[str, Subscribe]:
        """The active subscriptions; raises if one of those given is active with another text."""
        active = self._active()
        for requested in subscriptions:
            if requested.name in active and parse(active[requested.name].text) != (requested,):
                raise UsageError(
                    f"subscription {requested.name!r} is active with another text",
                    advice="Unsubscribe it first, or give the new one another name.",
                )
        return active

    def _remove_listeners(self, name: str, consumer: str | None = None, before: int | None = None) -> None:
        self.lake.consumers.release(self._dispatcher.remove(name, consumer, before))
        if not len(self._dispatcher):
            self._follower.stop(wait=False)

    def _follow(self) -> None:
        """Process what other processes have appended since the last look.

        Records of this process are left to the thread that appended them, unless they are there at two looks.
        """
        cached = self.lake.cached_snapshot()
        newest = self.lake.snapshot()
        has_backlog = newest.next_offset > (self._processed_to or 0)
        had_backlog, self._had_backlog = self._had_backlog, has_backlog
        if self._is_closed:
            return
        if (has_backlog and (newest is not cached or had_backlog)) or (not has_backlog and self._beat()):
            self._process_new()

    def _beat(self) -> bool:
        """Append a tick if one is due; True if it was appended."""
        if not self._lock.acquire(blocking=False):  # records are processed: the frontier moves, or is looked at again
            return False
        try:
            processed_to = self._processed_to
            return processed_to is not None and self._heartbeat.beat(processed_to, self._backend.waiting)
        finally:
            self._lock.release()

    def _process_new(self) -> None:
        if self._worker:
            self._worker.wake()
        else:
            self._advance()

    def _advance(self) -> None:
        """Process the records of the cached snapshot, which has those of this process's commits, and deliver."""
        with self._lock:
            if self._advancing_thread is not None:  # called by a listener: the loop that called it continues
                return
            self._advancing_thread = threading.get_ident()
            try:
                while self._step(self.lake.cached_snapshot()):
                    pass
            finally:
                self._advancing_thread = None

    def _step(self, snapshot: Snapshot) -> bool:
        """Process the next records of a snapshot and deliver their notifications; True if there may be more."""
        first = self._current_offset(snapshot)
        if self._dispatcher.is_behind:
            self._persist()
            self._dispatcher.catch_up(self.lake.snapshot(), first, self._try_persist)
            self._schedule_persist()
        stop = min(snapshot.next_offset, first + MAX_STEP_RECORDS)
        if stop <= first:
            return self._dispatcher.is_behind
        self._step_end = stop
        try:
            notifications = self._backend.advance(self.lake, snapshot, stop, self._recent_records)
            self._unpersisted += [] if self._backend.writes_table else notifications
            self._dispatcher.deliver(notifications)
        except BaseException:  # the backend may have processed some of the records: restore it
            self._reset()
            raise
        self._recent_records.prune(stop)
        self._processed_to = stop
        self._remove_ended(snapshot, first, stop)
        self._schedule_persist()
        is_last = stop == snapshot.next_offset and snapshot is self.lake.cached_snapshot()
        return not is_last or self._dispatcher.is_behind

    def _remove_ended(self, snapshot: Snapshot, first: int, stop: int) -> None:
        """Remove the listeners of subscriptions that another process has ended."""
        newest = snapshot.segments[-1]
        if newest.first == first and Unsubscribe.kind not in newest.kinds:  # the usual step: one commit of events
            return
        if not any(Unsubscribe.kind in segment.kinds for segment in snapshot.overlapping(first, stop)):
            return
        for record in snapshot.control_records(Unsubscribe, first=first, stop=stop):
            assert isinstance(record, Unsubscribe)
            if self._dispatcher.has_listener(record.name, before=record.offset):
                log.warning("subscription %r was ended elsewhere: its listeners receive nothing more", record.name)
                self._remove_listeners(record.name, before=record.offset)

    def _reset(self) -> None:
        self._try_persist()
        if self._processed_to is not None:
            self._dispatcher.fall_behind(self._processed_to)
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
        """Write the delivered notifications to the table, and the cursors of the consumers that received them."""
        with self._lock:
            self._persist_scheduled = False
            stop = self._processed_to
            if stop is None:
                return
            if stop > self._persisted_to:
                self._write_table(stop)
            if cursors := self._dispatcher.changed_cursors(stop):
                self._write_cursors(cursors)

    def _write_table(self, stop: int) -> None:
        while (first := self.lake.snapshot().notifications_end) < stop:  # of several processes, one writes a range
            self.lake.commit_notifications(_to_table(self._unpersisted, first, stop), first, stop)
        self._persisted_to = stop
        if stop - self._state_saved_to >= STATE_RECORDS:
            self._save_state()
        self._unpersisted = [batch for batch in self._unpersisted if _last_offset(batch) >= stop]

    def _save_state(self) -> None:
        """Store a state snapshot, so that the next process need not read the whole log."""
        self._backend.save_state()
        self._state_saved_to = self._persisted_to

    def _write_cursors(self, cursors: Mapping[Consumption, int]) -> None:
        try:
            self.lake.consumers.put_cursors({cursor_name(*names): offset for names, offset in cursors.items()})
        except MotetError:
            self._dispatcher.requeue(cursors)
            raise


def _accepted(decoded: Iterable[Decoded]) -> Decoded:
    """The events of a request; raises the first rejection."""
    batches = []
    for batch in decoded:
        if batch.rejected:
            raise batch.rejected[0]
        batches.append(batch)
    return join_batches(batches) if batches else Decoded(NO_EVENTS, [])


def _with_counts(receipt: Receipt, decoded: Decoded) -> Receipt:
    """The receipt, with what was left out when the request was decoded."""
    repeated = receipt.repeated + decoded.repeated
    return receipt._replace(repeated=repeated, dropped=decoded.dropped, derived=decoded.derived)


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
