"""Casts to XSD datatypes, ``xsd:integer(?x)``, by the table of section 17.5 and, for times, of XPath."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal

from motet.engine.expression_operators import cut
from motet.engine.expression_times import HAS, SCALE, TEMPORAL_KINDS, Duration
from motet.engine.expression_values import (
    DURATION_KINDS,
    NUMERIC_RANK,
    ExpressionError,
    Value,
    boolean,
    canonical,
    duration,
    moment,
    number,
    promote,
    string,
    typed,
)
from motet.model.terms import XSD, literal_parts

Cast = Callable[[Value], Value]


def _to_string(value: Value) -> Value:
    if value.kind == "blank":
        raise ExpressionError("a blank node has no text")
    return string(value.value if value.kind == "iri" else literal_parts(canonical(value).term)[0])


def _to_boolean(value: Value) -> Value:
    if value.kind in NUMERIC_RANK:
        return boolean(bool(value.value) and not math.isnan(value.value))
    return boolean(_read(value, "boolean").value)


def _to_number(kind: str) -> Cast:
    def cast(value: Value) -> Value:
        if value.kind == "boolean":
            return number(kind, promote(number("integer", int(value.value)), kind))
        if value.kind not in NUMERIC_RANK:
            value = _read(value, kind)
        if NUMERIC_RANK[value.kind] <= NUMERIC_RANK[kind] or kind == "float":
            return number(kind, promote(value, kind))
        decimal = value.value if value.kind == "decimal" else _to_decimal(value.value)
        return number(kind, decimal if kind == "decimal" else cut(decimal, SCALE))

    return cast


def _to_decimal(value: float) -> int:
    """The decimal a double is written as, digits beyond the eighteenth cut off."""
    if not math.isfinite(value) or abs(value) >= 1e21:
        raise ExpressionError(f"{value} is not a decimal")
    return int(Decimal(repr(value)).scaleb(18))


def _to_moment(kind: str) -> Cast:
    def cast(value: Value) -> Value:
        if value.kind not in TEMPORAL_KINDS:
            return moment(kind, _read(value, kind).value)
        fields = HAS[kind] - {"zone"}
        if not fields <= HAS[value.kind] and not (kind == "dateTime" and value.kind == "date"):
            raise ExpressionError(f"{value.term} is not an xsd:{kind}")
        at = value.value
        return moment(kind, at if "hour" in fields else at._replace(clock=0))

    return cast


def _to_duration(kind: str) -> Cast:
    def cast(value: Value) -> Value:
        if value.kind not in DURATION_KINDS:
            return duration(kind, _read(value, kind).value)
        months, seconds = value.value
        return duration(
            kind,
            Duration(0 if kind == "dayTimeDuration" else months, 0 if kind == "yearMonthDuration" else seconds),
        )

    return cast


def _read(value: Value, kind: str) -> Value:
    """A simple string, or a literal that already has the datatype's name, read as that datatype."""
    if value.kind == kind:
        return value
    if value.kind == "string":
        read = typed(value.value, XSD + kind, value.term)
        if read.kind == kind:
            return read
    raise ExpressionError(f"{value.term} is not an xsd:{kind}")


CASTS: dict[str, Cast] = {
    XSD + "string": _to_string,
    XSD + "boolean": _to_boolean,
    **{XSD + kind: _to_number(kind) for kind in NUMERIC_RANK},
    **{XSD + kind: _to_moment(kind) for kind in TEMPORAL_KINDS},
    **{XSD + kind: _to_duration(kind) for kind in DURATION_KINDS},
}
