"""How many small files become few large ones, and how files nobody needs go away.

Records keep their offsets, order and content; only the files change. A snapshot taken before goes on reading the old
files until a vacuum whose grace period has passed removes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from motet.lake.files import DataFile, union
from motet.lake.manifest import Commit, Manifest
from motet.lake.segments import is_inline, new_name, read_rows, version_in, write_rows
from motet.lake.snapshot import Snapshot
from motet.lake.store import SCRATCH, Store
from motet.model.batches import NOTIFICATIONS, RECORDS
from motet.model.errors import CorruptLakeError

TARGET_ROWS = 1_000_000
TARGET_BYTES = 128 << 20
SCRATCH_GRACE = 60_000_000  # microseconds; a scratch file this old belongs to a writer that died
SCHEMAS = {"segments": RECORDS, "notifications": NOTIFICATIONS}


@dataclass(frozen=True)
class Compacted:
    """What a compaction did: so many files became so many, holding so many rows."""

    before: int = 0
    after: int = 0
    rows: int = 0


def compact(store: Store, manifest: Manifest, target_rows: int, target_bytes: int, now: int) -> Compacted:
    """Merge neighbouring small files, one commit per merged file."""
    snapshot = manifest.snapshot()
    before = after = rows = 0
    for folder, files in (("segments", snapshot.segments), ("notifications", snapshot.tables)):
        for group in plan(files, target_rows, target_bytes):
            merged = _merge(store, folder, group, snapshot.version + 1)
            if _swap(store, manifest, group, merged, now):
                before, after, rows = before + len(group), after + 1, rows + merged.rows
    return Compacted(before, after, rows)


def plan(files: Sequence[DataFile], target_rows: int, target_bytes: int) -> list[list[DataFile]]:
    """Neighbours that together stay within the target. A file larger than all that follow it in its group is left out,
    so that a row is rewritten a logarithmic number of times, however often one compacts.

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


def vacuum(store: Store, manifest: Manifest, older_than: int, now: int) -> list[str]:
    """Delete what was replaced, and what no commit ever took in, at least ``older_than`` microseconds ago."""
    snapshot = manifest.snapshot()
    expired = {name for name, at in snapshot.replaced if now - at >= older_than}
    deleted = sorted(expired)
    deleted += [name for name in _orphans(store, snapshot) if _age(store, name, now) >= older_than]
    deleted += [name for name in store.names(SCRATCH) if _age(store, name, now) >= max(older_than, SCRATCH_GRACE)]
    for name in deleted:
        _delete(store, name)
    if expired:
        manifest.commit(lambda newest: _forgetting(newest, expired))
    return deleted


def _delete(store: Store, name: str) -> None:
    """Remove a file; of a commit, which stays for ever, the records behind its line."""
    if is_inline(name):
        store.put(name, (store.find(name) or b"").partition(b"\n")[0])
    else:
        store.delete(name)


def _merge(store: Store, folder: str, group: list[DataFile], version: int) -> DataFile:
    name = new_name(folder, group[0].first, version)
    rows = _checked(store, group, contiguous=folder == "segments")
    return union(name, write_rows(store, name, SCHEMAS[folder], rows), group)


def _checked(store: Store, group: list[DataFile], *, contiguous: bool) -> Iterator[pa.Table]:
    """The rows of the files, never fewer or others than the manifest says: a merge must not make damage permanent."""
    for file in group:
        seen = 0
        for batch in read_rows(store, file.name, file.first, file.stop):
            offsets = batch.column("offset").to_numpy()
            if contiguous and not np.array_equal(offsets, np.arange(len(offsets)) + file.first + seen):
                break
            seen += len(offsets)
            yield pa.Table.from_batches([batch])
        if seen != file.rows:
            raise CorruptLakeError(
                f"{store.path(file.name)} does not hold the {file.rows} rows the manifest says",
                advice="Bring it back from a backup; nothing was changed.",
            )


def _swap(store: Store, manifest: Manifest, group: list[DataFile], merged: DataFile, now: int) -> bool:
    """Commit the merged file in place of the group; False when another compaction has taken one of them."""
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
        return Commit(newest.frontier, newest.notified_to, add=(current,), remove=names, removed_at=now)

    if manifest.commit(propose) is None:
        store.delete(current.name)
        return False
    return True


def _forgetting(newest: Snapshot, names: set[str]) -> Commit | None:
    forget = tuple(name for name, _ in newest.replaced if name in names)
    return Commit(newest.frontier, newest.notified_to, forget=forget) if forget else None


def _orphans(store: Store, snapshot: Snapshot) -> Iterator[str]:
    """Files that no commit can ever take in."""
    live = {file.name for file in (*snapshot.segments, *snapshot.tables)} | {name for name, _ in snapshot.replaced}
    for folder in SCHEMAS:
        for name in store.names(folder):
            version = version_in(name)
            if name not in live and version is not None and version <= snapshot.version:
                yield name


def _age(store: Store, name: str, now: int) -> int:
    return now - (store.modified(name) or 0)
