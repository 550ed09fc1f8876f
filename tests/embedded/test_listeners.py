"""Listeners: which ones there are, and what happens when they fail."""

from __future__ import annotations

import functools
import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests import builders

import motet
from motet.cli.main import main
from motet.embedded.backend import InProcessBackend
from motet.embedded.dispatcher import MAX_TRIES
from motet.model.errors import LakeError, UsageError
from motet.model.notifications import Notification

HOT = "SUBSCRIPTION hot EVENT e { ?e <urn:celsius> ?c FILTER(?c > 30) } WHEN e SELECT ?c"


def reading(number: int, celsius: int = 35) -> str:
    return builders.reading(number, celsius)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.01)


class Unreliable:
    """A listener that fails the first calls, and then receives."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.received: list[str] = []

    def __call__(self, notification: Notification) -> None:
        if self.failures:
            self.failures -= 1
            raise ConnectionError("the database is away")
        self.received.append(notification.events[0])


@pytest.mark.parametrize("threaded", [False, True])
def test_a_listener_that_fails_for_a_while_receives_everything(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, threaded: bool
) -> None:
    """In order, each notification once, without another event; the other listener has received it before."""
    listener, other = Unreliable(2), Unreliable(0)
    with motet.open(tmp_path, threaded=threaded) as cloud, caplog.at_level(logging.CRITICAL):
        cloud.subscribe(HOT, listener)
        cloud.subscribe(HOT, other)
        cloud.publish(reading(1) + reading(2) + reading(3))
        wait_until(lambda: len(listener.received) == 3 and len(other.received) == 3)
        cloud.publish(reading(4))
        cloud.flush()
        assert cloud.statistics()["dead_letters"] == 0
    assert listener.received == other.received == [f"urn:e:{number}" for number in (1, 2, 3, 4)]


def test_after_all_tries_a_notification_is_a_dead_letter(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is stored with the consumer and the error, `motet inspect` counts it, and the listener continues."""
    listener = Unreliable(MAX_TRIES)
    with motet.open(tmp_path) as cloud, caplog.at_level(logging.CRITICAL):
        cloud.subscribe(HOT, listener, consumer="dashboard")
        cloud.publish(reading(1))
        cloud.publish(reading(2))
        cloud.flush()
        (lost, _) = cloud.notifications("hot")
    assert listener.received == ["urn:e:2"]
    (line,) = (tmp_path / "dead-letter" / "notifications.jsonl").read_text().splitlines()
    assert json.loads(line) == {
        "consumer": "dashboard",
        "error": "ConnectionError: the database is away",
        "tries": MAX_TRIES,
        "notification": json.loads(lost.to_line()),
    }
    main(["inspect", "--lake", str(tmp_path)])
    assert "1 notifications could not be delivered" in " ".join(capsys.readouterr().err.split())
    main(["inspect", "--lake", str(tmp_path), "--json"])
    assert json.loads(capsys.readouterr().out)["undelivered"] == 1
    with motet.open(tmp_path) as cloud:  # the cursor is after it
        cloud.subscribe(HOT, listener, consumer="dashboard")
    assert listener.received == ["urn:e:2"]


