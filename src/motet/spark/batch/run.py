"""`motet run` and `motet replay` on Spark: event files or the log of a lake in, sorted notifications out.

Events are routed where they are decoded. Of several events with one IRI the first is accepted: a shuffle by id finds
it, and the notifications of the others are dropped; those with other content are rejected. Accepted events that are
routed cross a second shuffle, by bucket, and are detected after it. The driver collects no data: tasks write
sorted files, which the driver concatenates (language page, section 10).

In a replay tasks read the log through the lake's data source, drop the records that are not visible, and match the
others with the background that is current at their offset. Background changes reach every processor at their offset.
Subscriptions with different SINCE are replayed one after the other.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa

from motet.codec.events import OnRejected
from motet.codec.grouping import NOT_CONSECUTIVE, SORT_ADVICE
from motet.codec.rejections import conflict_problem, rejection
from motet.engine.runtime.partitions import PartitionedRun
from motet.jobs.replay import Replay, ReplayControls, ReplayGroup, ReplayView
from motet.jobs.run import BatchJob, RunSummary
from motet.lake import Snapshot
from motet.model.batches import RECORDS
from motet.model.errors import DecodeError, EngineError
from motet.spark.batch.events import FileSplits, add_outcome, split_files
from motet.spark.batch.tasks import (
    BUCKETS_PER_CORE,
    MATCH_COLUMNS,
    ORDER,
    BatchMatcher,
    detect_buckets,
    match_columns,
    match_events,
)
from motet.spark.encoding import Batches
from motet.spark.session import parallelism, session
from motet.spark.stream.errors import innermost_cause

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


POSITION_BITS = 32  # of an offset made of an event's split and its position there
COPY_BYTES = 2**20
REJECTED = ("rejected", "returned", "conflict")  # outcomes of rows
INCOMPLETE_OUTPUT = "The output is incomplete: remove it, fix the cause and run again."


def run_spark(job: BatchJob, sink: BinaryIO, on_rejected: OnRejected) -> RunSummary:
    """`motet run --engine spark`, on all cores of this machine or in the active session."""
    spark = session()
    buckets = BUCKETS_PER_CORE * parallelism(spark)
    run = PartitionedRun.plan(job.subscriptions, job.background, job.entailment, buckets)
    splits = replace(split_files(job.events, parallelism(spark)), base=job.base, rest=job.rest, mapping=job.mapping)
    return run_batch(spark, run, splits, sink, arrival=job.arrival, on_rejected=on_rejected, run=run)


def run_batch(
    spark: SparkSession,
    matcher: BatchMatcher,
    splits: FileSplits,
    sink: BinaryIO,
    *,
    arrival: int,
    on_rejected: OnRejected = lambda _: None,
    scratch: str | Path | None = None,
    run: PartitionedRun | None = None,
) -> RunSummary:
    """Match the events of the splits, detect in the buckets of the run, and write all notifications as sorted lines.

    ``arrival`` is the time of events without one. ``on_rejected`` is called with the rejected events, in order. Tasks
    write their output below ``scratch``, which on a cluster every machine must reach.
    """
    from pyspark.sql import functions as f

    with engine_errors("the run"), cached(add_outcome(match_events(spark, splits, matcher, arrival))) as matched:
        summary = _summarise(matched)
        if summary.rejected:
            _report_rejected(matched, splits, on_rejected)
        offset = f.shiftleft(f.col("split").cast("long"), POSITION_BITS) + f.col("position")
        accepted = matched.where("outcome = 'accepted'").withColumn("offset", offset)
        accepted = accepted.withColumn("frontier", f.lit(None).cast("timestamp"))
        with compute_notifications(spark, accepted, run, ReplayControls()) as notifications:
            return replace(summary, notifications=write_lines(notifications, sink, scratch))


@contextmanager
def compute_notifications(
    spark: SparkSession, accepted: DataFrame, run: PartitionedRun | None, controls: ReplayControls
) -> Iterator[DataFrame]:
    """The notifications of accepted events, from files or from a lake, in rows of NOTIFICATION_LINES."""
    from pyspark.sql import functions as f

    single_event = accepted.select(f.inline("notifications"))
    if run is None or not run.composite:
        yield single_event
        return
    with cached(detect_buckets(spark, accepted, run, controls)) as composite:
        yield single_event.union(composite)


@contextmanager
def engine_errors(job: str, advice: str = INCOMPLETE_OUTPUT) -> Iterator[None]:
    """Raise an error of Spark as an EngineError with its innermost cause."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise EngineError(f"{job} on Spark failed: {innermost_cause(error)}", advice=advice) from error


@contextmanager
def cached(frame: DataFrame) -> Iterator[DataFrame]:
    """Persist a frame that several queries use, so that it is computed once."""
    frame.persist()
    try:
        yield frame
    finally:
        frame.unpersist()


