"""How far each consumer has got with its notifications: one small file per consumer."""

from __future__ import annotations

import json
from urllib.parse import quote

from motet.lake.store import Store
from motet.model.errors import CorruptLakeError, UsageError


def read_cursor(store: Store, consumer: str) -> int:
    """The offset up to which the consumer has everything; 0 for a new one."""
    name = _name(consumer)
    data = store.find(name)
    if data is None:
        return 0
    try:
        return int(json.loads(data)["offset"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptLakeError(
            f"{store.path(name)} is not a cursor: {error}", advice="Delete it to deliver everything again."
        ) from error


def advance_cursor(store: Store, consumer: str, offset: int) -> None:
    """Remember that the consumer has everything below ``offset``."""
    if offset < (now_at := read_cursor(store, consumer)):
        raise UsageError(f"consumer {consumer!r} is at offset {now_at} and cannot go back to {offset}")
    store.put(_name(consumer), json.dumps({"consumer": consumer, "offset": offset}).encode())


def _name(consumer: str) -> str:
    quoted = quote(consumer, safe="")
    if not 0 < len(quoted) <= 200:
        raise UsageError(f"{consumer[:40]!r} is no name for a consumer", advice="Use 1 to 200 characters.")
    return f"consumers/{quoted}.json"
