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
from motet.model.errors import UsageError
from motet.model.notifications import Notification
from motet.provenance.facts import (
    Absent,
    Agrees,
    Begins,
    Counted,
    Fact,
    Fits,
    Gap,
    Passes,
    Picked,
    Relates,
    Satisfies,
    Span,
)
from motet.provenance.leaf_explanation import evidence
from motet.provenance.traced_log import Choice, Scene, Tracer, is_carried
from motet.reference.contexts import Produced
from motet.reference.log import Derived, Life, Seen
from motet.reference.occurrences import Bindings, Occurrence, completion_order, merge, project
from motet.reference.operators import Place, whole


@dataclass(frozen=True)
class Reason:
    """One node of a derivation: an occurrence, what held, and what it was made of."""

    pattern: Pattern
    occurrence: Occurrence
    facts: tuple[Fact, ...]
    parts: tuple[Reason, ...] = ()
    solution: Bindings = ()  # of a leaf: all its variables
    because: Why | None = None  # of a leaf that matched a derived event: the notification behind it

    def leaves(self) -> Iterator[Reason]:
        """The leaves from left to right, without those behind derived events."""
        if isinstance(self.pattern, Leaf):
            yield self
        for part in self.parts:
            yield from part.leaves()


@dataclass(frozen=True)
class Why:
    """A notification and one derivation of it."""

    notification: Notification
    context: Context
    reason: Reason
    others: int  # derivations that give the same notification
    checked: bool  # a log was at hand for what is said to be absent
    picked: bool  # the context's choices could be followed; otherwise only that the parts fit
    retracted: tuple[str, ...] = ()  # of its events, those that have been retracted


@dataclass(frozen=True)
class Expansion:
    """One way an occurrence was made: the parts, each with the ways it was made itself."""

    parts: tuple[tuple[Pattern, Place, tuple[Produced, ...]], ...] = ()
    choice: Choice | None = None
    members: tuple[Occurrence, ...] = ()


def why(scene: Scene, notification: Notification, *, checked: bool = True) -> Why:
    """The derivation of a notification from the events of a scene.

    ``checked`` says that the scene holds all events that can matter, and not only the notification's own: then what is
    said to be absent has been looked for. When a context's choices depended on events that are not in the scene, a
    derivation that leaves the choice open is shown.
    """
    lives = [life for life in scene.lives if life.subscription.name == notification.subscription]
    if not lives:
        raise UsageError(
            f"no subscription {notification.subscription!r} is at hand", advice="Give the file that it is in."
        )
    for context in (None, Context.UNRESTRICTED):
        for life in lives:
            found = _Derivations(scene, life, scene.tracer(life, context), checked).of(notification)
            if found is not None:
                return replace(found, picked=context is None)
    raise UsageError(
        f"notification {notification.id[:12]} does not follow from the events at hand",
        advice="Give all events, the ontology and the subscriptions it was made from.",
    )


