"""From a case that shows a difference to a smaller one that still does.

Greedy: of all cases that are one step simpler, the first that still differs is taken, until none does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from itertools import islice
from typing import TypeVar

from motet.fuzz.case import TIME_PROPERTIES, Case, run_of, timed_event
from motet.fuzz.compare import Difference, compare
from motet.fuzz.engines import Engine
from motet.language.check import check
from motet.language.syntax import Context, Delivery, Pattern, Select, Signal, Subscription, Times
from motet.language.walk import children, leaves
from motet.model.errors import SubscriptionError, UsageError
from motet.model.terms import iri
from motet.reference import EventRecord, Record, RetractRecord, SubscribeRecord, UnsubscribeRecord

T = TypeVar("T")

MAX_ATTEMPTS = 2000


def shrink(engine: Engine, found: Difference, attempts: int = MAX_ATTEMPTS) -> Difference:
    """A smallest difference reachable by simple steps, with at most so many attempts."""
    smaller: Difference | None = found
    while smaller is not None and attempts > 0:
        found = smaller
        candidates = islice(simpler(found.case), attempts)
        smaller, tried = _first_difference(engine, candidates)
        attempts -= tried
    return next(filter(None, compare(engine, [renamed(found.case)])), found)


def _first_difference(engine: Engine, candidates: Iterator[Case]) -> tuple[Difference | None, int]:
    """The first candidate that differs, and how many were tried."""
    tried = 0
    for case in candidates:
        tried += 1
        try:
            difference = next(compare(engine, [case]))
        except UsageError:  # the step made what the reference engine refuses, such as a circle of derived events
            continue
        if difference is not None:
            return difference, tried
    return None, tried


def simpler(case: Case) -> Iterator[Case]:
    """Cases one step simpler, the boldest steps first."""
    yield from _fewer_subscriptions(case)
    if not case.is_run:
        yield run_of(case)
    yield from _fewer_records(case)
    if case.lateness is not None:
        yield replace(case, lateness=None)
    for kept in _fewer(sorted(case.ontology)):
        yield replace(case, ontology=frozenset(kept))
    for number, record in enumerate(case.records):
        for other in _simpler_records(record):
            yield case.with_records([*case.records[:number], other, *case.records[number + 1 :]])


def _fewer_subscriptions(case: Case) -> Iterator[Case]:
    names = [subscription.name for subscription in case.subscriptions]
    for kept in _fewer(names):
        if kept:
            yield _consistent(
                case,
                [r for r in case.records if not isinstance(r, SubscribeRecord) or r.subscription.name in kept],
            )


def _fewer_records(case: Case) -> Iterator[Case]:
    dropped = [n for n, record in enumerate(case.records) if not isinstance(record, SubscribeRecord)]
    if case.is_run:
        dropped.pop()  # the tick at the end of time
    for kept in _fewer(dropped):
        gone = set(dropped) - set(kept)
        yield _consistent(case, [record for number, record in enumerate(case.records) if number not in gone])


def _consistent(case: Case, records: Sequence[Record]) -> Case:
    """Without the ends of subscriptions, and the retractions of events, that are gone."""
    names = {record.subscription.name for record in records if isinstance(record, SubscribeRecord)}
    events = {record.id for record in records if isinstance(record, EventRecord)}
    return case.with_records(
        record
        for record in records
        if not (isinstance(record, UnsubscribeRecord) and record.name not in names)
        and not (isinstance(record, RetractRecord) and record.event not in events)
    )


def _fewer(items: Sequence[T]) -> Iterator[list[T]]:
    """Without the first half, the second half, each quarter, and so on down to single items."""
    size = len(items)
    while size > 0:
        for first in range(0, len(items), size):
            yield [*items[:first], *items[first + size :]]
        size //= 2


def _simpler_records(record: Record) -> Iterator[Record]:
    match record:
        case SubscribeRecord():
            for subscription in simpler_subscriptions(record.subscription):
                yield replace(record, subscription=subscription)
        case EventRecord():
            if record.start < record.end:
                own = (triple for triple in record.triples if triple[1] not in TIME_PROPERTIES)
                yield timed_event(record.id, record.end, record.end, own)
            for triple in sorted(record.triples):
                if triple[1] not in TIME_PROPERTIES:
                    yield replace(record, triples=record.triples - {triple})


def simpler_subscriptions(subscription: Subscription) -> Iterator[Subscription]:
    """Those the language accepts."""
    changed = [
        *(replace(subscription, pattern=pattern) for pattern in simpler_patterns(subscription.pattern)),
        *(replace(subscription, delivery=delivery) for delivery in _simpler_deliveries(subscription.delivery)),
        *(replace(subscription, since=None) for _ in [0] if subscription.since is not None),
        *(replace(subscription, context=Context.RECENT) for _ in [0] if subscription.context is not Context.RECENT),
        *_simpler_events(subscription),
    ]
    for candidate in changed:
        yield from _accepted(candidate)


def simpler_patterns(pattern: Pattern) -> Iterator[Pattern]:
    """Each node in turn replaced by one of its operands, or counting less."""
    yield from children(pattern)
    if isinstance(pattern, Times):
        yield from (replace(pattern, count=pattern.count - 1) for _ in [0] if pattern.count > 1)
        yield from (replace(pattern, gap=None) for _ in [0] if pattern.gap is not None)
    for field in fields(pattern):
        child = getattr(pattern, field.name)
        if isinstance(child, Pattern):
            for other in simpler_patterns(child):
                yield replace(pattern, **{field.name: other})  # type: ignore[arg-type]


def _simpler_deliveries(delivery: Delivery) -> Iterator[Delivery]:
    if delivery != Signal():
        yield Signal()
        if delivery != Select():
            yield Select()


def _simpler_events(subscription: Subscription) -> Iterator[Subscription]:
    for number, event in enumerate(subscription.events):
        for change in ({"body": None}, {"class_iri": None}, {"times": None}):
            simpler_event = replace(event, **change)  # type: ignore[arg-type]
            if simpler_event != event:
                events = (*subscription.events[:number], simpler_event, *subscription.events[number + 1 :])
                yield replace(subscription, events=events)


def _accepted(subscription: Subscription) -> Iterator[Subscription]:
    used = {leaf.name for leaf in leaves(subscription.pattern)}
    events = tuple(event for event in subscription.events if event.name in used)
    for unbounded in (False, True):
        candidate = replace(subscription, events=events, unbounded=unbounded)
        try:
            check(candidate, "")
        except SubscriptionError:
            continue
        yield candidate
        return


def renamed(case: Case) -> Case:
    """Events called urn:1, urn:2, … in the order of the log, and subscriptions s1, s2, …"""
    events = {name: f"urn:{number}" for number, name in enumerate(dict.fromkeys(e.id for e in case.events), 1)}
    names = {s.name: f"s{number}" for number, s in enumerate(case.subscriptions, 1)}
    return case.with_records(_renamed_record(record, events, names) for record in case.records)


def _renamed_record(record: Record, events: dict[str, str], names: dict[str, str]) -> Record:
    match record:
        case EventRecord():
            terms = {iri(old): iri(new) for old, new in events.items()}
            triples = frozenset((terms.get(s, s), p, terms.get(o, o)) for s, p, o in record.triples)
            return replace(record, id=events[record.id], triples=triples)
        case SubscribeRecord(subscription=subscription):
            return replace(record, subscription=replace(subscription, name=names[subscription.name]))
        case UnsubscribeRecord():
            return replace(record, name=names[record.name])
        case RetractRecord():
            return replace(record, event=events[record.event])
        case _:
            return record
