"""Random replays: a log in a lake, subscriptions over its history, and their expected notifications.

The reference engine gets the log as the language page defines it: the subscriptions are first, events that are not
visible to them are omitted, and the frontier moves as far as it may; with ``late``
it stays where no later event is late.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from random import Random

from motet import reference
from motet.fuzz.case import BEGIN, LAST_START, SECOND, Case, expected_result
from motet.fuzz.cases import nth_case, without_void_retractions
from motet.fuzz.subscriptions import EngineCapabilities
from motet.language.syntax import Subscription
from motet.model.batches import Triple
from motet.model.times import END_OF_TIME


@dataclass(frozen=True)
class ReplayCase:
    """A log without subscriptions, and subscriptions to replay over it."""

    log: Case
    subscriptions: tuple[Subscription, ...]
    since: int | None
    until: int | None
    late: bool = False


def nth_replay(seed: int, number: int) -> ReplayCase:
    """One of the replays of a seed."""
    case = nth_case(seed, number, EngineCapabilities())
    random = Random(f"{seed} {number} replay")
    registrations = (reference.SubscribeRecord, reference.UnsubscribeRecord)
    records: list[reference.Record] = [record for record in case.records if not isinstance(record, registrations)]
    events = [event.id for event in case.events]
    for event in random.sample(events, random.choice((0, 0, 1, 2))):
        published = (isinstance(record, reference.EventRecord) and record.id == event for record in records)
        offset = list(published).index(True)
        records.insert(random.randint(offset + 1, len(records)), reference.RetractRecord(0, event))
    since = random.choice((None, BEGIN + random.randint(0, LAST_START) * SECOND))
    until = random.choice((None, None, (since or BEGIN) + random.randint(0, LAST_START) * SECOND))
    by_name = {each.name: replace(each, since=since) for each in case.subscriptions}  # some are registered twice
    late = random.random() < 0.4
    log = without_void_retractions(case.with_records(records))
    return ReplayCase(log, tuple(by_name.values()), since, until, late)


def in_any_order(log: Case, random: Random) -> Case:
    """The events of a log in any order, most of them late, then its ticks and retractions."""
    events = [replace(event, commit=None, clock=None) for event in log.events if not event.stamped]
    ids = {event.id for event in events}
    retractions = [r for r in log.records if isinstance(r, reference.RetractRecord) and r.event in ids]
    ticks = [replace(r, clock=None) for r in log.records if isinstance(r, reference.TickRecord)]
    return replace(log, lateness=SECOND).with_records([*random.sample(events, len(events)), *ticks, *retractions])


def in_time_order(log: Case, frontier: int | None) -> Case:
    """The events of a log by their ends, then a tick at a frontier and its retractions."""
    first = {event.id: event for event in reversed(log.events)}
    ticks = [] if frontier is None else [reference.TickRecord(0, frontier)]
    retractions = [record for record in log.records if isinstance(record, reference.RetractRecord)]
    events = sorted(first.values(), key=lambda event: event.end)
    return replace(log, lateness=None).with_records([*events, *ticks, *retractions])


def expected_replay_lines(replay: ReplayCase) -> list[str]:
    """The notification lines of a replay by the reference engine."""
    log = replay.log
    before = list(takewhile(lambda record: not isinstance(record, reference.EventRecord), log.records))
    ontology: frozenset[Triple] = log.ontology
    for record in before:
        if isinstance(record, reference.BackgroundRecord):
            ontology = (ontology - record.removed) | record.added
    set_before = [record.entailment for record in before if isinstance(record, reference.SettingsRecord)]
    mappings = [record.mappings for record in log.records if isinstance(record, reference.SettingsRecord)]
    settings = reference.SettingsRecord(
        0, None, None, set_before[-1] if set_before else None, mappings[-1] if mappings else ()
    )
    subscribes = [reference.SubscribeRecord(0, subscription) for subscription in replay.subscriptions]
    visible = Case((), ontology).with_records([settings, *subscribes, *_visible_records(replay, len(before))])
    return expected_result(visible).lines()


def _visible_records(replay: ReplayCase, begin: int) -> Iterator[reference.Record]:
    """The records that are visible to the subscriptions, and a tick for each that moves the frontier."""
    log, last = replay.log, None if replay.until is None else replay.until + 1
    retracted = {record.event: record.offset for record in log.records if isinstance(record, reference.RetractRecord)}
    written = reference.write_log(log.records, log.lateness)
    events = [record for record in written.records if isinstance(record, reference.EventRecord)]
    late = [event for event in events if event.late and replay.late]
    for record in written.records:
        if record.frontier is not None:
            caps = [last, *(min(event.end, END_OF_TIME - 1) for event in late if event.offset >= record.offset)]
            yield reference.TickRecord(0, _earliest(record.frontier, *caps))
        if isinstance(record, reference.EventRecord):
            is_seen = replay.late or not record.late
            if is_seen and retracted.get(record.id, -1) < record.offset and _is_between(record, replay):
                yield replace(record, commit=None, clock=None)
        elif isinstance(record, reference.BackgroundRecord) and record.offset >= begin:
            yield replace(record, commit=None, clock=None)
        elif isinstance(record, reference.SettingsRecord) and record.offset >= begin:
            yield reference.SettingsRecord(0, None, None, record.entailment)
    if written.frontier is not None:
        yield reference.TickRecord(0, _earliest(written.frontier, last))


def _is_between(event: reference.EventRecord, replay: ReplayCase) -> bool:
    since, until = replay.since, replay.until
    return (since is None or event.start >= since) and (until is None or event.end <= until)


def _earliest(instant: int, *caps: int | None) -> int:
    return min([instant, *(cap for cap in caps if cap is not None)])
