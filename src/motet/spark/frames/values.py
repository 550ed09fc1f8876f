"""Values of columns as texts and as RDF terms: what each type of Spark becomes, and how it is read back.

A value is text while it goes through Spark's shuffle; equal values are equal texts, so that texts decide where rows
meet. Nulls stay nulls.
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

NULL = "null:"  # the datatype of a null that is a value: equal to nothing, and an error in any comparison

_NEEDS_ESCAPE = r'["\\\x00-\x1f\x7f]'


def datatype(type_: DataType) -> str | None:
    """The XSD datatype of a column's values; None: values of this type cannot take part.

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
    return next((XSD + name for kind, name in names if isinstance(type_, kind)), None)


def text(column: Column, type_: DataType) -> Column:
    """A column as XSD writes its values, equal values alike."""
    plain = column.cast("string")
    match type_:
        case DoubleType() | FloatType():
            return f.when(plain == "Infinity", "INF").when(plain == "-Infinity", "-INF").otherwise(plain)
        case DecimalType(scale=scale) if scale > 0:
            return f.regexp_replace(f.regexp_replace(plain, r"(\.\d*?)0+$", "$1"), r"\.$", "")
        case TimestampNTZType():
            return f.replace(plain, f.lit(" "), f.lit("T"))
        case TimestampType():  # whatever the zone of the session
            epoch = f.lit("1970-01-01T00:00:00").cast("timestamp_ntz")
            moment = f.timestamp_add("MICROSECOND", f.unix_micros(column), epoch).cast("string")
            return f.concat(f.replace(moment, f.lit(" "), f.lit("T")), f.lit("Z"))
    return plain


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
            return pa.array([None if one is None else literal(one) for one in texts.to_pylist()], pa.string())
        return pc.binary_join_element_wise('"', texts, '"', "")
    return pc.binary_join_element_wise('"', texts, f'"^^<{datatype_}>', "")


def value(term: str) -> str | None:
    """The text behind a term: of a literal, an event's id, or any other IRI.

    >>> value("<row:a+b>"), value('"5"^^<http://www.w3.org/2001/XMLSchema#integer>'), value('"x"^^<null:>')
    ('a b', '5', None)
    """
    if is_iri(term):
        found = iri_value(term)
        return unquote_plus(found.removeprefix(ROW)) if found.startswith(ROW) else found
    lexical, kind, _ = literal_parts(term)
    return None if kind == NULL else lexical
