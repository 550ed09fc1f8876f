"""The sink of the pipeline: tasks write notification files, the driver commits them through the lake's manifest.

A batch is committed as an offset range of the log, in files whose offsets do not overlap. A range that is committed
already, by an earlier run of the batch or by another writer, holds the same notifications and is dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from motet.lake import DataFile, Lake
from motet.lake.progress import write_waiting
from motet.spark.encoding import unpack

FORMAT = "motet-notifications"

OffsetRangeKey = tuple[str, int, int]  # lake, first and stop


class NotificationSink(DataSource):
    """Writes rows of NOTIFICATION_SLICES."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamWriter(self, schema: StructType, overwrite: bool) -> NotificationWriter:  # noqa: N802  (Spark's)
        return NotificationWriter()


@dataclass
class WrittenFiles(WriterCommitMessage):
    """The files that one task has written, by offset range; the instants that operators wait for, and the number of
    notifications that become final at them.
    """

    files: dict[OffsetRangeKey, list[DataFile]] = field(default_factory=dict)
    waiting: dict[OffsetRangeKey, set[int]] = field(default_factory=dict)
    pending: Counter[OffsetRangeKey] = field(default_factory=Counter)


class NotificationWriter(DataSourceStreamArrowWriter):
    """Tasks write files, the driver commits their names."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenFiles:
        ranges: dict[OffsetRangeKey, dict[int, list[pa.RecordBatch]]] = {}
        waiting: dict[OffsetRangeKey, set[int]] = {}
        pending: Counter[OffsetRangeKey] = Counter()
        for row in (row for batch in iterator for row in batch.to_pylist()):
            range_ = row["lake"], row["first"], row["stop"]
            slices = ranges.setdefault(range_, {})
            if row["notifications"] is not None:
                slices.setdefault(row["slice"], []).append(unpack(row["notifications"]))
            pending[range_] += row["pending"] or 0
            if row["waiting"] is not None:
                waiting.setdefault(range_, set()).update(np.frombuffer(row["waiting"], np.int64).tolist())
        written = {range_: list(_write_files(range_, slices.values())) for range_, slices in ranges.items()}
        return WrittenFiles(written, waiting, pending)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        files: dict[OffsetRangeKey, list[DataFile]] = {}
        waiting: dict[OffsetRangeKey, set[int]] = {}
        pending: Counter[OffsetRangeKey] = Counter()
        for message in messages:
            if isinstance(message, WrittenFiles):
                pending.update(message.pending)
                for range_, written in message.files.items():
                    files.setdefault(range_, []).extend(written)
                    waiting.setdefault(range_, set()).update(message.waiting.get(range_, ()))
        for range_, written in files.items():
            path, first, stop = range_
            lake = Lake.open(path, create=False)
            lake.commit_notification_files(written, first, stop)
            write_waiting(lake.store, stop, waiting[range_], pending[range_])

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        for message in messages:
            if isinstance(message, WrittenFiles):
                for (lake, _, _), written in message.files.items():
                    store = Lake.open(lake, create=False).store
                    for file in written:
                        store.delete(file.name)


def _write_files(range_: OffsetRangeKey, slices: Iterable[list[pa.RecordBatch]]) -> Iterator[DataFile]:
    """One file for each slice: their offsets do not overlap."""
    from motet.engine.runtime.emission import merge_notifications
    from motet.jobs.lake_view import lake_view

    lake, _, stop = range_
    view = lake_view(lake)
    if not view.is_notified(stop):
        yield from (view.write(merge_notifications(batches)) for batches in slices)
