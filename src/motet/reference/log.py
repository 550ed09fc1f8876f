"""The notifications of a whole log (language page, section 11): the events visible to each subscription, and the
record that makes each notification final.

A **registration** reaches from a subscribe record to its unsubscribe record. A notification is emitted with
the last record that contributes to it: its events, the records that moved the frontier past everything its definition
looks at, and the subscribe record itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from motet.codec.xml import lift_derived
from motet.language.syntax import Construct, Event, Events, Pattern, Select, Subscription, XmlTemplate, with_mappings
from motet.model.errors import UsageError
from motet.model.notifications import Notification
from motet.model.terms import iri, iri_value
from motet.model.xml_document import canonical_document
from motet.ontology.entailment import Entailment
from motet.reference.contexts import PatternResult
from motet.reference.derivation import derived_iri, feeds, inserted_as_xml, instantiate
from motet.reference.finality import has_passed, lag
from motet.reference.leaves import BackgroundGraph, interval_bindings, leaf_solutions
from motet.reference.occurrences import NEVER, Occurrence, SortedBindings, distinct, project, union
from motet.reference.operators import Evaluator, Scope
from motet.reference.records import (
    BackgroundRecord,
    EventRecord,
    Record,
    RetractRecord,
    SettingsRecord,
    SubscribeRecord,
    UnsubscribeRecord,
    WrittenLog,
    is_late,
    write_log,
)
from motet.reference.sparql import Triple
from motet.reference.visibility import Variables, Visibility
from motet.xmlql.construct import construct

_MEMBER_EVENT = "event "  # and the name of an EVENT: not a variable, so that only the EVENT itself binds it in a member

Observe = Callable[[str, Pattern, Sequence[PatternResult]], object]  # subscription name, sub-pattern, its results


@dataclass(frozen=True)
class Registration:
    """A subscription from its subscribe record to its unsubscribe record."""

    subscription: Subscription
    offset: int
    end_offset: int
    frontier: int | None = None  # that its subscribe record stores

    def is_active_at(self, offset: int) -> bool:
        return self.offset <= offset < self.end_offset


@dataclass(frozen=True)
class VisibleEvent:
    """An event visible to a leaf: published, or derived by a CONSTRUCT clause of another subscription."""

    id: str
    start: int
    end: int
    triples: frozenset[Triple]
    offset: int  # of its record; for a derived event, of the record that made its notification final
    payload: bytes | None = field(default=None, kw_only=True)  # the document of an XML event


@dataclass(frozen=True)
class DerivedEvent(VisibleEvent):
    producer: Registration
    clause: int


@dataclass(frozen=True)
class EmittedNotification:
    """A notification with its emission offset and the events its CONSTRUCT clauses derive."""

    offset: int
    notification: Notification
    derived: tuple[DerivedEvent, ...]


@dataclass(frozen=True)
class Log:
    """A log as it is stored: each record has its frontier, each event its late flag."""

    records: tuple[Record, ...]
    frontier: int | None  # after the last record
    ontology: frozenset[Triple]
    entailment: Entailment | None  # None: by the settings, or as the background of the event requires
    observe: Observe = lambda name, pattern, results: None
    emissions: dict[Registration, list[EmittedNotification]] = field(default_factory=dict)

    @cached_property
    def registrations(self) -> list[Registration]:
        """“An unsubscribe record ends it at that offset”"""
        registrations: list[Registration] = []
        for record in self.records:
            active = [registration for registration in registrations if registration.end_offset == NEVER]
            if isinstance(record, SubscribeRecord):
                _refuse_active_name(record, active)
                subscription = self._as_registered(record)
                registrations.append(Registration(subscription, record.offset, NEVER, record.frontier))
            elif isinstance(record, UnsubscribeRecord):
                for registration in active:
                    if registration.subscription.name == record.name:
                        ended = replace(registration, end_offset=record.offset)
                        registrations[registrations.index(registration)] = ended
        return registrations

    def _as_registered(self, record: SubscribeRecord) -> Subscription:
        """“Derived documents are lifted by the mappings in force when their subscription was registered.”"""
        settings = [r for r in self.records if isinstance(r, SettingsRecord) and r.offset < record.offset]
        return with_mappings(record.subscription, settings[-1].mappings) if settings else record.subscription

    @cached_property
    def frontiers(self) -> list[tuple[int, int | None]]:
        """Each record's offset, and the frontier after the record.

        “the frontier after a record is what the next one stores, and after the last what the manifest holds”
        """
        after = [*(record.frontier for record in self.records[1:]), self.frontier]
        return [(record.offset, frontier) for record, frontier in zip(self.records, after, strict=False)]

    def beginning(self, registration: Registration) -> int | None:
        """“**The beginning** of a subscription is `SINCE` if given; otherwise the frontier that its subscribe record
        stores; otherwise, when there was none yet (as in `motet run`), the least `end` of all published events it sees,
        matched or not.”
        """
        if registration.subscription.since is not None:
            return registration.subscription.since
        if self._is_older_than_settings(registration):
            return None
        if registration.frontier is not None:
            return registration.frontier
        return self.least_end(registration)

    def least_end(self, registration: Registration) -> int | None:
        """The least end of the published events after a subscribe record; None without any."""
        return min((record.end for record in self._published_events(registration.offset)), default=None)

    def _is_older_than_settings(self, registration: Registration) -> bool:
        """“Subscriptions older than the upgrade to this rule keep the old start points.” An upgraded log has its first
        settings record after them; a new one has it before everything. A log without any is no lake's.
        """
        settings = [record.offset for record in self.records if isinstance(record, SettingsRecord)]
        return bool(settings) and registration.offset < min(settings)

    def _published_events(self, after: int) -> Iterator[EventRecord]:
        """The published events after an offset that are not late."""
        for record in self.records:
            if isinstance(record, EventRecord) and not record.late and record.offset > after:
                yield record

    def background_at(self, offset: int) -> BackgroundGraph:
        """“A change of the background graph holds for events after it.” Additions come after removals.

        “`entailment` can be set only before the first subscription; unset, an event is read with `owl-rl` if the
        background at its offset has a triple, and with `none` otherwise”
        """
        triples = self.ontology
        for change in self.background_changes:
            if change.offset < offset:
                triples = (triples - change.removed) | change.added
        entailment = Entailment.OWL_RL if triples else Entailment.NONE
        return BackgroundGraph(triples, self.entailment or self._set_entailment(offset) or entailment)

    def _set_entailment(self, offset: int) -> Entailment | None:
        """The entailment by the last settings record before an offset."""
        settings = [r for r in self.records if isinstance(r, SettingsRecord) and r.offset < offset]
        return Entailment(settings[-1].entailment) if settings and settings[-1].entailment else None

    @cached_property
    def edge_background(self) -> BackgroundGraph:
        """“Who feeds whom is decided […] with the background in force when the first subscription is registered.”"""
        return self.background_at(min((registration.offset for registration in self.registrations), default=0))

    @cached_property
    def background_changes(self) -> list[BackgroundRecord]:
        return [record for record in self.records if isinstance(record, BackgroundRecord)]

    def evaluate(self) -> list[EmittedNotification]:
        """The emissions of all registrations, computed upstream first."""
        upstream = {registration: self.upstream(registration) for registration in self.registrations}
        for registration in _topological_order(self.registrations, upstream):
            self.emissions[registration] = self.emissions_of(registration)
        return [emission for registration in self.registrations for emission in self.emissions[registration]]

    def emissions_of(self, registration: Registration) -> list[EmittedNotification]:
        """“A notification is an occurrence of the whole pattern with its bindings projected to the delivery clause
        […]. The notifications of a subscription are a *set*.”

        “notifications whose last contributing record […] has a smaller offset remain, pending ones are dropped”
        """
        visibility = Visibility(registration.subscription)
        evaluator = Evaluator(
            visibility,
            registration.subscription.context,
            self.beginning(registration),
            partial(self.leaf_occurrences, registration),
            partial(self.decided_at, registration),
            partial(self.observe, registration.subscription.name),
        )
        occurrences = evaluator.occurrences(registration.subscription.pattern, Scope(visibility.delivery_variables()))
        final = [
            replace(o, final_at=max(o.final_at, registration.offset))
            for o in occurrences
            if o.final_at < registration.end_offset
        ]
        selects_all = registration.subscription.delivery == Select(None)
        delivered = final if selects_all else [_project_bindings(o, visibility.delivery_variables()) for o in final]
        return [self._emission(registration, o) for o in distinct(delivered)]

    def _emission(self, registration: Registration, o: Occurrence) -> EmittedNotification:
        notification = Notification(registration.subscription.name, o.start, o.end, tuple(sorted(o.events)), o.bindings)
        match registration.subscription.delivery:
            case Events():
                lines = {line for event in o.events for line in self._graph_lines(event)}
                return EmittedNotification(o.final_at, replace(notification, graphs=tuple(sorted(lines))), ())
            case Construct():
                derived = tuple(self._instantiate_clauses(registration, notification, o))
                lines = {line for event in derived for line in _lines(event)}
                return EmittedNotification(o.final_at, replace(notification, construct=tuple(sorted(lines))), derived)
            case _:
                return EmittedNotification(o.final_at, notification, ())

    def _instantiate_clauses(
        self, registration: Registration, notification: Notification, o: Occurrence
    ) -> Iterator[DerivedEvent]:
        """“Each CONSTRUCT clause of a notification yields one new event […]. Its IRI derives from the notification id
        and the clause's position, its interval is the occurrence's hull.”
        """
        delivery = registration.subscription.delivery
        assert isinstance(delivery, Construct)
        for clause, template in enumerate(delivery.templates):
            name = derived_iri(notification.id, clause + 1)
            event = DerivedEvent(name, o.start, o.end, frozenset(), o.final_at, registration, clause)
            if isinstance(template, XmlTemplate):
                members = sorted(o.members, key=self._completion_order)
                document = construct(template.tree, [dict(member) for member in members])
                if document is not None:
                    triples = frozenset(lift_derived(document, name, template.mappings))
                    yield replace(event, triples=triples, payload=document.encode())
            elif triples := instantiate(template, o.members, name):
                yield replace(event, triples=triples)

    def _completion_order(self, member: SortedBindings) -> tuple[int, int, list[str], SortedBindings]:
        """“`(end, start, sorted event ids)`, then bindings as sorted (variable, N-Triples) pairs” of a member.

        A variable with the name of an EVENT can also be bound by the body of another one, to an event that is no part
        of the member.
        """
        ids = sorted(iri_value(term) for name, term in member if name.startswith(_MEMBER_EVENT))
        times = [self._times[id_] for id_ in ids]
        end, start = max((end for _, end in times), default=0), min((start for start, _ in times), default=0)
        return end, start, ids, tuple(pair for pair in member if not pair[0].startswith(_MEMBER_EVENT))

    @property
    def _times(self) -> dict[str, tuple[int, int]]:
        """The interval of each event."""
        published = {r.id: (r.start, r.end) for r in self.records if isinstance(r, EventRecord)}
        return published | {event.id: (event.start, event.end) for event in self._derived_events()}

    def leaf_occurrences(self, registration: Registration, name: str, visible: Variables) -> list[Occurrence]:
        """“A leaf yields, for each event and each distinct solution projected to its visible variables, one
        occurrence.”
        """
        event = registration.subscription.event(name)
        return distinct(
            Occurrence(
                frozenset({visible_event.id}),
                visible_event.start,
                visible_event.end,
                project(solution, visible),
                final_at=visible_event.offset,
                members=frozenset({union(project(solution, visible | {name}), _member_event(name, visible_event.id))}),
            )
            for visible_event in self.visible_events(registration, event)
            for bindings in leaf_solutions(
                event,
                visible_event.id,
                visible_event.triples,
                self.background_at(visible_event.offset),
                visible_event.payload,
            )
            for solution in [union(bindings, interval_bindings(event, visible_event.start, visible_event.end))]
        )

    def visible_events(self, registration: Registration, event: Event) -> Iterator[VisibleEvent]:
        """“A subscription sees the events after its own offset. With `SINCE t` it also sees the earlier, not late,
        events with `start >= t`”. “A **retraction** hides an event […] from subscriptions that start after it”.

        A derived event has the offset of its notification's record. For a subscription that is older than its producer
        it is late when it ends below the frontier at the producer's subscribe record.
        """
        since = registration.subscription.since
        for visible_event in self._candidate_events(registration, event):
            if isinstance(visible_event, DerivedEvent) and visible_event.producer.offset > registration.offset:
                if not self._is_late_for_earlier(visible_event.producer, visible_event.end):
                    yield visible_event
            elif visible_event.offset > registration.offset or (
                since is not None
                and visible_event.start >= since
                and not self._is_retracted(visible_event, registration.offset)
            ):
                yield visible_event

    def _candidate_events(self, registration: Registration, leaf: Event) -> Iterator[VisibleEvent]:
        """All published events that are not late, and the derived ones that feed a leaf."""
        for record in self._published_events(after=-NEVER):
            yield VisibleEvent(
                record.id, record.start, record.end, record.triples, record.offset, payload=record.payload
            )
        for derived in self._derived_events():
            if self._clause_feeds_leaf(derived.producer, derived.clause, registration, leaf):
                yield derived

    def _derived_events(self) -> list[DerivedEvent]:
        return [derived for batch in self.emissions.values() for emission in batch for derived in emission.derived]

    def _graph_lines(self, id_: str) -> Iterator[str]:
        """“EVENTS adds `"graphs"` […]: sorted arrays of N-Quads […] lines; XML documents stand there as canonical
        strings.”
        """
        published = {record.id: record for record in self.records if isinstance(record, EventRecord)}
        event = published.get(id_) or next(derived for derived in self._derived_events() if derived.id == id_)
        yield from (f"{s} {p} {v} {iri(id_)} ." for s, p, v in event.triples)
        if event.payload is not None:
            yield canonical_document(event.payload).decode()

    def _is_late_for_earlier(self, producer: Registration, end: int) -> bool:
        return is_late(end, producer.frontier)

    def _is_retracted(self, event: VisibleEvent, offset: int) -> bool:
        return any(
            isinstance(record, RetractRecord) and record.event == event.id and event.offset < record.offset < offset
            for record in self.records
        )

    def decided_at(
        self, registration: Registration, instant: int, bound: int | None, patterns: tuple[Pattern, ...]
    ) -> int:
        """The first record at which all occurrences of the patterns that end at or before the instant are decided."""
        for offset, frontier in self.frontiers:
            if has_passed(frontier, instant):  # a lag is never negative
                largest_lag = max(
                    lag(pattern, bound, partial(self.leaf_lag, registration, offset)) for pattern in patterns
                )
                if has_passed(frontier, instant + largest_lag):
                    return offset
        return NEVER

    def leaf_lag(self, registration: Registration, offset: int, name: str) -> int:
        """The lag of a leaf: the greatest lag of a subscription that feeds it and is active at an offset."""
        event = registration.subscription.event(name)
        return max(
            (
                lag(producer.subscription.pattern, None, partial(self.leaf_lag, producer, offset))
                for producer in self.registrations
                if producer.is_active_at(offset) and self._feeds_leaf(producer, registration, event)
            ),
            default=0,
        )

    def upstream(self, registration: Registration) -> list[Registration]:
        """The registrations whose derived events may be visible to this one: they began before it ended."""
        return [
            producer
            for producer in self.registrations
            if producer.offset < registration.end_offset
            and any(self._feeds_leaf(producer, registration, event) for event in registration.subscription.events)
        ]

    def _feeds_leaf(self, producer: Registration, registration: Registration, leaf: Event) -> bool:
        delivery = producer.subscription.delivery
        clauses = len(delivery.templates) if isinstance(delivery, Construct) else 0
        return any(self._clause_feeds_leaf(producer, clause, registration, leaf) for clause in range(clauses))

    def _clause_feeds_leaf(self, producer: Registration, clause: int, registration: Registration, leaf: Event) -> bool:
        """“*Other* subscriptions see it as a leaf input”: a derived event is not visible to its own subscription."""
        delivery = producer.subscription.delivery
        assert isinstance(delivery, Construct)
        is_another = producer.subscription.name != registration.subscription.name
        xml = inserted_as_xml(producer.subscription)
        return is_another and feeds(delivery.templates[clause], leaf, self.edge_background, xml)


def _member_event(name: str, id_: str) -> SortedBindings:
    """Which event of a member an EVENT stands for."""
    return ((f"{_MEMBER_EVENT}{name}", iri(id_)),)


def _lines(derived: DerivedEvent) -> list[str]:
    """“CONSTRUCT adds `"construct"`: sorted arrays of […] N-Triples lines; XML documents stand there as canonical
    strings.”
    """
    if derived.payload is not None:
        return [derived.payload.decode()]
    return [f"{s} {p} {v} ." for s, p, v in derived.triples]


def _project_bindings(o: Occurrence, variables: Variables) -> Occurrence:
    return replace(o, bindings=project(o.bindings, variables))


def _refuse_active_name(record: SubscribeRecord, active: Iterable[Registration]) -> None:
    if any(registration.subscription.name == record.subscription.name for registration in active):
        raise UsageError(
            f"the subscription '{record.subscription.name}' at offset {record.offset} is already registered",
            advice="unsubscribe it first, or give the new one another name",
        )


def _topological_order(
    registrations: Sequence[Registration], upstream: dict[Registration, list[Registration]]
) -> Iterator[Registration]:
    """Every registration after those that feed it. “Cycles are refused.”"""
    done: list[Registration] = []
    while len(done) < len(registrations):
        ready = [
            registration
            for registration in registrations
            if registration not in done and all(producer in done for producer in upstream[registration])
        ]
        if not ready:
            names = sorted(
                {registration.subscription.name for registration in registrations if registration not in done}
            )
            raise UsageError(
                f"the CONSTRUCT clauses of {', '.join(names)} feed each other in a cycle",
                advice="give the derived events a class that no EVENT of these subscriptions matches",
            )
        yield ready[0]
        done.append(ready[0])


def evaluate_emissions(
    records: Sequence[Record],
    *,
    ontology: Iterable[Triple] = (),
    entailment: str | None = None,
    lateness: int | None,
    observe: Observe = lambda name, pattern, results: None,
) -> list[tuple[int, Notification]]:
    """Every notification of a log with the offset of the record that made it final, in the order of ``motet run``.

    ``lateness`` is that before the first settings record; None is unlimited. ``observe`` is called with the results of
    each sub-pattern of each subscription.
    """
    return evaluate_written(write_log(records, lateness), ontology=ontology, entailment=entailment, observe=observe)


def evaluate_written(
    written: WrittenLog,
    *,
    ontology: Iterable[Triple] = (),
    entailment: str | None = None,
    observe: Observe = lambda name, pattern, results: None,
) -> list[tuple[int, Notification]]:
    """As `evaluate_emissions`, for a log whose records have their frontiers, such as that of a lake."""
    requested = Entailment(entailment) if entailment else None
    log = Log(written.records, written.frontier, frozenset(ontology), requested, observe)
    emissions = [(emission.offset, emission.notification) for emission in log.evaluate()]
    return sorted(emissions, key=lambda pair: (pair[1].sort_key, pair[0]))


def evaluate(
    records: Sequence[Record], *, ontology: Iterable[Triple] = (), entailment: str | None = None, lateness: int | None
) -> list[Notification]:
    """The notifications of a log, each once, in the order of ``motet run``; a lateness of None is unlimited."""
    emissions = evaluate_emissions(records, ontology=ontology, entailment=entailment, lateness=lateness)
    return list(dict.fromkeys(notification for _, notification in emissions))
