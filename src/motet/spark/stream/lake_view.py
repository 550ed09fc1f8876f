"""A lake as a task of the pipeline reads it: control records, frontier timeline, bucket layout and router.

Everything is read from the lake up to the end of the current batch, so that all tasks of a batch agree. A process
caches its views between tasks.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.runtime.active_subscription import parse_stored
from motet.engine.runtime.processor import Processor
from motet.engine.runtime.routing import BucketLayout, derivation_linked
from motet.lake import DataFile, Lake, Snapshot
from motet.language.syntax import Subscription
from motet.model.batches import RECORDS
from motet.model.records import EVENT, BackgroundChange, SettingsChange, Subscribe, control_records
from motet.model.timeline import TIMELINE_COLUMNS, FrontierTimeline, LogRecords
from motet.spark.workers import freeze_heap

_MAX_VIEWS = 512
_ROUTED_KINDS = pa.array([EVENT, BackgroundChange.kind, SettingsChange.kind])  # that a backfill's router reads


@lru_cache(maxsize=_MAX_VIEWS)
def lake_view(lake: str) -> LakeView:
    """The cached view of a lake in this process."""
    return LakeView(lake)


class LakeView:
    """Serves batches in the order of their offsets; a batch that is requested again is read again."""

    def __init__(self, lake: str) -> None:
        self._lake = Lake.open(Path(lake), create=False)
        self._timeline: tuple[int, int, FrontierTimeline] | None = None  # of an offset range
        self._controls = _empty()
        self._controls_end = 0  # the offset up to which control records are read
        self._router: tuple[BucketLayout, int, Processor] | None = None  # with the offset up to which it has read
        self._routed_controls = 0  # the number of control records that the router has read
        self._linked: tuple[int, frozenset[str]] = (0, frozenset())  # by derivation edges, and control records read
        self._buckets: BucketLayout | None = None
        self._backfill: tuple[int, BucketBackfill] | None = None  # of the subscription at an offset

    def snapshot(self) -> Snapshot:
        """The newest snapshot: files of older ones may have been deleted after a compaction."""
        return self._lake.snapshot()

    def controls(self, first: int, stop: int) -> pa.RecordBatch:
        """The control records of an offset range."""
        if self._controls_end < stop:
            added = self.snapshot().controls(self._controls_end, stop)
            self._controls = concat_records([self._controls, *added])
            self._controls_end = stop
        begin, end = np.searchsorted(self._controls.column("offset").to_numpy(), [first, stop])
        return self._controls.slice(begin, end - begin)

    def timeline(self, first: int, stop: int) -> FrontierTimeline:
        """The frontier after each record of an offset range."""
        if self._timeline is None or not (self._timeline[0] <= first and self._timeline[1] >= stop):
            snapshot = self.snapshot()
            batches = snapshot.records(first, stop, TIMELINE_COLUMNS)
            schema = pa.schema([RECORDS.field(name) for name in TIMELINE_COLUMNS])
            table = pa.Table.from_batches([batch.select(TIMELINE_COLUMNS) for batch in batches], schema)
            combined = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=schema)]
            self._timeline = first, stop, FrontierTimeline.from_records(combined[0], snapshot.frontier_at(stop))
        return self._timeline[2].between(first, stop)

    def buckets(self, count: int, stop: int) -> BucketLayout:
        """The bucket layout of the subscriptions that are active at the end of a batch."""
        controls = self.controls(0, stop)
        if self._linked[0] != len(controls):
            self._linked = len(controls), derivation_linked(controls)
        self._buckets = BucketLayout(count, self._linked[1])
        return self._buckets

    def subscribed(self, stop: int) -> frozenset[str]:
        """The names of all subscriptions that were registered below an offset."""
        return frozenset(record.name for record in control_records(self.controls(0, stop), Subscribe))

    def records(self, stop: int) -> Iterator[tuple[pa.RecordBatch, int | None]]:
        """All records below an offset."""
        return self.snapshot().log_records(0, stop)

    def earlier_records(self, bucket: int, stop: int) -> Iterator[LogRecords]:
        """The records for the backfill of the subscription registered at an offset, in the layout of the last batch."""
        assert self._buckets is not None
        (record,) = control_records(self.controls(stop, stop + 1), Subscribe)
        (subscription,) = parse_stored(record.text, f"subscription {record.name!r} in the log")
        if self._buckets.is_single_bucket(subscription):
            return self.records(stop)
        if self._backfill is None or (self._backfill[0], self._backfill[1].buckets) != (stop, self._buckets):
            self._backfill = stop, BucketBackfill(subscription, self._buckets, self.records(stop))
        return self._backfill[1].read_bucket(bucket)

    def is_notified(self, stop: int) -> bool:
        """Whether the notification table already reaches an offset."""
        return self._lake.snapshot().notifications_end >= stop

    def write(self, notifications: pa.RecordBatch) -> DataFile:
        """Write notifications to a file, without committing it."""
        return self._lake.write_notifications(notifications)

    def router(self, buckets: BucketLayout, offset: int) -> Processor:
        """The router of events at an offset: a processor that has read the control records before it."""
        cached = self._router
        if cached is None or cached[0] != buckets or (cached[1] > offset and len(self.controls(offset, cached[1]))):
            cached = buckets, 0, Processor(layout=buckets)
        _, read_to, router = cached
        if read_to < offset and len(controls := self.controls(read_to, offset)):
            router.route(controls)
        self._router = buckets, max(read_to, offset), router
        return router

    def set_routed(self, stop: int) -> None:
        """Note that the router has read up to an offset; after new control records the heap is frozen."""
        assert self._router is not None
        buckets, read_to, router = self._router
        self._router = buckets, max(read_to, stop), router
        if self._routed_controls != (count := len(self.controls(0, stop))):
            self._routed_controls = count
            freeze_heap()


def concat_records(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Batches of RECORDS as one, sorted by offset."""
    table = pa.Table.from_batches(batches, schema=RECORDS).combine_chunks()
    order = pa.array(table["offset"].to_numpy().argsort(kind="stable"))
    sorted_batches = table.take(order).combine_chunks().to_batches()
    return sorted_batches[0] if sorted_batches else _empty()


