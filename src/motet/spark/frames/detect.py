"""``motet.spark.detect`` and ``detect_end``: the matches of a pattern over a DataFrame, batch or streaming.

A stream decides an absence when its watermark has passed it, and the watermark stays behind the newest row. When no
further row comes, the last absences are in the state of the stream: ``detect_end`` ends time for them. It only reads
the state.

A session of `motet.spark.session` has what patterns need: a state store with timers, and few partitions. In others,
settings of streaming queries are set where they have Spark's default, and reported.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import DataType, StringType, TimestampType
from pyspark.sql.utils import is_remote

from motet.engine.runtime.processor import Processor
from motet.engine.state.snapshot import apply_deltas
from motet.model.batches import Records, tick_record
from motet.model.errors import UsageError
from motet.model.settings import parse_setting_duration
from motet.model.times import END_OF_TIME, parse_datetime
from motet.spark.encoding import Batches
from motet.spark.frames.query import (
    COLUMN,
    ROW,
    TIME,
    FrameQuery,
    OutputVariable,
    column_name,
    parse_pattern,
    parse_subscriptions,
)
from motet.spark.frames.rows import (
    BUCKET,
    Conditions,
    EventColumns,
    FrameColumns,
    check_columns,
    datatype,
    routed_rows,
    with_least_time,
)
from motet.spark.frames.run import MATCHES, MILLISECOND, TaskSpec, detect_batch, detect_stream, query_hash
from motet.spark.session import ROCKSDB, parallelism, workers_with_motet

WATERMARK = "spark.watermarkDelayMs"  # Spark's key in the metadata of the column
RESULT_COLUMNS = ("subscription", "start", "end", "events")


def detect(  # noqa: PLR0913  (independent options)
    df: DataFrame,
    pattern: str,
    *,
    events: Mapping[str, str | Column] | None = None,
    by: str | Sequence[str] = (),
    start: str = "start",
    end: str | None = None,
    id: str | None = None,  # noqa: A002  (the usual name)
    xml: str = "value",
    lateness: str | timedelta | None = None,
    since: datetime | str | None = None,
    buckets: int | None = None,
) -> DataFrame:
    """The matches of a pattern over the rows of a DataFrame, batch or streaming: one row each.

    Every row is an event: at the timestamp ``start``, or from ``start`` to ``end``. With ``events``, Spark decides by
    conditions which event of the pattern a row can be, and the events of a match agree in the columns ``by``::

        detect(df, "smoke BEFORE heat WITHIN 5 min", start="time", by="room",
               events={"smoke": "kind = 'smoke' AND level > 3", "heat": df.celsius > 50})

    Without ``events``, the pattern is a Motet subscription whose EVENTs test columns, and shared variables join::

        detect(df, "EVENT a { ?a :room ?r ; :celsius ?c FILTER(?c > 50) } WHEN a{3} WITHIN 1 min SELECT ?r")

    An EVENT may have a block instead, ``EVENT p XML { <pay><n>$n</n></pay> }``: it is matched with the document in the
    column ``xml``, a string or bytes. A row whose document is refused matches no block; the log of the task names it.
    A pattern that joins blocks runs in one bucket, since a variable of a block is no column to route rows by.

    The result has ``start`` and ``end`` of the match, ``events`` (the values of column ``id`` of its rows, random
    without one) and a column for each selected variable. A stream needs a ``lateness``, such as ``"1 min"``, or a
    watermark on its time; `detect_end` has the matches of a stream that ends. NO begins at the instant ``since``, by
    default the least time of the rows; a stream needs one. ``buckets`` is the number of hash partitions, by default
    chosen by the size of the data.
    """
    prepared = prepare(
        df, pattern, events=events, by=by, start=start, end=end, id=id, xml=xml, since=since, buckets=buckets
    )
    columns, query, times = prepared.columns, prepared.spec.query, prepared.event_columns
    if lateness is not None and not df.isStreaming:
        raise UsageError("a batch has no lateness", advice="leave it out: all rows are there, and none is late")
    delay = _lateness(df, columns, end or start, lateness) if df.isStreaming else None
    count = prepared.buckets
    try:
        rows = routed_rows(df, columns, query, times, prepared.conditions, count, delay)
    except PySparkException as error:
        if delay is None:
            raise
        raise UsageError(
            f"Spark refuses lateness={lateness!r}: {error}", advice="write a duration such as '10 s' or '1 min'"
        ) from error
    if query.has_no and not df.isStreaming:
        rows = with_least_time(rows, df, columns, times)
    if df.isStreaming:
        prepare_stream(df.sparkSession, count)
    with workers_with_motet(df.sparkSession):
        run = detect_stream if df.isStreaming else detect_batch
        return prepared.result(run(rows, prepared.spec, count))


@dataclass(frozen=True)
class PreparedQuery:
    """A query over the columns of one DataFrame, checked."""

    columns: FrameColumns
    event_columns: EventColumns
    conditions: Conditions
    spec: TaskSpec
    buckets: int

    def result(self, matches: DataFrame) -> DataFrame:
        """Rows of MATCHES as users see them."""
        query, columns, id_ = self.spec.query, self.columns, self.event_columns.id
        id_type = columns.type(id_) if id_ else StringType()
        selected = [f.timestamp_micros(name).alias(name) for name in ("start", "end")]
        selected.append(f.col("events").cast(f"array<{id_type.simpleString()}>").alias("events"))
        for index, variable in enumerate(query.output):
            selected.append(f.col("values")[index].cast(_type(variable, columns, id_type)).alias(variable.name))
        return matches.select(*([f.col("subscription")] if query.is_named else []), *selected)


def prepare(  # noqa: PLR0913  (independent options)
    df: DataFrame,
    pattern: str,
    *,
    events: Mapping[str, str | Column] | None,
    by: str | Sequence[str],
    start: str,
    end: str | None,
    id: str | None,  # noqa: A002  (the usual name)
    xml: str,
    since: datetime | str | None,
    buckets: int | None,
) -> PreparedQuery:
    """The query of the arguments of `detect`; raises a UsageError for what is wrong."""
    if buckets is not None and (not isinstance(buckets, int) or buckets < 1):
        raise UsageError(f"buckets={buckets!r}", advice="give a whole number from 1 up, or none")
    columns = FrameColumns(df)
    query, conditions = _parse(df, columns, pattern, events, [by] if isinstance(by, str) else list(by))
    event_columns = EventColumns(start, end, id, xml if query.has_blocks else None)
    check_columns(columns, query, event_columns)
    check_output(query)
    beginning = _beginning(df, query, since)
    spec = TaskSpec(query, tuple(datatype(columns.type(name)) or "" for name in query.columns), beginning)
    count = buckets or (stream_buckets(df) if df.isStreaming else batch_buckets(df))
    return PreparedQuery(columns, event_columns, conditions, spec, count)


def _parse(
    df: DataFrame, columns: FrameColumns, pattern: str, events: Mapping[str, str | Column] | None, by: Sequence[str]
) -> tuple[FrameQuery, Conditions]:
    if events is None:
        if by:
            raise UsageError("`by` belongs to `events`", advice="join by a shared variable: ?a :room ?r … ?b :room ?r")
        return parse_subscriptions(pattern), {}
    query = parse_pattern(pattern, list(events), {columns.field(name).name: name for name in by}, columns)
    return query, {name: _condition(df, name, condition) for name, condition in events.items()}


def _condition(df: DataFrame, event: str, condition: str | Column) -> Column:
    """The column of a condition; it must be boolean."""
    try:
        column = f.expr(condition) if isinstance(condition, str) else condition
        (field,) = df.select(column).schema.fields
    except PySparkException as error:
        raise UsageError(
            f"Spark refuses the condition of event {event!r}: {error}", advice="use SQL over the columns"
        ) from error
    if (type_name := field.dataType.simpleString()) != "boolean":
        raise UsageError(f"the condition of event {event!r} is {type_name}, not boolean", advice="add a comparison")
    return column


def check_output(query: FrameQuery) -> None:
    for variable in query.output:
        if variable.name in RESULT_COLUMNS:
            advice = f"the result has a column of that name already; SELECT another variable than ?{variable.name}"
            raise UsageError(f"?{variable.name} cannot be a column of the result", advice=advice)


def _lateness(df: DataFrame, columns: FrameColumns, time: str, lateness: str | timedelta | None) -> str | None:
    """The lateness of a stream, in Spark's words; None if its time has a watermark already: Spark allows one."""
    watermarked = [field.name for field in df.schema.fields if WATERMARK in field.metadata]
    if watermarked and (lateness is not None or WATERMARK not in columns.field(time).metadata):
        advice = f"leave `lateness` out and have the watermark on {time!r}, or leave the watermark out"
        raise UsageError(f"the DataFrame has a watermark on {', '.join(map(repr, watermarked))} already", advice=advice)
    if not watermarked and lateness is None:
        advice = f"give lateness='10 s', or call df.withWatermark({time!r}, '10 seconds') before"
        raise UsageError("the stream has neither a lateness nor a watermark", advice=advice)
    return None if lateness is None else spark_duration(lateness)


