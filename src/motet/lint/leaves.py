"""What every solution of an EVENT's body must satisfy, and whether it can have a solution at all."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from motet.language.syntax import Event
from motet.lint.conditions import contradiction
from motet.model.terms import XSD, literal
from motet.model.times import END_OF_TIME, START_OF_TIME, format_datetime
from motet.sparql.algebra import (
    Algebra,
    And,
    Compare,
    Constant,
    Expr,
    Extend,
    Filter,
    In,
    Join,
    LeftJoin,
    Minus,
    Union,
    Values,
    Variable,
    is_hidden,
)
from motet.sparql.rewrite import elements
from motet.sparql.scope import certainly_bound


@dataclass(frozen=True, slots=True)
class Body:
    """The conditions all solutions satisfy, the variables all bind, and what contradicts itself, if anything does.

    ``instants`` says of the variables of DURING that they are times.
    """

    conditions: tuple[Expr, ...] = ()
    instants: tuple[tuple[str, tuple[Expr, ...]], ...] = ()
    certain: frozenset[str] = frozenset()
    impossible: tuple[Expr, ...] | None = None  # the conditions to blame; none for VALUES without rows


@lru_cache(maxsize=4096)
def body_of(event: Event) -> Body:
    """
    >>> from motet.language.syntax import GroupPattern
    >>> body = body_of(Event("a", body=GroupPattern("VALUES ?x { 1 2 } FILTER ( ?x > 3 )", frozenset({"x"}))))
    >>> len(body.conditions), sorted(body.certain), len(body.impossible)
    (2, ['a', 'x'], 2)
    """
    pattern = event.body.algebra if event.body else None
    times = tuple((name, _is_instant(name)) for name in event.times or ())
    certain = frozenset({event.name, *(event.times or ())})
    if pattern is None:
        return Body((), times, certain)
    bound = frozenset(name for name in certainly_bound(pattern) if not is_hidden(name)) | certain
    return Body(conditions_of(pattern), times, bound, impossible(pattern))


def conditions_of(pattern: Algebra) -> tuple[Expr, ...]:
    """What is true of every solution of a group, one conjunct each."""
    if isinstance(pattern, Filter):
        return (*conditions_of(pattern.operand), *conjuncts(pattern.condition))
    return tuple(condition for element in elements(pattern) for condition in _of_element(element))


def conjuncts(condition: Expr) -> tuple[Expr, ...]:
    if isinstance(condition, And):
        return tuple(one for part in condition.parts for one in conjuncts(part))
    return (condition,)


def impossible(pattern: Algebra) -> tuple[Expr, ...] | None:
    """The conditions because of which a pattern has no solution; None when it may have some."""
    match pattern:
        case Values(_, rows):
            return None if rows else ()
        case Join(left, right):
            return _first(impossible(left), impossible(right))
        case Union(left, right):
            one, other = impossible(left), impossible(right)
            return None if one is None or other is None else one
        case LeftJoin(operand, _) | Minus(operand, _) | Extend(operand, _, _):
            return impossible(operand)
        case Filter(operand, _):
            return _first(impossible(operand), contradiction(conditions_of(pattern)) or None)
    return None


def _first(*blamed: tuple[Expr, ...] | None) -> tuple[Expr, ...] | None:
    return next((found for found in blamed if found is not None), None)


def _of_element(element: Algebra) -> tuple[Expr, ...]:
    """What an element says of the solutions of its group: VALUES and a constant BIND are choices of terms."""
    match element:
        case Join(_, Values((name,), rows)):
            terms = [row[0] for row in rows]
            return (In(Variable(name), tuple(Constant(term) for term in terms if term)),) if None not in terms else ()
        case Join(_, Filter() as group):
            return conditions_of(group)
        case Extend(_, name, Constant() as constant):
            return (Compare("=", Variable(name), constant),)
    return ()


def _is_instant(name: str) -> tuple[Expr, ...]:
    """The variable of a start or end is an xsd:dateTime."""
    ends = [
        Constant(literal(format_datetime(time), datatype=XSD + "dateTime")) for time in (START_OF_TIME, END_OF_TIME)
    ]
    return Compare(">=", Variable(name), ends[0]), Compare("<=", Variable(name), ends[1])
