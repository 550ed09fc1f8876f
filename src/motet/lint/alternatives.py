"""One alternative of a pattern: the constraints on times and values that all its occurrences fulfil.

A pattern with OR has several alternatives. An alternative describes an occurrence *and* a witness of each leaf below
it, so that the constraints of leaves and operators can be combined. A constraint is included only if every occurrence
fulfils it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import count

from motet.language.syntax import Event
from motet.lint.conditions import binds, contradiction
from motet.lint.time_limits import (
    Limit,
    Point,
    RelationConstraint,
    condition_limits,
    condition_relations,
    end,
    find_conflict,
    same_instant,
    start,
)
from motet.lint.value_types import TypeStatement, body_types, type_test
from motet.model.intervals import Relations
from motet.model.intervals import contradiction as relation_contradiction
from motet.model.terms import XSD, literal
from motet.model.times import END_OF_TIME, START_OF_TIME, format_datetime
from motet.plan.text import shorten
from motet.sparql import algebra
from motet.sparql.algebra import elements
from motet.sparql.scope import certainly_bound, mentioned, renamed
from motet.sparql.write import expression_text

MAX_LIMITS = 200  # beyond this, the constraints on times are dropped
MAX_OCCURRENCES = 24  # in a network of Allen relations
MAX_CONDITIONS = 60

_fresh = count()  # numbers for the names of hidden variables


@dataclass(frozen=True, slots=True)
class StatedCondition:
    """A condition over the alternative's certain variables, and its text."""

    condition: algebra.Expr
    text: str


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Why an alternative cannot occur. Reasons without text are empty."""

    about_times: bool
    reasons: tuple[str, ...]
    about_types: bool = False
    by_ontology: bool = False  # events that disagree with the ontology could occur

    def text(self) -> str:
        return "; ".join(dict.fromkeys(reason for reason in self.reasons if reason))


@dataclass(frozen=True, slots=True)
class PatternAlternative:
    """The constraints of one alternative.

    ``certain`` are the variables every occurrence binds, ``possible`` those it may bind. ``instants`` maps certain
    variables to the start or end they are.
    """

    occurrence: int
    certain: frozenset[str] = frozenset()
    possible: frozenset[str] = frozenset()
    instants: Mapping[str, Point] = field(default_factory=dict)
    limits: tuple[Limit, ...] = ()
    relations: tuple[RelationConstraint, ...] = ()
    conditions: tuple[StatedCondition, ...] = ()

    def with_limits(self, *limits: Limit) -> PatternAlternative:
        return replace(self, limits=(*self.limits, *limits))

    def with_max_duration(self, duration: int | None, why: str) -> PatternAlternative:
        """The alternative with a maximum duration."""
        if duration is None:
            return self
        return self.with_limits(Limit(end(self.occurrence), start(self.occurrence), duration, why))

    def retain_certain(self, names: frozenset[str]) -> PatternAlternative:
        """The alternative in which only these variables are certain; other variables are hidden in conditions."""
        certain = self.certain & names
        return replace(
            self,
            certain=certain,
            instants={name: point for name, point in self.instants.items() if name in certain},
            conditions=_hide_variables(self.conditions, certain),
        )

    def project(self, names: frozenset[str]) -> PatternAlternative:
        """The alternative with only these variables visible outside."""
        return replace(self.retain_certain(names), possible=self.possible & names)

    def with_conditions(self, conditions: Iterable[algebra.Expr], text: str | None = None) -> PatternAlternative:
        """The alternative with more conditions. A variable that they require becomes certain."""
        return self.with_stated(
            [StatedCondition(condition, text or condition_text(condition)) for condition in conditions]
        )

    def with_stated(self, stated: Sequence[StatedCondition]) -> PatternAlternative:
        """The same for conditions with texts of their own."""
        conditions = [each.condition for each in stated]
        names = frozenset().union(*map(mentioned, conditions)) & self.possible
        certain = self.certain | {name for name in names - self.certain if binds(conditions, name)}
        limits = [
            limit
            for each in stated
            for limit in condition_limits(each.condition, self.instants, f"FILTER({each.text})")
        ]
        related = [condition_relations(each.condition, self.instants, f"FILTER({each.text})") for each in stated]
        return replace(
            self,
            certain=certain,
            limits=(*self.limits, *limits),
            relations=(*self.relations, *(relation for relation in related if relation)),
            conditions=(*self.conditions, *_hide_variables(stated, certain)),
        )

    def contradiction(self) -> Contradiction | None:
        values = contradiction([stated.condition for stated in self.conditions], bound=self.certain)
        if values:
            blamed = [stated for stated in self.conditions if stated.condition in values]
            tests = [test for stated in blamed if (test := type_test(stated.condition)) is not None]
            reasons = tuple(stated.text for stated in blamed)
            return Contradiction(False, reasons, bool(tests), any(test.by_ontology for test in tests))
        times = find_conflict(self.limits)
        if times:
            return Contradiction(True, tuple(limit.reason for limit in times))
        return self._relation_contradiction()

    def _relation_contradiction(self) -> Contradiction | None:
        """A contradiction by Allen path consistency, where FILTERs restrict more than limits can."""
        occurrences = {occurrence for constraint in self.relations for occurrence in constraint[:2]}
        has_filter = any(constraint.reason.startswith("FILTER") for constraint in self.relations)
        if len(occurrences) > MAX_OCCURRENCES or not has_filter:
            return None
        network: dict[tuple[int, int], Relations] = {}
        for left, right, relations, _ in self.relations:
            network[left, right] = network.get((left, right), relations) & relations
        return (
            Contradiction(True, tuple(constraint.reason for constraint in self.relations))
            if relation_contradiction(network)
            else None
        )

    def truncated(self) -> PatternAlternative:
        """The alternative with fewer constraints when there are too many to examine."""
        if len(self.limits) > MAX_LIMITS or len(self.relations) > MAX_LIMITS:
            return replace(self, limits=(), relations=(), conditions=self.conditions[:MAX_CONDITIONS])
        return replace(self, conditions=self.conditions[:MAX_CONDITIONS])


def join_alternatives(
    occurrence: int, left: PatternAlternative, right: PatternAlternative, *, agreeing: bool
) -> PatternAlternative:
    """The constraints of two alternatives that are joined; constraints between their times only by shared variables.

    ``agreeing``: only variables that both bind certainly have a value, as in the cumulative context.
    """
    certain = left.certain & right.certain if agreeing else left.certain | right.certain
    both = {
        name for name in left.instants.keys() & right.instants.keys() if left.instants[name] != right.instants[name]
    }
    pairs = [
        (left.instants[name], right.instants[name], f"?{name} is the same instant on both sides")
        for name in sorted(both)
    ]
    limits = [Limit(*points, 0, why) for a, b, why in pairs for points in ((a, b), (b, a))]
    related = [same_instant(*pair) for pair in pairs]
    return PatternAlternative(
        occurrence,
        certain,
        left.possible | right.possible,
        {name: point for name, point in {**left.instants, **right.instants}.items() if name in certain},
        (*left.limits, *right.limits, *limits),
        (*left.relations, *right.relations, *(relation for relation in related if relation)),
        (*_hide_variables(left.conditions, certain), *_hide_variables(right.conditions, certain)),
    )


def _hide_variables(stated: Iterable[StatedCondition], names: frozenset[str]) -> tuple[StatedCondition, ...]:
    """The conditions with all other variables renamed to unique names."""
    renaming: dict[str, str] = {}

    def hidden(name: str) -> str:
        if name in names or name.startswith("."):
            return name
        return renaming.setdefault(name, f".{next(_fresh)}")

    return tuple(StatedCondition(renamed(each.condition, hidden), each.text) for each in stated)


def condition_text(condition: algebra.Expr) -> str:
    return shorten(expression_text(condition))


@dataclass(frozen=True, slots=True)
class BodyConstraints:
    """The conditions that all solutions of a body satisfy, the variables all bind, and a contradiction, if any.

    ``instants`` has the conditions that the variables of DURING are times.
    """

    conditions: tuple[algebra.Expr, ...] = ()
    instants: tuple[tuple[str, tuple[algebra.Expr, ...]], ...] = ()
    certain: frozenset[str] = frozenset()
    types: tuple[TypeStatement, ...] = ()
    contradiction: tuple[algebra.Expr, ...] | None = None  # contradicting conditions; empty for VALUES without rows


@lru_cache(maxsize=4096)
def body_constraints(event: Event) -> BodyConstraints:
    """The constraints of an EVENT's body.

    >>> from motet.language.syntax import GroupPattern
    >>> body = body_constraints(Event("a", body=GroupPattern("VALUES ?x { 1 2 } FILTER ( ?x > 3 )", frozenset({"x"}))))
    >>> len(body.conditions), sorted(body.certain), len(body.contradiction)
    (2, ['a', 'x'], 2)
    """
    pattern = event.body.algebra if event.body else None
    times = tuple((name, _is_instant(name)) for name in event.times or ())
    certain = frozenset({event.name, *(event.times or ())})
    if pattern is None:
        of_block = event.xml.variables if event.xml is not None else frozenset()
        return BodyConstraints((), times, certain | of_block, body_types(event))
    bound = frozenset(name for name in certainly_bound(pattern) if not algebra.is_hidden(name)) | certain
    return BodyConstraints(group_conditions(pattern), times, bound, body_types(event), body_contradiction(pattern))


def group_conditions(pattern: algebra.Algebra) -> tuple[algebra.Expr, ...]:
    """The conditions that hold for every solution of a group, one conjunct each."""
    if isinstance(pattern, algebra.Filter):
        return (*group_conditions(pattern.operand), *conjuncts(pattern.condition))
    return tuple(condition for element in elements(pattern) for condition in _of_element(element))


def conjuncts(condition: algebra.Expr) -> tuple[algebra.Expr, ...]:
    if isinstance(condition, algebra.And):
        return tuple(conjunct for part in condition.parts for conjunct in conjuncts(part))
    return (condition,)


def body_contradiction(pattern: algebra.Algebra) -> tuple[algebra.Expr, ...] | None:
    """The conditions because of which a pattern has no solution; None when it may have some."""
    match pattern:
        case algebra.Values(_, rows):
            return None if rows else ()
        case algebra.Join(left, right):
            return _first(body_contradiction(left), body_contradiction(right))
        case algebra.Union(left, right):
            first, second = body_contradiction(left), body_contradiction(right)
            return None if first is None or second is None else first
        case algebra.LeftJoin(operand, _) | algebra.Minus(operand, _) | algebra.Extend(operand, _, _):
            return body_contradiction(operand)
        case algebra.Filter(operand, _):
            return _first(body_contradiction(operand), contradiction(group_conditions(pattern)) or None)
    return None


def _first(*blamed: tuple[algebra.Expr, ...] | None) -> tuple[algebra.Expr, ...] | None:
    return next((conditions for conditions in blamed if conditions is not None), None)


def _of_element(element: algebra.Algebra) -> tuple[algebra.Expr, ...]:
    """The conditions of an element on the solutions of its group: VALUES and a constant BIND are choices of terms."""
    match element:
        case algebra.Join(_, algebra.Values((name,), rows)):
            terms = [row[0] for row in rows]
            return (
                (algebra.In(algebra.Variable(name), tuple(algebra.Constant(term) for term in terms if term)),)
                if None not in terms
                else ()
            )
        case algebra.Join(_, algebra.Filter() as group):
            return group_conditions(group)
        case algebra.Extend(_, name, algebra.Constant() as constant):
            return (algebra.Compare("=", algebra.Variable(name), constant),)
    return ()


def _is_instant(name: str) -> tuple[algebra.Expr, ...]:
    """The variable of a start or end is an xsd:dateTime."""
    ends = [
        algebra.Constant(literal(format_datetime(time), datatype=XSD + "dateTime"))
        for time in (START_OF_TIME, END_OF_TIME)
    ]
    return algebra.Compare(">=", algebra.Variable(name), ends[0]), algebra.Compare(
        "<=", algebra.Variable(name), ends[1]
    )
