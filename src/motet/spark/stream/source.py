"""Where a batch begins and ends: ranges of log offsets of one or several lakes, by their manifests.

A row is a piece of the log for a task to read, or a tick for a bucket: every bucket of a lake that has news gets one.
Compaction keeps offsets, so a batch that is run again after a crash means the same records. PySpark is imported here:
import this module where Spark is used.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from motet.lake import Lake, Snapshot

FORMAT = "motet-ranges"
ADVANCE_ROW = -1
PIECE = 2_000  # records; fewer are not worth a task of their own

RANGES = pa.schema(
    [
        pa.field("lake", pa.string(), nullable=False),
        pa.field("first", pa.int64(), nullable=False),  # of the batch
        pa.field("stop", pa.int64(), nullable=False),
        pa.field("low", pa.int64(), nullable=False),  # of the piece; of a tick: TICK
        pa.field("high", pa.int64(), nullable=False),  # of a tick: the bucket
    ]
)

Offsets = dict[str, int]  # by lake


class RangesSource(DataSource):
    """Options: ``lakes`` (a JSON list of directories), ``buckets``, ``tasks`` to read with, and ``maxRecords``."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return from_arrow_schema(RANGES)

    def streamReader(self, schema: StructType) -> RangesReader:  # noqa: N802  (Spark's name)
        limit = self.options.get("maxRecords")
        return RangesReader(
            lakes=json.loads(self.options["lakes"]),
            buckets=int(self.options["buckets"]),
            limit=None if limit is None else int(limit),
            tasks=int(self.options["tasks"]),
        )


@dataclass
class RangeRows(InputPartition):
    """What one task makes of a batch: rows of RANGES."""

    rows: list[dict[str, object]]


@dataclass
class RangesReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Asks the manifests only when a batch is planned."""

    lakes: Sequence[str]
    buckets: int
    limit: int | None
    tasks: int
    _until: Offsets | None = None
    _open: dict[str, Lake] = field(default_factory=dict)

    def initialOffset(self) -> Offsets:  # noqa: N802  (Spark's names, here and below)
        return dict.fromkeys(self.lakes, 0)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self.limit is None else ReadMaxRows(self.limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._until = {lake: self._snapshot(lake).next_offset for lake in self.lakes}

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return {lake: self._end(lake, start.get(lake, 0), most) for lake in self.lakes}

    def _end(self, lake: str, first: int, most: int | None) -> int:
        """A batch is either derived already, all of it, or not at all."""
        snapshot = self._snapshot(lake)
        end = snapshot.next_offset if self._until is None else self._until[lake]
        if first < snapshot.notifications_end:
            end = min(end, snapshot.notifications_end)
        return end if most is None else min(end, first + most)

    def reportLatestOffset(self) -> Offsets:  # noqa: N802
        return {lake: self._snapshot(lake).next_offset for lake in self.lakes}

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        ranges = {lake: (start.get(lake, 0), stop) for lake, stop in end.items() if start.get(lake, 0) < stop}
        pieces = [row for lake, batch in ranges.items() for row in self._pieces(lake, *batch)]
        ticks = [row for lake, batch in ranges.items() for row in self._ticks(lake, *batch)]
        tasks = min(self.tasks, len(pieces))
        return [RangeRows([*pieces[task::tasks], *ticks[task::tasks]]) for task in range(tasks)]

    def _pieces(self, lake: str, first: int, stop: int) -> Iterator[dict[str, object]]:
        step = max(PIECE, -(-(stop - first) // self.tasks))
        for low in range(first, stop, step):
            yield {"lake": lake, "first": first, "stop": stop, "low": low, "high": min(low + step, stop)}

    def _ticks(self, lake: str, first: int, stop: int) -> Iterator[dict[str, object]]:
        for bucket in range(self.buckets):
            yield {"lake": lake, "first": first, "stop": stop, "low": ADVANCE_ROW, "high": bucket}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangeRows)
        yield pa.RecordBatch.from_pylist(partition.rows, schema=RANGES)

    def _snapshot(self, lake: str) -> Snapshot:
        if lake not in self._open:
            self._open[lake] = Lake.open(lake, create=False)
        return self._open[lake].snapshot()
