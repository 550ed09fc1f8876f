"""`motet run` inside one process: files in, sorted notifications out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import BinaryIO

import pyarrow as pa

from motet.codec.decode import decode_file
from motet.embedded.job import Job, Summary
from motet.embedded.readiness import get_ready
from motet.engine.kernel import Kernel
from motet.model.errors import DecodeError
from motet.model.notifications import Notification
from motet.model.tables import EventRow, event_records, event_rows, notification_rows, stamp, tick_record
from motet.model.times import END_OF_TIME
from motet.ontology.entailment import Entailment
from motet.reference import EventRecord, Record, SubscribeRecord, TickRecord, evaluate

Reject = Callable[[Sequence[DecodeError]], None]


class _Intake:
    """The unique, stamped events of a job's files, counted as they pass."""

    def __init__(self, job: Job, reject: Reject) -> None:
        self._job = job
        self._reject = reject
        self._seen: set[str] = set()
        self.duplicates = 0
        self.rejected = 0

    @property
    def events(self) -> int:
        return len(self._seen)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for path in self._job.events:
            for decoded in decode_file(path):
                self.rejected += len(decoded.rejected)
                self._reject(decoded.rejected)
                yield stamp(self._unique(decoded.events), self._job.arrival)

    def _unique(self, events: pa.RecordBatch) -> pa.RecordBatch:
        """The first accepted content of an event wins."""
        fresh = []
        for id_ in events.column("id").to_pylist():
            fresh.append(id_ not in self._seen)
            self._seen.add(id_)
        self.duplicates += len(fresh) - sum(fresh)
        return events if all(fresh) else events.filter(pa.array(fresh, pa.bool_()))


def run_embedded(job: Job, sink: BinaryIO, reject: Reject) -> Summary:
    """Match and detect batch by batch; what waits for the end of time is decided when all events are there."""
    get_ready()
    kernel = Kernel(lateness=None, background=job.background, entailment=job.entailment)
    kernel.begin(job.subscriptions)
    intake = _Intake(job, reject)
    found: list[Notification] = []
    offset = 0
    for events in intake:
        found += (notification for notification, _ in notification_rows(kernel.advance(event_records(events, offset))))
        offset += len(events)
    found += (notification for notification, _ in notification_rows(kernel.advance(tick_record(END_OF_TIME, offset))))
    return _finish(intake, found, sink)


def run_reference(job: Job, sink: BinaryIO, reject: Reject) -> Summary:
    """Evaluate the definitions of the language page, slowly."""
    intake = _Intake(job, reject)
    rows = [row for events in intake for row in event_rows(events)]
    entailment = Entailment(job.entailment)
    found = evaluate(list(_log(job, rows)), ontology=job.background, entailment=entailment, lateness=None)
    return _finish(intake, found, sink)


def _log(job: Job, rows: Iterable[EventRow]) -> Iterator[Record]:
    """The log of section 11: subscriptions, events with unlimited lateness, a tick at the end of time."""
    offsets = count()
    for subscription in job.subscriptions:
        yield SubscribeRecord(next(offsets), subscription)
    for row in rows:
        assert row.start is not None and row.end is not None, "events are stamped"
        yield EventRecord(next(offsets), row.id, row.start, row.end, frozenset(row.triples))
    yield TickRecord(next(offsets), END_OF_TIME)


def _finish(intake: _Intake, found: Iterable[Notification], sink: BinaryIO) -> Summary:
    ordered = sorted(found, key=lambda notification: notification.sort_key)
    sink.writelines(f"{notification.to_line()}\n".encode() for notification in ordered)
    return Summary(intake.events, intake.duplicates, intake.rejected, len(ordered))
