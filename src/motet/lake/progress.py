"""Progress of readers and writers of a lake: consumers' cursors, state snapshots of engines, ingested files.

These are small files beside the log. Each can be lost without loss of data: notifications are then delivered again,
records read again, files ingested again.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from hashlib import blake2b
from urllib.parse import quote

from motet.lake.store import Store
from motet.model.errors import CorruptLakeError, UsageError

_CURSORS, _STATES, _SOURCES = "consumers", "states", "sources"  # folders
_SHARED = "+"  # first character of the names of cursor files; in a consumer's own file name it would be quoted
_MAX_STATES = 2  # the newest two: while one is being written, another is complete
_MAX_NOTES = 64  # files that list ingested files; more are merged into one


# Cursors. A consumer can have a file of its own. A process that serves many consumers writes one file for all of them,
# and merges the files of processes before it; the greatest offset counts.


def read_cursor(store: Store, consumer: str) -> int:
    """The offset up to which the consumer has everything; 0 for a new one."""
    return read_cursors(store, [consumer])[consumer]


def read_cursors(store: Store, consumers: Iterable[str]) -> dict[str, int]:
    """The cursors of some consumers."""
    shared = [_read_cursor_file(store, name) for name in _cursor_files(store)]
    return {
        consumer: max(_read_single_cursor(store, consumer), *(cursors.get(consumer, 0) for cursors in shared), 0)
        for consumer in consumers
    }


def advance_cursor(store: Store, consumer: str, offset: int) -> None:
    """Move a consumer's cursor to an offset; it has everything below."""
    if offset < (current := read_cursor(store, consumer)):
        raise UsageError(f"consumer {consumer!r} is at offset {current} and cannot go back to {offset}")
    store.put(_cursor_name(consumer), json.dumps({"consumer": consumer, "offset": offset}).encode())


class CursorFile:
    """The cursors of all consumers that one process serves."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._name = f"{_CURSORS}/{_SHARED}{secrets.token_hex(8)}.json"
        self._cursors: dict[str, int] | None = None

    def advance(self, offsets: Mapping[str, int]) -> None:
        """Move these consumers' cursors, each to its offset unless it is farther."""
        merged_files = _cursor_files(self._store) if self._cursors is None else []
        cursors = dict(self._cursors or {})
        for name in merged_files:
            _merge_cursors(cursors, _read_cursor_file(self._store, name))
        _merge_cursors(cursors, offsets)
        self._store.put(self._name, json.dumps({"cursors": cursors}).encode())
        self._cursors = cursors
        for name in merged_files:  # a process that still uses one of these writes it again, whole
            self._store.delete(name)


def _merge_cursors(cursors: dict[str, int], offsets: Mapping[str, int]) -> None:
    for consumer, offset in offsets.items():
        cursors[consumer] = max(offset, cursors.get(consumer, 0))


def _cursor_files(store: Store) -> list[str]:
    return [name for name in store.names(_CURSORS) if name.startswith(f"{_CURSORS}/{_SHARED}")]


def _read_cursor_file(store: Store, name: str) -> dict[str, int]:
    data = store.find(name)
    if data is None:  # merged by another process since it was listed: that file is listed too, or repeats a little
        return {}
    try:
        return {str(consumer): int(offset) for consumer, offset in json.loads(data)["cursors"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _cursor_error(store, name, error) from error


def _read_single_cursor(store: Store, consumer: str) -> int:
    name = _cursor_name(consumer)
    data = store.find(name)
    if data is None:
        return 0
    try:
        return int(json.loads(data)["offset"])
    except (ValueError, KeyError, TypeError) as error:
        raise _cursor_error(store, name, error) from error


def _cursor_error(store: Store, name: str, error: Exception) -> CorruptLakeError:
    advice = "Delete it to deliver everything again."
    return CorruptLakeError(f"{store.path(name)} is not a cursor: {error}", advice=advice)


def _cursor_name(consumer: str) -> str:
    quoted = quote(consumer, safe="")
    if not 0 < len(quoted) <= 200:
        raise UsageError(f"{consumer[:40]!r} is no name for a consumer", advice="Use 1 to 200 characters.")
    return f"{_CURSORS}/{quoted}.json"


# State snapshots. One that is missing, old or damaged is computed again from the log.


def write_state(store: Store, offset: int, data: bytes) -> None:
    """Store the state snapshot of an engine that has processed all records below an offset."""
    store.put(f"{_STATES}/{offset:020d}.state", data)
    for name in store.names(_STATES)[:-_MAX_STATES]:
        store.delete(name)


def read_states(store: Store, stop: int) -> Iterator[tuple[int, bytes]]:
    """The state snapshots at or below an offset, the newest first, each with its offset."""
    for name in reversed(store.names(_STATES)):
        offset = int(name.removeprefix(f"{_STATES}/").removesuffix(".state"))
        data = store.find(name) if offset <= stop else None
        if data is not None:
            yield offset, data


# Ingested files. Reading a file again adds no event, since the log holds their IRIs: so the list is written after the
# commit of the events, and a damaged one counts as empty.


FileStamp = tuple[int, int]  # a file's size in bytes and the time it was last written, in nanoseconds


class IngestedFiles:
    """The files of one source that have been ingested, by name, with size and time."""

    def __init__(self, store: Store, source: str) -> None:
        self._store = store
        self._prefix = f"{_SOURCES}/{blake2b(source.encode(), digest_size=8).hexdigest()}-"
        self._notes = [name for name in store.names(_SOURCES) if name.startswith(self._prefix)]
        self._files: dict[str, FileStamp] = {}
        for name in self._notes:
            self._files |= _read_note(store, name)

    def holds(self, name: str, stamp: FileStamp) -> bool:
        """Whether a file has been ingested and not changed since."""
        return self._files.get(name) == stamp

    def add(self, files: Mapping[str, FileStamp]) -> None:
        """Store that these files have been ingested."""
        self._files |= files
        is_merging = len(self._notes) >= _MAX_NOTES
        note = f"{self._prefix}{secrets.token_hex(8)}.json"
        self._store.put(note, json.dumps(self._files if is_merging else dict(files)).encode())
        if is_merging:
            for name in self._notes:
                self._store.delete(name)
            self._notes = []
        self._notes.append(note)

    def retain(self, names: Set[str]) -> None:
        """Drop the files that the source no longer has, so that the list does not outgrow the source."""
        if any(name not in names for name in self._files):
            self._files = {name: stamp for name, stamp in self._files.items() if name in names}


def _read_note(store: Store, name: str) -> dict[str, FileStamp]:
    with suppress(ValueError, TypeError, AttributeError):
        files = json.loads(store.find(name) or b"")
        return {path: (int(size), int(written)) for path, (size, written) in files.items()}
    return {}
