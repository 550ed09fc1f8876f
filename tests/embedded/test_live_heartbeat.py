"""A live cloud with a clock: what waits for the frontier is told without further events."""

from __future__ import annotations

import queue
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.builders import ManualClock

import motet
from motet.model.errors import UsageError
from motet.model.notifications import Notification
from motet.model.records import Tick
from motet.model.times import format_datetime, parse_datetime, to_datetime

NOW = parse_datetime("2026-11-15T10:00:00Z")
SECOND = 1_000_000
FIRE = """
SUBSCRIPTION fire EVENT smoke : <urn:Smoke> EVENT heat : <urn:Heat>
WHEN smoke BEFORE heat WITHIN 5 min CONTEXT chronicle SELECT ?smoke ?heat
"""
SILENCE = "SUBSCRIPTION silence EVENT beat : <urn:Beat> WHEN NO beat FOR 10 s SIGNAL"
TIME = "<http://www.w3.org/ns/sosa/resultTime>"
DATETIME = "<http://www.w3.org/2001/XMLSchema#dateTime>"


def event(number: int, class_: str, instant: int) -> str:
    name = f"<urn:e:{number}>"
    type_ = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
    return f'{name} {type_} <urn:{class_}> {name} .\n{name} {TIME} "{format_datetime(instant)}"^^{DATETIME} {name} .\n'


def ticks(cloud: motet.Cloud) -> list[int]:
    return [record.instant for record in cloud.lake.snapshot().control_records(Tick) if isinstance(record, Tick)]


