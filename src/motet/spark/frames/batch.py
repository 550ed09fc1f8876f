"""Matches in a DataFrame that has an end: every bucket is sorted by time and read once, then time ends.

Sorted, no row comes late: a kernel forgets what lies behind, however long the table is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from motet.model.tables import tick_record
from motet.model.times import END_OF_TIME
from motet.spark.frames.events import MATCHED, Work
from motet.spark.frames.rows import BUCKET, END, ID, START, TIME

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class DetectSorted:
    """Rows of buckets, one after the other, each by time, to rows of MATCHED."""

    work: Work

    def __call__(self, batches: Batches) -> Batches:
        parts = (part for rows in batches for part in _parts(rows))
        for _, bucket in groupby(parts, key=lambda part: part.column(BUCKET)[0].as_py()):
            kernel, offset = self.work.kernel(lateness=0), 0
            for part in bucket:
                yield self.work.matches(kernel.advance(self.work.records(part, offset)))
                offset += len(part)
            yield self.work.matches(kernel.advance(tick_record(END_OF_TIME, offset)))


def detect_sorted(rows: DataFrame, work: Work, buckets: int) -> DataFrame:
    """What rows mean, in rows of MATCHED."""
    placed = rows.drop(TIME).repartitionById(buckets, BUCKET)
    sorted_ = placed.sortWithinPartitions(BUCKET, END, START, ID)
    return sorted_.mapInArrow(DetectSorted(work), from_arrow_schema(MATCHED))


def _parts(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Rows of one bucket at a time."""
    numbers = np.asarray(rows.column(BUCKET))
    cuts = (np.flatnonzero(np.diff(numbers)) + 1).tolist()
    for begin, end in pairwise([0, *cuts, len(rows)]):
        if begin < end:
            yield rows.slice(begin, end - begin)
