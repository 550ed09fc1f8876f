"""A cloud with listeners follows what other processes append (language page, section 14, Following)."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import builders

import motet
from motet.embedded import delivery_loop
from motet.embedded.backend import InProcessBackend
from motet.embedded.cloud import Cloud
from motet.embedded.worker import Poller
from motet.lake import Lake
from motet.model.errors import LakeError
from motet.model.notifications import Notification

HOT = "SUBSCRIPTION hot EVENT e { ?e <urn:celsius> ?c FILTER(?c > 30) } WHEN e SELECT ?c"
PATIENCE = 30  # seconds until a test fails


def reading(number: int) -> str:
    return builders.reading(number, 35)


def started_since(before: list[threading.Thread]) -> list[str]:
    """The names of the threads that a cloud has started; others may still be ending."""
    return [thread.name for thread in threading.enumerate() if thread not in before and "motet" in thread.name]


class Received:
    """Numbers of the events whose notifications were received, from another thread."""

    def __init__(self) -> None:
        self._numbers: queue.Queue[int] = queue.Queue()

    def __call__(self, notification: Notification) -> None:
        self._numbers.put(int(notification.events[0].rpartition(":")[2]))

    def take(self, count: int) -> list[int]:
        return [self._numbers.get(timeout=PATIENCE) for _ in range(count)]


@pytest.mark.parametrize("threaded", [False, True])
def test_a_cloud_receives_what_other_processes_append(tmp_path: Path, threaded: bool) -> None:
    """A cloud with listeners receives what any process appends to the lake, in the order of the log."""
    received = Received()
    reader, writer = os.pipe()
    child = os.fork()  # before there are other threads
    if child == 0:
        try:
            os.read(reader, 1)
            with motet.open(tmp_path) as other:
                for number in range(5):
                    other.publish(reading(number))
        finally:
            os._exit(0)
    with motet.open(tmp_path, threaded=threaded) as cloud:
        cloud.subscribe(HOT, received)
        os.write(writer, b"1")
        assert received.take(5) == [0, 1, 2, 3, 4]
    os.waitpid(child, 0)


def test_within_a_second(tmp_path: Path) -> None:
    """A record of another process is delivered within a second; here with its own commit included."""
    received = Received()
    with motet.open(tmp_path) as cloud, motet.open(tmp_path) as other:
        cloud.subscribe(HOT, received)
        seconds = []
        for number in range(5):
            begin = time.monotonic()
            other.publish(reading(number))
            received.take(1)
            seconds.append(time.monotonic() - begin)
    assert min(seconds) < 1


def test_a_cloud_without_listeners_has_no_thread(tmp_path: Path) -> None:
    """There is a thread from the first listener to the last, and none after closing."""
    before = threading.enumerate()
    with motet.open(tmp_path) as cloud:
        assert started_since(before) == []
        cloud.subscribe(HOT, print)
        assert "motet-follow" in started_since(before)
        cloud.disconnect("hot")
        wait_until(lambda: "motet-follow" not in started_since(before))
        cloud.subscribe(HOT, print)
    assert "motet-follow" not in started_since(before)


def test_the_thread_that_writes_the_table_ends_when_idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cloud that only publishes has no thread when it is idle."""
    monkeypatch.setattr("motet.embedded.worker.IDLE_SECONDS", 0.0)
    monkeypatch.setattr(delivery_loop, "PERSIST_SECONDS", 0.0)
    before = threading.enumerate()
    with motet.open(tmp_path) as cloud:
        for number in (1, 2):
            cloud.publish(reading(number))
            wait_until(lambda: started_since(before) == [])
        assert cloud.statistics()["stored_to"] == 3


