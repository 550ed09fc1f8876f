"""``motet.spark.detect``: finds the matches of a pattern over the rows of a DataFrame, batch or streaming."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, StringType, TimestampType

from motet.model.errors import UsageError
from motet.model.times import parse_datetime
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
from motet.spark.frames.rows import Conditions, EventColumns, check_columns, routed_rows, types_of, with_least_time
from motet.spark.frames.run import TaskSpec, detect_batch, detect_stream
from motet.spark.frames.values import datatype

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
    lateness: str | None = None,
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

    The result has ``start`` and ``end`` of the match, ``events`` (the values of column ``id`` of its rows, random
    without one) and a column for each selected variable. A stream needs a ``lateness``, or a watermark on its time.
    NO begins at the instant ``since``, by default the least time of the rows; a stream needs one. ``buckets`` is the
    number of hash partitions; the default is Spark's shuffle partitions.
    """
    query, conditions = _parse(df, pattern, events, [by] if isinstance(by, str) else list(by))
    event_columns = EventColumns(start, end, id)
    check_columns(df, query, event_columns)
    _check_output(query)
    count = buckets or int(df.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    types = types_of(df)
    beginning = _beginning(df, query, since)
    spec = TaskSpec(query, tuple(datatype(types[name]) or "" for name in query.columns), beginning)
    watermark_delay = _lateness(df, end or start, lateness) if df.isStreaming else None
    rows = routed_rows(df, query, event_columns, conditions, count, watermark_delay)
    if query.has_no and not df.isStreaming:
        rows = with_least_time(rows, df, event_columns)
    matches = detect_stream(rows, spec, count) if df.isStreaming else detect_batch(rows, spec, count)
    return _result(matches, query, types, id)


def _parse(
    df: DataFrame, pattern: str, events: Mapping[str, str | Column] | None, by: Sequence[str]
) -> tuple[FrameQuery, Conditions]:
    if events is None:
        if by:
            raise UsageError("`by` belongs to `events`", advice="join by a shared variable: ?a :room ?r … ?b :room ?r")
        return parse_subscriptions(pattern), {}
    query = parse_pattern(pattern, list(events), by, df.columns)
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


def _check_output(query: FrameQuery) -> None:
    for variable in query.output:
        if variable.name in RESULT_COLUMNS:
            advice = f"the result has a column of that name already; SELECT another variable than ?{variable.name}"
            raise UsageError(f"?{variable.name} cannot be a column of the result", advice=advice)


def _lateness(df: DataFrame, time: str, lateness: str | None) -> str | None:
    """The lateness of a stream; None if its time has a watermark already, of which Spark allows only one."""
    watermarked = [field.name for field in df.schema.fields if WATERMARK in field.metadata]
    if watermarked and (lateness is not None or watermarked != [time]):
        advice = f"leave `lateness` out and have the watermark on {time!r}, or leave the watermark out"
        raise UsageError(f"the DataFrame has a watermark on {', '.join(map(repr, watermarked))} already", advice=advice)
    if not watermarked and lateness is None:
        advice = f"give lateness='10 seconds', or call df.withWatermark({time!r}, '10 seconds') before"
        raise UsageError("the stream has neither a lateness nor a watermark", advice=advice)
    return lateness


def _beginning(df: DataFrame, query: FrameQuery, since: datetime | str | None) -> int | None:
    """The instant at which NO begins; None: the least time of the rows."""
    if since is None and query.has_no and df.isStreaming:
        raise UsageError(
            "NO on a stream has no beginning", advice="give since='2026-11-15T10:00:00Z': absences are told from it on"
        )
    if isinstance(since, datetime):
        if since.tzinfo is None:
            raise UsageError(f"since={since} has no time zone", advice="give one: since.replace(tzinfo=timezone.utc)")
        return (since - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    return None if since is None else parse_datetime(since)


def _result(matches: DataFrame, query: FrameQuery, types: Mapping[str, DataType], id_: str | None) -> DataFrame:
    """Rows of MATCHES as users see them."""
    id_type = types[id_] if id_ else StringType()
    columns = [f.timestamp_micros(name).alias(name) for name in ("start", "end")]
    columns.append(f.col("events").cast(f"array<{id_type.simpleString()}>").alias("events"))
    for index, variable in enumerate(query.output):
        type_ = _type(variable, types, id_type)
        columns.append(f.col("values")[index].cast(type_).alias(variable.name))
    return matches.select(*([f.col("subscription")] if query.is_named else []), *columns)


def _type(variable: OutputVariable, types: Mapping[str, DataType], id_type: DataType) -> DataType:
    """The type of the columns a variable is read from; string if they differ or it has another origin."""
    origin_types = {_origin_type(origin, types, id_type) for origin in variable.origins}
    return origin_types.pop() if len(origin_types) == 1 else StringType()


def _origin_type(origin: str, types: Mapping[str, DataType], id_type: DataType) -> DataType:
    if origin.startswith(COLUMN):
        return types[column_name(origin)]
    return {ROW: id_type, TIME: TimestampType()}.get(origin, StringType())
