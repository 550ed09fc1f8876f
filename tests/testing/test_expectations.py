"""Assertions about notifications, for tests of subscriptions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import motet
from motet.model.errors import UsageError
from motet.testing import FakeClock, assert_notifications, expect, notifications_of

TIME = "http://www.w3.org/ns/sosa/resultTime"
FIRE = """
SUBSCRIPTION fire
EVENT smoke : <urn:Smoke> { ?smoke <urn:room> ?room }
EVENT heat : <urn:Heat> { ?heat <urn:room> ?room }
WHEN smoke BEFORE heat WITHIN 5 min
SELECT ?room
"""
QUIET = "SUBSCRIPTION quiet EVENT smoke : <urn:Smoke> WHEN NO smoke FOR 10 s SIGNAL"


def alarm(number: int, kind: str, room: str, minute: int) -> dict[str, Any]:
    time = datetime(2026, 11, 15, 10, minute, tzinfo=UTC)
    return {"@id": f"urn:e:{number}", "@type": f"urn:{kind}", "urn:room": {"@id": f"urn:room:{room}"}, TIME: time}


EVENTS = [
    alarm(1, "Smoke", "lab", 0),
    alarm(2, "Heat", "lab", 3),
    alarm(3, "Smoke", "attic", 10),
    alarm(4, "Heat", "attic", 20),
]


def test_expected_notifications_are_found_in_any_order() -> None:
    """A dictionary has all variables; `expect` some fields."""
    found = assert_notifications(EVENTS, FIRE, [{"room": "urn:room:lab"}])
    assert [one.events for one in found] == [("urn:e:1", "urn:e:2")]
    start, end = "2026-11-15T10:00:00Z", datetime(2026, 11, 15, 10, 3, tzinfo=UTC)
    assert_notifications(EVENTS, FIRE, [expect("fire", events=["urn:e:2", "urn:e:1"], start=start, end=end)])
    both = [*EVENTS, alarm(5, "Heat", "attic", 12)]
    assert_notifications(both[::-1], [motet.parse(FIRE)[0]], [expect(), {"room": "urn:room:lab"}])
    assert_notifications([], FIRE, [])


def test_a_difference_is_readable_and_says_why_not() -> None:
    """What is missing, what is unexpected, and what kept the other events from contributing."""
    with pytest.raises(AssertionError) as raised:
        assert_notifications(EVENTS, FIRE, [{"room": "urn:room:attic"}])
    reason = "in smoke BEFORE heat WITHIN 5 min: 10 min in all where 5 min are allowed"
    assert str(raised.value).splitlines() == [
        "the notifications differ: 1 missing, 1 unexpected, of 1 found",
        "  - missing:    {'room': 'urn:room:attic'}",
        "  + unexpected: fire {'room': IRI('urn:room:lab')} of urn:e:1, urn:e:2 "
        "start 2026-11-15T10:00:00+00:00 end 2026-11-15T10:03:00+00:00",
        "why-not, for fire:",
        f"  <urn:e:3>: as smoke it matches, but {reason}, with urn:e:4 at 10:20:00 (the nearest of 2)",
        f"  <urn:e:4>: as heat it matches, but {reason}, with urn:e:3 at 10:10:00",
    ]


def test_the_why_not_is_that_of_the_events_that_are_named() -> None:
    with pytest.raises(AssertionError, match=r"<urn:e:9>: there is no event"):
        assert_notifications(EVENTS, FIRE, [{"room": "urn:room:lab"}, expect("fire", events=["urn:e:9"])])
    with pytest.raises(AssertionError, match="every event contributes"):
        assert_notifications(EVENTS[:2], FIRE, [expect(room="urn:room:lab"), expect(room="urn:room:lab")])
    many = [alarm(number, "Smoke", "lab", 0) for number in range(8)]
    with pytest.raises(AssertionError, match="and 3 further events"):
        assert_notifications(many, FIRE, [expect()])


def test_an_unexpected_notification_is_a_difference() -> None:
    with pytest.raises(AssertionError, match="0 missing, 1 unexpected"):
        assert_notifications(EVENTS, FIRE, [])
    with pytest.raises(AssertionError, match="1 missing, 1 unexpected"):
        assert_notifications(EVENTS, FIRE, [{}])


def test_settings_ontology_and_clock(tmp_path: Path) -> None:
    """Events without a time get that of the clock; settings are those of `motet.open`."""
    ontology = tmp_path / "o.ttl"
    ontology.write_text("<urn:Fume> <http://www.w3.org/2000/01/rdf-schema#subClassOf> <urn:Smoke> .")
    smoke = "SUBSCRIPTION s EVENT e : <urn:Smoke> WHEN e"
    fume = {"@type": "urn:Fume"}
    assert notifications_of(fume, smoke) == []
    (found,) = notifications_of(fume, smoke, ontology=ontology, clock=FakeClock("2026-11-15T10:00:00Z"))
    assert found.start == datetime(2026, 11, 15, 10, tzinfo=UTC)
    late = [alarm(1, "Smoke", "lab", 10), alarm(2, "Smoke", "lab", 0)]
    assert len(notifications_of(late, smoke)) == 2
    assert len(notifications_of(late, smoke, lateness="1 min")) == 1


def test_what_is_pending_is_decided() -> None:
    pattern = FIRE.replace("smoke BEFORE heat WITHIN 5 min", "smoke UNLESS heat WITHIN 5 min")
    assert_notifications(EVENTS, pattern, [{"room": "urn:room:attic"}])


def test_a_clock_is_set_and_advanced() -> None:
    """By text or a timedelta."""
    clock = FakeClock()
    clock.advance("1 min")
    clock.advance(timedelta(seconds=1))
    assert clock() == datetime(2000, 1, 1, 0, 1, 1, tzinfo=UTC)
    clock.set("2026-11-15T10:00:00Z")
    assert clock() == datetime(2026, 11, 15, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    "call",
    [
        lambda: FakeClock().advance(5),  # type: ignore[arg-type]
        lambda: FakeClock().advance("none"),
        lambda: FakeClock(datetime(2026, 1, 1)),
        lambda: assert_notifications([], FIRE, [5]),  # type: ignore[list-item]
        lambda: expect(5),  # type: ignore[arg-type]
    ],
)
def test_wrong_arguments_are_refused_with_advice(call: Any) -> None:
    with pytest.raises(UsageError) as refused:
        call()
    assert refused.value.advice
