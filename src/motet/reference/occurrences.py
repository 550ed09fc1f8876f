"""Occurrences and what can be done with two of them (language page, section 4).

An occurrence is identified by its events, start, end and bindings. Two more fields ride along and are no part of its
identity: ``emitted``, the offset of the log record that made it final, and ``members``, the solutions a CONSTRUCT
template is instantiated for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field, replace
from itertools import groupby

from motet.model.intervals import Interval

Bindings = tuple[tuple[str, str], ...]  # sorted (variable, N-Triples term) pairs; unbound variables are left out

NEVER = 2**63 - 1  # the offset of a record that is not in the log


@dataclass(frozen=True)
class Occurrence:
    """“An **occurrence** is `(events, start, end, bindings)`. It is identified by all four.”"""

    events: frozenset[str]
    start: int
    end: int
    bindings: Bindings
    emitted: int = field(default=0, compare=False)
    members: frozenset[Bindings] = field(default=frozenset(), compare=False)

    @property
    def interval(self) -> Interval:
        return Interval(self.start, self.end)


def completion_order(o: Occurrence) -> tuple[int, int, list[str], Bindings]:
    """“**Completion order** is `(end, start, sorted event ids)`, then bindings as sorted (variable, N-Triples)
    pairs.”
    """
    return o.end, o.start, sorted(o.events), o.bindings


def agree(x: Bindings, y: Bindings) -> bool:
    """“bindings agree on shared variables (RDF term equality […]; an unbound variable agrees with every value)”.

    >>> agree((("a", "<urn:1>"), ("b", "<urn:2>")), (("b", "<urn:3>"),))
    False
    """
    return all(term == other for name, term in x for same, other in y if name == same)


def compatible(x: Occurrence, y: Occurrence) -> bool:
    """“**Compatible** means that the bindings agree; events need not be disjoint.”"""
    return agree(x.bindings, y.bindings)


def joinable(x: Occurrence, y: Occurrence) -> bool:
    """“**Join** `x ⋈ y` is defined when their events are disjoint and their bindings agree on shared variables”"""
    return x.events.isdisjoint(y.events) and agree(x.bindings, y.bindings)


def join(x: Occurrence, y: Occurrence) -> Occurrence:
    """“It has the union of events and bindings, `min` start, `max` end.”"""
    members = frozenset(union(m, n) for m in x.members for n in y.members if agree(m, n))
    return merge([x, y], members)


def merge(parts: Iterable[Occurrence], members: frozenset[Bindings]) -> Occurrence:
    """All events, the hull, and each variable on whose value the parts that bind it agree."""
    parts = list(parts)
    pairs = {pair for part in parts for pair in part.bindings}
    agreed = sorted((name, term) for name, term in pairs if all(term == other for same, other in pairs if same == name))
    return Occurrence(
        events=frozenset(event for part in parts for event in part.events),
        start=min(part.start for part in parts),
        end=max(part.end for part in parts),
        bindings=tuple(agreed),
        emitted=max(part.emitted for part in parts),
        members=members,
    )


def union(x: Bindings, y: Bindings) -> Bindings:
    return tuple(sorted(set(x) | set(y)))


def project(bindings: Bindings, variables: Set[str]) -> Bindings:
    return tuple((name, term) for name, term in bindings if name in variables)


def hull(x: Occurrence, y: Occurrence) -> int:
    """The length of the shortest interval that holds both."""
    return max(x.end, y.end) - min(x.start, y.start)


def not_before(o: Occurrence, offset: int) -> Occurrence:
    """The same occurrence, final only with the record at ``offset``."""
    return replace(o, emitted=max(o.emitted, offset))


def distinct(occurrences: Iterable[Occurrence]) -> list[Occurrence]:
    """Each occurrence once, final as soon as the first way to produce it is final."""

    def once(equals: Iterator[Occurrence]) -> Occurrence:
        ways = list(equals)
        if len(ways) == 1:
            return ways[0]
        first = min(way.emitted for way in ways)
        members = frozenset(member for way in ways if way.emitted == first for member in way.members)
        return replace(ways[0], emitted=first, members=members)

    return [once(equals) for _, equals in groupby(sorted(occurrences, key=completion_order), key=completion_order)]
