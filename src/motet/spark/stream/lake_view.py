"""What a task knows of a lake: its control records, how time went in a range, and who belongs together.

All of it is read from the lake, up to the end of the batch a row belongs to, so that all tasks of a batch agree. A
process keeps its views from one task to the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from motet.engine.runtime.active_subscription import parse_stored
from motet.engine.runtime.processor import Processor
from motet.engine.runtime.record_slices import FilteredRecords
from motet.engine.runtime.routing import BucketLayout, derivation_linked
from motet.lake import DataFile, Lake, Snapshot
from motet.model.batches import RECORDS
from motet.model.records import Subscribe, control_records
from motet.model.timeline import TIMELINE_COLUMNS, FrontierTimeline
from motet.spark.stream.backfill import BucketBackfill
from motet.spark.workers import freeze_heap

_VIEWS = 512


@lru_cache(maxsize=_VIEWS)
def lake_view(lake: str) -> LakeView:
    """The view this process has of a lake."""
    return LakeView(lake)


class LakeView:
    """Asked for one batch after the other; a batch that is asked for again is read again."""

    def __init__(self, lake: str) -> None:
        self._lake = Lake.open(Path(lake), create=False)
        self._timeline: tuple[int, int, FrontierTimeline] | None = None
        self._controls = _empty()
        self._read_to = 0
        self._router: tuple[BucketLayout, int, Processor] | None = None
        self._routed = 0  # control records that the router has read
        self._fed: tuple[int, frozenset[str]] = (0, frozenset())  # of so many control records
        self._buckets: BucketLayout | None = None
        self._past: tuple[int, BucketBackfill] | None = None

    @property
    def lateness(self) -> int | None:
        return self._lake.lateness

    def snapshot(self) -> Snapshot:
        """The newest: files of older ones may have been compacted and cleaned away."""
        return self._lake.snapshot()

    def controls(self, first: int, stop: int) -> pa.RecordBatch:
        """The control records of a range."""
        if self._read_to < stop:
            more = self.snapshot().controls(self._read_to, stop)
            self._controls = concat_records([self._controls, *more])
            self._read_to = stop
        begin, end = np.searchsorted(self._controls.column("offset").to_numpy(), [first, stop])
        return self._controls.slice(begin, end - begin)

    def timeline(self, first: int, stop: int) -> FrontierTimeline:
        """How time went in a range."""
        if self._timeline is None or not (self._timeline[0] <= first and self._timeline[1] >= stop):
            batches = self.snapshot().records(first, stop, TIMELINE_COLUMNS)
            schema = pa.schema([RECORDS.field(name) for name in TIMELINE_COLUMNS])
            table = pa.Table.from_batches([batch.select(TIMELINE_COLUMNS) for batch in batches], schema)
            whole = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=schema)]
            self._timeline = first, stop, FrontierTimeline.from_records(whole[0], self.lateness)
        return self._timeline[2].between(first, stop)

    def buckets(self, count: int, stop: int) -> BucketLayout:
        """How the subscriptions that are known at the end of a batch are spread."""
        controls = self.controls(0, stop)
        if self._fed[0] != len(controls):
            self._fed = len(controls), derivation_linked(controls)
        self._buckets = BucketLayout(count, self._fed[1])
        return self._buckets

    def subscribed(self, stop: int) -> frozenset[str]:
        """The names of all subscriptions that began below an offset."""
        return frozenset(record.name for record in control_records(self.controls(0, stop), Subscribe))

    def history(self, stop: int) -> Iterator[pa.RecordBatch]:
        """All records below an offset."""
        return self.snapshot().records(0, stop)

    def past(self, bucket: int, stop: int) -> Iterator[pa.RecordBatch | FilteredRecords]:
        """What a bucket shows the subscription that begins at an offset; it is spread like those of the last batch."""
        assert self._buckets is not None
        (record,) = control_records(self.controls(stop, stop + 1), Subscribe)
        (subscription,) = parse_stored(record.text, f"subscription {record.name!r} in the log")
        if self._buckets.is_single_bucket(subscription):
            return self.history(stop)
        if self._past is None or (self._past[0], self._past[1].buckets) != (stop, self._buckets):
            self._past = stop, BucketBackfill(subscription, self._buckets, self.history(stop), self.lateness)
        return self._past[1].read_bucket(bucket)

    def is_notified(self, stop: int) -> bool:
        """Whether what the records below an offset mean is in the table already."""
        return self._lake.snapshot().notifications_end >= stop

    def write(self, notifications: pa.RecordBatch) -> DataFile:
        """Write notifications for a commit."""
        return self._lake.write_notifications(notifications)

    def router(self, buckets: BucketLayout, offset: int) -> Processor:
        """What says where events at this offset go; it has read the control records before them."""
        known = self._router
        if known is None or known[0] != buckets or (known[1] > offset and len(self.controls(offset, known[1]))):
            known = buckets, 0, Processor(lateness=self.lateness, layout=buckets)
        _, reached, kernel = known
        if reached < offset and len(controls := self.controls(reached, offset)):
            kernel.route(controls)
        self._router = buckets, max(reached, offset), kernel
        return kernel

    def routed(self, stop: int) -> None:
        """The router has read on to an offset."""
        assert self._router is not None
        buckets, reached, kernel = self._router
        self._router = buckets, max(reached, stop), kernel
        if self._routed != (count := len(self.controls(0, stop))):
            self._routed = count
            freeze_heap()


def concat_records(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Batches of RECORDS as one, sorted by offset."""
    table = pa.Table.from_batches(batches, schema=RECORDS).combine_chunks()
    order = pa.array(table["offset"].to_numpy().argsort(kind="stable"))
    sorted_batches = table.take(order).combine_chunks().to_batches()
    return sorted_batches[0] if sorted_batches else _empty()


def _empty() -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=RECORDS)
