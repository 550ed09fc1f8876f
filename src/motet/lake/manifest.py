"""The manifest: numbered commits that add and replace data files, replayed to a snapshot.

Commit *n* is a small file written put-if-absent, so exactly one writer creates it; the others read it and try again
with the next number. Its first line is JSON; inline records follow that line. Commits are never deleted: if a number
became free, a writer that was suspended for a week could commit into the past. A manifest checkpoint, which can be
rebuilt, saves reading all commits when a lake is opened.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import reduce
from typing import Any, NamedTuple

from motet.lake.snapshot import DataFile, FileList, Snapshot
from motet.lake.store import Store
from motet.model.errors import CorruptLakeError, LakeError

CHECKPOINT = "manifest/checkpoint.json"
CHECKPOINT_EVERY = 100
# JSON as format strings: for the commit of one event a JSON encoder would take longer than all but the disk.
_LINE = '{"frontier":%s,"notified_to":%d,"remove":%s,"removed_at":%s,"forget":%s,"add":[%s]}'
_FILE = '{"name":"%s","first":%d,"stop":%d,"rows":%d,"size":%d,"kinds":{%s},"late":%d,"start":%s,"end":%s}'


class Commit(NamedTuple):
    """One step from a version to the next."""

    frontier: int | None  # after it
    notifications_end: int  # after it
    add: tuple[DataFile, ...] = ()
    remove: tuple[str, ...] = ()  # files that the added ones replace
    removed_at: int | None = None
    deleted: tuple[str, ...] = ()  # files replaced earlier that a vacuum has deleted
    records: bytes | memoryview = b""  # one record batch, described by the file in ``add`` that has the commit's name

    def to_bytes(self) -> bytes:
        files = ",".join([_file_json(file) for file in self.add])
        line = _LINE % (
            _integer_json(self.frontier), self.notifications_end, _names_json(self.remove),
            _integer_json(self.removed_at), _names_json(self.deleted), files,
        )  # fmt: skip
        return b"\n".join((line.encode(), self.records)) if self.records else line.encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Commit:
        fields = json.loads(data.partition(b"\n")[0])
        add = tuple(DataFile(**file) for file in fields["add"])
        remove, deleted = tuple(fields["remove"]), tuple(fields["forget"])
        return cls(fields["frontier"], fields["notified_to"], add, remove, fields["removed_at"], deleted)


class CommitConflict(Exception):  # noqa: N818  (not an error: the commit is tried again)
    """Another writer has taken the commit number."""


class Manifest:
    """The commits of one lake, and the newest snapshot this process has read. Threads may share it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.writing = threading.RLock()
        self._caching = threading.Lock()
        self.cached_snapshot = replay_from_checkpoint(store)

    def snapshot(self) -> Snapshot:
        """The newest version: reads only the commits after the cached one."""
        cached = self.cached_snapshot
        newest = catch_up(cached)
        if newest is not cached:
            self._cache(newest)
        return newest

    def commit(self, propose: Callable[[Snapshot], Commit | None], *, optimistic: bool = False) -> Snapshot | None:
        """Write the commit that ``propose`` returns for the newest version, and return the version after it.

        On a commit conflict ``propose`` is called again with the newer version; files it wrote before are removed by a
        vacuum. If it returns None, nothing is committed. An ``optimistic`` commit is first tried on the cached version
        and without the lock: for proposals that cost little and are right for any version whose files still exist.
        """
        with self.writing:
            if optimistic:
                with suppress(CommitConflict):
                    return self._attempt(propose, self.cached_snapshot)
            with self._store.lock():
                while True:
                    with suppress(CommitConflict):
                        return self._attempt(propose, self.snapshot())

    def _attempt(self, propose: Callable[[Snapshot], Commit | None], before: Snapshot) -> Snapshot | None:
        try:
            commit = propose(before)
        except LakeError:
            if self.snapshot().version == before.version:
                raise
            raise CommitConflict from None
        if commit is None:
            return None
        after = _after(before, commit)
        if not self._store.put_if_absent(commit_name(after.version), commit.to_bytes()):
            raise CommitConflict
        self._cache(after)
        self._checkpoint(after)
        return after

    def _cache(self, snapshot: Snapshot) -> None:
        """Keep a snapshot as the cached one, unless another thread has read a newer one."""
        with self._caching:
            if snapshot.version > self.cached_snapshot.version:
                self.cached_snapshot = snapshot

    def _checkpoint(self, snapshot: Snapshot) -> None:
        """Write a checkpoint now and then; the larger the lake, the rarer, since it lists all files."""
        if snapshot.version % CHECKPOINT_EVERY:
            return
        size = len(snapshot.segments) + len(snapshot.tables)
        every = CHECKPOINT_EVERY << max((size // CHECKPOINT_EVERY).bit_length() - 1, 0)
        if snapshot.version % every == 0:
            with suppress(LakeError):  # it can be rebuilt: the commit is valid without it
                self._store.put(CHECKPOINT, _to_checkpoint(snapshot))


def commit_name(version: int) -> str:
    return f"manifest/{version:020}.json"


def replay_from_checkpoint(store: Store) -> Snapshot:
    """The newest snapshot, from the checkpoint if there is a valid one, else from the first commit."""
    data = store.find(CHECKPOINT)
    if data is not None:
        with suppress(ValueError, KeyError, TypeError):  # a damaged checkpoint costs time only
            return catch_up(_from_checkpoint(store, data))
    return catch_up(Snapshot(store))


def catch_up(snapshot: Snapshot) -> Snapshot:
    """The snapshot after all commits that follow it."""
    commits: list[Commit] = []
    while True:
        name = commit_name(snapshot.version + len(commits) + 1)
        data = snapshot.store.find(name)
        if data is None:
            return reduce(_after, commits, snapshot)
        try:
            commits.append(Commit.from_bytes(data))
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptLakeError(
                f"{snapshot.store.path(name)} is not a complete commit: {error}", advice="Restore it from a backup."
            ) from error


def _after(before: Snapshot, commit: Commit) -> Snapshot:
    version, replaced = before.version + 1, before.replaced
    tables = [file for file in commit.add if file.name.startswith("notifications/")]
    segments = [file for file in commit.add if not file.name.startswith("notifications/")] if commit.add else []
    if segments and not commit.remove:
        _check_next(before.store, version, before.segments, segments[0], contiguous=True)
    if tables and not commit.remove:
        _check_next(before.store, version, before.tables, tables[0], contiguous=False)
    if commit.remove:
        replaced = (*replaced, *((name, commit.removed_at or 0) for name in commit.remove))
    if commit.deleted:
        deleted = set(commit.deleted)
        replaced = tuple((name, at) for name, at in replaced if name not in deleted)
    return Snapshot(
        before.store,
        version,
        _changed(before.segments, segments, commit.remove),
        _changed(before.tables, tables, commit.remove),
        commit.frontier,
        commit.notifications_end,
        replaced,
    )


def _changed(files: Sequence[DataFile], added: list[DataFile], removed: tuple[str, ...]) -> Sequence[DataFile]:
    if removed:
        removed_names = set(removed)
        remaining = (file for file in files if file.name not in removed_names)
        return FileList(sorted([*remaining, *added], key=lambda file: file.first))
    if not added:
        return files
    return files.extended(added) if isinstance(files, FileList) else FileList([*files, *added])


def _check_next(store: Store, version: int, files: Sequence[DataFile], file: DataFile, *, contiguous: bool) -> None:
    expected = files[-1].stop if files else 0
    if file.first != expected if contiguous else file.first < expected:
        raise CorruptLakeError(
            f"{store.path(commit_name(version))} adds offset {file.first} after {expected}",
            advice="Files of different lakes may have been mixed: restore the manifest folder from a backup.",
        )


def _to_checkpoint(snapshot: Snapshot) -> bytes:
    state = {
        "version": snapshot.version,
        "segments": snapshot.segments[:],
        "tables": snapshot.tables[:],
        "frontier": snapshot.frontier,
        "notified_to": snapshot.notifications_end,
        "replaced": snapshot.replaced,
    }
    return json.dumps(state, separators=(",", ":")).encode()


def _file_json(file: DataFile) -> str:
    name, first, stop, rows, size, kinds, late, start, end = file
    counts = ",".join([f'"{kind}":{count}' for kind, count in kinds.items()])
    return _FILE % (name, first, stop, rows, size, counts, late, _integer_json(start), _integer_json(end))


def _integer_json(value: int | None) -> int | str:
    return "null" if value is None else value


def _names_json(names: Sequence[str]) -> str:
    return json.dumps(names) if names else "[]"


def _from_checkpoint(store: Store, data: bytes) -> Snapshot:
    state: dict[str, Any] = json.loads(data)
    segments, tables = (FileList(DataFile(*row) for row in state[name]) for name in ("segments", "tables"))
    replaced = tuple((name, at) for name, at in state["replaced"])
    return Snapshot(store, state["version"], segments, tables, state["frontier"], state["notified_to"], replaced)
