"""How far each consumer has got with its notifications.

A consumer that keeps its own cursor has a small file. Whoever serves many at once keeps theirs in one file, a *sheet*,
and takes over the sheets it finds; the farthest cursor counts.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping
from urllib.parse import quote

from motet.lake.store import Store
from motet.model.errors import CorruptLakeError, UsageError

_FOLDER = "consumers"
_SHEET = "+"  # begins the names of sheets; never that of a consumer's file, where it would be quoted


def read_cursor(store: Store, consumer: str) -> int:
    """The offset up to which the consumer has everything; 0 for a new one."""
    return read_cursors(store, [consumer])[consumer]


def read_cursors(store: Store, consumers: Iterable[str]) -> dict[str, int]:
    """The cursors of some consumers."""
    sheets = [_read_sheet(store, name) for name in _sheets(store)]
    return {
        consumer: max(_own_cursor(store, consumer), *(sheet.get(consumer, 0) for sheet in sheets), 0)
        for consumer in consumers
    }


def advance_cursor(store: Store, consumer: str, offset: int) -> None:
    """Remember that the consumer has everything below ``offset``."""
    if offset < (now_at := read_cursor(store, consumer)):
        raise UsageError(f"consumer {consumer!r} is at offset {now_at} and cannot go back to {offset}")
    store.put(_name(consumer), json.dumps({"consumer": consumer, "offset": offset}).encode())


class Sheet:
    """The cursors of all consumers that one process serves."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._name = f"{_FOLDER}/{_SHEET}{secrets.token_hex(8)}.json"
        self._cursors: dict[str, int] | None = None

    def advance(self, offsets: Mapping[str, int]) -> None:
        """Remember that each of these consumers has everything below its offset."""
        taken = _sheets(self._store) if self._cursors is None else []
        cursors = dict(self._cursors or {})
        for name in taken:
            _take_farthest(cursors, _read_sheet(self._store, name))
        _take_farthest(cursors, offsets)
        self._store.put(self._name, json.dumps({"cursors": cursors}).encode())
        self._cursors = cursors
        for name in taken:  # a process that still keeps one of these writes it again, whole
            self._store.delete(name)


def _take_farthest(cursors: dict[str, int], more: Mapping[str, int]) -> None:
    for consumer, offset in more.items():
        cursors[consumer] = max(offset, cursors.get(consumer, 0))


def _sheets(store: Store) -> list[str]:
    return [name for name in store.names(_FOLDER) if name.startswith(f"{_FOLDER}/{_SHEET}")]


def _read_sheet(store: Store, name: str) -> dict[str, int]:
    data = store.find(name)
    if data is None:  # taken over a moment ago: the sheet that has it now was listed too, or repeats a little
        return {}
    try:
        return {str(consumer): int(offset) for consumer, offset in json.loads(data)["cursors"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damage(store, name, error) from error


def _own_cursor(store: Store, consumer: str) -> int:
    name = _name(consumer)
    data = store.find(name)
    if data is None:
        return 0
    try:
        return int(json.loads(data)["offset"])
    except (ValueError, KeyError, TypeError) as error:
        raise _damage(store, name, error) from error


def _damage(store: Store, name: str, error: Exception) -> CorruptLakeError:
    advice = "Delete it to deliver everything again."
    return CorruptLakeError(f"{store.path(name)} is not a cursor: {error}", advice=advice)


def _name(consumer: str) -> str:
    quoted = quote(consumer, safe="")
    if not 0 < len(quoted) <= 200:
        raise UsageError(f"{consumer[:40]!r} is no name for a consumer", advice="Use 1 to 200 characters.")
    return f"{_FOLDER}/{quoted}.json"
