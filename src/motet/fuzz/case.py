"""A case: a small log with its subscriptions and ontology, and its result by the reference engine.

The records are those of the reference engine, in log order, with the commits and clocks of their writers; its writer
decides which are accepted. A case is a *run* if it consists of subscriptions, then events with unlimited lateness, then
a tick at the end of time; engines that read files accept only runs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count

from lxml import etree

from motet.language.scope import has_no
from motet.language.syntax import Construct, GroupPattern, Pattern, Subscription, XmlTemplate, xml_mappings
from motet.model.batches import Triple
from motet.model.errors import UsageError
from motet.model.notifications import Notification
from motet.model.terms import XSD, iri, literal
from motet.model.times import END_OF_TIME, format_datetime, parse_datetime
from motet.model.xml_document import MOTET_NAMESPACE
from motet.reference import EventRecord, Record, SubscribeRecord, TickRecord, evaluate_emissions

PROV = "http://www.w3.org/ns/prov#"
SCOPE_PROPERTY = "urn:fuzz:case"
TIME_PROPERTIES = (iri(PROV + "startedAtTime"), iri(PROV + "endedAtTime"))

BEGIN = parse_datetime("2026-11-15T10:00:00Z")
SECOND = 1_000_000
LAST_START = 9  # seconds after BEGIN of the start of the last event, in a log with distant events


@dataclass(frozen=True)
class Case:
    """A log with its ontology; ``seed`` determines free choices of its execution, such as the bounds of batches."""

    records: tuple[Record, ...]
    ontology: frozenset[Triple] = frozenset()
    lateness: int | None = None
    seed: int = 0

    @property
    def subscriptions(self) -> tuple[Subscription, ...]:
        return tuple(record.subscription for record in self.records if isinstance(record, SubscribeRecord))

    @property
    def events(self) -> tuple[EventRecord, ...]:
        return tuple(record for record in self.records if isinstance(record, EventRecord))

    @property
    def mappings(self) -> tuple[str, ...]:
        """The mapping of XML documents of a run."""
        return next(filter(None, map(xml_mappings, self.subscriptions)), ())

    @property
    def is_run(self) -> bool:
        """Whether `motet run` accepts this case."""
        return self.lateness is None and self.records == as_run(self).records

    def with_records(self, records: Iterable[Record]) -> Case:
        """The case with other records, whose offsets are their indexes."""
        with_offsets = tuple(replace(record, offset=offset) for offset, record in zip(count(), records, strict=False))
        return replace(self, records=with_offsets)


def as_run(case: Case) -> Case:
    """The case as a run: only its subscriptions and the events that state a time."""
    subscribes = [record for record in case.records if isinstance(record, SubscribeRecord)]
    events = [event for event in case.events if not event.stamped]
    records: list[Record] = [*subscribes, *events]
    inputs = [replace(record, commit=None, clock=None) for record in records]
    return replace(case, lateness=None).with_records([*inputs, TickRecord(0, END_OF_TIME)])


def without_time(event: EventRecord) -> EventRecord:
    """An event that states no time: its writer stamps it."""
    if event.payload is not None:
        return replace(
            event, start=BEGIN, end=BEGIN, payload=restated(event.payload, start=None, end=None), stamped=True
        )
    triples = frozenset(triple for triple in event.triples if triple[1] not in TIME_PROPERTIES)
    return replace(event, start=BEGIN, end=BEGIN, triples=triples, stamped=True)


def restated(payload: bytes, **attributes: str | None) -> bytes:
    """A document whose root states these attributes of an event; None for one that it does not state.

    >>> restated(b'<o xmlns:m="urn:motet:ns#" m:start="2026-11-15T10:00:00Z"/>', start=None, id="urn:e:1")
    b'<o xmlns:m="urn:motet:ns#" m:id="urn:e:1"/>'
    """
    root = etree.fromstring(payload)
    for name, value in attributes.items():
        if value is None:
            root.attrib.pop(f"{{{MOTET_NAMESPACE}}}{name}", "")
        else:
            root.set(f"{{{MOTET_NAMESPACE}}}{name}", value)
    return etree.tostring(root)


def timed_event(name: str, start: int, end: int, triples: Iterable[Triple]) -> EventRecord:
    """An event that states its interval in its graph, so that files contain it.

    >>> len(timed_event("urn:e:1", 0, 0, ()).triples)
    2
    """
    times = zip(TIME_PROPERTIES, (start, end), strict=True)
    time_triples = {
        (iri(name), property_, literal(_format_time(time), datatype=XSD + "dateTime")) for property_, time in times
    }
    return EventRecord(0, name, start, end, frozenset(triples) | time_triples)


def _format_time(time: int) -> str:
    """A time without a zero fraction, the form that every RDF store keeps."""
    return format_datetime(time).replace(".000000Z", "Z")


def pack_cases(cases: Sequence[Case]) -> Case:
    """Several runs as one. They share an ontology, and no event of one matches a subscription of another."""
    first = cases[0]
    if any(case.ontology != first.ontology or not case.is_run for case in cases):
        raise UsageError("only runs with the same ontology can be packed into one")
    return as_run(first.with_records(record for case in cases for record in _with_beginning(case)))


def _with_beginning(case: Case) -> Iterator[Record]:
    """The records of a run, with its beginning as SINCE of subscriptions with NO: the events of other cases are none of
    its events. In a run SINCE has no other effect.
    """
    accepted = {event.id: event for event in reversed(case.events)}
    beginning = min((event.end for event in accepted.values()), default=None)
    for record in case.records:
        if isinstance(record, SubscribeRecord) and has_no(record.subscription.pattern):
            subscription = record.subscription
            since = beginning if subscription.since is None else subscription.since
            yield replace(record, subscription=replace(subscription, since=since))
        else:
            yield record


def scope_iri(scope: str) -> str:
    """The value of the scope property in all events of a case that shares a run."""
    return f"{SCOPE_PROPERTY}:{scope}"


def with_scope(case: Case, scope: str) -> Case:
    """The case with a scope triple in all its events, EVENT bodies and CONSTRUCT templates, so that it can share a run.

    It has the same notifications, unless an EVENT has solutions in the background alone. Blocks of XML have no scope:
    they must not match the documents of other cases.
    """
    return case.with_records(_record_with_scope(record, scope) for record in case.records)


def _record_with_scope(record: Record, scope: str) -> Record:
    match record:
        case EventRecord(payload=None):
            return replace(
                record, triples=record.triples | {(iri(record.id), iri(SCOPE_PROPERTY), iri(scope_iri(scope)))}
            )
        case SubscribeRecord():
            return replace(record, subscription=_subscription_with_scope(record.subscription, scope))
    return record


def _subscription_with_scope(subscription: Subscription, scope: str) -> Subscription:
    events = tuple(
        event if event.xml else replace(event, body=_with_scope_triple(event.body, event.name, scope))
        for event in subscription.events
    )
    delivery = subscription.delivery
    if isinstance(delivery, Construct):
        scope_triple = _scope_triple("this", scope)
        templates = (
            template if isinstance(template, XmlTemplate) else replace(template, text=f"{scope_triple} {template.text}")
            for template in delivery.templates
        )
        delivery = Construct(tuple(templates))
    return replace(subscription, events=events, delivery=delivery)


def _with_scope_triple(group: GroupPattern | None, name: str, scope: str) -> GroupPattern:
    triple = _scope_triple(name, scope)
    return replace(group, text=f"{triple} {group.text}") if group else GroupPattern(triple, frozenset({name}))


def _scope_triple(name: str, scope: str) -> str:
    return f"?{name} <{SCOPE_PROPERTY}> <{scope_iri(scope)}> ."


def without_scope(line: str) -> str:
    """A notification line without scope triples.

    >>> without_scope('{"construct": ["<urn:d> <urn:fuzz:case> <urn:c1> ."], "subscription": "s"}')
    '{"construct": [], "subscription": "s"}'
    """
    fields = json.loads(line)
    for name in ("graphs", "construct"):
        if name in fields:
            fields[name] = [statement for statement in fields[name] if iri(SCOPE_PROPERTY) not in statement]
    return json.dumps(fields, sort_keys=True, ensure_ascii=False)


def split_lines(lines: Iterable[str], cases: Sequence[Case]) -> Iterator[list[str]]:
    """The lines of each of the packed cases, by the names of subscriptions."""
    indexes = {subscription.name: index for index, case in enumerate(cases) for subscription in case.subscriptions}
    by_case: list[list[str]] = [[] for _ in cases]
    for line in lines:
        by_case[indexes[json.loads(line)["subscription"]]].append(line)
    yield from by_case


# The expected result


Emission = tuple[int, Notification]  # emission offset and notification


@dataclass(frozen=True)
class ExpectedResult:
    """The emissions of a case, and the sub-patterns with occurrences."""

    emissions: tuple[Emission, ...]
    active_patterns: frozenset[tuple[str, Pattern]]  # by name of the subscription

    def lines(self, *, offsets: bool = False) -> list[str]:
        """Notification lines, with emission offsets, or else each notification once."""
        return emission_lines(self.emissions, offsets=offsets)

    def notification_counts(self) -> Counter[str]:
        """The number of notifications of each subscription."""
        return Counter(notification.subscription for notification in {pair[1] for pair in self.emissions})


def expected_result(case: Case) -> ExpectedResult:
    """The emissions of a case by the definitions of the language page."""
    active_patterns: set[tuple[str, Pattern]] = set()

    def observe(name: str, pattern: Pattern, occurrences: Sequence[object]) -> None:
        if occurrences:
            active_patterns.add((name, pattern))

    emissions = evaluate_emissions(case.records, ontology=case.ontology, lateness=case.lateness, observe=observe)
    return ExpectedResult(tuple(emissions), frozenset(active_patterns))


def expected_lines(case: Case) -> list[str]:
    """Notification lines in the order of `motet run`."""
    return expected_result(case).lines()


def emission_lines(emissions: Iterable[Emission], *, offsets: bool) -> list[str]:
    """Lines in the order of `motet run`; with ``offsets`` each has its emission offset.

    >>> notification = Notification("s", 0, 0, ("urn:e:1",), ())
    >>> [line[:26] for line in emission_lines([(7, notification), (7, notification)], offsets=True)]
    ['{"offset": 7, "bindings": ', '{"offset": 7, "bindings": ']
    >>> len(emission_lines([(7, notification), (8, notification)], offsets=False))
    1
    """
    ordered = sorted(emissions, key=lambda pair: (pair[1].sort_key, pair[0]))
    if not offsets:
        return [_line(notification) for notification in dict.fromkeys(notification for _, notification in ordered)]
    return [f'{{"offset": {offset}, {_line(notification)[1:]}' for offset, notification in ordered]


@lru_cache(maxsize=4096)
def _line(notification: Notification) -> str:
    """The line of a notification, cached because the compared engine emits equal ones."""
    return notification.to_line()


def without_offsets(lines: Iterable[str]) -> list[str]:
    """The lines without emission offsets, each once.

    >>> without_offsets(['{"offset": 7, "bindings": {}}', "EngineError: no"])
    ['{"bindings": {}}', 'EngineError: no']
    """
    stripped = ("{" + line.split(", ", 1)[1] if line.startswith('{"offset": ') else line for line in lines)
    return list(dict.fromkeys(stripped))
