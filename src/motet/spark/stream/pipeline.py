"""The streaming query: started on one or several lakes, it derives their notifications as records are appended.

Everything is in the lakes and the checkpoint: a query that was stopped or killed goes on where it was. Without its
checkpoint it reads the log again from the beginning, and adds to the table what is not there yet.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from motet.lake import Lake
from motet.spark.session import parallelism
from motet.spark.stream import detecting, matching, progress, source, table
from motet.spark.stream.checkpoint import settled
from motet.spark.stream.detecting import TOLD, Detecting
from motet.spark.stream.matching import ROUTED, Matching
from motet.spark.stream.source import RangesSource
from motet.spark.stream.table import TableSink

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

RECORDS = 200_000  # of a lake in a batch at most


def start(
    spark: SparkSession,
    lakes: Sequence[str | Path],
    checkpoint: str | Path,
    *,
    buckets: int | None = None,
    most: int = RECORDS,
    once: bool = False,
) -> StreamingQuery:
    """Derive what the lakes' records mean, for ever; or, with ``once``, what is there now.

    ``buckets`` are fixed by the first start with a checkpoint. ``most`` bounds the records of a lake in one batch. What
    Spark raises later, `errors.spoken` says in a few words.
    """
    paths = [str(Lake.open(lake, create=False).store.root.absolute()) for lake in lakes]
    place = Path(checkpoint).absolute()
    buckets = settled(place, paths, buckets, str(spark.conf.get("spark.master"))).buckets
    spark.createDataFrame([], "unused int")  # makes the session this thread's active one: sinks are looked for there
    spark.dataSource.register(RangesSource)
    spark.dataSource.register(TableSink)
    tasks = parallelism(spark)
    reading = spark.readStream.format(source.FORMAT).option("lakes", json.dumps(paths)).option("maxRecords", most)
    ranges = reading.option("buckets", buckets).option("tasks", tasks).load()
    routed = ranges.mapInArrow(Matching(buckets), from_arrow_schema(ROUTED))
    routed = routed.observe(progress.READ, *progress.counted(matching.COUNTED))
    told = routed.groupBy("lake", "bucket").transformWithStateInPandas(
        Detecting(buckets, tasks), from_arrow_schema(TOLD), "Append", "None"
    )
    writing = (
        told.observe(progress.MADE, *progress.counted(detecting.COUNTED))
        .repartition(tasks, "lake", "slice")
        .writeStream.format(table.FORMAT)
        .outputMode("append")
        .option("checkpointLocation", f"file://{place}")
    )
    return writing.trigger(availableNow=True).start() if once else writing.start()
