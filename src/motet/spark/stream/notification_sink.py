"""The end of the pipeline: notification tables, written by tasks and committed through the manifest of their lake.

A batch is committed as a range of log offsets, in files whose offsets follow each other. What is committed already,
because a batch is run again after a crash or somebody else was first, is the same: it is dropped. PySpark is imported
here: import this module where Spark is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from motet.lake import DataFile, Lake
from motet.spark.encoding import unpack

FORMAT = "motet-notifications"

Range = tuple[str, int, int]  # lake, first and stop


class NotificationSink(DataSource):
    """Takes rows of TOLD."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamWriter(self, schema: StructType, overwrite: bool) -> NotificationWriter:  # noqa: N802  (Spark's)
        return NotificationWriter()


@dataclass
class WrittenFiles(WriterCommitMessage):
    """By range of the log, what one task has written."""

    files: dict[Range, list[DataFile]] = field(default_factory=dict)


class NotificationWriter(DataSourceStreamArrowWriter):
    """Tasks write, the driver commits names."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenFiles:
        told: dict[Range, dict[int, list[pa.RecordBatch]]] = {}
        for row in (row for batch in iterator for row in batch.to_pylist()):
            slices = told.setdefault((row["lake"], row["first"], row["stop"]), {})
            if row["told"] is not None:
                slices.setdefault(row["slice"], []).append(unpack(row["told"]))
        return WrittenFiles({range_: list(_files(range_, slices.values())) for range_, slices in told.items()})

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        files: dict[Range, list[DataFile]] = {}
        for message in messages:
            if isinstance(message, WrittenFiles):
                for range_, written in message.files.items():
                    files.setdefault(range_, []).extend(written)
        for (lake, first, stop), written in files.items():
            Lake.open(lake, create=False).commit_notification_files(written, first, stop)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        for message in messages:
            if isinstance(message, WrittenFiles):
                for (lake, _, _), written in message.files.items():
                    store = Lake.open(lake, create=False).store
                    for file in written:
                        store.delete(file.name)


def _files(range_: Range, slices: Iterable[list[pa.RecordBatch]]) -> Iterator[DataFile]:
    """One file for each slice: their offsets do not overlap."""
    from motet.engine.detect.output import merge_notifications
    from motet.spark.stream.lake_view import lake_view

    lake, _, stop = range_
    view = lake_view(lake)
    if not view.is_notified(stop):
        yield from (view.write(merge_notifications(batches)) for batches in slices)
