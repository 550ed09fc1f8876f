"""What a condition on the variables of DURING says about starts and ends: limits, and Allen relations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from motet.lint.points import ORIGIN, Limit, Point, compared, end, start
from motet.lint.values import Kind, value_of
from motet.model.intervals import Interval, Relations, relations_where
from motet.sparql.algebra import And, Compare, Constant, Expr, Not, Or, Variable
from motet.sparql.scope import mentioned

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
