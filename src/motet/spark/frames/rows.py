"""A DataFrame as rows that can be spread: which roles each row has, where it goes, when it was, and what it says.

All of this is Spark's own work, before any shuffle; a row that is in no role goes nowhere. A row whose roles have
different keys goes to several buckets, and has in each the roles that belong there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, TimestampType

from motet.model.errors import UsageError
from motet.spark.frames.query import FrameQuery, Role
from motet.spark.frames.values import datatype, row_iri, text

BUCKET, ID, START, END, TIME = "bucket", "id", "start", "end", "time"

_TIME = "__motet_time"  # the end of a row, among the columns of the user

Conditions = Mapping[str, Column]  # by event


@dataclass(frozen=True)
class EventColumns:
    """Which columns say when a row was, and which row it is."""

    start: str
    end: str | None = None  # None: rows are points in time
    id: str | None = None  # None: rows get ids


def role_name(number: int) -> str:
    return f"role{number}"


def text_name(number: int) -> str:
    return f"text{number}"


def column(name: str) -> Column:
    """By its very name, dots and all."""
    return f.col("`" + name.replace("`", "``") + "`")


def types_of(df: DataFrame) -> dict[str, DataType]:
    return {field.name: field.dataType for field in df.schema.fields}


def check_columns(df: DataFrame, question: FrameQuery, reading: EventColumns) -> None:
    """Refuse columns that are not there or cannot be used."""
    types = types_of(df)
    wanted = [reading.start, *([reading.end] if reading.end else []), *([reading.id] if reading.id else [])]
    for name in (*wanted, *question.columns):
        if name not in types:
            raise UsageError(f"the DataFrame has no column {name!r}", advice=f"it has {', '.join(types)}")
    for name in filter(None, (reading.start, reading.end)):
        if not isinstance(types[name], TimestampType):
            advice = f"cast it: df.withColumn({name!r}, df[{name!r}].cast('timestamp'))"
            raise UsageError(f"the column {name!r} is {types[name].simpleString()}, not a timestamp", advice=advice)
    for name in (*question.columns, *([reading.id] if reading.id else [])):
        if datatype(types[name]) is None:
            advice = "use a column of strings, numbers, booleans, dates or timestamps"
            raise UsageError(f"the column {name!r} is {types[name].simpleString()}, not a plain value", advice=advice)


def routed_rows(
    df: DataFrame,
    question: FrameQuery,
    reading: EventColumns,
    conditions: Conditions,
    buckets: int,
    lateness: str | None = None,
) -> DataFrame:
    """Columns ``bucket``, ``id``, ``start`` and ``end`` in microseconds, ``time``, and one for each role and column.

    With a ``lateness`` time gets a watermark, which moves with all rows of the DataFrame.
    """
    types = types_of(df)
    texts = {name: text(column(name), types[name]) for name in question.columns}
    roles = [_has_role(role, conditions.get(role.event), texts) for role in question.roles]
    timed = _timed(df, reading, lateness)
    picked = (timed if df.isStreaming else timed.where(reduce(or_, roles))).select(
        _id(reading, list(texts.values())).alias(ID),
        f.unix_micros(column(reading.start)).alias(START),
        f.unix_micros(_end(reading)).alias(END),
        f.col(_TIME).alias(TIME),
        *(one.alias(role_name(number)) for number, one in enumerate(roles)),
        *(one.alias(text_name(number)) for number, one in enumerate(texts.values())),
    )
    is_event = f.col(ID).isNotNull() & (f.col(START) <= f.col(END))
    return _spread(picked.where(is_event), question, buckets)


def _timed(df: DataFrame, reading: EventColumns, lateness: str | None) -> DataFrame:
    """With the time that moves the watermark; one that is there already stays."""
    if lateness is None:
        return df.withColumn(_TIME, column(reading.end or reading.start))
    return df.withColumn(_TIME, _end(reading)).withWatermark(_TIME, lateness)


def _end(reading: EventColumns) -> Column:
    """Rows without an end are points."""
    return f.coalesce(column(reading.end), column(reading.start)) if reading.end else column(reading.start)


def _id(reading: EventColumns, texts: list[Column]) -> Column:
    """Rows without an id of their own are told apart by chance, but ordered by what they say as far as that goes.

    An id is never a plain function of the row: Spark would drop rows without a role before they move the watermark.
    """
    if reading.id:
        return f.when(f.spark_partition_id() >= 0, row_iri(column(reading.id)))
    said = f.hex(f.xxhash64(column(reading.start), _end(reading), *texts))
    return row_iri(f.concat_ws("-", said, f.expr("right(uuid(), 12)")))


def _has_role(role: Role, condition: Column | None, texts: Mapping[str, Column]) -> Column:
    """Rows in a role meet its condition, and have a key."""
    has = f.lit(True) if condition is None else f.coalesce(condition, f.lit(False))
    return reduce(lambda found, name: found & texts[name].isNotNull(), role.key or (), has)


def _spread(picked: DataFrame, question: FrameQuery, buckets: int) -> DataFrame:
    in_role = [f.col(role_name(number)) for number in range(len(question.roles))]
    keys = [role.key for role in question.roles]
    of_role = [_bucket(question, key, buckets) for key in keys]
    if len(set(keys)) == 1:
        return picked.where(reduce(or_, in_role)).withColumn(BUCKET, of_role[0])
    homes = f.array_distinct(f.array_compact(f.array(*map(f.when, in_role, of_role))))
    sent = picked.withColumn(BUCKET, f.explode(homes))
    here = [has & (f.col(BUCKET) == bucket) for has, bucket in zip(in_role, of_role, strict=True)]
    return sent.withColumns({role_name(number): one for number, one in enumerate(here)})


def _bucket(question: FrameQuery, key: tuple[str, ...] | None, buckets: int) -> Column:
    if key == ():
        return f.lit(0)
    values = [f.col(text_name(question.columns.index(name))) for name in key or ()] or [f.col(START), f.col(END)]
    return f.pmod(f.xxhash64(*values), f.lit(buckets)).cast("int")