@dataclass(frozen=True)
class _Derivations:
    scene: Scene
    life: Life
    tracer: Tracer
    checked: bool
    counts: dict[tuple[Pattern, Place, Produced], int] = field(default_factory=dict)

    def of(self, notification: Notification) -> Why | None:
        pattern, place = self.life.subscription.pattern, self.tracer.root()
        told = [
            found for found in self.tracer.produced(pattern, place) if self.tracer.tells(found.result, notification)
        ]
        ways = _ordered(told)
        if not ways:
            return None
        count = sum(self.count(pattern, place, way) for way in ways)
        reason = self.reason(pattern, place, ways[0])
        retracted = tuple(event for event in notification.events if self.scene.is_retracted(event))
        context = self.life.subscription.context
        return Why(notification, context, reason, count - 1, self.checked, picked=True, retracted=retracted)

    def count(self, pattern: Pattern, place: Place, found: Produced) -> int:
        """In how many ways an occurrence was made."""
        key = (pattern, place, found)
        if key not in self.counts:
            if isinstance(pattern, Leaf):
                self.counts[key] = len(self._solutions(pattern, found.result)[1])
            else:
                self.counts[key] = sum(self._ways(expansion) for expansion in self.expansions(pattern, place, found))
        return self.counts[key]

    def _ways(self, expansion: Expansion) -> int:
        return prod(sum(self.count(part, at, way) for way in ways) for part, at, ways in expansion.parts)

    def reason(self, pattern: Pattern, place: Place, found: Produced) -> Reason:
        if isinstance(pattern, Leaf):
            return self._leaf(pattern, found.result)
        expansion = next(one for one in self.expansions(pattern, place, found) if self._ways(one))
        parts = tuple(self.reason(part, at, ways[0]) for part, at, ways in expansion.parts)
        if is_carried(pattern):
            return parts[0]  # the operator below says so itself
        return Reason(pattern, found.result, tuple(self.facts(pattern, place, found, expansion)), parts)

    # What an occurrence was made of.

    def expansions(self, pattern: Pattern, place: Place, found: Produced) -> list[Expansion]:
        operands = self.tracer.operands(pattern, place)
        match pattern:
            case And() | Timed() | Alongside():
                return self._pair(pattern, place, found)
            case Within() | Filter() | Unless() | Without():  # passes on what its operand has produced, pair by pair
                below = self.tracer.produced(*operands[0])
                return [Expansion(((*operands[0], _ordered(one for one in below if one == found)),))]
            case Or() | Xor():
                parts = [(*operand, self._made(*operand, found.result)) for operand in operands]
                return [Expansion((part,)) for part in parts if part[2]]
            case Times() | Run():
                return self._iteration(pattern, place, found.result)
            case _:  # NO is made of nothing
                return [Expansion()]

    def _made(self, pattern: Pattern, place: Place, o: Occurrence) -> tuple[Produced, ...]:
        return _ordered(found for found in self.tracer.produced(pattern, place) if found.result == o)

    def _pair(self, pattern: Pairing, place: Place, found: Produced) -> list[Expansion]:
        left, right = self.tracer.operands(pattern, place)
        expansions = []
        for choice in self.tracer.choices(pattern, place):
            for lefts, rights in self._joined(choice):
                if (_side(lefts), _side(rights)) == (found.left, found.right):
                    parts = [(*left, self._made(*left, o)) for o in lefts]
                    parts += [(*right, self._made(*right, o)) for o in rights]
                    expansions.append(Expansion(tuple(parts), choice))
        return expansions

    def _joined(self, choice: Choice) -> Iterator[tuple[tuple[Occurrence, ...], tuple[Occurrence, ...]]]:
        """The sides of the occurrences a choice gave rise to: one with all partners in cumulative, else one each."""
        if self.tracer.context is Context.CUMULATIVE:
            yield from [choice.sides()] if choice.chosen else []
        else:
            for y in choice.chosen:
                yield replace(choice, chosen=(y,)).sides()

    def _iteration(self, pattern: Times | Run, place: Place, o: Occurrence) -> list[Expansion]:
        (operand,) = self.tracer.operands(pattern, place)
        made: dict[Occurrence, list[Produced]] = {}
        for found in self.tracer.produced(*operand):
            made.setdefault(self.tracer.member(pattern, place, found.result), []).append(found)
        groups = [
            group for key in self.tracer.keys(pattern, place) for group in self.tracer.groups(pattern, key, place)
        ]
        return [
            Expansion(tuple((*operand, _ordered(made[member])) for member in group), members=tuple(group))
            for group in groups
            if whole(group) == o
        ]

    # What held.

    def facts(self, pattern: Pattern, place: Place, found: Produced, made: Expansion) -> Iterator[Fact]:
        o = found.result
        match pattern:
            case And() | Timed() | Alongside():
                yield from self._pair_facts(pattern, place, found, made)
            case Within(_, bound):
                yield Fits(o.start, o.end, bound)
            case Filter(_, condition):
                yield Satisfies(condition.text, project(o.bindings, condition.variables))
            case Unless(_, absent, window):
                yield self._absent(absent, "after", o.end, o.end + window, o.bindings)
            case Without(_, absent):
                yield self._between(absent, found)
            case Xor(left, right, window):
                other = right if made.parts[0][0] is left else left
                yield replace(self._absent(other, "hull", o.start, o.end, o.bindings), length=window)
            case No(operand):
                yield Begins(o.start, since=o.start == self.life.subscription.since)
                yield self._absent(operand, "after", o.start, o.end, ())
            case Times(_, _, gap) | Run(_, gap):
                yield from _member_facts(made.members, gap, place.bound)

    def _pair_facts(self, pattern: Pairing, place: Place, found: Produced, made: Expansion) -> Iterator[Fact]:
        assert found.left is not None and found.right is not None and made.choice is not None
        lefts, rights = made.choice.sides() if len(made.parts) > 2 else ((found.left,), (found.right,))
        for a in lefts:
            for b in rights:
                yield from _relation(pattern, a, b)
                yield from (Agrees(name, term) for name, term in a.bindings if (name, term) in b.bindings)
                if place.bound is not None:
                    yield Fits(min(a.start, b.start), max(a.end, b.end), place.bound)
                if place.condition is not None:
                    joined = merge([a, b], frozenset()).bindings
                    yield Satisfies(place.condition.text, project(joined, place.condition.variables))
        if self.tracer.context is self.life.subscription.context:
            yield _picked(self.tracer.context, made)

    def _absent(self, pattern: Pattern, window: str, after: int, until: int, bindings: Bindings) -> Absent:
        visible = project(bindings, self.tracer.visibility.occurring(pattern))
        return Absent(pattern_text(pattern), window, after, until, visible, self.checked)

    def _between(self, absent: Pattern, found: Produced) -> Fact:
        assert found.left is not None and found.right is not None, "WITHOUT stands over a pairing operator"
        if not found.left.end < found.right.start:
            return Passes(_span(found.left), _span(found.right))
        both = tuple(sorted({*found.left.bindings, *found.right.bindings}))
        return self._absent(absent, "between", found.left.end, found.right.start, both)

    # Leaves.

    def _leaf(self, leaf: Leaf, o: Occurrence) -> Reason:
        seen, solutions = self._solutions(leaf, o)
        event = self.life.subscription.event(leaf.name)
        facts = evidence(event, seen, solutions[0], self.scene.knowledge(seen.offset))
        return Reason(leaf, o, facts, solution=solutions[0], because=self._because(seen))

    def _solutions(self, leaf: Leaf, o: Occurrence) -> tuple[Seen, list[Bindings]]:
        """The event of a leaf's occurrence, and the solutions it may stand for."""
        (event,) = o.events
        seen = self.scene.seen(self.life, leaf.name, event)
        assert seen is not None, "a leaf's occurrence is of an event it sees"
        names = {name for name, _ in o.bindings}
        found = self.scene.solutions(self.life, leaf.name, seen)
        return seen, [solution for solution in found if project(solution, names) == o.bindings]

    def _because(self, seen: Seen) -> Why | None:
        if not isinstance(seen, Derived):
            return None
        producer = self.scene.producer(seen.id)
        assert producer is not None, "a derived event has a notification behind it"
        return why(self.scene, producer[1].notification, checked=self.checked)


