"""The facts of the pipeline in the words of Prometheus, on a port of this machine.

The text format is so small that it is written here: a line of help, a line of type, and a line for each value.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from motet.model.errors import UsageError
from motet.spark.stream.progress import Batch, Standing

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]
Values = Iterable[tuple[Labels, float | None]]

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


class Metrics:
    """Sums over the batches since the start, and where things stand. Asked by one thread and told by another.

    >>> metrics = Metrics()
    >>> metrics.stand([Standing("/lake", end=9, notified=7, late=0, frontier=None, newest=None)])
    >>> print(*(line for line in metrics.text().splitlines() if "backlog" in line), sep="\\n")
    # HELP motet_backlog_records Records of the log that are not derived yet.
    # TYPE motet_backlog_records gauge
    motet_backlog_records{lake="/lake"} 2
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: Batch | None = None
        self._sums: dict[str, float] = {}
        self._stages: dict[str, float] = {}
        self._lakes: list[Standing] = []

    def batch(self, batch: Batch, lakes: list[Standing]) -> None:
        """Add a batch that has ended."""
        with self._lock:
            self._last = batch
            for name in ("records", "events", "late", "notifications", "seconds"):
                self._sums[name] = self._sums.get(name, 0) + getattr(batch, name)
            self._sums["batches"] = self._sums.get("batches", 0) + 1
            for stage, spent in [*batch.phases.items(), *batch.stages.items()]:
                self._stages[stage] = self._stages.get(stage, 0) + spent

    def stand(self, lakes: list[Standing]) -> None:
        """Lakes stand like this now."""
        with self._lock:
            self._lakes = lakes

    def text(self) -> str:
        """Everything, as Prometheus reads it."""
        with self._lock:
            return "".join(f"{line}\n" for line in (*self._counters(), *self._batch(), *self._standings()))

    def _counters(self) -> Iterator[str]:
        for name, title, text in (
            ("batches", "batches", "Batches that have ended."),
            ("records", "records", "Records of the log that were read."),
            ("events", "events", "Events that were matched."),
            ("late", "late_events", "Events that were too late to be matched."),
            ("notifications", "notifications", "Notifications that were derived."),
            ("seconds", "batch_seconds", "Time that batches took."),
        ):
            yield from _told(f"motet_{title}_total", "counter", text, [({}, self._sums.get(name, 0))])
        stages: Values = [({"stage": stage}, spent) for stage, spent in sorted(self._stages.items())]
        help_ = "Time by stage: matching and detecting in processor time of all tasks, Spark's phases by the clock."
        yield from _told("motet_stage_seconds_total", "counter", help_, stages)

    def _batch(self) -> Iterator[str]:
        if self._last is None:
            return
        for name, value, text in (
            ("last_batch_seconds", self._last.seconds, "Time the last batch took."),
            ("events_per_second", self._last.events_per_second, "Events of the last batch by its time."),
            ("match_rate", self._last.match_rate, "Notifications per event in the last batch."),
            ("state_rows", self._last.state_rows, "Rows that the buckets with news remember."),
            ("state_bytes", self._last.state_bytes, "Bytes of what the buckets with news remember."),
            ("state_store_bytes", self._last.store_bytes, "Bytes of the state as Spark keeps it on disk."),
        ):
            yield from _told(f"motet_{name}", "gauge", text, [({}, value)])

    def _standings(self) -> Iterator[str]:
        for name, text, values in (
            ("log_end", "Offset behind the last record.", [lake.end for lake in self._lakes]),
            ("notified_to", "All records below this offset are derived.", [lake.notified for lake in self._lakes]),
            ("backlog_records", "Records of the log that are not derived yet.", [one.backlog for one in self._lakes]),
            ("frontier_timestamp_seconds", "The frontier.", [_seconds(lake.frontier) for lake in self._lakes]),
            ("frontier_lag_seconds", "Newest event less frontier.", [_seconds(lake.lag) for lake in self._lakes]),
        ):
            pairs = zip(self._lakes, values, strict=True)
            yield from _told(f"motet_{name}", "gauge", text, [({"lake": lake.lake}, value) for lake, value in pairs])


def _seconds(micros: int | None) -> float | None:
    return None if micros is None else micros / 1e6


def _told(name: str, kind: str, text: str, values: Values) -> Iterator[str]:
    known = [(labels, value) for labels, value in values if value is not None]
    if not known:
        return
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"
    for labels, value in known:
        inside = ",".join(f'{key}="{label.translate(_ESCAPES)}"' for key, label in labels.items())
        yield f"{name}{{{inside}}} {value:.15g}" if inside else f"{name} {value:.15g}"


@contextmanager
def served(metrics: Metrics, host: str, port: int) -> Iterator[int]:
    """Answer `/metrics` while the block runs; the port, which is a free one if 0 was asked for."""

    class Handler(BaseHTTPRequestHandler):
        timeout = 10  # seconds a client may be silent

        def do_GET(self) -> None:
            found = self.path.partition("?")[0] in ("/", "/metrics")
            body = (metrics.text() if found else "see /metrics\n").encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the library's name)
            """A scrape every few seconds is nothing to speak of."""

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
