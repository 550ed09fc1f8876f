"""A lake as a Spark data source: ``spark.read.format("motet").load(path)`` gives its records, in rows of RECORDS.

It reads the files a manifest version names, never a directory listing. Compaction keeps offsets, so a range of offsets
is the same rows for ever; :func:`read_lake` fixes the range when it is called. PySpark is imported here: import this
module where Spark is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from motet.lake import Lake, Snapshot, Store
from motet.lake.segments import read_rows
from motet.model.errors import UsageError
from motet.model.schemas import RECORDS

FORMAT = "motet"
PARTITION_BYTES = 32 * 2**20  # of compressed Parquet


def read_lake(spark: SparkSession, path: str | Path, first: int = 0, stop: int | None = None) -> DataFrame:
    """The records with offsets in ``[first, stop)``; without ``stop``, those the lake holds now."""
    snapshot = Lake.open(path, create=False).snapshot()
    end = snapshot.next_offset if stop is None else min(stop, snapshot.next_offset)
    register(spark)
    reader = spark.read.format(FORMAT).option("first", first).option("stop", end)
    return reader.load(str(Path(path).absolute()))


def register(spark: SparkSession) -> None:
    """Make the format known to a session; doing it again is harmless."""
    spark.dataSource.register(LakeSource)


class LakeSource(DataSource):
    """Options: ``path``, and ``first``, ``stop`` and ``partitionBytes`` if wanted."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return from_arrow_schema(RECORDS)

    def reader(self, schema: StructType) -> LakeReader:
        if "path" not in self.options:
            raise UsageError("which lake to read is not said", advice='Give its directory: .load("path/of/lake").')
        stop = self.options.get("stop")
        return LakeReader(
            path=self.options["path"],
            first=int(self.options.get("first", 0)),
            stop=None if stop is None else int(stop),
            partition_bytes=int(self.options.get("partitionBytes", PARTITION_BYTES)),
        )


@dataclass
class OffsetRange(InputPartition):
    """What one task reads: offsets of one segment."""

    store: Store
    name: str
    first: int
    stop: int


@dataclass
class LakeReader(DataSourceReader):
    """Plans with one snapshot; the partitions carry all a task needs."""

    path: str
    first: int
    stop: int | None
    partition_bytes: int

    def partitions(self) -> list[InputPartition]:
        snapshot = Lake.open(self.path, create=False).snapshot()
        return list(plan(snapshot, self.first, self.stop, self.partition_bytes))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, OffsetRange):  # Spark makes a partition of its own for a source without any
            yield from read_rows(partition.store, partition.name, partition.first, partition.stop)


def plan(snapshot: Snapshot, first: int, stop: int | None, partition_bytes: int) -> Iterator[OffsetRange]:
    """The segments that hold offsets of ``[first, stop)``; a large segment in several ranges of equal length."""
    end = snapshot.next_offset if stop is None else stop
    for segment in snapshot.segments:
        low, high = max(segment.first, first), min(segment.stop, end)
        pieces = -(-segment.size // partition_bytes)
        step = max(1, -(-segment.rows // max(pieces, 1)))
        for start in range(low, high, step):
            yield OffsetRange(snapshot.store, segment.name, start, min(start + step, high))
