"""The derivation tree of a notification: the event of each leaf, and the facts that held at each operator.

The tree is built from the root: the reference engine gives the occurrences of the whole pattern that are the
notification, and each is decomposed into the occurrences it was made of. Of several derivations the one that was final
first is shown, then the first in completion order; the others are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import prod

from motet.language import syntax
from motet.language.printer import pattern_text
from motet.model.errors import UsageError
from motet.model.notifications import Notification
from motet.provenance.facts import Absent, Agrees, Begins, Counted, Fact, Fits, Gap, Passes, Picked, Relates, Satisfies
from motet.provenance.leaf_explanation import match_facts
from motet.provenance.traced_log import PartnerChoice, TracedEvaluator, TracedLog, is_carried
from motet.reference.contexts import PatternResult
from motet.reference.log import DerivedEvent, Registration, VisibleEvent
from motet.reference.occurrences import Occurrence, SortedBindings, completion_order, merge, project
from motet.reference.operators import Scope, iteration_occurrence


@dataclass(frozen=True)
class DerivationNode:
    """One node of a derivation tree: an occurrence, the facts that held, and the nodes it was made of."""

    pattern: syntax.Pattern
    occurrence: Occurrence
    facts: tuple[Fact, ...]
    operands: tuple[DerivationNode, ...] = ()
    solution: SortedBindings = ()  # of a leaf: all its variables
    derived_by: Why | None = None  # of a leaf that matched a derived event: its notification

    def leaves(self) -> Iterator[DerivationNode]:
        """The leaves from left to right, without those of upstream notifications."""
        if isinstance(self.pattern, syntax.Leaf):
            yield self
        for operand in self.operands:
            yield from operand.leaves()


@dataclass(frozen=True)
class Why:
    """A notification and one derivation tree of it."""

    notification: Notification
    context: syntax.Context
    root: DerivationNode
    other_count: int  # further derivations of the same notification
    is_checked: bool  # the log has all events that can matter to the absences stated
    is_choice_known: bool  # the context's choices follow from the log; otherwise only that the operands fit
    retracted: tuple[str, ...] = ()  # its events that have been retracted


@dataclass(frozen=True)
class Expansion:
    """One derivation of an occurrence: the operands, each with the results it can be."""

    operands: tuple[tuple[syntax.Pattern, Scope, tuple[PatternResult, ...]], ...] = ()
    choice: PartnerChoice | None = None
    members: tuple[Occurrence, ...] = ()


def why(log: TracedLog, notification: Notification, *, is_complete: bool = True) -> Why:
    """The derivation tree of a notification in a log.

    ``is_complete``: the log has all events that can matter, not only the notification's own, so that stated absences
    are checked. When a context's choices depended on events that are not in the log, the tree leaves the choice open.
    """
    registrations = [each for each in log.registrations if each.subscription.name == notification.subscription]
    if not registrations:
        raise UsageError(
            f"there is no subscription {notification.subscription!r}", advice="Give the file that defines it."
        )
    for context in (None, syntax.Context.UNRESTRICTED):
        for registration in registrations:
            derivation = _Derivations(log, registration, log.evaluator(registration, context), is_complete).why(
                notification
            )
            if derivation is not None:
                return replace(derivation, is_choice_known=context is None)
    raise UsageError(
        f"notification {notification.id[:12]} does not follow from the given events",
        advice="Give all events, the ontology and the subscriptions it was computed from.",
    )


@dataclass(frozen=True)
class _Derivations:
    """Builds the derivation trees of one registration."""

    log: TracedLog
    registration: Registration
    evaluator: TracedEvaluator
    is_complete: bool
    counts: dict[tuple[syntax.Pattern, Scope, PatternResult], int] = field(default_factory=dict)

    def why(self, notification: Notification) -> Why | None:
        pattern, scope = self.registration.subscription.pattern, self.evaluator.root_scope()
        results = _ordered(
            result
            for result in self.evaluator.results(pattern, scope)
            if self.evaluator.is_notification(result.occurrence, notification)
        )
        if not results:
            return None
        count = sum(self.count(pattern, scope, result) for result in results)
        root = self.node(pattern, scope, results[0])
        retracted = tuple(event for event in notification.events if self.log.is_retracted(event))
        context = self.registration.subscription.context
        return Why(notification, context, root, count - 1, self.is_complete, is_choice_known=True, retracted=retracted)

    def count(self, pattern: syntax.Pattern, scope: Scope, result: PatternResult) -> int:
        """The number of derivations of a result."""
        key = (pattern, scope, result)
        if key not in self.counts:
            if isinstance(pattern, syntax.Leaf):
                self.counts[key] = len(self._solutions(pattern, result.occurrence)[1])
            else:
                self.counts[key] = sum(
                    self._count_expansion(expansion) for expansion in self.expansions(pattern, scope, result)
                )
        return self.counts[key]

    def _count_expansion(self, expansion: Expansion) -> int:
        return prod(
            sum(self.count(operand, inner, result) for result in results)
            for operand, inner, results in expansion.operands
        )

    def node(self, pattern: syntax.Pattern, scope: Scope, result: PatternResult) -> DerivationNode:
        if isinstance(pattern, syntax.Leaf):
            return self._leaf(pattern, result.occurrence)
        expansion = next(each for each in self.expansions(pattern, scope, result) if self._count_expansion(each))
        operands = tuple(self.node(operand, inner, results[0]) for operand, inner, results in expansion.operands)
        if is_carried(pattern):
            return operands[0]  # the operator below has the facts
        return DerivationNode(
            pattern, result.occurrence, tuple(self.facts(pattern, scope, result, expansion)), operands
        )

    # The operands of an occurrence.

    def expansions(self, pattern: syntax.Pattern, scope: Scope, result: PatternResult) -> list[Expansion]:
        operands = self.evaluator.operands(pattern, scope)
        match pattern:
            case syntax.And() | syntax.Timed() | syntax.Alongside():
                return self._pair(pattern, scope, result)
            case (
                syntax.Within() | syntax.Filter() | syntax.Unless() | syntax.Without()
            ):  # passes on results of its operand, pair by pair
                below = self.evaluator.results(*operands[0])
                return [Expansion(((*operands[0], _ordered(each for each in below if each == result)),))]
            case syntax.Or() | syntax.Xor():
                sides = [(*operand, self._results_of(*operand, result.occurrence)) for operand in operands]
                return [Expansion((side,)) for side in sides if side[2]]
            case syntax.Times() | syntax.Run():
                return self._iteration(pattern, scope, result.occurrence)
            case _:  # NO has no occurrences below it
                return [Expansion()]

    def _results_of(self, pattern: syntax.Pattern, scope: Scope, o: Occurrence) -> tuple[PatternResult, ...]:
        return _ordered(result for result in self.evaluator.results(pattern, scope) if result.occurrence == o)

    def _pair(self, pattern: syntax.Pairing, scope: Scope, result: PatternResult) -> list[Expansion]:
        left, right = self.evaluator.operands(pattern, scope)
        expansions = []
        for choice in self.evaluator.choices(pattern, scope):
            for lefts, rights in self._joined(choice):
                if (_side(lefts), _side(rights)) == (result.left, result.right):
                    operands = [(*left, self._results_of(*left, o)) for o in lefts]
                    operands += [(*right, self._results_of(*right, o)) for o in rights]
                    expansions.append(Expansion(tuple(operands), choice))
        return expansions

    def _joined(self, choice: PartnerChoice) -> Iterator[tuple[tuple[Occurrence, ...], tuple[Occurrence, ...]]]:
        """The sides of the occurrences of a choice: one with all partners in cumulative, else one per partner."""
        if self.evaluator.context is syntax.Context.CUMULATIVE:
            yield from [choice.sides()] if choice.chosen else []
        else:
            for y in choice.chosen:
                yield replace(choice, chosen=(y,)).sides()

    def _iteration(self, pattern: syntax.Times | syntax.Run, scope: Scope, o: Occurrence) -> list[Expansion]:
        (operand,) = self.evaluator.operands(pattern, scope)
        results: dict[Occurrence, list[PatternResult]] = {}
        for result in self.evaluator.results(*operand):
            results.setdefault(self.evaluator.as_member(pattern, scope, result.occurrence), []).append(result)
        groups = [
            group
            for key in self.evaluator.members_by_key(pattern, scope)
            for group in self.evaluator.member_groups(pattern, key, scope)
        ]
        return [
            Expansion(tuple((*operand, _ordered(results[member])) for member in group), members=tuple(group))
            for group in groups
            if iteration_occurrence(group) == o
        ]

    # The facts that held.

    def facts(
        self, pattern: syntax.Pattern, scope: Scope, result: PatternResult, expansion: Expansion
    ) -> Iterator[Fact]:
        o = result.occurrence
        match pattern:
            case syntax.And() | syntax.Timed() | syntax.Alongside():
                yield from self._pair_facts(pattern, scope, result, expansion)
            case syntax.Within(_, bound):
                yield Fits(o.start, o.end, bound)
            case syntax.Filter(_, condition):
                yield Satisfies(condition.text, project(o.bindings, condition.variables))
            case syntax.Unless(_, absent, window):
                yield self._absent(absent, "after", o.end, o.end + window, o.bindings)
            case syntax.Without(_, absent):
                yield self._between(absent, result)
            case syntax.Xor(left, right, window):
                negated = right if expansion.operands[0][0] is left else left
                yield replace(self._absent(negated, "hull", o.start, o.end, o.bindings), length=window)
            case syntax.No(operand):
                yield Begins(o.start, self._origin(pattern, scope, o.start))
                yield self._absent(operand, "after", o.start, o.end, ())
            case syntax.Times(_, _, gap) | syntax.Run(_, gap):
                yield from _member_facts(expansion.members, gap, scope.bound)

    def _origin(self, pattern: syntax.No, scope: Scope, point: int) -> str:
        """What makes an instant a start point of a NO."""
        (operand,) = self.evaluator.operands(pattern, scope)
        if point == self.registration.subscription.since:
            return "since"
        if any(o.end == point for o in self.evaluator.occurrences(*operand)):
            return "occurrence"
        return "first end" if self.registration.frontier is None else "frontier"

    def _pair_facts(
        self, pattern: syntax.Pairing, scope: Scope, result: PatternResult, expansion: Expansion
    ) -> Iterator[Fact]:
        assert result.left is not None and result.right is not None and expansion.choice is not None
        lefts, rights = expansion.choice.sides() if len(expansion.operands) > 2 else ((result.left,), (result.right,))
        for a in lefts:
            for b in rights:
                yield from _relation(pattern, a, b)
                yield from (Agrees(name, term) for name, term in a.bindings if (name, term) in b.bindings)
                if scope.bound is not None:
                    yield Fits(min(a.start, b.start), max(a.end, b.end), scope.bound)
                if scope.condition is not None:
                    joined = merge([a, b], frozenset()).bindings
                    yield Satisfies(scope.condition.text, project(joined, scope.condition.variables))
        if self.evaluator.context is self.registration.subscription.context:
            yield _picked(self.evaluator.context, expansion)

    def _absent(self, pattern: syntax.Pattern, window: str, after: int, until: int, bindings: SortedBindings) -> Absent:
        visible = project(bindings, self.evaluator.visibility.occurring(pattern))
        return Absent(pattern_text(pattern), window, after, until, visible, self.is_complete)

    def _between(self, absent: syntax.Pattern, result: PatternResult) -> Fact:
        assert result.left is not None and result.right is not None, "WITHOUT stands over a pairing operator"
        if not result.left.end < result.right.start:
            return Passes(result.left.interval, result.right.interval)
        both = tuple(sorted({*result.left.bindings, *result.right.bindings}))
        return self._absent(absent, "between", result.left.end, result.right.start, both)

    # Leaves.

    def _leaf(self, leaf: syntax.Leaf, o: Occurrence) -> DerivationNode:
        visible_event, solutions = self._solutions(leaf, o)
        event = self.registration.subscription.event(leaf.name)
        facts = match_facts(event, visible_event, solutions[0], self.log.background_at(visible_event.offset))
        return DerivationNode(leaf, o, facts, solution=solutions[0], derived_by=self._upstream(visible_event))

    def _solutions(self, leaf: syntax.Leaf, o: Occurrence) -> tuple[VisibleEvent, list[SortedBindings]]:
        """The event of a leaf's occurrence, and the solutions that project to it."""
        (event,) = o.events
        visible_event = self.log.visible_event(self.registration, leaf.name, event)
        assert visible_event is not None, "a leaf's occurrence is of an event visible to it"
        names = {name for name, _ in o.bindings}
        solutions = self.log.solutions(self.registration, leaf.name, visible_event)
        return visible_event, [solution for solution in solutions if project(solution, names) == o.bindings]

    def _upstream(self, visible_event: VisibleEvent) -> Why | None:
        if not isinstance(visible_event, DerivedEvent):
            return None
        producer = self.log.producer(visible_event.id)
        assert producer is not None, "a derived event has a notification"
        return why(self.log, producer[1].notification, is_complete=self.is_complete)


