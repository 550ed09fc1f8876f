"""The operators of SPARQL on values, ``= < + - * /`` (operator table of section 17.3), and its casts (section 17.5).

Where the table leaves a literal to RDFterm-equal, values of different known types are simply not equal, as pyoxigraph
has it; only a literal whose value is unknown makes the comparison an error. Unlike there, and as the W3C tests want it,
so does a time zone that is missing on one side and could decide; and booleans have an order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from motet.model.terms import XSD, literal_parts
from motet.sparql.temporal import HAS, SCALE, TEMPORAL_KINDS, Duration, Moment, add, compare_durations, compare_moments
from motet.sparql.values import (
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

_TEMPORAL = frozenset(TEMPORAL_KINDS)


def equal(left: Value, right: Value) -> bool:  # noqa: PLR0911  (a table of cases)
    """
    >>> from motet.sparql.values import string
    >>> equal(number("integer", 1), number("double", 1.0)), equal(number("integer", 1), string("1"))
    (True, False)
    """
    if left.kind in NUMERIC_RANK and right.kind in NUMERIC_RANK:
        return _compare_numbers(left, right) == 0
    if left.term == right.term:
        return True
    kinds = {left.kind, right.kind}
    if "other" in kinds:
        if kinds & {"iri", "blank", "lang"}:
            return False
        raise ExpressionError(f"{left.term} and {right.term} may or may not be equal")
    if kinds <= DURATION_KINDS:
        return left.value == right.value
    if left.kind != right.kind or left.kind in ("iri", "blank", "string", "lang"):
        return False
    if left.kind in _TEMPORAL:
        return _same_moment(left, right)
    return left.value == right.value


def _same_moment(left: Value, right: Value) -> bool:
    order = compare_moments(left.value, right.value)
    if order is None:
        raise ExpressionError(f"without a time zone, {left.term} and {right.term} may or may not be equal")
    return order == 0


def compare(left: Value, right: Value) -> int | None:
    """-1, 0 or 1; None when one is not a number (NaN); an error when there is no order between the two."""
    if left.kind in NUMERIC_RANK and right.kind in NUMERIC_RANK:
        return _compare_numbers(left, right)
    order: int | None = None
    if left.kind in DURATION_KINDS and right.kind in DURATION_KINDS:
        order = compare_durations(left.value, right.value)
    elif left.kind == right.kind and left.kind in _TEMPORAL:
        order = compare_moments(left.value, right.value)
    elif left.kind == right.kind and left.kind in ("string", "boolean"):
        order = (left.value > right.value) - (left.value < right.value)
    elif left.kind == right.kind == "lang" and left.value[1] == right.value[1]:
        order = (left.value[0] > right.value[0]) - (left.value[0] < right.value[0])
    if order is None:
        raise ExpressionError(f"{left.term} and {right.term} have no order")
    return order


def arithmetic(operator: str, left: Value, right: Value) -> Value:
    """
    >>> arithmetic("/", number("integer", 1), number("integer", 4)).term
    '"0.25"^^<http://www.w3.org/2001/XMLSchema#decimal>'
    """
    if left.kind in NUMERIC_RANK and right.kind in NUMERIC_RANK:
        kind = left.kind if NUMERIC_RANK[left.kind] >= NUMERIC_RANK[right.kind] else right.kind
        kind = "decimal" if kind == "integer" and operator == "/" else kind
        a, b = promote(left, kind), promote(right, kind)
        return number(kind, _exact(operator, kind, a, b) if kind in ("integer", "decimal") else _ieee(operator, a, b))
    if operator in "+-":
        return _temporal(operator, left, right)
    raise ExpressionError(f"{left.term} {operator} {right.term} is not defined")


def sign(operator: str, operand: Value) -> Value:
    if operand.kind in NUMERIC_RANK:
        return number(operand.kind, -operand.value if operator == "-" else operand.value)
    if operand.kind in DURATION_KINDS and operator == "-":
        return duration(operand.kind, Duration(-operand.value.months, -operand.value.seconds))
    raise ExpressionError(f"{operand.term} is not a number")


def _compare_numbers(left: Value, right: Value) -> int | None:
    a, b = left.value, right.value
    if left.kind != right.kind:
        kind = left.kind if NUMERIC_RANK[left.kind] >= NUMERIC_RANK[right.kind] else right.kind
        a, b = promote(left, kind), promote(right, kind)
    if a != a or b != b:  # noqa: PLR0124  (only NaN differs from itself)
        return None
    return (a > b) - (a < b)


def _exact(operator: str, kind: str, a: Any, b: Any) -> int:
    """Whole numbers, of 1 or of 10⁻¹⁸; digits that do not fit are cut off."""
    if operator == "+":
        return a + b
    if operator == "-":
        return a - b
    if operator == "*":
        return a * b if kind == "integer" else cut(a * b, SCALE)
    if b == 0:
        raise ExpressionError("division by zero")
    return cut(a * SCALE, b)


def cut(a: int, b: int) -> int:
    """Division that cuts towards zero.

    >>> cut(-7, 2)
    -3
    """
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _ieee(operator: str, a: float, b: float) -> float:
    if operator == "+":
        return a + b
    if operator == "-":
        return a - b
    if operator == "*":
        return a * b
    if b != 0:
        return a / b
    if a == 0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _temporal(operator: str, left: Value, right: Value) -> Value:
    if right.kind in DURATION_KINDS:
        shift = right.value if operator == "+" else Duration(-right.value.months, -right.value.seconds)
        if left.kind in ("dateTime", "date", "time"):
            return _shifted(left, shift)
        if left.kind in DURATION_KINDS:
            return _total(left, right, shift)
    if operator == "+" and left.kind in DURATION_KINDS and right.kind in ("dateTime", "date", "time"):
        return _shifted(right, left.value)
    if operator == "-" and left.kind == right.kind and left.kind in ("dateTime", "date", "time"):
        return _between(left.value, right.value)
    raise ExpressionError(f"{left.term} {operator} {right.term} is not defined")


def _shifted(at: Value, shift: Duration) -> Value:
    if at.kind == "time" and shift.months:
        raise ExpressionError("a time of day has no months")
    result = add(at.kind, at.value, shift)
    if abs(result.year) > 999_999_999:
        raise ExpressionError("date overflow")
    return moment(at.kind, result)


def _total(left: Value, right: Value, shift: Duration) -> Value:
    total = Duration(left.value.months + shift.months, left.value.seconds + shift.seconds)
    if total.months * total.seconds < 0:
        raise ExpressionError("a duration cannot be partly negative")
    if abs(total.months) >= 2**63 or abs(total.seconds) >= 2**127:
        raise ExpressionError("duration overflow")
    return duration(left.kind if left.kind == right.kind else "duration", total)


def _between(left: Moment, right: Moment) -> Value:
    if (left.zone is None) != (right.zone is None):
        raise ExpressionError("one time has a zone, the other has none")
    return duration("dayTimeDuration", Duration(0, left.instant - right.instant))


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
            kind, Duration(0 if kind == "dayTimeDuration" else months, 0 if kind == "yearMonthDuration" else seconds)
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
