"""Progress of readers and writers of a lake: consumers' cursors, states of engines, ingested files.

These are small files beside the log. Each can be lost without loss of data: notifications are then delivered again,
records read again, files ingested again.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from hashlib import blake2b
from typing import NamedTuple
from urllib.parse import quote

from motet.lake.store import HeldFile, Store
from motet.model.errors import CorruptLakeError, UsageError
from motet.model.notifications import Notification

_CURSORS, _STATES, _SOURCES = "consumers", "states", "sources"  # folders
_WAITING = "pipeline/waiting.json"
_CLAIMS = f"{_CURSORS}/claims.lock"
_SHARED = "+"  # first character of the names of cursor files; in a consumer's own file name it would be quoted
_HOLDER = "@"  # first character of the names of the files that processes hold; quoted likewise
_MAX_STATES = 2  # the newest two: while one is being written, another is complete
_MAX_NOTES = 64  # files that list ingested files; more are merged into one


# Cursors. A consumer can have a file of its own. A process that serves many consumers writes one file for all of them,
# and merges the files of processes that have ended; the greatest offset counts.


def read_cursor(store: Store, consumer: str) -> int:
    """The offset up to which the consumer has everything; 0 for a new one."""
    return read_cursors(store, [consumer])[consumer]


def read_cursors(store: Store, names: Iterable[str]) -> dict[str, int]:
    """Some cursors, by name: that of a consumer, or a name made by `cursor_name`."""
    shared = [_read_cursor_file(store, name) for name in _cursor_files(store)]
    return {
        name: max(_read_single_cursor(store, name), *(cursors.get(name, 0) for cursors in shared), 0) for name in names
    }


def advance_cursor(store: Store, consumer: str, offset: int) -> None:
    """Move a consumer's cursor to an offset; it has everything below."""
    if offset < (current := read_cursor(store, consumer)):
        raise UsageError(f"consumer {consumer!r} is at offset {current} and cannot go back to {offset}")
    store.put(_cursor_file(consumer), json.dumps({"consumer": consumer, "offset": offset}).encode())


def cursor_name(consumer: str, subscription: str) -> str:
    """The name of the cursor of a consumer in one subscription: that of the consumer if both have the same name.

    >>> cursor_name("hot", "hot"), cursor_name("dashboard", "hot")
    ('hot', 'dashboard\\thot')
    """
    return consumer if consumer == subscription else f"{consumer}\t{subscription}"


def split_cursor_name(name: str) -> tuple[str, str]:
    """The inverse of `cursor_name`: the consumer and its subscription.

    >>> split_cursor_name("hot"), split_cursor_name("dashboard\\thot")
    (('hot', 'hot'), ('dashboard', 'hot'))
    """
    consumer, _, subscription = name.partition("\t")
    return consumer, subscription or consumer


def all_cursors(store: Store) -> dict[str, int]:
    """The cursors of all consumers in a subscription, by the names of `cursor_name`."""
    cursors: dict[str, int] = {}
    for file in _cursor_files(store):
        for name, offset in _read_cursor_file(store, file).items():
            cursors[name] = max(offset, cursors.get(name, 0))
    return cursors


