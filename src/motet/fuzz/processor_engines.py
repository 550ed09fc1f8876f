"""The detection kernel on its own: a log in random pieces, and its state written and read again at every cut.

Nothing a host does is in the way here, so that where the log is cut, what the state forgets and which record made a
notification final are all seen. The hosts around it are tried by the other engines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from motet.fuzz.case import Case
from motet.fuzz.oracle import lines_of
from motet.lake.accept import UNCOMMITTED_RECORDS, assign_offsets
from motet.language.parse import parse
from motet.language.printer import to_text
from motet.model.batches import RecordRow, Triple, notification_rows, record_batch
from motet.model.records import EVENT, UNCOMMITTED, BackgroundChange, Retraction, Subscribe, Tick, Unsubscribe
from motet.reference import (
    BackgroundRecord,
    EventRecord,
    Record,
    RetractRecord,
    SubscribeRecord,
    TickRecord,
    UnsubscribeRecord,
    assign_frontiers,
)

if TYPE_CHECKING:
    from motet.engine.runtime.record_slices import FilteredRecords

BEFORE = -1  # the place of what the log does not hold: the ontology
ODDS = (0.03, 0.1, 0.1, 0.3, 1.0)


History = Callable[[int], Iterable[pa.RecordBatch]]  # the records before an offset


class Detector(Protocol):
    """What the kernel is to its hosts."""

    def advance(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Take in the next RECORDS of the log; the NOTIFICATIONS they made final."""
        ...


@dataclass(frozen=True)
class Opening:
    """What a detector is opened with."""

    lateness: int | None
    background: frozenset[Triple]
    history: History


def _kernel(opening: Opening) -> Detector:
    from motet.engine.runtime.processor import Processor

    return Processor(lateness=opening.lateness, background=opening.background, earlier_records=opening.history)


def _reloaded(detector: Detector, history: History) -> Detector:
    from motet.engine.runtime.processor import Processor

    assert isinstance(detector, Processor)
    return Processor.load(detector.dump(), earlier_records=history)


@dataclass(frozen=True)
class KernelEngine:
    """``start`` makes a detector that has seen nothing, ``reload`` one from another's written state.

    ``odds`` are those of which one is taken for a case: that its log is cut after a record.
    """

    name: str = "kernel"
    takes_logs: bool = True
    at_once: int = 1
    tells_offsets: bool = True
    start: Callable[[Opening], Detector] = _kernel
    reload: Callable[[Detector, History], Detector] = _reloaded
    odds: tuple[float, ...] = ODDS

    def run(self, cases: Sequence[Case]) -> list[list[str]]:
        return [self._lines(case) for case in cases]

    def _lines(self, case: Case) -> list[str]:
        random = Random(case.seed)  # noqa: S311  (seeded, not secret)
        given = case.ontology if random.random() < 0.5 else frozenset()
        records, places = log_of(replace(case, ontology=case.ontology - given))

        def history(offset: int) -> Iterator[pa.RecordBatch]:
            return pieces(records.slice(0, offset), random, self.odds)

        detector = self.start(Opening(case.lateness, given, history))
        found = []
        for piece in pieces(records, random, self.odds):
            told = notification_rows(detector.advance(piece))
            found += [(places[offset], notification) for notification, offset in told]
            detector = self.reload(detector, history)
        return lines_of(found, offsets=self.tells_offsets)


def pieces(records: pa.RecordBatch, random: Random, among: Sequence[float] = ODDS) -> Iterator[pa.RecordBatch]:
    """The records cut at random places: sometimes hardly ever, sometimes after each of them."""
    odds = random.choice(among)
    first = 0
    for stop in range(1, len(records) + 1):
        if stop == len(records) or random.random() < odds:
            yield records.slice(first, stop - first)
            first = stop


def log_of(case: Case) -> tuple[pa.RecordBatch, list[int]]:
    """The case's log as a lake would hold it, and for each of its rows the place of its record in the case.

    An ontology is the first change of the background; an event that is published again is not a record.
    """
    rows: list[RecordRow] = []
    places: list[int] = []
    for record in [BackgroundRecord(BEFORE, added=case.ontology), *assign_frontiers(case.records, case.lateness)]:
        for row in _rows(record):
            rows.append(row)
            places.append(record.offset)
    draft = pa.Table.from_batches([record_batch(rows)]).select(UNCOMMITTED_RECORDS.names)
    placed, _ = assign_offsets(draft, 0, None, case.lateness)
    (batch,) = placed.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=placed.schema)]
    return batch, places


def _rows(record: Record) -> Iterator[RecordRow]:
    match record:
        case EventRecord(id=name, start=start, end=end, triples=triples):
            yield RecordRow(UNCOMMITTED, EVENT, name, start, end, None, False, None, tuple(sorted(triples)))
        case TickRecord(instant=instant):
            yield Tick(instant).to_row()
        case SubscribeRecord(subscription=subscription):
            yield Subscribe(subscription.name, to_text(subscription)).to_row()
        case UnsubscribeRecord(name=name):
            yield Unsubscribe(name).to_row()
        case BackgroundRecord(added=added, removed=removed):
            changes = (BackgroundChange(removed, is_removal=True), BackgroundChange(added))
            yield from (change.to_row() for change in changes if change.triples)
        case RetractRecord(event=name):
            yield Retraction(name).to_row()


@dataclass(frozen=True)
class BucketsEngine:
    """As many buckets as the case's seed says, from one to five."""

    name: str = "buckets"
    takes_logs: bool = True
    at_once: int = 1
    tells_offsets: bool = True

    def run(self, cases: Sequence[Case]) -> list[list[str]]:
        return [self._lines(case) for case in cases]

    def _lines(self, case: Case) -> list[str]:
        from motet.engine.runtime.processor import Processor
        from motet.engine.runtime.routing import BucketLayout, derivation_linked
        from motet.engine.state.snapshot import StateSnapshot
        from motet.model.timeline import FrontierTimeline
        from motet.spark.stream.backfill import BucketBackfill

        random = Random(case.seed)  # noqa: S311  (seeded, not secret)
        records, places = log_of(case)
        layout = BucketLayout(random.randint(1, 5), derivation_linked(records))

        def past(bucket: int, offset: int) -> Iterator[pa.RecordBatch | FilteredRecords]:
            before = pieces(records.slice(0, offset), random)
            (subscription,) = parse(records.column("text")[offset].as_py())
            is_single_bucket = layout.is_single_bucket(subscription)
            return (
                before
                if is_single_bucket
                else BucketBackfill(subscription, layout, before, case.lateness).read_bucket(bucket)
            )

        router = Processor(lateness=case.lateness, layout=layout)
        processors = [
            Processor(lateness=case.lateness, earlier_records=partial(past, bucket), layout=layout, bucket=bucket)
            for bucket in range(layout.count)
        ]
        told: list[pa.RecordBatch] = []
        for piece in pieces(records, random):
            matched, routed = router.route(piece)
            told.append(matched)
            timeline = FrontierTimeline.from_records(piece, case.lateness)
            for bucket, processor in enumerate(processors):
                mine = np.isin(timeline.offsets, routed[routed[:, 0] == bucket, 1]) | timeline.is_boundary
                told.append(processor.advance(piece.filter(pa.array(mine)), timeline))
                snapshot = StateSnapshot.from_bytes(processor.dump())
                earlier = partial(past, bucket)
                processors[bucket] = Processor.restore(snapshot, earlier_records=earlier, layout=layout, bucket=bucket)
        found = [(places[offset], one) for batch in told for one, offset in notification_rows(batch)]
        return lines_of(found, offsets=True)
