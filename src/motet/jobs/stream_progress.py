"""The progress of a pipeline on any engine: figures of each batch, and the status of each lake.

The status of a lake is from its manifest. `motet stream` prints them, and ``metrics`` serves them for Prometheus.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Protocol

import pyarrow.compute as pc

from motet.lake import Lake, Snapshot
from motet.lake.progress import greatest_waiting, pending_count
from motet.model.times import END_OF_TIME, format_datetime


class ProgressObserver(Protocol):
    """Receives the progress of a pipeline."""

    def add_batch(self, batch: BatchProgress, lakes: list[LakeStatus]) -> None:
        """A batch has ended."""
        ...

    def set_lake_status(self, lakes: list[LakeStatus]) -> None:
        """The status of the lakes at each poll."""
        ...


@dataclass(frozen=True)
class BatchProgress:
    """The figures of one batch of a pipeline; the field names are those of its JSON."""

    number: int
    at: str  # when it began
    seconds: float
    records: int
    events: int
    late: int
    notifications: int  # computed; those that the table holds already are not added to it
    state_rows: int | None = None  # on Spark: of the buckets of all lakes with records in the batch
    state_bytes: int | None = None  # on Spark: read when a bucket moves to another process
    store_bytes: int | None = None  # of Spark's state store on disk
    stamped: int = 0
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
    stamped: int = 0  # events, in all
    pending: int = 0  # notifications that wait for the frontier
    pending_until: int | None = None  # the frontier at which the last of them is final
    notifications: Mapping[str, int] = field(default_factory=dict)  # by subscription, since the pipeline started

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


def lake_status(
    lake: Lake,
    *,
    pending: tuple[int, int | None] | None = None,
    notifications: NotificationCounts | None = None,
) -> LakeStatus:
    """The current status of a lake, from its manifest.

    ``pending`` is what waits for the frontier: by default what the pipeline on Spark has stored. ``notifications``
    counts those that are new in the table.
    """
    snapshot = lake.snapshot()
    if pending is None:
        at = snapshot.notifications_end
        pending = pending_count(lake.store, at), greatest_waiting(lake.store, at, None)
    ends = [segment.end for segment in snapshot.segments if segment.end is not None]
    return LakeStatus(
        lake=str(lake.store.root),
        end=snapshot.next_offset,
        notified=snapshot.notifications_end,
        late=sum(segment.late for segment in snapshot.segments),
        frontier=snapshot.frontier,
        newest=max(ends, default=None),
        live=snapshot.is_live,
        stamped=sum(segment.stamped for segment in snapshot.segments),
        pending=pending[0],
        pending_until=pending[1] if pending[0] else None,
        notifications={} if notifications is None else dict(notifications.update(snapshot)),
    )


class NotificationCounts:
    """Counts the notifications of a lake by subscription, from the end of its table at the start on."""

    def __init__(self, lake: Lake) -> None:
        self._counted_to = lake.snapshot().notifications_end
        self._counts: Counter[str] = Counter()

    def update(self, snapshot: Snapshot) -> Mapping[str, int]:
        """Count the notifications that are new in the table, and return all counts."""
        first, self._counted_to = self._counted_to, max(self._counted_to, snapshot.notifications_end)
        if first < self._counted_to:
            for batch in snapshot.notifications(first):
                for row in pc.value_counts(batch.column("subscription")).to_pylist():
                    self._counts[row["values"]] += row["counts"]
        return self._counts


def pending_note(lakes: list[LakeStatus]) -> str:
    """How many notifications of some lakes wait for the frontier, and until when; empty if none does.

    >>> pending_note([LakeStatus("/a", 1, 1, 0, None, None, pending=2, pending_until=0)])
    '2 pending until 1970-01-01T00:00:00.000000Z'
    """
    untils = [lake.pending_until for lake in lakes if lake.pending_until is not None]
    if not untils:
        return ""
    until = min(max(untils), END_OF_TIME)
    return f"{sum(lake.pending for lake in lakes)} pending until {format_datetime(until)}"