def _empty() -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=RECORDS)


class BucketBackfill:
    """The records of one subscription's backfill (SINCE), by bucket; ``records`` are all records before it.

    The log is read and routed once per process for all buckets. Each bucket's records are spilled to a scratch file, so
    that memory does not grow with the log.
    """

    def __init__(
        self,
        subscription: Subscription,
        buckets: BucketLayout,
        records: Iterable[tuple[pa.RecordBatch, int | None]],
    ) -> None:
        self.buckets = buckets
        self._scratch = tempfile.TemporaryDirectory(prefix="motet-backfill-")
        self._timelines: list[FrontierTimeline] = []
        router = Processor(layout=buckets)
        router.activate([replace(subscription, since=None)])
        self._write_buckets(router, records)

    def read_bucket(self, bucket: int) -> Iterator[LogRecords]:
        """The records that concern a bucket."""
        with pa.OSFile(str(self._path(bucket)), "rb") as file, pa.ipc.open_stream(file) as reader:
            for timeline, records in zip(self._timelines, reader, strict=True):
                yield records, timeline

    def _write_buckets(self, router: Processor, records: Iterable[tuple[pa.RecordBatch, int | None]]) -> None:
        with ExitStack() as stack:
            writers = [
                stack.enter_context(pa.ipc.new_stream(str(self._path(bucket)), RECORDS))
                for bucket in range(self.buckets.count)
            ]
            for batch, frontier in records:
                timeline = FrontierTimeline.from_records(batch, frontier)
                self._timelines.append(timeline)
                is_routed = pc.is_in(batch.column("kind"), _ROUTED_KINDS)
                _, routes = router.route(batch.filter(is_routed))
                for bucket, writer in enumerate(writers):
                    rows = np.isin(timeline.offsets, routes[routes[:, 0] == bucket, 1]) | timeline.is_boundary
                    writer.write_batch(batch.filter(pa.array(rows)).cast(RECORDS))

    def _path(self, bucket: int) -> Path:
        return Path(self._scratch.name) / str(bucket)
