"""Values of rows as RDF literals: their texts, kinds and datatypes, and how a mapping converts them.

A value has a *kind*: the name of its XSD datatype, or ``text`` where its source has no types (CSV). The datatype of a
text is chosen by the text alone, never by its neighbours, so that an event does not depend on the rows around it. Equal
texts of a column are converted once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.codec.event_times import Int64s
from motet.codec.row_mapping import UNITS
from motet.model import terms
from motet.model.terms import XSD
from motet.model.times import END_OF_TIME, EPOCH, START_OF_TIME

TEXT = "text"  # the kind of values without a type

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")  # no zeros in front: 007 is a code, not a number
_DOUBLE = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DATETIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
)
_ANY_INTEGER = re.compile(r"([+-]?)0*([0-9]+?)(?:\.0*)?")
_SPECIAL = {"nan": "NaN", "inf": "INF", "infinity": "INF", "-inf": "-INF", "-infinity": "-INF", "+inf": "INF"}
_MAX_DIGITS = 1_000  # of a decimal number


class Cells(NamedTuple):
    """The values of a column that are not null, with their kinds and the indexes of their rows."""

    texts: Sequence[str]
    kinds: Sequence[str] | str  # one for all, or one for each
    rows: Int64s


class Literals(NamedTuple):
    """The terms of cells, null where a value cannot be converted, and the reasons by index."""

    terms: pa.StringArray
    bad: dict[int, str]


def infer(text: str, kind: str = TEXT) -> tuple[str, str]:
    """The lexical form and the XSD name of the datatype of a value.

    >>> infer("21.50"), infer("007"), infer("2026-11-15 10:00")
    (('21.5', 'double'), ('007', 'string'), ('2026-11-15T10:00:00', 'dateTime'))
    """
    if kind != TEXT:
        return _CONVERSIONS[kind](text) if kind in _CONVERSIONS else text, kind
    for pattern, name in ((_INTEGER, "integer"), (_DOUBLE, "double"), (_DATETIME, "dateTime"), (_DATE, "date")):
        if pattern.fullmatch(text):
            try:
                return _CONVERSIONS[name](text), name
            except ValueError:  # 31 November
                return text, "string"
    return (text.lower(), "boolean") if text.lower() in ("true", "false") else (text, "string")


def literals(cells: Cells, datatype: str | None = None, language: str | None = None) -> Literals:
    """The literals of cells: of a datatype or a language, or as `infer` finds.

    >>> literals(Cells(["5", "x"], TEXT, np.arange(2)), XSD + "integer").bad
    {1: "'x' is not an xsd:integer"}
    """
    return convert(cells, lambda text, kind: literal_of(text, kind, datatype, language))


def literal_of(text: str, kind: str, datatype: str | None = None, language: str | None = None) -> str:
    """The literal of one value; raises ValueError for a value that does not have the datatype.

    >>> literal_of("21.50", TEXT), literal_of("21.50", TEXT, XSD + "string")
    ('"21.5"^^<http://www.w3.org/2001/XMLSchema#double>', '"21.50"')
    """
    if language is not None:
        return terms.literal(text, language=language)
    if datatype is None:
        return _literal(*infer(text, kind))
    conversion = _CONVERSIONS.get(datatype.removeprefix(XSD))  # strings and unknown datatypes are not checked
    return terms.literal(text if conversion is None else conversion(text), datatype=datatype)


def convert(cells: Cells, term: Callable[[str, str], str]) -> Literals:
    """The terms that a function of text and kind makes; it raises ValueError for a bad value."""
    made: dict[tuple[str, str], str | None] = {}
    reasons: dict[tuple[str, str], str] = {}
    kinds = [cells.kinds] * len(cells.texts) if isinstance(cells.kinds, str) else cells.kinds
    keys = list(zip(cells.texts, kinds, strict=True))
    for key in dict.fromkeys(keys):
        try:
            made[key] = term(*key)
        except ValueError as error:
            made[key], reasons[key] = None, str(error)
    found = pa.array([made[key] for key in keys], pa.string())
    return Literals(found, {i: reasons[key] for i, key in enumerate(keys) if key in reasons} if reasons else {})


def instant(text: str, kind: str, unit: str | None = None, format_: str | None = None) -> str:
    """The xsd:dateTime literal in UTC of a value that is a time; no zone means UTC.

    >>> instant("2026-11-15 11:00:00+01:00", "text")
    '"2026-11-15T10:00:00Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>'
    >>> instant("1500", "integer", unit="ms")
    '"1970-01-01T00:00:01.500000Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>'
    """
    if unit is not None:
        try:
            micros = int(Decimal(text) * UNITS[unit])
        except (InvalidOperation, OverflowError, ValueError):
            raise ValueError(f"{text!r} is no number of {unit}") from None
        if not START_OF_TIME <= micros <= END_OF_TIME:
            raise ValueError(f"{text} {unit} since 1970 is outside the years 0001 to 9999")
        moment = EPOCH + (datetime.resolution * micros)
    elif format_ is not None:
        moment = _parse_format(text, format_)
    else:
        moment = _parse_time(text, kind)
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return terms.literal(_date_time_text(moment), datatype=f"{XSD}dateTime")


def _parse_format(text: str, format_: str) -> datetime:
    try:
        return datetime.strptime(text, format_)
    except ValueError:
        raise ValueError(f"{text!r} is no time of the form {format_!r}") from None


def _parse_time(text: str, kind: str) -> datetime:
    if kind in ("integer", "double", "decimal", "float") or _INTEGER.fullmatch(text):
        raise ValueError(
            f"{text} is a number, and a time of numbers needs a unit: {{column: …, unit: {time_unit(text)}}}"
        )
    try:
        return datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is no time such as 2026-11-15T10:00:00Z; other forms need a format") from None


def time_unit(number: str) -> str:
    """The unit in which a number of this size is a time of our days."""
    digits = len(number.partition(".")[0].lstrip("-"))
    return "s" if digits <= 10 else "ms" if digits <= 13 else "us"


def _literal(text: str, name: str) -> str:
    return terms.literal(text, datatype=XSD + name)


def _integer(text: str) -> str:
    match = _ANY_INTEGER.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not an xsd:integer")
    sign, digits = match.groups()
    return f"-{digits}" if sign == "-" and digits != "0" else digits


def _decimal(text: str) -> str:
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite() or abs(number.adjusted()) > _MAX_DIGITS:
        raise ValueError(f"{text!r} is not an xsd:decimal")
    lexical = format(number, "f")
    lexical = lexical.rstrip("0").rstrip(".") if "." in lexical else lexical
    return "0" if lexical in ("-0", "") else lexical


def _double(text: str) -> str:
    try:
        number = float(text) if "_" not in text else None
    except ValueError:
        number = None
    if number is None:
        raise ValueError(f"{text!r} is not an xsd:double")
    lexical = repr(number)
    return _SPECIAL.get(lexical, lexical)


def _boolean(text: str) -> str:
    lexical = {"true": "true", "false": "false", "1": "true", "0": "false"}.get(text.strip().lower())
    if lexical is None:
        raise ValueError(f"{text!r} is not an xsd:boolean")
    return lexical


def _date(text: str) -> str:
    try:
        return date.fromisoformat(text.strip()).isoformat()
    except ValueError:
        raise ValueError(f"{text!r} is not an xsd:date such as 2026-11-15") from None


def _date_time(text: str) -> str:
    """An xsd:dateTime: in UTC if the text has a zone, otherwise without one."""
    try:
        moment = datetime.fromisoformat(text.strip())
        return _date_time_text(moment if moment.tzinfo is None else moment.astimezone(UTC))
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not an xsd:dateTime such as 2026-11-15T10:00:00Z") from None


def _date_time_text(moment: datetime) -> str:
    return moment.replace(tzinfo=None).isoformat() + ("Z" if moment.tzinfo else "")


_CONVERSIONS: dict[str, Callable[[str], str]] = {
    "integer": _integer,
    "decimal": _decimal,
    "double": _double,
    "float": _double,
    "boolean": _boolean,
    "date": _date,
    "dateTime": _date_time,
}


def python_cells(values: Iterable[tuple[int, object]]) -> tuple[Cells, dict[int, str]]:
    """The cells of Python values with their rows; the reasons of values that are no simple value, by row."""
    texts: list[str] = []
    kinds: list[str] = []
    rows: list[int] = []
    bad: dict[int, str] = {}
    for row, value in values:
        found = _python_text(value)
        if found is None:
            keys = (
                f": name one of its fields: {', '.join(map(str, list(value)[:8]))}" if isinstance(value, dict) else ""
            )
            bad[row] = f"{type(value).__name__} is no simple value{keys}"
            continue
        if not is_unicode(found[0]):
            bad[row] = "the text has half a character (a surrogate)"
            continue
        texts.append(found[0])
        kinds.append(found[1])
        rows.append(row)
    return Cells(texts, kinds, np.array(rows, np.int64)), bad


def is_unicode(text: str) -> bool:
    """Whether a text has whole characters only: bytes that are not UTF-8, and some JSON, give halves."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _python_text(value: object) -> tuple[str, str] | None:
    """Text and kind of a Python value; None: it is no simple value."""
    if isinstance(value, bool | np.bool_):  # before int, of which it is one
        return str(value).lower(), "boolean"
    for types, kind, text in _PYTHON_KINDS:
        if isinstance(value, types):
            return text(value), kind
    return None


