"""Consumers: whose cursor a listener moves, and who may have a name (language page, section 14, Following)."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import builders

import motet
from motet.embedded import dispatcher
from motet.lake import Lake
from motet.model.errors import LakeError, UsageError
from motet.model.notifications import Notification

ALL = "SUBSCRIPTION all EVENT e WHEN e"
HOT = "SUBSCRIPTION hot EVENT e { ?e <urn:celsius> ?c FILTER(?c > 30) } WHEN e SELECT ?c"

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def reading(number: int) -> str:
    return builders.reading(number, 35)


class Received(list[int]):
    """The numbers of the events whose notifications were received."""

    def __call__(self, notification: Notification) -> None:
        self.append(int(notification.events[0].rpartition(":")[2]))


def test_two_consumers_of_one_subscription_each_receive_everything(tmp_path: Path) -> None:
    """Two consumers of one subscription each receive everything, also what came while they were away."""
    one, two, again = Received(), Received(), Received()
    with motet.open(tmp_path) as cloud:
        cloud.subscribe(HOT, one, consumer="one")
        cloud.publish(reading(1))
        cloud.subscribe(HOT, two, consumer="two")
        cloud.publish(reading(2))
    with motet.open(tmp_path) as cloud:
        cloud.publish(reading(3))
        cloud.subscribe(HOT, again, consumer="two")
        cloud.publish(reading(4))
        late = Received()
        cloud.subscribe(HOT, late, consumer="three")
    assert (one, two, again, late) == ([1, 2], [1, 2], [3, 4], [1, 2, 3, 4])


def test_the_default_consumer_has_the_name_of_the_subscription(tmp_path: Path) -> None:
    """A cursor that an earlier version stored under the subscription's name counts."""
    first, second = Received(), Received()
    with motet.open(tmp_path) as cloud:
        cloud.subscribe(HOT, first)
        for number in range(3):
            cloud.publish(reading(number))
    assert Lake.open(tmp_path).cursor("hot") == 5
    for path in (tmp_path / "consumers").iterdir():
        path.unlink()
    Lake.open(tmp_path).advance_cursor("hot", 4)
    with motet.open(tmp_path) as cloud:
        cloud.subscribe(HOT, second, consumer="hot")
    assert (first, second) == ([0, 1, 2], [2])


def test_a_consumer_has_a_cursor_in_each_subscription(tmp_path: Path) -> None:
    """A consumer that takes another subscription receives all of it."""
    hot, every = Received(), Received()
    with motet.open(tmp_path) as cloud:
        cloud.subscribe(HOT, hot, consumer="dashboard")
        cloud.subscribe(ALL, Received())
        cloud.publish(reading(1))
    with motet.open(tmp_path) as cloud:
        cloud.subscribe(HOT, hot, consumer="dashboard")
        cloud.subscribe(ALL, every, consumer="dashboard")
    assert (hot, every) == ([1], [1])


def test_the_listeners_of_one_consumer_each_receive_everything(tmp_path: Path) -> None:
    """The listeners of one consumer in one process each receive everything, also what it missed; each once."""
    one, two, three = Received(), Received(), Received()
    with motet.open(tmp_path) as cloud:
        cloud.subscribe(HOT, one)
    with motet.open(tmp_path) as cloud:
        cloud.publish(reading(1))
        cloud.subscribe(HOT, two)
        cloud.flush()
        cloud.subscribe(HOT, three)
        cloud.subscribe(HOT, two)
        cloud.publish(reading(2))
    assert (one, two, three) == ([], [1, 2], [1, 2])


def test_the_slowest_listener_sets_the_cursor(tmp_path: Path) -> None:
    """A listener that has not received what another one has is served again after a crash."""
    cloud = motet.open(tmp_path)
    cloud.subscribe(HOT, Received())
    cloud.publish(reading(1))
    cloud.publish(reading(2))
    cloud.flush()
    cursors = [cloud.lake.cursor("hot")]

    def slow(notification: Notification) -> None:
        cloud.flush()
        cursors.append(cloud.lake.cursor("hot"))

    cloud.subscribe(HOT, slow)
    cloud.close()
    assert (cursors, cloud.lake.cursor("hot")) == ([4, 2, 3], 4)


