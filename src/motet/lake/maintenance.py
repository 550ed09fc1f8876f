"""Maintenance of a lake: compaction of small files, vacuum of unused ones, and a check of all files.

Compaction keeps the offsets, order and content of records. Earlier snapshots still read the replaced files until a
vacuum deletes them after a grace period.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.lake.ids import IdHashes, OffsetColumn, hash_ids, load_runs, run_name
from motet.lake.inferred_files import FOLDER, background_digest, outdated_files
from motet.lake.manifest import RECORD_FOLDERS, Commit, Manifest, catch_up, commit_name
from motet.lake.segments import is_inline, new_name, read_rows, version_in, write_rows
from motet.lake.snapshot import DataFile, Snapshot, describe_merged, describe_segment
from motet.lake.store import SCRATCH, Store
from motet.model.batches import NOTIFICATIONS, RECORDS, content_digests
from motet.model.control import ControlState
from motet.model.errors import CorruptLakeError, LakeError
from motet.model.records import BackgroundChange, SettingsChange, Tick, control_records
from motet.model.settings import ENTAILMENTS, Settings
from motet.model.timeline import NO_FRONTIER, late_below, next_frontier

TARGET_ROWS = 1_000_000
TARGET_BYTES = 128 << 20
SCRATCH_GRACE = 60_000_000  # microseconds; a scratch file this old belongs to a writer that died
SCHEMAS = {"segments": RECORDS, "notifications": NOTIFICATIONS}


@dataclass(frozen=True)
class CompactionResult:
    """The numbers of files before and after a compaction, and of the rows in them."""

    before: int = 0
    after: int = 0
    rows: int = 0


def compact(store: Store, manifest: Manifest, target_rows: int, target_bytes: int) -> CompactionResult:
    """Merge neighbouring small files, one commit per merged file."""
    snapshot = manifest.snapshot()
    before = after = rows = 0
    for folder, files in (("segments", snapshot.segments), ("notifications", snapshot.tables)):
        for group in plan(files, target_rows, target_bytes):
            merged = _merge(store, folder, group, snapshot.version + 1)
            if _swap(store, manifest, group, merged):
                before, after, rows = before + len(group), after + 1, rows + merged.rows
    return CompactionResult(before, after, rows)


def plan(files: Sequence[DataFile], target_rows: int, target_bytes: int) -> list[list[DataFile]]:
    """Groups of neighbouring files that stay within the target. A file larger than all that follow it in its group is
    left out, so that a row is rewritten a logarithmic number of times over many compactions.

    >>> sizes = [DataFile(str(n), n, n + 1, rows, rows) for n, rows in enumerate([50, 2, 2, 90])]
    >>> [[file.rows for file in group] for group in plan(sizes, 100, 100)]
    [[2, 2]]
    """
    groups: list[list[DataFile]] = [[]]
    rows = size = 0
    for file in files:
        rows, size = rows + file.rows, size + file.size
        if rows > target_rows or size > target_bytes:
            groups.append([])
            rows, size = file.rows, file.size
        groups[-1].append(file)
    tails = [_without_giants(group) for group in groups]
    return [tail for tail in tails if len(tail) > 1 or any(is_inline(file.name) for file in tail)]


def _without_giants(group: list[DataFile]) -> list[DataFile]:
    rest = sum(file.rows for file in group)
    for position, file in enumerate(group):
        rest -= file.rows
        if file.rows <= rest or is_inline(file.name):
            return group[position:]
    return []


def vacuum(store: Store, manifest: Manifest, older_than: int) -> list[str]:
    """Delete files that were replaced, or never added by a commit, at least ``older_than`` microseconds ago."""
    snapshot, now = manifest.snapshot(), manifest.clock()
    expired = {name for name, at in snapshot.replaced if now - at >= older_than}
    deleted = sorted(expired)
    deleted += [name for name in _orphans(store, snapshot) if _age(store, name, now) >= older_than]
    deleted += [name for name in _outdated_inferred(store, snapshot) if _age(store, name, now) >= older_than]
    deleted += [name for name in store.names(SCRATCH) if _age(store, name, now) >= max(older_than, SCRATCH_GRACE)]
    for name in deleted:
        _delete(store, name)
    if expired:
        manifest.commit(lambda newest: _drop_deleted(newest, expired, manifest.clock()))
    return deleted


def _delete(store: Store, name: str) -> None:
    """Delete a file; of a commit, which is never deleted, its inline records."""
    if is_inline(name):
        store.put(name, (store.find(name) or b"").partition(b"\n")[0])
    else:
        store.delete(name)


def _merge(store: Store, folder: str, group: list[DataFile], version: int) -> DataFile:
    name = new_name(folder, group[0].first, version)
    rows = _checked(store, group, contiguous=folder == "segments")
    return describe_merged(name, write_rows(store, name, SCHEMAS[folder], rows), group)


def _checked(store: Store, group: list[DataFile], *, contiguous: bool) -> Iterator[pa.Table]:
    """The rows of the files, compared with the manifest: a merge must not make damage permanent."""
    for file in group:
        count = 0
        for batch in read_rows(store, file.name, file.first, file.stop):
            offsets = batch.column("offset").to_numpy()
            if contiguous and not np.array_equal(offsets, np.arange(len(offsets)) + file.first + count):
                break
            count += len(offsets)
            yield pa.Table.from_batches([batch])
        if count != file.rows:
            raise CorruptLakeError(
                f"{store.path(file.name)} does not hold the {file.rows} rows the manifest says",
                advice="Restore it from a backup; nothing was changed.",
            )


def _swap(store: Store, manifest: Manifest, group: list[DataFile], merged: DataFile) -> bool:
    """Commit the merged file in place of the group; False if another compaction has replaced one of them."""
    names = tuple(file.name for file in group)
    current = merged

    def propose(newest: Snapshot) -> Commit | None:
        nonlocal current
        if not {file.name for file in (*newest.segments, *newest.tables)}.issuperset(names):
            return None
        folder = current.name.partition("/")[0]
        name = new_name(folder, current.first, newest.version + 1)  # the version in the name must be that of the commit
        if not store.rename(current.name, name):
            return None
        current = current._replace(name=name)
        clock = manifest.clock()
        return Commit.after(newest, clock)._replace(add=(current,), remove=names, removed_at=clock)

    if manifest.commit(propose) is None:
        store.delete(current.name)
        return False
    return True


def _drop_deleted(newest: Snapshot, names: set[str], clock: int) -> Commit | None:
    deleted = tuple(name for name, _ in newest.replaced if name in names)
    return Commit.after(newest, clock)._replace(deleted=deleted) if deleted else None


def _orphans(store: Store, snapshot: Snapshot) -> Iterator[str]:
    """Files that no commit can add any more."""
    files = (*snapshot.segments, *snapshot.tables, *snapshot.zones)
    live = {file.name for file in files} | {name for name, _ in snapshot.replaced}
    for folder in (*SCHEMAS, "zones"):
        for name in store.names(folder):
            version = version_in(name)
            if name not in live and version is not None and version <= snapshot.version:
                yield name


def _outdated_inferred(store: Store, snapshot: Snapshot) -> list[str]:
    """Files of triples inferred with an earlier background."""
    if not store.names(FOLDER):
        return []
    background = ControlState().apply_all(snapshot.control_records(BackgroundChange)).background
    return outdated_files(store, [background_digest(background, mode) for mode in ENTAILMENTS])


def _age(store: Store, name: str, now: int) -> int:
    return now - (store.modified(name) or 0)


def find_problems(snapshot: Snapshot) -> list[str]:
    """Contradictions between the files of a lake, as texts; empty for a sound lake."""
    check = _LogCheck(snapshot)
    problems = [*_manifest_problems(snapshot), *check.problems(), *_table_problems(snapshot)]
    if not problems and check.settings != snapshot.settings:
        problems.append("the manifest's settings are not those of the last settings record")
    return problems


class _Append(NamedTuple):
    """A commit that appends records."""

    name: str
    first: int
    stop: int
    clock: int | None
    frontier: int | None  # after it


def _appends(snapshot: Snapshot) -> Iterator[_Append]:
    """The commits up to a snapshot that append records, also those whose files a compaction has replaced."""
    for version in range(1, snapshot.version + 1):
        data = snapshot.store.find(commit_name(version))
        if data is None:  # `_manifest_problems` says so
            return
        commit = Commit.from_bytes(data)
        for file in commit.add if not commit.remove else ():
            if file.name.startswith(RECORD_FOLDERS):
                yield _Append(commit_name(version), file.first, file.stop, commit.clock, commit.frontier)


class _LogCheck:
    """Checks the records of a snapshot in one pass, in offset order."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.appends = deque(_appends(snapshot))
        self.frontier: int | None = None
        self.settings = Settings()
        self.hashes: list[IdHashes] = []
        self.offsets: list[OffsetColumn] = []

    def problems(self) -> Iterator[str]:
        expected, is_complete = 0, True
        for segment in self.snapshot.segments:
            if segment.first != expected:
                yield f"{segment.name}: begins at offset {segment.first}, expected {expected}"
            expected = segment.stop
            appends = self._appends_of(segment)
            try:
                yield from self._segment(segment, appends)
            except LakeError as error:
                yield error.message
            self.frontier = appends[-1].frontier if appends else self.frontier
            is_complete = bool(appends)
        if is_complete and self.frontier != self.snapshot.frontier:
            yield f"the manifest's frontier is {self.snapshot.frontier}, the records give {self.frontier}"
        yield from self._ids()

    def _appends_of(self, segment: DataFile) -> list[_Append]:
        """The commits that appended the records of the next segment; none if one before is missing."""
        appends = []
        while self.appends and self.appends[0].stop <= segment.stop:
            appends.append(self.appends.popleft())
        return appends

    def _segment(self, segment: DataFile, appends: Sequence[_Append]) -> Iterator[str]:
        rows = list(read_rows(self.snapshot.store, segment.name, -(2**63), 2**63 - 1))
        records = pa.Table.from_batches(rows, RECORDS)
        offsets = records["offset"].to_numpy()
        if not np.array_equal(offsets, np.arange(segment.first, segment.stop)):
            yield f"{segment.name}: its offsets are not {segment.first} to {segment.stop - 1}"
            return
        if describe_segment(segment.name, segment.size, records) != segment:
            yield f"{segment.name}: the manifest describes it wrongly"
        for append in appends:
            rows = records.slice(append.first - segment.first, append.stop - append.first)
            yield from self._commit(segment, append, rows)
        events = records.filter(pc.equal(records["kind"], "event"))
        yield from _differences(segment.name, "digest", _wrong_digests(events))
        self.hashes.append(hash_ids(events["id"].to_pylist()))
        self.offsets.append(events["offset"].to_numpy())

    def _commit(self, segment: DataFile, append: _Append, records: pa.Table) -> Iterator[str]:
        """Problems of the records of one commit: their frontiers and late flags, and the frontier after them."""
        offsets, ends = records["offset"].to_numpy(), _instants(records["end"])
        is_event, is_tick = (pc.equal(records["kind"], kind).to_numpy() for kind in ("event", Tick.kind))
        late, stored = records["late"].to_numpy(), _instants(records["frontier"])
        before = np.full(len(offsets), NO_FRONTIER if self.frontier is None else self.frontier)
        if append.clock is None:  # of format 1: the frontier moved with each record
            before = np.maximum.accumulate(np.maximum(stored, before))
        yield from _differences(segment.name, "frontier", offsets[stored != before])
        expected = is_event & (ends < np.array([late_below(frontier) for frontier in stored.tolist()]))
        yield from _differences(segment.name, "late flag", offsets[late != expected])
        if append.clock is not None:
            moving = ends[is_event & ~late & ~records["stamped"].to_numpy()]
            newest_end = int(moving.max()) if len(moving) else None
            after = next_frontier(self.frontier, newest_end, ends[is_tick].tolist(), append.clock, self.settings)
            if after != append.frontier:
                yield f"{append.name}: its frontier is {append.frontier}, its records give {after}"
        self.frontier = append.frontier
        for change in control_records(records, SettingsChange):
            self.settings = change.settings

    def _ids(self) -> Iterator[str]:
        hashes = np.concatenate([np.empty(0, np.uint64), *self.hashes])
        offsets = np.concatenate([np.empty(0, np.int64), *self.offsets])
        order = np.argsort(hashes, kind="stable")
        same = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])
        for position in same:  # equal hashes are nearly always equal ids: rare in a sound lake
            pair = np.sort(offsets[order[position : position + 2]])
            first, second = self.snapshot.rows_at(pair, ["id"])["id"].to_pylist()
            if first == second:
                yield f"event <{first}> is at offset {pair[0]} and at {pair[1]}"
        for run in load_runs(self.snapshot.store, self.snapshot.next_offset):
            inside = order[(offsets[order] >= run.first) & (offsets[order] < run.stop)]
            if not (np.array_equal(run.hashes, hashes[inside]) and np.array_equal(run.offsets, offsets[inside])):
                yield f"{run_name(run.first, run.stop)}: does not agree with the log; delete it and it is rebuilt"


