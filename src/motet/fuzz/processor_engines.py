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
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from motet import reference
from motet.fuzz.case import Case
from motet.fuzz.oracle import emission_lines
from motet.lake.accept import UNCOMMITTED_RECORDS, place
from motet.language.parse import parse
from motet.language.printer import to_text
from motet.model.batches import RECORDS, RecordRow, Triple, notification_rows, record_batch
from motet.model.records import EVENT, UNCOMMITTED, BackgroundChange, Retraction, Subscribe, Tick, Unsubscribe
from motet.model.settings import Settings

if TYPE_CHECKING:
    from motet.engine.runtime.record_slices import FilteredRecords

ONTOLOGY_OFFSET = -1  # of the background record of the ontology, which the case does not contain
#: Probabilities that a batch ends after a record; one is chosen for each case.
CUT_PROBABILITIES = (0.03, 0.1, 0.1, 0.3, 1.0)


EarlierRecords = Callable[[int], Iterable[pa.RecordBatch]]  # the records before an offset


class RecordProcessor(Protocol):
    """The interface of the processor for its hosts."""

    def advance(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Process the next RECORDS of the log; returns the NOTIFICATIONS they made final."""
        ...


@dataclass(frozen=True)
class ProcessorSettings:
    """The arguments of a new processor."""

    lateness: int | None
    background: frozenset[Triple]
    earlier_records: EarlierRecords


def _create(settings: ProcessorSettings) -> RecordProcessor:
    from motet.engine.runtime.processor import Processor

    return Processor(
        lateness=settings.lateness, background=settings.background, earlier_records=settings.earlier_records
    )


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
        records, case_offsets = log_records(replace(case, ontology=case.ontology - background))

        def earlier_records(offset: int) -> Iterator[pa.RecordBatch]:
            return random_batches(records.slice(0, offset), random, self.cut_probabilities)

        processor = self.create(ProcessorSettings(case.lateness, background, earlier_records))
        emissions = []
        for batch in random_batches(records, random, self.cut_probabilities):
            rows = notification_rows(processor.advance(batch))
            emissions += [(case_offsets[offset], notification) for notification, offset in rows]
            processor = self.restore(processor, earlier_records)
        return emission_lines(emissions, offsets=self.has_offsets)


def random_batches(
    records: pa.RecordBatch, random: Random, cut_probabilities: Sequence[float] = CUT_PROBABILITIES
) -> Iterator[pa.RecordBatch]:
    """The records in batches of random sizes, with one of the probabilities of a cut."""
    probability = random.choice(cut_probabilities)
    first = 0
    for stop in range(1, len(records) + 1):
        if stop == len(records) or random.random() < probability:
            yield records.slice(first, stop - first)
            first = stop


def log_records(case: Case) -> tuple[pa.RecordBatch, list[int]]:
    """The log of the case as in a lake, and for each of its rows the offset of its record in the case.

    An ontology is the first background record; repeated publications of an event are omitted.
    """
    rows: list[RecordRow] = []
    case_offsets: list[int] = []
    for record in [
        reference.BackgroundRecord(ONTOLOGY_OFFSET, added=case.ontology),
        *reference.assign_frontiers(case.records, case.lateness),
    ]:
        for row in _rows(record):
            rows.append(row)
            case_offsets.append(record.offset)
    draft = pa.Table.from_batches([record_batch(rows)]).select(UNCOMMITTED_RECORDS.names)
    settings, frontier = Settings(lateness=case.lateness, ahead=None), None
    placed: list[pa.Table] = []
    for offset in range(len(rows)):  # each record is a commit of its own
        records, frontier, *_ = place(draft.slice(offset, 1), offset, frontier, clock=0, settings=settings)
        placed.append(records)
    (batch,) = pa.concat_tables([RECORDS.empty_table(), *placed]).combine_chunks().to_batches() or [
        pa.RecordBatch.from_pylist([], RECORDS)
    ]
    return batch, case_offsets


def _rows(record: reference.Record) -> Iterator[RecordRow]:
    match record:
        case reference.EventRecord(id=name, start=start, end=end, triples=triples):
            yield RecordRow(UNCOMMITTED, EVENT, name, start, end, None, False, None, tuple(sorted(triples)))
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


@dataclass(frozen=True)
class BucketsEngine:
    """One router and one processor per bucket; the seed of the case determines the number of buckets, one to five."""

    name: str = "buckets"
    accepts_logs: bool = True
    cases_per_run: int = 1
    has_offsets: bool = True

    def run(self, cases: Sequence[Case]) -> list[list[str]]:
        return [self._lines(case) for case in cases]

    def _lines(self, case: Case) -> list[str]:
        from motet.engine.runtime.processor import Processor
        from motet.engine.runtime.routing import BucketLayout, derivation_linked
        from motet.engine.state.snapshot import StateSnapshot
        from motet.model.timeline import FrontierTimeline
        from motet.spark.stream.lake_view import BucketBackfill

        random = Random(case.seed)  # noqa: S311  (seeded, not secret)
        records, case_offsets = log_records(case)
        layout = BucketLayout(random.randint(1, 5), derivation_linked(records))

        def earlier_records(bucket: int, offset: int) -> Iterator[pa.RecordBatch | FilteredRecords]:
            before = random_batches(records.slice(0, offset), random)
            (subscription,) = parse(records.column("text")[offset].as_py())
            if layout.is_single_bucket(subscription):
                return before
            return BucketBackfill(subscription, layout, before, case.lateness).read_bucket(bucket)

        router = Processor(lateness=case.lateness, layout=layout)
        processors = [
            Processor(
                lateness=case.lateness, earlier_records=partial(earlier_records, bucket), layout=layout, bucket=bucket
            )
            for bucket in range(layout.count)
        ]
        notifications: list[pa.RecordBatch] = []
        for batch in random_batches(records, random):
            matched, routed = router.route(batch)
            notifications.append(matched)
            timeline = FrontierTimeline.from_records(batch, case.lateness)
            for bucket, processor in enumerate(processors):
                is_routed = np.isin(timeline.offsets, routed[routed[:, 0] == bucket, 1]) | timeline.is_boundary
                notifications.append(processor.advance(batch.filter(pa.array(is_routed)), timeline))
                snapshot = StateSnapshot.from_bytes(processor.dump())
                earlier = partial(earlier_records, bucket)
                processors[bucket] = Processor.restore(snapshot, earlier_records=earlier, layout=layout, bucket=bucket)
        rows = (row for batch in notifications for row in notification_rows(batch))
        return emission_lines([(case_offsets[offset], notification) for notification, offset in rows], offsets=True)
