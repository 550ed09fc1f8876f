"""The progress of a running pipeline, and its Prometheus metrics."""

from __future__ import annotations

from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from motet.jobs.metrics import Metrics, serve_metrics
from motet.jobs.stream_progress import BatchProgress, LakeStatus, lake_status
from motet.lake import Lake
from motet.model.errors import UsageError
from motet.spark.stream.progress import parse_progress

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
