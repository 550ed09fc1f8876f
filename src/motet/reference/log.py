"""The notifications of a whole log (language page, section 11): who sees which events, and which record made what
final.

A subscription's **life** reaches from its subscribe record to its unsubscribe record. A notification is emitted with
the last record that contributes to it: its events, the records that moved the frontier past everything its definition
looks at, and the subscribe record itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from motet.language.syntax import Construct, Event, Events, Pattern, Select, Subscription
from motet.model.errors import UsageError
from motet.model.notifications import Notification
from motet.model.terms import iri
from motet.ontology.entailment import Entailment
from motet.reference.contexts import Produced
from motet.reference.derivation import derived_iri, feeds, instantiate
from motet.reference.finality import lag, passed
from motet.reference.leaves import Knowledge, interval_bindings, leaf_solutions
from motet.reference.occurrences import NEVER, Occurrence, distinct, project, union
from motet.reference.operators import Evaluator, Place
from motet.reference.records import (
    BackgroundRecord,
    EventRecord,
    Record,
    RetractRecord,
    SubscribeRecord,
    UnsubscribeRecord,
    moved,
    stamp,
)
from motet.reference.sparql import Triple
from motet.reference.visibility import Variables, Visibility

Observe = Callable[[str, Pattern, Sequence[Produced]], object]  # a subscription's name, a part of its pattern


@dataclass(frozen=True)
class Life:
    """A subscription from its subscribe record to its unsubscribe record."""

    subscription: Subscription
    offset: int
    ended: int

    def lives_at(self, offset: int) -> bool:
        return self.offset <= offset < self.ended


@dataclass(frozen=True)
class Seen:
    """An event as a leaf sees it: published, or derived by a clause of another subscription."""

    id: str
    start: int
    end: int
    triples: frozenset[Triple]
    offset: int  # of its record; of a derived event, of the record that made its notification final


@dataclass(frozen=True)
class Derived(Seen):
    producer: Life
    clause: int


@dataclass(frozen=True)
class Emission:
    offset: int
    notification: Notification
    derived: tuple[Derived, ...]


@dataclass(frozen=True)
class Log:
    """A stamped log and how it is read."""

    records: tuple[Record, ...]
    ontology: frozenset[Triple]
    entailment: Entailment
    lateness: int | None
    observe: Observe = lambda name, pattern, produced: None
    emissions: dict[Life, list[Emission]] = field(default_factory=dict)

    @cached_property
    def lives(self) -> list[Life]:
        """“An unsubscribe record ends it at that offset”"""
        lives: list[Life] = []
        for record in self.records:
            living = [life for life in lives if life.ended == NEVER]
            if isinstance(record, SubscribeRecord):
                _refuse_living_name(record, living)
                lives.append(Life(record.subscription, record.offset, NEVER))
            elif isinstance(record, UnsubscribeRecord):
                for life in living:
                    if life.subscription.name == record.name:
                        lives[lives.index(life)] = replace(life, ended=record.offset)
        return lives

    @cached_property
    def frontiers(self) -> list[tuple[int, int | None]]:
        """Each record's offset, and the frontier once it is there."""
        frontiers: list[tuple[int, int | None]] = []
        frontier = None
        for record in self.records:
            frontier = moved(frontier, record, self.lateness)
            frontiers.append((record.offset, frontier))
        return frontiers

    def knowledge(self, offset: int) -> Knowledge:
        """“A change of the background graph holds for events after it.” What is both removed and added is there."""
        triples = self.ontology
        for change in self.background_changes:
            if change.offset < offset:
                triples = (triples - change.removed) | change.added
        return Knowledge(triples, self.entailment)

    @cached_property
    def background_changes(self) -> list[BackgroundRecord]:
        return [record for record in self.records if isinstance(record, BackgroundRecord)]

    def evaluate(self) -> list[Emission]:
        """The emissions of all lives, those that feed others first."""
        for life in _in_order(self.lives, {life: self._feeders(life) for life in self.lives}):
            self.emissions[life] = self._emissions(life)
        return [emission for life in self.lives for emission in self.emissions[life]]

    def _emissions(self, life: Life) -> list[Emission]:
        """“A notification is an occurrence of the whole pattern with its bindings projected to the delivery clause
        […]. The notifications of a subscription are a *set*.”

        “notifications whose last contributing record […] has a smaller offset remain, pending ones are dropped”
        """
        visibility = Visibility(life.subscription)
        evaluator = Evaluator(
            visibility,
            life.subscription.context,
            life.subscription.since,
            partial(self._match, life),
            partial(self._known, life),
            partial(self.observe, life.subscription.name),
        )
        found = evaluator.occurrences(life.subscription.pattern, Place(visibility.delivered()))
        final = [replace(o, emitted=max(o.emitted, life.offset)) for o in found if o.emitted < life.ended]
        whole = life.subscription.delivery == Select(None)
        delivered = final if whole else [_projected(o, visibility.delivered()) for o in final]
        return [self._emission(life, o) for o in distinct(delivered)]

    def _emission(self, life: Life, o: Occurrence) -> Emission:
        plain = Notification(life.subscription.name, o.start, o.end, tuple(sorted(o.events)), o.bindings)
        match life.subscription.delivery:
            case Events():
                lines = {f"{s} {p} {v} {iri(event)} ." for event in o.events for s, p, v in self._graph(event)}
                return Emission(o.emitted, replace(plain, graphs=tuple(sorted(lines))), ())
            case Construct():
                derived = tuple(_derived(life, life.subscription.delivery, plain, o))
                lines = {f"{s} {p} {v} ." for event in derived for s, p, v in event.triples}
                return Emission(o.emitted, replace(plain, construct=tuple(sorted(lines))), derived)
            case _:
                return Emission(o.emitted, plain, ())

    def _match(self, life: Life, name: str, visible: Variables) -> list[Occurrence]:
        """“A leaf yields, for each event and each distinct solution projected to its visible variables, one
        occurrence.”
        """
        event = life.subscription.event(name)
        return distinct(
            Occurrence(
                frozenset({seen.id}),
                seen.start,
                seen.end,
                project(solution, visible),
                emitted=seen.offset,
                members=frozenset({project(solution, visible | {name})}),
            )
            for seen in self._seen(life, event)
            for found in leaf_solutions(event, seen.id, seen.triples, self.knowledge(seen.offset))
            for solution in [union(found, interval_bindings(event, seen.start, seen.end))]
        )

    def _seen(self, life: Life, event: Event) -> Iterator[Seen]:
        """“A subscription sees the events after its own offset. With `SINCE t` it also sees the earlier, not late,
        events with `start >= t`”. “A **retraction** hides an event […] from subscriptions that start after it”.

        A derived event counts from its notification's record. To a subscription that is older than its producer it is
        late when it ends below the frontier the producer began with.
        """
        since = life.subscription.since
        for seen in self._events(life, event):
            if isinstance(seen, Derived) and seen.producer.offset > life.offset:
                if not self._late_for_older(seen.producer, seen.end):
                    yield seen
            elif seen.offset > life.offset or (
                since is not None and seen.start >= since and not self._retracted(seen, life.offset)
            ):
                yield seen

    def _events(self, life: Life, leaf: Event) -> Iterator[Seen]:
        """All published events that are not late, and the derived ones that feed a leaf."""
        for record in self.records:
            if isinstance(record, EventRecord) and not record.late:
                yield Seen(record.id, record.start, record.end, record.triples, record.offset)
        for derived in self._all_derived():
            if self._clause_feeds(derived.producer, derived.clause, life, leaf):
                yield derived

    def _all_derived(self) -> list[Derived]:
        return [derived for found in self.emissions.values() for emission in found for derived in emission.derived]

    def _graph(self, event: str) -> frozenset[Triple]:
        graphs = {record.id: record.triples for record in self.records if isinstance(record, EventRecord)}
        return (graphs | {derived.id: derived.triples for derived in self._all_derived()})[event]

    def _late_for_older(self, producer: Life, end: int) -> bool:
        before = dict(self.frontiers)[producer.offset]
        return before is not None and end < before

    def _retracted(self, event: Seen, offset: int) -> bool:
        return any(
            isinstance(record, RetractRecord) and record.event == event.id and event.offset < record.offset < offset
            for record in self.records
        )

    def _known(self, life: Life, instant: int, bound: int | None, patterns: tuple[Pattern, ...]) -> int:
        """The first record at which all occurrences of the patterns that end at or before the instant are known."""
        for offset, frontier in self.frontiers:
            if passed(frontier, instant):  # a lag is never negative
                behind = max(lag(pattern, bound, partial(self._leaf_lag, life, offset)) for pattern in patterns)
                if passed(frontier, instant + behind):
                    return offset
        return NEVER

    def _leaf_lag(self, life: Life, offset: int, name: str) -> int:
        """How long a leaf waits for the derived events that feed it, as far as subscriptions are known at an offset."""
        event = life.subscription.event(name)
        return max(
            (
                lag(feeder.subscription.pattern, None, partial(self._leaf_lag, feeder, offset))
                for feeder in self.lives
                if feeder.lives_at(offset) and self._feeds(feeder, life, event)
            ),
            default=0,
        )

    def _feeders(self, life: Life) -> list[Life]:
        """The subscriptions whose derived events this one may see: they began before it ended."""
        return [
            feeder
            for feeder in self.lives
            if feeder.offset < life.ended
            and any(self._feeds(feeder, life, event) for event in life.subscription.events)
        ]

    def _feeds(self, feeder: Life, life: Life, leaf: Event) -> bool:
        delivery = feeder.subscription.delivery
        clauses = len(delivery.templates) if isinstance(delivery, Construct) else 0
        return any(self._clause_feeds(feeder, clause, life, leaf) for clause in range(clauses))

    def _clause_feeds(self, feeder: Life, clause: int, life: Life, leaf: Event) -> bool:
        """“*Other* subscriptions see it as a leaf input”: none sees what it derived itself."""
        delivery = feeder.subscription.delivery
        assert isinstance(delivery, Construct)
        other = feeder.subscription.name != life.subscription.name
        return other and feeds(delivery.templates[clause], leaf, Knowledge(self.ontology, self.entailment))