class Consumers:
    """The consumers that one process serves: it alone has their names, until it releases them or ends.

    The names are in a file that the process holds. Another process sees that it is held, reads the names and the
    holder, and does not take one of them; after a crash the file is not held any more.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._token = secrets.token_hex(8)
        self._names: set[str] = set()
        self._held: HeldFile | None = None
        self._cursors: dict[str, int] | None = None

    def claim(self, names: Iterable[str]) -> None:
        """Take the names of consumers, all or none; an error says who has one of them."""
        wanted = {_checked_name(name) for name in names} - self._names
        if not wanted:
            return
        with self._store.lock(_CLAIMS):
            for holder in _holders(self._store, self._token):
                if taken := sorted(wanted & holder.names):
                    raise _claim_error(taken[0], holder)
            if self._held is None:
                self._held = self._store.hold(_holder_file(self._token))
                self._held.append(_line({"pid": os.getpid(), "host": socket.gethostname()}))
            self._held.append(b"".join(_line({"claim": name}) for name in sorted(wanted)))
            self._names |= wanted

    def release(self, names: Iterable[str]) -> None:
        """Give names back, so that another process can take them."""
        released = self._names & set(names)
        self._names -= released
        if self._held is None:
            return
        if self._names:
            self._held.append(b"".join(_line({"release": name}) for name in sorted(released)))
        else:
            self._held.release()
            self._held = None

    def release_all(self) -> None:
        self.release(set(self._names))

    def put_cursors(self, offsets: Mapping[str, int]) -> None:
        """Write cursors of claimed consumers. One may fall, but not below its value when the consumer was claimed."""
        if self._cursors is not None:
            self._cursors = self._write({**self._cursors, **offsets})
            return
        with self._store.lock(_CLAIMS):  # no other process merges the same files
            ended = [name for name in _cursor_files(self._store) if not self._store.is_held(_holder_of(name))]
            merged: dict[str, int] = {}
            for name in ended:
                for cursor, offset in _read_cursor_file(self._store, name).items():
                    merged[cursor] = max(offset, merged.get(cursor, 0))
            self._cursors = self._write({**merged, **offsets})
            for name in ended:  # a process that uses one of these without holding it writes it again, whole
                self._store.delete(name)

    def _write(self, cursors: dict[str, int]) -> dict[str, int]:
        self._store.put(f"{_CURSORS}/{_SHARED}{self._token}.json", json.dumps({"cursors": cursors}).encode())
        return cursors


class _Holder(NamedTuple):
    """A process that serves consumers."""

    pid: int
    host: str
    names: set[str]


def _holders(store: Store, own_token: str) -> Iterator[_Holder]:
    """The other processes that serve consumers; files of those that have ended are deleted."""
    for name in store.names(_CURSORS):
        if not name.startswith(f"{_CURSORS}/{_HOLDER}") or name == _holder_file(own_token):
            continue
        if store.is_held(name):
            yield _read_holder(store.find(name) or b"")
        else:
            store.delete(name)


def _read_holder(data: bytes) -> _Holder:
    holder = _Holder(0, "an unknown host", set())
    for line in data.splitlines():
        with suppress(ValueError):  # cut off by a full disk: the claim failed
            match json.loads(line):
                case {"pid": int(pid), "host": str(host)}:
                    holder = holder._replace(pid=pid, host=host)
                case {"claim": str(name)}:
                    holder.names.add(name)
                case {"release": str(name)}:
                    holder.names.discard(name)
    return holder


def _claim_error(consumer: str, holder: _Holder) -> UsageError:
    is_here = (holder.pid, holder.host) == (os.getpid(), socket.gethostname())
    who = "another cloud of this process" if is_here else f"process {holder.pid} on {holder.host}"
    return UsageError(
        f"consumer {consumer!r} is in use by {who}",
        advice=f"Stop that one, or use a consumer of its own here, such as {consumer + '-2'!r}: "
        "it receives every notification, too.",
    )


def _line(fields: Mapping[str, object]) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def _holder_file(token: str) -> str:
    return f"{_CURSORS}/{_HOLDER}{token}.lock"


def _holder_of(cursor_file: str) -> str:
    """The file that the process which writes a cursor file holds."""
    return _holder_file(cursor_file.removeprefix(f"{_CURSORS}/{_SHARED}").removesuffix(".json"))


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
    if "\t" in consumer:  # of one subscription: only in shared files
        return 0
    name = _cursor_file(consumer)
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


def _cursor_file(consumer: str) -> str:
    return f"{_CURSORS}/{quote(_checked_name(consumer), safe='')}.json"


def _checked_name(consumer: str) -> str:
    if not 0 < len(quote(consumer, safe="")) <= 200 or not consumer.isprintable():
        raise UsageError(f"{consumer[:40]!r} is no name for a consumer", advice="Use 1 to 200 printable characters.")
    return consumer


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


# Waited-for instants of the pipeline on Spark, whose operators are in many processes: where one of them is, the
# frontier makes something pending final. They hold for one offset; without them a heartbeat appends no tick.


def write_waiting(store: Store, offset: int, instants: Iterable[int], pending: int = 0) -> None:
    """Store the instants that the operators wait for after the records below an offset, and the number of
    notifications that become final at them.
    """
    fields = {"offset": offset, "instants": sorted(instants), "pending": pending}
    store.put(_WAITING, json.dumps(fields).encode())


def greatest_waiting(store: Store, offset: int, bound: int | None) -> int | None:
    """The greatest of the instants stored for an offset that is not after a bound; None if there is none."""
    with suppress(ValueError, KeyError, TypeError):
        stored = json.loads(store.find(_WAITING) or b"")
        instants = stored["instants"] if stored["offset"] == offset else ()
        return max((int(instant) for instant in instants if bound is None or instant <= bound), default=None)
    return None


def pending_count(store: Store, offset: int) -> int:
    """The number of notifications that wait for the frontier, stored for an offset; 0 if none is stored."""
    with suppress(ValueError, KeyError, TypeError):
        stored = json.loads(store.find(_WAITING) or b"")
        return int(stored["pending"]) if stored["offset"] == offset else 0
    return 0


# Notifications that a listener has refused at every try: dead letters, one line of JSON each.

UNDELIVERED = "dead-letter/notifications.jsonl"


def add_undelivered(store: Store, consumer: str, notification: Notification, tries: int, error: BaseException) -> None:
    """Store a notification that a consumer could not receive."""
    fields = {
        "consumer": consumer,
        "error": f"{type(error).__name__}: {error}",
        "tries": tries,
        "notification": json.loads(notification.to_line()),
    }
    store.append(UNDELIVERED, _line(fields))


def count_undelivered(store: Store) -> int:
    """The number of dead letters of listeners."""
    return (store.find(UNDELIVERED) or b"").count(b"\n")


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
