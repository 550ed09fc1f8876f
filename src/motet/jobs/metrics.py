"""Metrics of a pipeline for Prometheus, on a port of their own."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer

from prometheus_client import CollectorRegistry, MetricsHandler
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from motet.jobs.stream_progress import BatchProgress, LakeStatus
from motet.model.errors import UsageError

MAX_SUBSCRIPTIONS = 1_000  # with a series of their own, those with the most notifications; the others are one series
PATHS = ("/", "/metrics")
SILENCE_SECONDS = 10  # a client may send nothing for so long

_TOTALS = {  # names of metrics and their help, by the attribute of a batch
    "records": ("records", "Records of the log that were read."),
    "events": ("events", "Events that were matched."),
    "late": ("late_events", "Late events, which are stored and not matched."),
    "stamped": ("stamped_events", "Events that state no time and have that of their commit."),
    "notifications": ("notifications", "Notifications that were computed."),
    "seconds": ("batch_seconds", "Duration of all batches."),
}
_LAST_BATCH = {
    "seconds": ("last_batch_seconds", "Duration of the last batch."),
    "events_per_second": ("events_per_second", "Events of the last batch divided by its duration."),
    "match_rate": ("match_rate", "Notifications per event in the last batch."),
    "state_rows": ("state_rows", "Rows in the state of the buckets of the last batch."),
    "state_bytes": ("state_bytes", "Bytes of the state of the buckets of the last batch."),
    "store_bytes": ("state_store_bytes", "Bytes of Spark's state store on disk."),
}


class Metrics(Collector):
    """Collects the metrics of one pipeline, in a registry of its own; updated by one thread and read by others.

    >>> from prometheus_client import generate_latest
    >>> metrics = Metrics()
    >>> metrics.set_lake_status([LakeStatus("/lake", end=9, notified=7, late=0, frontier=None, newest=None)])
    >>> text = generate_latest(metrics.registry).decode()
    >>> print(*(line for line in text.splitlines() if "backlog" in line), sep="\\n")
    # HELP motet_backlog_records Records that are not processed yet.
    # TYPE motet_backlog_records gauge
    motet_backlog_records{lake="/lake"} 2.0
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(self)
        self._lock = threading.Lock()
        self._batches = 0
        self._last_batch: BatchProgress | None = None
        self._totals: Counter[str] = Counter()
        self._stage_seconds: dict[str, float] = {}
        self._lakes: list[LakeStatus] = []

    def add_batch(self, batch: BatchProgress, lakes: list[LakeStatus]) -> None:
        """Add a batch that has ended."""
        with self._lock:
            self._batches += 1
            self._last_batch = batch
            self._totals.update({name: getattr(batch, name) for name in _TOTALS})
            for stage, seconds in [*batch.phases.items(), *batch.stages.items()]:
                self._stage_seconds[stage] = self._stage_seconds.get(stage, 0) + seconds

    def set_lake_status(self, lakes: list[LakeStatus]) -> None:
        """Replace the status of the lakes."""
        with self._lock:
            self._lakes = lakes

    def collect(self) -> Iterator[Metric]:
        """All metrics, called for each scrape."""
        with self._lock:
            metrics = [*self._counters(), *self._batch_gauges(), *self._lake_gauges(), *self._subscription_counters()]
        return iter(metrics)

    def _counters(self) -> Iterator[Metric]:
        yield CounterMetricFamily("motet_batches", "Batches that have ended.", self._batches)
        for attribute, (name, help_) in _TOTALS.items():
            yield CounterMetricFamily(f"motet_{name}", help_, self._totals[attribute])
        help_ = (
            "Seconds by stage: matching and detecting in processor time of all tasks, Spark's phases in elapsed time."
        )
        stages = CounterMetricFamily("motet_stage_seconds", help_, labels=["stage"])
        for stage, seconds in sorted(self._stage_seconds.items()):
            stages.add_metric([stage], seconds)
        yield from [stages] if stages.samples else []

    def _batch_gauges(self) -> Iterator[Metric]:
        if self._last_batch is not None:
            for attribute, (name, help_) in _LAST_BATCH.items():
                if (value := getattr(self._last_batch, attribute)) is not None:
                    yield GaugeMetricFamily(f"motet_{name}", help_, value)

    def _lake_gauges(self) -> Iterator[Metric]:
        for name, help_, values in (
            ("log_end", "Offset after the last record of the log.", [lake.end for lake in self._lakes]),
            ("notified_to", "Offset up to which records are processed.", [lake.notified for lake in self._lakes]),
            ("backlog_records", "Records that are not processed yet.", [lake.backlog for lake in self._lakes]),
            ("frontier_timestamp_seconds", "The frontier.", [_seconds(lake.frontier) for lake in self._lakes]),
            ("frontier_lag_seconds", "Newest event less frontier.", [_seconds(lake.lag) for lake in self._lakes]),
            ("live", "1 if heartbeats move the frontier of the lake.", [int(lake.live) for lake in self._lakes]),
            ("pending_notifications", "Notifications that wait for the frontier.", [x.pending for x in self._lakes]),
        ):
            gauge = GaugeMetricFamily(f"motet_{name}", help_, labels=["lake"])
            for lake, value in zip(self._lakes, values, strict=True):
                if value is not None:
                    gauge.add_metric([lake.lake], value)
            yield from [gauge] if gauge.samples else []

    def _subscription_counters(self) -> Iterator[Metric]:
        help_ = "Notifications by subscription; those of subscriptions with few of them are together, without a name."
        counter = CounterMetricFamily("motet_subscription_notifications", help_, labels=["lake", "subscription"])
        for lake in self._lakes:
            counts = Counter(lake.notifications)
            named = counts.most_common(MAX_SUBSCRIPTIONS)
            others = counts.total() - sum(count for _, count in named)
            for name, count in sorted(named) + ([("", others)] if others else []):
                counter.add_metric([lake.lake, name], count)
        yield from [counter] if counter.samples else []


def _seconds(micros: int | None) -> float | None:
    return None if micros is None else micros / 1e6


@contextmanager
def serve_metrics(metrics: Metrics, host: str, port: int) -> Iterator[int]:
    """Serve ``/metrics`` while the block runs; yields the port, a free one if ``port`` is 0."""

    class Handler(MetricsHandler):
        registry = metrics.registry
        timeout = SILENCE_SECONDS

        def do_GET(self) -> None:  # noqa: N802  (the library's name)
            if self.path.partition("?")[0] in PATHS:
                super().do_GET()
            else:
                self.send_error(404, "see /metrics")

    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except (OSError, OverflowError) as error:
        raise UsageError(
            f"metrics cannot be served on {host}:{port}: {getattr(error, 'strerror', None) or error}",
            advice="Choose another --metrics-port; 0 takes a free one.",
        ) from error
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
