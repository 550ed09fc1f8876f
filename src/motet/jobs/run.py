"""Batch runs over event files: the job, and how the embedded and the reference engine run it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa

from motet.codec.decode import decode_file
from motet.codec.events import COUNTS, Decoded, OnRejected, UniqueEvents
from motet.codec.options import DecodeOptions, Rest
from motet.codec.row_mapping import RowMapping
from motet.engine.runtime.processor import Processor
from motet.jobs.subscription_files import existing_file, load_subscriptions
from motet.language.syntax import Subscription, with_mappings
from motet.lint.ontology_rules import UnknownName, UnknownNames
from motet.model.batches import (
    EventRow,
    Records,
    Triple,
    event_records,
    event_rows,
    notification_batch,
    stamp,
    tick_record,
)
from motet.model.control import entailment_of
from motet.model.errors import LimitError
from motet.model.notification_lines import sorted_lines
from motet.model.times import END_OF_TIME
from motet.ontology.entailment import Entailment
from motet.ontology.load import Ontology

if TYPE_CHECKING:
    from motet.model.notifications import Notification
    from motet.provenance.text import Compositions
    from motet.reference import Record
    from motet.reference.log import Observe

MAX_COMPOSED_EVENTS = 2_000  # of a composition tree, by the definitions


@dataclass(frozen=True)
class BatchJob:
    """Subscriptions and event files: a log of the subscriptions, all events in order, and a tick at the end of time."""

    subscriptions: tuple[Subscription, ...]
    events: tuple[str, ...]  # paths
    background: frozenset[Triple]
    entailment: str
    arrival: int  # the time of events without one
    base: str | None = None  # of relative IRIs in the files
    rest: Rest = "refuse"  # what happens to triples that belong to no event
    mapping: RowMapping | None = None  # of rows and documents in the files


@dataclass(frozen=True)
class RunSummary:
    """The counts of a run."""

    events: int
    repeated: int  # events
    rejected: int  # events and parts of files
    notifications: int
    tasks: int = 1  # that read the events
    dropped: int = 0  # triples that belong to no event, with rest=drop
    derived: int = 0  # graphs of derived events, which are derived again
    unknown_names: tuple[UnknownName, ...] = ()  # of classes and properties; not looked for on Spark


def load_job(  # noqa: PLR0913  (independent options)
    subscriptions: Sequence[str],
    events: Sequence[str],
    *,
    ontology: Ontology | None = None,
    entailment: str | None = None,
    arrival: int | None = None,
    syntax: str = "motet",
    base: str | None = None,
    rest: Rest = "refuse",
    mapping: RowMapping | None = None,
) -> BatchJob:
    """Load everything but the events; wrong arguments are refused here."""
    for path in events:
        existing_file(path, "event file")
    DecodeOptions("events", base=base, rest=rest)
    background = frozenset(ontology.triples if ontology is not None else ())
    loaded, mappings = load_subscriptions(subscriptions, syntax=syntax), _document_mappings(mapping, events)
    return BatchJob(
        subscriptions=tuple(with_mappings(each, mappings) for each in loaded) if mappings else loaded,
        events=tuple(events),
        background=background,
        entailment=entailment_of(background, entailment),
        arrival=time.time_ns() // 1000 if arrival is None else arrival,
        base=base,
        rest=rest,
        mapping=mapping,
    )


def _document_mappings(mapping: RowMapping | None, events: Sequence[str]) -> tuple[str, ...]:
    """The mapping of a job as one of XML documents, unless it is for rows: those of events with other formats."""
    if mapping is None:
        return ()
    is_for_documents = mapping.root is not None or mapping.is_generic
    return (mapping.text,) if is_for_documents or any(".xml" in Path(path).suffixes for path in events) else ()


class EventFiles:
    """The stamped events of a job's files, of several with one IRI the first; counts what it has read."""

    def __init__(self, job: BatchJob, on_rejected: OnRejected) -> None:
        self._job = job
        self._on_rejected = on_rejected
        self._ids: set[str] = set()
        self._unique: UniqueEvents | None = None  # from the first event on whose IRI was read before
        self.counts = Counter[str]()
        self.unknown_names = UnknownNames(job.subscriptions, job.background)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for number, (path, batch) in enumerate(self._batches()):
            decoded = self._first_events(batch, path, number)
            self.counts["events"] += decoded.events.num_rows
            self.counts["rejected"] += len(decoded.rejected)
            self.counts.update({name: getattr(decoded, name) for name in COUNTS})
            self._on_rejected(decoded.rejected)
            self.unknown_names.observe(decoded.events)
            yield stamp(decoded.events, self._job.arrival)

    def _batches(self) -> Iterator[tuple[str, Decoded]]:
        for path in self._job.events:
            for batch in decode_file(path, base=self._job.base, rest=self._job.rest, mapping=self._job.mapping):
                yield path, batch

    def _first_events(self, batch: Decoded, path: str, number: int) -> Decoded:
        """The events of a batch with new IRIs.

        Digests of contents take as long as decoding and are needed only if an IRI is read again. Then the digests of
        the batches before this one are computed by decoding them again.
        """
        if self._unique is None:
            ids = batch.events.column("id").to_pylist()
            count = len(self._ids)
            self._ids.update(ids)
            if len(self._ids) == count + len(ids):
                return batch
            self._unique, self._ids = UniqueEvents(), set()
            for earlier_path, earlier in islice(self._batches(), number):
                self._unique.filter(earlier, earlier_path)
        return self._unique.filter(batch, path)

    def summary(self, notifications: int) -> RunSummary:
        counts = {name: self.counts[name] for name in ("events", "rejected", *COUNTS)}
        return RunSummary(notifications=notifications, unknown_names=self.unknown_names.found(), **counts)