def _derived(life: Life, delivery: Construct, notification: Notification, o: Occurrence) -> Iterator[Derived]:
    """“Each CONSTRUCT clause of a notification yields one new event […]. Its IRI derives from the notification id and
    the clause's position, its interval is the occurrence's hull.”
    """
    for clause, template in enumerate(delivery.templates):
        name = derived_iri(notification.id, clause + 1)
        triples = instantiate(template, o.members, name)
        if triples:
            yield Derived(name, o.start, o.end, triples, o.emitted, life, clause)


def _projected(o: Occurrence, variables: Variables) -> Occurrence:
    return replace(o, bindings=project(o.bindings, variables))


def _refuse_living_name(record: SubscribeRecord, living: Iterable[Life]) -> None:
    if any(life.subscription.name == record.subscription.name for life in living):
        raise UsageError(
            f"the subscription '{record.subscription.name}' at offset {record.offset} is already registered",
            advice="unsubscribe it first, or give the new one another name",
        )


def _in_order(lives: Sequence[Life], feeders: dict[Life, list[Life]]) -> Iterator[Life]:
    """Every life after those that feed it. “Cycles are refused.”"""
    done: list[Life] = []
    while len(done) < len(lives):
        ready = [life for life in lives if life not in done and all(feeder in done for feeder in feeders[life])]
        if not ready:
            names = sorted({life.subscription.name for life in lives if life not in done})
            raise UsageError(
                f"the CONSTRUCT clauses of {', '.join(names)} feed each other in a circle",
                advice="give the derived events a class that no EVENT of these subscriptions matches",
            )
        yield ready[0]
        done.append(ready[0])


def evaluate_emissions(
    records: Sequence[Record],
    *,
    ontology: Iterable[Triple] = (),
    entailment: str = "owl-rl",
    lateness: int | None,
    observe: Observe = lambda name, pattern, produced: None,
) -> list[tuple[int, Notification]]:
    """Every notification of a log with the offset of the record that made it final, in the order of ``motet run``.

    ``observe`` is told what each sub-pattern of each subscription has produced.
    """
    stamped = tuple(stamp(records, lateness))
    log = Log(stamped, frozenset(ontology), Entailment(entailment), lateness, observe)
    found = [(emission.offset, emission.notification) for emission in log.evaluate()]
    return sorted(found, key=lambda pair: (pair[1].sort_key, pair[0]))


def evaluate(
    records: Sequence[Record],
    *,
    ontology: Iterable[Triple] = (),
    entailment: str = "owl-rl",
    lateness: int | None,
) -> list[Notification]:
    """The notifications of a log, each once, in the order of ``motet run``; a lateness of None is unlimited."""
    emissions = evaluate_emissions(records, ontology=ontology, entailment=entailment, lateness=lateness)
    return list(dict.fromkeys(notification for _, notification in emissions))
