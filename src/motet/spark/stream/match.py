"""Before the shuffle: a piece of the log is read and matched, and events that may combine go to their buckets.

Subscriptions take effect at their place in the log: the tasks read the control records before and in their piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import process_time_ns

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.model.batches import RECORDS
from motet.spark.encoding import pack
from motet.spark.stream.lake_view import lake_view
from motet.spark.stream.source import ADVANCE_ROW

Batches = Iterator[pa.RecordBatch]

ROUTED = pa.schema(
    [
        pa.field("lake", pa.string(), nullable=False),
        pa.field("bucket", pa.int64(), nullable=False),
        pa.field("first", pa.int64(), nullable=False),  # of the batch
        pa.field("stop", pa.int64(), nullable=False),
        pa.field("events", pa.binary()),  # RECORDS, packed
        pa.field("told", pa.binary()),  # NOTIFICATIONS, packed: what is to be told anyway
        pa.field("read", pa.int64()),  # events, of a piece that is done; then also:
        pa.field("late", pa.int64()),
        pa.field("micros", pa.int64()),  # of a processor
    ]
)
COUNTED = ("read", "late", "micros")
AT_ONCE = 1 << 26  # bytes of records that are matched together, if there are as many


@dataclass(frozen=True)
class MatchStage:
    """Rows of RANGES to rows of ROUTED."""

    count: int  # of buckets

    def __call__(self, batches: Batches) -> Batches:
        for batch in batches:
            for row in batch.to_pylist():
                for routed in self._routed(**row):
                    yield pa.RecordBatch.from_pylist([routed], schema=ROUTED)

    def _routed(self, lake: str, first: int, stop: int, low: int, high: int) -> Iterator[dict[str, object]]:
        common = {"lake": lake, "first": first, "stop": stop}
        if low == ADVANCE_ROW:
            yield {**common, "bucket": high}
            return
        view, begun, read, late = lake_view(lake), process_time_ns(), 0, 0
        router = view.router(view.buckets(self.count, stop), low)
        for records in _together(view.snapshot().records(low, high)):
            told, places = router.route(records)
            read += pc.sum(pc.equal(records.column("kind"), "event")).as_py()
            late += records.column("late").true_count
            for bucket, events in _by_bucket(records, places):
                yield {**common, "bucket": bucket, "events": pack(events)}
            if len(told):
                yield {**common, "bucket": low % self.count, "told": pack(told)}
        view.routed(high)
        spent = (process_time_ns() - begun) // 1000
        yield {**common, "bucket": low % self.count, "read": read, "late": late, "micros": spent}


def _together(batches: Batches) -> Batches:
    """The same records in larger batches: asking thousands of leaves takes as long for few."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= AT_ONCE:
            yield pa.concat_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.concat_batches(waiting)


def _by_bucket(records: pa.RecordBatch, places: np.ndarray) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The records of each bucket, given (bucket, offset) by bucket."""
    rows = np.searchsorted(records.column("offset").to_numpy(), places[:, 1])
    for bucket in np.unique(places[:, 0]).tolist():
        yield bucket, records.take(pa.array(rows[places[:, 0] == bucket])).cast(RECORDS)
