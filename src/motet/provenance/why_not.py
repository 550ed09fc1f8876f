"""The obstacles that keep an event from contributing to a notification, nearest first.

The event is tried as each leaf of the pattern and followed upwards to the operator that stops it. The obstacle nearest
to the root is the nearest reason: an operator near the root before one below, an operator before a leaf. At a pairing
operator the pair that came closest is reported, at an iteration what kept the members from being counted together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from motet.language.printer import pattern_text
from motet.language.syntax import (
    Alongside,
    And,
    Context,
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
from motet.language.walk import PAIRING
from motet.model.errors import UsageError
from motet.model.intervals import relation
from motet.model.notifications import Notification
from motet.provenance.facts import Span
from motet.provenance.leaf_explanation import failure
from motet.provenance.obstacles import (
    Contradicted,
    Differs,
    FilterFalse,
    GapTooLong,
    Hindrance,
    Late,
    NoPartner,
    NotFed,
    Partner,
    Pending,
    Prevents,
    Retracted,
    SameEvent,
    Taken,
    Told,
    TooEarly,
    TooFar,
    TooFew,
    TooLong,
    Unrelated,
    Unsubscribed,
)
from motet.provenance.traced_log import AT_ONCE, Choice, Scene, Tracer, is_carried
from motet.reference.contexts import Completed, Produced
from motet.reference.finality import passed
from motet.reference.iterations import fits
from motet.reference.log import Life
from motet.reference.occurrences import Occurrence, compatible, completion_order, hull, join, project
from motet.reference.operators import Place, related, true

SHOWN_PREVENTED = 5


@dataclass(frozen=True)
class Obstacle:
    """What stops the event as one leaf; ``pattern`` is the operator, None at the leaf or before it."""

    leaf: str | None
    pattern: Pattern | None
    hindrance: Hindrance
    nearness: Nearness
    partners: int = 0  # how many were tried


@dataclass(frozen=True)
class WhyNot:
    """The obstacles of an event, nearest first."""

    subscription: str
    event: str
    start: int  # of the event
    obstacles: tuple[Obstacle, ...]

    @property
    def nearest(self) -> Obstacle:
        return self.obstacles[0]


@dataclass(frozen=True)
class Step:
    """A node on the way from a leaf to the root, and which of its operands the way comes from."""

    pattern: Pattern
    place: Place
    operand: int


def why_not(scene: Scene, subscription: str, event: str) -> WhyNot:
    """What stops an event of the scene from being told by a subscription of the scene."""
    lives = [life for life in scene.lives if life.subscription.name == subscription]
    if not lives:
        raise UsageError(f"there is no subscription {subscription!r}", advice="`motet inspect` lists those of a lake.")
    start = scene.start_of(event)
    if start is None:
        raise UsageError(f"there is no event <{event}>", advice="Check the event's IRI.")
    found = [_Obstacles(scene, life, scene.tracer(life), event).all() for life in lives]
    best = max(found, key=lambda obstacles: obstacles[0].nearness)
    return WhyNot(subscription, event, start, best)


@dataclass(frozen=True)
class _Obstacles:
    scene: Scene
    life: Life
    tracer: Tracer
    event: str

    def all(self) -> tuple[Obstacle, ...]:
        unseen = self._unseen()
        if unseen is not None:
            return (Obstacle(None, None, unseen, (0,)),)
        ways = self._ways(self.life.subscription.pattern, self.tracer.root(), ())
        found = {(one.leaf, one.hindrance): one for leaf, way in ways for one in [self._obstacle(leaf, way)]}
        return tuple(sorted(found.values(), key=lambda one: one.nearness, reverse=True))

    def _unseen(self) -> Hindrance | None:
        """Why the subscription does not see the event at all; None when it does."""
        record = self.scene.published(self.event)
        if record is None:  # derived: each leaf sees it or not
            return None
        if record.late and record.frontier is not None:
            return Late(record.end, record.frontier)
        if record.offset > self.life.ended:
            return Unsubscribed(before_event=True)
        if record.offset < self.life.offset:
            since = self.life.subscription.since
            if since is None or record.start < since:
                return TooEarly(record.start, since)
            if self.scene.is_retracted(record.id, self.life.offset):
                return Retracted()
        return None

    def _ways(self, pattern: Pattern, place: Place, above: tuple[Step, ...]) -> Iterator[tuple[Leaf, list[Step]]]:
        """Every leaf with the nodes above it, the nearest first; the leaf itself stands first, as a step."""
        if isinstance(pattern, Leaf):
            yield pattern, [Step(pattern, place, 0), *reversed(above)]
        for number, (operand, at) in enumerate(self.tracer.operands(pattern, place)):
            yield from self._ways(operand, at, (*above, Step(pattern, place, number)))

    def _obstacle(self, leaf: Leaf, way: list[Step]) -> Obstacle:
        found = self._with_event(way[0])
        if not found:
            return self._unmatched(leaf)
        for height, (below, step) in enumerate(pairwise(way)):
            if _is_absent(step):
                prevented = tuple(map(partner, self._prevented(step, found)))[:SHOWN_PREVENTED]
                return Obstacle(leaf.name, step.pattern, Prevents(_side(step), prevented), (2, len(prevented)))
            survivors = self._with_event(step)
            if not survivors:
                nearness, hindrance = self._stopped(step, below, found)
                remaining = len(way) - 2 - height
                partners = len(self._other_side(step))
                return Obstacle(leaf.name, _named(step, way), hindrance, (3, -remaining, *nearness), partners)
            found = survivors
        return Obstacle(leaf.name, None, *self._at_root(found))

    def _with_event(self, step: Step) -> list[Produced]:
        produced = self.tracer.produced(step.pattern, step.place)
        return [found for found in produced if self.event in found.result.events]

    def _unmatched(self, leaf: Leaf) -> Obstacle:
        seen = self.scene.seen(self.life, leaf.name, self.event)
        if seen is None:
            return Obstacle(leaf.name, None, NotFed(), (1, 0))
        event = self.life.subscription.event(leaf.name)
        met, hindrance = failure(event, seen.id, seen.triples, self.scene.knowledge(seen.offset))
        return Obstacle(leaf.name, None, hindrance, (1, met))

    def _at_root(self, found: list[Produced]) -> tuple[Hindrance, Nearness]:
        """The event is part of the whole pattern: that is told, or waits, or the subscription ended first."""
        in_force = [frontier for offset, frontier in self.scene.frontiers if offset < self.life.ended]
        frontier = in_force[-1] if in_force else None
        final = [o for o in (one.result for one in found) if o.emitted == AT_ONCE or passed(frontier, o.emitted)]
        if final:
            return Told(tuple(sorted({self._notification(o).id for o in final}))), (5,)
        needed = min(one.result.emitted for one in found)
        if passed(self.scene.frontier, needed):
            return Unsubscribed(before_event=False), (4,)
        return Pending(self.scene.frontier, needed), (4,)

    def _notification(self, o: Occurrence) -> Notification:
        name, bindings = self.life.subscription.name, self.tracer.delivered(o)
        return Notification(name, o.start, o.end, tuple(sorted(o.events)), bindings)

    def _stopped(self, step: Step, below: Step, found: list[Produced]) -> tuple[Nearness, Hindrance]:
        """What an operator that lets none of these through finds wrong with the one that comes nearest."""
        pattern, place = step.pattern, step.place
        results = [one.result for one in found]
        match pattern:
            case And() | Timed() | Alongside():
                made = (self.tracer.context, self.tracer.choices(pattern, place))
                others = self._other_side(step)
                return nearest_miss(pattern, place, results, others, made, own_is_right=step.operand == 1)
            case Within(_, bound):
                shortest = min(o.end - o.start for o in results)
                return (bound - shortest,), TooLong(shortest, bound)
            case Filter(_, condition):
                first = min(results, key=completion_order)
                return (0,), FilterFalse(condition.text, project(first.bindings, condition.variables))
            case Unless() | Without() | Xor():
                return (0,), Contradicted(_side(step), partner(self._contradicting(step, found)[0]))
            case Times() | Run():
                return uncounted(self.tracer, pattern, place, results)
            case Or() | No() | Leaf():
                raise AssertionError(f"{below.pattern} always passes {pattern_text(pattern)}")

    def _other_side(self, step: Step) -> list[Occurrence]:
        """What a pairing operator could join the event with; nothing for other operators."""
        if not isinstance(step.pattern, PAIRING):
            return []
        return self.tracer.occurrences(*self.tracer.operands(step.pattern, step.place)[1 - step.operand])

    def _contradicting(self, step: Step, found: list[Produced]) -> list[Occurrence]:
        """The occurrences of the absent side that contradict some of these, in completion order."""
        against = self.tracer.occurrences(*self.tracer.operands(step.pattern, step.place)[1 - step.operand])
        return [b for b in against if any(contradicts(step.pattern, one, b) for one in found)]

    def _prevented(self, step: Step, found: list[Produced]) -> list[Occurrence]:
        """What the event, on the absent side, contradicts."""
        if isinstance(step.pattern, No):
            return []
        operand = self.tracer.operands(step.pattern, step.place)[0]
        against = [one.result for one in found]
        produced = self.tracer.produced(*operand)
        return [one.result for one in produced if any(contradicts(step.pattern, one, b) for b in against)]


def contradicts(pattern: Pattern, found: Produced, b: Occurrence) -> bool:
    """Whether an occurrence of the absent side contradicts what the other side has produced."""
    a = found.result
    match pattern:
        case Unless(window=window):
            return compatible(a, b) and a.end < b.start and b.end <= a.end + window
        case Xor(window=window):
            return compatible(a, b) and hull(a, b) <= window
        case Without():
            left, right = found.left, found.right
            assert left is not None and right is not None, "WITHOUT stands over a pairing operator"
            return compatible(left, b) and compatible(b, right) and left.end < b.start and b.end < right.start
    return False


def _is_absent(step: Step) -> bool:
    return isinstance(step.pattern, No) or (isinstance(step.pattern, Unless | Without) and step.operand == 1)


def _side(step: Step) -> str:
    """The absent side of a guard, or the other side of XOR."""
    match step.pattern:
        case Unless(_, absent) | Without(_, absent):
            return pattern_text(absent)
        case Xor(left, right):
            return pattern_text(left if step.operand else right)
        case No(operand):
            return pattern_text(operand)
    return pattern_text(step.pattern)


def _named(step: Step, way: list[Step]) -> Pattern:
    """The operator as it is written: with the WITHIN or FILTER it carries."""
    above = way[way.index(step) + 1] if step is not way[-1] else None
    return above.pattern if above is not None and is_carried(above.pattern) else step.pattern


Nearness = tuple[int, ...]


def partner(o: Occurrence) -> Partner:
    return Partner(tuple(sorted(o.events)), Span(o.start, o.end))


def nearest_miss(
    pattern: Pairing,
    place: Place,
    own: Sequence[Occurrence],
    others: Sequence[Occurrence],
    made: tuple[Context, Sequence[Choice]],
    *,
    own_is_right: bool,
) -> tuple[Nearness, Hindrance]:
    """How near the best of all pairs came, and what kept it apart."""
    if not others:
        return (0,), NoPartner(pattern_text(pattern.left if own_is_right else pattern.right))
    misses = [_miss(pattern, place, x, y, made, own_is_right) for x in own for y in others]
    return max(misses, key=lambda miss: miss[0])


def _miss(
    pattern: Pairing,
    place: Place,
    x: Occurrence,
    y: Occurrence,
    made: tuple[Context, Sequence[Choice]],
    own_is_right: bool,
) -> tuple[Nearness, Hindrance]:
    a, b = (y, x) if own_is_right else (x, y)
    apart, there = -hull(a, b), partner(y)
    if not a.events.isdisjoint(b.events):
        return (1, apart), SameEvent(there)
    values = dict(y.bindings)
    differing = [(name, term, values[name]) for name, term in x.bindings if values.get(name, term) != term]
    if differing:
        return (2, -len(differing), apart), Differs(*differing[0], there)
    if not related(pattern, a, b):
        wanted = pattern.relation.value if isinstance(pattern, Timed) else "ALONGSIDE"
        return (3, apart), Unrelated(wanted, relation(a.interval, b.interval).value, there)
    if place.bound is not None and hull(a, b) > place.bound:
        return (4, apart), TooFar(hull(a, b), place.bound, there)
    condition = place.condition
    if condition is not None and not true(condition, join(a, b)):
        return (5, apart), FilterFalse(condition.text, project(join(a, b).bindings, condition.variables), there)
    return (6, apart), _taken(Completed(x, own_is_right), Completed(y, not own_is_right), *made)


def _taken(x: Completed, y: Completed, context: Context, made: Sequence[Choice]) -> Hindrance:
    """Two that fit each other: when the later one completed, the earlier one was gone or not the one to take."""
    earlier, later = sorted((x, y), key=lambda one: one.place)
    choice = next(one for one in made if one.x == later)
    there = partner(y.occurrence)
    if earlier in choice.candidates:
        return Taken(there, "passed over", _events(choice.chosen))
    closing = next((one for one in made if earlier in one.closed), None)
    if closing is not None:
        return Taken(there, "replaced" if context is Context.RECENT else "consumed", _events((closing.x,)))
    own = next(one for one in made if one.x == earlier)
    return Taken(there, "consumed", _events(own.chosen) or _events((later,)))


def _events(completed: Sequence[Completed]) -> tuple[str, ...]:
    return tuple(sorted({event for one in completed for event in one.occurrence.events}))


def uncounted(
    tracer: Tracer, pattern: Times | Run, place: Place, results: list[Occurrence]
) -> tuple[Nearness, Hindrance]:
    """What kept the first of these, occurrences of the operand, from being counted."""
    members = sorted((tracer.member(pattern, place, o) for o in results), key=completion_order)
    fitting = [member for member in members if fits([member], place.bound)]
    if not fitting or isinstance(pattern, Run):
        assert place.bound is not None, "every run has a member, and without a bound every occurrence is one"
        return (0,), TooLong(min(o.end - o.start for o in members), place.bound)
    key = next(key for key in tracer.keys(pattern, place) if fitting[0] in key)
    slides = tracer.context in (Context.UNRESTRICTED, Context.RECENT)
    stretch = _unbroken(key, fitting[0], pattern.gap) if slides else _count(key, fitting[0], pattern, place.bound)
    return (len(stretch),), _broken(key, stretch, pattern, place.bound)


def _unbroken(key: list[Occurrence], member: Occurrence, gap: int | None) -> list[Occurrence]:
    """The members around one, as far as no gap is too long."""
    first = last = key.index(member)
    while first > 0 and (gap is None or key[first].end - key[first - 1].end <= gap):
        first -= 1
    while last + 1 < len(key) and (gap is None or key[last + 1].end - key[last].end <= gap):
        last += 1
    return key[first : last + 1]


def _count(key: list[Occurrence], member: Occurrence, pattern: Times, bound: int | None) -> list[Occurrence]:
    """The count that a member took part in, as far as it got."""
    reached: list[Occurrence] = []
    counted: list[Occurrence] = []
    for one in key:
        close = not counted or pattern.gap is None or one.end - counted[-1].end <= pattern.gap
        counted = [*counted, one] if close and fits([*counted, one], bound) else [one]
        reached = counted if member in counted else reached
        counted = [] if len(counted) == pattern.count else counted
    return reached


def _broken(key: list[Occurrence], stretch: list[Occurrence], pattern: Times, bound: int | None) -> Hindrance:
    """Why a stretch of members is not counted: a long gap beside it, a bound, or there are no more."""
    if len(stretch) >= pattern.count:
        assert bound is not None, "enough members without a long gap are counted"
        windows = [stretch[first : first + pattern.count] for first in range(len(stretch) - pattern.count + 1)]
        return TooLong(min(_length(window) for window in windows), bound)
    gap = pattern.gap
    beside = [pair for pair in pairwise(key) if (pair[0] in stretch) != (pair[1] in stretch)]
    long = [(b.end - a.end, a, b) for a, b in beside if gap is not None and b.end - a.end > gap]
    if long and gap is not None:
        length, a, b = min(long, key=lambda one: one[0])
        return GapTooLong(length, gap, partner(b if a in stretch else a))
    following = key[key.index(stretch[-1]) + 1 :]
    if following and bound is not None and not fits([*stretch, following[0]], bound):
        return TooLong(_length([*stretch, following[0]]), bound)
    return TooFew(len(stretch), pattern.count, stretch[0].bindings)


def _length(members: list[Occurrence]) -> int:
    return max(o.end for o in members) - min(o.start for o in members)
