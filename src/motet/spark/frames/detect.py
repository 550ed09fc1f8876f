"""``motet.spark.detect``: which rows of a DataFrame, put together, make the pattern?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, StringType, TimestampType

from motet.model.errors import UsageError
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
from motet.spark.frames.rows import Conditions, EventColumns, check_columns, routed_rows, types_of
from motet.spark.frames.run import TaskSpec, detect_arriving, detect_sorted
from motet.spark.frames.values import datatype

WATERMARK = "spark.watermarkDelayMs"  # where Spark notes it, in the metadata of the column
RESULT = ("subscription", "start", "end", "events")


def detect(  # noqa: PLR0913  (each is a choice of its own)
    df: DataFrame,
    pattern: str,
    *,
    events: Mapping[str, str | Column] | None = None,
    by: str | Sequence[str] = (),
    start: str = "start",
    end: str | None = None,
    id: str | None = None,  # noqa: A002  (the word for it)
    lateness: str | None = None,
    buckets: int | None = None,
) -> DataFrame:
    """The matches of a pattern over the rows of a DataFrame, batch or streaming: one row each.

    Every row is an event: at the timestamp ``start``, or from ``start`` to ``end``. With ``events``, Spark decides by
    conditions which event of the pattern a row can be, and the events of a match agree in the columns ``by``::

        detect(df, "smoke BEFORE heat WITHIN 5 min", start="time", by="room",
               events={"smoke": "kind = 'smoke' AND level > 3", "heat": df.celsius > 50})

    Without ``events``, the pattern is a Motet subscription whose EVENTs test columns, and shared variables join::

        detect(df, "EVENT a { ?a :room ?r ; :celsius ?c FILTER(?c > 50) } WHEN a{3} WITHIN 1 min SELECT ?r")

    The result has ``start`` and ``end`` of the match, ``events`` (the values of column ``id`` of its rows; made up
    without one) and a column for each selected variable. A stream needs a ``lateness``, or a watermark on its time.
    ``buckets`` says over how many parts the work is spread; Spark's shuffle partitions are the default.
    """
    question, conditions = _asked(df, pattern, events, [by] if isinstance(by, str) else list(by))
    reading = EventColumns(start, end, id)
    check_columns(df, question, reading)
    _check_results(question)
    count = buckets or int(df.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    types = types_of(df)
    work = TaskSpec(question, tuple(datatype(types[name]) or "" for name in question.columns))
    late = _lateness(df, end or start, lateness) if df.isStreaming else None
    placed = routed_rows(df, question, reading, conditions, count, late)
    found = detect_arriving(placed, work, count) if df.isStreaming else detect_sorted(placed, work, count)
    return _result(found, question, types, id)


def _asked(
    df: DataFrame, pattern: str, events: Mapping[str, str | Column] | None, by: Sequence[str]
) -> tuple[FrameQuery, Conditions]:
    if events is None:
        if by:
            raise UsageError("`by` belongs to `events`", advice="join by a shared variable: ?a :room ?r … ?b :room ?r")
        return parse_subscriptions(pattern), {}
    question = parse_pattern(pattern, list(events), by, df.columns)
    return question, {name: _condition(df, name, condition) for name, condition in events.items()}


def _condition(df: DataFrame, event: str, condition: str | Column) -> Column:
    """A condition that Spark understands and that is true or false."""
    try:
        column = f.expr(condition) if isinstance(condition, str) else condition
        (found,) = df.select(column).schema.fields
    except PySparkException as error:
        raise UsageError(
            f"the condition of event {event!r} means nothing to Spark: {error}", advice="use SQL over the columns"
        ) from error
    if found.dataType.simpleString() != "boolean":
        kind = found.dataType.simpleString()
        raise UsageError(f"the condition of event {event!r} is {kind}, not boolean", advice="compare it with something")
    return column


def _check_results(question: FrameQuery) -> None:
    for one in question.output:
        if one.name in RESULT:
            advice = f"the result has a column of that name already; SELECT another variable than ?{one.name}"
            raise UsageError(f"?{one.name} cannot be a column of the result", advice=advice)


def _lateness(df: DataFrame, time: str, lateness: str | None) -> str | None:
    """How late rows may come, unless the DataFrame says it by a watermark on its time; Spark allows only one."""
    marked = [field.name for field in df.schema.fields if WATERMARK in field.metadata]
    if marked and (lateness is not None or marked != [time]):
        advice = f"leave `lateness` out and have the watermark on {time!r}, or leave the watermark out"
        raise UsageError(f"the DataFrame has a watermark on {', '.join(map(repr, marked))} already", advice=advice)
    if not marked and lateness is None:
        advice = f"give lateness='10 seconds', or call df.withWatermark({time!r}, '10 seconds') before"
        raise UsageError("nothing says how late rows of this stream may come", advice=advice)
    return lateness


def _result(found: DataFrame, question: FrameQuery, types: Mapping[str, DataType], id_: str | None) -> DataFrame:
    """Rows of MATCHED as users see them."""
    id_type = types[id_] if id_ else StringType()
    columns = [f.timestamp_micros(name).alias(name) for name in ("start", "end")]
    columns.append(f.col("events").cast(f"array<{id_type.simpleString()}>").alias("events"))
    for place, one in enumerate(question.output):
        type_ = _type(one, types, id_type)
        columns.append(f.col("values")[place].cast(type_).alias(one.name))
    return found.select(*([f.col("subscription")] if question.is_named else []), *columns)


def _type(shown: OutputVariable, types: Mapping[str, DataType], id_type: DataType) -> DataType:
    """That of the columns a variable is read from; text where they differ, or there is another source."""
    found = {_source_type(source, types, id_type) for source in shown.sources}
    return found.pop() if len(found) == 1 else StringType()


def _source_type(source: str, types: Mapping[str, DataType], id_type: DataType) -> DataType:
    if source.startswith(COLUMN):
        return types[column_name(source)]
    return {ROW: id_type, TIME: TimestampType()}.get(source, StringType())
