"""What a term is worth inside an expression: numbers, text, truth, times; back to terms; and the order of all terms.

A term keeps its lexical form: only a computed value gets the canonical form, the one pyoxigraph prints. Limits are
pyoxigraph's too: integers have 64 bits, decimals 18 fraction digits and 127 bits; a literal beyond them has no value,
a result beyond them is an error.

The order of ORDER BY, MIN and MAX is over all terms, so that sorting never fails and is the same on every engine.
SPARQL fixes: unbound, blank nodes, IRIs, literals; and ``<`` among literals that it compares. The rest is our choice:
numbers (NaN first), dates and times by kind, booleans, plain strings, strings with a language, then literals without
a known value by their text. Literals of equal value are equal here; a stable sort leaves them as they are.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

from motet.model.terms import RDF, XSD, literal, literal_parts
from motet.sparql.temporal import (
    SCALE,
    TEMPORAL_KINDS,
    Duration,
    Moment,
    add,
    format_decimal,
    format_duration,
    format_moment,
    parse_decimal,
    parse_duration,
    parse_moment,
)


class ExpressionError(Exception):
    """A SPARQL error: an expression without a value. A FILTER takes it as false; it never leaves the engine."""


class Value(NamedTuple):
    """A term and what it is worth.

    ``kind`` is "iri", "blank", "string", "lang", "boolean", "integer", "decimal", "float", "double", the local name of
    a date, time or duration type, or "other" for a literal without a known value.
    ``value`` is text, ``(text, language)``, bool, int, int in units of 10⁻¹⁸, float, `Moment`, `Duration` or
    ``(text, datatype)``.
    """

    kind: str
    value: Any
    term: str


NUMERIC_RANK = {"integer": 0, "decimal": 1, "float": 2, "double": 3}
DURATION_KINDS = frozenset({"duration", "dayTimeDuration", "yearMonthDuration"})
_INTEGERS = (
    "integer byte short int long unsignedByte unsignedShort unsignedInt unsignedLong positiveInteger "
    "negativeInteger nonPositiveInteger nonNegativeInteger"
)
_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")
_DOUBLE = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?INF|NaN")
_CACHED_LENGTH = 200
_CACHED_TERMS = 20_000
_LARGEST_FLOAT = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]


def parse_integer(text: str) -> int:
    """
    >>> parse_integer("+05")
    5
    """
    if _INTEGER.fullmatch(text) is None or not -(2**63) <= int(text) < 2**63:
        raise ValueError(f"{text!r} is not a 64-bit integer")
    return int(text)


def parse_double(text: str) -> float:
    """
    >>> parse_double("-INF")
    -inf
    """
    if _DOUBLE.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a double")
    return float(text)


def parse_float(text: str) -> float:
    return to_float32(parse_double(text))


def parse_boolean(text: str) -> bool:
    if text not in ("true", "false", "1", "0"):
        raise ValueError(f"{text!r} is not a boolean")
    return text in ("true", "1")


_PARSERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    **{XSD + name: ("integer", parse_integer) for name in _INTEGERS.split()},
    XSD + "decimal": ("decimal", parse_decimal),
    XSD + "double": ("double", parse_double),
    XSD + "float": ("float", parse_float),
    XSD + "boolean": ("boolean", parse_boolean),
    **{XSD + kind: (kind, partial(parse_moment, kind)) for kind in TEMPORAL_KINDS},
    **{XSD + kind: (kind, partial(parse_duration, kind)) for kind in DURATION_KINDS},
}

_cache: dict[str, Value] = {}


def decode(term: str) -> Value:
    """The value of a term.

    >>> decode('"01"^^<http://www.w3.org/2001/XMLSchema#integer>')[:2]
    ('integer', 1)
    """
    cached = _cache.get(term)
    if cached is not None:
        return cached
    value = _decode(term)
    if len(term) <= _CACHED_LENGTH:
        if len(_cache) >= _CACHED_TERMS:
            _cache.clear()
        _cache[term] = value
    return value


def _decode(term: str) -> Value:
    if term.startswith("<"):
        return Value("iri", term[1:-1], term)
    if term.startswith("_:"):
        return Value("blank", term, term)
    text, datatype, language = literal_parts(term)
    if language is not None:
        return Value("lang", (text, language), term)
    if datatype == XSD + "string":
        return Value("string", text, term)
    return typed(text, datatype, term)


def typed(text: str, datatype: str, term: str) -> Value:
    """The value of a typed literal; "other" when the datatype is unknown or the text does not fit it."""
    kind, parse = _PARSERS.get(datatype, ("other", None))
    if parse is None:
        return Value("other", (text, datatype), term)
    try:
        return Value(kind, parse(text), term)
    except ValueError:
        return Value("other", (text, datatype), term)


TRUE = decode(f'"true"^^<{XSD}boolean>')
FALSE = decode(f'"false"^^<{XSD}boolean>')
_NUMBER_LIKE = frozenset(_PARSERS) - {XSD + kind for kind in (*TEMPORAL_KINDS, *DURATION_KINDS)}


def boolean(value: bool) -> Value:
    return TRUE if value else FALSE


def string(text: str) -> Value:
    return Value("string", text, literal(text))


def text_like(model: Value, text: str) -> Value:
    """Text with the language of another text."""
    if model.kind == "lang":
        return Value("lang", (text, model.value[1]), literal(text, language=model.value[1]))
    return string(text)


def text_of(value: Value) -> str:
    """The text of a simple or language-tagged string; anything else is an error."""
    if value.kind == "string":
        return value.value
    if value.kind == "lang":
        return value.value[0]
    raise ExpressionError(f"{value.term} is not a string")


def simple_text(value: Value) -> str:
    if value.kind != "string":
        raise ExpressionError(f"{value.term} is not a simple string")
    return value.value


def number(kind: str, value: float) -> Value:
    """A computed number of a kind; floats are rounded to their size, overflow of the exact kinds is an error.

    >>> number("decimal", 5 * SCALE // 2).term
    '"2.5"^^<http://www.w3.org/2001/XMLSchema#decimal>'
    """
    if kind == "integer" and not -(2**63) <= value < 2**63:
        raise ExpressionError("integer overflow")
    if kind == "decimal" and not -(2**127) <= value < 2**127:
        raise ExpressionError("decimal overflow")
    value = to_float32(value) if kind == "float" else value
    return Value(kind, value, f'"{_FORMATS[kind](value)}"^^<{XSD}{kind}>')


def moment(kind: str, value: Moment) -> Value:
    return Value(kind, value, literal(format_moment(kind, value), datatype=XSD + kind))


def duration(kind: str, value: Duration) -> Value:
    return Value(kind, value, literal(format_duration(kind, value), datatype=XSD + kind))


def canonical(value: Value) -> Value:
    """The same value in its canonical lexical form; a value without one stays as it is.

    >>> canonical(decode('"01.50"^^<http://www.w3.org/2001/XMLSchema#decimal>')).term
    '"1.5"^^<http://www.w3.org/2001/XMLSchema#decimal>'
    """
    if value.kind in NUMERIC_RANK:
        return number(value.kind, value.value)
    if value.kind == "boolean":
        return boolean(value.value)
    if value.kind in TEMPORAL_KINDS:
        return moment(value.kind, value.value)
    return duration(value.kind, value.value) if value.kind in DURATION_KINDS else value


def effective_boolean_value(value: Value) -> bool:
    """SPARQL 1.1, section 17.2.2: a number or boolean that is not well formed counts as false.

    >>> effective_boolean_value(decode('""')), effective_boolean_value(decode('"x"@en'))
    (False, True)
    """
    kind = value.kind
    if kind == "boolean":
        return value.value
    if kind in ("string", "lang"):
        return bool(text_of(value))
    if kind in NUMERIC_RANK:
        return bool(value.value) and not math.isnan(value.value)
    if kind == "other" and value.value[1] in _NUMBER_LIKE:
        return False
    raise ExpressionError(f"{value.term} is neither true nor false")


def promote(value: Value, kind: str) -> float:
    """The number as one of a wider kind."""
    if value.kind == kind:
        return value.value
    if kind == "decimal":
        return value.value * SCALE
    wide = value.value / SCALE if value.kind == "decimal" else float(value.value)
    return to_float32(wide) if kind == "float" else wide


def to_float32(value: float) -> float:
    """The nearest single-precision number.

    >>> to_float32(16777217.0)
    16777216.0
    """
    if abs(value) > _LARGEST_FLOAT and math.isfinite(value):
        try:
            return struct.unpack("<f", struct.pack("<f", value))[0]
        except OverflowError:
            return math.copysign(math.inf, value)
    return struct.unpack("<f", struct.pack("<f", value))[0]


def _format_double(value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "INF" if value > 0 else "-INF"
    return _positional(repr(float(value)))


def _format_float(value: float) -> str:
    if not math.isfinite(value):
        return _format_double(value)
    shortest = next(text for digits in range(1, 18) if to_float32(float(text := f"{value:.{digits}g}")) == value)
    return _positional(shortest)


def _positional(text: str) -> str:
    """Digits without an exponent and without a fraction of zero."""
    return format(Decimal(text), "f").removesuffix(".0")


_FORMATS: dict[str, Callable[[Any], str]] = {
    "integer": str,
    "decimal": format_decimal,
    "float": _format_float,
    "double": _format_double,
}

LANG_STRING = RDF + "langString"


# The order of all terms


UNBOUND: tuple[Any, ...] = (0,)
_KINDS = {kind: rank for rank, kind in enumerate((*TEMPORAL_KINDS, "duration"))}


def order_key(term: str | None) -> tuple[Any, ...]:
    """A key that sorts terms; None is an unbound variable.

    >>> sorted(['"b"', "<urn:a>", '"10"^^<http://www.w3.org/2001/XMLSchema#integer>'], key=order_key)[0]
    '<urn:a>'
    """
    if term is None:
        return UNBOUND
    value = decode(term)
    if value.kind == "blank":
        return (1, term)
    if value.kind == "iri":
        return (2, value.value)
    return (3, *_literal_key(value))


def _literal_key(value: Value) -> tuple[Any, ...]:  # noqa: PLR0911  (one return for each kind)
    kind, content = value.kind, value.value
    if kind in NUMERIC_RANK:
        return (0, *_number_key(kind, content))
    if kind in TEMPORAL_KINDS:
        return (1, _KINDS[kind], _instant(content))
    if kind in DURATION_KINDS:
        return (1, _KINDS["duration"], _length(content))
    if kind == "boolean":
        return (2, content)
    if kind == "string":
        return (3, content)
    if kind == "lang":
        return (4, *content)
    return (5, value.term)


def _number_key(kind: str, content: float) -> tuple[Any, ...]:
    """NaN, minus infinity, all others by their exact value, infinity."""
    if kind == "decimal":
        return (2, Fraction(int(content), SCALE))
    if not math.isfinite(content):
        return (0,) if math.isnan(content) else (3 if content > 0 else 1,)
    return (2, Fraction(content))


def _instant(moment: Moment) -> tuple[int, bool]:
    """Without a zone as in UTC, and before the same instant with a zone."""
    return (moment.instant, moment.zone is not None)


def _length(duration: Duration) -> int:
    """By the time it takes from the first of four months that decide."""
    return add("dateTime", Moment(1696, 9, 1, 0, 0), duration).local