def _manifest_problems(snapshot: Snapshot) -> Iterator[str]:
    """Compares the snapshot with all commits: none may be missing, and the checkpoint must agree with them."""
    replayed = catch_up(Snapshot(snapshot.store))
    if replayed.version < snapshot.version:
        yield f"manifest: commit {replayed.version + 1} of {snapshot.version} is missing"
    elif replayed.version == snapshot.version and replayed != snapshot:
        yield "manifest/checkpoint.json: does not agree with the commits; delete it and it is rebuilt"


def _table_problems(snapshot: Snapshot) -> Iterator[str]:
    for table in snapshot.tables:
        try:
            rows = pa.Table.from_batches(read_rows(snapshot.store, table.name, table.first, table.stop), NOTIFICATIONS)
        except LakeError as error:
            yield error.message
            continue
        if rows.num_rows != table.rows:
            yield f"{table.name}: holds {rows.num_rows} notifications, the manifest says {table.rows}"
    if snapshot.notifications_end > snapshot.next_offset:
        yield f"notifications go to offset {snapshot.notifications_end}, the log ends at {snapshot.next_offset}"


def _wrong_digests(events: pa.Table) -> OffsetColumn:
    """The offsets of the events whose digest is not that of their content; those of format 1 have none."""
    pairs = zip(events["digest"].to_pylist(), content_digests(events), strict=True)
    is_wrong = [stored is not None and stored != computed for stored, computed in pairs]
    return events["offset"].to_numpy()[np.array(is_wrong, np.bool_)]


def _instants(column: pa.ChunkedArray) -> OffsetColumn:
    return pc.fill_null(column.cast(pa.int64()), NO_FRONTIER).to_numpy()


def _differences(name: str, what: str, offsets: OffsetColumn) -> Iterator[str]:
    if len(offsets):
        yield f"{name}: {len(offsets)} records with a wrong {what}, the first at offset {offsets[0]}"
