"""Snapshots: one immutable version of a lake, its list of data files, and how its records are read.

A snapshot stays valid whatever is appended or compacted later, and can be sent to other processes. The manifest finds
newer versions.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from motet.lake.segments import is_inline, read_rows
from motet.lake.store import Store
from motet.model.batches import RECORDS
from motet.model.control import ControlState
from motet.model.errors import UsageError
from motet.model.records import EVENT, ControlRecord, Subscribe, Unsubscribe, control_records
from motet.model.settings import Settings
from motet.model.timeline import first_frontier, with_frontiers


class Snapshot(NamedTuple):
    """One version of the lake."""

    store: Store
    version: int = 0
    segments: Sequence[DataFile] = ()  # contiguous, by offset
    tables: Sequence[DataFile] = ()  # of notifications, by offset
    frontier: int | None = None  # after the last record
    notifications_end: int = 0  # the notification table reaches this offset
    replaced: tuple[
        tuple[str, int], ...
    ] = ()  # files a compaction replaced, and when; old snapshots may still read them
    settings: Settings = Settings()  # in force after the last record
    clock: int | None = None  # of the writer of the newest commit
    delay: int | None = None  # of the newest commit with an event that is not late: its clock less their least end
    has_settings: bool = False  # the log has a settings record: it is of format 2
    zones: Sequence[DataFile] = ()  # zone files, by their first offset
    zones_end: int = 0  # the zones hold the events below this offset
    next_offset: int = 0  # after the last record

    @property
    def is_live(self) -> bool:
        """Whether a heartbeat may move the frontier (language page, section 14).

        That is so if in the newest commit with an event that is not late each such event ended at most the lateness
        before the commit's clock.
        """
        lateness = self.settings.lateness
        return self.delay is not None and lateness is not None and self.delay <= lateness

    def segment_paths(self) -> list[Path]:
        """The Parquet files of this version, in offset order, for DuckDB, Spark or any other reader."""
        if any(is_inline(segment.name) for segment in self.segments):
            raise UsageError(
                f"{self.store.root} has new records that are not in Parquet files yet",
                advice="Compact the lake and take a new snapshot, or read the records of this one.",
            )
        return [self.store.path(segment.name) for segment in self.segments]

    def notification_paths(self) -> list[Path]:
        return [self.store.path(table.name) for table in self.tables]

    def records(
        self, first: int = 0, stop: int | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The records with offsets in ``[first, stop)``, in offset order; all columns of RECORDS, or some."""
        end = self.next_offset if stop is None else stop
        for segment in self.overlapping(first, end):
            yield from read_rows(self.store, segment.name, first, end, columns)

    def frontier_at(self, offset: int) -> int | None:
        """The frontier in force before the record at an offset; at the end of the log, the one after the last record.

        At an offset inside a commit it is the frontier before that commit.
        """
        if offset >= self.next_offset:
            return self.frontier
        batches = self.records(offset, offset + 1, ["offset", "frontier"])
        return next((first_frontier(batch) for batch in batches if len(batch)), self.frontier)

    def log_records(self, first: int = 0, stop: int | None = None) -> Iterator[tuple[pa.RecordBatch, int | None]]:
        """As `records`, each batch with the frontier after it, as engines read them."""
        end = self.next_offset if stop is None else stop
        return with_frontiers(self.records(first, end), lambda: self.frontier_at(end))

    def controls(self, first: int = 0, stop: int | None = None) -> Iterator[pa.RecordBatch]:
        """The records of ``[first, stop)`` that are not events; reads only the row groups that hold any."""
        end = self.next_offset if stop is None else stop
        for segment in self.overlapping(first, end):
            if segment.kinds.keys() == {EVENT}:
                continue
            for batch in read_rows(self.store, segment.name, first, end, controls_only=True):
                controls = batch.filter(pc.not_equal(batch.column("kind"), EVENT))
                if controls.num_rows:
                    yield controls

    def notifications(self, first: int = 0) -> Iterator[pa.RecordBatch]:
        """The notifications made final at offset ``first`` or later."""
        for table in self.tables:
            if table.stop > first:
                yield from read_rows(self.store, table.name, first, table.stop)

    def control_records(
        self, *kinds: type[ControlRecord], first: int = 0, stop: int | None = None
    ) -> Iterator[ControlRecord]:
        """The control records of ``[first, stop)``: of these kinds, or of all if none is given."""
        for batch in self.controls(first, stop):
            yield from control_records(batch, *kinds)

    def subscriptions(self) -> dict[str, Subscribe]:
        """The active subscriptions at the end of this version, by name."""
        return ControlState().apply_all(self.control_records(Subscribe, Unsubscribe)).subscriptions

    def rows_at(self, offsets: npt.NDArray[np.int64], columns: Sequence[str]) -> pa.Table:
        """These columns of the records at these offsets, which must be sorted."""
        rows = []
        for segment in self.overlapping(int(offsets[0]), int(offsets[-1]) + 1) if len(offsets) else ():
            low, high = np.searchsorted(offsets, [segment.first, segment.stop])
            if low == high:
                continue
            requested = offsets[low:high]
            for batch in read_rows(self.store, segment.name, requested[0], requested[-1] + 1, ["offset", *columns]):
                stored = batch.column("offset").to_numpy()
                begin, end = np.searchsorted(requested, [stored[0], stored[-1] + 1])
                rows.append(batch.select(list(columns)).take(pa.array(requested[begin:end] - stored[0])))
        return pa.Table.from_batches(rows, pa.schema([RECORDS.field(name) for name in columns]))

    def count(self, kind: str) -> int:
        """The number of records of a kind."""
        return sum(segment.kinds.get(kind, 0) for segment in self.segments)

    def statistics(self) -> dict[str, object]:
        """Counts and extents."""
        kinds: Counter[str] = Counter()
        for segment in self.segments:
            kinds.update(segment.kinds)
        starts = [segment.start for segment in self.segments if segment.start is not None]
        ends = [segment.end for segment in self.segments if segment.end is not None]
        return {
            "version": self.version,
            "records": self.next_offset,
            "kinds": dict(sorted(kinds.items())),
            "events": kinds[EVENT],
            "late": sum(segment.late for segment in self.segments),
            "stamped": sum(segment.stamped for segment in self.segments),
            "segments": len(self.segments),
            "bytes": sum(segment.size for segment in self.segments),
            "first_offset": 0 if self.segments else None,
            "last_offset": self.next_offset - 1 if self.segments else None,
            "frontier": self.frontier,
            "clock": self.clock,
            "live": self.is_live,
            "start": min(starts, default=None),
            "end": max(ends, default=None),
            "subscriptions": sorted(self.subscriptions()),
            "notifications": sum(table.rows for table in self.tables),
            "notification_files": len(self.tables),
            "notified_to": self.notifications_end,
        }

    def overlapping(self, first: int, stop: int) -> Sequence[DataFile]:
        """The segments that hold offsets of ``[first, stop)``, found by bisection: there may be thousands."""
        if self.segments and self.segments[-1].first <= first < stop:  # the most frequent request: the newest records
            return self.segments[-1:] if first < self.segments[-1].stop else ()
        low = end = bisect_right(self.segments, first, key=attrgetter("stop"))
        while end < len(self.segments) and self.segments[end].first < stop:
            end += 1
        return self.segments[low:end]


