"""The manifest: numbered commits that add and replace data files, replayed to a snapshot.

Commit *n* is a small file written put-if-absent, so exactly one writer creates it; the others read it and try again
with the next number. Its first line is JSON; inline records follow that line. Commits are never deleted: if a number
became free, a writer that was suspended for a week could commit into the past. A manifest checkpoint, which can be
rebuilt, saves reading all commits when a lake is opened.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import reduce
from typing import Any, NamedTuple, overload

from motet.lake.segments import INLINE_FOLDER
from motet.lake.snapshot import DataFile, Snapshot
from motet.lake.store import Store
from motet.model.errors import CorruptLakeError, LakeError
from motet.model.settings import Settings

CHECKPOINT = "manifest/checkpoint.json"
CHECKPOINT_EVERY = 100
_NULL = "null"
_FILE_FIELDS = frozenset(DataFile._fields)


class Commit(NamedTuple):
    """One step from a version to the next."""

    clock: int | None  # of its writer; None: a commit of format 1
    frontier: int | None  # after it
    delay: int | None  # after it, see `Snapshot.delay`
    notifications_end: int  # after it
    settings: Settings | None = None  # after it, if it changes them
    add: tuple[DataFile, ...] = ()
    remove: tuple[str, ...] = ()  # files that the added ones replace
    removed_at: int | None = None
    deleted: tuple[str, ...] = ()  # files replaced earlier that a vacuum has deleted
    records: bytes | memoryview = b""  # inline, described by the file in ``add`` that has the commit's name
    zones_end: int | None = None  # after it, if it changes the zones

    @classmethod
    def after(cls, before: Snapshot, clock: int) -> Commit:
        """A commit that changes nothing."""
        return cls(clock, before.frontier, before.delay, before.notifications_end)

    def to_bytes(self) -> bytes:
        # JSON as f-strings: for the commit of one event an encoder would take longer than all but the disk
        clock, frontier, delay, notifications_end, settings, add, remove, removed_at, deleted, _, zones_end = self
        zoned = "" if zones_end is None else f'"zoned_to":{zones_end},'
        changed = "" if settings is None else f'"settings":{settings.to_json()},'
        line = (
            f'{{"clock":{_NULL if clock is None else clock},"frontier":{_NULL if frontier is None else frontier},'
            f'"delay":{_NULL if delay is None else delay},"notified_to":{notifications_end},{changed}{zoned}'
            f'"remove":{_names_json(remove)},"removed_at":{_NULL if removed_at is None else removed_at},'
            f'"forget":{_names_json(deleted)},"add":[{",".join(map(_file_json, add))}]}}'
        )
        return b"\n".join((line.encode(), self.records)) if self.records else line.encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Commit:
        """The commit in a file, without inline records; keys that this version does not know are ignored."""
        fields = json.loads(data.partition(b"\n")[0])
        settings = Settings.from_json(json.dumps(fields["settings"])) if "settings" in fields else None
        return cls(
            fields.get("clock"),
            fields["frontier"],
            fields.get("delay"),
            fields["notified_to"],
            settings,
            tuple(map(_file_from_json, fields["add"])),
            tuple(fields["remove"]),
            fields["removed_at"],
            tuple(fields["forget"]),
            zones_end=fields.get("zoned_to"),
        )


Clock = Callable[[], int]  # UTC microseconds
RECORD_FOLDERS = ("segments/", INLINE_FOLDER)
ZONE_FOLDER = "zones/"


class FileList(Sequence[DataFile]):
    """An immutable list of data files. Extending one shares its elements, so that it costs little.

    >>> short = FileList([DataFile("a", 0, 1, 1, 9)])
    >>> long = short.extended([DataFile("b", 1, 2, 1, 9)])
    >>> len(short), len(long), long[1].name
    (1, 2, 'b')
    """

    __slots__ = ("_shared", "_size")

    def __init__(self, files: Iterable[DataFile] = ()) -> None:
        self._shared = _Shared(list(files))
        self._size = len(self._shared.files)

    def extended(self, more: Sequence[DataFile]) -> FileList:
        """The list with more files at its end."""
        extended = FileList.__new__(FileList)
        extended._shared = self._shared.grown(self._size, more)
        extended._size = self._size + len(more)
        return extended

    @overload
    def __getitem__(self, index: int) -> DataFile: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[DataFile, ...]: ...

    def __getitem__(self, index: int | slice) -> DataFile | tuple[DataFile, ...]:
        if index == -1 and self._size:  # nearly all calls
            return self._shared.files[self._size - 1]
        if isinstance(index, slice):
            start, stop, step = index.indices(self._size)
            return tuple(self._shared.files[start : max(start, stop) : step])
        return self._shared.files[range(self._size)[index]]

    def __len__(self) -> int:
        return self._size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # the files have dictionaries in them

    def __reduce__(self) -> tuple[type[FileList], tuple[tuple[DataFile, ...]]]:
        return FileList, (self[:],)


class _Shared:
    """The elements of several lists; the longest of them can be extended in place."""

    def __init__(self, files: list[DataFile]) -> None:
        self.files = files
        self._growing = threading.Lock()

    def grown(self, size: int, more: Sequence[DataFile]) -> _Shared:
        """The first ``size`` elements, followed by more."""
        with self._growing:
            if size == len(self.files):
                self.files.extend(more)
                return self
            return _Shared([*self.files[:size], *more])


class Manifest:
    """The commits of one lake, and the newest snapshot this process has read. Threads may share it."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self.clock = clock
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

    def write(self, before: Snapshot, commit: Commit) -> Snapshot | None:
        """Write the commit that follows a version; None if another writer has taken its number.

        Returns the version after it.
        """
        data, after = commit.to_bytes(), _after(before, commit)
        if not self._store.put_if_absent(commit_name(after.version), data):
            return None
        self._cache(after)
        if after.version % CHECKPOINT_EVERY == 0:
            self._checkpoint(after)
        return after

    def commit(self, propose: Callable[[Snapshot], Commit | None]) -> Snapshot | None:
        """Write the commit that ``propose`` returns for the newest version, and return the version after it.

        After a commit conflict ``propose`` is called again with the newer version; files it wrote before are removed by
        a vacuum. If it returns None, nothing is committed.
        """
        with self.writing, self._store.lock():
            while True:
                newest = self.snapshot()
                try:
                    commit = propose(newest)
                except LakeError:
                    if self.is_newest(newest):
                        raise
                    continue
                if commit is None:
                    return None
                if (after := self.write(newest, commit)) is not None:
                    return after

    def is_newest(self, snapshot: Snapshot) -> bool:
        """Whether no commit follows a version; files of an outdated one may have been vacuumed."""
        return self.snapshot().version == snapshot.version

    def _cache(self, snapshot: Snapshot) -> None:
        """Keep a snapshot as the cached one, unless another thread has read a newer one."""
        with self._caching:
            if snapshot.version > self.cached_snapshot.version:
                self.cached_snapshot = snapshot

    def _checkpoint(self, snapshot: Snapshot) -> None:
        """Write a checkpoint now and then; the larger the lake, the rarer, since it lists all files."""
        size = len(snapshot.segments) + len(snapshot.tables)
        every = CHECKPOINT_EVERY << max((size // CHECKPOINT_EVERY).bit_length() - 1, 0)
        if snapshot.version % every == 0:
            with suppress(LakeError):  # it can be rebuilt: the commit is valid without it
                self._store.put(CHECKPOINT, _to_checkpoint(snapshot))


def commit_name(version: int) -> str:
    """The name of a commit's file, which also holds its inline records."""
    return f"{INLINE_FOLDER}{version:020}.json"


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
    """The version after a commit."""
    version, replaced = before.version + 1, before.replaced
    segments: list[DataFile] = []
    tables: list[DataFile] = []
    zones: list[DataFile] = []
    for file in commit.add:  # other kinds are ignored
        if file.name.startswith(RECORD_FOLDERS):
            segments.append(file)
        elif file.name.startswith("notifications/"):
            tables.append(file)
        elif file.name.startswith(ZONE_FOLDER):
            zones.append(file)
    if segments and not commit.remove:
        _check_next(before.store, version, before.next_offset, segments[0], contiguous=True)
    if tables and not commit.remove:
        expected = before.tables[-1].stop if before.tables else 0
        _check_next(before.store, version, expected, tables[0], contiguous=False)
    if commit.remove:
        replaced = (*replaced, *((name, commit.removed_at or 0) for name in commit.remove))
    if commit.deleted:
        deleted = set(commit.deleted)
        replaced = tuple((name, at) for name, at in replaced if name not in deleted)
    return Snapshot(
        before.store,
        version,
        _changed(before.segments, segments, commit.remove) if segments or commit.remove else before.segments,
        _changed(before.tables, tables, commit.remove) if tables or commit.remove else before.tables,
        commit.frontier,
        commit.notifications_end,
        replaced,
        before.settings if commit.settings is None else commit.settings,
        commit.clock,
        commit.delay,
        before.has_settings or commit.settings is not None,
        before.zones if commit.zones_end is None else _changed(before.zones, zones, commit.remove),
        before.zones_end if commit.zones_end is None else commit.zones_end,
        segments[-1].stop if segments and not commit.remove else before.next_offset,
    )


def _changed(files: Sequence[DataFile], added: list[DataFile], removed: tuple[str, ...]) -> Sequence[DataFile]:
    if removed:
        removed_names = set(removed)
        remaining = (file for file in files if file.name not in removed_names)
        return FileList(sorted([*remaining, *added], key=lambda file: file.first))
    return files.extended(added) if isinstance(files, FileList) else FileList([*files, *added])


def _check_next(store: Store, version: int, expected: int, file: DataFile, *, contiguous: bool) -> None:
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
        "settings": asdict(snapshot.settings) if snapshot.has_settings else None,
        "clock": snapshot.clock,
        "delay": snapshot.delay,
        "zones": snapshot.zones[:],
        "zoned_to": snapshot.zones_end,
    }
    return json.dumps(state, separators=(",", ":")).encode()


def _file_json(file: DataFile) -> str:
    name, first, stop, rows, size, kinds, late, start, end, stamped, zone = file
    described = "" if zone is None else f',"zone":{json.dumps(zone)}'
    counts = ",".join([f'"{kind}":{count}' for kind, count in kinds.items()])
    return (
        f'{{"name":"{name}","first":{first},"stop":{stop},"rows":{rows},"size":{size},"kinds":{{{counts}}},'
        f'"late":{late},"start":{_NULL if start is None else start},"end":{_NULL if end is None else end},'
        f'"stamped":{stamped}{described}}}'
    )


def _file_from_json(file: dict[str, Any]) -> DataFile:
    return DataFile(
        **file if file.keys() <= _FILE_FIELDS else {name: file[name] for name in file.keys() & _FILE_FIELDS}
    )


def _names_json(names: Sequence[str]) -> str:
    return json.dumps(names) if names else "[]"


def _from_checkpoint(store: Store, data: bytes) -> Snapshot:
    state: dict[str, Any] = json.loads(data)
    width = len(DataFile._fields)
    segments, tables = (FileList(DataFile(*row[:width]) for row in state[name]) for name in ("segments", "tables"))
    stored = state["settings"]
    return Snapshot(
        store,
        state["version"],
        segments,
        tables,
        state["frontier"],
        state["notified_to"],
        tuple((name, at) for name, at in state["replaced"]),
        Settings() if stored is None else Settings.from_json(json.dumps(stored)),
        state["clock"],
        state["delay"],
        stored is not None,
        FileList(DataFile(*row[:width]) for row in state.get("zones", ())),
        state.get("zoned_to", 0),
        segments[-1].stop if segments else 0,
    )
