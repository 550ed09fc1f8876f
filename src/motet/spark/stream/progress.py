"""The progress of the pipeline: figures of each batch, and the status of each lake.

Figures of a batch come from Spark's progress and from sums over the rows of the stages, the status of a lake from its
manifest. `motet stream` prints them, `metrics` serves them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from motet.lake import Lake

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
