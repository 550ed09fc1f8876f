"""``motet.spark.detect_end``: the matches of a stream that has ended, from the state in its checkpoint.

A stream decides an absence when its watermark has passed it, and the watermark stays behind the newest row. When no
further row comes, the last absences are in the state of the stream; here time ends for them. The state is only read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from motet.engine.runtime.processor import Processor
from motet.engine.state.snapshot import apply_deltas
from motet.model.batches import Records, tick_record
from motet.model.errors import UsageError
from motet.model.times import END_OF_TIME
from motet.spark.encoding import Batches
from motet.spark.frames.detect import instant_of, prepare
from motet.spark.frames.rows import BUCKET
from motet.spark.frames.run import MATCHES, TaskSpec, query_hash
from motet.spark.session import workers_with_motet


def detect_end(  # noqa: PLR0913  (independent options)
    df: DataFrame,
    pattern: str,
    *,
    checkpoint: str | Path,
    events: Mapping[str, str | Column] | None = None,
    by: str | Sequence[str] = (),
    start: str = "start",
    end: str | None = None,
    id: str | None = None,  # noqa: A002  (the usual name)
    xml: str = "value",
    since: datetime | str | None = None,
    buckets: int | None = None,
    until: datetime | str | None = None,
) -> DataFrame:
    """The matches that a stream has not delivered, if no further row comes: a batch DataFrame.

    The arguments are those of `detect`, without the lateness; ``checkpoint`` is that of the query, which has stopped::

        matches = detect(stream, pattern, events=events, by="room", lateness="1 min")
        matches.writeStream.option("checkpointLocation", "c").trigger(availableNow=True).start("out").awaitTermination()
        detect_end(stream, pattern, events=events, by="room", checkpoint="c").write.mode("append").save("out")

    With ``until``, only what is decided at that instant. The state is not changed: a query that goes on delivers these
    matches again, unless new rows contradict them.
    """
    if not df.isStreaming:
        raise UsageError("this DataFrame is not a stream", advice="use detect: in a batch all rows are there")
    prepared = prepare(
        df, pattern, events=events, by=by, start=start, end=end, id=id, xml=xml, since=since, buckets=buckets
    )
    state = _read_state(df.sparkSession, str(checkpoint)).coalesce(prepared.buckets)
    _check(state, prepared.spec, prepared.buckets, str(checkpoint))
    last = END_OF_TIME if until is None else instant_of(until, "until")
    with workers_with_motet(df.sparkSession):
        return prepared.result(state.mapInArrow(EndDetect(prepared.spec, last), from_arrow_schema(MATCHES)))


def _read_state(spark: SparkSession, checkpoint: str) -> DataFrame:
    """A row for each bucket: its number, mark, offset, base and deltas."""
    if not Path(checkpoint, "state").is_dir() and "://" not in checkpoint:
        raise UsageError(
            f"there is no state in the checkpoint {checkpoint!r}",
            advice="give the checkpointLocation of a query of detect that has processed rows, and has stopped",
        )

    def variable(name: str) -> DataFrame:
        reader = spark.read.format("statestore").option("path", checkpoint).option("stateVarName", name)
        return reader.option("flattenCollectionTypes", "false").load()

    try:
        place = variable("place").select(f.col(f"key.{BUCKET}"), "value.mark", "value.reached", "value.deltas")
        base = variable("base").select(f.col(f"key.{BUCKET}"), f.col("value.data").alias("base"))
        deltas = variable("deltas").select(f.col(f"key.{BUCKET}"), f.col("list_value.data").alias("parts"))
    except PySparkException as error:
        raise UsageError(
            f"the state of the checkpoint {checkpoint!r} cannot be read: {error}",
            advice="give the checkpointLocation of a query of detect that has stopped",
        ) from error
    return place.join(base, BUCKET).join(deltas, BUCKET, "left")


def _check(state: DataFrame, spec: TaskSpec, buckets: int, checkpoint: str) -> None:
    marks = {row.mark.partition(" ")[0] for row in state.select("mark").collect()}
    if marks - {query_hash(spec, buckets)}:
        raise UsageError(
            f"the checkpoint {checkpoint!r} belongs to another pattern, other columns or other buckets",
            advice="give detect_end the arguments that detect had",
        )


@dataclass(frozen=True)
class EndDetect:
    """States of buckets to rows of MATCHES: time ends, or reaches an instant."""

    spec: TaskSpec
    instant: int

    def __call__(self, batches: Batches) -> Batches:
        for batch in batches:
            for row in batch.to_pylist():
                parts = row["parts"] or []
                snapshot = apply_deltas(row["base"], parts[: row["deltas"]] if row["deltas"] else [])
                processor = Processor.restore(snapshot)
                tick = Records(columns=tick_record(self.instant, row["reached"]))
                yield self.spec.matches(processor.advance(tick, self.instant).columns)
