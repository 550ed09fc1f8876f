"""What one version of the lake holds: an immutable list of files, and reading through it.

A snapshot stays true whatever is appended or compacted later, and can be sent to other processes. It does not look for
newer versions: that is the manifest's work.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from motet.lake.files import DataFile
from motet.lake.segments import is_inline, read_rows
from motet.lake.store import Store
from motet.model.control import ControlState
from motet.model.errors import UsageError
from motet.model.records import EVENT, ControlRecord, Subscribe, Unsubscribe, control_records


class Snapshot(NamedTuple):
    """One version of the lake."""

    store: Store
    version: int = 0
    segments: Sequence[DataFile] = ()  # contiguous, by offset
    tables: Sequence[DataFile] = ()  # of notifications, by offset
    frontier: int | None = None  # in force for the next record
    notified_to: int = 0  # notifications are derived up to this offset
    replaced: tuple[
        tuple[str, int], ...
    ] = ()  # files a compaction replaced, and when; old snapshots may still read them

    @property
    def next_offset(self) -> int:
        return self.segments[-1].stop if self.segments else 0

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

    def ids_at(self, offsets: npt.NDArray[np.int64]) -> pa.Array:
        """The ids of the records at these offsets, which must be sorted."""
        found = []
        for segment in self.overlapping(int(offsets[0]), int(offsets[-1]) + 1) if len(offsets) else ():
            low, high = np.searchsorted(offsets, [segment.first, segment.stop])
            if low == high:
                continue
            wanted = offsets[low:high]
            for batch in read_rows(self.store, segment.name, wanted[0], wanted[-1] + 1, ["offset", "id"]):
                here = batch.column("offset").to_numpy()
                inside = wanted[np.searchsorted(wanted, here[0]) : np.searchsorted(wanted, here[-1], side="right")]
                found.append(batch.column("id").take(pa.array(inside - here[0])))
        return pa.concat_arrays(found) if found else pa.array([], pa.string())

    def statistics(self) -> dict[str, object]:
        """Counts and extents, for people."""
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
            "segments": len(self.segments),
            "bytes": sum(segment.size for segment in self.segments),
            "first_offset": 0 if self.segments else None,
            "last_offset": self.next_offset - 1 if self.segments else None,
            "frontier": self.frontier,
            "start": min(starts, default=None),
            "end": max(ends, default=None),
            "subscriptions": sorted(self.subscriptions()),
            "notifications": sum(table.rows for table in self.tables),
            "notification_files": len(self.tables),
            "notified_to": self.notified_to,
        }

    def overlapping(self, first: int, stop: int) -> Sequence[DataFile]:
        """The segments that hold offsets of ``[first, stop)``, found by bisection: there may be thousands."""
        if self.segments and self.segments[-1].first <= first < stop:  # asked for most often: what came last
            return self.segments[-1:] if first < self.segments[-1].stop else ()
        low = end = bisect_right(self.segments, first, key=attrgetter("stop"))
        while end < len(self.segments) and self.segments[end].first < stop:
            end += 1
        return self.segments[low:end]
