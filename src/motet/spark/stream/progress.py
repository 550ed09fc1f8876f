"""What the pipeline is doing, as facts: of each batch, and of each lake.

A batch's facts come from Spark's own progress and from what the tasks have counted; a lake's from its manifest. How
they are shown is said elsewhere: the command prints them, `metrics` puts them into words for Prometheus.
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

READ, MADE = "read", "made"  # what the tasks before and behind the shuffle have counted

_PHASES = ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets")  # of Spark, in their order


@dataclass(frozen=True)
class BatchProgress:
    """One batch of the query."""

    number: int
    at: str  # when it began
    seconds: float
    records: int
    events: int
    late: int
    notifications: int  # derived; those that the table has already are not added to it
    state_rows: int  # remembered by the buckets of all lakes that had news
    state_bytes: int  # so many are read when a bucket moves
    store_bytes: int  # of the state on disk, as Spark keeps it
    phases: Mapping[str, float] = field(default_factory=dict)  # seconds, by Spark's names
    stages: Mapping[str, float] = field(default_factory=dict)  # seconds of processors, in all tasks

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
        """What part of the batch each of Spark's phases took."""
        return {name: spent / self.seconds for name, spent in self.phases.items()} if self.seconds else {}

    def to_json(self) -> dict[str, object]:
        rates = {name: round(getattr(self, name), 3) for name in ("records_per_second", "events_per_second")}
        shares = {name: round(share, 3) for name, share in self.shares.items()}
        return {**asdict(self), **rates, "match_rate": round(self.match_rate, 6), "shares": shares}


@dataclass(frozen=True)
class LakeStatus:
    """Where a lake stands. Times are in microseconds."""

    lake: str
    end: int  # of the log
    notified: int  # all records below are derived
    late: int  # events, in all
    frontier: int | None
    newest: int | None  # end of an event

    @property
    def backlog(self) -> int:
        return self.end - self.notified

    @property
    def lag(self) -> int | None:
        """How far the frontier is behind the newest event: absence before that is not decided yet."""
        if self.newest is None or self.frontier is None:
            return None
        return max(self.newest - self.frontier, 0)

    def behind(self, now: int) -> int | None:
        """How far the frontier is behind the clock."""
        return None if self.frontier is None else max(now - self.frontier, 0)

    def to_json(self, now: int) -> dict[str, object]:
        return {**asdict(self), "backlog": self.backlog, "lag": self.lag, "behind": self.behind(now)}


def lake_status(lake: Lake) -> LakeStatus:
    """Where a lake stands now; reads nothing but the manifest."""
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
    """Sums of columns, for Spark to observe while they pass."""
    from pyspark.sql.functions import coalesce, lit
    from pyspark.sql.functions import sum as sum_

    return [coalesce(sum_(name), lit(0)).alias(name) for name in names]


def ended_batches(query: StreamingQuery, after: int) -> Iterator[BatchProgress]:
    """The batches with higher numbers that have ended; Spark remembers the last hundred."""
    for progress in query.recentProgress:
        told = json.loads(progress.json)
        if told["batchId"] > after and any(source["numInputRows"] for source in told["sources"]):
            yield parse_progress(told)


def parse_progress(progress: Mapping[str, Any]) -> BatchProgress:
    """A batch as Spark's progress tells it, which is given as JSON."""
    read, made = (_observed(progress.get("observedMetrics", {}).get(name, {})) for name in (READ, MADE))
    spent = progress["durationMs"]
    return BatchProgress(
        number=progress["batchId"],
        at=progress["timestamp"],
        seconds=progress["batchDuration"] / 1e3,
        records=_records(progress["sources"]),
        events=read.get("read", 0),
        late=read.get("late", 0),
        notifications=made.get("count", 0),
        state_rows=made.get("rows", 0),
        state_bytes=made.get("bytes", 0),
        store_bytes=_stored(progress["stateOperators"]),
        phases={name: spent[name] / 1e3 for name in _PHASES if name in spent},
        stages={"matching": read.get("micros", 0) / 1e6, "detecting": made.get("micros", 0) / 1e6},
    )


def _records(sources: Iterable[Mapping[str, Any]]) -> int:
    found = 0
    for source in sources:
        first, stop = _offsets(source["startOffset"]), _offsets(source["endOffset"])
        found += sum(end - first.get(lake, 0) for lake, end in stop.items())
    return found


def _observed(told: Mapping[str, Any]) -> Mapping[str, int]:
    """Sums by name; over Spark Connect they come beside their schema."""
    if "schema" not in told:
        return told
    return dict(zip((field["name"] for field in told["schema"]["fields"]), told["values"], strict=True))


def _offsets(told: Mapping[str, int] | str | None) -> Mapping[str, int]:
    """By lake; over Spark Connect they come as text."""
    found = json.loads(told) if isinstance(told, str) else told
    return found or {}


def _stored(operators: Iterable[Mapping[str, Any]]) -> int:
    return sum(operator.get("customMetrics", {}).get("rocksdbSstFileSize", 0) for operator in operators)
