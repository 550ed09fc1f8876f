"""Can instants be placed so that all their differences keep their limits? If not: which limits contradict each other?

A pattern's starts and ends are whole microseconds, and what an operator asks of them is a set of limits on differences:
``a BEFORE b`` is ``a.end - b.start <= -1``, ``WITHIN 5 s`` is ``end - start <= 5000000``. Limits contradict each other
exactly when they form a cycle whose sum is negative.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from motet.model.intervals import Relation


class Point(NamedTuple):
    """The start or the end of an occurrence."""

    occurrence: int
    is_end: bool


ORIGIN = Point(-1, False)  # 1970-01-01T00:00:00Z, to compare with constants


@dataclass(frozen=True, slots=True)
class Limit:
    """``later - earlier <= most``, and the reason in words."""

    later: Point
    earlier: Point
    most: int
    why: str


def start(occurrence: int) -> Point:
    return Point(occurrence, False)


def end(occurrence: int) -> Point:
    return Point(occurrence, True)


def compared(left: Point, operator: str, right: Point, why: str) -> tuple[Limit, ...]:
    """The limits of ``left operator right``; none for ``!=``, which is no limit.

    >>> [(limit.later, limit.most) for limit in compared(start(1), "<", end(2), "")]
    [(Point(occurrence=1, is_end=False), -1)]
    """
    match operator:
        case "<":
            return (Limit(left, right, -1, why),)
        case "<=":
            return (Limit(left, right, 0, why),)
        case ">" | ">=":
            return compared(right, operator.replace(">", "<"), left, why)
        case "=":
            return (Limit(left, right, 0, why), Limit(right, left, 0, why))
    return ()


# The page's table: pairs of ends and how they compare, a.start first.
_CONDITIONS = {
    Relation.BEFORE: (("ae", "<", "bs"),),
    Relation.MEETS: (("ae", "=", "bs"), ("as", "<", "bs"), ("ae", "<", "be")),
    Relation.OVERLAPS: (("as", "<", "bs"), ("bs", "<", "ae"), ("ae", "<", "be")),
    Relation.STARTS: (("as", "=", "bs"), ("ae", "<", "be")),
    Relation.DURING: (("as", ">", "bs"), ("ae", "<", "be")),
    Relation.FINISHES: (("as", ">", "bs"), ("ae", "=", "be")),
    Relation.EQUALS: (("as", "=", "bs"), ("ae", "=", "be")),
}


def related(left: int, relation: Relation, right: int, why: str) -> tuple[Limit, ...]:
    """The limits of an Allen relation between two occurrences."""
    if relation not in _CONDITIONS:
        return related(right, relation.inverse, left, why)
    ends = {"as": start(left), "ae": end(left), "bs": start(right), "be": end(right)}
    conditions = _CONDITIONS[relation]
    return tuple(limit for one, sign, other in conditions for limit in compared(ends[one], sign, ends[other], why))


def conflict(limits: Iterable[Limit]) -> tuple[Limit, ...]:
    """Limits that cannot all be kept, each needed for the contradiction; empty when instants can be placed.

    >>> before = related(1, Relation.BEFORE, 2, "1 before 2")
    >>> late = compared(start(2), "<", start(1), "2 starts first")
    >>> begins = compared(start(1), "<=", end(1), "1 starts before it ends")
    >>> [limit.why for limit in conflict((*before, *late, *begins))]
    ['1 before 2', '2 starts first', '1 starts before it ends']
    """
    limits = tuple(limits)
    distance = {point: 0 for limit in limits for point in (limit.later, limit.earlier)}
    reached: dict[Point, Limit] = {}
    changed: Point | None = None
    for _ in range(len(distance) + 1):
        changed = None
        for limit in limits:
            if distance[limit.earlier] + limit.most < distance[limit.later]:
                distance[limit.later] = distance[limit.earlier] + limit.most
                reached[limit.later] = limit
                changed = limit.later
        if changed is None:
            return ()
    cycle = _cycle(reached, changed or ORIGIN)
    return tuple(limit for limit in dict.fromkeys(limits) if limit in cycle)


def _cycle(reached: dict[Point, Limit], point: Point) -> list[Limit]:
    for _ in reached:  # far enough back to be on the cycle
        point = reached[point].earlier
    found = [reached[point]]
    while found[-1].earlier != point:
        found.append(reached[found[-1].earlier])
    return found
