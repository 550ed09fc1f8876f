"""Engines that run the processor without a host: alone, and partitioned over buckets.

The log is read in random batches, and the state is written and restored after each, so that errors in batching,
pruning, state snapshots and emission offsets are found. The partitioned engine does what the pipeline on Spark does,
without Spark. Other engines test the hosts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from motet import reference
from motet.fuzz.case import Case, emission_lines
from motet.language.parse import parse
from motet.language.printer import to_text
from motet.model.batches import NotificationBatch, RecordRow, Records, Triple, notification_rows, record_batch
from motet.model.records import (
    EVENT,
    UNCOMMITTED,
    BackgroundChange,
    Retraction,
    SettingsChange,
    Subscribe,
    Tick,
    Unsubscribe,
)
from motet.model.settings import Settings
from motet.model.timeline import FrontierTimeline, LogRecords, first_frontier

BEFORE_CASE = -1  # the offset of records that a log has before those of its case: settings and ontology
#: Probabilities that a batch ends after a record; one is chosen for each case.
CUT_PROBABILITIES = (0.03, 0.1, 0.1, 0.3, 1.0)
RESCALE_PROBABILITY = 0.1  # that the number of buckets changes after a batch
RESTORE_PROBABILITY = 0.5  # that the state is written and read after a batch; a processor that goes on has timers, too


EarlierRecords = Callable[[int], Iterable[LogRecords]]  # the records before an offset


class RecordProcessor(Protocol):
    """The interface of the processor for its hosts."""

    def advance(self, records: Records, frontier: int | None) -> NotificationBatch:
        """Process the next records of the log, after which the frontier is given; returns the notifications they made
        final.
        """
        ...


@dataclass(frozen=True)
class ProcessorSettings:
    """The arguments of a new processor."""

    background: frozenset[Triple]
    earlier_records: EarlierRecords


def _create(settings: ProcessorSettings) -> RecordProcessor:
    from motet.engine.runtime.processor import Processor

    return Processor(background=settings.background, earlier_records=settings.earlier_records)


def _restore(processor: RecordProcessor, earlier_records: EarlierRecords) -> RecordProcessor:
    from motet.engine.runtime.processor import Processor

    assert isinstance(processor, Processor)
    return Processor.load(processor.dump(), earlier_records=earlier_records)


@dataclass(frozen=True)
class ProcessorEngine:
    """One processor. ``create`` makes an empty one, ``restore`` one from the written state of another."""

    name: str = "kernel"
    accepts_logs: bool = True
    cases_per_run: int = 1
    has_offsets: bool = True
    create: Callable[[ProcessorSettings], RecordProcessor] = _create
    restore: Callable[[RecordProcessor, EarlierRecords], RecordProcessor] = _restore
    cut_probabilities: tuple[float, ...] = CUT_PROBABILITIES

    def run(self, cases: Sequence[Case]) -> list[list[str]]:
        return [self._lines(case) for case in cases]

    def _lines(self, case: Case) -> list[str]:
        random = Random(case.seed)  # noqa: S311  (seeded, not secret)
        background = case.ontology if random.random() < 0.5 else frozenset()
        log = log_records(replace(case, ontology=case.ontology - background))
        return self.process(log, background, random)

    def process(self, log: CaseLog, background: frozenset[Triple], random: Random) -> list[str]:
        """The notification lines of a log, read in random batches, with the state written and read in between."""

        def earlier_records(offset: int) -> Iterator[tuple[pa.RecordBatch, int | None]]:
            return random_batches(log, offset, random, self.cut_probabilities)

        processor = self.create(ProcessorSettings(background, earlier_records))
        emissions = []
        for batch, frontier in random_batches(log, len(log.records), random, self.cut_probabilities):
            notifications = processor.advance(Records(columns=batch), frontier).rows
            emissions += [(log.case_offsets[offset], notification) for notification, offset in notifications]
            if random.random() < RESTORE_PROBABILITY:
                processor = self.restore(processor, earlier_records)
        return emission_lines(emissions, offsets=self.has_offsets)


@dataclass(frozen=True)
class CaseLog:
    """The log of a case as in a lake."""

    records: pa.RecordBatch
    frontier: int | None  # after the last record
    case_offsets: Sequence[int]  # for each row, the offset of its record in the case

    def frontier_at(self, offset: int) -> int | None:
        """The frontier that the record at an offset stores, or the one after the last record."""
        stored = self.records.slice(offset, 1)
        return first_frontier(stored) if len(stored) else self.frontier


def random_batches(
    log: CaseLog, end: int, random: Random, cut_probabilities: Sequence[float] = CUT_PROBABILITIES
) -> Iterator[tuple[pa.RecordBatch, int | None]]:
    """The records below an offset in batches of random sizes, with one of the probabilities of a cut, each with the
    frontier after it.
    """
    probability = random.choice(cut_probabilities)
    first = 0
    for stop in range(1, end + 1):
        if stop == end or random.random() < probability:
            yield log.records.slice(first, stop - first), log.frontier_at(stop)
            first = stop


def log_records(case: Case) -> CaseLog:
    """The log of a case as in a lake.

    It begins with settings, unless the case has a settings record: then the log of an older lake, if it is not the
    first. An ontology is the first background record; repeated publications of an event are omitted.
    """
    written = reference.write_log(case.records, case.lateness)
    has_settings = any(isinstance(record, reference.SettingsRecord) for record in case.records)
    settings = reference.SettingsRecord(BEFORE_CASE, case.lateness, mappings=case.mappings)
    before: list[reference.Record] = [] if has_settings else [settings]
    before.append(reference.BackgroundRecord(BEFORE_CASE, added=case.ontology))
    rows: list[RecordRow] = []
    case_offsets: list[int] = []
    for record in [*before, *written.records]:
        for row in _rows(record):
            rows.append(row._replace(offset=len(rows), frontier=record.frontier))
            case_offsets.append(record.offset)
    return CaseLog(record_batch(rows), written.frontier, case_offsets)


def _rows(record: reference.Record) -> Iterator[RecordRow]:
    match record:
        case reference.EventRecord(id=name, start=start, end=end, triples=triples, late=late, payload=payload):
            graph = tuple(sorted(triples))
            yield RecordRow(UNCOMMITTED, EVENT, name, start, end, None, bool(late), None, graph, payload=payload)
        case reference.TickRecord(instant=instant):
            yield Tick(instant).to_row()
        case reference.SubscribeRecord(subscription=subscription):
            yield Subscribe(subscription.name, to_text(subscription)).to_row()
        case reference.UnsubscribeRecord(name=name):
            yield Unsubscribe(name).to_row()
        case reference.BackgroundRecord(added=added, removed=removed):
            changes = (BackgroundChange(removed, is_removal=True), BackgroundChange(added))
            yield from (change.to_row() for change in changes if change.triples)
        case reference.RetractRecord(event=name):
            yield Retraction(name).to_row()
        case reference.SettingsRecord(mappings=mappings) as settings:
            values = Settings(settings.lateness, settings.ahead, entailment=settings.entailment, mappings=mappings)
            yield SettingsChange(values).to_row()


@dataclass(frozen=True)
class BucketsEngine:
    """The partitioned runtime; the seed of the case determines the number of buckets, one to five.

    After some batches a worker is restored from its state, or the states of all are rescaled to another number.
    """

    name: str = "buckets"
    accepts_logs: bool = True
    cases_per_run: int = 1
    has_offsets: bool = True

    def run(self, cases: Sequence[Case]) -> list[list[str]]:
        return [self._lines(case) for case in cases]

    def _lines(self, case: Case) -> list[str]:
        from motet.engine.runtime.partitions import PartitionWorker, Router, backfill_records, derivation_linked
        from motet.engine.runtime.rescale import rescale
        from motet.engine.state.snapshot import StateSnapshot
        from motet.plan.partitioning import BucketLayout

        random = Random(case.seed)  # noqa: S311  (seeded, not secret)
        log = log_records(case)
        layout = BucketLayout(random.randint(1, 5), derivation_linked(log.records))

        def earlier_records(bucket: int, offset: int) -> Iterator[LogRecords]:
            before = random_batches(log, offset, random)
            (subscription,) = parse(log.records.column("text")[offset].as_py())
            if layout.is_single_bucket(subscription):
                return before
            return ((batches[bucket], timeline) for timeline, batches in backfill_records(subscription, layout, before))

        def restore(snapshot: StateSnapshot, bucket: int) -> PartitionWorker:
            read = StateSnapshot.from_bytes(snapshot.data)
            return PartitionWorker.restore(read, layout, bucket, partial(earlier_records, bucket))

        router = Router(layout)
        workers = [
            PartitionWorker.create(layout, bucket, partial(earlier_records, bucket)) for bucket in range(layout.count)
        ]
        notifications: list[pa.RecordBatch] = []
        for batch, frontier in random_batches(log, len(log.records), random):
            routed = router.route(batch)
            notifications.append(routed.notifications)
            timeline = FrontierTimeline.from_records(batch, frontier)
            controls, events = batch.filter(pa.array(timeline.is_boundary)), dict(routed.by_bucket())
            for bucket, worker in enumerate(workers):
                received = [controls, events[bucket]] if bucket in events else [controls]
                notifications.append(worker.advance(received, timeline))
            if random.random() < RESCALE_PROBABILITY:
                layout = replace(layout, count=random.randint(1, 5))
                snapshots = rescale([worker.processor.snapshot() for worker in workers], layout)
                workers = [restore(snapshot, bucket) for bucket, snapshot in enumerate(snapshots)]
                router = Router(layout)
                router.route(_controls_until(log, batch.column("offset")[-1].as_py()))
            for bucket, worker in enumerate(workers):
                if random.random() < RESTORE_PROBABILITY:
                    workers[bucket] = restore(worker.processor.snapshot(), bucket)
        rows = (row for batch in notifications for row in notification_rows(batch))
        emissions = [(log.case_offsets[offset], notification) for notification, offset in rows]
        return emission_lines(emissions, offsets=True)


def _controls_until(log: CaseLog, last: int) -> pa.RecordBatch:
    """The control records of a log up to an offset."""
    records = log.records.slice(0, last + 1)
    return records.filter(pc.not_equal(records.column("kind"), EVENT))
