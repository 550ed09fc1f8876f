"""The figures of a batch of the pipeline from Spark's progress, and from sums over the rows of its stages."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery

from motet.embedded.cloud import Cloud
from motet.jobs.stream_progress import BatchProgress, LakeStatus, NotificationCounts, ProgressObserver, lake_status
from motet.jobs.upkeep import Heartbeat, ZoneBuilding
from motet.lake import Lake
from motet.lake.progress import greatest_waiting
from motet.spark.session import parallelism, session
from motet.spark.stream import notification_sink, source
from motet.spark.stream.checkpoint import (
    default_checkpoint,
    first_states,
    hold_checkpoint,
    open_checkpoint,
    read_metadata,
)
from motet.spark.stream.errors import describe_failure
from motet.spark.stream.notification_sink import NotificationSink
from motet.spark.stream.source import RangesSource
from motet.spark.stream.tasks import DETECT_SUMMED, MATCH_SUMMED, NOTIFICATION_SLICES, ROUTED, DetectStage, MatchStage

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.streaming.query import StreamingQuery


MATCH_SUMS, DETECT_SUMS = "read", "made"  # names of the sums that Spark observes after each stage

_PHASES = ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets")  # of Spark, in their order
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
    routed = routed.observe(MATCH_SUMS, *observed_sums(MATCH_SUMMED))
    detect_stage = DetectStage(buckets, tasks, first_states(checkpoint, metadata))
    slices = routed.groupBy("lake", "bucket").transformWithStateInPandas(
        detect_stage, from_arrow_schema(NOTIFICATION_SLICES), "Append", "None"
    )
    writer = (
        slices.observe(DETECT_SUMS, *observed_sums(DETECT_SUMMED))
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


# The figures of a batch


def observed_sums(names: Sequence[str]) -> list[Column]:
    """Sums of columns, which Spark observes while the rows pass."""
    from pyspark.sql.functions import coalesce, lit
    from pyspark.sql.functions import sum as sum_

    return [coalesce(sum_(name), lit(0)).alias(name) for name in names]


def ended_batches(
    query: StreamingQuery, after: int, starts: Mapping[str, int] | None = None
) -> Iterator[BatchProgress]:
    """The batches after a batch number that have ended; Spark holds the last hundred.

    ``starts`` has the first offset of the query by lake, if it is not 0.
    """
    for progress in query.recentProgress:
        fields = json.loads(progress.json)
        if fields["batchId"] > after and any(source["numInputRows"] for source in fields["sources"]):
            yield parse_progress(fields, starts)


def parse_progress(progress: Mapping[str, Any], starts: Mapping[str, int] | None = None) -> BatchProgress:
    """The figures of a batch, from the JSON of Spark's progress."""
    observed = progress.get("observedMetrics", {})
    matched, detected = (_observed_sums(observed.get(name, {})) for name in (MATCH_SUMS, DETECT_SUMS))
    durations = progress["durationMs"]
    return BatchProgress(
        number=progress["batchId"],
        at=progress["timestamp"],
        seconds=progress["batchDuration"] / 1e3,
        records=_records(progress["sources"], starts or {}),
        events=matched.get("read", 0),
        late=matched.get("late", 0),
        stamped=matched.get("stamped", 0),
        notifications=detected.get("count", 0),
        state_rows=detected.get("rows", 0),
        state_bytes=detected.get("bytes", 0),
        store_bytes=_store_bytes(progress["stateOperators"]),
        phases={name: durations[name] / 1e3 for name in _PHASES if name in durations},
        stages={"matching": matched.get("micros", 0) / 1e6, "detecting": detected.get("micros", 0) / 1e6},
    )


def _records(sources: Iterable[Mapping[str, Any]], starts: Mapping[str, int]) -> int:
    count = 0
    for progress in sources:
        first, stop = _offsets(progress["startOffset"]), _offsets(progress["endOffset"])
        count += sum(end - first.get(lake, starts.get(lake, 0)) for lake, end in stop.items())
    return count


def _observed_sums(metrics: Mapping[str, Any]) -> Mapping[str, int]:
    """Sums by name; Spark Connect reports values and their schema instead."""
    if "schema" not in metrics:
        return metrics
    return dict(zip((field["name"] for field in metrics["schema"]["fields"]), metrics["values"], strict=True))


def _offsets(value: Mapping[str, int] | str | None) -> Mapping[str, int]:
    """Offsets by lake; Spark Connect reports them as text."""
    offsets = json.loads(value) if isinstance(value, str) else value
    return offsets or {}


def _store_bytes(operators: Iterable[Mapping[str, Any]]) -> int:
    return sum(operator.get("customMetrics", {}).get("rocksdbSstFileSize", 0) for operator in operators)