def test_a_notification_that_failed_is_delivered_by_the_next_process(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """At least once: a process that ends between two tries loses nothing."""
    listener = Unreliable(1)
    with motet.open(tmp_path) as cloud, caplog.at_level(logging.CRITICAL):
        cloud.subscribe(HOT, listener)
        cloud._loop.follower.stop(wait=True)
        cloud.publish(reading(1) + reading(2))
        assert listener.received == []
    with motet.open(tmp_path) as cloud:
        cloud.subscribe(HOT, listener)
    assert listener.received == ["urn:e:1", "urn:e:2"]


def test_notifications_of_one_offset_are_not_repeated(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A listener that fails on the second notification of a record does not receive the first one again."""
    three = "SUBSCRIPTION three EVENT e { ?e <urn:celsius> ?c VALUES ?n { 1 2 3 } } WHEN e SELECT ?n"
    received: list[object] = []
    failures = iter([True])

    def listen(notification: Notification) -> None:
        if len(received) == 1 and next(failures, False):
            raise ConnectionError("away")
        received.append(notification["n"])

    with motet.open(tmp_path) as cloud, caplog.at_level(logging.CRITICAL):
        cloud.subscribe(three, listen)
        cloud.publish(reading(1))
        cloud.flush()
    assert sorted(map(str, received)) == ["1", "2", "3"]


def test_a_dead_letter_that_cannot_be_stored_is_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is lost while the disk is full."""
    listener = Unreliable(MAX_TRIES)

    def fail(*_: object) -> None:
        raise LakeError("the disk is full")

    with motet.open(tmp_path) as cloud, caplog.at_level(logging.CRITICAL):
        monkeypatch.setattr(cloud._loop.dispatcher, "_store", fail)
        cloud.subscribe(HOT, listener)
        cloud.publish(reading(1))
        cloud.flush()
    assert listener.received == ["urn:e:1"]


async def coroutine_listener(found: Notification) -> None:
    """Never run by a cloud without an event loop."""


class AsyncListener:
    async def __call__(self, found: Notification) -> None:
        """As above."""


@pytest.mark.parametrize(
    "listener", [coroutine_listener, AsyncListener(), functools.partial(coroutine_listener), 5, "print"]
)
def test_what_cannot_listen_is_refused(tmp_path: Path, listener: Any) -> None:
    """A coroutine function needs the asynchronous cloud; nothing is registered."""
    with motet.open(tmp_path) as cloud:
        with pytest.raises(UsageError, match=r"coroutine function|cannot be called") as refused:
            cloud.subscribe(HOT, listener)
        assert refused.value.advice
        assert cloud.subscriptions() == ()


def test_a_listener_that_returns_a_coroutine_fails(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It would never be run: the log says so."""
    with motet.open(tmp_path) as cloud:
        cloud.subscribe(HOT, lambda found: coroutine_listener(found))  # noqa: PLW0108  (it returns a coroutine)
        cloud.publish(reading(1))
        assert cloud.statistics()["delivered"] == 0
    assert "open_async" in caplog.text


def test_a_decorated_function_is_a_listener(tmp_path: Path) -> None:
    """`@cloud.on` returns the function itself."""
    received: list[str] = []
    with motet.open(tmp_path) as cloud:

        @cloud.on(HOT, consumer="dashboard")
        def listen(found: Notification) -> None:
            received.append(found.events[0])

        cloud.publish(reading(1))
        listen(next(cloud.notifications()))
    assert received == ["urn:e:1", "urn:e:1"]


def test_a_subscription_without_a_listener_is_only_registered(tmp_path: Path) -> None:
    """Its notifications are stored; a consumer that comes later receives them."""
    received: list[str] = []
    with motet.open(tmp_path) as cloud:
        assert cloud.subscribe(HOT) == ("hot",)
        cloud.publish(reading(1))
        with pytest.raises(UsageError, match="has no listener"):
            cloud.subscribe(HOT, consumer="dashboard")
        with pytest.raises(UsageError, match="is 5, of type int"):
            cloud.subscribe(5)  # type: ignore[arg-type]
    with motet.open(tmp_path) as cloud:
        cloud.subscribe(HOT, lambda found: received.append(found.events[0]))
    assert received == ["urn:e:1"]


def test_a_threaded_worker_survives_a_transient_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`publish` goes on, and the notifications come by themselves when the error is over."""
    listener = Unreliable(0)
    errors = iter([LakeError("the disk is away")] * 2)

    def advance(self: InProcessBackend, *arguments: Any) -> Any:
        if (error := next(errors, None)) is not None:
            raise error
        return original(self, *arguments)

    original = InProcessBackend.advance
    with motet.open(tmp_path, threaded=True) as cloud, caplog.at_level(logging.CRITICAL):
        cloud.subscribe(HOT, listener)
        cloud.flush()
        monkeypatch.setattr(InProcessBackend, "advance", advance)
        for number in (1, 2, 3):
            cloud.publish(reading(number))
        wait_until(lambda: len(listener.received) == 3)
    assert listener.received == ["urn:e:1", "urn:e:2", "urn:e:3"]
