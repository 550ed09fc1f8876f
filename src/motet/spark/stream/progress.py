"""The progress of the pipeline: figures of each batch, and the status of each lake.

Figures of a batch come from Spark's progress and from sums over the rows of the stages, the status of a lake from its
manifest. `motet stream` prints them, and :func:`serve_metrics` serves them for Prometheus.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from http.server import ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, MetricsHandler
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from motet.lake import Lake
from motet.model.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.streaming.query import StreamingQuery

MATCH_SUMS, DETECT_SUMS = "read", "made"  # names of the sums that Spark observes after each stage

_PHASES = ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets")  # of Spark, in their order


@dataclass(frozen=True)
class BatchProgress:
    """The figures of one batch of the query; the field names are those of its JSON."""

    number: int
    at: str  # when it began
    seconds: float
    records: int
    events: int
    late: int
    notifications: int  # computed; those that the table holds already are not added to it
    state_rows: int  # of the buckets of all lakes with records in the batch
    state_bytes: int  # read when a bucket moves to another process
    store_bytes: int  # of Spark's state store on disk
    phases: Mapping[str, float] = field(default_factory=dict)  # seconds, by Spark's names
    stages: Mapping[str, float] = field(default_factory=dict)  # seconds of processor time, in all tasks

    @property
    def records_per_second(self) -> float:
        return self.records / self.seconds if self.seconds else 0.0

    @property
    def events_per_second(self) -> float:
        return self.events / self.seconds if self.seconds else 0.0

    @property
    def match_rate(self) -> float:
        """Notifications per event."""
        return self.notifications / self.events if self.events else 0.0

    @property
    def shares(self) -> dict[str, float]:
        """The share of each of Spark's phases in the duration of the batch."""
        return {name: seconds / self.seconds for name, seconds in self.phases.items()} if self.seconds else {}

    def to_json(self) -> dict[str, object]:
        rates = {name: round(getattr(self, name), 3) for name in ("records_per_second", "events_per_second")}
        shares = {name: round(share, 3) for name, share in self.shares.items()}
        return {**asdict(self), **rates, "match_rate": round(self.match_rate, 6), "shares": shares}


@dataclass(frozen=True)
class LakeStatus:
    """The status of a lake. Times are in microseconds; the field names are those of its JSON."""

    lake: str
    end: int  # of the log
    notified: int  # the offset that the notification table reaches
    late: int  # events, in all
    frontier: int | None
    newest: int | None  # end of an event
    live: bool = False  # events are published soon after they end, so that heartbeats move the frontier

    @property
    def backlog(self) -> int:
        return self.end - self.notified

    @property
    def lag(self) -> int | None:
        """The end of the newest event less the frontier: absence after the frontier is not final yet."""
        if self.newest is None or self.frontier is None:
            return None
        return max(self.newest - self.frontier, 0)

    def behind(self, now: int) -> int | None:
        """The clock less the frontier."""
        return None if self.frontier is None else max(now - self.frontier, 0)

    def to_json(self, now: int) -> dict[str, object]:
        return {**asdict(self), "backlog": self.backlog, "lag": self.lag, "behind": self.behind(now)}


def lake_status(lake: Lake) -> LakeStatus:
    """The current status of a lake; reads only the manifest."""
    snapshot = lake.snapshot()
    ends = [segment.end for segment in snapshot.segments if segment.end is not None]
    return LakeStatus(
        lake=str(lake.store.root),
        end=snapshot.next_offset,
        notified=snapshot.notifications_end,
        late=sum(segment.late for segment in snapshot.segments),
        frontier=snapshot.frontier,
        newest=max(ends, default=None),
        live=snapshot.is_live,
    )


def observed_sums(names: Sequence[str]) -> list[Column]:
    """Sums of columns, which Spark observes while the rows pass."""
    from pyspark.sql.functions import coalesce, lit
    from pyspark.sql.functions import sum as sum_

    return [coalesce(sum_(name), lit(0)).alias(name) for name in names]


