"""Shrinks a case with a difference to a smaller one that still has a difference.

Greedy: of all cases that are one step simpler, the first with a difference is taken, until there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from lxml import etree

from motet.fuzz.case import TIME_PROPERTIES, Case, as_run, restated, timed_event
from motet.fuzz.compare import Difference, compare
from motet.fuzz.engines import Engine
from motet.language.check import check
from motet.language.scope import children, leaves
from motet.language.syntax import Context, Delivery, Pattern, Select, Signal, Subscription, Times, XmlBlock
from motet.model.errors import SubscriptionError, UsageError
from motet.model.terms import iri
from motet.model.times import format_datetime
from motet.model.xml_document import MOTET_NAMESPACE
from motet.reference import EventRecord, Record, RetractRecord, SubscribeRecord, UnsubscribeRecord
from motet.xmlql.blocks import Block, ElementPattern
from motet.xmlql.write import block_text

T = TypeVar("T")

MAX_ATTEMPTS = 2000


def shrink(engine: Engine, difference: Difference, attempts: int = MAX_ATTEMPTS) -> Difference:
    """The smallest difference that is reached by simple steps within a number of attempts."""
    smaller: Difference | None = difference
    while smaller is not None and attempts > 0:
        difference = smaller
        candidates = islice(simpler(difference.case), attempts)
        smaller, used = _first_difference(engine, candidates)
        attempts -= used
    return next(filter(None, compare(engine, [renamed(difference.case)])), difference)


def _first_difference(engine: Engine, candidates: Iterator[Case]) -> tuple[Difference | None, int]:
    """The difference of the first candidate that has one, and the number of attempts."""
    attempts = 0
    for case in candidates:
        attempts += 1
        try:
            difference = next(compare(engine, [case]))
        except UsageError:  # the reference engine refuses the case, such as a cycle of derived events
            continue
        if difference is not None:
            return difference, attempts
    return None, attempts


def simpler(case: Case) -> Iterator[Case]:
    """Cases that are one step simpler, the largest steps first."""
    yield from _fewer_subscriptions(case)
    if not case.is_run:
        yield as_run(case)
    yield from _fewer_records(case)
    yield from _simpler_commits(case)
    if case.lateness is not None:
        yield replace(case, lateness=None)
    for kept in _fewer(sorted(case.ontology)):
        yield replace(case, ontology=frozenset(kept))
    for index, record in enumerate(case.records):
        for simpler_record in _simpler_records(record):
            yield case.with_records([*case.records[:index], simpler_record, *case.records[index + 1 :]])


def _fewer_subscriptions(case: Case) -> Iterator[Case]:
    names = [subscription.name for subscription in case.subscriptions]
    for kept in _fewer(names):
        if kept:
            yield _consistent(
                case, [r for r in case.records if not isinstance(r, SubscribeRecord) or r.subscription.name in kept]
            )


def _fewer_records(case: Case) -> Iterator[Case]:
    indexes = [index for index, record in enumerate(case.records) if not isinstance(record, SubscribeRecord)]
    if case.is_run:
        indexes.pop()  # the tick at the end of time
    for kept in _fewer(indexes):
        removed = set(indexes) - set(kept)
        yield _consistent(case, [record for index, record in enumerate(case.records) if index not in removed])


def _simpler_commits(case: Case) -> Iterator[Case]:
    """The case without clocks, without commits of several records, and without one of either."""
    for changed in (
        case.with_records(replace(record, clock=None) for record in case.records),
        case.with_records(replace(record, commit=None) for record in case.records),
    ):
        for index in [None, *range(len(case.records))] if changed != case else []:
            if index is None:
                yield changed
            elif changed.records[index] != case.records[index]:
                yield case.with_records([*case.records[:index], changed.records[index], *case.records[index + 1 :]])


def _consistent(case: Case, records: Sequence[Record]) -> Case:
    """The case with these records, without unsubscribe and retract records of removed subscriptions and events."""
    names = {record.subscription.name for record in records if isinstance(record, SubscribeRecord)}
    events = {record.id for record in records if isinstance(record, EventRecord)}
    return case.with_records(
        record
        for record in records
        if not (isinstance(record, UnsubscribeRecord) and record.name not in names)
        and not (isinstance(record, RetractRecord) and record.event not in events)
    )


def _fewer(items: Sequence[T]) -> Iterator[list[T]]:
    """The items without the first half, the second half, each quarter, and so on down to single items."""
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
        case EventRecord(payload=bytes() as payload):
            times = {"start": format_datetime(record.end), "end": None}
            if record.start < record.end or record.stamped:
                yield replace(record, start=record.end, stamped=False, payload=restated(payload, **times))
            for document in _simpler_documents(payload):
                yield replace(record, payload=document)
        case EventRecord():
            if record.start < record.end or record.stamped:
                other_triples = (triple for triple in record.triples if triple[1] not in TIME_PROPERTIES)
                timed = timed_event(record.id, record.end, record.end, other_triples)
                yield replace(timed, commit=record.commit, clock=record.clock)
            for triple in sorted(record.triples):
                if triple[1] not in TIME_PROPERTIES:
                    yield replace(record, triples=record.triples - {triple})


def _simpler_documents(payload: bytes) -> Iterator[bytes]:
    """The document without one element, text or attribute; what its root states of the event stays."""
    for index, element in enumerate(etree.fromstring(payload).iter("*")):
        names = [str(name) for name in element.attrib if f"{{{MOTET_NAMESPACE}}}" not in str(name)]
        changes: list[Callable[[etree._Element], None]] = [_remove, _empty]
        changes += [partial(_remove_attribute, name) for name in names]
        for change in changes:
            root = etree.fromstring(payload)
            change(list(root.iter("*"))[index])
            if (simpler_payload := etree.tostring(root)) != etree.tostring(etree.fromstring(payload)):
                yield simpler_payload


def _remove(element: etree._Element) -> None:
    if (parent := element.getparent()) is not None:
        parent.remove(element)


def _empty(element: etree._Element) -> None:
    element.text = None


def _remove_attribute(name: str, element: etree._Element) -> None:
    del element.attrib[name]


def simpler_subscriptions(subscription: Subscription) -> Iterator[Subscription]:
    """Simpler subscriptions that the language accepts."""
    candidates = [
        *(replace(subscription, pattern=pattern) for pattern in simpler_patterns(subscription.pattern)),
        *(replace(subscription, delivery=delivery) for delivery in _simpler_deliveries(subscription.delivery)),
        *(replace(subscription, since=None) for _ in [0] if subscription.since is not None),
        *(replace(subscription, context=Context.RECENT) for _ in [0] if subscription.context is not Context.RECENT),
        *_simpler_events(subscription),
    ]
    for candidate in candidates:
        yield from _accepted(candidate)


def simpler_patterns(pattern: Pattern) -> Iterator[Pattern]:
    """The pattern with one node replaced by one of its operands, or with a smaller count."""
    yield from children(pattern)
    if isinstance(pattern, Times):
        yield from (replace(pattern, count=pattern.count - 1) for _ in [0] if pattern.count > 1)
        yield from (replace(pattern, gap=None) for _ in [0] if pattern.gap is not None)
    for field in fields(pattern):
        child = getattr(pattern, field.name)
        if isinstance(child, Pattern):
            for simpler_child in simpler_patterns(child):
                yield replace(pattern, **{field.name: simpler_child})  # type: ignore[arg-type]


def _simpler_deliveries(delivery: Delivery) -> Iterator[Delivery]:
    if delivery != Signal():
        yield Signal()
        if delivery != Select():
            yield Select()


def _simpler_events(subscription: Subscription) -> Iterator[Subscription]:
    for index, event in enumerate(subscription.events):
        for change in ({"body": None}, {"class_iri": None}, {"times": None}):
            simpler_event = replace(event, **change)  # type: ignore[arg-type]
            if simpler_event != event:
                events = (*subscription.events[:index], simpler_event, *subscription.events[index + 1 :])
                yield replace(subscription, events=events)
        for block in _simpler_blocks(event.xml.tree) if event.xml else ():
            simpler_event = replace(event, xml=XmlBlock(block_text(block), block.variables))
            events = (*subscription.events[:index], simpler_event, *subscription.events[index + 1 :])
            yield replace(subscription, events=events)


def _simpler_blocks(block: Block) -> Iterator[Block]:
    if block.is_anchored:
        yield Block(block.element)
    yield from map(Block, _simpler_elements(block.element))


def _simpler_elements(pattern: ElementPattern) -> Iterator[ElementPattern]:
    """The pattern of an element without one of its parts, or with one nested pattern simpler."""
    for part in ("attributes", "nested", "element_as", "content_as"):
        values = getattr(pattern, part)
        for index in range(len(values)):
            change: dict[str, Any] = {part: (*values[:index], *values[index + 1 :])}
            yield replace(pattern, **change)
    if pattern.text is not None or pattern.value is not None:
        yield replace(pattern, text=None, value=None)
    yield from (replace(pattern, names=(name,)) for name in pattern.names if len(pattern.names) > 1)
    for index, nested in enumerate(pattern.nested):
        for element in _simpler_elements(nested.element):
            others = pattern.nested[:index], pattern.nested[index + 1 :]
            yield replace(pattern, nested=(*others[0], replace(nested, element=element), *others[1]))


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
    """The case with events named urn:1, urn:2, … in log order, and subscriptions named s1, s2, …"""
    events = {name: f"urn:{number}" for number, name in enumerate(dict.fromkeys(e.id for e in case.events), 1)}
    names = {s.name: f"s{number}" for number, s in enumerate(case.subscriptions, 1)}
    return case.with_records(_renamed_record(record, events, names) for record in case.records)


def _renamed_record(record: Record, events: dict[str, str], names: dict[str, str]) -> Record:
    match record:
        case EventRecord():
            terms = {iri(old): iri(new) for old, new in events.items()}
            triples = frozenset((terms.get(s, s), p, terms.get(o, o)) for s, p, o in record.triples)
            payload = None if record.payload is None else restated(record.payload, id=events[record.id])
            return replace(record, id=events[record.id], triples=triples, payload=payload)
        case SubscribeRecord(subscription=subscription):
            return replace(record, subscription=replace(subscription, name=names[subscription.name]))
        case UnsubscribeRecord():
            return replace(record, name=names[record.name])
        case RetractRecord():
            return replace(record, event=events[record.event])
        case _:
            return record
