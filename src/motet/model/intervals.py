"""Closed intervals of time, Allen's thirteen relations between two of them, and the algebra of these relations.

The definitions are those of section 6 of the language page. The tables of the algebra are computed from them, by
trying small intervals, points included. The algebra knows nothing of durations: see `motet.lint.time_limits`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import lru_cache
from itertools import permutations, product
from typing import NamedTuple


class Interval(NamedTuple):
    """``[start, end]`` in microseconds, both ends included; a point has ``start == end``."""

    start: int
    end: int


class Relation(Enum):
    """Allen's relations; exactly one holds between any two intervals, points included."""

    BEFORE = "BEFORE"
    AFTER = "AFTER"
    MEETS = "MEETS"
    MET_BY = "MET BY"
    OVERLAPS = "OVERLAPS"
    OVERLAPPED_BY = "OVERLAPPED BY"
    STARTS = "STARTS"
    STARTED_BY = "STARTED BY"
    DURING = "DURING"
    INCLUDES = "INCLUDES"
    FINISHES = "FINISHES"
    FINISHED_BY = "FINISHED BY"
    EQUALS = "EQUALS"

    @property
    def inverse(self) -> Relation:
        """The relation of b to a when this is the relation of a to b.

        >>> Relation.DURING.inverse
        <Relation.INCLUDES: 'INCLUDES'>
        """
        return _INVERSES[self]

    def holds(self, a: Interval, b: Interval) -> bool:
        """
        >>> Relation.MEETS.holds(Interval(1, 2), Interval(2, 3))
        True
        """
        if self in _CONDITIONS:
            return _CONDITIONS[self](a, b)
        return _CONDITIONS[self.inverse](b, a)


_CONDITIONS = {
    Relation.BEFORE: lambda a, b: a.end < b.start,
    Relation.MEETS: lambda a, b: a.end == b.start and a.start < b.start and a.end < b.end,
    Relation.OVERLAPS: lambda a, b: a.start < b.start < a.end < b.end,
    Relation.STARTS: lambda a, b: a.start == b.start and a.end < b.end,
    Relation.DURING: lambda a, b: a.start > b.start and a.end < b.end,
    Relation.FINISHES: lambda a, b: a.start > b.start and a.end == b.end,
    Relation.EQUALS: lambda a, b: a == b,
}

_PAIRS = (
    (Relation.BEFORE, Relation.AFTER),
    (Relation.MEETS, Relation.MET_BY),
    (Relation.OVERLAPS, Relation.OVERLAPPED_BY),
    (Relation.STARTS, Relation.STARTED_BY),
    (Relation.DURING, Relation.INCLUDES),
    (Relation.FINISHES, Relation.FINISHED_BY),
    (Relation.EQUALS, Relation.EQUALS),
)
_INVERSES = dict(_PAIRS) | {b: a for a, b in _PAIRS}


def relation(a: Interval, b: Interval) -> Relation:
    """The one relation that holds between two intervals.

    >>> relation(Interval(1, 5), Interval(3, 9))
    <Relation.OVERLAPS: 'OVERLAPS'>
    """
    return next(candidate for candidate in Relation if candidate.holds(a, b))


Relations = frozenset[Relation]

EVERY: Relations = frozenset(Relation)
SHARING: Relations = EVERY - {Relation.BEFORE, Relation.AFTER}  # the intervals share an instant


def inverses(relations: Relations) -> Relations:
    """The possible relations of b to a, given those of a to b.

    >>> sorted(relation.value for relation in inverses(frozenset({Relation.BEFORE, Relation.DURING})))
    ['AFTER', 'INCLUDES']
    """
    return frozenset(relation.inverse for relation in relations)


@lru_cache(maxsize=4096)
def compose(first: Relations, second: Relations) -> Relations:
    """The possible relations of a to c, given those of a to b and of b to c.

    >>> compose(frozenset({Relation.BEFORE}), frozenset({Relation.INCLUDES}))
    frozenset({<Relation.BEFORE: 'BEFORE'>})
    """
    table = _compositions()
    return frozenset().union(*(table[pair] for pair in product(first, second)))


