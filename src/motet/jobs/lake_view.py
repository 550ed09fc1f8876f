"""A lake as routers and workers of the partitioned runtime read it: control records, timeline, layout and backfills.

Everything is read from the lake up to the end of the current batch, so that all processes of a batch agree. A process
caches its views between batches.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from motet.engine.runtime.partitions import PartitionWorker, Router, backfill_records, derivation_linked, sorted_records
from motet.engine.runtime.processor import Processor
from motet.engine.state.snapshot import StateSnapshot
from motet.lake import DataFile, Lake, Snapshot
from motet.language.parse import parse_stored
from motet.model.batches import RECORDS
from motet.model.records import Subscribe, control_records
from motet.model.timeline import TIMELINE_COLUMNS, FrontierTimeline, LogRecords
from motet.plan.partitioning import BucketLayout

_MAX_VIEWS = 512


@lru_cache(maxsize=_MAX_VIEWS)
def lake_view(lake: str) -> LakeView:
    """The cached view of a lake in this process."""
    return LakeView(lake)


class LakeView:
    """Serves batches in the order of their offsets; a batch that is requested again is read again."""

    def __init__(self, lake: str) -> None:
        self._lake = Lake.open(Path(lake), create=False)
        self._timeline: tuple[int, int, FrontierTimeline] | None = None  # of an offset range
        self._controls = sorted_records([])
        self._controls_end = 0  # the offset up to which control records are read
        self._router: tuple[Router, int] | None = None  # with the offset up to which it has read
        self._routed_controls = 0  # the number of control records that the router has read
        self._linked: tuple[int, frozenset[str]] = (0, frozenset())  # by derivation edges, and control records read
        self._layout: BucketLayout | None = None
        self._backfill: tuple[int, SpilledBackfill] | None = None  # of the subscription at an offset

    def snapshot(self) -> Snapshot:
        """The newest snapshot: files of older ones may have been deleted after a compaction."""
        return self._lake.snapshot()

    def controls(self, first: int, stop: int) -> pa.RecordBatch:
        """The control records of an offset range."""
        if self._controls_end < stop:
            added = self.snapshot().controls(self._controls_end, stop)
            self._controls = sorted_records([self._controls, *added])
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

    def layout(self, count: int, stop: int) -> BucketLayout:
        """The bucket layout of the subscriptions that are active at the end of a batch."""
        controls = self.controls(0, stop)
        if self._linked[0] != len(controls):
            self._linked = len(controls), derivation_linked(controls)
        self._layout = BucketLayout(count, self._linked[1])
        return self._layout

    def registered(self, stop: int) -> frozenset[str]:
        """The names of all subscriptions that were registered below an offset."""
        return frozenset(record.name for record in control_records(self.controls(0, stop), Subscribe))

    def records(self, stop: int) -> Iterator[tuple[pa.RecordBatch, int | None]]:
        """All records below an offset."""
        return self.snapshot().log_records(0, stop)

    def earlier_records(self, bucket: int, stop: int) -> Iterator[LogRecords]:
        """The records for the backfill of the subscription registered at an offset, in the layout of the last batch."""
        assert self._layout is not None
        (record,) = control_records(self.controls(stop, stop + 1), Subscribe)
        (subscription,) = parse_stored(record.text, f"subscription {record.name!r} in the log")
        if self._layout.is_single_bucket(subscription):
            return self.records(stop)
        if self._backfill is None or (self._backfill[0], self._backfill[1].layout) != (stop, self._layout):
            routed = backfill_records(subscription, self._layout, self.records(stop))
            self._backfill = stop, SpilledBackfill(self._layout, routed)
        return self._backfill[1].read_bucket(bucket)

    def worker(
        self,
        bucket: int,
        layout: BucketLayout,
        snapshot: StateSnapshot | None = None,
        prototype: Processor | None = None,
    ) -> PartitionWorker:
        """A worker that continues from a state snapshot, or at the beginning of the log.

        It reuses what is compiled for a prototype.
        """
        earlier_records = partial(self.earlier_records, bucket)
        if snapshot is None:
            return PartitionWorker.create(layout, bucket, earlier_records)
        return PartitionWorker.restore(snapshot, layout, bucket, earlier_records, prototype)

    def follow(self, worker: PartitionWorker, bucket: int, layout: BucketLayout, offset: int) -> PartitionWorker:
        """The worker at an offset with the layout of the next records; the log is read again if it needs state that is
        in other buckets.
        """
        if worker.processor.layout != layout:
            if worker.needs_rebuild(layout, self.registered(offset)):
                worker = PartitionWorker.rebuild(
                    layout, bucket, self.records(offset), partial(self.earlier_records, bucket)
                )
            worker.processor.set_layout(layout)
        return worker

    def is_notified(self, stop: int) -> bool:
        """Whether the notification table already reaches an offset."""
        return self._lake.snapshot().notifications_end >= stop

    def write(self, notifications: pa.RecordBatch) -> DataFile:
        """Write notifications to a file, without committing it."""
        return self._lake.write_notifications(notifications)

    def router(self, layout: BucketLayout, offset: int) -> Router:
        """The router at an offset: it has read the control records before it."""
        router, read_to = self._router or (Router(layout), 0)
        if router.layout != layout or (read_to > offset and len(self.controls(offset, read_to))):
            router, read_to = Router(layout), 0
        if read_to < offset and len(controls := self.controls(read_to, offset)):
            router.route(controls)
        self._router = router, max(read_to, offset)
        return router

    def set_routed(self, stop: int) -> bool:
        """Note that the router has read up to an offset; returns whether there were new control records."""
        assert self._router is not None
        router, read_to = self._router
        self._router = router, max(read_to, stop)
        before, self._routed_controls = self._routed_controls, len(self.controls(0, stop))
        return before != self._routed_controls


class SpilledBackfill:
    """The records of one subscription's backfill (SINCE), by bucket.

    The log is read and routed once per process for all buckets. Each bucket's records are spilled to a scratch file, so
    that memory does not grow with the log.
    """

    def __init__(
        self, layout: BucketLayout, routed: Iterable[tuple[FrontierTimeline, Sequence[pa.RecordBatch]]]
    ) -> None:
        self.layout = layout
        self._scratch = tempfile.TemporaryDirectory(prefix="motet-backfill-")
        self._timelines: list[FrontierTimeline] = []
        with ExitStack() as stack:
            writers = [
                stack.enter_context(pa.ipc.new_stream(str(self._path(bucket)), RECORDS))
                for bucket in range(layout.count)
            ]
            for timeline, batches in routed:
                self._timelines.append(timeline)
                for writer, batch in zip(writers, batches, strict=True):
                    writer.write_batch(batch)

    def read_bucket(self, bucket: int) -> Iterator[LogRecords]:
        """The records that concern a bucket."""
        with pa.OSFile(str(self._path(bucket)), "rb") as file, pa.ipc.open_stream(file) as reader:
            for timeline, records in zip(self._timelines, reader, strict=True):
                yield records, timeline

    def _path(self, bucket: int) -> Path:
        return Path(self._scratch.name) / str(bucket)
