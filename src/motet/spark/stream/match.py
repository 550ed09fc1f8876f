"""The match stage, before the shuffle: reads a range of the log, matches it and routes events to their buckets.

Subscriptions are active from their offset: a task reads the control records before its range and in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import process_time_ns

import pyarrow as pa
import pyarrow.compute as pc

from motet.jobs.lake_view import lake_view
from motet.spark.encoding import Batches, pack
from motet.spark.stream.source import ADVANCE_ROW
from motet.spark.workers import freeze_heap

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
SUMMED_COLUMNS = ("read", "late", "stamped", "micros")
MATCH_BYTES = 1 << 26  # of records that are matched together


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
