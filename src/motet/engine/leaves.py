"""Matching subscriptions of a single EVENT, event by event.

Not for patterns that combine events: those are detected, not matched, and are refused here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from motet.engine.expressions import test
from motet.engine.graph import Graph
from motet.engine.solve import compile_group
from motet.language.sparql_algebra import parse_expression, parse_group
from motet.language.syntax import Construct, Event, Events, Filter, Leaf, Pattern, Select, Subscription, Within
from motet.language.visibility import leaf_variables
from motet.model.errors import EngineError, LimitError
from motet.model.notifications import Notification
from motet.model.tables import EventRow, Triple, event_rows, notification_batch
from motet.model.terms import RDF_TYPE, XSD, iri, literal
from motet.model.times import format_datetime
from motet.ontology.entailment import Entailment, Reasoner

Bindings = Mapping[str, str]


@dataclass(frozen=True)
class LeafEngine:
    """Picklable: workers compile what they need from the plain fields."""

    subscriptions: tuple[Subscription, ...]
    background: frozenset[Triple] = frozenset()
    entailment: str = "owl-rl"

    def __post_init__(self) -> None:
        for subscription in self.subscriptions:
            _leaf_name(subscription, subscription.pattern)
            if isinstance(subscription.delivery, Construct):
                raise _refusal(subscription, "derives events (CONSTRUCT)")

    def __reduce__(self) -> tuple[type[LeafEngine], tuple[object, ...]]:
        return LeafEngine, (self.subscriptions, self.background, self.entailment)

    def notify(self, events: pa.RecordBatch) -> pa.RecordBatch:
        """The notifications of a batch of EVENTS or of event RECORDS, in the order of the events."""
        offsets = events.column("offset").to_pylist() if "offset" in events.schema.names else range(len(events))
        rows = zip(event_rows(events), offsets, strict=True)
        return notification_batch((found, offset) for row, offset in rows for found in self.match(row))

    def match(self, row: EventRow) -> Iterator[Notification]:
        """The notifications of one event, each once."""
        graph = self._closed(row)
        for matcher in self._matchers:
            yield from matcher.match(row, graph, self._background_graph)

    def _closed(self, row: EventRow) -> Graph | None:
        """The event with the background and all that follows; None when that is more than the limits allow."""
        try:
            return Graph.over(self._background_graph, self._reasoner.close(row.triples))
        except LimitError:
            return None

    @cached_property
    def _reasoner(self) -> Reasoner:
        return Reasoner(self.background, Entailment(self.entailment))

    @cached_property
    def _background_graph(self) -> Graph:
        return Graph(self._reasoner.background)

    @cached_property
    def _matchers(self) -> list[_Matcher]:
        return [_Matcher(subscription) for subscription in self.subscriptions]


class _Matcher:
    """One subscription, compiled."""

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.event = subscription.event(_leaf_name(subscription, subscription.pattern))
        self.solve = _compiled(self.event)
        self.variables = leaf_variables(self.event)
        self.accepts = list(_conditions(subscription.pattern))

    def match(self, row: EventRow, graph: Graph | None, background: Graph) -> Iterator[Notification]:
        found = (self._notification(row, bindings) for bindings in self._solutions(row, graph, background))
        yield from dict.fromkeys(found)

    def _solutions(self, row: EventRow, graph: Graph | None, background: Graph) -> Iterator[Bindings]:
        times = _times(self.event, row)
        for solution in self._own_solutions(iri(row.id), graph, background):
            bindings = {**solution, **times}
            if all(accept(row, bindings) for accept in self.accepts):
                yield bindings

    def _own_solutions(self, event: str, graph: Graph | None, background: Graph) -> list[Bindings]:
        """The solutions that the background alone does not have."""
        if self.solve is None:
            return [{self.event.name: event}]
        if graph is None:
            return []
        found = self._visible(self.solve(graph, event))
        if not found:
            return found
        known = self._visible(self.solve(background, event))
        return [solution for solution in found if solution not in known]

    def _visible(self, rows: list[dict[str, str]]) -> list[Bindings]:
        return [{name: row[name] for name in self.variables if name in row} for row in rows]

    def _notification(self, row: EventRow, bindings: Bindings) -> Notification:
        delivery = self.subscription.delivery
        names = _delivered(delivery, bindings)
        chosen = tuple(sorted((name, bindings[name]) for name in names if name in bindings))
        graphs = _nquads(row) if isinstance(delivery, Events) else None
        assert row.start is not None and row.end is not None, "events are stamped before they are matched"
        return Notification(self.subscription.name, row.start, row.end, (row.id,), chosen, graphs)


Condition = Callable[[EventRow, Bindings], bool]


def _leaf_name(subscription: Subscription, pattern: Pattern) -> str:
    match pattern:
        case Leaf(name):
            return name
        case Within(operand) | Filter(operand):
            return _leaf_name(subscription, operand)
    raise _refusal(subscription, f"combines events ({type(pattern).__name__.upper()})")


def _refusal(subscription: Subscription, what: str) -> EngineError:
    return EngineError(
        f"subscription {subscription.name!r} {what}",
        advice="This engine matches subscriptions of a single EVENT; run it with `motet run --engine reference`.",
    )


def _conditions(pattern: Pattern) -> Iterator[Condition]:
    match pattern:
        case Within(operand, bound):
            yield from _conditions(operand)
            yield lambda row, _: (row.end or 0) - (row.start or 0) <= bound
        case Filter(operand, condition):
            yield from _conditions(operand)
            holds = test(parse_expression(condition.text))
            yield lambda _, bindings: holds(bindings)


def _compiled(event: Event) -> Callable[[Graph, str], list[dict[str, str]]] | None:
    """The leaf's pattern, its class included; None when every event matches.

    The event's name is bound by a BIND at the beginning, so that SPARQL's own rules say where in the body it is known.
    """
    typed = f"?{event.name} {RDF_TYPE} <{event.class_iri}> ." if event.class_iri else ""
    body = event.body.text if event.body else ""
    if not typed and not body.strip():
        return None
    given = "given"
    while f"?{given}" in body or given == event.name:
        given += "_"
    solve = compile_group(parse_group(f"BIND(?{given} AS ?{event.name}) {typed} {body}"))
    return lambda graph, event_iri: solve(graph, {given: event_iri})


def _times(event: Event, row: EventRow) -> dict[str, str]:
    """What `DURING ?start ?end` binds."""
    if event.times is None:
        return {}
    assert row.start is not None and row.end is not None, "events are stamped before they are matched"
    instants = (literal(format_datetime(time), datatype=XSD + "dateTime") for time in (row.start, row.end))
    return dict(zip(event.times, instants, strict=True))


def _delivered(delivery: object, bindings: Bindings) -> Iterator[str]:
    match delivery:
        case Select(None):
            yield from bindings
        case Select(tuple(variables)):
            yield from variables


def _nquads(row: EventRow) -> tuple[str, ...]:
    return tuple(sorted({f"{s} {p} {o} {iri(row.id)} ." for s, p, o in row.triples}))