def _ordered(found: Iterable[Produced]) -> tuple[Produced, ...]:
    """Each way once: final first, then in completion order."""

    def key(way: Produced) -> tuple[object, ...]:
        sides = [completion_order(side) for side in (way.left, way.right) if side is not None]
        return way.result.emitted, completion_order(way.result), sides

    return tuple(dict.fromkeys(sorted(found, key=key)))


def _side(members: tuple[Occurrence, ...]) -> Occurrence:
    return members[0] if len(members) == 1 else merge(members, frozenset())


def _span(o: Occurrence) -> Span:
    return Span(o.start, o.end)


def _relation(pattern: Pairing, a: Occurrence, b: Occurrence) -> Iterator[Fact]:
    if isinstance(pattern, Timed):
        yield Relates(pattern.relation.value, _span(a), _span(b))
    elif isinstance(pattern, Alongside):
        yield Relates("ALONGSIDE", _span(a), _span(b))


def _picked(context: Context, made: Expansion) -> Picked:
    assert made.choice is not None
    taken = len(made.parts) - 1
    return Picked(context.value, "right" if made.choice.x.is_right else "left", len(made.choice.candidates), taken)


def _member_facts(members: tuple[Occurrence, ...], gap: int | None, bound: int | None) -> Iterator[Fact]:
    yield Counted(len(members), members[0].bindings)
    if gap is not None:
        yield from (Gap(one.end, following.end, gap) for one, following in pairwise(members))
    if bound is not None:
        yield Fits(min(o.start for o in members), max(o.end for o in members), bound)
