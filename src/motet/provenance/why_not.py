"""The obstacles that keep an event from contributing to a notification, nearest first.

The event is tried as each leaf of the pattern and followed upwards to the operator that stops it. The obstacle nearest
to the root is the nearest reason: an operator near the root before one below, an operator before a leaf. At a pairing
operator the pair that came closest is reported, at an iteration what kept the members from being counted together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from motet.language import syntax
from motet.language.printer import pattern_text
from motet.language.scope import PAIRING
from motet.model.errors import UsageError
from motet.model.intervals import relation
from motet.model.notifications import Notification
from motet.provenance.leaf_explanation import match_failure
from motet.provenance.obstacles import (
    Contradicted,
    Differs,
    FilterFalse,
    GapTooLong,
    Late,
    NoPartner,
    NotFed,
    Notified,
    Obstacle,
    Partner,
    Pending,
    Prevents,
    Retracted,
    SameEvent,
    Taken,
    TooEarly,
    TooFar,
    TooFew,
    TooLong,
    Unrelated,
    Unsubscribed,
)
from motet.provenance.traced_log import IMMEDIATELY, PartnerChoice, TracedEvaluator, TracedLog, is_carried
from motet.reference.contexts import CompletedOccurrence, PatternResult
from motet.reference.finality import has_passed
from motet.reference.iterations import fits
from motet.reference.log import Registration
from motet.reference.occurrences import Occurrence, compatible, completion_order, hull, join, project
from motet.reference.operators import Scope, condition_holds, relation_holds

MAX_PREVENTED = 5  # occurrences listed as prevented

Nearness = tuple[int, ...]  # greater is nearer to a notification


@dataclass(frozen=True)
class LocatedObstacle:
    """The obstacle of an event as one leaf; ``pattern`` is the operator, None at the leaf or before it."""

    leaf: str | None
    pattern: syntax.Pattern | None
    obstacle: Obstacle
    nearness: Nearness
    partners: int = 0  # number of partners tried


@dataclass(frozen=True)
class WhyNot:
    """The obstacles of an event, nearest first."""

    subscription: str
    event: str
    start: int  # of the event
    obstacles: tuple[LocatedObstacle, ...]

    @property
    def nearest(self) -> LocatedObstacle:
        return self.obstacles[0]


@dataclass(frozen=True)
class PathStep:
    """A node on the path from a leaf to the root, and the index of the operand the path passes through."""

    pattern: syntax.Pattern
    scope: Scope
    operand: int


def why_not(log: TracedLog, subscription: str, event: str) -> WhyNot:
    """The obstacles that keep an event of a log from contributing to a notification of a subscription."""
    registrations = [each for each in log.registrations if each.subscription.name == subscription]
    if not registrations:
        raise UsageError(
            f"there is no subscription {subscription!r}", advice="`motet inspect` lists the subscriptions of a lake."
        )
    start = log.start_of(event)
    if start is None:
        raise UsageError(f"there is no event <{event}>", advice="Check the event's IRI.")
    answers = [_Obstacles(log, each, log.evaluator(each), event).all() for each in registrations]
    best = max(answers, key=lambda obstacles: obstacles[0].nearness)
    return WhyNot(subscription, event, start, best)


@dataclass(frozen=True)
class _Obstacles:
    """Finds the obstacles of one event for one registration."""

    log: TracedLog
    registration: Registration
    evaluator: TracedEvaluator
    event: str

    def all(self) -> tuple[LocatedObstacle, ...]:
        invisible = self._invisible()
        if invisible is not None:
            return (LocatedObstacle(None, None, invisible, (0,)),)
        paths = self._paths(self.registration.subscription.pattern, self.evaluator.root_scope(), ())
        located = [self._obstacle(leaf, path) for leaf, path in paths]
        distinct = {(each.leaf, each.obstacle): each for each in located}
        return tuple(sorted(distinct.values(), key=lambda each: each.nearness, reverse=True))

    def _invisible(self) -> Obstacle | None:
        """Why the event is not visible to the subscription; None when it is."""
        record = self.log.event_record(self.event)
        if record is None:  # derived: visible or not to each leaf
            return None
        if record.late and record.frontier is not None:
            return Late(record.end, record.frontier)
        if record.offset > self.registration.end_offset:
            return Unsubscribed(before_event=True)
        if record.offset < self.registration.offset:
            since = self.registration.subscription.since
            if since is None or record.start < since:
                return TooEarly(record.start, since)
            if self.log.is_retracted(record.id, self.registration.offset):
                return Retracted()
        return None

    def _paths(
        self, pattern: syntax.Pattern, scope: Scope, above: tuple[PathStep, ...]
    ) -> Iterator[tuple[syntax.Leaf, list[PathStep]]]:
        """Every leaf with its path to the root; the leaf itself is the first step."""
        if isinstance(pattern, syntax.Leaf):
            yield pattern, [PathStep(pattern, scope, 0), *reversed(above)]
        for index, (operand, inner) in enumerate(self.evaluator.operands(pattern, scope)):
            yield from self._paths(operand, inner, (*above, PathStep(pattern, scope, index)))

    def _obstacle(self, leaf: syntax.Leaf, path: list[PathStep]) -> LocatedObstacle:
        results = self._with_event(path[0])
        if not results:
            return self._leaf_obstacle(leaf)
        for height, (below, step) in enumerate(pairwise(path)):
            if _is_absent(step):
                prevented = tuple(map(partner, self._prevented(step, results)))[:MAX_PREVENTED]
                return LocatedObstacle(leaf.name, step.pattern, Prevents(_side(step), prevented), (2, len(prevented)))
            survivors = self._with_event(step)
            if not survivors:
                nearness, obstacle = self._operator_obstacle(step, below, results)
                remaining = len(path) - 2 - height
                partners = len(self._partners(step))
                return LocatedObstacle(
                    leaf.name, _written_operator(step, path), obstacle, (3, -remaining, *nearness), partners
                )
            results = survivors
        return LocatedObstacle(leaf.name, None, *self._at_root(results))

    def _with_event(self, step: PathStep) -> list[PatternResult]:
        results = self.evaluator.results(step.pattern, step.scope)
        return [result for result in results if self.event in result.occurrence.events]

    def _leaf_obstacle(self, leaf: syntax.Leaf) -> LocatedObstacle:
        visible_event = self.log.visible_event(self.registration, leaf.name, self.event)
        if visible_event is None:
            return LocatedObstacle(leaf.name, None, NotFed(), (1, 0))
        event = self.registration.subscription.event(leaf.name)
        met, obstacle = match_failure(
            event,
            visible_event.id,
            visible_event.triples,
            self.log.background_at(visible_event.offset),
            visible_event.payload,
        )
        return LocatedObstacle(leaf.name, None, obstacle, (1, met))

    def _at_root(self, results: list[PatternResult]) -> tuple[Obstacle, Nearness]:
        """The state of the whole occurrences with the event: emitted, pending, or unsubscribed too early."""
        frontiers = [frontier for offset, frontier in self.log.frontiers if offset < self.registration.end_offset]
        frontier = frontiers[-1] if frontiers else None
        occurrences = [result.occurrence for result in results]
        final = [o for o in occurrences if o.final_at == IMMEDIATELY or has_passed(frontier, o.final_at)]
        if final:
            return Notified(tuple(sorted({self._notification(o).id for o in final}))), (5,)
        needed = min(o.final_at for o in occurrences)
        if has_passed(self.log.frontier, needed):
            return Unsubscribed(before_event=False), (4,)
        return Pending(self.log.frontier, needed), (4,)

    def _notification(self, o: Occurrence) -> Notification:
        name, bindings = self.registration.subscription.name, self.evaluator.delivered_bindings(o)
        return Notification(name, o.start, o.end, tuple(sorted(o.events)), bindings)

    def _operator_obstacle(
        self, step: PathStep, below: PathStep, results: list[PatternResult]
    ) -> tuple[Nearness, Obstacle]:
        """Why an operator has no occurrence with any of these results; of several reasons the nearest."""
        pattern, scope = step.pattern, step.scope
        operands = [result.occurrence for result in results]
        match pattern:
            case syntax.And() | syntax.Timed() | syntax.Alongside():
                choices = (self.evaluator.context, self.evaluator.choices(pattern, scope))
                partners = self._partners(step)
                return nearest_pair(pattern, scope, operands, partners, choices, is_right=step.operand == 1)
            case syntax.Within(_, bound):
                shortest = min(o.end - o.start for o in operands)
                return (bound - shortest,), TooLong(shortest, bound)
            case syntax.Filter(_, condition):
                first = min(operands, key=completion_order)
                return (0,), FilterFalse(condition.text, project(first.bindings, condition.variables))
            case syntax.Unless() | syntax.Without() | syntax.Xor():
                return (0,), Contradicted(_side(step), partner(self._contradicting(step, results)[0]))
            case syntax.Times() | syntax.Run():
                return iteration_failure(self.evaluator, pattern, scope, operands)
            case syntax.Or() | syntax.No() | syntax.Leaf():
                raise AssertionError(f"{below.pattern} always passes {pattern_text(pattern)}")

    def _partners(self, step: PathStep) -> list[Occurrence]:
        """The occurrences of the other side of a pairing operator; none for other operators."""
        if not isinstance(step.pattern, PAIRING):
            return []
        return self.evaluator.occurrences(*self.evaluator.operands(step.pattern, step.scope)[1 - step.operand])

    def _contradicting(self, step: PathStep, results: list[PatternResult]) -> list[Occurrence]:
        """The occurrences of the absent side that contradict some of these results, in completion order."""
        negated = self.evaluator.occurrences(*self.evaluator.operands(step.pattern, step.scope)[1 - step.operand])
        return [b for b in negated if any(contradicts(step.pattern, result, b) for result in results)]

    def _prevented(self, step: PathStep, results: list[PatternResult]) -> list[Occurrence]:
        """The occurrences that the event, on the absent side, contradicts."""
        if isinstance(step.pattern, syntax.No):
            return []
        operand = self.evaluator.operands(step.pattern, step.scope)[0]
        negated = [result.occurrence for result in results]
        results = self.evaluator.results(*operand)
        return [result.occurrence for result in results if any(contradicts(step.pattern, result, b) for b in negated)]


def contradicts(pattern: syntax.Pattern, result: PatternResult, b: Occurrence) -> bool:
    """Whether an occurrence of the absent side contradicts a result of the other side."""
    a = result.occurrence
    match pattern:
        case syntax.Unless(window=window):
            return compatible(a, b) and a.end < b.start and b.end <= a.end + window
        case syntax.Xor(window=window):
            return compatible(a, b) and hull(a, b) <= window
        case syntax.Without():
            left, right = result.left, result.right
            assert left is not None and right is not None, "WITHOUT stands over a pairing operator"
            return compatible(left, b) and compatible(b, right) and left.end < b.start and b.end < right.start
    return False


def _is_absent(step: PathStep) -> bool:
    return isinstance(step.pattern, syntax.No) or (
        isinstance(step.pattern, syntax.Unless | syntax.Without) and step.operand == 1
    )


def _side(step: PathStep) -> str:
    """The text of the absent side of UNLESS, WITHOUT and NO, and of the other side of XOR."""
    match step.pattern:
        case syntax.Unless(_, absent) | syntax.Without(_, absent):
            return pattern_text(absent)
        case syntax.Xor(left, right):
            return pattern_text(left if step.operand else right)
        case syntax.No(operand):
            return pattern_text(operand)
    return pattern_text(step.pattern)


def _written_operator(step: PathStep, path: list[PathStep]) -> syntax.Pattern:
    """The operator as written, with the WITHIN or FILTER it carries."""
    above = path[path.index(step) + 1] if step is not path[-1] else None
    return above.pattern if above is not None and is_carried(above.pattern) else step.pattern


def partner(o: Occurrence) -> Partner:
    return Partner(tuple(sorted(o.events)), o.interval)


def nearest_pair(
    pattern: syntax.Pairing,
    scope: Scope,
    occurrences: Sequence[Occurrence],
    partners: Sequence[Occurrence],
    choices: tuple[syntax.Context, Sequence[PartnerChoice]],
    *,
    is_right: bool,
) -> tuple[Nearness, Obstacle]:
    """The nearest of all pairs of occurrences and partners, and why it is no pair."""
    if not partners:
        return (0,), NoPartner(pattern_text(pattern.left if is_right else pattern.right))
    failures = [_pair_failure(pattern, scope, x, y, choices, is_right) for x in occurrences for y in partners]
    return max(failures, key=lambda failure: failure[0])


def _pair_failure(
    pattern: syntax.Pairing,
    scope: Scope,
    x: Occurrence,
    y: Occurrence,
    choices: tuple[syntax.Context, Sequence[PartnerChoice]],
    is_right: bool,
) -> tuple[Nearness, Obstacle]:
    a, b = (y, x) if is_right else (x, y)
    apart, there = -hull(a, b), partner(y)
    if not a.events.isdisjoint(b.events):
        return (1, apart), SameEvent(there)
    values = dict(y.bindings)
    differing = [(name, term, values[name]) for name, term in x.bindings if values.get(name, term) != term]
    if differing:
        return (2, -len(differing), apart), Differs(*differing[0], there)
    if not relation_holds(pattern, a, b):
        required = pattern.relation.value if isinstance(pattern, syntax.Timed) else "ALONGSIDE"
        return (3, apart), Unrelated(required, relation(a.interval, b.interval).value, there)
    if scope.bound is not None and hull(a, b) > scope.bound:
        return (4, apart), TooFar(hull(a, b), scope.bound, there)
    condition = scope.condition
    if condition is not None and not condition_holds(condition, join(a, b)):
        return (5, apart), FilterFalse(condition.text, project(join(a, b).bindings, condition.variables), there)
    sides = CompletedOccurrence(x, is_right), CompletedOccurrence(y, not is_right)
    return (6, apart), _context_failure(*sides, *choices)


def _context_failure(
    x: CompletedOccurrence, y: CompletedOccurrence, context: syntax.Context, choices: Sequence[PartnerChoice]
) -> Obstacle:
    """Why the context did not pair two occurrences that fit: when the later one completed, the earlier one was closed
    or not chosen.
    """
    earlier, later = sorted((x, y), key=lambda side: side.order_key)
    choice = next(each for each in choices if each.completed == later)
    there = partner(y.occurrence)
    if earlier in choice.candidates:
        return Taken(there, "passed over", _events(choice.chosen))
    closing = next((each for each in choices if earlier in each.closed), None)
    if closing is not None:
        return Taken(
            there, "replaced" if context is syntax.Context.RECENT else "consumed", _events((closing.completed,))
        )
    first = next(each for each in choices if each.completed == earlier)
    return Taken(there, "consumed", _events(first.chosen) or _events((later,)))


def _events(sides: Sequence[CompletedOccurrence]) -> tuple[str, ...]:
    return tuple(sorted({event for side in sides for event in side.occurrence.events}))


def iteration_failure(
    evaluator: TracedEvaluator, pattern: syntax.Times | syntax.Run, scope: Scope, occurrences: list[Occurrence]
) -> tuple[Nearness, Obstacle]:
    """Why the first of these occurrences of the operand is in no occurrence of the iteration."""
    members = sorted((evaluator.as_member(pattern, scope, o) for o in occurrences), key=completion_order)
    fitting = [member for member in members if fits([member], scope.bound)]
    if not fitting or isinstance(pattern, syntax.Run):
        assert scope.bound is not None, "every run has a member, and without a bound every occurrence is one"
        return (0,), TooLong(min(o.end - o.start for o in members), scope.bound)
    key = next(key for key in evaluator.members_by_key(pattern, scope) if fitting[0] in key)
    if evaluator.context in (syntax.Context.UNRESTRICTED, syntax.Context.RECENT):
        member_run = _gapless_run(key, fitting[0], pattern.gap)
    else:
        member_run = _tumbling_group(key, fitting[0], pattern, scope.bound)
    return (len(member_run),), _run_failure(key, member_run, fitting[0], pattern, scope.bound)


def _gapless_run(key: list[Occurrence], member: Occurrence, gap: int | None) -> list[Occurrence]:
    """The members around a member without too long a gap."""
    first = last = key.index(member)
    while first > 0 and (gap is None or key[first].end - key[first - 1].end <= gap):
        first -= 1
    while last + 1 < len(key) and (gap is None or key[last + 1].end - key[last].end <= gap):
        last += 1
    return key[first : last + 1]


def _tumbling_group(
    key: list[Occurrence], member: Occurrence, pattern: syntax.Times, bound: int | None
) -> list[Occurrence]:
    """The longest group that a member was counted in."""
    longest: list[Occurrence] = []
    counted: list[Occurrence] = []
    for following in key:
        is_close = not counted or pattern.gap is None or following.end - counted[-1].end <= pattern.gap
        counted = [*counted, following] if is_close and fits([*counted, following], bound) else [following]
        longest = counted if member in counted else longest
        counted = [] if len(counted) == pattern.count else counted
    return longest


def _run_failure(
    key: list[Occurrence], member_run: list[Occurrence], member: Occurrence, pattern: syntax.Times, bound: int | None
) -> Obstacle:
    """Why a run around a member is no occurrence with it: a long gap beside it, the bound, or too few members."""
    if len(member_run) >= pattern.count:
        assert bound is not None, "enough members without a long gap are counted"
        windows = [member_run[first : first + pattern.count] for first in range(len(member_run) - pattern.count + 1)]
        return TooLong(min(_length(window) for window in windows if member in window), bound)
    gap = pattern.gap
    beside = [pair for pair in pairwise(key) if (pair[0] in member_run) != (pair[1] in member_run)]
    long = [(b.end - a.end, a, b) for a, b in beside if gap is not None and b.end - a.end > gap]
    if long and gap is not None:
        length, a, b = min(long, key=lambda gap: gap[0])
        return GapTooLong(length, gap, partner(b if a in member_run else a))
    following = key[key.index(member_run[-1]) + 1 :]
    if following and bound is not None and not fits([*member_run, following[0]], bound):
        return TooLong(_length([*member_run, following[0]]), bound)
    return TooFew(len(member_run), pattern.count, member_run[0].bindings)


def _length(members: list[Occurrence]) -> int:
    return max(o.end for o in members) - min(o.start for o in members)
