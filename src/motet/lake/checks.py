"""Whether a lake is sound: reads every file and compares it with every other. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.lake.files import DataFile, describe
from motet.lake.ids import Hashes, Offsets, hash_ids, load_runs, run_name
from motet.lake.manifest import catch_up
from motet.lake.segments import read_rows
from motet.lake.snapshot import Snapshot
from motet.model.batches import NOTIFICATIONS, RECORDS
from motet.model.errors import LakeError
from motet.model.timeline import NO_FRONTIER, stamp_columns


def problems(snapshot: Snapshot, lateness: int | None) -> list[str]:
    """Everything that contradicts something else, in words; empty for a sound lake."""
    return [*_history(snapshot), *_Walk(snapshot, lateness).problems(), *_tables(snapshot)]


class _Walk:
    """One pass over the records in offset order."""

    def __init__(self, snapshot: Snapshot, lateness: int | None) -> None:
        self.snapshot = snapshot
        self.lateness = lateness
        self.frontier: int | None = None
        self.hashes: list[Hashes] = []
        self.offsets: list[Offsets] = []

    def problems(self) -> Iterator[str]:
        expected = 0
        for segment in self.snapshot.segments:
            if segment.first != expected:
                yield f"{segment.name}: begins at offset {segment.first}, expected {expected}"
            expected = segment.stop
            try:
                yield from self._segment(segment)
            except LakeError as error:
                yield error.message
        if self.frontier != self.snapshot.frontier:
            yield f"the manifest's frontier is {self.snapshot.frontier}, the records give {self.frontier}"
        yield from self._ids()

    def _segment(self, segment: DataFile) -> Iterator[str]:
        rows = list(read_rows(self.snapshot.store, segment.name, -(2**63), 2**63 - 1))
        records = pa.Table.from_batches(rows, RECORDS)
        offsets = records["offset"].to_numpy()
        if not np.array_equal(offsets, np.arange(segment.first, segment.stop)):
            yield f"{segment.name}: its offsets are not {segment.first} to {segment.stop - 1}"
            return
        if describe(segment.name, segment.size, records) != segment:
            yield f"{segment.name}: the manifest describes it wrongly"
        before, late, self.frontier = stamp_columns(records["kind"], records["end"], self.frontier, self.lateness)
        stored = pc.fill_null(records["frontier"].cast(pa.int64()), NO_FRONTIER).to_numpy()
        yield from _differences(segment.name, "frontier", offsets[stored != before])
        yield from _differences(segment.name, "late flag", offsets[records["late"].to_numpy() != late])
        events = records.filter(pc.equal(records["kind"], "event"))
        self.hashes.append(hash_ids(events["id"].to_pylist()))
        self.offsets.append(events["offset"].to_numpy())

    def _ids(self) -> Iterator[str]:
        hashes = np.concatenate([np.empty(0, np.uint64), *self.hashes])
        offsets = np.concatenate([np.empty(0, np.int64), *self.offsets])
        order = np.argsort(hashes, kind="stable")
        same = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])
        for position in same:  # equal hashes are nearly always equal ids: few, in a sound lake
            pair = np.sort(offsets[order[position : position + 2]])
            first, second = self.snapshot.ids_at(pair).to_pylist()
            if first == second:
                yield f"event <{first}> stands at offset {pair[0]} and at {pair[1]}"
        for run in load_runs(self.snapshot.store, self.snapshot.next_offset):
            inside = order[(offsets[order] >= run.first) & (offsets[order] < run.stop)]
            if not (np.array_equal(run.hashes, hashes[inside]) and np.array_equal(run.offsets, offsets[inside])):
                yield f"{run_name(run.first, run.stop)}: does not agree with the log; delete it to have it built again"


def _history(snapshot: Snapshot) -> Iterator[str]:
    """The checkpoint this snapshot came from must agree with all commits, and no commit may be missing."""
    replayed = catch_up(Snapshot(snapshot.store))
    if replayed.version < snapshot.version:
        yield f"manifest: commit {replayed.version + 1} of {snapshot.version} is missing"
    elif replayed.version == snapshot.version and replayed != snapshot:
        yield "manifest/checkpoint.json: does not agree with the commits; delete it to have it made again"


def _tables(snapshot: Snapshot) -> Iterator[str]:
    for table in snapshot.tables:
        try:
            rows = pa.Table.from_batches(read_rows(snapshot.store, table.name, table.first, table.stop), NOTIFICATIONS)
        except LakeError as error:
            yield error.message
            continue
        if rows.num_rows != table.rows:
            yield f"{table.name}: holds {rows.num_rows} notifications, the manifest says {table.rows}"
    if snapshot.notified_to > snapshot.next_offset:
        yield f"notifications go to offset {snapshot.notified_to}, the log ends at {snapshot.next_offset}"


def _differences(name: str, what: str, offsets: Offsets) -> Iterator[str]:
    if len(offsets):
        yield f"{name}: {len(offsets)} records with a wrong {what}, the first at offset {offsets[0]}"
