"""The solutions of one leaf on one event, exactly: the body is evaluated over the event's closure.

The matcher uses it for the candidates that the index cannot decide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from lxml import etree

from motet.engine.match.leaf import LeafBindings, LeafQuery, matches_any
from motet.language.scope import leaf_variables
from motet.language.syntax import Event
from motet.model.batches import EventRow
from motet.model.errors import LimitError
from motet.model.terms import XSD, iri, literal
from motet.model.times import format_datetime
from motet.model.xml_document import parse_stored_xml
from motet.sparql.algebra import EMPTY, Extend, Variable, preceded
from motet.sparql.dataset import Graph
from motet.sparql.evaluate import compile_group
from motet.sparql.expressions import test
from motet.xmlql.blocks import ElementPattern
from motet.xmlql.evaluate import Evaluation
from motet.xmlql.evaluate import solutions as block_solutions

_EVENT = ".event"  # a hidden variable that no pattern has


class XmlDocument(NamedTuple):
    """A document of an event, for one leaf: its pattern, and the elements at which it may match."""

    evaluation: Evaluation
    pattern: ElementPattern
    elements: Sequence[etree._Element]


class Verifier:
    """One leaf, compiled."""

    def __init__(self, leaf: LeafQuery) -> None:
        self._leaf = leaf
        self._solve = _compile(leaf.event)
        self._variables = leaf_variables(leaf.event)
        self._conditions = [test(condition.algebra) for condition in leaf.conditions]

    def solutions(
        self, row: EventRow, graph: Graph | None, background: Graph, document: XmlDocument | None = None
    ) -> list[LeafBindings]:
        """The distinct solutions on an event, projected to the leaf's variables; without a ``graph`` there is none.

        A ``document`` is that of the event, if it is parsed already.
        """
        if self._leaf.max_length is not None and (row.end or 0) - (row.start or 0) > self._leaf.max_length:
            return []
        times = _interval_bindings(self._leaf.event, row)
        blocks = self._of_document(row, document)
        if not blocks:
            return []
        of_event = self._of_event(iri(row.id), graph, background)
        solutions = ({**solution, **block, **times} for solution in of_event for block in blocks)
        return list(dict.fromkeys(self._project(solution) for solution in solutions if self._is_accepted(solution)))

    def _of_document(self, row: EventRow, document: XmlDocument | None) -> list[dict[str, str]]:
        """The solutions of the block; one without variables for a leaf without a block."""
        xml = self._leaf.event.xml
        if xml is None:
            return [{}]
        if row.payload is None:
            return []
        try:
            if document is not None:
                return document.evaluation.solutions_at(document.pattern, document.elements)
            return block_solutions(xml.tree, parse_stored_xml(row.payload))
        except LimitError:  # a block with too many solutions on a document has none
            return []

    def _of_event(self, event: str, graph: Graph | None, background: Graph) -> list[dict[str, str]]:
        """The solutions that the background alone does not have."""
        if self._solve is None:
            return [{self._leaf.event.name: event}]
        if graph is None:
            return []
        solutions = self._visible(self._solve(graph, event))
        if not solutions:
            return solutions
        of_background = self._visible(self._solve(background, event))
        return [solution for solution in solutions if solution not in of_background]

    def _visible(self, rows: list[dict[str, str]]) -> list[dict[str, str]]:
        return [{name: row[name] for name in self._variables if name in row} for row in rows]

    def _is_accepted(self, solution: Mapping[str, str]) -> bool:
        return all(condition(solution) for condition in self._conditions)

    def _project(self, solution: Mapping[str, str]) -> LeafBindings:
        return tuple((name, solution[name]) for name in self._leaf.variables if name in solution)


@lru_cache(maxsize=10_000)
def _compile(event: Event) -> Callable[[Graph, str], list[dict[str, str]]] | None:
    """The pattern of class and body; None when every event matches.

    The event's name is bound by a BIND at the beginning, so that SPARQL's scoping says where in the body it is visible.
    """
    if matches_any(event):
        return None
    solve = compile_group(preceded(event.algebra, Extend(EMPTY, event.name, Variable(_EVENT))))
    return lambda graph, event_iri: solve(graph, {_EVENT: event_iri})


def _interval_bindings(event: Event, row: EventRow) -> dict[str, str]:
    """What ``DURING ?start ?end`` binds."""
    if event.times is None:
        return {}
    assert row.start is not None and row.end is not None, "events are stamped before they are matched"
    return dict(zip(event.times, map(instant, (row.start, row.end)), strict=True))


def instant(time: int) -> str:
    """A time as a term."""
    return literal(format_datetime(time), datatype=XSD + "dateTime")