@lru_cache(maxsize=4096)
def hull_relations(relations: Relations) -> tuple[Relations, Relations]:
    """The possible relations of the hull of a and b to a, and to b, given those of a to b.

    >>> to_left, to_right = hull_relations(frozenset({Relation.BEFORE}))
    >>> [relation.value for relation in to_left], [relation.value for relation in to_right]
    (['STARTED BY'], ['FINISHED BY'])
    """
    pairs = [(a, b, hull(a, b)) for a, b in _pairs(4) if relation(a, b) in relations]
    return frozenset(relation(h, a) for a, _, h in pairs), frozenset(relation(h, b) for _, b, h in pairs)


def relations_where(condition: Callable[[Interval, Interval], bool]) -> Relations:
    """The relations in which a condition on the order of four ends can be true.

    >>> sorted(one.value for one in relations_where(lambda a, b: a.end == b.start and a.start < a.end < b.end))
    ['MEETS']
    """
    return frozenset(relation(a, b) for a, b in _pairs(4) if condition(a, b))


def hull(a: Interval, b: Interval) -> Interval:
    """
    >>> hull(Interval(1, 2), Interval(5, 5))
    Interval(start=1, end=5)
    """
    return Interval(min(a.start, b.start), max(a.end, b.end))


def contradiction(network: Mapping[tuple[int, int], Relations]) -> tuple[int, int] | None:
    """Two intervals between which no relation is possible, by path consistency; None if there are none.

    A contradiction is certain. Without one, intervals need not exist.

    >>> before = frozenset({Relation.BEFORE})
    >>> contradiction({(0, 1): before, (1, 2): before, (2, 0): before}) is None
    False
    """
    possible = _completed(network)
    empty = next((pair for pair, relations in possible.items() if not relations), None)
    intervals = sorted({interval for pair in network for interval in pair})
    changed = empty is None
    while changed:
        changed = False
        for a, b, c in permutations(intervals, 3):
            narrowed = possible[a, c] & compose(possible[a, b], possible[b, c])
            if narrowed != possible[a, c]:
                possible[a, c], possible[c, a], changed = narrowed, inverses(narrowed), True
                if not narrowed:
                    return a, c
    return empty


def _completed(network: Mapping[tuple[int, int], Relations]) -> dict[tuple[int, int], Relations]:
    """The relations of every ordered pair; all relations for pairs that are not in the network."""
    possible: dict[tuple[int, int], Relations] = {}
    for (a, b), relations in network.items():
        possible[a, b] = possible.get((a, b), EVERY) & relations
        possible[b, a] = inverses(possible[a, b]) & possible.get((b, a), EVERY)
        possible[a, b] = inverses(possible[b, a])
    intervals = sorted({interval for pair in network for interval in pair})
    return {pair: possible.get(pair, EVERY) for pair in permutations(intervals, 2)}


@lru_cache(maxsize=1)
def _compositions() -> dict[tuple[Relation, Relation], Relations]:
    """The table of compositions. Three intervals have six ends, so intervals between 0 and 5 cover every case."""
    between = {(a, b): relation(a, b) for a, b in _pairs(6)}
    intervals = list(_intervals(6))
    table: dict[tuple[Relation, Relation], set[Relation]] = {pair: set() for pair in product(Relation, Relation)}
    for a, b, c in product(intervals, intervals, intervals):
        table[between[a, b], between[b, c]].add(between[a, c])
    return {pair: frozenset(relations) for pair, relations in table.items()}


def _pairs(size: int) -> Iterator[tuple[Interval, Interval]]:
    intervals = list(_intervals(size))
    return product(intervals, intervals)


def _intervals(size: int) -> Iterator[Interval]:
    return (Interval(start, end) for start in range(size) for end in range(start, size))
