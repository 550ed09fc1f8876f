"""The live cloud with its notifications derived by Spark jobs.

Tasks read segments, match them and write notification files; only the names of these files come back to the driver,
which commits them. Progress is in the lake, so nothing else has to be kept between jobs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from motet.embedded.cloud import Cloud, Derive
from motet.engine.derive import derive
from motet.lake import DataFile, Lake, Snapshot, Store
from motet.lake.notifications import write_table
from motet.model.schemas import NOTIFICATIONS
from motet.plan.timeline import Stretch
from motet.spark.lake_source import read_lake
from motet.spark.session import session

FILE = pa.schema(
    [
        pa.field("name", pa.string()),
        pa.field("first", pa.int64()),
        pa.field("stop", pa.int64()),
        pa.field("rows", pa.int64()),
        pa.field("size", pa.int64()),
    ]
)


def open_on_spark(directory: str | Path, *, durable: bool = True) -> Cloud:
    """A cloud whose worker thread runs Spark jobs."""
    lake = Lake.open(directory, durable=durable)
    return Cloud(lake, derive_on(session()), threaded=True)


def derive_on(spark: SparkSession) -> Derive:
    """Deriving on a session: the function a cloud calls for each range of the log."""

    def derive_range(lake: Lake, snapshot: Snapshot, stretches: Sequence[Stretch], first: int, stop: int) -> bool:
        files = [file for stretch in stretches for file in _run(spark, lake, stretch)]
        return lake.commit_notification_files(files, first, stop)

    return derive_range


def _run(spark: SparkSession, lake: Lake, stretch: Stretch) -> list[DataFile]:
    """One job: the notification files of one stretch, in the order of their offsets."""
    store, version = lake.store, lake.snapshot().version

    def notify(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = pa.Table.from_batches((derive(stretch, batch) for batch in batches), schema=NOTIFICATIONS)
        yield from _written(store, found, version)

    records = read_lake(spark, store.root, stretch.first, stretch.stop)
    rows = records.mapInArrow(notify, from_arrow_schema(FILE)).collect()
    return sorted((DataFile(**row.asDict()) for row in rows), key=lambda file: (file.first, file.name))


def _written(store: Store, found: pa.Table, version: int) -> Iterator[pa.RecordBatch]:
    if found.num_rows:
        file = write_table(store, found, version)
        values = {name: [getattr(file, name)] for name in FILE.names}
        yield pa.RecordBatch.from_pydict(values, schema=FILE)
