"""Delivery to listeners."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from tests import builders

import motet
from motet.embedded.dispatcher import MAX_TRIES
from motet.model.notifications import Notification

ALL = "SUBSCRIPTION all EVENT e WHEN e"
HOT = "SUBSCRIPTION hot EVENT e { ?e <urn:celsius> ?c FILTER(?c > 30) } WHEN e SELECT ?c"


def reading(number: int, celsius: int = 35) -> str:
    return builders.reading(number, celsius)


def test_listener_failures_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Statistics count the failed calls of each listener, and the notifications that no try could deliver."""

    def fail(found: Notification) -> None:
        raise RuntimeError("no")

    with motet.open(tmp_path) as cloud, caplog.at_level(logging.CRITICAL):
        cloud.subscribe(HOT, fail)
        cloud.subscribe(ALL, lambda _: None)
        cloud.publish(reading(1) + reading(2, 10) + reading(3))
        cloud.flush()
        statistics = cloud.statistics()
    assert (statistics["published"], statistics["processed_to"], statistics["backlog"]) == (3, 6, 0)
    failures = {"hot": 2 * MAX_TRIES}
    assert (statistics["delivered"], statistics["failures"], statistics["dead_letters"]) == (3, failures, 2)


def test_a_listener_may_subscribe_again_during_delivery(tmp_path: Path) -> None:
    """It gets the missed notifications from the table, then the new ones, in order."""
    found: list[str] = []
    with motet.open(tmp_path) as cloud:
        cloud.subscribe(HOT, lambda _: None)
        cloud.publish(reading(1))
        cloud.publish(reading(2))
    (tmp_path / "consumers").rename(tmp_path / "tmp" / "lost")
    with motet.open(tmp_path) as cloud:

        def listen(notification: Notification) -> None:
            if len(found) == 0:
                cloud.subscribe(HOT, lambda again: found.append(again.events[0]))
            found.append("all " + notification.events[0])

        cloud.subscribe(ALL, listen)
        cloud.publish(reading(3))
        cloud.publish(reading(4))
    hot = [line for line in found if not line.startswith("all")]
    assert hot == [f"urn:e:{number}" for number in (1, 2, 3, 4)]
