"""`motet stream` and the live cloud on Spark: notifications, progress, stopping and refused requests."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from threading import Event
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from pyspark.sql import SparkSession
from tests import builders
from tests.spark import doors

from motet.cli import stream
from motet.cli.main import main
from motet.embedded.cloud import Cloud, PendingNotifications
from motet.jobs.metrics import Metrics, serve_metrics
from motet.jobs.stream_progress import BatchProgress, LakeStatus, lake_status
from motet.lake import Lake
from motet.model.batches import notification_rows
from motet.model.errors import UsageError
from motet.model.notifications import Notification
from motet.model.times import END_OF_TIME, to_datetime
from motet.spark.stream.checkpoint import hold_checkpoint
from motet.spark.stream.job import PipelineJob, SparkCloud, parse_progress


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
    monkeypatch.setattr("motet.jobs.upkeep.ZONE_RECORDS", 3)
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


PROGRESS = {
    "batchId": 3,
    "timestamp": "2026-11-16T08:00:00.000Z",
    "batchDuration": 2000,
    "durationMs": {"addBatch": 1500, "queryPlanning": 250, "getBatch": 1, "triggerExecution": 2000},
    "sources": [{"startOffset": {"/a": 10}, "endOffset": {"/a": 60, "/b": 50}}],
    "stateOperators": [{"customMetrics": {"rocksdbSstFileSize": 70}}, {}],
    "observedMetrics": {
        "read": {"read": 80, "late": 4, "micros": 500_000},
        "made": {"count": 20, "rows": 7, "bytes": 900, "micros": 250_000},
    },
}
BATCH = BatchProgress(
    number=3,
    at="2026-11-16T08:00:00.000Z",
    seconds=2.0,
    records=100,
    events=80,
    late=4,
    notifications=20,
    state_rows=7,
    state_bytes=900,
    store_bytes=70,
    phases={"queryPlanning": 0.25, "addBatch": 1.5},
    stages={"matching": 0.5, "detecting": 0.25},
)


def test_figures_of_a_batch_are_from_spark_and_from_its_tasks() -> None:
    """A lake that is new in the batch starts at offset 0."""
    assert parse_progress(PROGRESS) == BATCH


def test_missing_offsets_and_sums_are_zero() -> None:
    """A first batch has no start offset, an empty one no sums."""
    first = {**PROGRESS, "sources": [{"startOffset": None, "endOffset": {"/a": 9}}], "observedMetrics": {}}
    assert (parse_progress(first).records, parse_progress(first).events, parse_progress(first).match_rate) == (
        9,
        0,
        0.0,
    )


def test_rates_and_shares_follow_from_the_counts() -> None:
    """Rates are by the time of the batch, the match rate is by events."""
    told = BATCH.to_json()
    assert (told["records_per_second"], told["events_per_second"], told["match_rate"]) == (50.0, 40.0, 0.25)
    assert told["shares"] == {"queryPlanning": 0.125, "addBatch": 0.75}


def test_lake_status_is_that_of_the_manifest(tmp_path: Path) -> None:
    """The lag is the newest event less the frontier; behind is the clock less the frontier."""
    lake = Lake.open(tmp_path, lateness=5)
    assert lake_status(lake) == LakeStatus(str(tmp_path), 1, 0, 0, None, None)
    lake.tick(100)
    found = lake_status(lake)
    assert (found.end, found.backlog, found.frontier, found.lag, found.behind(130)) == (2, 2, 100, None, 30)
    assert LakeStatus("", 1, 1, 0, 100, 105).lag == 5
    assert LakeStatus("", 1, 1, 0, 100, 90).lag == 0


def text(metrics: Metrics) -> str:
    return generate_latest(metrics.registry).decode()


def test_metrics_are_totals_and_lake_status(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every line of the text, of two equal batches and a lake with a name that must be escaped.

    Subscriptions beyond the limit are one series.
    """
    monkeypatch.setattr("motet.jobs.metrics.MAX_SUBSCRIPTIONS", 1)
    counts = {"hot": 5, "rare": 1}
    busy = LakeStatus('/a"b\\c', 90, 60, 4, 1_500_000, 3_500_000, pending=3, notifications=counts)
    metrics = Metrics()
    metrics.add_batch(BATCH, [])
    metrics.add_batch(BATCH, [])
    metrics.set_lake_status([busy, LakeStatus("/d", 0, 0, 0, None, None)])
    values = [line for line in text(metrics).splitlines() if not line.startswith("#")]
    assert values == [
        "motet_batches_total 2.0",
        "motet_records_total 200.0",
        "motet_events_total 160.0",
        "motet_late_events_total 8.0",
        "motet_stamped_events_total 0.0",
        "motet_notifications_total 40.0",
        "motet_batch_seconds_total 4.0",
        'motet_stage_seconds_total{stage="addBatch"} 3.0',
        'motet_stage_seconds_total{stage="detecting"} 0.5',
        'motet_stage_seconds_total{stage="matching"} 1.0',
        'motet_stage_seconds_total{stage="queryPlanning"} 0.5',
        "motet_last_batch_seconds 2.0",
        "motet_events_per_second 40.0",
        "motet_match_rate 0.25",
        "motet_state_rows 7.0",
        "motet_state_bytes 900.0",
        "motet_state_store_bytes 70.0",
        'motet_log_end{lake="/a\\"b\\\\c"} 90.0',
        'motet_log_end{lake="/d"} 0.0',
        'motet_notified_to{lake="/a\\"b\\\\c"} 60.0',
        'motet_notified_to{lake="/d"} 0.0',
        'motet_backlog_records{lake="/a\\"b\\\\c"} 30.0',
        'motet_backlog_records{lake="/d"} 0.0',
        'motet_frontier_timestamp_seconds{lake="/a\\"b\\\\c"} 1.5',
        'motet_frontier_lag_seconds{lake="/a\\"b\\\\c"} 2.0',
        'motet_live{lake="/a\\"b\\\\c"} 0.0',
        'motet_live{lake="/d"} 0.0',
        'motet_pending_notifications{lake="/a\\"b\\\\c"} 3.0',
        'motet_pending_notifications{lake="/d"} 0.0',
        'motet_subscription_notifications_total{lake="/a\\"b\\\\c",subscription="hot"} 5.0',
        'motet_subscription_notifications_total{lake="/a\\"b\\\\c",subscription=""} 1.0',
    ]
    names = {line.split()[2] for line in text(metrics).splitlines() if line.startswith("# TYPE")}
    assert names == {value.partition("{")[0].split()[0] for value in values}


def test_metrics_are_served_and_nothing_else() -> None:
    """One page, on a port that is free again afterwards."""
    metrics = Metrics()
    with serve_metrics(metrics, "127.0.0.1", 0) as port:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            assert (answer.read().decode(), answer.headers["Content-Type"]) == (text(metrics), CONTENT_TYPE_PLAIN_0_0_4)
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"http://127.0.0.1:{port}/secrets", timeout=10)
        with (
            pytest.raises(UsageError, match=f"127.0.0.1:{port}: Address already in use"),
            serve_metrics(metrics, "127.0.0.1", port),
        ):
            pass
