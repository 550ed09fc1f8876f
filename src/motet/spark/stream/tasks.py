"""The tasks of the pipeline: match and route before the shuffle, detect in buckets after it.

A match task reads a range of the log; subscriptions are active from their offset, so it also reads the control records
before its range. After the shuffle each bucket of a lake has a worker, whose state is that of the query. A process
caches its processors, and continues with one only if it is at the offset of the stored state; otherwise it restores the
stored state.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import process_time_ns
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from motet.engine.runtime.emission import merge_notifications
from motet.engine.runtime.partitions import PartitionWorker
from motet.engine.runtime.processor import Processor
from motet.engine.state.snapshot import StateSnapshot
from motet.jit.compiled import Ints
from motet.jobs.lake_view import LakeView, lake_view
from motet.plan.partitioning import BucketLayout
from motet.spark.encoding import Batches, pack, unpack
from motet.spark.stream.checkpoint import FirstStates, LakeStart
from motet.spark.stream.source import ADVANCE_ROW
from motet.spark.stream.state_store import CachedProcessor, StateHeader, StateStore, cache, take_cached
from motet.spark.workers import freeze_heap

if TYPE_CHECKING:
    import pandas as pd

ROUTED = pa.schema(
    [
        pa.field("lake", pa.string(), nullable=False),
        pa.field("bucket", pa.int64(), nullable=False),
        pa.field("first", pa.int64(), nullable=False),  # offsets of the batch
        pa.field("stop", pa.int64(), nullable=False),
        pa.field("events", pa.binary()),  # RECORDS, packed
        pa.field("notifications", pa.binary()),  # NOTIFICATIONS of single-event subscriptions, packed
        pa.field("read", pa.int64()),  # events, in the last row of a range; in that row also:
        pa.field("late", pa.int64()),
        pa.field("stamped", pa.int64()),
        pa.field("micros", pa.int64()),  # of processor time
    ]
)
MATCH_SUMMED = ("read", "late", "stamped", "micros")
MATCH_BYTES = 1 << 26  # of records that are matched together
NOTIFICATION_SLICES = pa.schema(
    [
        pa.field("lake", pa.string(), nullable=False),
        pa.field("first", pa.int64(), nullable=False),  # offsets of the batch
        pa.field("stop", pa.int64(), nullable=False),
        pa.field("slice", pa.int64(), nullable=False),  # index of the offset range in the batch
        pa.field("notifications", pa.binary()),  # NOTIFICATIONS, packed; null: none
        pa.field("count", pa.int64()),  # of the bucket's notifications, in one of its rows; in that row also:
        pa.field("rows", pa.int64()),  # of the state
        pa.field("bytes", pa.int64()),  # of the state
        pa.field("micros", pa.int64()),  # of processor time
        pa.field("waiting", pa.binary()),  # int64: instants that operators of the bucket wait for; null: none
        pa.field("pending", pa.int64()),  # notifications of the bucket that wait for the frontier
    ]
)
DETECT_SUMMED = ("count", "rows", "bytes", "micros")
MIN_SLICE_RECORDS = 10_000
MAX_INSTANTS = 1024  # of a bucket, that operators wait for; the others wait for the next heartbeat

BucketKey = tuple[str, int]  # lake and bucket


@dataclass(frozen=True)
class MatchStage:
    """Rows of RANGES to rows of ROUTED."""

    buckets: int

    def __call__(self, batches: Batches) -> Batches:
        for batch in batches:
            for row in batch.to_pylist():
                for routed in self._route(**row):
                    yield pa.RecordBatch.from_pylist([routed], schema=ROUTED)

    def _route(self, lake: str, first: int, stop: int, low: int, high: int) -> Iterator[dict[str, object]]:
        batch = {"lake": lake, "first": first, "stop": stop}
        if low == ADVANCE_ROW:
            yield {**batch, "bucket": high}
            return
        view, started, read, late, stamped = lake_view(lake), process_time_ns(), 0, 0, 0
        router = view.router(view.layout(self.buckets, stop), low)
        for records in _concat_small(view.snapshot().records(low, high)):
            routed = router.route(records)
            read += pc.sum(pc.equal(records.column("kind"), "event")).as_py()
            late += records.column("late").true_count
            stamped += records.column("stamped").true_count
            for bucket, events in routed.by_bucket():
                yield {**batch, "bucket": bucket, "events": pack(events)}
            if len(routed.notifications):
                yield {**batch, "bucket": low % self.buckets, "notifications": pack(routed.notifications)}
        if view.set_routed(high):
            freeze_heap()
        micros = (process_time_ns() - started) // 1000
        sums = {"read": read, "late": late, "stamped": stamped, "micros": micros}
        yield {**batch, "bucket": low % self.buckets, **sums}


def _concat_small(batches: Batches) -> Batches:
    """The same records in batches of about MATCH_BYTES: matching thousands of leaves has a cost per batch."""
    pending: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        pending.append(batch)
        size += batch.nbytes
        if size >= MATCH_BYTES:
            yield pa.concat_batches(pending)
            pending, size = [], 0
    if pending:
        yield pa.concat_batches(pending)


@dataclass
class BucketInput:
    """The rows of a batch for one bucket."""

    first: int
    stop: int
    events: list[pa.RecordBatch] = field(default_factory=list)
    notifications: list[pa.RecordBatch] = field(default_factory=list)

    @classmethod
    def from_frames(cls, frames: Iterator[pd.DataFrame]) -> BucketInput:
        rows = [row for frame in frames for row in frame.itertuples(index=False)]
        events = [unpack(row.events) for row in rows if row.events is not None]
        notifications = [unpack(row.notifications) for row in rows if row.notifications is not None]
        return cls(int(rows[0].first), int(rows[0].stop), events, notifications)


class DetectStage(StatefulProcessor):
    """Rows of ROUTED to rows of NOTIFICATION_SLICES."""

    def __init__(self, buckets: int, max_slices: int, first_states: FirstStates) -> None:
        self._bucket_count = buckets
        self._max_slices = max_slices
        self._first_states = first_states

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._store = StateStore(handle)

    def handleInputRows(  # noqa: N802  (Spark's name)
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: object,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        import pandas as pd

        started, lake, batch = process_time_ns(), str(key[0]), BucketInput.from_frames(rows)
        cached, detected = self._advance((lake, int(key[1])), batch)
        notifications = merge_notifications([*batch.notifications, detected])
        counts: tuple[int, ...] = (len(notifications), *_state_size(cached), (process_time_ns() - started) // 1000)
        waiting, pending = _waiting(cached.processor, lake_view(lake), batch.stop)
        output = []
        for slice_ in self._slices(batch, notifications):
            output.append((lake, batch.first, batch.stop, *slice_, *counts, waiting, pending))
            counts, waiting, pending = (0,) * len(counts), None, 0
        yield pd.DataFrame(output, columns=NOTIFICATION_SLICES.names)

    def _slices(self, batch: BucketInput, notifications: pa.RecordBatch) -> Iterator[tuple[int, bytes | None]]:
        """Notifications by equal offset ranges of the batch; at least one row, so that an empty batch is committed."""
        size = max(MIN_SLICE_RECORDS, -(-(batch.stop - batch.first) // self._max_slices))
        slices = (notifications.column("offset").to_numpy() - batch.first) // size
        for index in np.unique(slices).tolist() or [0]:
            begin, end = np.searchsorted(slices, [index, index + 1])
            yield index, pack(notifications.slice(begin, end - begin)) if end > begin else None

    def _advance(self, key: BucketKey, batch: BucketInput) -> tuple[CachedProcessor, pa.RecordBatch]:
        """Advance the processor of a bucket and persist its state; also returns the notifications."""
        view = lake_view(key[0])
        cached = self._current(key, view, view.layout(self._bucket_count, batch.stop))
        processed_to = cached.header.processed_to
        controls = view.controls(processed_to, batch.stop)
        if not batch.events and not len(controls) and cached.processor.is_idle:
            cache(key, cached)
            return cached, merge_notifications([])
        worker, timeline = PartitionWorker(cached.processor), view.timeline(processed_to, batch.stop)
        notifications = worker.advance([controls, *batch.events], timeline)
        cached = self._store.persist(cached, batch.stop, _mark(cached.processor))
        cache(key, cached)
        return cached, notifications

    def _current(self, key: BucketKey, view: LakeView, layout: BucketLayout) -> CachedProcessor:
        """The bucket's processor at the stored state, with the current layout."""
        header = self._header(key[0])
        cached = take_cached(key)
        if cached is None or cached.header != header:
            cached = self._restore(key, view, header, cached)
        cached.processor = view.follow(PartitionWorker(cached.processor), key[1], layout, header.processed_to).processor
        return cached

    def _header(self, lake: str) -> StateHeader:
        """The progress of the bucket; without stored state it is at the start of the query."""
        header, start = self._store.header(), self._first_states.starts.get(lake)
        return header if header.base_bytes or start is None else start_header(start)

    def _restore(
        self, key: BucketKey, view: LakeView, header: StateHeader, outdated: CachedProcessor | None
    ) -> CachedProcessor:
        """The processor of the stored state; it reuses what an outdated one has compiled."""
        snapshot: StateSnapshot | None = None
        if header.base_bytes:
            snapshot = self._store.read_snapshot(header)
        elif header.processed_to:
            snapshot = self._first_states.read(*key)
        layout = BucketLayout(self._bucket_count, linked_at(header))
        processor = view.worker(key[1], layout, snapshot, outdated.processor if outdated else None).processor
        return CachedProcessor(header, processor, snapshot or processor.snapshot())


