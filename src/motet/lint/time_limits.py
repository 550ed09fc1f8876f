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

from motet.lint.conditions import ValueKind, value_of
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
    """``later - earlier <= max_difference``, and the reason as text."""

    later: Point
    earlier: Point
    max_difference: int
    reason: str


def start(occurrence: int) -> Point:
    return Point(occurrence, False)


def end(occurrence: int) -> Point:
    return Point(occurrence, True)


def comparison_limits(left: Point, operator: str, right: Point, reason: str) -> tuple[Limit, ...]:
    """The limits of ``left operator right``; none for ``!=``, which is no limit.

    >>> [(limit.later, limit.max_difference) for limit in comparison_limits(start(1), "<", end(2), "")]
    [(Point(occurrence=1, is_end=False), -1)]
    """
    match operator:
        case "<":
            return (Limit(left, right, -1, reason),)
        case "<=":
            return (Limit(left, right, 0, reason),)
        case ">" | ">=":
            return comparison_limits(right, operator.replace(">", "<"), left, reason)
        case "=":
            return (Limit(left, right, 0, reason), Limit(right, left, 0, reason))
    return ()


# The table of section 6 of the language page: pairs of ends and how they compare.
_CONDITIONS = {
    Relation.BEFORE: (("ae", "<", "bs"),),
    Relation.MEETS: (("ae", "=", "bs"), ("as", "<", "bs"), ("ae", "<", "be")),
    Relation.OVERLAPS: (("as", "<", "bs"), ("bs", "<", "ae"), ("ae", "<", "be")),
    Relation.STARTS: (("as", "=", "bs"), ("ae", "<", "be")),
    Relation.DURING: (("as", ">", "bs"), ("ae", "<", "be")),
    Relation.FINISHES: (("as", ">", "bs"), ("ae", "=", "be")),
    Relation.EQUALS: (("as", "=", "bs"), ("ae", "=", "be")),
}


def relation_limits(left: int, relation: Relation, right: int, reason: str) -> tuple[Limit, ...]:
    """The limits of an Allen relation between two occurrences."""
    if relation not in _CONDITIONS:
        return relation_limits(right, relation.inverse, left, reason)
    ends = {"as": start(left), "ae": end(left), "bs": start(right), "be": end(right)}
    conditions = _CONDITIONS[relation]
    return tuple(
        limit
        for first, sign, second in conditions
        for limit in comparison_limits(ends[first], sign, ends[second], reason)
    )


def find_conflict(limits: Iterable[Limit]) -> tuple[Limit, ...]:
    """Limits that contradict each other, each needed for the contradiction; empty when all can be fulfilled.

    >>> before = relation_limits(1, Relation.BEFORE, 2, "1 before 2")
    >>> late = comparison_limits(start(2), "<", start(1), "2 starts first")
    >>> begins = comparison_limits(start(1), "<=", end(1), "1 starts before it ends")
    >>> [limit.reason for limit in find_conflict((*before, *late, *begins))]
    ['1 before 2', '2 starts first', '1 starts before it ends']
    """
    limits = tuple(limits)
    distance = {point: 0 for limit in limits for point in (limit.later, limit.earlier)}
    last_limits: dict[Point, Limit] = {}
    changed: Point | None = None
    for _ in range(len(distance) + 1):
        changed = None
        for limit in limits:
            if distance[limit.earlier] + limit.max_difference < distance[limit.later]:
                distance[limit.later] = distance[limit.earlier] + limit.max_difference
                last_limits[limit.later] = limit
                changed = limit.later
        if changed is None:
            return ()
    cycle = _cycle(last_limits, changed or ORIGIN)
    return tuple(limit for limit in dict.fromkeys(limits) if limit in cycle)


def _cycle(last_limits: dict[Point, Limit], point: Point) -> list[Limit]:
    for _ in last_limits:  # after that many steps back the point is on the cycle
        point = last_limits[point].earlier
    cycle = [last_limits[point]]
    while cycle[-1].earlier != point:
        cycle.append(last_limits[cycle[-1].earlier])
    return cycle


Instants = Mapping[str, Point]
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


class RelationConstraint(NamedTuple):
    """The relations that may hold between two occurrences."""

    left: int
    right: int
    relations: Relations
    reason: str


def condition_limits(condition: Expr, instants: Instants, reason: str) -> tuple[Limit, ...]:
    """The limits a comparison sets on starts and ends; none if it compares anything else.

    >>> from motet.sparql.parse_cache import parse_expression
    >>> limits = condition_limits(parse_expression("?s > ?e"), {"s": start(1), "e": end(1)}, "")
    >>> [limit.max_difference for limit in limits]
    [-1]
    """
    match condition:
        case Compare(operator, Variable(left), Variable(right)) if left in instants and right in instants:
            return comparison_limits(instants[left], operator, instants[right], reason)
        case Compare(operator, Variable(name), Constant(term)) if name in instants:
            return _from_origin(instants[name], operator, term, reason)
        case Compare(operator, Constant(term), Variable(name)) if name in instants and operator in _MIRRORED:
            return _from_origin(instants[name], _MIRRORED[operator], term, reason)
    return ()


def _from_origin(point: Point, operator: str, term: str, reason: str) -> tuple[Limit, ...]:
    value = value_of(term)
    if value is None or value.kind is not ValueKind.INSTANT:
        return ()
    time = int(value.order_key)
    shifted = [
        (limit, time if limit.later == point else -time) for limit in comparison_limits(point, operator, ORIGIN, reason)
    ]
    return tuple(Limit(limit.later, limit.earlier, limit.max_difference + shift, reason) for limit, shift in shifted)


def condition_relations(condition: Expr, instants: Instants, reason: str) -> RelationConstraint | None:
    """The Allen relations in which a condition on the times of two events can be true; None for other conditions.

    >>> from motet.sparql.parse_cache import parse_expression
    >>> times = {"s": start(1), "e": end(1), "s2": start(2), "e2": end(2)}
    >>> apart = condition_relations(parse_expression("?e < ?s2 || ?e2 < ?s"), times, "")
    >>> sorted(relation.value for relation in apart.relations)
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

    return RelationConstraint(left, right, relations_where(may_hold), reason)


def same_instant(first: Point, second: Point, reason: str) -> RelationConstraint | None:
    """The relations in which an end of one occurrence is an end of another."""
    if first.occurrence == second.occurrence:
        return None
    condition = Compare("=", Variable("first"), Variable("second"))
    return condition_relations(condition, {"first": first, "second": second}, reason)


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


def _holds(condition: Expr, instants: Mapping[str, int]) -> bool:
    match condition:
        case And(parts):
            return all(_holds(part, instants) for part in parts)
        case Or(parts):
            return any(_holds(part, instants) for part in parts)
        case Not(operand):
            return not _holds(operand, instants)
        case Compare(operator, Variable(left), Variable(right)):
            first, second = instants[left], instants[right]
            less, equal = first < second, first == second
            truths = {"<": less, "<=": less or equal, "=": equal, "!=": not equal, ">=": not less}
            return truths.get(operator, not (less or equal))
    raise AssertionError(condition)  # _orders_only excludes other expressions
