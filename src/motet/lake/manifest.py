"""Which files are the lake: numbered commits, replayed to a snapshot.

Commit *n* is a small JSON file written put-if-absent, so exactly one writer makes it; the others read it and think
again. Commits are never deleted: a number that could become free again would let a writer that slept for a week commit
into the past. A checkpoint, derived and replaceable, spares opening from reading the whole history.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from motet.lake.snapshot import DataFile, Snapshot
from motet.lake.store import Store
from motet.model.errors import CorruptLakeError, LakeError

CHECKPOINT = "manifest/checkpoint.json"
CHECKPOINT_EVERY = 100
_COLUMNS = [column.name for column in fields(DataFile)]


@dataclass(frozen=True)
class Commit:
    """One step from a version to the next."""

    frontier: int | None  # after it
    notified_to: int  # after it
    add: tuple[DataFile, ...] = ()
    remove: tuple[str, ...] = ()  # replaced by what is added
    removed_at: int | None = None
    forget: tuple[str, ...] = ()  # replaced long ago, and deleted now

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Commit:
        parts = json.loads(data)
        parts["add"] = [DataFile(**file) for file in parts["add"]]
        return cls(**parts | {name: tuple(parts[name]) for name in ("add", "remove", "forget")})


class Manifest:
    """The commits of one lake, and the newest snapshot this process knows. Threads may share it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.writing = threading.RLock()
        self._known = replay_from_checkpoint(store)

    def snapshot(self) -> Snapshot:
        """The newest version: looks for the next commit numbers only."""
        newest = catch_up(self._known)
        if newest.version > self._known.version:
            self._known = newest
        return newest

    def commit(self, propose: Callable[[Snapshot], Commit | None]) -> Snapshot | None:
        """Make the next version from what ``propose`` says about the newest one; it is asked again when another
        writer came first. None when it proposes nothing. A proposal that lost leaves files that a vacuum removes.
        """
        with self.writing, self._store.lock():
            while True:
                before = self.snapshot()
                commit = propose(before)
                if commit is None:
                    return None
                after = _apply(before, [commit])
                if self._store.put_if_absent(commit_name(after.version), commit.to_json()):
                    self._known = after
                    self._checkpoint(after)
                    return after

    def _checkpoint(self, snapshot: Snapshot) -> None:
        if snapshot.version % CHECKPOINT_EVERY == 0:
            with suppress(LakeError):  # derived: the commit stands, and the next hundred will try again
                self._store.put(CHECKPOINT, _to_checkpoint(snapshot))


def commit_name(version: int) -> str:
    return f"manifest/{version:020}.json"


def replay_from_checkpoint(store: Store) -> Snapshot:
    """The newest snapshot, from the checkpoint when there is a good one, else from the first commit."""
    data = store.find(CHECKPOINT)
    if data is not None:
        with suppress(ValueError, KeyError, TypeError):  # derived: a damaged one costs time, nothing else
            return catch_up(_from_checkpoint(store, data))
    return catch_up(Snapshot(store))


def catch_up(snapshot: Snapshot) -> Snapshot:
    """The snapshot after every commit that follows it."""
    commits: list[Commit] = []
    while True:
        name = commit_name(snapshot.version + len(commits) + 1)
        data = snapshot.store.find(name)
        if data is None:
            return _apply(snapshot, commits) if commits else snapshot
        try:
            commits.append(Commit.from_json(data))
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptLakeError(
                f"{snapshot.store.path(name)} is not a whole commit: {error}", advice="Bring it back from a backup."
            ) from error


def _apply(snapshot: Snapshot, commits: list[Commit]) -> Snapshot:
    segments, tables = list(snapshot.segments), list(snapshot.tables)
    replaced = list(snapshot.replaced)
    version = snapshot.version
    for commit in commits:
        version += 1
        for folder, files in (("segments/", segments), ("notifications/", tables)):
            added = [file for file in commit.add if file.name.startswith(folder)]
            removed = {name for name in commit.remove if name.startswith(folder)}
            if removed:
                files[:] = sorted([f for f in files if f.name not in removed] + added, key=lambda file: file.first)
            elif added:
                _check_next(snapshot.store, version, files, added[0], contiguous=folder == "segments/")
                files.extend(added)
        replaced += [(name, commit.removed_at or 0) for name in commit.remove]
        if commit.forget:
            replaced = [(name, at) for name, at in replaced if name not in commit.forget]
    last = commits[-1]
    return replace(
        snapshot,
        version=version,
        segments=tuple(segments),
        tables=tuple(tables),
        frontier=last.frontier,
        notified_to=last.notified_to,
        replaced=tuple(replaced),
    )


def _check_next(store: Store, version: int, files: list[DataFile], file: DataFile, *, contiguous: bool) -> None:
    expected = files[-1].stop if files else 0
    if file.first != expected if contiguous else file.first < expected:
        raise CorruptLakeError(
            f"{store.path(commit_name(version))} adds offset {file.first} after {expected}",
            advice="Files of different lakes may have been mixed: bring the manifest folder back from a backup.",
        )


def _to_checkpoint(snapshot: Snapshot) -> bytes:
    state = {
        "version": snapshot.version,
        "segments": [_row(file) for file in snapshot.segments],
        "tables": [_row(file) for file in snapshot.tables],
        "frontier": snapshot.frontier,
        "notified_to": snapshot.notified_to,
        "replaced": snapshot.replaced,
    }
    return json.dumps(state, separators=(",", ":")).encode()


def _row(file: DataFile) -> list[object]:
    return [getattr(file, column) for column in _COLUMNS]


def _from_checkpoint(store: Store, data: bytes) -> Snapshot:
    state: dict[str, Any] = json.loads(data)
    files = {name: tuple(DataFile(*row) for row in state[name]) for name in ("segments", "tables")}
    replaced = tuple((name, at) for name, at in state["replaced"])
    return Snapshot(store, **state | files | {"replaced": replaced})
