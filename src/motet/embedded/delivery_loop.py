"""Processes the records of a lake in log order, delivers their notifications, and stores these afterwards.

A step takes the next records to the backend and their notifications to the listeners. The notification table and the
cursors are written for many notifications at a time. After a failure the backend is restored from the table and the
log.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, groupby

import pyarrow as pa
import pyarrow.compute as pc

from motet.embedded.backend import Backend, RecordBatch
from motet.embedded.dispatcher import Consumption, Dispatcher, NotificationStream
from motet.embedded.worker import Poller, Worker
from motet.jobs.upkeep import Heartbeat, ZoneBuilding
from motet.lake import Lake, PlacedRecords, Snapshot
from motet.lake.progress import add_undelivered, cursor_name
from motet.model.batches import NOTIFICATIONS, NotificationBatch, Records, notification_batch
from motet.model.errors import MotetError
from motet.model.records import Unsubscribe
from motet.model.timeline import first_frontier

MAX_STEP_RECORDS = 65_536  # processed together
PERSIST_RECORDS = 10_000  # between two writes of the notification table
PERSIST_SECONDS = 0.25
STATE_RECORDS = 100_000  # between two state snapshots
FOLLOW_SECONDS = 0.2  # between two looks for commits of other processes
RECENT_BYTES = 64 << 20

log = logging.getLogger("motet")


class RecentRecords:
    """The events of the latest commits of this process, in memory until they are processed, up to a size."""

    def __init__(self) -> None:
        self._commits: deque[PlacedRecords] = deque()
        self._bytes = 0
        self._lock = threading.Lock()

    def add(self, commit: PlacedRecords) -> None:
        with self._lock:
            self._commits.append(commit)
            self._bytes += commit.file.size
            while self._bytes > RECENT_BYTES:
                self._drop_first()

    def take(self, first: int, stop: int) -> list[RecordBatch] | None:
        """The records of ``[first, stop)``; None if some are not in memory. Those before ``stop`` are dropped."""
        taken: list[RecordBatch] = []
        with self._lock:
            while self._commits and self._commits[0].file.first < stop:
                commit = self._commits[0]
                is_whole = commit.file.first == first and commit.file.stop <= stop
                if is_whole and len(commit.records) == 1:  # nearly always
                    taken.append((commit.records[0], commit.frontier))
                    first = commit.file.stop
                elif commit.file.first <= first < commit.file.stop:
                    taken += _between(commit, first, stop)
                    first = min(commit.file.stop, stop)
                if commit.file.stop > stop:
                    break
                self._drop_first()
        return taken if first == stop else None

    def _drop_first(self) -> None:
        self._bytes -= self._commits.popleft().file.size


def _between(commit: PlacedRecords, first: int, stop: int) -> Iterator[RecordBatch]:
    """The records of a commit in an offset range; the commit moves the frontier after its last record."""
    begin = commit.file.first
    for batch in commit.records:
        end = begin + len(batch)
        low, high = max(first, begin), min(stop, end)
        if low < high:
            is_whole = high - low == len(batch)
            records = batch if is_whole else Records(columns=batch.columns.slice(low - begin, high - low))
            yield records, commit.frontier if high == commit.file.stop else first_frontier(batch.columns)
        begin = end


class DeliveryLoop:
    """The way of records to listeners and to the notification table; `lock` is held during a step.

    With ``threaded`` a worker thread runs the steps. The follower looks for the records of other processes.
    """

    def __init__(self, lake: Lake, new_backend: Callable[[], Backend], heartbeat: Heartbeat, *, threaded: bool) -> None:
        self.lock = threading.RLock()
        self.backend: Backend = new_backend()
        self.dispatcher = Dispatcher(partial(add_undelivered, lake.store))
        self.recent_records = RecentRecords()
        self.follower = Poller(self.follow, FOLLOW_SECONDS)
        self.processed_to: int | None = None  # notifications are delivered up to here; None at first
        self.persisted_to = 0  # the table and the cursors are written up to here
        self.step_end = 0  # of the records whose notifications are being delivered, or were last
        self._lake = lake
        self._new_backend = new_backend
        self._unpersisted: list[NotificationBatch] = []  # notifications that are not in the table yet
        self._state_saved_to = 0  # offset of the last state snapshot, about
        self._advancing_thread: int | None = None
        self._has_more = False  # a listener has appended records, or has changed the listeners
        self._persist_scheduled = False  # the persister has been woken
        self._worker = Worker(self.advance) if threaded else None
        self._persister = Worker(self._try_persist, delay=PERSIST_SECONDS)
        self._zone_building = ZoneBuilding(lake)
        self._had_backlog = False  # at the last look for commits
        self._heartbeat = heartbeat
        self._is_closed = False

    @property
    def is_calling(self) -> bool:
        """Whether the caller is a listener that a step has called."""
        return self._advancing_thread == threading.get_ident()

    def process_new(self) -> None:
        """Process the records that this process has appended; a worker thread does so soon."""
        if self._worker:
            self._worker.wake()
        else:
            self.advance()

    def wait_for_room(self, max_backlog: int) -> None:
        """Wait until the worker thread is less than so many records behind."""
        if self._worker:
            self._worker.wait_for(
                lambda: self._lake.cached_snapshot().next_offset - (self.processed_to or 0) < max_backlog
            )

    def advance(self) -> None:
        """Process the records of the cached snapshot, which has those of this process's commits, and deliver."""
        with self.lock:
            if self._advancing_thread is not None:  # called by a listener: the loop that called it continues
                self._has_more = True
                return
            self._advancing_thread = threading.get_ident()
            try:
                while self._step():
                    pass
            finally:
                self._advancing_thread = None

    def flush(self) -> None:
        """Return when the notifications of all records are delivered, or are dead letters, and stored."""
        self.process_all()
        while not self.is_calling and self.dispatcher.retry_now():
            self.process_all()
        self.persist()

    def store_all(self) -> None:
        """Compute and store the notifications of all records."""
        self.process_all()
        self.persist()

    def process_all(self) -> None:
        """Process the records of all processes; a listener that has failed is not called before its time."""
        self._lake.snapshot()
        if self._worker:
            self._worker.wake()
            self._worker.flush()
        else:
            self.advance()

    def close(self) -> None:
        """Deliver and store what is left, then end the threads."""
        self._is_closed = True
        self.follower.stop(wait=not self.is_calling)
        worker, self._worker = self._worker, None
        try:
            if worker:
                worker.close()
        finally:
            self._persister.stop()
            self.persist()
            self._save_state()
            self._zone_building.close()

    def current_offset(self, snapshot: Snapshot) -> int:
        """The offset up to which records are processed; at first the end of the notification table."""
        if self.processed_to is None:
            self.backend.restore(snapshot, snapshot.notifications_end)
            self.processed_to = self.persisted_to = self._state_saved_to = snapshot.notifications_end
        return self.processed_to

    def remove_listeners(
        self,
        name: str,
        consumer: str | None = None,
        before: int | None = None,
        listener: NotificationStream | None = None,
    ) -> None:
        """Remove listeners of a subscription, as `Dispatcher.remove`, and release their consumers."""
        self._lake.consumers.release(self.dispatcher.remove(name, consumer, before, listener))
        if not len(self.dispatcher):
            self.follower.stop(wait=False)

    def start_following(self) -> None:
        """Look for the records of other processes from now on."""
        if not self._is_closed:
            self.follower.start()

    def follow(self) -> None:
        """Process what other processes have appended since the last look.

        Records of this process are left to the thread that appended them, unless they are there at two looks.
        """
        cached = self._lake.cached_snapshot()
        newest = self._lake.snapshot()
        has_backlog = newest.next_offset > (self.processed_to or 0)
        had_backlog, self._had_backlog = self._had_backlog, has_backlog
        if self._is_closed:
            return
        is_new = has_backlog and (newest is not cached or had_backlog)
        if is_new or self.dispatcher.is_behind or (not has_backlog and self._beat()):
            self.process_new()

    def _beat(self) -> bool:
        """Append a tick if one is due; True if it was appended."""
        if not self.lock.acquire(blocking=False):  # records are processed: the frontier moves, or is looked at again
            return False
        try:
            processed_to = self.processed_to
            return processed_to is not None and self._heartbeat.beat(processed_to, self.backend.waiting)
        finally:
            self.lock.release()

    def _step(self) -> bool:
        """Process the next records and deliver their notifications; True if there may be more."""
        self._has_more = False
        snapshot = self._lake.cached_snapshot()
        if self.dispatcher.has_behind:
            self._catch_up(self.current_offset(snapshot))
        first = self.current_offset(snapshot)
        stop = min(snapshot.next_offset, first + MAX_STEP_RECORDS)
        if stop > first:
            self._process(snapshot, first, stop)
        return self._has_more or stop < snapshot.next_offset

    def _catch_up(self, processed_to: int) -> None:
        if not self.dispatcher.is_behind:  # those that are behind cannot be called now
            return
        self.persist()
        self.dispatcher.catch_up(self._lake.snapshot(), processed_to, self._try_persist)
        self._schedule_persist()

    def _process(self, snapshot: Snapshot, first: int, stop: int) -> None:
        self.step_end = stop
        recent = self.recent_records.take(first, stop)
        try:
            notifications = self.backend.advance(snapshot, stop, recent)
            if not self.backend.writes_table:
                self._unpersisted += notifications
            self.dispatcher.deliver(notifications)
        except BaseException:  # the backend may have processed some of the records: restore it
            self._reset()
            raise
        self.processed_to = stop
        if recent is None:  # perhaps control records; those in memory are events
            self._remove_ended(snapshot, first, stop)
        self._schedule_persist()

    def _remove_ended(self, snapshot: Snapshot, first: int, stop: int) -> None:
        """Remove the listeners of subscriptions that another process has ended."""
        if not any(Unsubscribe.kind in segment.kinds for segment in snapshot.overlapping(first, stop)):
            return
        for record in snapshot.control_records(Unsubscribe, first=first, stop=stop):
            assert isinstance(record, Unsubscribe)
            if self.dispatcher.has_listener(record.name, before=record.offset):
                log.warning("subscription %r was ended elsewhere: its listeners receive nothing more", record.name)
                self.remove_listeners(record.name, before=record.offset)

    def _reset(self) -> None:
        self._try_persist()
        if self.processed_to is not None:
            self.dispatcher.fall_behind(self.processed_to)
        self.backend = self._new_backend()
        self.processed_to, self._unpersisted = None, []

    def _schedule_persist(self) -> None:
        """Store the notifications of a step: now if there are many records, else after a delay."""
        if self._worker:
            self._worker.notify_progress()
        if (self.processed_to or 0) - self.persisted_to >= PERSIST_RECORDS:
            self._try_persist()
        elif not self._persist_scheduled:
            self._persist_scheduled = True
            self._persister.wake()

    def _try_persist(self) -> None:
        try:
            self.persist()
        except MotetError:  # nothing is lost: it is tried again, or the notifications are computed again
            log.exception("the notifications could not be stored")

    def persist(self) -> None:
        """Write the delivered notifications to the table, and the cursors of the consumers that received them."""
        with self.lock:
            self._persist_scheduled = False
            stop = self.processed_to
            if stop is None:
                return
            if stop > self.persisted_to:
                self._write_table(stop)
            if cursors := self.dispatcher.changed_cursors(stop):
                self._write_cursors(cursors)

    def _write_table(self, stop: int) -> None:
        while (first := self._lake.snapshot().notifications_end) < stop:  # of several processes, one writes a range
            self._lake.commit_notifications(_to_table(self._unpersisted, first, stop), first, stop)
        self.persisted_to = stop
        if stop - self._state_saved_to >= STATE_RECORDS:
            self._save_state()
        self._unpersisted = [batch for batch in self._unpersisted if _last_offset(batch) >= stop]
        self._zone_building.start_if_due(stop)

    def _save_state(self) -> None:
        """Store a state snapshot, so that the next process need not read the whole log."""
        self.backend.save_state()
        self._state_saved_to = self.persisted_to

    def _write_cursors(self, cursors: Mapping[Consumption, int]) -> None:
        try:
            self._lake.consumers.put_cursors({cursor_name(*names): offset for names, offset in cursors.items()})
        except MotetError:
            self.dispatcher.requeue(cursors)
            raise


def _last_offset(batch: NotificationBatch) -> int:
    return batch.rows[-1][1] if batch.is_small else int(batch.columns.column("offset")[-1].as_py())


def _to_table(notifications: Sequence[NotificationBatch], first: int, stop: int) -> pa.Table:
    batches: list[pa.RecordBatch] = []
    for is_small, group in groupby(notifications, lambda batch: batch.is_small):  # small ones are converted together
        consecutive = list(group)
        rows = chain.from_iterable(batch.rows for batch in consecutive if is_small)
        batches += [notification_batch(rows)] if is_small else [batch.columns for batch in consecutive]
    table = pa.Table.from_batches(batches, schema=NOTIFICATIONS)
    offsets = table["offset"]
    return table.filter(pc.and_(pc.greater_equal(offsets, first), pc.less(offsets, stop)))