_PYTHON_KINDS: list[tuple[type | tuple[type, ...], str, Callable[[Any], str]]] = [
    (str, "string", str),
    ((int, np.integer), "integer", str),
    ((float, np.floating), "double", lambda value: repr(float(value))),
    (Decimal, "decimal", str),
    (datetime, "dateTime", datetime.isoformat),  # before date, of which it is one
    (date, "date", date.isoformat),
]


def arrow_cells(array: pa.Array, rows: Int64s, *, is_text: bool = False) -> Cells:
    """The cells of an Arrow array of simple values; raises ValueError for other types."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    valid = np.asarray(array.is_valid())
    kept = array.drop_null()
    kind = TEXT if is_text else arrow_kind(array.type)
    if kind is None:
        raise ValueError(f"{array.type} is no simple value")
    return Cells(_arrow_texts(kept, kind), kind, rows[valid])


def arrow_kind(type_: pa.DataType) -> str | None:
    """The kind of the values of an Arrow type; None: they are no simple values."""
    checks: list[tuple[Callable[[pa.DataType], bool], str]] = [
        (pa.types.is_string, "string"),
        (pa.types.is_large_string, "string"),
        (pa.types.is_string_view, "string"),
        (pa.types.is_null, "string"),
        (pa.types.is_boolean, "boolean"),
        (pa.types.is_integer, "integer"),
        (pa.types.is_float32, "float"),
        (pa.types.is_floating, "double"),
        (pa.types.is_decimal, "decimal"),
        (pa.types.is_date, "date"),
        (pa.types.is_timestamp, "dateTime"),
    ]
    return next((kind for check, kind in checks if check(type_)), None)


def _arrow_texts(values: pa.Array, kind: str) -> list[str]:
    if kind in ("double", "float"):
        return [repr(value) for value in values.cast(pa.float64()).to_pylist()] if kind == "double" else _texts(values)
    if kind == "dateTime":
        zone = "Z" if values.type.tz else ""
        micros = values.cast(pa.timestamp("us", values.type.tz), safe=False).cast(pa.int64()).to_pylist()
        return [_micros_text(value) + zone for value in micros]
    return _texts(values)


def _texts(values: pa.Array) -> list[str]:
    texts: list[str] = pc.cast(values, pa.string()).to_pylist()
    return texts


def _micros_text(micros: int) -> str:
    try:
        return (EPOCH + datetime.resolution * micros).replace(tzinfo=None).isoformat()
    except OverflowError:
        return f"{micros} us"  # no time: conversion rejects it
