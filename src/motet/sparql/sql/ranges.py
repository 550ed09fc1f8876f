"""Ranges of values outside of which a FILTER is never true: scans skip files by them.

They are wider than the comparisons themselves: a float is compared with less precision than it is stored with, and a
dateTime without a zone may be fourteen hours off.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from motet.sparql import algebra
from motet.sparql.sql.scan import ScanRange
from motet.sparql.term_columns import EXACT_NUMBERS, INSTANT, term_columns

Ranges = Mapping[str, tuple[ScanRange, ...]]

_PRECISION = 1e-6
_MAX_ZONE = 14 * 3_600_000_000 + 1
_MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def with_ranges(ranges: Ranges, condition: algebra.Expr) -> Ranges:
    """The ranges of variables, narrowed by a condition that must be true."""
    result = dict(ranges)
    for name, limits in _ranges(condition):
        result[name] = (*result.get(name, ()), limits)
    return result


def _ranges(condition: algebra.Expr) -> Iterator[tuple[str, ScanRange]]:
    match condition:
        case algebra.And(parts):
            for part in parts:
                yield from _ranges(part)
        case algebra.Compare(operator, algebra.Variable(name), algebra.Constant(term)) if operator in _MIRRORED:
            yield from ((name, limits) for limits in _range(operator, term))
        case algebra.Compare(operator, algebra.Constant(term), algebra.Variable(name)) if operator in _MIRRORED:
            yield from ((name, limits) for limits in _range(_MIRRORED[operator], term))


def _range(operator: str, term: str) -> Iterator[ScanRange]:
    kind, number, instant = term_columns(term)
    if kind in EXACT_NUMBERS and number is not None and abs(number) < 1e300:
        width = abs(number) * _PRECISION + 1e-30
        yield ScanRange("onum", *_bounds(operator, number - width, number + width))
    elif kind == INSTANT and instant is not None and abs(instant) < 2**62:
        yield ScanRange("ots", *_bounds(operator, instant - _MAX_ZONE, instant + _MAX_ZONE))


def _bounds(operator: str, lower: float, upper: float) -> tuple[float | None, float | None]:
    return (None if operator.startswith("<") else lower, None if operator.startswith(">") else upper)
