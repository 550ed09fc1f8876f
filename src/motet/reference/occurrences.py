"""Occurrences, their joins and their completion order (language page, section 4).

An occurrence is identified by its events, start, end and bindings. Two more fields are not part of its identity:
``final_at``, the offset of the log record that makes it final, and ``members``, the solutions for which a CONSTRUCT
template is instantiated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field, replace
from itertools import groupby

from motet.model.intervals import Interval

SortedBindings = tuple[tuple[str, str], ...]  # sorted (variable, N-Triples term) pairs; unbound variables are left out

NEVER = 2**63 - 1  # the offset of a record that is not in the log


@dataclass(frozen=True)
class Occurrence:
    """“An **occurrence** is `(events, start, end, bindings)`. It is identified by all four.”"""

    events: frozenset[str]
    start: int
    end: int
    bindings: SortedBindings
    final_at: int = field(default=0, compare=False)
    members: frozenset[SortedBindings] = field(default=frozenset(), compare=False)

    @property
    def interval(self) -> Interval:
        return Interval(self.start, self.end)


def completion_order(o: Occurrence) -> tuple[int, int, list[str], SortedBindings]:
    """“**Completion order** is `(end, start, sorted event ids)`, then bindings as sorted (variable, N-Triples)
    pairs.”
    """
    return o.end, o.start, sorted(o.events), o.bindings


def bindings_agree(x: SortedBindings, y: SortedBindings) -> bool:
    """“bindings agree on shared variables (RDF term equality […]; an unbound variable agrees with every value)”.

    >>> bindings_agree((("a", "<urn:1>"), ("b", "<urn:2>")), (("b", "<urn:3>"),))
    False
    """
    return all(left == right for name, left in x for same, right in y if name == same)


def compatible(x: Occurrence, y: Occurrence) -> bool:
    """“**Compatible** means that the bindings agree; events need not be disjoint.”"""
    return bindings_agree(x.bindings, y.bindings)


def joinable(x: Occurrence, y: Occurrence) -> bool:
    """“**Join** `x ⋈ y` is defined when their events are disjoint and their bindings agree on shared variables”"""
    return x.events.isdisjoint(y.events) and bindings_agree(x.bindings, y.bindings)


def join(x: Occurrence, y: Occurrence) -> Occurrence:
    """“It has the union of events and bindings, `min` start, `max` end.”"""
    members = frozenset(union(m, n) for m in x.members for n in y.members if bindings_agree(m, n))
    return merge([x, y], members)


def merge(occurrences: Iterable[Occurrence], members: frozenset[SortedBindings]) -> Occurrence:
    """All events, the hull, and each variable on whose value the occurrences that bind it agree."""
    occurrences = list(occurrences)
    pairs = {pair for o in occurrences for pair in o.bindings}
    agreed = sorted((name, term) for name, term in pairs if all(term == value for same, value in pairs if same == name))
    return Occurrence(
        events=frozenset(event for o in occurrences for event in o.events),
        start=min(o.start for o in occurrences),
        end=max(o.end for o in occurrences),
        bindings=tuple(agreed),
        final_at=max(o.final_at for o in occurrences),
        members=members,
    )


def union(x: SortedBindings, y: SortedBindings) -> SortedBindings:
    return tuple(sorted(set(x) | set(y)))


def project(bindings: SortedBindings, variables: Set[str]) -> SortedBindings:
    return tuple((name, term) for name, term in bindings if name in variables)


def hull(x: Occurrence, y: Occurrence) -> int:
    """The length of the shortest interval that holds both."""
    return max(x.end, y.end) - min(x.start, y.start)


def final_from(o: Occurrence, offset: int) -> Occurrence:
    """The same occurrence, final only with the record at ``offset``."""
    return replace(o, final_at=max(o.final_at, offset))


def distinct(occurrences: Iterable[Occurrence]) -> list[Occurrence]:
    """Each occurrence once, final as soon as its first derivation is final."""

    def merge_equal(equals: Iterator[Occurrence]) -> Occurrence:
        derivations = list(equals)
        if len(derivations) == 1:
            return derivations[0]
        first = min(derivation.final_at for derivation in derivations)
        members = frozenset(
            member for derivation in derivations if derivation.final_at == first for member in derivation.members
        )
        return replace(derivations[0], final_at=first, members=members)

    return [
        merge_equal(equals) for _, equals in groupby(sorted(occurrences, key=completion_order), key=completion_order)
    ]
