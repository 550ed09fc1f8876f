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
