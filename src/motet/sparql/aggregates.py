"""The aggregates of SPARQL 1.1, section 18.5.1: from the values of a group to one term.

A value is a term, or None where the expression is an error for a solution. COUNT leaves errors out; for the others
one error makes the aggregate an error, and its variable stays unbound. The exceptions are SAMPLE, which needs one
value, and an empty group: COUNT and SUM are 0, AVG is 0, GROUP_CONCAT is the empty string, the others are errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from motet.model.terms import literal_parts
from motet.sparql.functions import MAX_RESULT
from motet.sparql.operators import arithmetic
from motet.sparql.ordering import order_key
from motet.sparql.values import NUMERIC_RANK, ExpressionError, Value, decode, number, string

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
    total = number("integer", 0)
    for value in _without_errors(values):
        total = arithmetic("+", total, _numeric(value))
    return total


def _average(values: Column) -> str:
    if not values:
        return number("integer", 0).term
    return arithmetic("/", _total(values), number("integer", len(values))).term


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
