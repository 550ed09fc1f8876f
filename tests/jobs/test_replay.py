"""What a replay sees of a lake, against the reference engine."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from tests.builders import event_triples
from tests.replays import expected_replay_lines, in_any_order, in_time_order, nth_replay

import motet
from motet.fuzz.case import BEGIN, SECOND, Case, timed_event
from motet.fuzz.lakes import write_lake
from motet.jobs.replay import load_replay, replay_embedded, replay_view
from motet.lake import Lake
from motet.language.parse import parse
from motet.language.syntax import Construct, Subscription
from motet.model.errors import LakeError, UsageError
from motet.model.times import END_OF_TIME
from motet.reference import EventRecord, Record, SubscribeRecord, TickRecord, evaluate

UNLESS = "SUBSCRIPTION s EVENT a : <urn:A> EVENT b : <urn:B> WHEN a UNLESS b WITHIN 4 s SELECT ?a"


def event(name: str, class_: str, second: int) -> EventRecord:
    instant = BEGIN + second * SECOND
    return timed_event(name, instant, instant, event_triples(name, class_, namespace="urn:"))


def replayed(
    lake: Path,
    subscriptions: tuple[Subscription, ...],
    since: int | None = None,
    until: int | None = None,
    late: bool = False,
) -> list[str]:
    sink = io.BytesIO()
    count = replay_embedded(load_replay(str(lake), subscriptions, since=since, until=until, late=late), sink)
    lines = sink.getvalue().decode().splitlines()
    assert count == len(lines)
    return lines


@pytest.mark.parametrize("portion", range(4))
def test_random_replays_agree_with_the_reference_engine(portion: int, tmp_path: Path) -> None:
    """For any log, with retractions, late events and background changes, between any two instants."""
    for number in range(8 * portion, 8 * portion + 8):
        case = nth_replay(3, number)
        write_lake(case.log, tmp_path / str(number))
        found = replayed(tmp_path / str(number), case.subscriptions, case.since, case.until, case.late)
        assert found == expected_replay_lines(case), f"replay {number}"


def test_late_events_are_read_as_if_they_had_come_in_time(tmp_path: Path) -> None:
    """“`motet replay --late` reads late events as if they had come in time”: it equals a replay of the same events in
    time order.
    """
    late_events, changed = 0, 0
    for number in range(16):
        case = nth_replay(7, number)
        log = in_any_order(case.log, Random(number))
        lake = write_lake(log, tmp_path / str(number))
        write_lake(in_time_order(log, lake.snapshot().frontier), tmp_path / f"{number}-in-time")
        found = replayed(tmp_path / str(number), case.subscriptions, case.since, case.until, late=True)
        expected = replayed(tmp_path / f"{number}-in-time", case.subscriptions, case.since, case.until)
        assert found == expected, f"replay {number}"
        late_events += sum(segment.late for segment in lake.snapshot().segments)
        changed += found != replayed(tmp_path / str(number), case.subscriptions, case.since, case.until)
    assert late_events > 50 and changed > 5


def test_an_absence_that_a_late_event_contradicts(tmp_path: Path) -> None:
    """It is in the replay without late events, and not in the one with them."""
    records = [event("urn:1", "A", 0), event("urn:3", "C", 20), event("urn:2", "B", 3)]
    lake = write_lake(Case((), lateness=0).with_records(records), tmp_path)
    assert sum(segment.late for segment in lake.snapshot().segments) == 1
    assert len(replayed(tmp_path, parse(UNLESS))) == 1
    assert replayed(tmp_path, parse(UNLESS), late=True) == []
    single = parse("SUBSCRIPTION b EVENT b : <urn:B> WHEN b SIGNAL")
    assert (len(replayed(tmp_path, single)), len(replayed(tmp_path, single, late=True))) == (0, 1)


def test_a_late_event_at_the_end_of_time(tmp_path: Path) -> None:
    """After a tick at the end of time every event is late; with --late it counts like any other."""
    at_end = timed_event("urn:2", END_OF_TIME, END_OF_TIME, event_triples("urn:2", "A", namespace="urn:"))
    log = Case((), lateness=0).with_records([event("urn:1", "A", 0), TickRecord(0, END_OF_TIME), at_end])
    write_lake(log, tmp_path)
    pairs = parse("SUBSCRIPTION s EVENT a : <urn:A> EVENT b : <urn:A> WHEN a BEFORE b CONTEXT chronicle UNBOUNDED")
    assert replayed(tmp_path, pairs) == []
    assert len(replayed(tmp_path, pairs, late=True)) == 1


def test_a_replay_equals_a_backfill(tmp_path: Path) -> None:
    """A subscription with SINCE at the end of the log gets the notifications of the replay."""
    notifications = 0
    for number in range(12):
        case = nth_replay(5, number)
        log = case.log
        write_lake(log, tmp_path / str(number))
        since = case.since or BEGIN
        for one in case.subscriptions:
            if not isinstance(one.delivery, Construct):
                late = SubscribeRecord(len(log.records), replace(one, since=since))
                records: list[Record] = [*log.records, late]
                expected = evaluate(records, ontology=log.ontology, lateness=log.lateness)
                assert replayed(tmp_path / str(number), (one,), since) == [each.to_line() for each in expected]
                notifications += len(expected)
    assert notifications


def test_until_replays_the_log_as_it_was_known(tmp_path: Path) -> None:
    """The frontier stops at --until, so an absence that later events would disprove is not concluded."""
    log = Case((), lateness=0).with_records([event("urn:1", "A", 0), event("urn:2", "B", 3), event("urn:3", "A", 20)])
    write_lake(log, tmp_path)
    subscriptions = parse(UNLESS)
    assert replayed(tmp_path, subscriptions, until=BEGIN + 2 * SECOND) == []
    [line] = replayed(tmp_path, parse(UNLESS.replace("urn:B", "urn:C")), until=BEGIN + 4 * SECOND)
    assert '"events": ["urn:1"]' in line
    assert replayed(tmp_path, parse(UNLESS.replace("urn:B", "urn:C")), until=BEGIN + 4 * SECOND - 1) == []


def test_subscriptions_of_the_log_are_ignored(tmp_path: Path) -> None:
    """Also one of the same name, and one that derives events."""
    with motet.open(tmp_path) as cloud:
        cloud.subscribe("SUBSCRIPTION s EVENT a WHEN a CONSTRUCT { ?this a <urn:B> }", lambda _: None)
        cloud.publish('<urn:1> <urn:p> "x" <urn:1> .')
    assert len(replayed(tmp_path, parse("SUBSCRIPTION s EVENT b : <urn:B> WHEN b"))) == 0
    assert len(replayed(tmp_path, parse("SUBSCRIPTION s EVENT a WHEN a"))) == 1


def test_each_subscription_has_its_own_since(tmp_path: Path) -> None:
    """A replay starts at the SINCE of a subscription; --since replaces it."""
    write_lake(Case((), lateness=0).with_records([event("urn:1", "A", 0), event("urn:2", "A", 3)]), tmp_path)
    subscriptions = parse(
        'SUBSCRIPTION late SINCE "2026-11-15T10:00:02Z" EVENT a WHEN a SIGNAL SUBSCRIPTION all EVENT a WHEN a SIGNAL'
    )
    names = [line.rsplit('"', 2)[1] for line in replayed(tmp_path, subscriptions)]
    assert names == ["all", "all", "late"]
    names = [line.rsplit('"', 2)[1] for line in replayed(tmp_path, subscriptions, since=BEGIN)]
    assert names == ["all", "late", "all", "late"]


def test_derivation_edges_between_different_since_are_refused(tmp_path: Path) -> None:
    """A downstream subscription must not see events from before the SINCE of its upstream."""
    write_lake(Case((), lateness=0).with_records([event("urn:1", "A", 0)]), tmp_path)
    subscriptions = parse(
        'SUBSCRIPTION one SINCE "2026-11-15T10:00:02Z" EVENT a : <urn:A> WHEN a CONSTRUCT { ?this a <urn:B> } '
        "SUBSCRIPTION two EVENT b : <urn:B> WHEN b SIGNAL"
    )
    with pytest.raises(UsageError, match="'one' derives events for 'two', but their SINCE differ"):
        load_replay(str(tmp_path), subscriptions)
    assert len(replayed(tmp_path, subscriptions, since=BEGIN)) == 2


def test_invalid_replays_are_refused(tmp_path: Path) -> None:
    """A directory without a lake, and --until before --since."""
    with pytest.raises(LakeError, match="is not a lake"):
        load_replay(str(tmp_path / "none"), parse(UNLESS))
    snapshot = Lake.open(tmp_path / "lake").snapshot()
    with pytest.raises(UsageError, match="is later than --until"):
        replay_view(snapshot, since=BEGIN + SECOND, until=BEGIN)


def test_an_empty_lake_gives_no_notifications(tmp_path: Path) -> None:
    """Without a frontier NO gives no notification either."""
    Lake.open(tmp_path)
    silent = parse('SUBSCRIPTION s SINCE "2026-11-15T10:00:00Z" EVENT a WHEN NO a FOR 1 s SIGNAL')
    assert replayed(tmp_path, silent) == []