class DataFile(NamedTuple):
    """One file of records or notifications, covering the log offsets ``[first, stop)``."""

    name: str
    first: int
    stop: int
    rows: int
    size: int  # bytes
    kinds: Mapping[str, int] = {}  # records by kind
    late: int = 0
    start: int | None = None  # earliest start of its events
    end: int | None = None  # latest end of its events
    stamped: int = 0
    zone: Mapping[str, Any] | None = None  # of a zone file: its kind, bounds and counts


def describe_segment(name: str, size: int, records: pa.Table) -> DataFile:
    """The manifest's entry for a segment with these records."""
    offsets = records["offset"].to_numpy()
    kinds = records["kind"].value_counts()
    counts = {count["values"].as_py(): count["counts"].as_py() for count in kinds}
    events = pc.equal(records["kind"], "event").to_numpy()
    starts, ends = (pc.fill_null(records[name].cast(pa.int64()), 0).to_numpy()[events] for name in ("start", "end"))
    return DataFile(
        name=name,
        first=int(offsets[0]),
        stop=int(offsets[-1]) + 1,
        rows=records.num_rows,
        size=size,
        kinds=dict(sorted(counts.items())),
        late=int(np.count_nonzero(records["late"].to_numpy())),
        start=int(starts.min()) if len(starts) else None,
        end=int(ends.max()) if len(ends) else None,
        stamped=int(np.count_nonzero(records["stamped"].to_numpy())),
    )


def describe_merged(name: str, size: int, files: Sequence[DataFile]) -> DataFile:
    """The manifest's entry for a file that these files are merged into."""
    kinds: Counter[str] = Counter()
    for file in files:
        kinds.update(file.kinds)
    return DataFile(
        name=name,
        first=files[0].first,
        stop=files[-1].stop,
        rows=sum(file.rows for file in files),
        size=size,
        kinds=dict(sorted(kinds.items())),
        late=sum(file.late for file in files),
        start=min((file.start for file in files if file.start is not None), default=None),
        end=max((file.end for file in files if file.end is not None), default=None),
        stamped=sum(file.stamped for file in files),
    )
