"""What do the bytes of a saved state look like?

A magic, a version, the length of an index, the index as JSON, the arrays the index names one behind the other as
little-endian integers, and a checksum of all that. Strings are two arrays: their sizes, and their UTF-8 in one.
Nothing is executed when state is read, and bytes that were cut, changed or written by another version are refused.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b
from itertools import accumulate, pairwise
from struct import Struct
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.detect.columns import Ints
from motet.model.errors import EngineError

VERSION = 1
_MAGIC = b"motet state\n"
_HEAD = Struct("<12sIQ")  # magic, version, length of the index
_SUM = 16
_REPLAY = "delete the state and replay the subscriptions from the log; every notification has the same id again"


class Writer:
    """Collects named arrays.

    >>> writer = Writer()
    >>> writer.ints("numbers", np.array([3, 1]))
    >>> writer.strings("texts", ["a", "ö"])
    >>> reader = Reader(writer.packed({"kind": "base"}), "base")
    >>> reader.ints("numbers"), reader.strings("texts").to_pylist()
    (array([3, 1]), ['a', 'ö'])
    """

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}  # in bytes
        self._parts: list[bytes] = []

    def ints(self, name: str, values: Ints) -> None:
        self._add(name, np.ascontiguousarray(values, "<i8").tobytes())

    def strings(self, name: str, values: Sequence[str] | pa.Array) -> None:
        array = values if isinstance(values, pa.Array) else pa.array(values, pa.string())
        self.ints(f"{name} sizes", np.asarray(pc.binary_length(array), np.int64))
        self._add(name, "".join(array.to_pylist()).encode())

    def packed(self, index: dict[str, Any]) -> bytes:
        """Everything as bytes; the index is told where the arrays are."""
        text = json.dumps({**index, "sizes": list(self._sizes.items())}, sort_keys=True, separators=(",", ":")).encode()
        whole = b"".join([_HEAD.pack(_MAGIC, VERSION, len(text)), text, *self._parts])
        return whole + _checksum(whole)

    def _add(self, name: str, part: bytes) -> None:
        assert name not in self._sizes, f"{name!r} is written once"
        self._sizes[name] = len(part)
        self._parts.append(part)


class Reader:
    """Gives back what a writer was given. ``kind`` is what is expected: a base or a delta."""

    def __init__(self, data: bytes, kind: str) -> None:
        text_end = _HEAD.size + _checked_length(data)
        self.index: dict[str, Any] = json.loads(data[_HEAD.size : text_end])
        if self.index["kind"] != kind:
            raise refused(f"is a {self.index['kind']} where a {kind} is needed")
        self._data = memoryview(data)
        sizes = dict(self.index["sizes"])
        bounds = pairwise(accumulate(sizes.values(), initial=text_end))
        self._places = dict(zip(sizes, bounds, strict=True))

    def ints(self, name: str) -> Ints:
        return np.frombuffer(self._part(name), "<i8").astype(np.int64)

    def strings(self, name: str) -> pa.Array:
        ends = np.concatenate([[0], np.cumsum(self.ints(f"{name} sizes"))])
        text = pa.py_buffer(bytes(self._part(name)))
        found = pa.LargeStringArray.from_buffers(len(ends) - 1, pa.py_buffer(ends.astype(np.int64)), text)
        return found.cast(pa.string())

    def _part(self, name: str) -> memoryview:
        begin, end = self._places[name]
        return self._data[begin:end]


def checksum_of(data: bytes) -> str:
    """The checksum that stands at the end of saved state: equal states have equal ones."""
    return data[-_SUM:].hex()


def _checked_length(data: bytes) -> int:
    """The length of the index of bytes that are whole."""
    if len(data) < _HEAD.size + _SUM or not data.startswith(_MAGIC):
        raise refused("does not begin like one, or is cut off")
    _, version, length = _HEAD.unpack_from(data)
    if version != VERSION:
        raise refused(f"has version {version}, this program reads version {VERSION}")
    if _checksum(memoryview(data)[:-_SUM]) != data[-_SUM:]:
        raise refused("is damaged or cut off: its checksum is wrong")
    return int(length)


def _checksum(data: bytes | memoryview) -> bytes:
    return blake2b(data, digest_size=_SUM).digest()


def refused(reason: str) -> EngineError:
    """The error for state that cannot be used."""
    return EngineError(f"the saved state of the detector {reason}", advice=_REPLAY)
