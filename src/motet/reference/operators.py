"""The occurrences of a pattern (language page, section 5), one branch per row of the table.

The context's part in pairing is in ``contexts``, the members of iterations in ``iterations``. Beside the occurrences
themselves each branch says, with ``not_before``, up to where its definition looks: the record that moves the frontier
past that instant is the one that makes the occurrence final.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from motet.language.syntax import (
    Alongside,
    And,
    Context,
    Expression,
    Filter,
    Leaf,
    No,
    Or,
    Pairing,
    Pattern,
    Run,
    Timed,
    Times,
    Unless,
    Within,
    Without,
    Xor,
)
from motet.model.times import END_OF_TIME
from motet.reference.contexts import Produced, pair
from motet.reference.iterations import fitting, runs, sliding, tumbling
from motet.reference.occurrences import (
    NEVER,
    Occurrence,
    compatible,
    completion_order,
    distinct,
    hull,
    join,
    joinable,
    merge,
    not_before,
    project,
)
from motet.reference.sparql import holds
from motet.reference.visibility import Variables, Visibility


@dataclass(frozen=True)
class Place:
    """Where a pattern stands inside its subscription."""

    outside: Variables  # variables of the leaves and FILTERs outside it and of the delivery clause
    bound: int | None = None  # of the nearest enclosing WITHIN
    condition: Expression | None = None  # the FILTER directly over it
    inside_iteration: bool = False

    def below(self, *beside: Variables, inside_iteration: bool = False) -> Place:
        """The place of an operand; ``beside`` are the variables of the other operands.

        “Inheritance passes through every operator”, so the bound stays; a FILTER reaches only the operator it is on.
        """
        outside = self.outside.union(*beside)
        return Place(outside, self.bound, inside_iteration=inside_iteration or self.inside_iteration)


@dataclass(frozen=True)
class Evaluator:
    """Evaluates the patterns of one subscription.

    ``match`` gives the occurrences of a leaf, projected to its visible variables; ``known`` the offset of the record at
    which every occurrence of some patterns that ends at or before an instant is known; ``observe`` is told what each
    sub-pattern has produced.
    """

    visibility: Visibility
    context: Context
    since: int | None
    match: Callable[[str, Variables], list[Occurrence]]
    known: Callable[[int, int | None, tuple[Pattern, ...]], int]
    observe: Callable[[Pattern, Sequence[Produced]], object] = lambda pattern, produced: None

    def occurrences(self, pattern: Pattern, place: Place) -> list[Occurrence]:
        """“A result stays if any of the pairs that produce it survives.”"""
        return distinct(produced.result for produced in self.produced(pattern, place))

    def produced(self, pattern: Pattern, place: Place) -> list[Produced]:
        """The occurrences of a pattern; those of a pairing operator with the pairs they come from, for WITHOUT."""
        produced = self._produced(pattern, place)
        self.observe(pattern, produced)
        return produced

    def _produced(self, pattern: Pattern, place: Place) -> list[Produced]:
        match pattern:
            case And() | Timed() | Alongside():
                return self._paired(pattern, place)
            case Within():
                return self._within(pattern, place)
            case Filter():
                return self._filtered(pattern, place)
            case Unless():
                return list(self._unless(pattern, place))
            case Without():
                return list(self._without(pattern, place))
            case Leaf(name):
                inside = place.inside_iteration
                found = self.match(name, self.visibility.leaf(name, place.outside, inside_iteration=inside))
            case Or():
                found = self._either(pattern, place)
            case Xor():
                found = list(self._xor(pattern, place))
            case No():
                found = self._no(pattern, place)
            case Times():
                found = self._times(pattern, place)
            case Run():
                found = self._runs(pattern, place)
        return [Produced(occurrence) for occurrence in found]

    def _paired(self, pattern: Pairing, place: Place) -> list[Produced]:
        """“`A AND B`: every `a ⋈ b`”, “`A <Allen> B`: every `a ⋈ b` where the relation of section 6 holds” and so on.

        In the unrestricted context a pair is final with its parts. In the others it depends on everything merged before
        the part that completed it, whose end is its own end.
        """
        left, right = self._places(pattern, place)

        def admits(a: Occurrence, b: Occurrence) -> bool:
            return (
                joinable(a, b)
                and related(pattern, a, b)
                and (place.bound is None or hull(a, b) <= place.bound)
                and (place.condition is None or true(place.condition, join(a, b)))
            )

        produced = pair(
            self.context,
            self.occurrences(pattern.left, left),
            self.occurrences(pattern.right, right),
            self._shared(pattern, left, right),
            admits,
        )
        if self.context is Context.UNRESTRICTED:
            return produced
        return [self._looking_to(found, found.result.end, place, pattern.left, pattern.right) for found in produced]

    def _shared(self, pattern: Pairing, left: Place, right: Place) -> Variables:
        """“Shared variables of an operator are those visible in both of its operands.”"""
        inside = left.inside_iteration
        return self.visibility.visible(pattern.left, left.outside, inside_iteration=inside) & self.visibility.visible(
            pattern.right, right.outside, inside_iteration=inside
        )

    def _either(self, pattern: Or, place: Place) -> list[Occurrence]:
        """“every `a` and every `b` (variables of the other side unbound)”"""
        left, right = self._places(pattern, place)
        return self.occurrences(pattern.left, left) + self.occurrences(pattern.right, right)

    def _xor(self, pattern: Xor, place: Place) -> Iterator[Occurrence]:
        """“every `a` with no compatible `b` such that the hull of both is at most `d`, and every `b` likewise; […]
        one event on both sides counts as both”

        Such a `b` ends at `a.start + d` at the latest; an `a` longer than `d` has none and looks at nothing.
        """
        left, right = self._places(pattern, place)
        many, others = self.occurrences(pattern.left, left), self.occurrences(pattern.right, right)
        for own, opposite, other in ((many, others, pattern.right), (others, many, pattern.left)):
            for a in own:
                if not any(compatible(a, b) and hull(a, b) <= pattern.window for b in opposite):
                    looks = a.end - a.start <= pattern.window
                    yield self._after(a, a.start + pattern.window, place, other) if looks else a

    def _within(self, pattern: Within, place: Place) -> list[Produced]:
        """“those with `end - start <= d`”

        A pairing operator or iteration directly below “carries” the bound and one further below inherits it: both
        find it as the nearest enclosing one.
        """
        produced = self.produced(pattern.operand, replace(place.below(), bound=pattern.bound))
        return [found for found in produced if found.result.end - found.result.start <= pattern.bound]

    def _filtered(self, pattern: Filter, place: Place) -> list[Produced]:
        """“A FILTER directly over a pairing operator is carried by it: it decides which candidates count (section 7).
        Elsewhere it filters.”
        """
        inner = place.below(pattern.condition.variables)
        if isinstance(pattern.operand, And | Timed | Alongside):
            return self.produced(pattern.operand, replace(inner, condition=pattern.condition))
        return [found for found in self.produced(pattern.operand, inner) if true(pattern.condition, found.result)]

    def _unless(self, pattern: Unless, place: Place) -> Iterator[Produced]:
        """“every `a` with no compatible `b` such that `a.end < b.start` and `b.end <= a.end + d`”"""
        operand, absent = self._guarded_places(pattern, place)
        others = self.occurrences(pattern.absent, absent)
        for found in self.produced(pattern.operand, operand):
            a, limit = found.result, found.result.end + pattern.window
            if not any(compatible(a, b) and a.end < b.start and b.end <= limit for b in others):
                yield self._looking_to(found, limit, place, pattern.absent)

    def _without(self, pattern: Without, place: Place) -> Iterator[Produced]:
        """“every pair with no `b` compatible with both and `a.end < b.start` and `b.end < c.start`”; “pairs whose
        left part does not end before the right one starts pass”.
        """
        operand, absent = self._guarded_places(pattern, place)
        others = self.occurrences(pattern.absent, absent)
        for found in self.produced(pattern.operand, operand):
            a, c = found.left, found.right
            assert a is not None and c is not None, "WITHOUT stands over a pairing operator"
            if not a.end < c.start:
                yield found
            elif not any(compatible(a, b) and compatible(b, c) and a.end < b.start and b.end < c.start for b in others):
                yield self._looking_to(found, c.start - 1, place, pattern.absent)

    def _no(self, pattern: No, place: Place) -> list[Occurrence]:
        """“`(∅, p, p+d, ∅)` for each start point `p` with no `a` such that `p < a.start` and `a.end <= p + d`; start
        points: `SINCE` if given, and every `a.end`”

        An absence that would end after the end of time never completes.
        """
        many = self.occurrences(pattern.operand, place.below())
        points = {a.end for a in many} | ({self.since} if self.since is not None else set())
        return [
            self._after(
                Occurrence(frozenset(), p, p + pattern.duration, (), members=frozenset({()})),
                p + pattern.duration,
                place,
                pattern.operand,
            )
            for p in sorted(points)
            if p + pattern.duration <= END_OF_TIME
            and not any(p < a.start and a.end <= p + pattern.duration for a in many)
        ]

    def _times(self, pattern: Times, place: Place) -> list[Occurrence]:
        """“`n` successive `a` in completion order, per value of the variables visible outside; tumbling in chronicle,
        continuous and cumulative, sliding otherwise”

        What stands between or before the members ends no later than the last one.
        """
        group = sliding if self.context in (Context.UNRESTRICTED, Context.RECENT) else tumbling
        return [
            self._after(whole(members), members[-1].end, place, pattern.operand)
            for key in self._keys(pattern, place)
            for members in group(key, pattern.count, pattern.gap, place.bound)
        ]

    def _runs(self, pattern: Run, place: Place) -> list[Occurrence]:
        """“each maximal run of successive `a` in completion order with `next.end - previous.end <= d`, at least one”

        A member that prolongs the run ends within the gap, and within the bound from the run's start.
        """
        return [
            self._after(run, _last_chance(run, members[-1].end + pattern.gap, place.bound), place, pattern.operand)
            for key in self._keys(pattern, place)
            for members in runs(key, pattern.gap, place.bound)
            for run in [whole(members)]
        ]

    def _keys(self, pattern: Times | Run, place: Place) -> list[list[Occurrence]]:
        """“Members are first projected to the variables visible outside and made distinct; they need not be disjoint.
        As a key, unbound is a value of its own.”
        """
        visible = self.visibility.visible(pattern, place.outside, inside_iteration=True)
        found = self.occurrences(pattern.operand, place.below(inside_iteration=True))
        members = distinct(replace(member, bindings=project(member.bindings, visible)) for member in found)
        by_key = sorted(members, key=lambda member: member.bindings)
        keys = [sorted(same, key=completion_order) for _, same in groupby(by_key, key=lambda member: member.bindings)]
        return [fitting(key, place.bound) for key in keys]

    def _places(self, pattern: Pairing | Or | Xor, place: Place) -> tuple[Place, Place]:
        occurring = self.visibility.occurring
        return place.below(occurring(pattern.right)), place.below(occurring(pattern.left))

    def _guarded_places(self, pattern: Unless | Without, place: Place) -> tuple[Place, Place]:
        occurring = self.visibility.occurring
        return place.below(occurring(pattern.absent)), place.below(occurring(pattern.operand))

    def _after(self, o: Occurrence, instant: int, place: Place, *looked_at: Pattern) -> Occurrence:
        """Final only when all occurrences of the patterns looked at that end at or before the instant are known."""
        return o if o.emitted == NEVER else not_before(o, self.known(instant, place.bound, looked_at))

    def _looking_to(self, found: Produced, instant: int, place: Place, *looked_at: Pattern) -> Produced:
        return replace(found, result=self._after(found.result, instant, place, *looked_at))


def related(pattern: Pairing, a: Occurrence, b: Occurrence) -> bool:
    """The condition a pairing operator puts on the two intervals, in its written direction."""
    match pattern:
        case And():
            return True
        case Alongside():
            return max(a.start, b.start) <= min(a.end, b.end)
        case Timed(relation):
            return relation.holds(a.interval, b.interval)


def true(condition: Expression, o: Occurrence) -> bool:
    return holds(condition.text, project(o.bindings, condition.variables), condition.variables)


def whole(members: Iterable[Occurrence]) -> Occurrence:
    """The occurrence of an iteration: all events, the hull, the key's bindings."""
    members = list(members)
    return merge(members, frozenset(member for part in members for member in part.members))


def _last_chance(run: Occurrence, gap_ends: int, bound: int | None) -> int:
    return gap_ends if bound is None else min(gap_ends, run.start + bound)