def _ordered(results: Iterable[PatternResult]) -> tuple[PatternResult, ...]:
    """Each result once: final first, then in completion order."""

    def key(result: PatternResult) -> tuple[object, ...]:
        sides = [completion_order(side) for side in (result.left, result.right) if side is not None]
        return result.occurrence.final_at, completion_order(result.occurrence), sides

    return tuple(dict.fromkeys(sorted(results, key=key)))


def _side(members: tuple[Occurrence, ...]) -> Occurrence:
    return members[0] if len(members) == 1 else merge(members, frozenset())


def _relation(pattern: syntax.Pairing, a: Occurrence, b: Occurrence) -> Iterator[Fact]:
    if isinstance(pattern, syntax.Timed):
        yield Relates(pattern.relation.value, a.interval, b.interval)
    elif isinstance(pattern, syntax.Alongside):
        yield Relates("ALONGSIDE", a.interval, b.interval)


def _picked(context: syntax.Context, expansion: Expansion) -> Picked:
    assert expansion.choice is not None
    partner_count = len(expansion.operands) - 1
    return Picked(
        context.value,
        "right" if expansion.choice.completed.is_right else "left",
        len(expansion.choice.candidates),
        partner_count,
    )


def _member_facts(members: tuple[Occurrence, ...], gap: int | None, bound: int | None) -> Iterator[Fact]:
    yield Counted(len(members), members[0].bindings)
    if gap is not None:
        yield from (Gap(previous.end, following.end, gap) for previous, following in pairwise(members))
    if bound is not None:
        yield Fits(min(o.start for o in members), max(o.end for o in members), bound)
