"""The notifications of one subscription for one event, exactly: the pattern is solved over the event's closed graph.

This verifies what the index has pre-selected, and alone it is the simplest matcher there can be. Patterns that combine
events are detected, not matched, and are refused here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

from motet.language.syntax import Construct, Event, Events, Filter, Leaf, Pattern, Select, Subscription, Within
from motet.language.visibility import leaf_variables
from motet.model.batches import EventRow
from motet.model.errors import EngineError
from motet.model.notifications import Notification
from motet.model.terms import XSD, iri, literal
from motet.model.times import format_datetime
from motet.sparql.algebra import EMPTY, Extend, Variable
from motet.sparql.evaluate import compile_group
from motet.sparql.expressions import test
from motet.sparql.graph import Graph
from motet.sparql.rewrite import preceded

Bindings = Mapping[str, str]

_EVENT = ".event"  # a hidden variable that no pattern has


class Verifier:
    """One subscription, compiled."""

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.event = leaf_of(subscription)
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


def leaf_of(subscription: Subscription) -> Event:
    """The EVENT of a subscription that matches single events; others are refused.

    >>> from motet.language.parse import parse
    >>> leaf_of(parse("SUBSCRIPTION s EVENT a WHEN a WITHIN 5 s")[0]).name
    'a'
    """
    if isinstance(subscription.delivery, Construct):
        raise _refusal(subscription, "derives events (CONSTRUCT)")
    return subscription.event(_leaf_name(subscription, subscription.pattern))


def is_single(subscription: Subscription) -> bool:
    """Whether a subscription can be matched event by event."""
    pattern = subscription.pattern
    while isinstance(pattern, Within | Filter):
        pattern = pattern.operand
    return isinstance(pattern, Leaf) and not isinstance(subscription.delivery, Construct)


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
        advice="Let a kernel detect it: only single events are matched.",
    )


def _conditions(pattern: Pattern) -> Iterator[Condition]:
    match pattern:
        case Within(operand, bound):
            yield from _conditions(operand)
            yield lambda row, _: (row.end or 0) - (row.start or 0) <= bound
        case Filter(operand, condition):
            yield from _conditions(operand)
            holds = test(condition.algebra)
            yield lambda _, bindings: holds(bindings)


@lru_cache(maxsize=10_000)
def _compiled(event: Event) -> Callable[[Graph, str], list[dict[str, str]]] | None:
    """The leaf's pattern, its class included; None when every event matches.

    The event's name is bound by a BIND at the beginning, so that SPARQL's own rules say where in the body it is known.
    """
    if is_any(event):
        return None
    solve = compile_group(preceded(event.algebra, Extend(EMPTY, event.name, Variable(_EVENT))))
    return lambda graph, event_iri: solve(graph, {_EVENT: event_iri})


def _times(event: Event, row: EventRow) -> dict[str, str]:
    """What `DURING ?start ?end` binds."""
    if event.times is None:
        return {}
    assert row.start is not None and row.end is not None, "events are stamped before they are matched"
    return dict(zip(event.times, map(instant, (row.start, row.end)), strict=True))


def is_any(event: Event) -> bool:
    """Whether the EVENT has neither class nor body, so that every event matches, whatever the background says."""
    return event.class_iri is None and not (event.body and event.body.text.strip())


def instant(time: int) -> str:
    """A time as a term."""
    return literal(format_datetime(time), datatype=XSD + "dateTime")


def _delivered(delivery: object, bindings: Bindings) -> Iterator[str]:
    match delivery:
        case Select(None):
            yield from bindings
        case Select(tuple(variables)):
            yield from variables


def _nquads(row: EventRow) -> tuple[str, ...]:
    return tuple(sorted({f"{s} {p} {o} {iri(row.id)} ." for s, p, o in row.triples}))