def test_a_consumer_can_be_disconnected(tmp_path: Path) -> None:
    """Its listeners receive nothing more; later ones receive what it missed."""
    first, second, other = Received(), Received(), Received()
    with motet.open(tmp_path) as cloud:
        cloud.subscribe(HOT, first)
        cloud.subscribe(HOT, other, consumer="other")
        cloud.publish(reading(1))
        cloud.disconnect("hot")
        cloud.publish(reading(2))
        with motet.open(tmp_path) as elsewhere:
            elsewhere.subscribe(HOT, second)
        with pytest.raises(UsageError, match="consumer 'hot' has no listener of subscription 'hot' here"):
            cloud.disconnect("hot")
    assert (first, second, other) == ([1], [2], [1, 2])


def test_a_second_process_is_told_who_has_the_consumer(tmp_path: Path) -> None:
    """A second process that takes the name is told who has it; nothing is registered then."""
    with in_child(lambda: motet.open(tmp_path).subscribe(HOT, print)) as child, motet.open(tmp_path) as cloud:
        before = cloud.lake.snapshot().next_offset
        with pytest.raises(UsageError, match=f"'hot' is in use by process {child.pid} on {socket.gethostname()}"):
            cloud.subscribe(f"{ALL} {HOT}", Received())
        assert cloud.lake.snapshot().next_offset == before
        cloud.subscribe(ALL, Received())
        child.kill()
        cloud.subscribe(HOT, Received())
        with motet.open(tmp_path) as other, pytest.raises(UsageError, match="in use by another cloud of this process"):
            other.subscribe(HOT, Received())
    with motet.open(tmp_path) as cloud:
        cloud.subscribe(f"{ALL} {HOT}", Received())
    assert [path.name for path in (tmp_path / "consumers").iterdir() if path.name.startswith("@")] == []


def test_a_failed_subscribe_gives_the_consumer_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process can have it."""

    def fail(*_: object, **__: object) -> int:
        raise LakeError("full")

    with motet.open(tmp_path) as cloud, motet.open(tmp_path) as other:
        with monkeypatch.context() as patch, pytest.raises(LakeError, match="full"):
            patch.setattr(Lake, "subscribe_all", fail)
            cloud.subscribe(HOT, Received())
        other.subscribe(HOT, Received())


def test_a_subscription_is_registered_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes that subscribe at the same moment register one subscription, and each has its listener."""
    one, two = Received(), Received()
    with motet.open(tmp_path) as cloud, motet.open(tmp_path) as other:
        active = cloud._registrations.active

        def slow() -> object:
            found = active()
            monkeypatch.undo()
            other.subscribe(HOT, two, consumer="two")
            return found

        monkeypatch.setattr(cloud._registrations, "active", slow)
        cloud.subscribe(HOT, one, consumer="one")
        cloud.publish(reading(1))
        other.flush()
    assert (one, two) == ([1], [1])
    kinds = Lake.open(tmp_path).statistics()["kinds"]
    assert kinds == {"event": 1, "settings": 1, "subscribe": 1}


@pytest.mark.parametrize("name", ["", "a\tb", "x" * 201])
def test_what_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    with motet.open(tmp_path) as cloud, pytest.raises(UsageError, match="is no name for a consumer"):
        cloud.subscribe(HOT, Received(), consumer=name)


def test_a_killed_listener_misses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next process of the consumer receives the rest, at least once, wherever the first one was killed."""
    monkeypatch.setattr(dispatcher, "CURSOR_SECONDS", 0.0)
    lake, heard = tmp_path / "lake", tmp_path / "heard"

    def listen(notification: Notification) -> None:
        with heard.open("a") as file:
            file.write(f"{notification.events[0]}\n")
        if len(heard.read_text().splitlines()) % 7 == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    with motet.open(lake) as cloud:
        cloud.subscribe(HOT, Received(), consumer="other")
        cloud.publish("".join(map(reading, range(20))))
        for number in range(20, 30):
            cloud.publish(reading(number))
    heard.write_text("")
    for _ in range(100):
        before = len(heard.read_text())
        with in_child(lambda: motet.open(lake).subscribe(HOT, listen)) as child:
            if child.ended_well:
                break
        assert len(heard.read_text()) > before, "every process gets farther or is finished"
    assert set(heard.read_text().split()) == {f"urn:e:{number}" for number in range(30)}


class in_child:  # noqa: N801  (a context manager, used like a function)
    """A forked process that runs a function, says so, and waits to be killed."""

    def __init__(self, action: Callable[[], object]) -> None:
        reader, writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                action()
                os.write(writer, b"1")
                signal.pause()
            finally:
                os._exit(1)
        os.close(writer)
        self.ended_well = os.read(reader, 1) == b"1"
        os.close(reader)
        self._is_alive = True

    def kill(self) -> None:
        if self._is_alive:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        self._is_alive = False

    def __enter__(self) -> in_child:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
