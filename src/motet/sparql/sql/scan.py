"""What a compiled query reads: relations of quads and of named graphs, behind one interface.

A dataset decides which rows are visible, how the default graph becomes a set, and which files a scan reads. The
compiler only asks for triples with given terms, in one of three places: the default graph, one named graph, or every
named graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from sqlglot import exp

    from motet.sparql.algebra import DatasetClause

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

    def selected(self, clause: DatasetClause | None) -> SqlDataset:
        """The dataset that FROM and FROM NAMED describe."""

    def scan(self, scan: QuadScan) -> exp.Query:
        """A query whose columns are those of the scan: each triple of the default graph once, of a named graph once
        for each graph. Only rows with the terms of the scan are in it.
        """

    def graphs(self) -> exp.Query:
        """A query with the columns ``g``, the term of a named graph, and ``off``, its number in scans."""

    def intervals(self) -> exp.Query:
        """A query with the columns ``g``, the term of an event, ``start_`` and ``end_`` in microseconds."""
