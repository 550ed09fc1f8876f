"""A lake's notifications as a Spark data source, batch or stream, so that any writer of Spark's can take them on.

Offsets are those of the log: a batch of the stream is what the records of a range have made final, the same rows
whenever it is run again. A row is one of NOTIFICATIONS with the notification's id before it, for writers that must
know what they have. PySpark is imported here: import this module where Spark is used.
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

from motet.lake import Lake, Snapshot
from motet.lake.segments import read_rows
from motet.model.errors import UsageError
from motet.model.schemas import NOTIFICATIONS
from motet.model.tables import notification_rows
from motet.spark.lake_source import OffsetRange

FORMAT = "motet-notifications"
ROWS = pa.schema([pa.field("id", pa.string(), nullable=False), *NOTIFICATIONS])

Offset = dict[str, int]


def notifications(
    spark: SparkSession, lake: str | Path, *, first: int = 0, max_offsets: int | None = None
) -> DataFrame:
    """The notifications made final at log offset ``first`` or later, now and in future, as a streaming DataFrame.

    A batch covers ``max_offsets`` records of the log at most, when given.
    """
    Lake.open(lake, create=False)  # a wrong path is an error here, not in a query
    register(spark)
    reader = spark.readStream.format(FORMAT).option("first", first)
    if max_offsets is not None:
        reader = reader.option("maxOffsets", max_offsets)
    return reader.load(str(Path(lake).absolute()))


def stored_notifications(spark: SparkSession, lake: str | Path, first: int = 0, stop: int | None = None) -> DataFrame:
    """The notifications made final at offsets in ``[first, stop)``; without ``stop``, those there are now."""
    snapshot = Lake.open(lake, create=False).snapshot()
    end = snapshot.notified_to if stop is None else min(stop, snapshot.notified_to)
    register(spark)
    reader = spark.read.format(FORMAT).option("first", first).option("stop", end)
    return reader.load(str(Path(lake).absolute()))


def register(spark: SparkSession) -> None:
    """Make the format known to a session; doing it again is harmless."""
    spark.dataSource.register(NotificationSource)


class NotificationSource(DataSource):
    """Options: ``path``, ``first``; of a batch ``stop``; of a stream ``maxOffsets``."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return from_arrow_schema(ROWS)

    def reader(self, schema: StructType) -> BatchReader:
        stop = self.options.get("stop")
        return BatchReader(self._path(), int(self.options.get("first", 0)), None if stop is None else int(stop))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802  (Spark's name)
        limit = self.options.get("maxOffsets")
        return StreamReader(self._path(), int(self.options.get("first", 0)), None if limit is None else int(limit))

    def _path(self) -> str:
        if "path" not in self.options:
            raise UsageError("which lake to read is not said", advice='Give its directory: .load("path/of/lake").')
        return self.options["path"]


@dataclass
class BatchReader(DataSourceReader):
    """Plans with one snapshot; the partitions carry all a task needs."""

    path: str
    first: int
    stop: int | None

    def partitions(self) -> list[InputPartition]:
        snapshot = Lake.open(self.path, create=False).snapshot()
        return list(_plan(snapshot, self.first, snapshot.notified_to if self.stop is None else self.stop))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition)


@dataclass
class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Asks the manifest when a batch is planned."""

    path: str
    first: int
    limit: int | None
    until: int | None = None

    def initialOffset(self) -> Offset:  # noqa: N802  (Spark's names, here and below)
        return {"offset": self.first}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self.limit is None else ReadMaxRows(self.limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.until = self._snapshot().notified_to

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        end = self._snapshot().notified_to if self.until is None else self.until
        if isinstance(limit, ReadMaxRows):
            end = min(end, start["offset"] + limit.max_rows)
        return {"offset": max(end, start["offset"])}

    def reportLatestOffset(self) -> Offset:  # noqa: N802
        return {"offset": self._snapshot().notified_to}

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        return list(_plan(self._snapshot(), start["offset"], end["offset"]))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition)

    def _snapshot(self) -> Snapshot:
        return Lake.open(self.path, create=False).snapshot()


def _plan(snapshot: Snapshot, first: int, stop: int) -> Iterator[OffsetRange]:
    for table in snapshot.tables:
        low, high = max(table.first, first), min(table.stop, stop)
        if low < high:
            yield OffsetRange(snapshot.store, table.name, low, high)


def _read(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    if isinstance(partition, OffsetRange):  # Spark makes a partition of its own for a source without any
        for batch in read_rows(partition.store, partition.name, partition.first, partition.stop):
            ids = pa.array([notification.id for notification, _ in notification_rows(batch)], pa.string())
            yield pa.RecordBatch.from_arrays([ids, *batch.columns], schema=ROWS)