@pytest.fixture(autouse=True)
def _without_persister(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other thread has the lock of a cloud: a look that cannot have it appends no tick."""
    monkeypatch.setattr("motet.embedded.delivery_loop.PERSIST_SECONDS", 3600.0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


def test_a_pair_is_told_by_itself(tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within lateness and heartbeat, without another event."""
    monkeypatch.setattr("motet.embedded.delivery_loop.FOLLOW_SECONDS", 3600)
    found: list[Notification] = []
    with motet.open(tmp_path, clock=clock.utc) as cloud:
        cloud.subscribe(FIRE, found.append)
        cloud.publish(event(1, "Smoke", NOW - SECOND))
        cloud.publish(event(2, "Heat", NOW))
        for _ in range(6 * 5):
            assert found == []
            clock.now += SECOND // 5
            cloud._loop.follow()
            if found:
                break
    assert [notification.events for notification in found] == [("urn:e:1", "urn:e:2")]
    assert clock.now <= NOW + 6 * SECOND


def test_silence_is_told_again_and_again(tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """NO is decided by ticks; with nothing pending no tick is appended."""
    monkeypatch.setattr("motet.embedded.delivery_loop.FOLLOW_SECONDS", 3600)
    found: list[Notification] = []
    with motet.open(tmp_path, clock=clock.utc) as cloud:
        cloud.publish(event(1, "Beat", NOW))
        cloud.subscribe(SILENCE, found.append)
        cloud.publish(event(2, "Beat", NOW))
        for _ in range(120):
            clock.now += SECOND
            cloud._loop.follow()
        assert ticks(cloud) == sorted(set(ticks(cloud)))
        assert len(ticks(cloud)) <= 2
    assert [n.end_micros - n.start_micros for n in found] == [10 * SECOND] * len(found)
    assert NOW + 10 * SECOND in [notification.end_micros for notification in found]


@pytest.mark.parametrize("threaded", [False, True])
def test_with_the_real_clock(tmp_path: Path, threaded: bool) -> None:
    """The thread that follows appends the tick; also when the events come from another process."""
    found: queue.Queue[Notification] = queue.Queue()
    with (
        motet.open(tmp_path, threaded=threaded, lateness="200 ms", heartbeat="100 ms") as cloud,
        motet.open(tmp_path) as other,
    ):
        cloud.subscribe(FIRE, found.put)
        now = time.time_ns() // 1000
        other.publish(event(1, "Smoke", now - SECOND // 100) + event(2, "Heat", now))
        assert found.get(timeout=30).events == ("urn:e:1", "urn:e:2")
        assert ticks(cloud) != []


def test_several_listening_processes_are_harmless(tmp_path: Path, clock: ManualClock) -> None:
    """One tick is appended, whoever is first; each listener is told once."""
    found: dict[str, list[Notification]] = {"a": [], "b": []}
    with motet.open(tmp_path, clock=clock.utc) as one, motet.open(tmp_path, clock=clock.utc) as two:
        for name, cloud in (("a", one), ("b", two)):
            cloud._loop.follower._task = lambda: None  # only when this test says so
            cloud.subscribe(FIRE, found[name].append, consumer=name)
        one.publish(event(1, "Smoke", NOW - SECOND) + event(2, "Heat", NOW))
        two.flush()
        for cloud in (one, two):
            cloud._loop.follow()
        clock.now += 10 * SECOND
        for cloud in (one, two):
            threads = [threading.Thread(target=cloud._loop.follow) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        one.flush()
        two.flush()
        assert len(ticks(one)) == 1
    assert [len(notifications) for notifications in found.values()] == [1, 1]


def test_a_log_that_is_not_live_says_so(tmp_path: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    """At a listener's first wait; `cloud.tick()` decides everything that is there."""
    found: list[Notification] = []
    with motet.open(tmp_path, clock=clock.utc) as cloud:
        cloud._loop.follower._task = lambda: None
        cloud.subscribe(FIRE, found.append)
        cloud.publish(event(1, "Smoke", NOW - 400 * SECOND) + event(2, "Heat", NOW - 300 * SECOND))
        for _ in range(5):
            cloud._loop.follow()
            clock.now += 10 * SECOND
        assert (found, ticks(cloud)) == ([], [])
        assert caplog.text.count("is not live") == 1
        cloud.tick()
        assert [notification.events for notification in found] == [("urn:e:1", "urn:e:2")]
        cloud.tick()
        assert len(ticks(cloud)) == 1


@pytest.mark.parametrize(
    "instant", ["2026-11-15T10:00:00Z", "2026-11-15T12:00:00+02:00", datetime(2026, 11, 15, 10, tzinfo=UTC)]
)
def test_a_tick_is_an_instant_in_any_form(tmp_path: Path, clock: ManualClock, instant: str | datetime) -> None:
    """An xsd:dateTime, or a datetime with a zone."""
    with motet.open(tmp_path, clock=clock.utc) as cloud:
        cloud.tick(instant)
        assert cloud.lake.snapshot().frontier == NOW


@pytest.mark.parametrize(
    ("instant", "reason"),
    [
        (NOW, f"{NOW} is not a time"),
        (True, "True is not a time"),
        (datetime(2026, 11, 15, 10), "2026-11-15T10:00:00 has no zone"),
    ],
)
def test_what_is_no_instant_is_refused_with_advice(tmp_path: Path, instant: Any, reason: str) -> None:
    """Integers and datetimes without a zone are no instants."""
    with motet.open(tmp_path) as cloud, pytest.raises(UsageError, match=reason) as refused:
        cloud.tick(instant)
    assert refused.value.advice is not None and ("UTC" in refused.value.advice or "zone" in refused.value.advice)


def test_a_tick_may_not_be_later_than_the_clock_and_ahead(tmp_path: Path, clock: ManualClock) -> None:
    """A tick may not be later than the writer's clock plus `ahead`, unless it is forced."""
    with motet.open(tmp_path, clock=clock.utc, ahead="1 min") as cloud:
        cloud.tick(to_datetime(NOW + 60 * SECOND))
        with pytest.raises(UsageError, match="ahead"):
            cloud.tick(to_datetime(NOW + 60 * SECOND + 1))
        with pytest.raises(UsageError, match="is not an xsd:dateTime"):
            cloud.tick("tomorrow")
        cloud.tick(to_datetime(NOW + 3600 * SECOND), force=True)
        assert cloud.lake.snapshot().frontier == NOW + 3600 * SECOND


def test_a_listener_cannot_tick_without_an_instant(tmp_path: Path, clock: ManualClock) -> None:
    """Its own records are not processed to the end yet."""
    errors: list[UsageError] = []
    with motet.open(tmp_path, clock=clock.utc) as cloud:

        def listen(_: Notification) -> None:
            try:
                cloud.tick()
            except UsageError as error:
                errors.append(error)

        cloud.subscribe("SUBSCRIPTION all EVENT e WHEN e", listen)
        cloud.publish(event(1, "Smoke", NOW))
    assert "a listener cannot tick without an instant" in str(errors[0])