def _waiting(processor: Processor, view: LakeView, stop: int) -> tuple[bytes | None, int]:
    """The instants that the operators of a bucket wait for, and the number of notifications that become final at them.

    Only if the log ends with the batch: they take time to find.
    """
    if view.snapshot().next_offset > stop:
        return None, 0
    return thin_out(processor.waiting_instants()).tobytes() or None, len(processor.pending_instants())


def thin_out(instants: Sequence[int] | Ints) -> Ints:
    """Some of many instants, which are sorted: every n-th and the last, at most MAX_INSTANTS.

    >>> thin_out([3, 5]).tolist(), len(thin_out(range(100_000))), int(thin_out(range(100_000))[-1])
    ([3, 5], 1021, 99999)
    """
    every = -(-len(instants) // MAX_INSTANTS) or 1
    return np.asarray(instants, np.int64)[::-1][::every][::-1]


def _state_size(cached: CachedProcessor) -> tuple[int, int]:
    """The rows and bytes of a processor's state."""
    return cached.processor.statistics()["rows"], cached.header.base_bytes + cached.header.delta_bytes


def _mark(processor: Processor) -> str:
    """As JSON: the subscriptions that are linked by derivation edges."""
    return json.dumps(sorted(processor.layout.derivation_linked if processor.layout else ()))


def start_header(start: LakeStart) -> StateHeader:
    """The progress of the buckets with which a rescaled query begins."""
    return StateHeader(start.offset, mark=json.dumps(start.linked))


def linked_at(header: StateHeader) -> frozenset[str]:
    """The subscriptions that are linked by derivation edges at a stored state."""
    return frozenset(json.loads(header.mark or "[]"))