def spark_duration(duration: str | timedelta) -> str:
    """A duration as Spark writes it; what is no duration of Motet is left to Spark, which has its own words."""
    if isinstance(duration, timedelta):
        micros = duration // timedelta(microseconds=1)
    else:
        try:
            micros = parse_setting_duration(duration, "") or 0
        except UsageError:
            return duration
    if micros < 0:
        raise UsageError(f"lateness={duration!r} is negative", advice="write a duration such as '10 s' or '1 min'")
    return f"{-(-micros // MILLISECOND)} milliseconds"


def _beginning(df: DataFrame, query: FrameQuery, since: datetime | str | None) -> int | None:
    """The instant at which NO begins; None: the least time of the rows."""
    if since is None and query.has_no and df.isStreaming:
        raise UsageError(
            "NO on a stream has no beginning", advice="give since='2026-11-15T10:00:00Z': absences begin there"
        )
    return None if since is None else instant_of(since, "since")


def instant_of(instant: datetime | str, argument: str) -> int:
    """The microseconds of an instant that an argument has."""
    if isinstance(instant, datetime):
        if instant.tzinfo is None:
            advice = f"give one: {argument}.replace(tzinfo=timezone.utc)"
            raise UsageError(f"{argument}={instant} has no time zone", advice=advice)
        return (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    try:
        return parse_datetime(instant)
    except (ValueError, TypeError) as error:
        raise UsageError(f"{argument}: {error}", advice=f"write {argument}='2026-11-15T10:00:00Z'") from None


def _type(variable: OutputVariable, columns: FrameColumns, id_type: DataType) -> DataType:
    """The type of the columns a variable is read from; string if they differ or it has another origin."""
    origin_types = {_origin_type(origin, columns, id_type) for origin in variable.origins}
    return origin_types.pop() if len(origin_types) == 1 else StringType()


def _origin_type(origin: str, columns: FrameColumns, id_type: DataType) -> DataType:
    if origin.startswith(COLUMN):
        return columns.type(column_name(origin))
    return {ROW: id_type, TIME: TimestampType()}.get(origin, StringType())


# The end of a stream, from the state in its checkpoint


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


# Settings of ordinary sessions


PROVIDER = "spark.sql.streaming.stateStore.providerClass"
STATE_PARTITIONS = "spark.sql.streaming.internal.stateStore.partitions"  # of stateful operators only
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
DEFAULT_PARTITIONS = 200  # Spark's default, chosen for clusters
STREAM_BUCKETS = 8  # of a stream in a session with Spark's default; a checkpoint fixes it, so it depends on nothing
BUCKET_BYTES = 4 << 20  # of a batch DataFrame, by Spark's estimate

_HDFS_PROVIDER = "HDFSBackedStateStoreProvider"  # Spark's default, which has neither timers nor several states

log = logging.getLogger("motet")


def batch_buckets(df: DataFrame) -> int:
    """The buckets for a batch DataFrame: by its size, at most two per task slot and the shuffle partitions."""
    spark = df.sparkSession
    most = min(_shuffle_partitions(spark), 2 * parallelism(spark))
    size = _estimated_bytes(df)
    return most if size is None else max(1, min(most, ceil(size / BUCKET_BYTES)))


def stream_buckets(df: DataFrame) -> int:
    """The number of buckets for a stream: the shuffle partitions that the session sets, otherwise a few."""
    count = _shuffle_partitions(df.sparkSession)
    return STREAM_BUCKETS if count == DEFAULT_PARTITIONS else count


def prepare_stream(spark: SparkSession, buckets: int) -> None:
    """Set the state store and the partitions of streaming queries, which are read when a query starts."""
    provider = spark.conf.get(PROVIDER) or _HDFS_PROVIDER
    if provider.endswith(_HDFS_PROVIDER):
        _set(spark, PROVIDER, ROCKSDB)
    if spark.conf.get(STATE_PARTITIONS, str(_shuffle_partitions(spark))) != str(buckets):
        _set(spark, STATE_PARTITIONS, str(buckets))


def _set(spark: SparkSession, name: str, value: str) -> None:
    line = f'spark.conf.set("{name}", "{value}")'
    try:
        spark.conf.set(name, value)
    except Exception as error:  # of the JVM, a Connect server or a platform that protects settings
        raise UsageError(
            f"this session does not let {name} be set: {error}",
            advice=f"set it where the session is made, as {line} or builder.config, then call detect again",
        ) from error
    log.warning("detect on a stream: %s, for the stateful streaming queries that this session starts from now on", line)


def _shuffle_partitions(spark: SparkSession) -> int:
    return int(spark.conf.get(SHUFFLE_PARTITIONS) or DEFAULT_PARTITIONS)


def _estimated_bytes(df: DataFrame) -> int | None:
    """Spark's estimate of the size of a DataFrame; None if there is none."""
    if is_remote():
        return None
    size = int(str(df._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
    return size if size < 1 << 60 else None  # an unknown size is huge
