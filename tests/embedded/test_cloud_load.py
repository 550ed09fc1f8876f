"""The live cloud under load: batches, back-pressure, and writing the table after delivery."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests import builders

import motet
from motet.embedded import delivery_loop
from motet.embedded.cloud import Cloud
from motet.lake import Lake
from motet.model.batches import notification_rows
from motet.model.errors import LakeError, UsageError
from motet.model.notifications import Notification

ALL = "SUBSCRIPTION all EVENT e WHEN e"
HOT = "SUBSCRIPTION hot EVENT e { ?e <urn:celsius> ?c FILTER(?c > 30) } WHEN e SELECT ?c"


def reading(number: int, celsius: int = 35) -> str:
    return builders.reading(number, celsius)


def table(lake: Lake) -> list[Notification]:
    return [found for batch in lake.notifications() for found, _ in notification_rows(batch)]


def stop_as_in_a_crash(cloud: Cloud) -> None:
    """The process ends without writing anything; the operating system releases its consumers."""
    cloud._loop.follower.stop(wait=True)
    cloud.lake.consumers.release_all()


@pytest.fixture
def without_persister(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table is written only by flush and close."""
    monkeypatch.setattr(delivery_loop, "PERSIST_SECONDS", 3600.0)


@pytest.mark.usefixtures("without_persister")
def test_flush_and_close_write_the_table(tmp_path: Path) -> None:
    """Notifications are delivered first; flush and close write the table and the cursors."""
    received: list[Notification] = []
    cloud = motet.open(tmp_path)
    cloud.subscribe(HOT, received.append)
    cloud.publish(reading(1))
    reader = Lake.open(tmp_path)
    assert (len(received), table(reader), reader.cursor("hot")) == (1, [], 0)
    cloud.flush()
    assert (table(reader), reader.cursor("hot")) == (received, 3)
    cloud.publish(reading(2))
    assert cloud.statistics()["stored_to"] == 3
    cloud.close()
    cloud.close()
    assert (table(reader), reader.cursor("hot"), len(received)) == (received, 4, 2)


def test_the_table_is_written_after_a_delay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delivered notifications are in the table shortly after the last event."""
    monkeypatch.setattr(delivery_loop, "PERSIST_SECONDS", 0.0)
    settled = threading.Event()
    commit = Lake.commit_notification_files

    def noticed(lake: Lake, *arguments: object) -> bool:
        done = commit(lake, *arguments)  # type: ignore[arg-type]
        settled.set()
        return done

    monkeypatch.setattr(Lake, "commit_notification_files", noticed)
    with motet.open(tmp_path) as cloud:
        cloud.subscribe(ALL, lambda _: None)
        cloud.publish(reading(1))
        assert settled.wait(30)


def test_the_table_is_written_after_a_number_of_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of notifications in memory is bounded."""
    monkeypatch.setattr(delivery_loop, "PERSIST_SECONDS", 3600.0)
    monkeypatch.setattr(delivery_loop, "PERSIST_RECORDS", 3)
    with motet.open(tmp_path) as cloud:
        cloud.subscribe(ALL, lambda _: None)
        for number in range(4):
            cloud.publish(reading(number))
        assert (len(table(cloud.lake)), cloud.statistics()["stored_to"]) == (4, 6)


@pytest.mark.usefixtures("without_persister")
def test_notifications_lost_in_a_crash_are_computed_again(tmp_path: Path) -> None:
    """After a cloud that was not closed the next one delivers the same notifications, with the same ids."""
    first: list[Notification] = []
    second: list[Notification] = []
    crashed = motet.open(tmp_path)
    crashed.subscribe(HOT, first.append)
    for number in range(3):
        crashed.publish(reading(number))
    stop_as_in_a_crash(crashed)
    with motet.open(tmp_path) as cloud:
        cloud.subscribe(HOT, second.append)
        cloud.publish(reading(3))
    assert second[:3] == first
    assert table(Lake.open(tmp_path)) == second


