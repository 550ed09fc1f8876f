"""The end of the pipeline: notification tables, written by tasks and committed through the manifest of their lake.

A batch is committed as a range of log offsets. What is committed already, because a batch is run again after a crash or
somebody else was first, is the same: it is dropped. PySpark is imported here: import this module where Spark is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from motet.lake import DataFile, Lake
from motet.spark.stream.payload import notifications, unpacked
from motet.spark.stream.view import view_of

FORMAT = "motet-notifications"

Range = tuple[str, int, int]  # lake, first and stop


class TableSink(DataSource):
    """Takes rows of TOLD."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamWriter(self, schema: StructType, overwrite: bool) -> TableWriter:  # noqa: N802  (Spark's)
        return TableWriter()


@dataclass
class Written(WriterCommitMessage):
    """By range of the log, what one task has written."""

    files: dict[Range, list[DataFile]] = field(default_factory=dict)


class TableWriter(DataSourceStreamArrowWriter):
    """Tasks write, the driver commits names."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        told: dict[Range, list[pa.RecordBatch]] = {}
        for row in (row for batch in iterator for row in batch.to_pylist()):
            of_range = told.setdefault((row["lake"], row["first"], row["stop"]), [])
            if row["told"] is not None:
                of_range.append(unpacked(row["told"]))
        return Written({range_: _written(range_, batches) for range_, batches in told.items()})

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        files: dict[Range, list[DataFile]] = {}
        for message in messages:
            if isinstance(message, Written):
                for range_, written in message.files.items():
                    files.setdefault(range_, []).extend(written)
        for (lake, first, stop), written in files.items():
            Lake.open(lake, create=False).commit_notification_files(written, first, stop)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        for message in messages:
            if isinstance(message, Written):
                for (lake, _, _), written in message.files.items():
                    store = Lake.open(lake, create=False).store
                    for file in written:
                        store.delete(file.name)


def _written(range_: Range, batches: list[pa.RecordBatch]) -> list[DataFile]:
    lake, _, stop = range_
    if not batches or view_of(lake).is_notified(stop):
        return []
    return [view_of(lake).write(notifications(batches))]
