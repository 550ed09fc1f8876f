"""How a live cloud computes notifications from records: in this process, or by the streaming pipeline.

A backend reads the log once, in order: ``restore`` brings it to an offset, each ``advance`` processes the next range.
Records that were just appended are passed from memory.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import pyarrow as pa

from motet.engine.runtime.partitions import Router
from motet.engine.runtime.processor import Processor
from motet.lake import Lake, Snapshot
from motet.lake.progress import greatest_waiting, pending_count
from motet.language.parse import parse_stored
from motet.language.scope import is_single_event
from motet.language.syntax import Subscription
from motet.model.batches import NotificationBatch, Records, Triple
from motet.model.control import registrations
from motet.model.errors import EngineError
from motet.model.records import Subscribe, Unsubscribe
from motet.model.timeline import LogRecords
from motet.plan.partitioning import BucketLayout

#: Computes and commits the notifications of the records appended so far.
ProcessAvailable = Callable[[], None]

#: Records with the frontier after the last of them.
RecordBatch = tuple[Records, int | None]

log = logging.getLogger("motet")


class Backend(Protocol):
    """What a cloud needs to turn records into notifications."""

    @property
    def writes_table(self) -> bool:
        """Whether `advance` also writes the notification table."""
        ...

    @property
    def background(self) -> frozenset[Triple]:
        """The background graph after the processed records."""
        ...

    def check(self, subscriptions: Sequence[Subscription]) -> None:
        """Refuse subscriptions that the engine cannot run."""
        ...

    def restore(self, snapshot: Snapshot, stop: int) -> None:
        """Bring the backend to the state after the records below an offset."""
        ...

    def save_state(self) -> None:
        """Store a state snapshot, so that `restore` is quick; does nothing without state."""
        ...

    def waiting(self, bound: int | None) -> int | None:
        """The greatest instant, not after ``bound``, that makes something pending final; None if there is none."""
        ...

    def pending(self) -> tuple[int, int | None]:
        """The number of notifications that wait for the frontier, and the greatest instant they wait for."""
        ...

    def advance(self, snapshot: Snapshot, stop: int, recent: Iterable[RecordBatch] | None) -> list[NotificationBatch]:
        """Process the records up to `stop` and return their notifications in offset order.

        `recent` are these records, each batch with the frontier after it, if they are in memory.
        """
        ...


class InProcessBackend:
    """Computes notifications in this process; its processor holds the operator state."""

    writes_table = False

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._processor = Processor(earlier_records=self._earlier_records)
        self._offset = 0
        self._saved_to = 0

    @property
    def background(self) -> frozenset[Triple]:
        return self._processor.background

    def check(self, subscriptions: Sequence[Subscription]) -> None:
        self._processor.refuse_cycles(subscriptions)

    def restore(self, snapshot: Snapshot, stop: int) -> None:
        """Restore the newest state snapshot, or start from the control records, and process the records after it."""
        first = self._restore_snapshot(stop)
        if first is None:
            first = self._restore_from_controls(snapshot, stop)
        for records, frontier in snapshot.log_records(first, stop):
            self._processor.advance(Records(columns=records), frontier)
        self._offset = self._saved_to = stop

    def save_state(self) -> None:
        if self._offset > self._saved_to and self._processor.is_stateful:
            self._lake.put_state(self._offset, self._processor.dump())
            self._saved_to = self._offset

    def waiting(self, bound: int | None) -> int | None:
        return self._processor.waiting(bound)

    def pending(self) -> tuple[int, int | None]:
        instants = self._processor.pending_instants()
        return len(instants), int(instants[-1]) if len(instants) else None

    def _restore_snapshot(self, stop: int) -> int | None:
        """Restore the newest readable state snapshot and return its offset; None if there is none."""
        for offset, data in self._lake.state_snapshots(stop):
            try:
                self._processor = Processor.load(data, earlier_records=self._earlier_records)
            except EngineError:
                log.exception(
                    "the state snapshot at offset %d cannot be restored; using an older one or the log", offset
                )
                continue
            return offset
        return None

    def _restore_from_controls(self, snapshot: Snapshot, stop: int) -> int:
        """Process only control records up to the first offset whose events matter, and return that offset."""
        first = _first_relevant_offset(snapshot, stop)
        for records in snapshot.controls(0, first):
            self._processor.advance(Records(columns=records), None)
        self._processor.seek(first)
        return first

    def _earlier_records(self, stop: int) -> Iterable[LogRecords]:
        return self._lake.snapshot().log_records(0, stop)

    def advance(self, snapshot: Snapshot, stop: int, recent: Iterable[RecordBatch] | None) -> list[NotificationBatch]:
        if recent is None:
            stored = snapshot.log_records(self._offset, stop)
            recent = ((Records(columns=records), frontier) for records, frontier in stored)
        emitted = []
        for records, frontier in recent:
            notifications = self._processor.advance(records, frontier)
            if len(notifications):
                emitted.append(notifications)
        self._offset = stop
        return emitted


class PipelineBackend:
    """Lets the pipeline compute and commit notifications, then reads them; follows the control records itself."""

    writes_table = True

    def __init__(self, lake: Lake, process_available: ProcessAvailable) -> None:
        self._lake = lake
        self._process_available = process_available
        self._router = Router(BucketLayout(1))
        self._offset = 0

    @property
    def background(self) -> frozenset[Triple]:
        return self._router.background

    def check(self, subscriptions: Sequence[Subscription]) -> None:
        self._router.refuse_cycles(subscriptions)

    def save_state(self) -> None:
        """Nothing: the state is in the checkpoint of the pipeline."""

    def waiting(self, bound: int | None) -> int | None:
        return greatest_waiting(self._lake.store, self._offset, bound)

    def pending(self) -> tuple[int, int | None]:
        return pending_count(self._lake.store, self._offset), self.waiting(None)

    def restore(self, snapshot: Snapshot, stop: int) -> None:
        for controls in snapshot.controls(self._offset, stop):
            self._router.route(controls)
        self._offset = stop

    def advance(self, snapshot: Snapshot, stop: int, recent: Iterable[RecordBatch] | None) -> list[NotificationBatch]:
        first = self._offset
        while snapshot.notifications_end < stop:
            self._process_available()
            snapshot = self._lake.snapshot()
        self.restore(snapshot, stop)
        batches = (NotificationBatch(columns=_before(batch, stop)) for batch in snapshot.notifications(first))
        return [batch for batch in batches if len(batch)]


def _first_relevant_offset(snapshot: Snapshot, stop: int) -> int:
    """The first offset whose events can be in the operator state at `stop`.

    That is the oldest subscribe record of a composite subscription whose registration overlaps, directly or through
    others, that of an active one: overlapping subscriptions may share state.
    """
    relevant = stop
    ranges = [
        (subscribe.offset, stop if end is None else end)
        for subscribe, end, _ in registrations(snapshot.control_records(Subscribe, Unsubscribe, stop=stop))
        if not is_single_event(parse_stored(subscribe.text, f"subscription {subscribe.name!r} in the log")[0])
    ]
    for first, end in sorted(ranges, key=lambda range_: -range_[1]):
        if end == stop or end > relevant:
            relevant = min(relevant, first)
    return relevant


def _before(batch: pa.RecordBatch, stop: int) -> pa.RecordBatch:
    return batch.slice(0, int(batch.column("offset").to_numpy().searchsorted(stop)))
