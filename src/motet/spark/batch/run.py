"""A whole run on Spark: event files in, sorted notifications out (language page, section 10).

Events are matched where they are decoded. The first of several events with one IRI wins: which one is first is known
after a shuffle by id, and the notifications of the others are dropped there. Accepted events that may combine with
others go through a second shuffle, by component and bucket, and are detected behind it. The data is not collected in
the driver: tasks write sorted parts of the output, and the driver strings their files together.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from motet.codec.grouping import NOT_CONSECUTIVE, SORT_ADVICE
from motet.jobs.replay import Setting
from motet.jobs.run import Job, Summary
from motet.model.errors import DecodeError, EngineError
from motet.spark.batch.events import FileSplits, add_outcome, split_files
from motet.spark.batch.job_plan import JobPlan, plan_job
from motet.spark.batch.routing import EventRouter
from motet.spark.batch.tasks import ORDER, BatchMatcher, detect_groups, match_events
from motet.spark.session import parallelism, session
from motet.spark.stream.errors import innermost_cause

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

PLACE_BITS = 32  # of an offset made of an event's part and its place there
COPIED_BYTES = 2**20
INCOMPLETE_OUTPUT = "The output is not whole: remove it, mend the cause and run again."

Reject = Callable[[Sequence[DecodeError]], None]


def run_spark(job: Job, sink: BinaryIO, reject: Reject) -> Summary:
    """`motet run --engine spark`, on all cores of this machine or in the session that is already running."""
    division = plan_job(job.subscriptions, job.background, job.entailment)
    spark = session()
    parts = split_files(job.events, parallelism(spark))
    matching = EventRouter(division)
    return run_batch(spark, matching, parts, sink, arrival=job.arrival, reject=reject, plan=division)


def run_batch(
    spark: SparkSession,
    matcher: BatchMatcher,
    splits: FileSplits,
    sink: BinaryIO,
    *,
    arrival: int,
    reject: Reject = lambda _: None,
    scratch: str | Path | None = None,
    plan: JobPlan | None = None,
) -> Summary:
    """Match the events of the parts, detect what the components of a division find, and write all, sorted, as lines.

    ``arrival`` is the time of events that carry none. ``reject`` is given the events that cannot be taken, in order.
    ``scratch`` is where tasks leave their parts of the output; on a cluster every machine must reach it.
    """
    from pyspark.sql import functions as f

    with plain_errors("the run"), cached(add_outcome(match_events(spark, splits, matcher, arrival))) as matched:
        summary = _summarise(matched)
        if summary.rejected:
            _report(matched, splits, reject)
        offset = f.shiftleft(f.col("part").cast("long"), PLACE_BITS) + f.col("place")
        accepted = matched.where("fate = 'accepted'").withColumn("offset", offset)
        accepted = accepted.withColumn("frontier", f.lit(None).cast("timestamp"))
        with compute_notifications(spark, accepted, plan, Setting()) as told:
            return replace(summary, notifications=write_lines(told, sink, scratch))


@contextmanager
def compute_notifications(
    spark: SparkSession, accepted: DataFrame, division: JobPlan | None, setting: Setting
) -> Iterator[DataFrame]:
    """What is told of accepted events, from files or from a lake, in rows of TOLD: each alone, and together."""
    from pyspark.sql import functions as f

    alone = accepted.select(f.inline("notifications"))
    if division is None or not division.groups:
        yield alone
        return
    with cached(detect_groups(spark, accepted, division, setting)) as together:
        yield alone.union(together)


@contextmanager
def plain_errors(what: str, advice: str = INCOMPLETE_OUTPUT) -> Iterator[None]:
    """Say in our own words that Spark has failed."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise EngineError(f"{what} on Spark failed: {innermost_cause(error)}", advice=advice) from error


@contextmanager
def cached(frame: DataFrame) -> Iterator[DataFrame]:
    """The frame, computed once although several questions are asked of it."""
    frame.persist()
    try:
        yield frame
    finally:
        frame.unpersist()


def _summarise(matched: DataFrame) -> Summary:
    from pyspark.sql import functions as f

    accepted = f.col("fate") == "accepted"
    row = matched.select(
        f.count_if(accepted),
        f.count_if(f.col("fate") == "duplicate"),
        f.count_if(f.col("fate").isin("rejected", "returned")),
        f.lit(0),
        f.size(f.collect_set("worker")),
    ).first()
    assert row is not None, "an aggregate has a row"
    return Summary(*row)


def _report(matched: DataFrame, parts: FileSplits, reject: Reject) -> None:
    rows = matched.where("fate IN ('rejected', 'returned')").orderBy("part", "place")
    for row in rows.select("part", "line", "id", "rejected").toLocalIterator():
        reject([_rejection(row, parts)])


def _rejection(row: Row, parts: FileSplits) -> DecodeError:
    if row.rejected is not None:
        fields = json.loads(row.rejected)
        return DecodeError(fields.pop("reason"), **fields)
    return DecodeError(
        NOT_CONSECUTIVE,
        source=parts.splits[row.part][1].path,
        line=row.line,
        event=row.id,
        advice=SORT_ADVICE,
    )


def write_lines(told: DataFrame, sink: BinaryIO, scratch: str | Path | None = None) -> int:
    """Write rows of TOLD as lines; how many. Tasks write sorted parts; their files, one after the other, are it all."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    directory = Path(tempfile.mkdtemp(prefix="motet-run-", dir=scratch))
    written, lines = Observation(), 0
    try:
        rows = told.orderBy(*ORDER).observe(written, f.count(f.lit(1)).alias("rows"))
        rows.select("text").write.text(f"file://{directory.absolute()}/parts")
        for path in sorted(directory.glob("parts/part-*")):
            with path.open("rb") as part:
                while chunk := part.read(COPIED_BYTES):
                    sink.write(chunk)
                    lines += chunk.count(b"\n")
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if lines != written.get["rows"]:
        raise EngineError(
            f"tasks wrote {written.get['rows']} notifications, {lines} are in {directory}",
            advice="Not every machine reaches that directory: give --output in one that all of them do.",
        )
    return lines
