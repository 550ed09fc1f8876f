"""The live cloud under load: batches, back-pressure, what is written behind the delivery."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests import builders

import motet
from motet.embedded import cloud as clouds
from motet.embedded.backend import InProcessBackend, RecentRecords
from motet.embedded.cloud import Cloud
from motet.embedded.group_commit import GroupCommitter
from motet.embedded.worker import Worker
from motet.lake import CommitResult, Lake
from motet.model.batches import notification_rows
from motet.model.errors import LakeError, UsageError
from motet.model.notifications import Notification

ALL = "SUBSCRIPTION all EVENT e WHEN e"
HOT = "SUBSCRIPTION hot EVENT e { ?e <urn:celsius> ?c FILTER(?c > 30) } WHEN e SELECT ?c"


def reading(number: int, celsius: int = 35) -> str:
    return builders.reading(number, celsius)


def table(lake: Lake) -> list[Notification]:
    return [found for batch in lake.notifications() for found, _ in notification_rows(batch)]


@pytest.fixture
def unsettled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written behind the delivery unless somebody asks for it."""
    monkeypatch.setattr(clouds, "PERSIST_SECONDS", 3600.0)


@pytest.mark.usefixtures("unsettled")
def test_the_table_follows_at_flush_and_close(tmp_path: Path) -> None:
    """Delivery comes first; flushing and closing bring the table and the cursors up to it."""
    heard: list[Notification] = []
    cloud = motet.open(tmp_path)
    cloud.subscribe(HOT, heard.append)
    cloud.publish(reading(1))
    reader = Lake.open(tmp_path)
    assert (len(heard), table(reader), reader.cursor("hot")) == (1, [], 0)
    cloud.flush()
    assert (table(reader), reader.cursor("hot")) == (heard, 2)
    cloud.publish(reading(2))
    assert cloud.statistics()["settled"] == 2
    cloud.close()
    cloud.close()
    assert (table(reader), reader.cursor("hot"), len(heard)) == (heard, 3, 2)


def test_the_table_follows_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A moment after the last event, and after a number of records, what was delivered is in the table."""
    monkeypatch.setattr(clouds, "PERSIST_SECONDS", 0.0)
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


def test_after_so_many_records_the_table_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of notifications kept in memory is bounded."""
    monkeypatch.setattr(clouds, "PERSIST_SECONDS", 3600.0)
    monkeypatch.setattr(clouds, "PERSIST_RECORDS", 3)
    with motet.open(tmp_path) as cloud:
        cloud.subscribe(ALL, lambda _: None)
        for number in range(5):
            cloud.publish(reading(number))
        assert (len(table(cloud.lake)), cloud.statistics()["settled"]) == (5, 6)


@pytest.mark.usefixtures("unsettled")
def test_what_a_crash_kept_from_being_written_is_derived_again(tmp_path: Path) -> None:
    """A cloud that ends without closing leaves no gap: the next one tells the same notifications, with the same ids."""
    first: list[Notification] = []
    second: list[Notification] = []
    crashed = motet.open(tmp_path)
    crashed.subscribe(HOT, first.append)
    for number in range(3):
        crashed.publish(reading(number))
    with motet.open(tmp_path) as cloud:
        cloud.subscribe(HOT, second.append)
        cloud.publish(reading(3))
    assert second[:3] == first
    assert table(Lake.open(tmp_path)) == second


@pytest.mark.usefixtures("unsettled")
def test_two_clouds_on_one_lake(tmp_path: Path) -> None:
    """Each tells its own listeners everything; together they write each notification once."""
    heard: dict[str, list[Notification]] = {"a": [], "b": []}
    names = {"a": HOT.replace("hot", "a", 1), "b": HOT.replace("hot", "b", 1)}
    with motet.open(tmp_path) as one, motet.open(tmp_path) as other:
        one.subscribe(names["a"], heard["a"].append)
        other.subscribe(names["b"], heard["b"].append)
        for number in range(4):
            (one, other)[number % 2].publish(reading(number))
        one.flush()
        other.publish(reading(4))
        other.flush()
        one.flush()
    everything = [("a", n) for n in range(5)] + [("b", n) for n in range(5)]
    told = [(name, int(found.events[0].rpartition(":")[2])) for name in heard for found in heard[name]]
    assert sorted(told) == everything
    assert len(table(Lake.open(tmp_path))) == 10


def test_a_slow_disk_is_shared(tmp_path: Path) -> None:
    """Requests that arrive while a commit is under way are committed together, each with a receipt of its own."""
    lake = Lake.open(tmp_path)
    groups: list[int] = []
    started, may_go = threading.Event(), threading.Event()

    class Slow(Lake):
        def append_group(self, offers: object) -> CommitResult:
            groups.append(len(offers))  # type: ignore[arg-type]
            if len(groups) == 1:
                started.set()
                assert may_go.wait(30)
            return super().append_group(offers)  # type: ignore[arg-type]

    slow = Slow(lake.store, lake.lateness)
    intake = GroupCommitter(slow, lambda _: None)
    cloud = Cloud(slow)
    cloud._committer = intake
    with ThreadPoolExecutor(6) as pool:
        first = pool.submit(cloud.publish, reading(0))
        assert started.wait(30)
        waiting = [pool.submit(cloud.publish, reading(number) + reading(0)) for number in (1, 2, 2, 3)]
        while len(intake._queue) < len(waiting):
            threading.Event().wait(0.001)
        may_go.set()
        receipts = [first.result(), *(one.result() for one in waiting)]
    cloud.close()
    assert groups == [1, 4]
    assert sum(receipt.accepted for receipt in receipts) == 4
    assert [receipt.duplicates for receipt in receipts[1:]].count(1) == 3
    assert lake.check() == []


