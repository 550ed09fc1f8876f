"""Random replays: a log in a lake, subscriptions that come to it later, and what the reference engine says of them.

The log is shown to the reference engine as the language page says: the subscriptions stand first, events they do not
see are not there, and the frontier goes as far as it may.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from random import Random

from motet.codec.decode import decode_bytes
from motet.fuzz.case import BEGIN, LAST, SECOND, Case
from motet.fuzz.cases import nth_case
from motet.fuzz.files import nquads
from motet.fuzz.oracle import judge
from motet.fuzz.subscriptions import Abilities
from motet.lake import Lake
from motet.language.printer import to_text
from motet.language.syntax import Subscription
from motet.model.batches import Triple
from motet.reference import (
    BackgroundRecord,
    EventRecord,
    Record,
    RetractRecord,
    SubscribeRecord,
    TickRecord,
    UnsubscribeRecord,
    assign_frontiers,
)


@dataclass(frozen=True)
class Replayed:
    """A log without subscriptions, and what is asked of it."""

    log: Case
    subscriptions: tuple[Subscription, ...]
    since: int | None
    until: int | None


def nth_replay(seed: int, number: int) -> Replayed:
    """The same for the same numbers."""
    case = nth_case(seed, number, Abilities())
    random = Random(f"{seed} {number} replay")  # noqa: S311  (seeded, not secret)
    lives = (SubscribeRecord, UnsubscribeRecord)
    records: list[Record] = [one for one in case.records if not isinstance(one, lives)]
    events = [one.id for one in case.events]
    for event in random.sample(events, random.choice((0, 0, 1, 2))):
        published = next(place for place, one in enumerate(records) if isinstance(one, EventRecord) and one.id == event)
        records.insert(random.randint(published + 1, len(records)), RetractRecord(0, event))
    since = random.choice((None, BEGIN + random.randint(0, LAST) * SECOND))
    until = random.choice((None, None, (since or BEGIN) + random.randint(0, LAST) * SECOND))
    named = {one.name: replace(one, since=since) for one in case.subscriptions}  # some come back under their name
    subscriptions = tuple(named.values())
    return Replayed(case.with_records(records), subscriptions, since, until)


def lake_of(log: Case, directory: Path) -> Lake:
    """The log as a lake."""
    lake = Lake.open(directory, lateness=log.lateness, durable=False)
    if log.ontology:
        lake.background(added=sorted(log.ontology))
    for record in log.records:
        match record:
            case EventRecord():
                for decoded in decode_bytes(nquads(record).encode(), "application/n-quads"):
                    lake.append(decoded.events, now=0)
            case TickRecord(instant=instant):
                lake.tick(instant)
            case BackgroundRecord(added=added, removed=removed):
                lake.background(added=sorted(added), removed=sorted(removed))
            case RetractRecord(event=event):
                lake.retract(event)
            case SubscribeRecord(subscription=subscription):
                lake.subscribe(subscription.name, to_text(subscription))
            case UnsubscribeRecord(name=name):
                lake.unsubscribe(name)
    return lake


def expected_of(replayed: Replayed) -> list[str]:
    """The lines the reference engine writes."""
    log = replayed.log
    before = list(takewhile(lambda record: not isinstance(record, EventRecord), log.records))
    ontology: frozenset[Triple] = log.ontology
    for record in before:
        if isinstance(record, BackgroundRecord):
            ontology = (ontology - record.removed) | record.added
    begin = [SubscribeRecord(0, one) for one in replayed.subscriptions]
    seen = Case((), ontology).with_records([*begin, *_seen(replayed, len(before))])
    return judge(seen).lines()


def _seen(replayed: Replayed, begin: int) -> Iterator[Record]:
    """The records as the subscriptions see them, and a tick for each that moves the frontier."""
    log, last = replayed.log, None if replayed.until is None else replayed.until + 1
    retracted = {record.event: record.offset for record in log.records if isinstance(record, RetractRecord)}
    for record in assign_frontiers(log.records, log.lateness):
        if isinstance(record, EventRecord):
            if not record.late and retracted.get(record.id, -1) < record.offset and _is_between(record, replayed):
                yield replace(record, frontier=None)
            if log.lateness is not None:
                yield TickRecord(0, _earliest(record.end - log.lateness, last))
        elif isinstance(record, TickRecord):
            yield TickRecord(0, _earliest(record.instant, last))
        elif isinstance(record, BackgroundRecord) and record.offset >= begin:
            yield record


def _is_between(event: EventRecord, replayed: Replayed) -> bool:
    since, until = replayed.since, replayed.until
    return (since is None or event.start >= since) and (until is None or event.end <= until)


def _earliest(instant: int, last: int | None) -> int:
    return instant if last is None else min(instant, last)
