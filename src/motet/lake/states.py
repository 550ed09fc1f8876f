"""What an engine remembered at some offset, so that it need not read the whole log again.

A state is derived like everything but the log: it may be missing, old or damaged, and is then made again. The newest
two are kept, so that one that is being written is never the only one.
"""

from __future__ import annotations

from collections.abc import Iterator

from motet.lake.store import Store

_FOLDER = "states"
_KEPT = 2


def write_state(store: Store, offset: int, data: bytes) -> None:
    """Keep the state of an engine that has read all records below an offset."""
    store.put(f"{_FOLDER}/{offset:020d}.state", data)
    for name in store.names(_FOLDER)[:-_KEPT]:
        store.delete(name)


def read_states(store: Store, stop: int) -> Iterator[tuple[int, bytes]]:
    """The states at or below an offset, the newest first, each with its offset."""
    for name in reversed(store.names(_FOLDER)):
        offset = int(name.removeprefix(f"{_FOLDER}/").removesuffix(".state"))
        data = store.find(name) if offset <= stop else None
        if data is not None:
            yield offset, data
