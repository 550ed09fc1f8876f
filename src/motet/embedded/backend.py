"""The way of a live cloud from records to notifications. Nothing else of the cloud knows how they are derived.

A derivation reads the log once, in order: ``resume`` brings it to where others had got, each ``advance`` takes a
further range of offsets. What was just appended is read from memory.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeAlias

import pyarrow as pa

from motet.engine.match.single_events import is_single_event
from motet.engine.runtime.active_subscription import parse_stored
from motet.engine.runtime.processor import Processor
from motet.engine.runtime.routing import BucketLayout
from motet.engine.runtime.warm_up import ensure_compiled
from motet.lake import CommitResult, CommittedRecords, Lake, Snapshot, record_batches
from motet.language.syntax import Subscription
from motet.model.batches import RecordRow, Triple
from motet.model.control import registrations
from motet.model.errors import EngineError
from motet.model.notifications import Notification
from motet.model.records import Subscribe, Unsubscribe

#: Has the notifications of all records that are there derived and committed.
ProcessAvailable = Callable[[], None]

#: Notifications with the offsets that made them final: many as NOTIFICATIONS, a few as they are.
NotificationBatch: TypeAlias = pa.RecordBatch | list[tuple[Notification, int]]

RECENT_BYTES = 64 << 20

log = logging.getLogger("motet")


class Backend(Protocol):
    """What the cloud asks for."""

    @property
    def writes_table(self) -> bool:
        """Whether `advance` also writes the notification table."""
        ...

    @property
    def background(self) -> frozenset[Triple]:
        """The background graph after what has been read."""
        ...

    def check(self, subscriptions: Sequence[Subscription]) -> None:
        """Refuse subscriptions that cannot be derived."""
        ...

    def restore(self, snapshot: Snapshot, stop: int) -> None:
        """Be as if everything below this offset had been derived."""
        ...

    def save_state(self) -> None:
        """Keep what is remembered, so that `resume` is quick; only where it stands and if it is worth it."""
        ...

    def advance(self, lake: Lake, snapshot: Snapshot, stop: int, recent: RecentRecords) -> list[NotificationBatch]:
        """The notifications of the records from where this stands up to `stop`, by offset."""
        ...


class RecentRecords:
    """CommittedRecords that were appended a moment ago, by offset, up to some size."""

    def __init__(self) -> None:
        self._commits: deque[tuple[int, int, int, CommittedRecords]] = deque()  # first, stop, bytes, records
        self._bytes = 0
        self._lock = threading.Lock()

    def add(self, committed: CommitResult) -> None:
        if committed.snapshot is None:
            return
        added = committed.snapshot.segments[-1]
        with self._lock:
            self._commits.append((added.first, added.stop, added.size, committed.records))
            self._bytes += added.size
            while self._bytes > RECENT_BYTES:
                self._drop()

    def rows(self, first: int, stop: int) -> Sequence[RecordRow] | None:
        """The records of `[first, stop)` when they are just a few, as Python values."""
        with self._lock:
            begin, end, _, records = self._commits[0] if self._commits else (0, 0, 0, [])
        return records if (begin, end) == (first, stop) and isinstance(records, list) else None

    def batches(self, first: int, stop: int) -> list[pa.RecordBatch] | None:
        """The records of `[first, stop)`, perhaps with some around them; None when they are not all here."""
        found: list[pa.RecordBatch] = []
        with self._lock:
            parts = list(self._commits)
        for begin, end, _, records in parts:
            if end > first and begin < stop:
                if begin > first:
                    return None
                found += record_batches(records)
                first = end
        return found if first >= stop else None

    def prune(self, stop: int) -> None:
        """Let go what stands before an offset."""
        with self._lock:
            while self._commits and self._commits[0][1] <= stop:
                self._drop()

    def _drop(self) -> None:
        self._bytes -= self._commits.popleft()[2]


class InProcessBackend:
    """Derives in this process, with a kernel that remembers what may still combine."""

    writes_table = False

    def __init__(self, lake: Lake) -> None:
        ensure_compiled()
        self._lake = lake
        self._kernel = Processor(lateness=lake.lateness, earlier_records=self._earlier_records)
        self._offset = 0
        self._saved_to = 0

    @property
    def background(self) -> frozenset[Triple]:
        return self._kernel.background

    def check(self, subscriptions: Sequence[Subscription]) -> None:
        self._kernel.refuse_cycles(subscriptions)

    def restore(self, snapshot: Snapshot, stop: int) -> None:
        """The state is what the log makes it: a saved one is a shorter way there."""
        first = self._restore_snapshot(stop)
        if first is None:
            first = self._restore_from_controls(snapshot, stop)
        for records in snapshot.records(first, stop):
            self._kernel.advance(records)
        self._offset = self._saved_to = stop

    def save_state(self) -> None:
        if self._offset > self._saved_to and self._kernel.is_stateful:
            self._lake.put_state(self._offset, self._kernel.dump())
            self._saved_to = self._offset

    def _restore_snapshot(self, stop: int) -> int | None:
        """Where the newest state stands that can be read; None when there is none."""
        for offset, data in self._lake.state_snapshots(stop):
            try:
                self._kernel = Processor.load(data, earlier_records=self._earlier_records)
            except EngineError:
                log.exception("the state at offset %d is left alone; the log is read instead", offset)
                continue
            return offset
        return None

    def _restore_from_controls(self, snapshot: Snapshot, stop: int) -> int:
        """Where nobody combines events yet, only control records matter; where events begin to."""
        needed = _first_relevant_offset(snapshot, stop)
        for records in snapshot.controls(0, needed):
            self._kernel.advance(records)
        self._kernel.seek(needed)
        return needed

    def _earlier_records(self, stop: int) -> Iterable[pa.RecordBatch]:
        return self._lake.snapshot().records(0, stop)

    def advance(self, lake: Lake, snapshot: Snapshot, stop: int, recent: RecentRecords) -> list[NotificationBatch]:
        rows = recent.rows(self._offset, stop)
        told = self._kernel.advance_small(rows) if rows else None
        if told is not None:
            self._offset = stop
            return [told] if told else []
        records: Iterable[pa.RecordBatch] | None = recent.batches(self._offset, stop)
        if records is None:
            records = snapshot.records(self._offset, stop)
        found = [self._kernel.advance(_slice(batch, self._offset, stop)) for batch in records]
        self._offset = stop
        return [batch for batch in found if batch.num_rows]


class PipelineBackend:
    """Has others derive and commit, then reads what they wrote. Control records are read here, too."""

    writes_table = True

    def __init__(self, lake: Lake, derive: ProcessAvailable) -> None:
        self._process_available = derive
        self._router = Processor(lateness=lake.lateness, layout=BucketLayout(1))
        self._offset = 0

    @property
    def background(self) -> frozenset[Triple]:
        return self._router.background

    def check(self, subscriptions: Sequence[Subscription]) -> None:
        self._router.refuse_cycles(subscriptions)

    def save_state(self) -> None:
        """Those who derive remember."""

    def restore(self, snapshot: Snapshot, stop: int) -> None:
        for controls in snapshot.controls(self._offset, stop):
            self._router.route(controls)
        self._offset = stop

    def advance(self, lake: Lake, snapshot: Snapshot, stop: int, recent: RecentRecords) -> list[NotificationBatch]:
        begin = self._offset
        while snapshot.notifications_end < stop:
            self._process_available()
            snapshot = lake.snapshot()
        self.restore(snapshot, stop)
        return [part for batch in snapshot.notifications(begin) if (part := _before(batch, stop)).num_rows]


def _first_relevant_offset(snapshot: Snapshot, stop: int) -> int:
    """The offset from which on events matter: where the oldest subscription began that combines events and was in force
    at the same time as one that still is, or as one that was so with another.
    """
    needed = stop
    ranges = [
        (subscribe.offset, stop if end is None else end)
        for subscribe, end in registrations(snapshot.control_records(Subscribe, Unsubscribe, stop=stop))
        if not is_single_event(parse_stored(subscribe.text, f"subscription {subscribe.name!r} in the log")[0])
    ]
    for first, end in sorted(ranges, key=lambda range_: -range_[1]):
        if end == stop or end > needed:
            needed = min(needed, first)
    return needed


def _slice(batch: pa.RecordBatch, first: int, stop: int) -> pa.RecordBatch:
    offsets = batch.column("offset")
    if not batch.num_rows or (offsets[0].as_py() >= first and offsets[-1].as_py() < stop):
        return batch
    begin, end = offsets.to_numpy().searchsorted([first, stop])
    return batch.slice(begin, end - begin)


def _before(batch: pa.RecordBatch, stop: int) -> pa.RecordBatch:
    return batch.slice(0, int(batch.column("offset").to_numpy().searchsorted(stop)))
