"""Limits on the differences of starts and ends, and whether they contradict each other.

A pattern's starts and ends are whole microseconds, and an operator's constraint on them is a set of limits on
differences: ``a BEFORE b`` is ``a.end - b.start <= -1``, ``WITHIN 5 s`` is ``end - start <= 5000000``. Limits
contradict each other exactly when they form a cycle whose sum is negative. Conditions on the variables of DURING
become limits and Allen relations, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from motet.lint.conditions import Kind, value_of
from motet.model.intervals import Interval, Relation, Relations, relations_where
from motet.sparql.algebra import And, Compare, Constant, Expr, Not, Or, Variable
from motet.sparql.scope import mentioned


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


Instants = Mapping[str, Point]
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


class Related(NamedTuple):
    """The relations that may hold between two occurrences."""

    left: int
    right: int
    relations: Relations
    why: str


def limits_of(condition: Expr, instants: Instants, why: str) -> tuple[Limit, ...]:
    """The limits a comparison sets to starts and ends; none if it is not one of them.

    >>> from motet.sparql.parse_cache import parse_expression
    >>> [limit.most for limit in limits_of(parse_expression("?s > ?e"), {"s": start(1), "e": end(1)}, "")]
    [-1]
    """
    match condition:
        case Compare(operator, Variable(left), Variable(right)) if left in instants and right in instants:
            return compared(instants[left], operator, instants[right], why)
        case Compare(operator, Variable(name), Constant(term)) if name in instants:
            return _from_origin(instants[name], operator, term, why)
        case Compare(operator, Constant(term), Variable(name)) if name in instants and operator in _MIRRORED:
            return _from_origin(instants[name], _MIRRORED[operator], term, why)
    return ()


def _from_origin(point: Point, operator: str, term: str, why: str) -> tuple[Limit, ...]:
    value = value_of(term)
    if value is None or value.kind is not Kind.INSTANT:
        return ()
    time = int(value.place)
    moved = [(limit, time if limit.later == point else -time) for limit in compared(point, operator, ORIGIN, why)]
    return tuple(Limit(limit.later, limit.earlier, limit.most + shift, why) for limit, shift in moved)


def relations_of(condition: Expr, instants: Instants, why: str) -> Related | None:
    """The Allen relations in which a condition on the times of two events can be true; None if it is not one.

    >>> from motet.sparql.parse_cache import parse_expression
    >>> times = {"s": start(1), "e": end(1), "s2": start(2), "e2": end(2)}
    >>> apart = relations_of(parse_expression("?e < ?s2 || ?e2 < ?s"), times, "")
    >>> sorted(one.value for one in apart.relations)
    ['AFTER', 'BEFORE']
    """
    names = mentioned(condition)
    occurrences = sorted({instants[name].occurrence for name in names if name in instants})
    if len(occurrences) != 2 or not names <= instants.keys() or not _orders_only(condition):
        return None
    left, right = occurrences
    ends = _ends(left, right)

    def may_hold(a: Interval, b: Interval) -> bool:
        return _holds(condition, {name: ends[instants[name]](a, b) for name in names})

    return Related(left, right, relations_where(may_hold), why)


def same_instant(one: Point, other: Point, why: str) -> Related | None:
    """The relations in which an end of one occurrence is an end of another."""
    if one.occurrence == other.occurrence:
        return None
    condition = Compare("=", Variable("one"), Variable("other"))
    return relations_of(condition, {"one": one, "other": other}, why)


def _ends(left: int, right: int) -> Mapping[Point, Callable[[Interval, Interval], int]]:
    return {
        start(left): lambda a, b: a.start,
        end(left): lambda a, b: a.end,
        start(right): lambda a, b: b.start,
        end(right): lambda a, b: b.end,
    }


def _orders_only(condition: Expr) -> bool:
    match condition:
        case And(parts) | Or(parts):
            return all(map(_orders_only, parts))
        case Not(operand):
            return _orders_only(operand)
        case Compare(_, Variable(), Variable()):
            return True
    return False


def _holds(condition: Expr, places: Mapping[str, int]) -> bool:
    match condition:
        case And(parts):
            return all(_holds(part, places) for part in parts)
        case Or(parts):
            return any(_holds(part, places) for part in parts)
        case Not(operand):
            return not _holds(operand, places)
        case Compare(operator, Variable(left), Variable(right)):
            one, other = places[left], places[right]
            less, equal = one < other, one == other
            truths = {"<": less, "<=": less or equal, "=": equal, "!=": not equal, ">=": not less}
            return truths.get(operator, not (less or equal))
    raise AssertionError(condition)  # _orders_only has seen it
