"""What a compiled query reads: relations of quads and of named graphs, behind one interface.

A dataset decides which rows are visible, how the default graph becomes a set, and which files a scan reads. The
compiler only asks for triples with given terms, in one of three places: the default graph, one named graph, or every
named graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from motet.sparql import algebra
from motet.sparql.term_columns import EXACT_NUMBERS, INSTANT, term_columns

if TYPE_CHECKING:
    from sqlglot import exp


QuadColumn = Literal["off", "s", "p", "o", "okind", "onum", "ots"]


@dataclass(frozen=True, slots=True)
class ScanRange:
    """Bounds that every useful row fulfils, for pruning; the rows are also filtered by the query itself. A row without
    a value in the column is useless.

    ``column`` is ``onum`` or ``ots``; None is no bound.
    """

    column: Literal["onum", "ots"]
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True, slots=True)
class QuadScan:
    """The triples of one place that have given terms.

    ``place`` is "default", "named" (every named graph: ``off`` is the graph of a row), or the term of one named graph.
    ``subjects``, ``predicates`` and ``objects`` are the terms allowed, None for any; ``not_predicates`` are refused.
    ``columns`` are the ones to return. ``is_set`` is False where repeated rows do no harm to the answer.
    """

    place: str
    columns: frozenset[QuadColumn]
    subjects: tuple[str, ...] | None = None
    predicates: tuple[str, ...] | None = None
    objects: tuple[str, ...] | None = None
    not_predicates: tuple[str, ...] = ()
    ranges: tuple[ScanRange, ...] = ()
    is_set: bool = True


class SqlDataset(Protocol):
    """The relations a query is compiled over."""

    def selected(self, clause: algebra.DatasetClause | None) -> SqlDataset:
        """The dataset that FROM and FROM NAMED describe."""

    def scan(self, scan: QuadScan) -> exp.Query:
        """A query whose columns are those of the scan: each triple of the default graph once, of a named graph once
        for each graph. Only rows with the terms of the scan are in it.
        """

    def kinds(self, scan: QuadScan) -> frozenset[int]:
        """The kinds that the objects of a scan may have."""

    def graphs(self) -> exp.Query:
        """A query with the columns ``g``, the term of a named graph, and ``off``, its number in scans."""

    def intervals(self) -> exp.Query:
        """A query with the columns ``g``, the term of an event, ``start_`` and ``end_`` in microseconds."""


Ranges = Mapping[str, tuple[ScanRange, ...]]  # by variable: a FILTER is never true for values outside of them

# Ranges are wider than the comparisons themselves: a float is compared with less precision than it is stored with, and
# a dateTime without a zone may be fourteen hours off.
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
