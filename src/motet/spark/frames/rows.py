"""The rows of a DataFrame with their roles, buckets, times and values, computed by Spark before the shuffle.

Rows without a role are dropped. A row whose roles have different keys goes to several buckets, and has in each the
roles that are routed there. A value crosses the shuffle as text; equal values have equal texts, so that rows can be
routed by them. Nulls stay nulls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from urllib.parse import unquote_plus

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    StringType,
    StructField,
    TimestampNTZType,
    TimestampType,
)

from motet.model.errors import UsageError
from motet.model.terms import XSD, iri_value, is_iri, literal, literal_parts
from motet.spark.frames.query import ROW, FrameQuery, Role

BUCKET, ID, START, END, TIME, DOCUMENT = "bucket", "id", "start", "end", "time", "document"

_TIME = "__motet_time"  # the end of a row, beside the columns of the user

Conditions = Mapping[str, Column]  # by event


class FrameColumns:
    """The columns of a DataFrame by the names that users write; every name is resolved once.

    A name is that of a column, also with dots in it; otherwise it is what Spark makes of it: in any case unless the
    session is case-sensitive, in backticks, or a path into nested columns.
    """

    def __init__(self, df: DataFrame) -> None:
        self._df = df
        self._resolved: dict[str, tuple[Column, StructField]] = {}

    def __contains__(self, name: object) -> bool:
        try:
            self.field(str(name))
        except UsageError:
            return False
        return True

    def column(self, name: str) -> Column:
        return self._resolve(name)[0]

    def field(self, name: str) -> StructField:
        """Name, type and metadata of a column in a result."""
        return self._resolve(name)[1]

    def type(self, name: str) -> DataType:
        return self.field(name).dataType

    def _resolve(self, name: str) -> tuple[Column, StructField]:
        if name not in self._resolved:
            is_name = name in self._df.columns
            column = f.col("`" + name.replace("`", "``") + "`" if is_name else name)
            try:
                fields = self._df.select(column).schema.fields
            except PySparkException as error:
                raise self._missing(name, error) from None
            if len(fields) != 1:
                raise UsageError(f"{name!r} is not one column", advice="name a single column")
            self._resolved[name] = column, fields[0]
        return self._resolved[name]

    def _missing(self, name: str, error: PySparkException) -> UsageError:
        columns = ", ".join(self._df.columns)
        if error.getCondition() == "AMBIGUOUS_REFERENCE":
            return UsageError(f"the DataFrame has several columns {name!r}", advice=f"rename one of {columns}")
        return UsageError(f"the DataFrame has no column {name!r}", advice=f"it has {columns}")


@dataclass(frozen=True)
class EventColumns:
    """The columns with the times, the id and the XML document of a row."""

    start: str
    end: str | None = None  # None: rows are points in time
    id: str | None = None  # None: rows get random ids
    xml: str | None = None  # None: no EVENT has a block


def role_name(index: int) -> str:
    return f"role{index}"


def text_name(index: int) -> str:
    return f"text{index}"


def check_columns(columns: FrameColumns, query: FrameQuery, event_columns: EventColumns) -> None:
    """Refuse columns that are missing or have an unsuitable type."""
    named = (event_columns.start, event_columns.end, event_columns.id, event_columns.xml)
    for name in (*filter(None, named), *query.columns):
        columns.field(name)
    for name in filter(None, (event_columns.start, event_columns.end)):
        if not isinstance(columns.type(name), TimestampType):
            advice = f"cast it: df.withColumn({name!r}, df[{name!r}].cast('timestamp'))"
            type_name = columns.type(name).simpleString()
            raise UsageError(f"the column {name!r} is {type_name}, not a timestamp", advice=advice)
    if event_columns.xml is not None and not isinstance(columns.type(event_columns.xml), StringType | BinaryType):
        type_name = columns.type(event_columns.xml).simpleString()
        raise UsageError(
            f"the column {event_columns.xml!r} is {type_name}, and blocks of XML read strings or bytes",
            advice="name the column with the documents: xml='value'",
        )
    for name in (*query.columns, *filter(None, (event_columns.id,))):
        if datatype(columns.type(name)) is None:
            advice = "use a column of strings, numbers, booleans, dates or timestamps"
            type_name = columns.type(name).simpleString()
            raise UsageError(f"the column {name!r} is {type_name}, not a simple value", advice=advice)


def routed_rows(
    df: DataFrame,
    columns: FrameColumns,
    query: FrameQuery,
    event_columns: EventColumns,
    conditions: Conditions,
    buckets: int,
    lateness: str | None = None,
) -> DataFrame:
    """Columns ``bucket``, ``id``, ``start`` and ``end`` in microseconds, ``time``, and one for each role and column.

    With a ``lateness`` the time gets a watermark, which all rows of the DataFrame advance.
    """
    texts = {name: text(columns.column(name), columns.type(name)) for name in query.columns}
    document = None if event_columns.xml is None else columns.column(event_columns.xml)
    roles = [_has_role(role, conditions.get(role.event), texts, document) for role in query.roles]
    start, end = columns.column(event_columns.start), _end(columns, event_columns)
    timed = _with_time(df, columns, event_columns, lateness)
    selected = (timed if df.isStreaming else timed.where(reduce(or_, roles))).select(
        _id(columns, event_columns, [*texts.values(), *([] if document is None else [document])]).alias(ID),
        f.unix_micros(start).alias(START),
        f.unix_micros(end).alias(END),
        f.col(_TIME).alias(TIME),
        *(role.alias(role_name(index)) for index, role in enumerate(roles)),
        *(value.alias(text_name(index)) for index, value in enumerate(texts.values())),
        *([] if document is None else [document.alias(DOCUMENT)]),
    )
    is_event = f.col(ID).isNotNull() & (f.col(START) <= f.col(END))
    return _with_buckets(selected.where(is_event), query, buckets)


def with_least_time(rows: DataFrame, df: DataFrame, columns: FrameColumns, event_columns: EventColumns) -> DataFrame:
    """The rows of `routed_rows`, and one in the first bucket without id and end, whose start is the least end of all
    rows of a batch DataFrame.
    """
    start, end = f.unix_micros(columns.column(event_columns.start)), f.unix_micros(_end(columns, event_columns))
    least = df.where(start <= end).agg(f.min(end).alias(START)).withColumn(BUCKET, f.lit(0))
    return rows.unionByName(least, allowMissingColumns=True)


def _with_time(df: DataFrame, columns: FrameColumns, event_columns: EventColumns, lateness: str | None) -> DataFrame:
    """Add the time column with a watermark; without a lateness the column has one already."""
    if lateness is None:
        return df.withColumn(_TIME, columns.column(event_columns.end or event_columns.start))
    return df.withColumn(_TIME, _end(columns, event_columns)).withWatermark(_TIME, lateness)


def _end(columns: FrameColumns, event_columns: EventColumns) -> Column:
    """The end of a row; rows without an end are points in time."""
    start = columns.column(event_columns.start)
    return f.coalesce(columns.column(event_columns.end), start) if event_columns.end else start


def _id(columns: FrameColumns, event_columns: EventColumns, texts: list[Column]) -> Column:
    """The id of a row. Without an id column it is a hash of the row's values, which gives a stable order, and a random
    part.

    The expression is never deterministic: Spark would drop rows without a role before they advance the watermark.
    """
    if event_columns.id:
        return f.when(f.spark_partition_id() >= 0, row_iri(columns.column(event_columns.id)))
    row_hash = f.hex(f.xxhash64(columns.column(event_columns.start), _end(columns, event_columns), *texts))
    return row_iri(f.concat_ws("-", row_hash, f.expr("right(uuid(), 12)")))


def _has_role(role: Role, condition: Column | None, texts: Mapping[str, Column], document: Column | None) -> Column:
    """Whether a row has a role: it meets the condition, and neither its key nor the document of a block is null."""
    has_role = f.lit(True) if condition is None else f.coalesce(condition, f.lit(False))
    if role.has_block and document is not None:
        has_role = has_role & document.isNotNull()
    return reduce(lambda condition_, name: condition_ & texts[name].isNotNull(), role.key or (), has_role)


def _with_buckets(rows: DataFrame, query: FrameQuery, buckets: int) -> DataFrame:
    """One row for each bucket that a row goes to, with the roles that are routed there."""
    has_role = [f.col(role_name(index)) for index in range(len(query.roles))]
    keys = [role.key for role in query.roles]
    role_buckets = [_bucket(query, key, buckets) for key in keys]
    # On a stream every row moves a NO on, which is in the first bucket, also before the first row with a role.
    always = [f.lit(0)] if query.has_no and rows.isStreaming else []
    if len(set(keys)) == 1 and not always:
        return rows.where(reduce(or_, has_role)).withColumn(BUCKET, role_buckets[0])
    row_buckets = f.array_distinct(f.array_compact(f.array(*always, *map(f.when, has_role, role_buckets))))
    routed = rows.withColumn(BUCKET, f.explode(row_buckets))
    in_bucket = [has & (f.col(BUCKET) == bucket) for has, bucket in zip(has_role, role_buckets, strict=True)]
    return routed.withColumns({role_name(index): role for index, role in enumerate(in_bucket)})


def _bucket(query: FrameQuery, key: tuple[str, ...] | None, buckets: int) -> Column:
    if key == ():
        return f.lit(0)
    values = [f.col(text_name(query.columns.index(name))) for name in key or ()] or [f.col(START), f.col(END)]
    return f.pmod(f.xxhash64(*values), f.lit(buckets)).cast("int")


# Values as texts and as RDF terms, by the types of Spark, and back


NULL = "null:"  # the datatype of a null as a value: equal to no other, and an error in any comparison

_NEEDS_ESCAPE = r'["\\\x00-\x1f\x7f]'


def datatype(type_: DataType) -> str | None:
    """The XSD datatype of a column's values; None: the type is not supported.

    >>> datatype(DecimalType(10, 2))
    'http://www.w3.org/2001/XMLSchema#decimal'
    """
    names: list[tuple[type[DataType] | tuple[type[DataType], ...], str]] = [
        (StringType, "string"),
        (IntegralType, "integer"),
        (BooleanType, "boolean"),
        (DoubleType, "double"),
        (FloatType, "float"),
        (DecimalType, "decimal"),
        (DateType, "date"),
        ((TimestampType, TimestampNTZType), "dateTime"),
    ]
    return next((XSD + name for spark_type, name in names if isinstance(type_, spark_type)), None)


def text(column: Column, type_: DataType) -> Column:
    """The values of a column as canonical XSD texts."""
    lexical = column.cast("string")
    match type_:
        case DoubleType() | FloatType():
            return f.when(lexical == "Infinity", "INF").when(lexical == "-Infinity", "-INF").otherwise(lexical)
        case DecimalType(scale=scale) if scale > 0:
            return f.regexp_replace(f.regexp_replace(lexical, r"(\.\d*?)0+$", "$1"), r"\.$", "")
        case TimestampNTZType():
            return f.replace(lexical, f.lit(" "), f.lit("T"))
        case TimestampType():  # independent of the session's time zone
            epoch = f.lit("1970-01-01T00:00:00").cast("timestamp_ntz")
            date_time = f.timestamp_add("MICROSECOND", f.unix_micros(column), epoch).cast("string")
            return f.concat(f.replace(date_time, f.lit(" "), f.lit("T")), f.lit("Z"))
    return lexical


def row_iri(column: Column) -> Column:
    """An id as the IRI of an event."""
    return f.concat(f.lit(ROW), f.url_encode(column.cast("string")))


def terms(texts: pa.Array, datatype_: str) -> pa.Array:
    """Texts as literals.

    >>> terms(pa.array(["5", None]), XSD + "integer").to_pylist()
    ['"5"^^<http://www.w3.org/2001/XMLSchema#integer>', None]
    """
    if datatype_ == XSD + "string":
        if pc.any(pc.match_substring_regex(texts, _NEEDS_ESCAPE)).as_py():
            return pa.array([None if value_ is None else literal(value_) for value_ in texts.to_pylist()], pa.string())
        return pc.binary_join_element_wise('"', texts, '"', "")
    return pc.binary_join_element_wise('"', texts, f'"^^<{datatype_}>', "")


def value(term: str) -> str | None:
    """The text of a term: the lexical form of a literal, the id of a row, or any other IRI.

    >>> value("<row:a+b>"), value('"5"^^<http://www.w3.org/2001/XMLSchema#integer>'), value('"x"^^<null:>')
    ('a b', '5', None)
    """
    if is_iri(term):
        value_ = iri_value(term)
        return unquote_plus(value_.removeprefix(ROW)) if value_.startswith(ROW) else value_
    lexical, datatype_, _ = literal_parts(term)
    return None if datatype_ == NULL else lexical
