"""The pipeline as a job: one streaming query that computes the notifications of one or several lakes.

`motet stream` runs the job, and a live cloud on Spark has it as its backend.

All its state is in the lakes and the checkpoint: a query that was stopped or killed continues from there. Without its
checkpoint it reads the log again from the beginning and adds the notifications that the table lacks.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery

from motet.embedded.cloud import Cloud
from motet.jobs.heartbeat import Heartbeat
from motet.jobs.stream_progress import LakeStatus, NotificationCounts, ProgressObserver, lake_status
from motet.jobs.zone_building import ZoneBuilding
from motet.lake import Lake
from motet.lake.progress import greatest_waiting
from motet.spark.session import parallelism, session
from motet.spark.stream import notification_sink, progress, source
from motet.spark.stream.checkpoint import (
    default_checkpoint,
    first_states,
    hold_checkpoint,
    open_checkpoint,
    read_metadata,
)
from motet.spark.stream.errors import describe_failure
from motet.spark.stream.notification_sink import NotificationSink
from motet.spark.stream.progress import ended_batches
from motet.spark.stream.source import RangesSource
from motet.spark.stream.tasks import (
    DETECT_SUMMED,
    MATCH_SUMMED,
    NOTIFICATION_SLICES,
    ROUTED,
    DetectStage,
    MatchStage,
)

MAX_RECORDS = 200_000  # of a lake in one batch
POLL_SECONDS = 1
TOTALS = ("batches", "records", "events", "late", "stamped", "notifications")

log = logging.getLogger("motet")

_PARTITIONS = "spark.sql.shuffle.partitions"


class PipelineJob:
    """Supervises the streaming query of a set of lakes: start, restart after a failure, progress and stop."""

    def __init__(
        self,
        spark: SparkSession,
        lakes: Sequence[Lake],
        checkpoint: Path,
        *,
        max_records: int = MAX_RECORDS,
        observers: Sequence[ProgressObserver] = (),
        report: Callable[[str], object] = log.warning,
    ) -> None:
        self.totals: dict[str, int] = dict.fromkeys(TOTALS, 0)
        self.status: list[LakeStatus] = []  # of the lakes, at the last look
        self._spark = spark
        self._lakes = lakes
        self._checkpoint = checkpoint
        self._max_records = max_records
        self._observers = observers
        self._heartbeats = [Heartbeat(lake, spark=True, report=report) for lake in lakes]
        self._zone_building = [ZoneBuilding(lake) for lake in lakes]
        self._counts = [NotificationCounts(lake) for lake in lakes]
        self._query: StreamingQuery | None = None
        self._last_batch = -1
        self._starts: Mapping[str, int] = {}  # by lake: the first offset of a rescaled query

    def run(self, stop_requested: threading.Event, *, once: bool = False) -> None:
        """Run until a stop is requested; with ``once``, until the records appended so far are processed."""
        with self._translate_errors():
            query = self._start(once=once)
            while not query.awaitTermination(POLL_SECONDS):
                self._report(query)
                if not once:
                    self._beat()
                    self._build_zones()
                if stop_requested.is_set():
                    query.stop()
            self._report(query)
        for building in self._zone_building:
            building.close()

    def process_available(self) -> None:
        """Return when the records appended so far are processed; starts the query, or restarts one that failed."""
        with self._translate_errors():
            (self._query or self._start()).processAllAvailable()

    def stop(self) -> None:
        query, self._query = self._query, None
        if query is not None:
            query.stop()

    def _start(self, *, once: bool = False) -> StreamingQuery:
        roots = [lake.store.root for lake in self._lakes]
        self._query = start_query(self._spark, roots, self._checkpoint, max_records=self._max_records, once=once)
        starts = read_metadata(self._checkpoint).starts
        self._starts = {lake: start.offset for lake, start in starts.items()}
        return self._query

    def _beat(self) -> None:
        """Append a tick to each lake where one is due."""
        for lake, heartbeat in zip(self._lakes, self._heartbeats, strict=True):
            processed_to = lake.snapshot().notifications_end
            heartbeat.beat(processed_to, partial(greatest_waiting, lake.store, processed_to))

    def _build_zones(self) -> None:
        for lake, building in zip(self._lakes, self._zone_building, strict=True):
            building.start_if_due(lake.snapshot().next_offset)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Raise what Spark reports as an error of Motet; the failed query is dropped."""
        try:
            yield
        except (PySparkException, Py4JError) as error:
            self._query = None
            raise describe_failure(error, self._checkpoint) from error

    def _report(self, query: StreamingQuery) -> None:
        """Pass the batches that ended since the last call, and the status of the lakes, to the observers."""
        lakes = [
            lake_status(lake, notifications=counts) for lake, counts in zip(self._lakes, self._counts, strict=True)
        ]
        self.status = lakes
        for observer in self._observers:
            observer.set_lake_status(lakes)
        for batch in ended_batches(query, self._last_batch, self._starts):
            self._last_batch = batch.number
            for observer in self._observers:
                observer.add_batch(batch, lakes)
            self.totals["batches"] += 1
            for name in TOTALS[1:]:
                self.totals[name] += getattr(batch, name)


