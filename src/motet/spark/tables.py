"""The log and the notification table of a lake as Spark data sources, ``motet`` and ``motet-notifications``.

Readers use the files of a snapshot, never a directory listing. Compaction preserves offsets, so an offset range always
has the same rows; :func:`read_lake` and :func:`stored_notifications` fix the range when they are called. A batch of the
stream of notifications has those whose emission offsets are in its range, with their ids, so that a writer can
recognise them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from motet.lake import Lake, Snapshot, Store
from motet.lake.segments import read_rows
from motet.model.batches import NOTIFICATIONS, RECORDS, notification_rows
from motet.model.errors import UsageError

LAKE_FORMAT = "motet"
PARTITION_BYTES = 32 * 2**20  # of compressed Parquet


def read_lake(spark: SparkSession, path: str | Path, first: int = 0, stop: int | None = None) -> DataFrame:
    """The records with offsets in ``[first, stop)``, in rows of RECORDS; ``stop`` defaults to the current end."""
    snapshot = Lake.open(path, create=False).snapshot()
    end = snapshot.next_offset if stop is None else min(stop, snapshot.next_offset)
    register_lake_source(spark)
    reader = spark.read.format(LAKE_FORMAT).option("first", first).option("stop", end)
    return reader.load(str(Path(path).absolute()))


def register_lake_source(spark: SparkSession) -> None:
    """Register the format in a session; repeating it has no effect."""
    spark.dataSource.register(LakeSource)


class LakeSource(DataSource):
    """Options: ``path``; optional: ``first``, ``stop`` and ``partitionBytes``."""

    @classmethod
    def name(cls) -> str:
        return LAKE_FORMAT

    def schema(self) -> StructType:
        return from_arrow_schema(RECORDS)

    def reader(self, schema: StructType) -> LakeReader:
        if "path" not in self.options:
            raise UsageError("the path of the lake is missing", advice='Give its directory: .load("path/of/lake").')
        stop = self.options.get("stop")
        return LakeReader(
            path=self.options["path"],
            first=int(self.options.get("first", 0)),
            stop=None if stop is None else int(stop),
            partition_bytes=int(self.options.get("partitionBytes", PARTITION_BYTES)),
        )


@dataclass
class OffsetRange(InputPartition):
    """The offsets of one file that a task reads."""

    store: Store
    name: str
    first: int
    stop: int


@dataclass
class LakeReader(DataSourceReader):
    """Plans with one snapshot; the partitions have all that tasks need."""

    path: str
    first: int
    stop: int | None
    partition_bytes: int

    def partitions(self) -> list[InputPartition]:
        snapshot = Lake.open(self.path, create=False).snapshot()
        return list(plan_segments(snapshot, self.first, self.stop, self.partition_bytes))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, OffsetRange):  # a source without partitions gets one from Spark
            yield from read_rows(partition.store, partition.name, partition.first, partition.stop)


def plan_segments(snapshot: Snapshot, first: int, stop: int | None, partition_bytes: int) -> Iterator[OffsetRange]:
    """The segments that hold offsets of ``[first, stop)``; a large segment in several ranges of equal length."""
    end = snapshot.next_offset if stop is None else stop
    for segment in snapshot.segments:
        low, high = max(segment.first, first), min(segment.stop, end)
        count = -(-segment.size // partition_bytes)
        step = max(1, -(-segment.rows // max(count, 1)))
        for start in range(low, high, step):
            yield OffsetRange(snapshot.store, segment.name, start, min(start + step, high))


NOTIFICATION_FORMAT = "motet-notifications"
NOTIFICATION_ROWS = pa.schema([pa.field("id", pa.string(), nullable=False), *NOTIFICATIONS])

Offset = dict[str, int]


def notifications(
    spark: SparkSession, lake: str | Path, *, first: int = 0, max_offsets: int | None = None
) -> DataFrame:
    """A streaming DataFrame of the notifications with emission offsets from ``first`` on.

    ``max_offsets`` limits the offset range of a batch.
    """
    Lake.open(lake, create=False)  # refuses a wrong path before a query starts
    register_notification_source(spark)
    reader = spark.readStream.format(NOTIFICATION_FORMAT).option("first", first)
    if max_offsets is not None:
        reader = reader.option("maxOffsets", max_offsets)
    return reader.load(str(Path(lake).absolute()))


def stored_notifications(spark: SparkSession, lake: str | Path, first: int = 0, stop: int | None = None) -> DataFrame:
    """The notifications with emission offsets in ``[first, stop)``; ``stop`` defaults to the current end."""
    snapshot = Lake.open(lake, create=False).snapshot()
    end = snapshot.notifications_end if stop is None else min(stop, snapshot.notifications_end)
    register_notification_source(spark)
    reader = spark.read.format(NOTIFICATION_FORMAT).option("first", first).option("stop", end)
    return reader.load(str(Path(lake).absolute()))


def register_notification_source(spark: SparkSession) -> None:
    """Register the format in a session; repeating it has no effect."""
    spark.dataSource.register(NotificationSource)


class NotificationSource(DataSource):
    """Options: ``path``, ``first``; of a batch ``stop``; of a stream ``maxOffsets``."""

    @classmethod
    def name(cls) -> str:
        return NOTIFICATION_FORMAT

    def schema(self) -> StructType:
        return from_arrow_schema(NOTIFICATION_ROWS)

    def reader(self, schema: StructType) -> NotificationReader:
        stop = self.options.get("stop")
        return NotificationReader(self._path(), int(self.options.get("first", 0)), None if stop is None else int(stop))

    def streamReader(self, schema: StructType) -> NotificationStreamReader:  # noqa: N802  (Spark's name)
        limit = self.options.get("maxOffsets")
        return NotificationStreamReader(
            self._path(), int(self.options.get("first", 0)), None if limit is None else int(limit)
        )

    def _path(self) -> str:
        if "path" not in self.options:
            raise UsageError("the path of the lake is missing", advice='Give its directory: .load("path/of/lake").')
        return self.options["path"]


@dataclass
class NotificationReader(DataSourceReader):
    """Plans with one snapshot; the partitions have all that tasks need."""

    path: str
    first: int
    stop: int | None

    def partitions(self) -> list[InputPartition]:
        snapshot = Lake.open(self.path, create=False).snapshot()
        return list(
            _plan_notification_files(
                snapshot, self.first, snapshot.notifications_end if self.stop is None else self.stop
            )
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read_notifications(partition)


@dataclass
class NotificationStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the manifest when a batch is planned."""

    path: str
    first: int
    limit: int | None
    available_now: int | None = None

    def initialOffset(self) -> Offset:  # noqa: N802  (Spark's names, here and below)
        return {"offset": self.first}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self.limit is None else ReadMaxRows(self.limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.available_now = self._snapshot().notifications_end

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        end = self._snapshot().notifications_end if self.available_now is None else self.available_now
        if isinstance(limit, ReadMaxRows):
            end = min(end, start["offset"] + limit.max_rows)
        return {"offset": max(end, start["offset"])}

    def reportLatestOffset(self) -> Offset:  # noqa: N802
        return {"offset": self._snapshot().notifications_end}

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        return list(_plan_notification_files(self._snapshot(), start["offset"], end["offset"]))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read_notifications(partition)

    def _snapshot(self) -> Snapshot:
        return Lake.open(self.path, create=False).snapshot()


def _plan_notification_files(snapshot: Snapshot, first: int, stop: int) -> Iterator[OffsetRange]:
    for table in snapshot.tables:
        low, high = max(table.first, first), min(table.stop, stop)
        if low < high:
            yield OffsetRange(snapshot.store, table.name, low, high)


def _read_notifications(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    if isinstance(partition, OffsetRange):  # a source without partitions gets one from Spark
        for batch in read_rows(partition.store, partition.name, partition.first, partition.stop):
            ids = pa.array([notification.id for notification, _ in notification_rows(batch)], pa.string())
            yield pa.RecordBatch.from_arrays([ids, *batch.columns], schema=NOTIFICATION_ROWS)