def test_many_publishers_one_order(tmp_path: Path) -> None:
    """Threads that publish at once are all heard, in the order of the log, each event once."""
    heard: list[Notification] = []
    with motet.open(tmp_path, durable=False, threaded=True) as cloud:
        cloud.subscribe(ALL, heard.append)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda number: cloud.publish(reading(number)), range(60)))
        cloud.flush()
        assert cloud.statistics() == {
            "published": 60, "derived": 61, "settled": 61, "backlog": 0, "delivered": 60, "failures": {}
        }  # fmt: skip
    log = [row["id"] for batch in Lake.open(tmp_path).snapshot().records(1) for row in batch.to_pylist()]
    assert [found.events[0] for found in heard] == log


def test_publish_waits_when_the_worker_is_too_far_behind(tmp_path: Path) -> None:
    """The backlog never grows beyond its limit; a listener that publishes does not wait for itself."""
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


def test_a_backlog_of_nothing_is_refused(tmp_path: Path) -> None:
    """It would never let anything in."""
    with pytest.raises(UsageError, match="backlog"):
        Cloud(Lake.open(tmp_path), backlog=0)


def test_failures_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Statistics say how often whose listener failed."""

    def fail(found: Notification) -> None:
        raise RuntimeError("no")

    with motet.open(tmp_path) as cloud, caplog.at_level(logging.CRITICAL):
        cloud.subscribe(HOT, fail)
        cloud.subscribe(ALL, lambda _: None)
        cloud.publish(reading(1) + reading(2, 10) + reading(3))
        assert cloud.statistics() == {
            "published": 3, "derived": 5, "settled": 0, "backlog": 0, "delivered": 3, "failures": {"hot": 2}
        } | {"settled": cloud.statistics()["settled"]}  # fmt: skip


def test_a_listener_that_subscribes_again_while_others_are_told(tmp_path: Path) -> None:
    """What it missed comes from the table, then it hears the rest, in order."""
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


@pytest.mark.usefixtures("unsettled")
def test_a_failed_derivation_is_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error on the way to the notifications loses none of them."""
    heard: list[Notification] = []
    with motet.open(tmp_path) as cloud:
        cloud.subscribe(HOT, heard.append)
        cloud.publish(reading(1))

        def fail(*arguments: object) -> list[object]:
            cloud._backend.restore(cloud.lake.snapshot(), 3)
            raise LakeError("gone")

        with monkeypatch.context() as patch:
            patch.setattr(cloud._backend, "advance", fail)
            with pytest.raises(LakeError):
                cloud.publish(reading(2))
        cloud.publish(reading(3))
    assert [found.events for found in heard] == [("urn:e:1",), ("urn:e:2",), ("urn:e:3",)]
    assert table(Lake.open(tmp_path)) == heard


def test_derived_elsewhere(tmp_path: Path) -> None:
    """A function that derives and commits by itself is asked for each range once; delivery reads what it wrote."""
    asked: list[tuple[int, int]] = []
    heard: list[Notification] = []
    lake = Lake.open(tmp_path)

    def derive() -> None:
        snapshot, here = lake.snapshot(), InProcessBackend(lake)
        first, stop = snapshot.notifications_end, snapshot.next_offset
        asked.append((first, stop))
        here.restore(snapshot, first)
        found = here.advance(lake, snapshot, stop, RecentRecords())
        lake.commit_notifications(clouds._to_table(found, first, stop), first, stop)

    with Cloud(lake, derive) as cloud:
        cloud.subscribe(HOT, heard.append)
        cloud.publish(reading(1))
        cloud.publish(reading(2))
    assert (asked, [found.events for found in heard]) == ([(0, 1), (1, 2), (2, 3)], [("urn:e:1",), ("urn:e:2",)])
    assert Lake.open(tmp_path).cursor("hot") == 3


@pytest.mark.parametrize("threaded", [False, True])
def test_a_listener_may_close_the_cloud(tmp_path: Path, threaded: bool) -> None:
    """It is told no more than what was derived together; nobody waits for anybody for ever."""
    heard: list[Notification] = []
    cloud = motet.open(tmp_path, threaded=threaded)

    def listen(found: Notification) -> None:
        heard.append(found)
        cloud.close()

    cloud.subscribe(ALL, listen)
    cloud.publish(reading(1))
    cloud.close()
    assert [found.events for found in heard] == [("urn:e:1",)]


def test_a_delayed_worker_hurries_when_flushed() -> None:
    """Nobody waits for the delay who waits for the work; several wakes are one call."""
    calls: list[int] = []
    worker = Worker(lambda: calls.append(1), delay=3600)
    worker.wake()
    worker.wake()
    worker.flush()
    worker.wake()
    worker.close()
    assert calls == [1, 1]


def _failing(error: BaseException) -> Callable[[], None]:
    def work() -> None:
        raise error

    return work


def test_the_worker_hands_its_failure_on() -> None:
    """Whoever waits for it gets it."""
    worker = Worker(_failing(LakeError("gone")))
    worker.wake()
    with pytest.raises(LakeError, match="gone"):
        worker.flush()
    with pytest.raises(LakeError, match="gone"):
        worker.close()
