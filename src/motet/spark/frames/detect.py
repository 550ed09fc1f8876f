"""``motet.spark.detect``: finds the matches of a pattern over the rows of a DataFrame, batch or streaming."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, StringType, TimestampType

from motet.model.errors import UsageError
from motet.model.settings import parse_setting_duration
from motet.model.times import parse_datetime
from motet.spark.frames.ordinary_session import batch_buckets, prepare_stream, stream_buckets
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
from motet.spark.frames.rows import Conditions, EventColumns, FrameColumns, check_columns, routed_rows, with_least_time
from motet.spark.frames.run import MILLISECOND, TaskSpec, detect_batch, detect_stream
from motet.spark.frames.values import datatype
from motet.spark.session import workers_with_motet

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
