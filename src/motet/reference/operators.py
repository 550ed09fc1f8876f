"""The occurrences of a pattern (language page, section 5), one branch per row of the table of operators.

``contexts`` has the rules of the five contexts for pairs, ``iterations`` the members of iterations. Each branch also
states, with ``final_from``, the last instant its definition depends on: the record that moves the frontier past that
instant makes the occurrence final.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from motet.language import syntax
from motet.model.times import END_OF_TIME
from motet.reference.contexts import PatternResult, pair
from motet.reference.iterations import fitting, runs, sliding, tumbling
from motet.reference.occurrences import (
    NEVER,
    Occurrence,
    compatible,
    completion_order,
    distinct,
    final_from,
    hull,
    join,
    joinable,
    merge,
    project,
)
from motet.reference.sparql import holds
from motet.reference.visibility import Variables, Visibility


@dataclass(frozen=True)
class Scope:
    """What a sub-pattern inherits from the patterns around it."""

    outside: Variables  # variables of the leaves and FILTERs outside it and of the delivery clause
    bound: int | None = None  # of the nearest enclosing WITHIN
    condition: syntax.Expression | None = None  # the FILTER directly over it
    inside_iteration: bool = False

    def operand_scope(self, *siblings: Variables, inside_iteration: bool = False) -> Scope:
        """The scope of an operand; ``siblings`` are the variables of the other operands.

        “Inheritance passes through every operator”, so the bound stays; a FILTER reaches only the operator it is on.
        """
        outside = self.outside.union(*siblings)
        return Scope(outside, self.bound, inside_iteration=inside_iteration or self.inside_iteration)


@dataclass(frozen=True)
class Evaluator:
    """Evaluates the patterns of one subscription.

    ``leaf_occurrences`` returns the occurrences of a leaf, projected to its visible variables. ``decided_at`` returns
    the offset of the record at which every occurrence of some patterns that ends at or before an instant is decided.
    ``observe`` is called with the results of each sub-pattern.
    """

    visibility: Visibility
    context: syntax.Context
    beginning: int | None  # of the subscription
    leaf_occurrences: Callable[[str, Variables], list[Occurrence]]
    decided_at: Callable[[int, int | None, tuple[syntax.Pattern, ...]], int]
    observe: Callable[[syntax.Pattern, Sequence[PatternResult]], object] = lambda pattern, results: None

    def occurrences(self, pattern: syntax.Pattern, scope: Scope) -> list[Occurrence]:
        """“A result stays if any of the pairs that produce it survives.”"""
        return distinct(result.occurrence for result in self.results(pattern, scope))

    def results(self, pattern: syntax.Pattern, scope: Scope) -> list[PatternResult]:
        """The occurrences of a pattern; those of a pairing operator with both sides of each pair, for WITHOUT."""
        results = self._results(pattern, scope)
        self.observe(pattern, results)
        return results

    def _results(self, pattern: syntax.Pattern, scope: Scope) -> list[PatternResult]:
        match pattern:
            case syntax.And() | syntax.Timed() | syntax.Alongside():
                return self._pairs(pattern, scope)
            case syntax.Within():
                return self._within(pattern, scope)
            case syntax.Filter():
                return self._filter(pattern, scope)
            case syntax.Unless():
                return list(self._unless(pattern, scope))
            case syntax.Without():
                return list(self._without(pattern, scope))
            case syntax.Leaf(name):
                inside = scope.inside_iteration
                occurrences = self.leaf_occurrences(
                    name, self.visibility.leaf(name, scope.outside, inside_iteration=inside)
                )
            case syntax.Or():
                occurrences = self._or(pattern, scope)
            case syntax.Xor():
                occurrences = list(self._xor(pattern, scope))
            case syntax.No():
                occurrences = self._no(pattern, scope)
            case syntax.Times():
                occurrences = self._times(pattern, scope)
            case syntax.Run():
                occurrences = self._run(pattern, scope)
        return [PatternResult(occurrence) for occurrence in occurrences]

    def _pairs(self, pattern: syntax.Pairing, scope: Scope) -> list[PatternResult]:
        """“`A AND B`: every `a ⋈ b`”, “`A <Allen> B`: every `a ⋈ b` where the relation of section 6 holds” and so on.

        In the unrestricted context a pair is final with its two sides. In the others it depends on everything merged
        before the side that completed it, which ends when the pair ends.
        """
        left, right = self.operands(pattern, scope)
        results = pair(
            self.context,
            self.occurrences(*left),
            self.occurrences(*right),
            self.shared_variables(pattern, scope),
            lambda a, b: is_candidate_pair(pattern, scope, a, b),
        )
        if self.context is syntax.Context.UNRESTRICTED:
            return results
        return [
            self._result_final_after(result, result.occurrence.end, scope, pattern.left, pattern.right)
            for result in results
        ]

    def shared_variables(self, pattern: syntax.Pairing, scope: Scope) -> Variables:
        """“Shared variables of an operator are those visible in both of its operands.”"""
        left, right = (
            self.visibility.visible(operand, inner.outside, inside_iteration=inner.inside_iteration)
            for operand, inner in self.operands(pattern, scope)
        )
        return left & right

    def _or(self, pattern: syntax.Or, scope: Scope) -> list[Occurrence]:
        """“every `a` and every `b` (variables of the other side unbound)”"""
        left, right = self.operands(pattern, scope)
        return self.occurrences(*left) + self.occurrences(*right)

    def _xor(self, pattern: syntax.Xor, scope: Scope) -> Iterator[Occurrence]:
        """“every `a` with no compatible `b` such that the hull of both is at most `d`, and every `b` likewise; […]
        one event on both sides counts as both”

        Such a `b` ends at `a.start + d` at the latest; an `a` longer than `d` has none and depends on nothing.
        """
        left, right = (self.occurrences(*operand) for operand in self.operands(pattern, scope))
        for side, opposite, opposite_pattern in ((left, right, pattern.right), (right, left, pattern.left)):
            for a in side:
                if not any(compatible(a, b) and hull(a, b) <= pattern.window for b in opposite):
                    depends = a.end - a.start <= pattern.window
                    yield self._final_after(a, a.start + pattern.window, scope, opposite_pattern) if depends else a

    def _within(self, pattern: syntax.Within, scope: Scope) -> list[PatternResult]:
        """“those with `end - start <= d`”

        A pairing operator or iteration directly below “carries” the bound, one further below inherits it: for both it
        is the nearest enclosing bound.
        """
        (operand,) = self.operands(pattern, scope)
        results = self.results(*operand)
        return [result for result in results if result.occurrence.end - result.occurrence.start <= pattern.bound]

    def _filter(self, pattern: syntax.Filter, scope: Scope) -> list[PatternResult]:
        """“A FILTER directly over a pairing operator is carried by it: it decides which candidates count (section 7).
        Elsewhere it filters.”
        """
        (operand,) = self.operands(pattern, scope)
        results = self.results(*operand)
        if isinstance(pattern.operand, syntax.And | syntax.Timed | syntax.Alongside):
            return results
        return [result for result in results if condition_holds(pattern.condition, result.occurrence)]

    def _unless(self, pattern: syntax.Unless, scope: Scope) -> Iterator[PatternResult]:
        """“every `a` with no compatible `b` such that `a.end < b.start` and `b.end <= a.end + d`”"""
        operand, absent = self.operands(pattern, scope)
        negated = self.occurrences(*absent)
        for result in self.results(*operand):
            a, limit = result.occurrence, result.occurrence.end + pattern.window
            if not any(compatible(a, b) and a.end < b.start and b.end <= limit for b in negated):
                yield self._result_final_after(result, limit, scope, pattern.absent)

    def _without(self, pattern: syntax.Without, scope: Scope) -> Iterator[PatternResult]:
        """“every pair with no `b` compatible with both and `a.end < b.start` and `b.end < c.start`”; “pairs whose
        left part does not end before the right one starts pass”.
        """
        operand, absent = self.operands(pattern, scope)
        negated = self.occurrences(*absent)
        for result in self.results(*operand):
            a, c = result.left, result.right
            assert a is not None and c is not None, "WITHOUT stands over a pairing operator"
            if not a.end < c.start:
                yield result
            elif not any(
                compatible(a, b) and compatible(b, c) and a.end < b.start and b.end < c.start for b in negated
            ):
                yield self._result_final_after(result, c.start - 1, scope, pattern.absent)

    def _no(self, pattern: syntax.No, scope: Scope) -> list[Occurrence]:
        """“`(∅, p, p+d, ∅)` for each start point `p` with no `a` such that `p < a.start` and `a.end <= p + d`; start
        points: every `a.end`, and the **beginning** of the subscription”

        An absence that would end after the end of time never completes.
        """
        (operand,) = self.operands(pattern, scope)
        negated = self.occurrences(*operand)
        points = {a.end for a in negated} | ({self.beginning} if self.beginning is not None else set())
        return [
            self._final_after(
                Occurrence(frozenset(), p, p + pattern.duration, (), members=frozenset({()})),
                p + pattern.duration,
                scope,
                pattern.operand,
            )
            for p in sorted(points)
            if p + pattern.duration <= END_OF_TIME
            and not any(p < a.start and a.end <= p + pattern.duration for a in negated)
        ]

    def _times(self, pattern: syntax.Times, scope: Scope) -> list[Occurrence]:
        """“`n` successive `a` in completion order, per value of the variables visible outside; tumbling in chronicle,
        continuous and cumulative, sliding otherwise”

        Occurrences between or before the members end no later than the last member.
        """
        return [
            self._final_after(iteration_occurrence(members), members[-1].end, scope, pattern.operand)
            for key_members in self.members_by_key(pattern, scope)
            for members in self.member_groups(pattern, key_members, scope)
        ]

    def _run(self, pattern: syntax.Run, scope: Scope) -> list[Occurrence]:
        """“each maximal run of successive `a` in completion order with `next.end - previous.end <= d`, at least one”

        A member that extends the run ends within the gap, and within the bound from the run's start.
        """
        return [
            self._final_after(run, _run_limit(run, members[-1].end + pattern.gap, scope.bound), scope, pattern.operand)
            for key_members in self.members_by_key(pattern, scope)
            for members in self.member_groups(pattern, key_members, scope)
            for run in [iteration_occurrence(members)]
        ]

    def members_by_key(self, pattern: syntax.Times | syntax.Run, scope: Scope) -> list[list[Occurrence]]:
        """“Members are first projected to the variables visible outside and made distinct; they need not be disjoint.
        As a key, unbound is a value of its own.”
        """
        (operand,) = self.operands(pattern, scope)
        members = distinct(self.as_member(pattern, scope, o) for o in self.occurrences(*operand))
        by_key = sorted(members, key=lambda member: member.bindings)
        keys = [sorted(same, key=completion_order) for _, same in groupby(by_key, key=lambda member: member.bindings)]
        return [fitting(key, scope.bound) for key in keys]

    def as_member(self, pattern: syntax.Times | syntax.Run, scope: Scope, o: Occurrence) -> Occurrence:
        """An occurrence of an iteration's operand, projected to the variables visible outside the iteration."""
        visible = self.visibility.visible(pattern, scope.outside, inside_iteration=True)
        return replace(o, bindings=project(o.bindings, visible))

    def member_groups(
        self, pattern: syntax.Times | syntax.Run, members: list[Occurrence], scope: Scope
    ) -> list[list[Occurrence]]:
        """The members of one key, grouped into the occurrences of the iteration."""
        if isinstance(pattern, syntax.Run):
            return runs(members, pattern.gap, scope.bound)
        group = sliding if self.context in (syntax.Context.UNRESTRICTED, syntax.Context.RECENT) else tumbling
        return group(members, pattern.count, pattern.gap, scope.bound)

    def operands(self, pattern: syntax.Pattern, scope: Scope) -> list[tuple[syntax.Pattern, Scope]]:  # noqa: PLR0911  (a table)
        """The operands with their scopes, left to right; of UNLESS and WITHOUT the absent operand is the second."""
        occurring = self.visibility.occurring
        match pattern:
            case syntax.And() | syntax.Timed() | syntax.Alongside() | syntax.Or() | syntax.Xor():
                left, right = pattern.left, pattern.right
                return [(left, scope.operand_scope(occurring(right))), (right, scope.operand_scope(occurring(left)))]
            case syntax.Unless(operand, absent) | syntax.Without(operand, absent):
                return [
                    (operand, scope.operand_scope(occurring(absent))),
                    (absent, scope.operand_scope(occurring(operand))),
                ]
            case syntax.Within(operand, bound):
                return [(operand, replace(scope.operand_scope(), bound=bound))]
            case syntax.Filter(operand, condition):
                carried = condition if isinstance(operand, syntax.And | syntax.Timed | syntax.Alongside) else None
                return [(operand, replace(scope.operand_scope(condition.variables), condition=carried))]
            case syntax.No(operand):
                return [(operand, scope.operand_scope())]
            case syntax.Times(operand) | syntax.Run(operand):
                return [(operand, scope.operand_scope(inside_iteration=True))]
            case syntax.Leaf():
                return []

    def _final_after(self, o: Occurrence, instant: int, scope: Scope, *patterns: syntax.Pattern) -> Occurrence:
        """Final only when all occurrences of the patterns that end at or before the instant are decided."""
        return o if o.final_at == NEVER else final_from(o, self.decided_at(instant, scope.bound, patterns))

    def _result_final_after(
        self, result: PatternResult, instant: int, scope: Scope, *patterns: syntax.Pattern
    ) -> PatternResult:
        return replace(result, occurrence=self._final_after(result.occurrence, instant, scope, *patterns))


