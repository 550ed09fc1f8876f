"""Which files of a source the lake has taken in, so that they are not read again.

Nothing depends on it but time: a file that is read again adds nothing, because its events are known by their IRIs. A
note is therefore written after the commit of the events it is about, and a damaged one is as good as none.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Set
from contextlib import suppress
from hashlib import blake2b

from motet.lake.store import Store

_FOLDER = "sources"
_MERGE = 64  # notes; then they become one

Look = tuple[int, int]  # a file's size and the time it was last written, in nanoseconds


class Taken:
    """The files of one source, by name, as they looked when they were taken in."""

    def __init__(self, store: Store, source: str) -> None:
        self._store = store
        self._prefix = f"{_FOLDER}/{blake2b(source.encode(), digest_size=8).hexdigest()}-"
        self._notes = [name for name in store.names(_FOLDER) if name.startswith(self._prefix)]
        self._files: dict[str, Look] = {}
        for name in self._notes:
            self._files |= _read(store, name)

    def holds(self, name: str, look: Look) -> bool:
        return self._files.get(name) == look

    def add(self, files: Mapping[str, Look]) -> None:
        """Remember that these have been taken in."""
        self._files |= files
        merging = len(self._notes) >= _MERGE
        note = f"{self._prefix}{secrets.token_hex(8)}.json"
        self._store.put(note, json.dumps(self._files if merging else dict(files)).encode())
        if merging:
            for name in self._notes:
                self._store.delete(name)
            self._notes = []
        self._notes.append(note)

    def keep_only(self, names: Set[str]) -> None:
        """Forget files that are gone from the source, so that the notes stay as small as the source is."""
        if any(name not in names for name in self._files):
            self._files = {name: look for name, look in self._files.items() if name in names}


def _read(store: Store, name: str) -> dict[str, Look]:
    with suppress(ValueError, TypeError, AttributeError):
        return {
            path: (int(size), int(written)) for path, (size, written) in json.loads(store.find(name) or b"").items()
        }
    return {}
