"""`motet stream` and the live cloud on Spark: notifications, stopping and refused requests."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from threading import Event

import pytest
from pyspark.sql import SparkSession
from tests import builders
from tests.spark import doors

from motet.cli import stream
from motet.cli.main import main
from motet.embedded.cloud import Cloud, PendingNotifications
from motet.jobs.stream_progress import BatchProgress, LakeStatus
from motet.lake import Lake
from motet.model.batches import notification_rows
from motet.model.notifications import Notification
from motet.model.times import END_OF_TIME, to_datetime
from motet.spark.stream.checkpoint import hold_checkpoint
from motet.spark.stream.job import PipelineJob, SparkCloud


class StopAfterBatch:
    """Sends SIGTERM to the process when a batch has ended."""

    def add_batch(self, batch: BatchProgress, lakes: list[LakeStatus]) -> None:
        signal.raise_signal(signal.SIGTERM)

    def set_lake_status(self, lakes: list[LakeStatus]) -> None:
        pass


@contextmanager
def _stop_after_batch(*, as_json: bool) -> Iterator[StopAfterBatch]:
    yield StopAfterBatch()


def test_a_pipeline_stops_continues_and_refuses_damaged_state(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """SIGTERM ends it with status 0; the next start processes the rest; a damaged state is refused with advice."""
    lake = Lake.open(tmp_path / "lake", durable=False)
    doors.fill(lake)
    call = ["stream", "--lake", str(lake.store.root), "--json", "--max-records", "40"]

    with monkeypatch.context() as patched:
        patched.setattr(stream, "progress_view", _stop_after_batch)
        assert main([*call, "--buckets", "4"]) == 0
    assert lake.snapshot().notifications_end >= 40

    assert main([*call, "--once"]) == 0
    assert doors.lines(lake.notifications()) == doors.expected(lake)
    assert lake.check() == []

    doors.append(lake, range(2000, 2010))
    capsys.readouterr()
    assert main([*call, "--once"]) == 0
    batch, sums = map(json.loads, capsys.readouterr().out.splitlines())
    assert (batch["records"], batch["events"], batch["late"]) == (10, 10, 0)
    assert batch["notifications"] == sums["notifications"] == len(doors.expected(lake)) - 51
    assert batch["state_rows"] > 0 < batch["state_bytes"]
    assert (batch["lakes"][0]["backlog"], batch["lakes"][0]["end"]) == (0, 75)
    assert doors.lines(lake.notifications()) == doors.expected(lake)

    checkpoint = lake.store.root / "checkpoint"
    for file in [*checkpoint.glob("state/0/*/*.zip"), *checkpoint.glob("state/0/*/*.changelog")]:
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    doors.append(lake, range(2010, 2020))
    assert main([*call, "--once"]) == 1
    said = capsys.readouterr().err
    assert f"motet stream: the checkpoint {checkpoint} cannot be read" in said
    assert "Nothing is lost" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--lake", "{}/none"], "is not a lake"),
        (["--lake", "{}", "--most", "0"], "--max-records must be at least 1, not 0"),
        (["--lake", "{}", "--conf", "x"], "'x' is not NAME=VALUE"),
        (["--lake", "{}", "--lake", "{}"], "several lakes have no default checkpoint"),
        (["--lake", "{}", "--metrics-port", "99999"], "metrics cannot be served on 127.0.0.1:99999"),
        (["--lake", "{}", "--checkpoint", "/proc/nowhere"], "the checkpoint /proc/nowhere cannot be used"),
    ],
)
def test_a_wrong_request_is_refused_before_spark_starts(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each names the thing that is wrong, and leaves no checkpoint behind."""
    Lake.open(tmp_path)
    assert main(["stream", *(word.replace("{}", str(tmp_path)) for word in words)]) in (1, 2)
    assert said in capsys.readouterr().err
    assert not (tmp_path / "checkpoint").exists()


RISING = (
    "SUBSCRIPTION rising EVENT a { ?a <urn:celsius> ?c } EVENT b { ?b <urn:celsius> ?d } "
    "WHEN a BEFORE b FILTER(?d > ?c) WITHIN 1 s SELECT ?a ?b"
)
HOT = "SUBSCRIPTION hot EVENT e { ?e <urn:celsius> ?c FILTER(?c > 30) } WHEN e SELECT ?c"


def reading(number: int, celsius: int) -> str:
    return builders.reading(number, celsius, f"2026-11-15T10:00:{number:02}Z")


def publish_and_listen(cloud: Cloud) -> tuple[list[Notification], PendingNotifications]:
    """One history, with a subscription that comes later and looks back, and one that ends; what is pending before it
    ends.
    """
    heard: list[Notification] = []
    with cloud:
        cloud.subscribe(HOT + " " + RISING, heard.append)
        cloud.publish(reading(1, 35) + reading(2, 20))
        cloud.publish(reading(3, 36))
        cloud.flush()
        cloud.unsubscribe("hot")
        cloud.subscribe(HOT.replace("hot", 'again SINCE "2026-11-15T10:00:02Z"', 1), heard.append)
        cloud.publish(reading(4, 37))
        pending = cloud.pending()
        cloud.tick(to_datetime(END_OF_TIME), force=True)
    return heard, pending