def ended_batches(query: StreamingQuery, after: int) -> Iterator[BatchProgress]:
    """The batches after a batch number that have ended; Spark holds the last hundred."""
    for progress in query.recentProgress:
        fields = json.loads(progress.json)
        if fields["batchId"] > after and any(source["numInputRows"] for source in fields["sources"]):
            yield parse_progress(fields)


def parse_progress(progress: Mapping[str, Any]) -> BatchProgress:
    """The figures of a batch, from the JSON of Spark's progress."""
    observed = progress.get("observedMetrics", {})
    matched, detected = (_observed_sums(observed.get(name, {})) for name in (MATCH_SUMS, DETECT_SUMS))
    durations = progress["durationMs"]
    return BatchProgress(
        number=progress["batchId"],
        at=progress["timestamp"],
        seconds=progress["batchDuration"] / 1e3,
        records=_records(progress["sources"]),
        events=matched.get("read", 0),
        late=matched.get("late", 0),
        notifications=detected.get("count", 0),
        state_rows=detected.get("rows", 0),
        state_bytes=detected.get("bytes", 0),
        store_bytes=_store_bytes(progress["stateOperators"]),
        phases={name: durations[name] / 1e3 for name in _PHASES if name in durations},
        stages={"matching": matched.get("micros", 0) / 1e6, "detecting": detected.get("micros", 0) / 1e6},
    )


def _records(sources: Iterable[Mapping[str, Any]]) -> int:
    count = 0
    for source in sources:
        first, stop = _offsets(source["startOffset"]), _offsets(source["endOffset"])
        count += sum(end - first.get(lake, 0) for lake, end in stop.items())
    return count


def _observed_sums(metrics: Mapping[str, Any]) -> Mapping[str, int]:
    """Sums by name; Spark Connect reports values and their schema instead."""
    if "schema" not in metrics:
        return metrics
    return dict(zip((field["name"] for field in metrics["schema"]["fields"]), metrics["values"], strict=True))


def _offsets(value: Mapping[str, int] | str | None) -> Mapping[str, int]:
    """Offsets by lake; Spark Connect reports them as text."""
    offsets = json.loads(value) if isinstance(value, str) else value
    return offsets or {}


def _store_bytes(operators: Iterable[Mapping[str, Any]]) -> int:
    return sum(operator.get("customMetrics", {}).get("rocksdbSstFileSize", 0) for operator in operators)


PATHS = ("/", "/metrics")
SILENCE_SECONDS = 10  # a client may send nothing for so long

_TOTALS = {  # names of metrics and their help, by the attribute of a batch
    "records": ("records", "Records of the log that were read."),
    "events": ("events", "Events that were matched."),
    "late": ("late_events", "Late events, which are stored and not matched."),
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
            metrics = [*self._counters(), *self._batch_gauges(), *self._lake_gauges()]
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
                yield GaugeMetricFamily(f"motet_{name}", help_, getattr(self._last_batch, attribute))

    def _lake_gauges(self) -> Iterator[Metric]:
        for name, help_, values in (
            ("log_end", "Offset after the last record of the log.", [lake.end for lake in self._lakes]),
            ("notified_to", "Offset up to which records are processed.", [lake.notified for lake in self._lakes]),
            ("backlog_records", "Records that are not processed yet.", [lake.backlog for lake in self._lakes]),
            ("frontier_timestamp_seconds", "The frontier.", [_seconds(lake.frontier) for lake in self._lakes]),
            ("frontier_lag_seconds", "Newest event less frontier.", [_seconds(lake.lag) for lake in self._lakes]),
            ("live", "1 if heartbeats move the frontier of the lake.", [int(lake.live) for lake in self._lakes]),
        ):
            gauge = GaugeMetricFamily(f"motet_{name}", help_, labels=["lake"])
            for lake, value in zip(self._lakes, values, strict=True):
                if value is not None:
                    gauge.add_metric([lake.lake], value)
            yield from [gauge] if gauge.samples else []


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
