"""What a query over a lake sees (language page, section 13): the log up to an offset, as graphs.

These are the events, the background, and notifications as RDF, with the events that their CONSTRUCT clauses derived.
Plain and in memory: it says what a query means. Engines that read zone files are tested against it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import pyarrow.compute as pc
from lxml import etree

from motet.codec.identity import DERIVED
from motet.codec.xml import lift_derived
from motet.engine.detect.construct import THIS, ConstructTemplates
from motet.lake import Snapshot
from motet.lake.manifest import RECORD_FOLDERS, Commit, commit_name
from motet.language.rdf import term
from motet.language.syntax import Construct, Subscription, Template, XmlTemplate
from motet.model.batches import event_rows, notification_rows
from motet.model.control import ControlState, SubscriptionRange, registrations
from motet.model.errors import CorruptLakeError, UsageError
from motet.model.intervals import Interval
from motet.model.notifications import Notification
from motet.model.records import EVENT, ControlRecord
from motet.model.terms import RDF_TYPE, XSD, iri, iri_value, literal
from motet.model.times import format_datetime, to_micros
from motet.model.xml_document import parse_stored_xml
from motet.ontology.entailment import Entailment, Reasoner
from motet.sparql import algebra
from motet.sparql.algebra import Triple as TriplePattern
from motet.sparql.algebra import is_hidden, variable_name
from motet.sparql.dataset import Dataset, Triple, interval_triples

BACKGROUND = "<urn:motet:background>"
EVENTS = "<urn:motet:events>"
NOTIFICATIONS = "<urn:motet:notifications>"
SUBSCRIPTIONS = "<urn:motet:subscriptions>"
RESERVED_GRAPHS = (BACKGROUND, EVENTS, NOTIFICATIONS, SUBSCRIPTIONS)

AsOf = int | str | datetime  # an offset; or an instant, as an xsd:dateTime or a datetime
FromClause = algebra.DatasetClause | None


class EventGraph(NamedTuple):
    """A visible event: the graph of its triples."""

    name: str  # its IRI as a term
    offset: int  # of its record; of a derived event, where its notification became final
    interval: Interval
    triples: tuple[Triple, ...]  # asserted, or made by CONSTRUCT


class History:
    """The records of a log below an offset, with what they mean: events, background, notifications, subscriptions.

    A span restricts events and notifications to those whose interval shares an instant with it.
    """

    def __init__(
        self, snapshot: Snapshot, stop: int, *, span: Interval | None = None, entailment: str | None = None
    ) -> None:
        self.snapshot = snapshot
        self.stop = stop
        self.span = span
        self._requested_entailment = entailment

    def is_same(self, snapshot: Snapshot, stop: int, span: Interval | None, entailment: str | None) -> bool:
        """Whether a history with these arguments is this one."""
        return self.snapshot is snapshot and (self.stop, self.span, self._requested_entailment) == (
            stop,
            span,
            entailment,
        )

    @cached_property
    def controls(self) -> ControlState:
        """The control state after the last record."""
        return ControlState().apply_all(self._control_records)

    @cached_property
    def _control_records(self) -> list[ControlRecord]:
        return list(self.snapshot.control_records(stop=self.stop))

    @cached_property
    def entailment(self) -> Entailment:
        return Entailment(self._requested_entailment or self.controls.entailment)

    @cached_property
    def reasoner(self) -> Reasoner:
        return Reasoner(self.controls.background, self.entailment)

    @cached_property
    def _construct_subscriptions(self) -> dict[str, list[tuple[int, Subscription]]]:
        """By name: the CONSTRUCT subscriptions that are or were active, with their offsets."""
        found: dict[str, list[tuple[int, Subscription]]] = {}
        for registration in registrations(self._control_records):
            record = registration.subscribe
            if "CONSTRUCT" not in record.text.upper():  # parsing it would load the parser of subscriptions
                continue
            for subscription in _parsed(registration):
                if isinstance(subscription.delivery, Construct):
                    found.setdefault(record.name, []).append((record.offset, subscription))
        return found

    def needs_notifications(self, query: algebra.Query) -> bool:
        """Whether the notification table must reach the end of these records before the query is evaluated."""
        clause = query.dataset
        names = () if clause is None else (*clause.default, *clause.named)
        return NOTIFICATIONS in names or bool(self._construct_subscriptions)

    def events(self) -> Iterator[EventGraph]:
        """The visible events, those of the log and derived ones."""
        yield from self.log_events()
        yield from self.derived_events()

    def log_events(self) -> Iterator[EventGraph]:
        """The visible events of the log."""
        retracted = self.controls.retractions
        for event in self.logged(0):
            if iri_value(event.name) not in retracted and self._is_in_span(event.interval):
                yield event

    def logged(self, first: int) -> Iterator[EventGraph]:
        """The events of the log from an offset on, also those that are not visible."""
        for batch in self.snapshot.records(first, self.stop, ["offset", "kind", "id", "start", "end", "triples"]):
            events = batch.filter(pc.equal(batch.column("kind"), EVENT))
            for row, offset in zip(event_rows(events), events.column("offset").to_pylist(), strict=True):
                assert row.start is not None and row.end is not None, "events of a log have times"
                yield EventGraph(iri(row.id), offset, Interval(row.start, row.end), row.triples)

    def derived_events(self) -> Iterator[EventGraph]:
        """The events that CONSTRUCT clauses made, each once."""
        seen = set()
        for notification, offset in self.notifications() if self._construct_subscriptions else ():
            for event in self._derived(notification, offset):
                if event.id not in seen:
                    seen.add(event.id)
                    interval = Interval(notification.start_micros, notification.end_micros)
                    yield EventGraph(iri(event.id), offset, interval, event.triples)

    def notifications(self) -> Iterator[tuple[Notification, int]]:
        """The notifications that these records made final, with their emission offsets, in log order."""
        for batch in self.snapshot.notifications():
            for notification, offset in notification_rows(batch):
                if offset < self.stop and self._is_in_span(
                    Interval(notification.start_micros, notification.end_micros)
                ):
                    yield notification, offset

    def notification_graph(self) -> Iterator[Triple]:

        retracted = self.controls.retractions
        for notification, offset in self.notifications():
            yield from notification_triples(notification, offset, self._derived(notification, offset), retracted)

    def subscription_graph(self) -> Iterator[Triple]:
        """The active subscriptions in their RDF form."""
        from motet.language.rdf import to_rdf

        for record in self.controls.subscriptions.values():
            for subscription in _parsed(SubscriptionRange(record, None)):
                yield from to_rdf(subscription)

    def background_graph(self) -> Iterable[Triple]:
        """The background in force after the last record, with what follows from it."""
        asserted = self.controls.background
        return asserted if self.entailment is Entailment.NONE else asserted | self.reasoner.background

    def closed(self, event: EventGraph) -> Iterable[Triple]:
        """The triples of an event and those that follow from it with the background."""
        return event.triples if self.entailment is Entailment.NONE else self.reasoner.close(event.triples)

    def dataset(self, query: algebra.Query, *, now: str, random_bits: Callable[[], int]) -> Dataset:
        """The dataset of a query, as its FROM and FROM NAMED say."""
        clause = query.dataset
        default: list[Iterable[Triple]] = []
        named: dict[str, Iterable[Triple]] = {}
        intervals: dict[str, Interval] = {}
        uses_graphs = has_graph(query.pattern)
        for event in self.events() if _selects_events(clause) else ():
            in_default, in_named = _is_selected(clause, event.name)
            if in_default or in_named:
                intervals[event.name] = event.interval
                triples = self.closed(event)
                if in_default:
                    default += [triples, interval_triples(event.name, *event.interval)]
                if in_named and uses_graphs:
                    named[event.name] = triples
        if clause is None:
            default.append(self.background_graph())
        else:
            graphs = {name: list(self.reserved_graph(name)) for name in (*clause.default, *clause.named)}
            default += [graphs[name] for name in clause.default]
            named |= {name: graphs[name] for name in clause.named if name != EVENTS and name not in named}
        return Dataset(chain.from_iterable(default), named, now=now, random_bits=random_bits, intervals=intervals)

    def reserved_graph(self, name: str) -> Iterable[Triple]:
        """The graph of a reserved name, other than that of all events; empty for other names."""
        if name == BACKGROUND:
            return self.background_graph()
        if name == NOTIFICATIONS:
            return self.notification_graph()
        return self.subscription_graph() if name == SUBSCRIPTIONS else ()

    def _derived(self, notification: Notification, offset: int) -> Sequence[ConstructedGraph]:
        subscriptions = self._construct_subscriptions.get(notification.subscription, ())
        active = [subscription for first, subscription in subscriptions if first <= offset]
        if not active:
            return ()

        delivery = active[-1].delivery
        assert isinstance(delivery, Construct)
        return derived_events(notification, delivery.templates)

    def _is_in_span(self, interval: Interval) -> bool:
        return self.span is None or (interval.start <= self.span.end and interval.end >= self.span.start)


def _parsed(registration: SubscriptionRange) -> Sequence[Subscription]:
    """The subscriptions of a registration; the parser is loaded only for a log that has any."""
    from motet.language.parse import parse_registered

    return parse_registered(registration)


def warnings_of(query: algebra.Query, has_event: Callable[[str], bool]) -> list[str]:
    """What a query names that is not in its dataset."""
    clause = query.dataset
    names = () if clause is None else tuple(dict.fromkeys((*clause.default, *clause.named)))
    texts = [
        f"FROM {name}: there is no such event; the graph is taken as empty"
        for name in names
        if name not in RESERVED_GRAPHS and not has_event(name)
    ]
    texts += [
        f"GRAPH {name} is empty: the graph is in the dataset only after FROM NAMED {name}"
        for name in sorted(constant_graphs(query.pattern))
        if name in RESERVED_GRAPHS and (name == EVENTS or clause is None or name not in clause.named)
    ]
    return texts


def without_clause(query: algebra.Query) -> algebra.Query:
    """The query for a dataset that is chosen already."""
    return replace(query, dataset=None)


def has_graph(pattern: algebra.Algebra) -> bool:
    """Whether GRAPH occurs in a pattern."""
    return any(isinstance(node, algebra.NamedGraph) for node in tree_nodes(pattern))


def constant_graphs(pattern: algebra.Algebra) -> set[str]:
    """The IRIs after GRAPH in a pattern."""
    graphs = (node.name for node in tree_nodes(pattern) if isinstance(node, algebra.NamedGraph))
    return {name for name in graphs if algebra.variable_name(name) is None}


def tree_nodes(tree: object) -> Iterator[object]:
    """Every node of a tree, those inside expressions too."""
    pending = [tree]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, tuple):
            pending += node
        elif hasattr(node, "__match_args__"):
            pending += [getattr(node, name) for name in node.__match_args__]


def _selects_events(clause: FromClause) -> bool:
    return clause is None or any(
        name not in RESERVED_GRAPHS or name == EVENTS for name in (*clause.default, *clause.named)
    )


def _is_selected(clause: FromClause, event: str) -> tuple[bool, bool]:
    """Whether an event is in the default graph, and whether it is a named graph."""
    if clause is None:
        return True, True
    return (
        EVENTS in clause.default or event in clause.default,
        EVENTS in clause.named or event in clause.named,
    )


def log_end(snapshot: Snapshot, as_of: AsOf | None = None) -> int:
    """The offset before which the records are read: after the record of an offset, or the last commit by an instant.

    An instant is that of the last commit before the first whose clock is later. Without either it is the end of the
    log.
    """
    if as_of is None:
        return snapshot.next_offset
    if isinstance(as_of, int):
        return _after_offset(snapshot, as_of)
    return _at_instant(snapshot, to_micros(as_of))


def _after_offset(snapshot: Snapshot, offset: int) -> int:
    if not 0 <= offset < snapshot.next_offset:
        raise UsageError(
            f"the log of {snapshot.store.root} has no offset {offset}",
            advice=f"Its offsets are 0 to {snapshot.next_offset - 1}; without an offset the whole log is read.",
        )
    return offset + 1


def _at_instant(snapshot: Snapshot, instant: int) -> int:
    end = 0
    has_clock = False
    for version in range(1, snapshot.version + 1):
        data = snapshot.store.find(commit_name(version))
        if data is None:
            raise CorruptLakeError(
                f"{snapshot.store.path(commit_name(version))} is missing", advice="Restore it from a backup."
            )
        commit = Commit.from_bytes(data)
        if commit.clock is not None and commit.clock > instant:
            if not has_clock:
                raise UsageError(
                    f"{format_datetime(instant)} is before the first clock of the log, {format_datetime(commit.clock)}",
                    advice="Give a later instant, or an offset.",
                )
            return end
        has_clock = has_clock or commit.clock is not None
        if not commit.remove:
            end = max([end, *(file.stop for file in commit.add if file.name.startswith(RECORD_FOLDERS))])
    if not has_clock:
        raise UsageError("the log has no clocks: it is of format 1", advice="Give an offset instead of an instant.")
    return end


# Notifications as RDF, and the events that their CONSTRUCT clauses derived


NOTIFICATION = "urn:motet:notification:"


class ConstructedGraph(NamedTuple):
    """An event that a CONSTRUCT clause made."""

    id: str
    triples: tuple[Triple, ...]


def notification_triples(
    notification: Notification, offset: int, derived: Sequence[ConstructedGraph], retracted: Collection[str]
) -> Iterator[Triple]:
    """The triples of one notification; ``retracted`` are the events retracted by the end of the log."""
    subject = iri(NOTIFICATION + notification.id)
    yield subject, RDF_TYPE, term("Notification")
    yield subject, term("subscription"), literal(notification.subscription)
    yield from interval_triples(subject, notification.start_micros, notification.end_micros)
    yield subject, term("offset"), literal(str(offset), datatype=XSD + "integer")
    for event in notification.events:
        yield subject, term("event"), iri(event)
        if event in retracted:
            yield subject, term("retracted"), iri(event)
    for variable, value in notification.bindings:
        node = iri(f"{NOTIFICATION}{notification.id}:{variable}")
        yield subject, term("binding"), node
        yield node, term("variable"), literal(variable)
        yield node, term("value"), value
    for made in derived:
        yield subject, term("derived"), iri(made.id)


def derived_events(notification: Notification, templates: Sequence[Template | XmlTemplate]) -> list[ConstructedGraph]:
    """The events of a notification with CONSTRUCT clauses, from the lines it stores."""
    lines = notification.construct or ()
    if not lines:
        return []
    if len(templates) == 1 and isinstance(templates[0], Template):
        return [ConstructedGraph(_id(notification, 1), tuple(map(_triple, _triple_lines(lines))))]
    events = ConstructTemplates(templates).derive(notification.id, [dict(notification.bindings)])
    if {line for event in events for line in event.lines} == set(lines):
        return [ConstructedGraph(event.id, event.record_triples) for event in events]
    return _divided(notification, templates)


def _divided(notification: Notification, templates: Sequence[Template | XmlTemplate]) -> list[ConstructedGraph]:
    """The lines of an occurrence of many members, divided by the clauses whose triples they are instances of."""
    events = []
    lines = notification.construct or ()
    triple_lines = _triple_lines(lines)
    documents = [line for line in lines if line not in triple_lines]
    for clause, template in enumerate(templates, 1):
        id_ = _id(notification, clause)
        if isinstance(template, XmlTemplate):
            document = next((line for line in documents if _may_be_instance(line, template)), None)
            if document is not None:
                documents.remove(document)
                events.append(ConstructedGraph(id_, lift_derived(document, id_, template.mappings)))
            continue
        triples = [
            triple
            for triple in map(_triple, triple_lines)
            if any(_is_instance(triple, pattern, id_) for pattern in template.triples)
        ]
        if triples:
            events.append(ConstructedGraph(id_, tuple(triples)))
    return events


def _is_instance(triple: Triple, pattern: TriplePattern, id_: str) -> bool:
    """Whether a triple can be one that the event's template makes; the bindings of the members are not stored."""
    values = {f"?{THIS}": iri(id_)}
    for value, place in zip(triple, (pattern.subject, str(pattern.predicate), pattern.object), strict=True):
        name = variable_name(place)
        if name is None:
            if place != value:
                return False
        elif is_hidden(name):
            if not value.startswith((f"<{id_}#genid-", f"<{id_}-genid-")):
                return False
        elif values.setdefault(place, value) != value:
            return False
    return True


def _triple_lines(lines: Sequence[str]) -> list[str]:
    """The triples among what CONSTRUCT clauses made; the others are XML documents."""
    return [line for line in lines if line.endswith(" .")]


def _may_be_instance(document: str, template: XmlTemplate) -> bool:
    """Whether a canonical document has the root of the template, and all names of its elements."""
    root, template_root = parse_stored_xml(document.encode()), template.tree
    names = {element.name for element in template_root.walk() if isinstance(element.name, str)}
    has_root = template_root.name == root.tag or not isinstance(template_root.name, str)
    return has_root and names <= {str(element.tag) for element in root.iter(etree.Element)}


def _id(notification: Notification, clause: int) -> str:
    return f"{DERIVED}{notification.id}:{clause}"


def _triple(line: str) -> Triple:
    """The terms of an N-Triples line as Motet writes it: IRIs have no spaces."""
    subject, predicate, obj = line.removesuffix(" .").split(" ", 2)
    return subject, predicate, obj