def run_embedded(job: BatchJob, sink: BinaryIO, on_rejected: OnRejected) -> RunSummary:
    """Process the events batch by batch, then a tick at the end of time, which makes all occurrences final."""
    processor = Processor(background=job.background, entailment=job.entailment)
    processor.activate(job.subscriptions)
    files = EventFiles(job, on_rejected)
    notifications: list[pa.RecordBatch] = []
    offset = 0
    for events in files:
        notifications.append(processor.advance(Records(columns=event_records(events, offset)), None).columns)
        offset += len(events)
    end = Records(columns=tick_record(END_OF_TIME, offset))
    notifications.append(processor.advance(end, END_OF_TIME).columns)
    return files.summary(write_notifications(notifications, sink))


def run_reference(job: BatchJob, sink: BinaryIO, on_rejected: OnRejected) -> RunSummary:
    """Evaluate the definitions of the language page directly, which is slow."""
    files = EventFiles(job, on_rejected)
    batch = notification_batch((notification, 0) for notification in _evaluate(job, files))
    return files.summary(write_notifications([batch], sink))


def compose(job: BatchJob, on_rejected: OnRejected) -> tuple[Compositions, Counter[str]]:
    """The composition trees of the subscriptions over the events, and their numbers of notifications by name."""
    from motet.provenance.text import Compositions

    compositions, files = Compositions(), EventFiles(job, on_rejected)
    notifications = _evaluate(job, files, compositions.observe, max_events=MAX_COMPOSED_EVENTS)
    return compositions, Counter(notification.subscription for notification in notifications)


def _evaluate(
    job: BatchJob,
    files: EventFiles,
    observe: Observe = lambda name, pattern, results: None,
    *,
    max_events: int | None = None,
) -> list[Notification]:
    """The notifications by the reference engine, each once."""
    from motet.reference import evaluate_emissions

    rows: list[EventRow] = []
    for events in files:
        rows += event_rows(events)
        if max_events is not None and len(rows) > max_events:
            raise LimitError(
                f"there are more than {max_events} events", advice="Give fewer: those around a notification."
            )
    log, entailment = list(_log(job, rows)), Entailment(job.entailment)
    emitted = evaluate_emissions(log, ontology=job.background, entailment=entailment, lateness=None, observe=observe)
    return list(dict.fromkeys(notification for _, notification in emitted))


def _log(job: BatchJob, rows: Iterable[EventRow]) -> Iterator[Record]:
    """The log of section 11: subscriptions, events with unlimited lateness, a tick at the end of time."""
    from motet.reference import EventRecord, SubscribeRecord, TickRecord

    offsets = count()
    for subscription in job.subscriptions:
        yield SubscribeRecord(next(offsets), subscription)
    for row in rows:
        assert row.start is not None and row.end is not None, "events are stamped"
        yield EventRecord(next(offsets), row.id, row.start, row.end, frozenset(row.triples), payload=row.payload)
    yield TickRecord(next(offsets), END_OF_TIME)


def write_notifications(batches: Iterable[pa.RecordBatch], sink: BinaryIO) -> int:
    """Write the sorted lines of notifications and return their number."""
    count = 0
    for lines in sorted_lines(batches):
        sink.write("".join(f"{line}\n" for line in lines).encode())
        count += len(lines)
    return count