@pytest.mark.usefixtures("without_persister")
def test_two_clouds_on_one_lake(tmp_path: Path) -> None:
    """Each delivers all notifications to its own listeners; together they write each notification once."""
    received: dict[str, list[Notification]] = {"a": [], "b": []}
    names = {"a": HOT.replace("hot", "a", 1), "b": HOT.replace("hot", "b", 1)}
    with motet.open(tmp_path) as first, motet.open(tmp_path) as second:
        first.subscribe(names["a"], received["a"].append)
        second.subscribe(names["b"], received["b"].append)
        for number in range(4):
            (first, second)[number % 2].publish(reading(number))
        first.flush()
        second.publish(reading(4))
        second.flush()
        first.flush()
    everything = [("a", n) for n in range(5)] + [("b", n) for n in range(5)]
    delivered = [(name, int(found.events[0].rpartition(":")[2])) for name in received for found in received[name]]
    assert sorted(delivered) == everything
    assert len(table(Lake.open(tmp_path))) == 10


def test_concurrent_publishers_are_delivered_in_log_order(tmp_path: Path) -> None:
    """Events that threads publish concurrently are delivered in log order, each once."""
    received: list[Notification] = []
    with motet.open(tmp_path, durable=False, threaded=True) as cloud:
        cloud.subscribe(ALL, received.append)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda number: cloud.publish(reading(number)), range(60)))
        cloud.flush()
        assert cloud.statistics() == {
            "published": 60, "stamped": 60, "late": 0, "repeated": 0, "dropped": 0, "derived": 0,
            "processed_to": 62, "stored_to": 62, "backlog": 0, "delivered": 60, "failures": {},
            "dead_letters": 0,
        }  # fmt: skip
    log = [row["id"] for batch in Lake.open(tmp_path).snapshot().records(2) for row in batch.to_pylist()]
    assert [found.events[0] for found in received] == log


def test_publish_waits_when_the_backlog_is_full(tmp_path: Path) -> None:
    """The backlog stays within its limit; a listener that publishes does not block itself."""
    behind: list[int] = []
    may_go = threading.Event()

    with Cloud(Lake.open(tmp_path, durable=False), threaded=True, backlog=3) as cloud:

        def listen(found: Notification) -> None:
            assert may_go.wait(30)
            behind.append(int(str(cloud.statistics()["backlog"])))
            if found.events == ("urn:e:0",):
                cloud.publish(reading(100) + reading(101) + reading(102) + reading(103))

        cloud.subscribe(ALL, listen)
        cloud.flush()
        publisher = threading.Thread(target=lambda: [cloud.publish(reading(number)) for number in range(30)])
        publisher.start()
        publisher.join(0.05)
        assert publisher.is_alive(), "it waits"
        may_go.set()
        publisher.join(30)
        assert not publisher.is_alive()
    assert len(behind) == 34
    assert max(behind) <= 3 + 4


def test_an_empty_backlog_is_refused(tmp_path: Path) -> None:
    """With no backlog nothing could be published."""
    with pytest.raises(UsageError, match="backlog"):
        Cloud(Lake.open(tmp_path), backlog=0)


@pytest.mark.usefixtures("without_persister")
def test_a_failed_step_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in the backend loses no notification."""
    received: list[Notification] = []
    with motet.open(tmp_path) as cloud:
        cloud.subscribe(HOT, received.append)
        cloud.publish(reading(1))

        def fail(*arguments: object) -> list[object]:
            cloud._loop.backend.restore(cloud.lake.snapshot(), 3)
            raise LakeError("gone")

        with monkeypatch.context() as patch:
            patch.setattr(cloud._loop.backend, "advance", fail)
            with pytest.raises(LakeError):
                cloud.publish(reading(2))
        cloud.publish(reading(3))
    assert [found.events for found in received] == [("urn:e:1",), ("urn:e:2",), ("urn:e:3",)]
    assert table(Lake.open(tmp_path)) == received


@pytest.mark.parametrize("threaded", [False, True])
def test_a_listener_may_close_the_cloud(tmp_path: Path, threaded: bool) -> None:
    """Only the notifications of the current step are delivered, and there is no deadlock."""
    received: list[Notification] = []
    cloud = motet.open(tmp_path, threaded=threaded)

    def listen(found: Notification) -> None:
        received.append(found)
        cloud.close()

    cloud.subscribe(ALL, listen)
    cloud.publish(reading(1))
    cloud.close()
    assert [found.events for found in received] == [("urn:e:1",)]