def test_a_closed_cloud_receives_nothing(tmp_path: Path) -> None:
    """Closing ends the thread; nobody can listen to a closed cloud."""
    received: list[Notification] = []
    cloud = motet.open(tmp_path)
    cloud.subscribe(HOT, received.append)
    cloud.close()
    with motet.open(tmp_path) as other:
        other.publish(reading(1))
        cloud._loop.follow()
    assert received == []
    with pytest.raises(motet.UsageError, match="the cloud is closed"):
        cloud.subscribe(HOT, received.append)


def test_listeners_may_publish_while_several_clouds_publish(tmp_path: Path) -> None:
    """Two clouds whose listeners answer each other and threads that publish meanwhile do not block."""
    pings, pongs = Received(), Received()
    with motet.open(tmp_path, durable=False) as one, motet.open(tmp_path, durable=False) as two:

        def answer(notification: Notification) -> None:
            number = int(notification.events[0].rpartition(":")[2])
            two.publish(builders.reading(number + 1000, 20))
            pings(notification)

        one.subscribe("SUBSCRIPTION pong EVENT e { ?e <urn:celsius> ?c FILTER(?c < 30) } WHEN e", pongs)
        two.subscribe(HOT, answer)
        publishers = [
            threading.Thread(target=lambda first=first: [one.publish(reading(first + n)) for n in range(20)])
            for first in (0, 100)
        ]
        for publisher in publishers:
            publisher.start()
        numbers = sorted([*range(20), *range(100, 120)])
        assert sorted(pings.take(40)) == numbers
        assert sorted(pongs.take(40)) == [number + 1000 for number in numbers]
        for publisher in publishers:
            publisher.join(PATIENCE)


def test_the_pipeline_follows(tmp_path: Path) -> None:
    """With the pipeline as its backend a cloud follows, too: it lets the pipeline compute what others append."""
    received = Received()
    lake = Lake.open(tmp_path)

    def process_available() -> None:
        snapshot, backend = lake.snapshot(), InProcessBackend(lake)
        first, stop = snapshot.notifications_end, snapshot.next_offset
        backend.restore(snapshot, first)
        found = backend.advance(snapshot, stop, None)
        lake.commit_notifications(delivery_loop._to_table(found, first, stop), first, stop)

    with Cloud(lake, process_available, threaded=True) as cloud, motet.open(tmp_path) as other:
        cloud.subscribe(HOT, received)
        other.publish(reading(1))
        assert received.take(1) == [1]


def test_a_subscription_that_another_process_ends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its listeners are told so in the log of the program, and receive nothing of a new one with its name."""
    received, new = Received(), Received()
    with motet.open(tmp_path) as cloud, motet.open(tmp_path) as other:
        cloud.subscribe(HOT, received)
        other.unsubscribe("hot")
        cloud.flush()
        assert "subscription 'hot' was ended elsewhere" in caplog.text
        cloud.subscribe(HOT.replace("30", "20"), new)
        cloud.publish(reading(1))
        assert new.take(1) == [1]
    assert received._numbers.empty()


def test_a_failure_is_logged_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A listening process survives an error of the disk."""
    received = Received()
    with motet.open(tmp_path) as cloud, motet.open(tmp_path) as other:
        cloud.subscribe(HOT, received)
        follow, failed = cloud._loop.follow, threading.Event()

        def fail() -> None:
            failed.set()
            cloud._loop.follower._task = follow
            raise LakeError("the disk is gone")

        monkeypatch.setattr(cloud._loop.follower, "_task", fail)
        assert failed.wait(PATIENCE)
        other.publish(reading(1))
        assert received.take(1) == [1]
    assert "the disk is gone" in caplog.text


def test_a_poller_waits_longer_after_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    """The seconds double, up to a limit, and are as before after a success."""
    waits: list[float] = []
    outcomes = iter([False, False, True, True])

    def task() -> None:
        if not next(outcomes):
            raise LakeError("no")

    class Waits(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout or 0)
            return len(waits) > 4

    Poller(task, 20)._run(Waits())
    assert waits == [20, 30, 30, 20, 20]


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
