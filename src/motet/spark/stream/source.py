"""The source of the pipeline: plans batches as offset ranges of the logs of one or several lakes.

A row is an offset range for a task to read, or an advance row for a bucket: every bucket of a lake with records in the
batch gets one, so that its processor advances without events. Compaction preserves offsets, so a batch that is run
again after a failure has the same records.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from motet.lake import Lake, Snapshot

FORMAT = "motet-ranges"
ADVANCE_ROW = -1  # in the place of the first offset
MIN_RANGE_RECORDS = 2_000  # fewer are not worth a task

RANGES = pa.schema(
    [
        pa.field("lake", pa.string(), nullable=False),
        pa.field("first", pa.int64(), nullable=False),  # offsets of the batch
        pa.field("stop", pa.int64(), nullable=False),
        pa.field("low", pa.int64(), nullable=False),  # offsets of the range; of an advance row: ADVANCE_ROW
        pa.field("high", pa.int64(), nullable=False),  # of an advance row: the bucket
    ]
)

LakeOffsets = dict[str, int]  # by lake


class RangesSource(DataSource):
    """Options: ``lakes`` (a JSON list of directories), ``starts`` (JSON: their first offsets, if these are not 0),
    ``buckets``, ``tasks`` to read with, and ``maxRecords``.
    """

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return from_arrow_schema(RANGES)

    def streamReader(self, schema: StructType) -> RangesReader:  # noqa: N802  (Spark's name)
        limit = self.options.get("maxRecords")
        return RangesReader(
            lakes=json.loads(self.options["lakes"]),
            starts=json.loads(self.options["starts"]),
            buckets=int(self.options["buckets"]),
            limit=None if limit is None else int(limit),
            tasks=int(self.options["tasks"]),
        )


@dataclass
class RangeRows(InputPartition):
    """The rows of RANGES of one task."""

    rows: list[dict[str, object]]


@dataclass
class RangesReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the manifests when a batch is planned."""

    lakes: Sequence[str]
    starts: LakeOffsets
    buckets: int
    limit: int | None
    tasks: int
    _available_now: LakeOffsets | None = None
    _lake_cache: dict[str, Lake] = field(default_factory=dict)

    def initialOffset(self) -> LakeOffsets:  # noqa: N802  (Spark's names, here and below)
        return {lake: self.starts.get(lake, 0) for lake in self.lakes}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self.limit is None else ReadMaxRows(self.limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._available_now = {lake: self._snapshot(lake).next_offset for lake in self.lakes}

    def latestOffset(self, start: LakeOffsets, limit: ReadLimit) -> LakeOffsets:  # noqa: N802
        max_records = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return {lake: self._end(lake, start.get(lake, 0), max_records) for lake in self.lakes}

    def _end(self, lake: str, first: int, max_records: int | None) -> int:
        """The end of a batch, which lies either completely below the end of the notification table or not at all."""
        snapshot = self._snapshot(lake)
        end = snapshot.next_offset if self._available_now is None else self._available_now[lake]
        if first < snapshot.notifications_end:
            end = min(end, snapshot.notifications_end)
        return end if max_records is None else min(end, first + max_records)

    def reportLatestOffset(self) -> LakeOffsets:  # noqa: N802
        return {lake: self._snapshot(lake).next_offset for lake in self.lakes}

    def partitions(self, start: LakeOffsets, end: LakeOffsets) -> Sequence[InputPartition]:
        ranges = {lake: (start.get(lake, 0), stop) for lake, stop in end.items() if start.get(lake, 0) < stop}
        range_rows = [row for lake, batch in ranges.items() for row in self._range_rows(lake, *batch)]
        advance_rows = [row for lake, batch in ranges.items() for row in self._advance_rows(lake, *batch)]
        tasks = min(self.tasks, len(range_rows))
        return [RangeRows([*range_rows[task::tasks], *advance_rows[task::tasks]]) for task in range(tasks)]

    def _range_rows(self, lake: str, first: int, stop: int) -> Iterator[dict[str, object]]:
        step = max(MIN_RANGE_RECORDS, -(-(stop - first) // self.tasks))
        for low in range(first, stop, step):
            yield {"lake": lake, "first": first, "stop": stop, "low": low, "high": min(low + step, stop)}

    def _advance_rows(self, lake: str, first: int, stop: int) -> Iterator[dict[str, object]]:
        for bucket in range(self.buckets):
            yield {"lake": lake, "first": first, "stop": stop, "low": ADVANCE_ROW, "high": bucket}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangeRows)
        yield pa.RecordBatch.from_pylist(partition.rows, schema=RANGES)

    def _snapshot(self, lake: str) -> Snapshot:
        if lake not in self._lake_cache:
            self._lake_cache[lake] = Lake.open(lake, create=False)
        return self._lake_cache[lake].snapshot()