def _summarise(matched: DataFrame) -> RunSummary:
    from pyspark.sql import functions as f

    outcome = f.col("outcome")
    row = matched.select(
        f.count_if(outcome == "accepted"),
        f.count_if(outcome == "repeated") + f.coalesce(f.sum("repeated"), f.lit(0)),
        f.count_if(outcome.isin(*REJECTED)),
        f.lit(0),
        f.size(f.collect_set("worker")),
        *(f.coalesce(f.sum(name), f.lit(0)) for name in ("dropped", "derived")),
    ).first()
    assert row is not None, "an aggregate has a row"
    return RunSummary(*row)


def _report_rejected(matched: DataFrame, splits: FileSplits, on_rejected: OnRejected) -> None:
    from pyspark.sql import functions as f

    rows = matched.where(f.col("outcome").isin(*REJECTED)).orderBy("split", "position")
    for row in rows.select("split", "line", "id", "rejected", "outcome").toLocalIterator():
        on_rejected([_rejection(row, splits)])


def _rejection(row: Row, splits: FileSplits) -> DecodeError:
    if row.rejected is not None:
        fields = json.loads(row.rejected)
        return DecodeError(fields.pop("reason"), **fields)
    source = splits.splits[row.split][1].path
    if row.outcome == "conflict":
        return rejection(source, row.id, [conflict_problem(row.line)])
    return DecodeError(NOT_CONSECUTIVE, source=source, line=row.line, event=row.id, advice=SORT_ADVICE)


def write_lines(notifications: DataFrame, sink: BinaryIO, scratch: str | Path | None = None) -> int:
    """Write rows of NOTIFICATION_LINES as sorted lines and return their count.

    Tasks write sorted files; the output is their concatenation.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    directory = Path(tempfile.mkdtemp(prefix="motet-run-", dir=scratch))
    written, lines = Observation(), 0
    try:
        rows = notifications.orderBy(*ORDER).observe(written, f.count(f.lit(1)).alias("rows"))
        rows.select("text").write.text(f"file://{directory.absolute()}/parts")
        for path in sorted(directory.glob("parts/part-*")):
            with path.open("rb") as file:
                while chunk := file.read(COPY_BYTES):
                    sink.write(chunk)
                    lines += chunk.count(b"\n")
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if lines != written.get["rows"]:
        raise EngineError(
            f"tasks wrote {written.get['rows']} notifications, {lines} are in {directory}",
            advice="Not every machine reaches that directory: give --output in one that all of them reach.",
        )
    return lines


# `motet replay`: the log of a lake in, sorted notifications out


TASKS_PER_CORE = 8  # at most: a lake that was never compacted has a segment for every commit

ACCEPTED = pa.schema([*(RECORDS.field(name) for name in ("id", "offset", "frontier")), *MATCH_COLUMNS])


def replay_spark(replay: Replay, sink: BinaryIO, *, scratch: str | Path | None = None) -> int:
    """Write the notifications as sorted lines and return their count. ``scratch`` is as for `run_batch`."""
    spark = session()
    with engine_errors("the replay"), ExitStack() as stack:
        notifications = [_replay_group(spark, replay.snapshot, group, stack) for group in replay.groups]
        return write_lines(reduce(lambda left, right: left.union(right), notifications), sink, scratch)


def _replay_group(spark: SparkSession, snapshot: Snapshot, group: ReplayGroup, stack: ExitStack) -> DataFrame:
    """The notifications of subscriptions with one SINCE, in rows of NOTIFICATION_LINES."""
    from pyspark.cloudpickle import dumps
    from pyspark.sql.pandas.types import from_arrow_schema

    from motet.spark.tables import read_lake

    view = group.view
    buckets = BUCKETS_PER_CORE * parallelism(spark)
    run = PartitionedRun.plan(group.subscriptions, view.background, view.entailment, buckets)
    match = MatchVisible(dumps((run, view)))  # type: ignore[no-untyped-call]  # vendored, without types
    tasks = TASKS_PER_CORE * parallelism(spark)
    records = read_lake(spark, snapshot.store.root, 0, snapshot.next_offset).coalesce(tasks)
    accepted = stack.enter_context(cached(records.mapInArrow(match, from_arrow_schema(ACCEPTED))))
    return stack.enter_context(compute_notifications(spark, accepted, run, view.controls))


@dataclass(frozen=True)
class MatchVisible:
    """Rows of RECORDS to rows of ACCEPTED, for the events that are visible to a replay."""

    pickled: bytes  # the run with the first background, and the replay view

    def __call__(self, batches: Batches) -> Batches:
        _, view = _load(self.pickled)
        for records in batches:
            for background, events in view.split_by_background(view.visible(records)):
                matched = match_columns(events, _run(self.pickled, background))
                columns = [*map(events.column, ("id", "offset", "frontier")), *matched]
                yield pa.RecordBatch.from_arrays(columns, schema=ACCEPTED)


@lru_cache(maxsize=8)
def _run(pickled: bytes, background: int) -> PartitionedRun:
    """The run with the background of an index; cached, because a worker process runs many tasks."""
    run, view = _load(pickled)
    graph, entailment = view.backgrounds[background]
    return replace(run, background=graph, entailment=entailment) if background else run


@lru_cache(maxsize=2)
def _load(pickled: bytes) -> tuple[PartitionedRun, ReplayView]:
    from pyspark.cloudpickle import loads

    run, view = loads(pickled)
    return run, view
