"""The byte format of state snapshots.

A magic, a version, the length of an index, the index as JSON, the arrays that the index names as little-endian
integers, and a checksum of all that. Strings are two arrays: their sizes, and their UTF-8 in one. Reading executes
nothing; truncated or damaged bytes, and those of another version, are refused.
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

from motet.jit.compiled import Ints
from motet.model.errors import EngineError

VERSION = 3  # 1: other digests of plan nodes; 2: with the lateness of the log
_MAGIC = b"motet state\n"
_HEAD = Struct("<12sIQ")  # magic, version, length of the index
_CHECKSUM_SIZE = 16
_ADVICE = "delete the state and replay the subscriptions from the log; every notification has the same id again"


class StateWriter:
    """Collects named arrays.

    >>> writer = StateWriter()
    >>> writer.ints("numbers", np.array([3, 1]))
    >>> writer.strings("texts", ["a", "ö"])
    >>> reader = StateReader(writer.pack({"kind": "base"}), "base")
    >>> reader.ints("numbers"), reader.strings("texts").to_pylist()
    (array([3, 1]), ['a', 'ö'])
    """

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}  # in bytes
        self._arrays: list[bytes] = []

    def ints(self, name: str, values: Ints) -> None:
        self._add(name, np.ascontiguousarray(values, "<i8").tobytes())

    def strings(self, name: str, values: Sequence[str] | pa.Array) -> None:
        array = values if isinstance(values, pa.Array) else pa.array(values, pa.string())
        self.ints(f"{name} sizes", np.asarray(pc.binary_length(array), np.int64))
        self._add(name, "".join(array.to_pylist()).encode())

    def pack(self, index: dict[str, Any]) -> bytes:
        """The index, with the sizes of the arrays added, and all arrays as bytes."""
        text = json.dumps({**index, "sizes": list(self._sizes.items())}, sort_keys=True, separators=(",", ":")).encode()
        data = b"".join([_HEAD.pack(_MAGIC, VERSION, len(text)), text, *self._arrays])
        return data + _digest(data)

    def _add(self, name: str, array: bytes) -> None:
        assert name not in self._sizes, f"{name!r} is written once"
        self._sizes[name] = len(array)
        self._arrays.append(array)


class StateReader:
    """Reads what a `StateWriter` has packed. ``kind`` is the expected one: base or delta."""

    def __init__(self, data: bytes, kind: str) -> None:
        text_end = _HEAD.size + _checked_index_length(data)
        self.index: dict[str, Any] = json.loads(data[_HEAD.size : text_end])
        if self.index["kind"] != kind:
            raise state_error(f"is a {self.index['kind']} where a {kind} is needed")
        self._data = memoryview(data)
        sizes = dict(self.index["sizes"])
        bounds = pairwise(accumulate(sizes.values(), initial=text_end))
        self._byte_ranges = dict(zip(sizes, bounds, strict=True))

    def ints(self, name: str) -> Ints:
        return np.frombuffer(self._array(name), "<i8").astype(np.int64)

    def strings(self, name: str) -> pa.Array:
        ends = np.concatenate([[0], np.cumsum(self.ints(f"{name} sizes"))])
        text = pa.py_buffer(bytes(self._array(name)))
        strings = pa.LargeStringArray.from_buffers(len(ends) - 1, pa.py_buffer(ends.astype(np.int64)), text)
        return strings.cast(pa.string())

    def _array(self, name: str) -> memoryview:
        begin, end = self._byte_ranges[name]
        return self._data[begin:end]


def checksum(data: bytes) -> str:
    """The checksum at the end of a state snapshot: equal states have equal ones."""
    return data[-_CHECKSUM_SIZE:].hex()


def _checked_index_length(data: bytes) -> int:
    """The length of the index, once magic, version and checksum are found correct."""
    if len(data) < _HEAD.size + _CHECKSUM_SIZE or not data.startswith(_MAGIC):
        raise state_error("does not begin like one, or is cut off")
    _, version, length = _HEAD.unpack_from(data)
    if version != VERSION:
        raise state_error(f"has version {version}, this program reads version {VERSION}")
    if _digest(memoryview(data)[:-_CHECKSUM_SIZE]) != data[-_CHECKSUM_SIZE:]:
        raise state_error("is damaged or cut off: its checksum is wrong")
    return int(length)


def _digest(data: bytes | memoryview) -> bytes:
    return blake2b(data, digest_size=_CHECKSUM_SIZE).digest()


def state_error(reason: str) -> EngineError:
    """The error for a state snapshot that cannot be used."""
    return EngineError(f"the state snapshot {reason}", advice=_ADVICE)
