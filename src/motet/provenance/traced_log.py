"""A log whose evaluation by the reference engine can be inspected: the results of every sub-pattern, the partners a
pairing operator chose, and what an occurrence that is not final yet waits for.

The reference engine sets ``final_at`` to the offset of the record that makes an occurrence final. Here it is the
instant the frontier must pass for that, so that occurrences that are not final yet can be explained, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import groupby

from motet.language.bounds import Bounded, bounds
from motet.language.syntax import (
    Alongside,
    And,
    Construct,
    Context,
    Filter,
    Leaf,
    No,
    Or,
    Pairing,
    Pattern,
    Run,
    Select,
    Subscription,
    Timed,
    Times,
    Unless,
    Within,
    Without,
    Xor,
)
from motet.language.walk import ITERATION, PAIRING
from motet.model.errors import UsageError
from motet.model.notifications import Notification
from motet.model.times import END_OF_TIME, START_OF_TIME
from motet.ontology.entailment import Entailment
from motet.reference.contexts import Admits, Completed, Produced
from motet.reference.finality import lag
from motet.reference.iterations import runs, sliding, tumbling
from motet.reference.leaves import interval_bindings, leaf_solutions
from motet.reference.log import Emission, Life, Log, Seen
from motet.reference.occurrences import NEVER, Bindings, Occurrence, hull, join, joinable, project, union
from motet.reference.operators import Evaluator, Place, related, true
from motet.reference.records import EventRecord, Record, RetractRecord, SubscribeRecord, TickRecord, stamp
from motet.reference.sparql import Triple
from motet.reference.visibility import Variables, Visibility


@dataclass(frozen=True)
class Choice:
    """What happened when ``x`` completed."""

    x: Completed
    candidates: tuple[Completed, ...]
    chosen: tuple[Completed, ...]
    closed: tuple[Completed, ...]  # open before, not afterwards

    def sides(self) -> tuple[tuple[Occurrence, ...], tuple[Occurrence, ...]]:
        """The occurrences of the left and of the right side that were joined."""
        own, others = (self.x.occurrence,), tuple(y.occurrence for y in self.chosen)
        return (others, own) if self.x.is_right else (own, others)


def choices(
    context: Context,
    left: Iterable[Occurrence],
    right: Iterable[Occurrence],
    shared: frozenset[str],
    admits: Admits,
) -> list[Choice]:
    """One choice for each occurrence of either side, in the order of completion."""
    sides = [Completed(o, False) for o in left] + [Completed(o, True) for o in right]
    opened: list[Completed] = []
    made: list[Choice] = []
    for together in _together(context, sorted(sides, key=lambda x: x.place)):
        before = list(opened)
        for x in together:
            candidates = tuple(y for y in before if y.is_right != x.is_right and admits(*in_order(x, y)))
            chosen = _chosen(context, candidates)
            closed = _closed(context, x, opened, candidates, chosen, shared)
            made.append(Choice(x, candidates, chosen, closed))
            opened = [y for y in opened if y not in closed]
            opened += [x] if _opens(context, candidates) else []
    return made


def in_order(x: Completed, y: Completed) -> tuple[Occurrence, Occurrence]:
    """Two occurrences of different sides, left first."""
    return (y.occurrence, x.occurrence) if x.is_right else (x.occurrence, y.occurrence)


def _together(context: Context, merged: Sequence[Completed]) -> list[list[Completed]]:
    """In recent, what has the same interval and the same non-empty events is paired before any of it opens."""
    if context is not Context.RECENT:
        return [[x] for x in merged]
    groups: list[list[Completed]] = []
    for (_, _, events), neighbours in groupby(merged, key=lambda x: x.place[:3]):
        same = list(neighbours)
        groups += [same] if events else [[x] for x in same]
    return groups


def _chosen(context: Context, candidates: tuple[Completed, ...]) -> tuple[Completed, ...]:
    if not candidates:
        return ()
    match context:
        case Context.RECENT:
            return (max(candidates, key=lambda y: y.place),)
        case Context.CHRONICLE:
            return (min(candidates, key=lambda y: y.place),)
        case _:
            return candidates


def _closed(
    context: Context,
    x: Completed,
    opened: Sequence[Completed],
    candidates: tuple[Completed, ...],
    chosen: tuple[Completed, ...],
    shared: frozenset[str],
) -> tuple[Completed, ...]:
    match context:
        case Context.UNRESTRICTED:
            return ()
        case Context.RECENT:
            return tuple(y for y in opened if _slot(y, shared) == _slot(x, shared))
        case Context.CHRONICLE:
            return chosen
        case Context.CONTINUOUS | Context.CUMULATIVE:
            return candidates


def _opens(context: Context, candidates: tuple[Completed, ...]) -> bool:
    return context in (Context.UNRESTRICTED, Context.RECENT) or not candidates


def _slot(x: Completed, shared: frozenset[str]) -> tuple[bool, object]:
    return x.is_right, project(x.occurrence.bindings, shared)


AT_ONCE = START_OF_TIME  # where the frontier must be for what is final without looking at anything else


@dataclass(frozen=True)
class Scene(Log):
    """A log as it is known here."""

    @classmethod
    def of(
        cls,
        records: Iterable[Record],
        *,
        ontology: Iterable[Triple] = (),
        entailment: str = "owl-rl",
        lateness: int | None = None,
    ) -> Scene:
        """The records must hold the subscribe records of the subscriptions in question."""
        stamped = tuple(stamp(list(records), lateness))
        return cls(stamped, frozenset(ontology), Entailment(entailment), lateness)

    @classmethod
    def of_events(
        cls,
        subscription: Subscription,
        events: Iterable[EventRecord],
        *,
        ontology: Iterable[Triple] = (),
        entailment: str = "owl-rl",
    ) -> Scene:
        """A subscription and some events, as `motet run` takes them."""
        records: list[Record] = [SubscribeRecord(0, subscription)]
        records += (replace(event, offset=number) for number, event in enumerate(events, 1))
        return cls.of([*records, TickRecord(len(records), END_OF_TIME)], ontology=ontology, entailment=entailment)

    @property
    def frontier(self) -> int | None:
        """In force after the last record."""
        return self.frontiers[-1][1] if self.frontiers else None

    def tracer(self, life: Life, context: Context | None = None) -> Tracer:
        """What a subscription makes of this log; with another context, what it could have made of it."""
        chosen = context or life.subscription.context
        if (life, chosen) not in self._tracers:
            self.derive()
            match, known = partial(self._timeless, life), partial(self._needed, life)
            since = life.subscription.since
            self._tracers[life, chosen] = Tracer(Visibility(life.subscription), chosen, since, match, known)
        return self._tracers[life, chosen]

    @cached_property
    def _tracers(self) -> dict[tuple[Life, Context], Tracer]:
        return {}

    def derive(self) -> None:
        """Derive the events of the subscriptions with CONSTRUCT, those that feed others first."""
        for life in self.lives:
            if isinstance(life.subscription.delivery, Construct):
                self._derive(life, ())

    def _derive(self, life: Life, waiting: tuple[Life, ...]) -> None:
        if life in self.emissions:
            return
        if life in waiting:
            names = ", ".join(sorted(one.subscription.name for one in waiting))
            raise UsageError(
                f"the CONSTRUCT clauses of {names} feed each other in a circle",
                advice="give the derived events a class that no EVENT of these subscriptions matches",
            )
        for feeder in self._feeders(life):
            self._derive(feeder, (*waiting, life))
        self.emissions[life] = self._emissions(life)

    def emitted(self, name: str | None = None) -> Iterator[Emission]:
        """The notifications of this log, of one subscription or of all."""
        self.derive()
        for life in self.lives:
            if name in (None, life.subscription.name):
                if life not in self.emissions:
                    self.emissions[life] = self._emissions(life)
                yield from self.emissions[life]

    def seen(self, life: Life, leaf: str, event: str) -> Seen | None:
        """An event as a leaf of the subscription sees it; None when it does not."""
        found = (seen for seen in self._seen(life, life.subscription.event(leaf)) if seen.id == event)
        return next(found, None)

    def solutions(self, life: Life, leaf: str, seen: Seen) -> list[Bindings]:
        """The solutions of a leaf in an event it sees, over all its variables."""
        event = life.subscription.event(leaf)
        found = leaf_solutions(event, seen.id, seen.triples, self.knowledge(seen.offset))
        return sorted(union(solution, interval_bindings(event, seen.start, seen.end)) for solution in found)

    def published(self, event: str) -> EventRecord | None:
        """The record of an event; None for a derived or unknown one."""
        return next((one for one in self.records if isinstance(one, EventRecord) and one.id == event), None)

    def start_of(self, event: str) -> int | None:
        """When an event starts; None when there is no such event."""
        self.derive()
        record, producer = self.published(event), self.producer(event)
        if record is not None:
            return record.start
        return None if producer is None else producer[1].notification.start

    def is_retracted(self, event: str, before: int = NEVER) -> bool:
        """Whether an event has been retracted, before an offset."""
        record = self.published(event)
        retractions = (one.offset for one in self.records if isinstance(one, RetractRecord) and one.event == event)
        return record is not None and any(record.offset < offset < before for offset in retractions)

    def producer(self, event: str) -> tuple[Life, Emission] | None:
        """The notification behind a derived event."""
        pairs = ((life, emission) for life, found in self.emissions.items() for emission in found)
        return next((pair for pair in pairs if any(derived.id == event for derived in pair[1].derived)), None)

    def _timeless(self, life: Life, name: str, visible: Variables) -> list[Occurrence]:
        return [replace(o, emitted=AT_ONCE) for o in self._match(life, name, visible)]

    def _needed(self, life: Life, instant: int, bound: int | None, patterns: tuple[Pattern, ...]) -> int:
        last = self.records[-1].offset
        return instant + max(lag(pattern, bound, partial(self._leaf_lag, life, last)) for pattern in patterns)


class Tracer(Evaluator):
    """The evaluator of one subscription, which remembers and tells where its operands stand."""

    @cached_property
    def _remembered(self) -> dict[tuple[Pattern, Place], list[Produced]]:
        return {}

    @cached_property
    def _choices(self) -> dict[tuple[Pattern, Place], list[Choice]]:
        return {}

    def produced(self, pattern: Pattern, place: Place) -> list[Produced]:
        key = (pattern, place)
        if key not in self._remembered:
            self._remembered[key] = super().produced(pattern, place)
        return self._remembered[key]

    def root(self) -> Place:
        return Place(self.visibility.delivered())

    def delivered(self, o: Occurrence) -> Bindings:
        """The bindings of a notification."""
        whole = self.visibility.subscription.delivery == Select(None)
        return o.bindings if whole else project(o.bindings, self.visibility.delivered())

    def tells(self, o: Occurrence, notification: Notification) -> bool:
        """Whether an occurrence of the whole pattern is this notification."""
        told = (tuple(sorted(o.events)), o.start, o.end, self.delivered(o))
        return told == (notification.events, notification.start, notification.end, notification.bindings)

    def operands(self, pattern: Pattern, place: Place) -> list[tuple[Pattern, Place]]:  # noqa: PLR0911  (a table)
        """The operands with their places, left to right; of UNLESS and WITHOUT the absent one is the second."""
        match pattern:
            case And() | Timed() | Alongside() | Or() | Xor():
                return list(zip((pattern.left, pattern.right), self._places(pattern, place), strict=True))
            case Unless() | Without():
                return list(zip((pattern.operand, pattern.absent), self._guarded_places(pattern, place), strict=True))
            case Within(operand, bound):
                return [(operand, replace(place.below(), bound=bound))]
            case Filter(operand, condition):
                carried = condition if isinstance(operand, PAIRING) else None
                return [(operand, replace(place.below(condition.variables), condition=carried))]
            case No(operand):
                return [(operand, place.below())]
            case Times(operand) | Run(operand):
                return [(operand, place.below(inside_iteration=True))]
            case Leaf():
                return []

    def keys(self, pattern: Times | Run, place: Place) -> list[list[Occurrence]]:
        """The members of an iteration that fit its bound, for each key."""
        return self._keys(pattern, place)

    def groups(self, pattern: Times | Run, members: list[Occurrence], place: Place) -> list[list[Occurrence]]:
        """The members of one key, grouped into occurrences of the iteration."""
        if isinstance(pattern, Run):
            return runs(members, pattern.gap, place.bound)
        slides = self.context in (Context.UNRESTRICTED, Context.RECENT)
        return (sliding if slides else tumbling)(members, pattern.count, pattern.gap, place.bound)

    def member(self, pattern: Times | Run, place: Place, o: Occurrence) -> Occurrence:
        """An occurrence of the operand as a member: projected to what is visible outside."""
        visible = self.visibility.visible(pattern, place.outside, inside_iteration=True)
        return replace(o, bindings=project(o.bindings, visible))

    def choices(self, pattern: Pairing, place: Place) -> list[Choice]:
        """How the pairs of an operator came about."""
        key = (pattern, place)
        if key not in self._choices:
            left, right = self._places(pattern, place)
            self._choices[key] = choices(
                self.context,
                self.occurrences(pattern.left, left),
                self.occurrences(pattern.right, right),
                self._shared(pattern, left, right),
                lambda a, b: admits(pattern, place, a, b),
            )
        return self._choices[key]


def admits(pattern: Pairing, place: Place, a: Occurrence, b: Occurrence) -> bool:
    """What makes two occurrences candidates for each other."""
    return (
        joinable(a, b)
        and related(pattern, a, b)
        and (place.bound is None or hull(a, b) <= place.bound)
        and (place.condition is None or true(place.condition, join(a, b)))
    )


def is_carried(pattern: Pattern) -> bool:
    """Whether a WITHIN or FILTER is carried by the operator directly below, so that it does nothing itself.

    >>> is_carried(Within(And(Leaf("a"), Leaf("b")), 5)), is_carried(Within(Leaf("a"), 5))
    (True, False)
    """
    match pattern:
        case Within(operand):
            return isinstance(operand, (*PAIRING, *ITERATION))
        case Filter(operand):
            return isinstance(operand, PAIRING)
    return False


def reach(pattern: Pattern) -> int | None:
    """In microseconds; None when an operator is unbounded.

    In contexts that consume, what an occurrence found open may depend on pairs further back still.

    >>> from motet.language.parse import parse
    >>> [one] = parse("SUBSCRIPTION s EVENT a EVENT b EVENT c WHEN (a BEFORE b WITHIN 5 s) UNLESS c WITHIN 2 s")
    >>> reach(one.pattern)
    7000000
    """
    return _reach(bounds(pattern))


def _reach(bounded: Bounded) -> int | None:
    parts = [_own(bounded), *map(_reach, bounded.children)]
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _own(bounded: Bounded) -> int | None:
    match bounded.node:
        case Unless(window=length) | Xor(window=length) | No(duration=length):
            return length
        case Times(_, count, gap) if bounded.bound is None and gap is not None:
            return count * gap
        case Times() | Run():
            return bounded.bound
    return bounded.bound if isinstance(bounded.node, PAIRING) else 0
