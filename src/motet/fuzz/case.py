"""A case: a log with its subscriptions and ontology, small enough to be judged by hand.

The records are those of the reference engine, in log order. A case has the shape of `motet run` when it is
subscriptions, then events with unlimited lateness, then a tick at the end of time; only such a case can be given to
engines that read files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

from motet.language.syntax import Construct, GroupPattern, Subscription
from motet.model.batches import Triple
from motet.model.errors import UsageError
from motet.model.terms import XSD, iri, literal
from motet.model.times import END_OF_TIME, format_datetime, parse_datetime
from motet.reference import EventRecord, Record, SubscribeRecord, TickRecord

PROV = "http://www.w3.org/ns/prov#"
TAG = "urn:motet:fuzz:case"
TIME_PROPERTIES = (iri(PROV + "startedAtTime"), iri(PROV + "endedAtTime"))

BEGIN = parse_datetime("2026-11-15T10:00:00Z")
SECOND = 1_000_000
LAST = 9  # seconds after BEGIN at which the last event starts, of a log in which they are far apart


@dataclass(frozen=True)
class Case:
    """``seed`` decides what a run of the case may choose freely, such as where batches are cut."""

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
    def is_run(self) -> bool:
        """Whether `motet run` can be given this case."""
        return self.lateness is None and self.records == run_of(self).records

    def with_records(self, records: Iterable[Record]) -> Case:
        """The same case with other records, numbered by their places."""
        numbered = tuple(replace(record, offset=offset) for offset, record in zip(count(), records, strict=False))
        return replace(self, records=numbered)


def run_of(case: Case) -> Case:
    """The case in the shape of `motet run`: everything but subscriptions and events is lost."""
    begin = [record for record in case.records if isinstance(record, SubscribeRecord)]
    return replace(case, lateness=None).with_records([*begin, *case.events, TickRecord(0, END_OF_TIME)])


def timed_event(name: str, start: int, end: int, triples: Iterable[Triple]) -> EventRecord:
    """An event that carries its interval in its own graph, so that files hold all of it.

    >>> len(timed_event("urn:e:1", 0, 0, ()).triples)
    2
    """
    times = zip(TIME_PROPERTIES, (start, end), strict=True)
    own = {(iri(name), property_, literal(_shortest(time), datatype=XSD + "dateTime")) for property_, time in times}
    return EventRecord(0, name, start, end, frozenset(triples) | own)


def _shortest(time: int) -> str:
    """Whole seconds without a fraction: the form every RDF store keeps."""
    return format_datetime(time).replace(".000000Z", "Z")


def packed(cases: Sequence[Case]) -> Case:
    """Several runs as one. They share an ontology, and no event of one can match a subscription of another."""
    first = cases[0]
    if any(case.ontology != first.ontology or not case.is_run for case in cases):
        raise UsageError("only runs over the same ontology can be packed into one")
    return run_of(first.with_records(record for case in cases for record in case.records))


def tag(scope: str) -> str:
    """What the events of a case have in common when many cases share a run."""
    return f"{TAG}:{scope}"


def scoped(case: Case, scope: str) -> Case:
    """The case with a tag on all its events, demanded by every EVENT and given to what CONSTRUCT makes.

    It means the same, unless an EVENT has solutions in the background alone, and can share a run.
    """
    return case.with_records(_scoped(record, scope) for record in case.records)


def _scoped(record: Record, scope: str) -> Record:
    match record:
        case EventRecord():
            return replace(record, triples=record.triples | {(iri(record.id), iri(TAG), iri(tag(scope)))})
        case SubscribeRecord():
            return replace(record, subscription=_scoped_subscription(record.subscription, scope))
    return record


def _scoped_subscription(subscription: Subscription, scope: str) -> Subscription:
    events = tuple(replace(event, body=_tagged(event.body, event.name, scope)) for event in subscription.events)
    delivery = subscription.delivery
    if isinstance(delivery, Construct):
        tag_triple = _tag_triple("this", scope)
        templates = (replace(template, text=f"{tag_triple} {template.text}") for template in delivery.templates)
        delivery = Construct(tuple(templates))
    return replace(subscription, events=events, delivery=delivery)


def _tagged(group: GroupPattern | None, name: str, scope: str) -> GroupPattern:
    triple = _tag_triple(name, scope)
    return replace(group, text=f"{triple} {group.text}") if group else GroupPattern(triple, frozenset({name}))


def _tag_triple(name: str, scope: str) -> str:
    return f"?{name} <{TAG}> <{tag(scope)}> ."


def unscoped(line: str) -> str:
    """A notification line without tags.

    >>> unscoped('{"construct": ["<urn:d> <urn:motet:fuzz:case> <urn:motet:fuzz:case:c1> ."], "subscription": "s"}')
    '{"construct": [], "subscription": "s"}'
    """
    fields = json.loads(line)
    for name in ("graphs", "construct"):
        if name in fields:
            fields[name] = [statement for statement in fields[name] if iri(TAG) not in statement]
    return json.dumps(fields, sort_keys=True, ensure_ascii=False)


def apart(lines: Iterable[str], cases: Sequence[Case]) -> Iterator[list[str]]:
    """The lines of each of the packed cases, told apart by the names of subscriptions."""
    homes = {subscription.name: number for number, case in enumerate(cases) for subscription in case.subscriptions}
    sorted_out: list[list[str]] = [[] for _ in cases]
    for line in lines:
        sorted_out[homes[json.loads(line)["subscription"]]].append(line)
    yield from sorted_out
