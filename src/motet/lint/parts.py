"""One way in which a pattern may occur: what is known for certain about its times and values.

A pattern with OR has several such parts. A part stands for an occurrence *and* a witness of each leaf below it, so that
what the leaves and operators ask can be put side by side. What is known is never more than what every occurrence
fulfils: where nothing is certain, nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from motet.lint.conditions import binds
from motet.lint.conditions import contradiction as contradiction_of_values
from motet.lint.instants import Related, limits_of, relations_of, same_instant
from motet.lint.points import Limit, Point, conflict, end, start
from motet.model.intervals import Relations, contradiction
from motet.plan.text import shorten
from motet.sparql.algebra import Expr
from motet.sparql.scope import mentioned, renamed
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
        values = contradiction_of_values([one.condition for one in self.conditions], bound=self.certain)
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
        return Contradiction(True, tuple(one.why for one in self.relations)) if contradiction(network) else None

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
