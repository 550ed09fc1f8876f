"""A cloud killed at any moment goes on as if nothing had happened."""

import os
import random
import signal
import time
from pathlib import Path

import pytest
from tests.builders import reading

import motet
from motet.lake import Lake
from motet.model.batches import notification_rows
from motet.model.notifications import Notification

HOT = "SUBSCRIPTION hot EVENT e { ?e <urn:celsius> ?c FILTER(?c > 30) } WHEN e SELECT ?c"
EVENTS = 60
KILLS = int(os.environ.get("MOTET_CLOUD_KILLS", "25"))


def work(lake: Path, received: Path) -> None:
    """Subscribe, publish everything from the start, write down what the listener hears."""
    with received.open("a") as file, motet.open(lake) as cloud:

        def listen(notification: Notification) -> None:
            file.write(f"{notification.to_line()}\n")
            file.flush()

        cloud.subscribe(HOT, listen)
        for number in range(EVENTS):
            cloud.publish(reading(number, 20 + number % 20, f"2026-11-15T10:{number:02}:00Z"))


def killed_somewhere(lake: Path, received: Path, rng: random.Random) -> bool:
    """Run the work in a process and kill it; True when it had finished before."""
    child = os.fork()
    if child == 0:
        work(lake, received)
        os._exit(0)
    time.sleep(rng.uniform(0.01, 0.25))  # the moment of the kill is the point of this test
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # the child only works
def test_a_killed_cloud_loses_and_repeats_nothing(tmp_path: Path) -> None:
    """After any number of kills the table and the listener have exactly the notifications of a run without crashes."""
    rng = random.Random(5)
    expected = tmp_path / "expected"
    work(tmp_path / "calm", expected)
    lake, received = tmp_path / "lake", tmp_path / "received"
    for _ in range(KILLS):
        if killed_somewhere(lake, received, rng):
            break
    work(lake, received)
    lines = expected.read_text().splitlines()
    table = [str(found) for batch in Lake.open(lake).notifications() for found, _ in notification_rows(batch)]
    assert table == lines, "each once, in log order"
    whole = [line for line in received.read_text().splitlines() if line.endswith("}")]
    assert set(whole) == set(lines), "each at least once; a repetition has the same id"
    assert Lake.open(lake).check() == []


class Listening:
    """A process that follows a lake and writes down what its listener hears; forked before there are other threads."""

    def __init__(self, lake: Path, received: Path) -> None:
        reader, self._writer = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            try:
                os.read(reader, 1)
                listen(lake, received)
            finally:
                os._exit(1)
        os.close(reader)

    def start(self) -> None:
        os.write(self._writer, b"1")

    def kill(self) -> None:
        os.kill(self._child, signal.SIGKILL)
        os.waitpid(self._child, 0)
        os.close(self._writer)


def listen(lake: Path, received: Path) -> None:
    with received.open("a") as file:

        def write(notification: Notification) -> None:
            file.write(f"{notification.to_line()}\n")
            file.flush()

        motet.open(lake).subscribe(HOT, write, consumer="elsewhere")
        signal.pause()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # the child only listens
def test_a_killed_listener_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that follow another one are killed one after the other; their consumer receives everything."""
    monkeypatch.setattr("motet.embedded.delivery_loop.PERSIST_SECONDS", 0.01)
    rng, each = random.Random(7), EVENTS // 6
    lake, received = tmp_path / "lake", tmp_path / "received"
    received.touch()
    listening = [Listening(lake, received) for _ in range(6)]
    with motet.open(lake) as cloud:
        cloud.subscribe(HOT, lambda _: None)
        for turn, process in enumerate(listening):
            process.start()
            for number in range(turn * each, (turn + 1) * each):
                cloud.publish(reading(number, 31 + number, f"2026-11-15T10:{number:02}:00Z"))
                time.sleep(rng.uniform(0, 0.05))  # the moment of the kill is the point of this test
            if process is listening[-1]:
                wait_for_lines(received, EVENTS)
            process.kill()
    table = [str(found) for batch in Lake.open(lake).notifications() for found, _ in notification_rows(batch)]
    whole = [line for line in received.read_text().splitlines() if line.endswith("}")]
    assert len(table) == EVENTS
    assert set(whole) == set(table)


def wait_for_lines(received: Path, count: int) -> None:
    deadline = time.monotonic() + 30
    while len(set(received.read_text().splitlines())) < count:
        assert time.monotonic() < deadline, "the last listener receives the rest"
        time.sleep(0.02)
