"""The aggregates of SPARQL 1.1, section 18.5.1: from the values of a group to one term.

A value is a term, or None where the expression is an error for a solution. COUNT leaves errors out; for the others
one error makes the aggregate an error, and its variable stays unbound. The exceptions are SAMPLE, which needs one
value, and an empty group: COUNT and SUM are 0, AVG is 0, GROUP_CONCAT is the empty string, the others are errors.

SUM and AVG add exactly and round once, at the end, to the widest kind among the numbers: the order of the solutions
does not matter, and every engine gives the same digits.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

from motet.model.terms import literal_parts
from motet.sparql.functions import MAX_RESULT
from motet.sparql.operators import arithmetic
from motet.sparql.temporal import SCALE
from motet.sparql.values import NUMERIC_RANK, ExpressionError, Value, decode, number, order_key, string

Column = Sequence[str | None]


def aggregate(name: str, values: Column, distinct: bool, separator: str = " ") -> str:
    """The term of an aggregate over the values of a group; an error is raised.

    >>> aggregate("COUNT", ['"a"', None, '"a"'], distinct=True)
    '"1"^^<http://www.w3.org/2001/XMLSchema#integer>'
    """
    column = list(dict.fromkeys(values)) if distinct else values
    if name == "GROUP_CONCAT":
        return _concatenate(_without_errors(column), separator)
    return _AGGREGATES[name](column)


def _count(values: Column) -> str:
    return number("integer", sum(value is not None for value in values)).term


def _sum(values: Column) -> str:
    return _total(values).term


def _total(values: Column) -> Value:
    total = ExactSum()
    for value in _without_errors(values):
        total.add(_numeric(value))
    return total.value()


def _average(values: Column) -> str:
    return average(_total(values), len(values)).term


def average(total: Value, count: int) -> Value:
    """A sum divided by the number of its values; 0 of none."""
    return arithmetic("/", total, number("integer", count)) if count else total


class ExactSum:
    """A sum of numbers of any kinds, exact until it is read.

    >>> total = ExactSum()
    >>> for term in ("1e16", "1e0", "-1e16"):
    ...     total.add(decode(f'"{term}"^^<http://www.w3.org/2001/XMLSchema#double>'))
    >>> total.value().term
    '"1"^^<http://www.w3.org/2001/XMLSchema#double>'
    """

    def __init__(self) -> None:
        self._kind = "integer"
        self._numerators: Counter[int] = Counter()  # by denominator
        self._infinite = 0.0  # the sum of what is no finite number

    def add(self, value: Value) -> None:
        if value.kind in ("integer", "decimal"):
            self.add_ratio(value.kind, value.value, SCALE if value.kind == "decimal" else 1)
        elif math.isfinite(value.value):
            self.add_ratio(value.kind, *value.value.as_integer_ratio())
        else:
            self.add_ratio(value.kind, 0, 1)
            self._infinite += value.value

    def add_ratio(self, kind: str, numerator: int, denominator: int) -> None:
        """Add what is the sum of some numbers of a kind."""
        if NUMERIC_RANK[kind] > NUMERIC_RANK[self._kind]:
            self._kind = kind
        self._numerators[denominator] += numerator

    def value(self) -> Value:
        common = math.lcm(*self._numerators)
        total = sum(numerator * (common // denominator) for denominator, numerator in self._numerators.items())
        if self._kind == "integer":
            return number("integer", total // common)
        if self._kind == "decimal":
            return number("decimal", total * SCALE // common)
        if self._infinite:  # NaN too
            return number(self._kind, self._infinite)
        try:
            return number(self._kind, total / common)  # the nearest double
        except OverflowError:
            return number(self._kind, math.copysign(math.inf, total))


def _least(values: Column) -> str:
    return min(_some(_without_errors(values)), key=order_key)


def _greatest(values: Column) -> str:
    return max(_some(_without_errors(values)), key=order_key)


def _sample(values: Column) -> str:
    return _some([value for value in values if value is not None])[0]


def _concatenate(values: list[str], separator: str) -> str:
    texts = [_text(value) for value in values]
    if sum(map(len, texts)) + len(separator) * len(texts) > MAX_RESULT:
        raise ExpressionError("a text that is too long")
    return string(separator.join(texts)).term


def _text(term: str) -> str:
    """STR of a term."""
    value = decode(term)
    if value.kind == "blank":
        raise ExpressionError("a blank node has no text")
    return value.value if value.kind == "iri" else literal_parts(term)[0]


def _numeric(term: str) -> Value:
    value = decode(term)
    if value.kind not in NUMERIC_RANK:
        raise ExpressionError(f"{term} is not a number")
    return value


def _some(values: list[str]) -> list[str]:
    if not values:
        raise ExpressionError("a group without values")
    return values


def _without_errors(values: Column) -> list[str]:
    terms = [value for value in values if value is not None]
    if len(terms) < len(values):
        raise ExpressionError("a value of the group is an error")
    return terms


_AGGREGATES: dict[str, Callable[[Column], str]] = {
    "COUNT": _count,
    "SUM": _sum,
    "AVG": _average,
    "MIN": _least,
    "MAX": _greatest,
    "SAMPLE": _sample,
}