def is_candidate_pair(pattern: syntax.Pairing, scope: Scope, a: Occurrence, b: Occurrence) -> bool:
    """“`x ⋈ y` is defined, the relation holds (in its written direction), the hull fits the operator's bound, if any,
    and its FILTER, if any, is true”
    """
    return (
        joinable(a, b)
        and relation_holds(pattern, a, b)
        and (scope.bound is None or hull(a, b) <= scope.bound)
        and (scope.condition is None or condition_holds(scope.condition, join(a, b)))
    )


def relation_holds(pattern: syntax.Pairing, a: Occurrence, b: Occurrence) -> bool:
    """Whether two intervals have the relation of a pairing operator, in its written direction."""
    match pattern:
        case syntax.And():
            return True
        case syntax.Alongside():
            return max(a.start, b.start) <= min(a.end, b.end)
        case syntax.Timed(relation):
            return relation.holds(a.interval, b.interval)


def condition_holds(condition: syntax.Expression, o: Occurrence) -> bool:
    return holds(condition.text, project(o.bindings, condition.variables), condition.variables)


def iteration_occurrence(members: Iterable[Occurrence]) -> Occurrence:
    """The occurrence of an iteration: all events, the hull, the key's bindings."""
    members = list(members)
    return merge(members, frozenset(solution for member in members for solution in member.members))


def _run_limit(run: Occurrence, gap_ends: int, bound: int | None) -> int:
    return gap_ends if bound is None else min(gap_ends, run.start + bound)
