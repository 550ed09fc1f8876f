"""What `motet run` is asked to do, loaded and checked before any event is read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa

from motet.codec.decode import decode_file
from motet.engine.runtime.processor import Processor
from motet.engine.runtime.warm_up import ensure_compiled
from motet.jobs.subscription_files import existing_file, load_subscriptions
from motet.language.syntax import Subscription
from motet.model.batches import EventRow, Triple, event_records, event_rows, notification_rows, stamp, tick_record
from motet.model.control import entailment_of
from motet.model.errors import DecodeError
from motet.model.notifications import Notification
from motet.model.times import END_OF_TIME
from motet.ontology.entailment import Entailment
from motet.ontology.load import load, read_catalogue

if TYPE_CHECKING:
    from motet.reference import Record


@dataclass(frozen=True)
class BatchJob:
    """Subscriptions first, then all events in the given order, then the end of time."""

    subscriptions: tuple[Subscription, ...]
    events: tuple[str, ...]  # paths
    background: frozenset[Triple]
    entailment: str
    arrival: int  # the time of events that carry none


@dataclass(frozen=True)
class RunSummary:
    """What a run did."""

    events: int
    duplicates: int
    rejected: int
    notifications: int
    tasks: int = 1  # that took part in reading the events


def load_job(
    subscriptions: Sequence[str],
    events: Sequence[str],
    *,
    ontology: Sequence[str] = (),
    catalogue: str | None = None,
    entailment: str | None = None,
    arrival: int | None = None,
    syntax: str = "motet",
) -> BatchJob:
    """Read everything but the events; what is wrong with the request is found here."""
    for path in events:
        existing_file(path, "event file")
    background = _background(ontology, catalogue)
    return BatchJob(
        subscriptions=load_subscriptions(subscriptions, syntax=syntax),
        events=tuple(events),
        background=background,
        entailment=entailment_of(background, entailment),
        arrival=time.time_ns() // 1000 if arrival is None else arrival,
    )


def _background(ontology: Sequence[str], catalogue: str | None) -> frozenset[Triple]:
    files = [existing_file(path, "ontology file") for path in ontology]
    return frozenset(load(files, catalogue=read_catalogue(catalogue) if catalogue else None).triples)


OnRejected = Callable[[Sequence[DecodeError]], None]


class EventFiles:
    """The unique, stamped events of a job's files, counted as they pass."""

    def __init__(self, job: BatchJob, on_rejected: OnRejected) -> None:
        self._job = job
        self._on_rejected = on_rejected
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
                self._on_rejected(decoded.rejected)
                yield stamp(self._unique(decoded.events), self._job.arrival)

    def _unique(self, events: pa.RecordBatch) -> pa.RecordBatch:
        """The first accepted content of an event wins."""
        fresh = []
        for id_ in events.column("id").to_pylist():
            fresh.append(id_ not in self._seen)
            self._seen.add(id_)
        self.duplicates += len(fresh) - sum(fresh)
        return events if all(fresh) else events.filter(pa.array(fresh, pa.bool_()))


def run_embedded(job: BatchJob, sink: BinaryIO, on_rejected: OnRejected) -> RunSummary:
    """Match and detect batch by batch; what waits for the end of time is decided when all events are there."""
    ensure_compiled()
    kernel = Processor(lateness=None, background=job.background, entailment=job.entailment)
    kernel.activate(job.subscriptions)
    files = EventFiles(job, on_rejected)
    found: list[Notification] = []
    offset = 0
    for events in files:
        found += (notification for notification, _ in notification_rows(kernel.advance(event_records(events, offset))))
        offset += len(events)
    found += (notification for notification, _ in notification_rows(kernel.advance(tick_record(END_OF_TIME, offset))))
    return _write_notifications(files, found, sink)


def run_reference(job: BatchJob, sink: BinaryIO, on_rejected: OnRejected) -> RunSummary:
    """Evaluate the definitions of the language page, slowly."""
    from motet.reference import evaluate

    files = EventFiles(job, on_rejected)
    rows = [row for events in files for row in event_rows(events)]
    entailment = Entailment(job.entailment)
    found = evaluate(list(_log(job, rows)), ontology=job.background, entailment=entailment, lateness=None)
    return _write_notifications(files, found, sink)


def _log(job: BatchJob, rows: Iterable[EventRow]) -> Iterator[Record]:
    """The log of section 11: subscriptions, events with unlimited lateness, a tick at the end of time."""
    from motet.reference import EventRecord, SubscribeRecord, TickRecord

    offsets = count()
    for subscription in job.subscriptions:
        yield SubscribeRecord(next(offsets), subscription)
    for row in rows:
        assert row.start is not None and row.end is not None, "events are stamped"
        yield EventRecord(next(offsets), row.id, row.start, row.end, frozenset(row.triples))
    yield TickRecord(next(offsets), END_OF_TIME)


def _write_notifications(files: EventFiles, found: Iterable[Notification], sink: BinaryIO) -> RunSummary:
    ordered = sorted(found, key=lambda notification: notification.sort_key)
    sink.writelines(f"{notification.to_line()}\n".encode() for notification in ordered)
    return RunSummary(files.events, files.duplicates, files.rejected, len(ordered))
