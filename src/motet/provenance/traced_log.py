"""A log whose evaluation by the reference engine can be inspected: the results of every sub-pattern, the partners a
pairing operator chose, and what an occurrence that is not final yet waits for.

The reference engine sets ``final_at`` to the offset of the record that makes an occurrence final. Here it is the
instant the frontier must pass for that, so that occurrences that are not final yet can be explained, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from motet.language import syntax
from motet.language.scope import ITERATION, PAIRING, Bounded, bounds, has_no
from motet.model.errors import UsageError
from motet.model.notifications import Notification
from motet.model.times import END_OF_TIME, START_OF_TIME
from motet.ontology.entailment import Entailment
from motet.reference.contexts import (
    CompletedOccurrence,
    PairPredicate,
    PatternResult,
    pair_candidates,
    recent_key,
    tie_groups,
)
from motet.reference.finality import lag
from motet.reference.leaves import interval_bindings, leaf_solutions
from motet.reference.log import EmittedNotification, Log, Registration, VisibleEvent
from motet.reference.occurrences import NEVER, Occurrence, SortedBindings, project, union
from motet.reference.operators import Evaluator, Scope, is_candidate_pair
from motet.reference.records import (
    EventRecord,
    Record,
    RetractRecord,
    SubscribeRecord,
    TickRecord,
    WrittenLog,
    write_log,
)
from motet.reference.sparql import Triple
from motet.reference.visibility import Variables, Visibility

IMMEDIATELY = START_OF_TIME  # the frontier required by an occurrence that depends on nothing else


@dataclass(frozen=True)
class TracedLog(Log):
    """A log, or a part of one, with the results of every sub-pattern of its subscriptions."""

    whole_least_end: Callable[[int], int | None] | None = None  # of a part: `least_end` in the whole log, by offset

    @classmethod
    def from_records(
        cls,
        records: Iterable[Record],
        *,
        ontology: Iterable[Triple] = (),
        entailment: str | None = None,
        lateness: int | None = None,
    ) -> TracedLog:
        """A log of these records; the subscribe records of the explained subscriptions must be among them."""
        return cls.from_written(write_log(records, lateness), ontology=ontology, entailment=entailment)

    @classmethod
    def from_written(
        cls,
        written: WrittenLog,
        *,
        ontology: Iterable[Triple] = (),
        entailment: str | None = None,
        least_end: Callable[[int], int | None] | None = None,
    ) -> TracedLog:
        """A log, or a part of one, whose records have their frontiers.

        For a part, ``least_end`` returns the least end of all visible events after an offset.
        """
        requested = Entailment(entailment) if entailment else None
        return cls(written.records, written.frontier, frozenset(ontology), requested, whole_least_end=least_end)

    @classmethod
    def from_events(
        cls,
        subscription: syntax.Subscription,
        events: Iterable[EventRecord],
        *,
        ontology: Iterable[Triple] = (),
        entailment: str | None = None,
    ) -> TracedLog:
        """A log of one subscription and its events, as `motet run` evaluates them."""
        records: list[Record] = [SubscribeRecord(0, subscription)]
        records += (replace(event, offset=offset) for offset, event in enumerate(events, 1))
        return cls.from_records(
            [*records, TickRecord(len(records), END_OF_TIME)], ontology=ontology, entailment=entailment
        )

    def least_end(self, registration: Registration) -> int | None:
        """The least end of all events that a subscription with NO sees; the others have no use for it."""
        if self.whole_least_end is None or not has_no(registration.subscription.pattern):
            return super().least_end(registration)
        return self.whole_least_end(registration.offset)

    def evaluator(self, registration: Registration, context: syntax.Context | None = None) -> TracedEvaluator:
        """The evaluator of a subscription, in its own context or another one."""
        subscription = registration.subscription
        key = (registration, context or subscription.context)
        if key not in self._evaluators:
            self.derive_events()
            self._evaluators[key] = TracedEvaluator(
                Visibility(subscription),
                key[1],
                self.beginning(registration),
                partial(self._untimed_occurrences, registration),
                partial(self._required_frontier, registration),
            )
        return self._evaluators[key]

    @cached_property
    def _evaluators(self) -> dict[tuple[Registration, syntax.Context], TracedEvaluator]:
        return {}

    def derive_events(self) -> None:
        """Derive the events of the subscriptions with CONSTRUCT, upstream first."""
        for registration in self.registrations:
            if isinstance(registration.subscription.delivery, syntax.Construct):
                self._derive(registration, ())

    def _derive(self, registration: Registration, downstream: tuple[Registration, ...]) -> None:
        if registration in self.emissions:
            return
        if registration in downstream:
            names = ", ".join(sorted(link.subscription.name for link in downstream))
            raise UsageError(
                f"the CONSTRUCT clauses of {names} feed each retraction in a cycle",
                advice="give the derived events a class that no EVENT of these subscriptions matches",
            )
        for producer in self.upstream(registration):
            self._derive(producer, (*downstream, registration))
        self.emissions[registration] = self.emissions_of(registration)

    def emissions_by_name(self, name: str | None = None) -> Iterator[EmittedNotification]:
        """The notifications of this log, of one subscription or of all."""
        self.derive_events()
        for registration in self.registrations:
            if name in (None, registration.subscription.name):
                if registration not in self.emissions:
                    self.emissions[registration] = self.emissions_of(registration)
                yield from self.emissions[registration]

    def visible_event(self, registration: Registration, leaf: str, event: str) -> VisibleEvent | None:
        """An event as a leaf of the subscription reads it; None when it is not visible to the leaf."""
        visible = self.visible_events(registration, registration.subscription.event(leaf))
        return next((candidate for candidate in visible if candidate.id == event), None)

    def solutions(self, registration: Registration, leaf: str, visible_event: VisibleEvent) -> list[SortedBindings]:
        """The solutions of a leaf in an event visible to it, over all its variables."""
        event = registration.subscription.event(leaf)
        solutions = leaf_solutions(
            event,
            visible_event.id,
            visible_event.triples,
            self.background_at(visible_event.offset),
            visible_event.payload,
        )
        return sorted(
            union(solution, interval_bindings(event, visible_event.start, visible_event.end)) for solution in solutions
        )

    def event_record(self, event: str) -> EventRecord | None:
        """The record of an event; None for a derived or unknown one."""
        return next((record for record in self.records if isinstance(record, EventRecord) and record.id == event), None)

    def start_of(self, event: str) -> int | None:
        """The start of an event; None when there is no such event."""
        self.derive_events()
        record, producer = self.event_record(event), self.producer(event)
        if record is not None:
            return record.start
        return None if producer is None else producer[1].notification.start_micros

    def is_retracted(self, event: str, before: int = NEVER) -> bool:
        """Whether an event has been retracted, before an offset."""
        record = self.event_record(event)
        retractions = (
            retraction.offset
            for retraction in self.records
            if isinstance(retraction, RetractRecord) and retraction.event == event
        )
        return record is not None and any(record.offset < offset < before for offset in retractions)

    def producer(self, event: str) -> tuple[Registration, EmittedNotification] | None:
        """The registration and emission that derived an event."""
        pairs = ((registration, emission) for registration, batch in self.emissions.items() for emission in batch)
        return next((pair for pair in pairs if any(derived.id == event for derived in pair[1].derived)), None)

    def _untimed_occurrences(self, registration: Registration, name: str, visible: Variables) -> list[Occurrence]:
        return [replace(o, final_at=IMMEDIATELY) for o in self.leaf_occurrences(registration, name, visible)]

    def _required_frontier(
        self, registration: Registration, instant: int, bound: int | None, patterns: tuple[syntax.Pattern, ...]
    ) -> int:
        last = self.records[-1].offset
        return instant + max(lag(pattern, bound, partial(self.leaf_lag, registration, last)) for pattern in patterns)


class TracedEvaluator(Evaluator):
    """The evaluator of one subscription; caches the results and the choices of partners of every sub-pattern."""

    @cached_property
    def _cached_results(self) -> dict[tuple[syntax.Pattern, Scope], list[PatternResult]]:
        return {}

    @cached_property
    def _choices(self) -> dict[tuple[syntax.Pattern, Scope], list[PartnerChoice]]:
        return {}

    def results(self, pattern: syntax.Pattern, scope: Scope) -> list[PatternResult]:
        key = (pattern, scope)
        if key not in self._cached_results:
            self._cached_results[key] = super().results(pattern, scope)
        return self._cached_results[key]

    def root_scope(self) -> Scope:
        return Scope(self.visibility.delivery_variables())

    def delivered_bindings(self, o: Occurrence) -> SortedBindings:
        """The bindings of a notification."""
        return o.bindings if self.visibility.selects_all else project(o.bindings, self.visibility.delivery_variables())

    def is_notification(self, o: Occurrence, notification: Notification) -> bool:
        """Whether an occurrence of the whole pattern is this notification."""
        projected = (tuple(sorted(o.events)), o.start, o.end, self.delivered_bindings(o))
        return projected == (
            notification.events,
            notification.start_micros,
            notification.end_micros,
            notification.bindings,
        )

    def choices(self, pattern: syntax.Pairing, scope: Scope) -> list[PartnerChoice]:
        """The choices of partners that gave the pairs of an operator."""
        key = (pattern, scope)
        if key not in self._choices:
            left, right = self.operands(pattern, scope)
            self._choices[key] = partner_choices(
                self.context,
                self.occurrences(*left),
                self.occurrences(*right),
                self.shared_variables(pattern, scope),
                lambda a, b: is_candidate_pair(pattern, scope, a, b),
            )
        return self._choices[key]


@dataclass(frozen=True)
class PartnerChoice:
    """The candidates, chosen partners and closed occurrences when ``completed`` completed (language page, section 7).

    The reference engine computes only the pairs; a test compares the two.
    """

    completed: CompletedOccurrence
    candidates: tuple[CompletedOccurrence, ...]
    chosen: tuple[CompletedOccurrence, ...]
    closed: tuple[CompletedOccurrence, ...]  # open before, not afterwards

    def sides(self) -> tuple[tuple[Occurrence, ...], tuple[Occurrence, ...]]:
        """The occurrences of the left and of the right side that were joined."""
        completed, partners = (self.completed.occurrence,), tuple(y.occurrence for y in self.chosen)
        return (partners, completed) if self.completed.is_right else (completed, partners)


def partner_choices(
    context: syntax.Context,
    left: Iterable[Occurrence],
    right: Iterable[Occurrence],
    shared: frozenset[str],
    admits: PairPredicate,
) -> list[PartnerChoice]:
    """One choice for each occurrence of either side, in completion order."""
    sides = [CompletedOccurrence(o, False) for o in left] + [CompletedOccurrence(o, True) for o in right]
    merged = sorted(sides, key=lambda x: x.order_key)
    open_sides: list[CompletedOccurrence] = []
    choices: list[PartnerChoice] = []
    for ties in tie_groups(merged) if context is syntax.Context.RECENT else ([x] for x in merged):
        before = list(open_sides)
        for x in ties:
            candidates = tuple(pair_candidates(x, before, admits))
            chosen = _chosen(context, candidates)
            closed = _closed(context, x, open_sides, candidates, chosen, shared)
            choices.append(PartnerChoice(x, candidates, chosen, closed))
            open_sides = [y for y in open_sides if y not in closed]
            open_sides += [x] if _opens(context, candidates) else []
    return choices


def _chosen(context: syntax.Context, candidates: tuple[CompletedOccurrence, ...]) -> tuple[CompletedOccurrence, ...]:
    if not candidates:
        return ()
    match context:
        case syntax.Context.RECENT:
            return (max(candidates, key=lambda y: y.order_key),)
        case syntax.Context.CHRONICLE:
            return (min(candidates, key=lambda y: y.order_key),)
        case _:
            return candidates


def _closed(
    context: syntax.Context,
    x: CompletedOccurrence,
    open_sides: Sequence[CompletedOccurrence],
    candidates: tuple[CompletedOccurrence, ...],
    chosen: tuple[CompletedOccurrence, ...],
    shared: frozenset[str],
) -> tuple[CompletedOccurrence, ...]:
    match context:
        case syntax.Context.UNRESTRICTED:
            return ()
        case syntax.Context.RECENT:
            return tuple(y for y in open_sides if recent_key(y, shared) == recent_key(x, shared))
        case syntax.Context.CHRONICLE:
            return chosen
        case syntax.Context.CONTINUOUS | syntax.Context.CUMULATIVE:
            return candidates


def _opens(context: syntax.Context, candidates: tuple[CompletedOccurrence, ...]) -> bool:
    return context in (syntax.Context.UNRESTRICTED, syntax.Context.RECENT) or not candidates


def is_carried(pattern: syntax.Pattern) -> bool:
    """Whether a WITHIN or FILTER is carried by the operator directly below and needs no node of its own.

    >>> from motet.language.syntax import And, Leaf
    >>> is_carried(syntax.Within(And(Leaf("a"), Leaf("b")), 5)), is_carried(syntax.Within(Leaf("a"), 5))
    (True, False)
    """
    match pattern:
        case syntax.Within(operand):
            return isinstance(operand, (*PAIRING, *ITERATION))
        case syntax.Filter(operand):
            return isinstance(operand, PAIRING)
    return False


def time_radius(pattern: syntax.Pattern) -> int | None:
    """The distance within which events can matter to an occurrence, in microseconds; None when it is unbounded.

    It is the sum of all bounds, windows and gaps. In contexts that consume, the open partners of an occurrence may
    depend on pairs even further back.

    >>> from motet.language.parse import parse
    >>> [fire] = parse("SUBSCRIPTION s EVENT a EVENT b EVENT c WHEN (a BEFORE b WITHIN 5 s) UNLESS c WITHIN 2 s")
    >>> time_radius(fire.pattern)
    7000000
    """
    return _time_radius(bounds(pattern))


def _time_radius(bounded: Bounded) -> int | None:
    radii = [_node_radius(bounded), *map(_time_radius, bounded.children)]
    finite = [radius for radius in radii if radius is not None]
    return sum(finite) if len(finite) == len(radii) else None


def _node_radius(bounded: Bounded) -> int | None:
    match bounded.node:
        case syntax.Unless(window=length) | syntax.Xor(window=length) | syntax.No(duration=length):
            return length
        case syntax.Times(_, count, gap) if bounded.bound is None and gap is not None:
            return count * gap
        case syntax.Times() | syntax.Run():
            return bounded.bound
    return bounded.bound if isinstance(bounded.node, PAIRING) else 0
