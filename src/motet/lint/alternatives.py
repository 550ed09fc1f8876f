"""One alternative of a pattern: the constraints on times and values that all its occurrences fulfil.

A pattern with OR has several alternatives. An alternative describes an occurrence *and* a witness of each leaf below
it, so that the constraints of leaves and operators can be combined. A constraint is included only if every occurrence
fulfils it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import count

from motet.language.syntax import Event
from motet.lint.conditions import binds, contradiction
from motet.lint.time_limits import Limit, Point, Related, conflict, end, limits_of, relations_of, same_instant, start
from motet.model.intervals import Relations
from motet.model.intervals import contradiction as relation_contradiction
from motet.model.terms import XSD, literal
from motet.model.times import END_OF_TIME, START_OF_TIME, format_datetime
from motet.plan.text import shorten
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
from motet.sparql.scope import certainly_bound, mentioned, renamed
from motet.sparql.write import expression_text

MAX_LIMITS = 200  # beyond these, a part forgets what it knows of times
MAX_OCCURRENCES = 24  # in a network of Allen relations
MAX_CONDITIONS = 40

_fresh = count()  # names for variables that no one else can see; only their being different matters


@dataclass(frozen=True, slots=True)
class Stated:
    """A condition over the part's certain variables, and how it was written."""

    condition: Expr
    text: str


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Why a part cannot occur. Reasons that need no words are empty."""

    about_times: bool
    reasons: tuple[str, ...]

    def words(self) -> str:
        return "; ".join(dict.fromkeys(reason for reason in self.reasons if reason))


@dataclass(frozen=True, slots=True)
class Part:
    """What is certain about one way to occur.

    ``certain`` are the variables every occurrence binds, ``possible`` those it may bind. ``instants`` says of certain
    variables which start or end they are.
    """

    occurrence: int
    certain: frozenset[str] = frozenset()
    possible: frozenset[str] = frozenset()
    instants: Mapping[str, Point] = field(default_factory=dict)
    limits: tuple[Limit, ...] = ()
    relations: tuple[Related, ...] = ()
    conditions: tuple[Stated, ...] = ()

    def limited(self, *limits: Limit) -> Part:
        return replace(self, limits=(*self.limits, *limits))

    def lasting(self, most: int | None, why: str) -> Part:
        """With a length that is bounded."""
        if most is None:
            return self
        return self.limited(Limit(end(self.occurrence), start(self.occurrence), most, why))

    def forgetting(self, kept: frozenset[str]) -> Part:
        """Only these variables are certain; conditions on others are kept for what they are worth."""
        certain = self.certain & kept
        return replace(
            self,
            certain=certain,
            instants={name: point for name, point in self.instants.items() if name in certain},
            conditions=_hiding(self.conditions, certain),
        )

    def restricted(self, names: frozenset[str]) -> Part:
        """Only these variables can be seen from outside."""
        return replace(self.forgetting(names), possible=self.possible & names)

    def stating(self, conditions: Iterable[Expr], words: str | None = None) -> Part:
        """With conditions that are true of it. A variable that they need becomes certain."""
        conditions = tuple(conditions)
        names = frozenset().union(*map(mentioned, conditions)) & self.possible
        certain = self.certain | {name for name in names - self.certain if binds(conditions, name)}
        stated = [Stated(condition, words or condition_text(condition)) for condition in conditions]
        limits = [limit for one in stated for limit in limits_of(one.condition, self.instants, f"FILTER({one.text})")]
        related = [relations_of(one.condition, self.instants, f"FILTER({one.text})") for one in stated]
        return replace(
            self,
            certain=certain,
            limits=(*self.limits, *limits),
            relations=(*self.relations, *(one for one in related if one)),
            conditions=(*self.conditions, *_hiding(stated, certain)),
        )

    def contradiction(self) -> Contradiction | None:
        values = contradiction([one.condition for one in self.conditions], bound=self.certain)
        if values:
            return Contradiction(False, tuple(one.text for one in self.conditions if one.condition in values))
        times = conflict(self.limits)
        if times:
            return Contradiction(True, tuple(limit.why for limit in times))
        return self._unrelated()

    def _unrelated(self) -> Contradiction | None:
        """Path consistency, where FILTERs say more than limits can."""
        places = {place for related in self.relations for place in related[:2]}
        if len(places) > MAX_OCCURRENCES or not any(one.why.startswith("FILTER") for one in self.relations):
            return None
        network: dict[tuple[int, int], Relations] = {}
        for left, right, relations, _ in self.relations:
            network[left, right] = network.get((left, right), relations) & relations
        return (
            Contradiction(True, tuple(one.why for one in self.relations)) if relation_contradiction(network) else None
        )

    def modest(self) -> Part:
        """The same with less knowledge when there is too much of it to reckon with."""
        if len(self.limits) > MAX_LIMITS or len(self.relations) > MAX_LIMITS:
            return replace(self, limits=(), relations=(), conditions=self.conditions[:MAX_CONDITIONS])
        return replace(self, conditions=self.conditions[:MAX_CONDITIONS])


def together(occurrence: int, left: Part, right: Part, *, agreeing: bool) -> Part:
    """What is known when two parts are joined; of the times only what their variables say.

    ``agreeing``: only variables that both bind are sure to have a value, as in the cumulative context.
    """
    certain = left.certain & right.certain if agreeing else left.certain | right.certain
    both = {
        name for name in left.instants.keys() & right.instants.keys() if left.instants[name] != right.instants[name]
    }
    pairs = [
        (left.instants[name], right.instants[name], f"?{name} is the same instant on both sides")
        for name in sorted(both)
    ]
    limits = [Limit(*places, 0, why) for one, other, why in pairs for places in ((one, other), (other, one))]
    related = [same_instant(*pair) for pair in pairs]
    return Part(
        occurrence,
        certain,
        left.possible | right.possible,
        {name: point for name, point in {**left.instants, **right.instants}.items() if name in certain},
        (*left.limits, *right.limits, *limits),
        (*left.relations, *right.relations, *(one for one in related if one)),
        (*_hiding(left.conditions, certain), *_hiding(right.conditions, certain)),
    )


def _hiding(stated: Iterable[Stated], names: frozenset[str]) -> tuple[Stated, ...]:
    """The conditions with all other variables renamed, so that they are taken for no one else's."""
    own: dict[str, str] = {}

    def hidden(name: str) -> str:
        if name in names or name.startswith("."):
            return name
        return own.setdefault(name, f".{next(_fresh)}")

    return tuple(Stated(renamed(one.condition, hidden), one.text) for one in stated)


def condition_text(condition: Expr) -> str:
    return shorten(expression_text(condition))


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