@contextmanager
def pipeline_session(master: str | None, buckets: int, config: Mapping[str, str]) -> Iterator[SparkSession]:
    """A Spark session for the query; stopped afterwards unless it was active before."""
    is_active = SparkSession.getActiveSession() is not None
    spark = session(master=master, app_name="motet-stream", config=config)
    if int(spark.conf.get(_PARTITIONS) or 0) > buckets:  # Spark's default is 200; a bucket is never split
        spark.conf.set(_PARTITIONS, buckets)
    try:
        yield spark
    finally:
        if not is_active:
            spark.stop()


def start_query(
    spark: SparkSession,
    lakes: Sequence[str | Path],
    checkpoint: str | Path,
    *,
    buckets: int | None = None,
    max_records: int = MAX_RECORDS,
    once: bool = False,
) -> StreamingQuery:
    """Start computing the notifications of lakes; with ``once``, the query ends after the records appended so far.

    ``buckets`` is fixed by the first start with a checkpoint; ``max_records`` limits the records of a lake in a batch.
    """
    paths = [str(Lake.open(lake, create=False).store.root.absolute()) for lake in lakes]
    checkpoint = Path(checkpoint).absolute()
    metadata = open_checkpoint(checkpoint, paths, buckets, str(spark.conf.get("spark.master")))
    buckets, starts = metadata.buckets, {lake: start.offset for lake, start in metadata.starts.items()}
    spark.createDataFrame([], "unused int")  # makes the session this thread's active one, where Spark looks up sinks
    spark.dataSource.register(RangesSource)
    spark.dataSource.register(NotificationSink)
    tasks = parallelism(spark)
    reader = spark.readStream.format(source.FORMAT).option("lakes", json.dumps(paths)).option("maxRecords", max_records)
    ranges = reader.option("buckets", buckets).option("tasks", tasks).option("starts", json.dumps(starts)).load()
    routed = ranges.mapInArrow(MatchStage(buckets), from_arrow_schema(ROUTED))
    routed = routed.observe(progress.MATCH_SUMS, *progress.observed_sums(MATCH_SUMMED))
    detect_stage = DetectStage(buckets, tasks, first_states(checkpoint, metadata))
    slices = routed.groupBy("lake", "bucket").transformWithStateInPandas(
        detect_stage, from_arrow_schema(NOTIFICATION_SLICES), "Append", "None"
    )
    writer = (
        slices.observe(progress.DETECT_SUMS, *progress.observed_sums(DETECT_SUMMED))
        .repartition(tasks, "lake", "slice")
        .writeStream.format(notification_sink.FORMAT)
        .outputMode("append")
        .option("checkpointLocation", f"file://{checkpoint / metadata.folder}")
    )
    return writer.trigger(availableNow=True).start() if once else writer.start()


def open_on_spark(lake: Lake) -> Cloud:
    """Open a live cloud whose worker thread drives a streaming query, with the checkpoint of `motet stream`."""
    return SparkCloud(lake, session())


class SparkCloud(Cloud):
    """A cloud with a streaming query as its backend."""

    def __init__(self, lake: Lake, spark: SparkSession) -> None:
        checkpoint = default_checkpoint([lake.store.root]).absolute()
        self._held = ExitStack()
        self._held.enter_context(hold_checkpoint(checkpoint))
        self._pipeline = PipelineJob(spark, [lake], checkpoint)
        super().__init__(lake, self._pipeline.process_available, threaded=True)

    def close(self) -> None:
        """Deliver the remaining notifications, then stop the query."""
        try:
            super().close()
        finally:
            self._pipeline.stop()
            self._held.close()