def test_spark_and_embedded_clouds_deliver_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """The same calls give the same notifications, in the same order, on both hosts, and the same are pending."""
    on_spark, pending = publish_and_listen(SparkCloud(Lake.open(tmp_path / "spark", ahead=None), spark))
    embedded, also_pending = publish_and_listen(Cloud(Lake.open(tmp_path / "embedded", ahead=None)))
    assert (on_spark, pending) == (embedded, also_pending)
    assert pending.count == 2
    told: dict[str, list[tuple[str, ...]]] = {}
    for notification in on_spark:
        told.setdefault(notification.subscription, []).append(notification.events)
    assert told == {
        "hot": [("urn:e:1",), ("urn:e:3",)],
        "again": [("urn:e:3",), ("urn:e:4",)],
        "rising": [("urn:e:2", "urn:e:3"), ("urn:e:3", "urn:e:4")],
    }
    assert Lake.open(tmp_path / "spark").check() == []


FIRE = (
    "SUBSCRIPTION fire EVENT a { ?a <urn:celsius> ?c } EVENT b { ?b <urn:celsius> ?d } "
    "WHEN a BEFORE b FILTER(?d > ?c) WITHIN 1 min CONTEXT chronicle SELECT ?a ?b"
)


class StopWhenNotified:
    """Moves a clock by ten seconds at each poll, and stops when the lake has a notification."""

    def __init__(self, lake: Lake, clock: builders.ManualClock, stop_requested: Event) -> None:
        self._lake, self._clock, self._stop_requested = lake, clock, stop_requested
        self._polls = 0

    def add_batch(self, batch: BatchProgress, lakes: list[LakeStatus]) -> None:
        pass

    def set_lake_status(self, lakes: list[LakeStatus]) -> None:
        self._clock.now += 10 * builders.SECOND
        self._polls += 1
        if self._polls > 60 or any(batch.num_rows for batch in self._lake.notifications()):
            self._stop_requested.set()


def test_the_driver_builds_zones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `motet compact`, when enough records are in none."""
    lake = Lake.open(tmp_path / "lake", clock=builders.ManualClock(builders.TEN), durable=False, ahead=None)
    with Cloud(lake) as cloud:
        cloud.publish(reading(1, 20) + reading(2, 35))
    monkeypatch.setattr("motet.jobs.zone_building.ZONE_RECORDS", 3)
    job = PipelineJob(None, [lake], tmp_path / "checkpoint")  # type: ignore[arg-type]  # nothing is computed
    job._build_zones()
    job._zone_building[0].close()
    assert lake.snapshot().zones_end == lake.snapshot().next_offset == 3


def test_the_driver_appends_ticks_while_it_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    """`motet stream` tells a pair by itself, in a live log; with --once it appends no tick."""
    clock = builders.ManualClock(builders.TEN + 2 * builders.SECOND)
    lake = Lake.open(tmp_path, clock=clock, durable=False)
    with Cloud(lake) as cloud:
        cloud.subscribe(FIRE, print)
        cloud.publish(reading(1, 20) + reading(2, 35))
    stop_requested = Event()
    observer = StopWhenNotified(lake, clock, stop_requested)
    job = PipelineJob(spark, [lake], tmp_path / "checkpoint", observers=[observer])
    job.run(stop_requested, once=True)
    assert lake.snapshot().count("tick") == 0
    job.run(stop_requested)
    assert [found.events for batch in lake.notifications() for found, _ in notification_rows(batch)] == [
        ("urn:e:1", "urn:e:2")
    ]
    assert lake.snapshot().count("tick") == 1
    assert lake.snapshot().frontier == builders.TEN + 2 * builders.SECOND + 1


def test_a_cloud_on_spark_appends_ticks(spark: SparkSession, tmp_path: Path) -> None:
    """The thread that follows reads what the operators on Spark wait for."""
    clock = builders.ManualClock(builders.TEN + 2 * builders.SECOND)
    heard: Queue[Notification] = Queue()
    with SparkCloud(Lake.open(tmp_path, clock=clock, heartbeat=0), spark) as cloud:
        cloud.subscribe(FIRE, heard.put)
        cloud.publish(reading(1, 20) + reading(2, 35))
        cloud.flush()
        clock.now += 60 * builders.SECOND
        assert heard.get(timeout=60).events == ("urn:e:1", "urn:e:2")


def test_a_checkpoint_in_use_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second `motet stream` says which process has the checkpoint, before Spark starts; a new one is not created."""
    Lake.open(tmp_path / "lake", durable=False)
    checkpoint = tmp_path / "checkpoint"
    with hold_checkpoint(checkpoint):
        assert main(["stream", "--lake", str(tmp_path / "lake"), "--checkpoint", str(checkpoint)]) == 2
    said = capsys.readouterr().err
    assert f"the checkpoint {checkpoint} is in use by another pipeline of this process" in said
    assert "starting Spark" not in said
