"""Values of columns as texts and as RDF terms, by the types of Spark, and back.

A value crosses Spark's shuffle as text; equal values have equal texts, so that rows can be routed by them. Nulls stay
nulls.
"""

from __future__ import annotations

from urllib.parse import unquote_plus

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from motet.model.terms import XSD, iri_value, is_iri, literal, literal_parts
from motet.spark.frames.query import ROW

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
