"""What of a subscription the index looks at: its constants, its ranges, what else must be there, and what it delivers.

A leaf whose constants, ranges and reads say everything has a form, from which its solutions are made column by column.
Any other leaf is only pre-selected and then verified.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import product

from motet.engine.match.prefixes import Beginning, beginning
from motet.engine.match.values import Interval, interval
from motet.language.syntax import Event, Expression
from motet.model.terms import RDF_TYPE
from motet.plan.leaves import EVENT_VARIABLE, LeafPredicates, Prefix, PropertyRead, normalise
from motet.sparql.algebra import EMPTY

MOST_CHOICES = 32  # combinations of an IN's terms that are worth an entry each
EVENT_SOURCE, START_SOURCE, END_SOURCE, WITNESS_SOURCE, READ_SOURCE = range(5)


Bindings = tuple[tuple[str, str], ...]  # names and terms, by name


@dataclass(frozen=True, slots=True)
class LeafQuery:
    """A leaf to be matched: what an event must have, and which variables a solution returns."""

    name: str  # unique in a matcher: a subscription's, or that of a plan node
    event: Event
    variables: tuple[str, ...]  # sorted
    max_length: int | None = None  # of the event's interval, in microseconds
    conditions: tuple[Expression, ...] = ()  # on the solution
    with_triples: bool = False  # the event's triples are part of the result


@dataclass(frozen=True, slots=True)
class Shape:
    """What leaves that differ only in constants have in common. All are predicates of the event itself."""

    parts: tuple[str, ...]  # with a constant each
    ranges: tuple[tuple[str, int], ...]  # with the kind of their values
    reads: tuple[str, ...]  # that must be there

    def predicates(self) -> Iterator[str]:
        yield from (*self.parts, *(predicate for predicate, _ in self.ranges), *self.reads)


@dataclass(frozen=True, slots=True)
class Source:
    """Where a delivered variable comes from: the event, its times, a part or range that was met, or any value read."""

    kind: int
    place: int = 0  # of the part or range
    predicate: str = ""  # that is read


@dataclass(frozen=True, slots=True)
class Form:
    """The bindings a leaf delivers, by name."""

    bindings: tuple[tuple[str, Source], ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """A leaf as the index stores it."""

    shape: Shape
    terms: tuple[tuple[str, ...], ...]  # the constants of the parts; several rows for the terms of an IN
    intervals: tuple[Interval, ...]
    form: Form | None  # None: to be verified


def entry(leaf: LeafQuery) -> Entry:
    """
    >>> from motet.language.parse import parse
    >>> (event,) = parse("SUBSCRIPTION s EVENT e : <urn:A> { ?e <urn:p> ?x FILTER(?x > 3) } WHEN e")[0].events
    >>> found = entry(LeafQuery("s", event, ("e", "x")))
    >>> found.shape.ranges, found.intervals
    ((('<urn:p>', 1),), (Interval(low=3.0, high=inf, flags=1),))
    >>> [name for name, _ in found.form.bindings]
    ['e', 'x']
    """
    predicates, names = normalise(leaf.event)
    found = _Reading(predicates)
    is_exact = found.is_exact and (bool(predicates.triples()) or is_any(leaf.event))
    is_index_decided = is_exact and not leaf.conditions and not leaf.with_triples
    return Entry(found.shape, found.terms, found.intervals, _form(leaf, found, names) if is_index_decided else None)


def is_any(event: Event) -> bool:
    """Whether the EVENT has neither class nor body, so that every event matches, whatever the background says."""
    return event.class_iri is None and not (event.body and event.body.text.strip())


class _Reading:
    """The leaf's predicates, sorted into parts, ranges and reads."""

    def __init__(self, leaf: LeafPredicates) -> None:
        self.leaf = leaf
        variables = Counter(read.variable for read in leaf.reads)
        own = {read.variable: read for read in leaf.reads if read.variable != EVENT_VARIABLE}
        choices = {choice.variable: choice.terms for choice in leaf.choices if choice.variable in own}
        ranges = [test for test in leaf.ranges if test.variable in own]
        spans = {v: [interval(t.operator, t.constant) for t in ranges if t.variable == v] for v in own}
        combinations = 1
        for terms in choices.values():
            combinations *= len(terms)
        chosen = sorted(choices) if combinations <= MOST_CHOICES else []
        begun = {test.variable: test for test in leaf.prefixes if test.variable in own and test.variable not in chosen}
        pure = [v for v in own if len({kind for kind, _ in spans[v]}) == 1]
        ranged = [v for v in pure if v not in chosen and v not in begun]
        self._parts = [
            *((RDF_TYPE, (name,), "") for name in leaf.classes),
            *((one.predicate, (one.object,), "") for one in leaf.equalities),
            *((own[v].predicate, choices[v], v) for v in chosen),
            *((found.name, (text,), v) for v, (found, text) in _beginnings(own, begun).items()),
        ]
        self._parts.sort(key=lambda part: part[0])
        self._ranges = sorted(ranged, key=lambda v: (own[v].predicate, v))
        self.intervals = tuple(reduce(Interval.meet, (span for _, span in spans[v])) for v in self._ranges)
        tested = {*chosen, *begun, *ranged}
        self.free = {v: read for v, read in own.items() if v not in tested}
        rest = sorted({read.predicate for read in leaf.reads if read.variable not in tested})
        self.shape = Shape(
            tuple(predicate for predicate, _, _ in self._parts),
            tuple((own[v].predicate, spans[v][0][0]) for v in self._ranges),
            tuple(rest),
        )
        self.terms = tuple(product(*(terms for _, terms, _ in self._parts)))
        answered = len(chosen) + len(begun) + sum(len(spans[v]) for v in ranged)
        self.is_exact = (
            leaf.residue == EMPTY
            and not leaf.joins
            and answered == len(leaf.tests())
            and EVENT_VARIABLE not in variables
            and all(count == 1 for count in variables.values())
            and variables.keys().isdisjoint(leaf.during or ())
        )

    def source(self, variable: str) -> Source | None:
        """Where the leaf's variable comes from; None for one the leaf does not bind."""
        if variable == EVENT_VARIABLE:
            return Source(EVENT_SOURCE)
        if self.leaf.during and variable in self.leaf.during:
            return Source(END_SOURCE if variable == self.leaf.during[1] else START_SOURCE)
        for place, (_, _, chosen) in enumerate(self._parts):
            if chosen == variable:
                return Source(WITNESS_SOURCE, place)
        if variable in self._ranges:
            return Source(WITNESS_SOURCE, len(self._parts) + self._ranges.index(variable))
        read: PropertyRead | None = self.free.get(variable)
        return Source(READ_SOURCE, predicate=read.predicate) if read else None


def _beginnings(own: Mapping[str, PropertyRead], begun: Mapping[str, Prefix]) -> dict[str, tuple[Beginning, str]]:
    return {variable: beginning(own[variable].predicate, test) for variable, test in sorted(begun.items())}


def _form(leaf: LeafQuery, found: _Reading, names: dict[str, str]) -> Form:
    sources = {own: found.source(variable) for variable, own in names.items()}
    return Form(tuple((name, source) for name in leaf.variables if (source := sources.get(name)) is not None))
