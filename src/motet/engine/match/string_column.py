"""Columns of strings as plain arrays, with a 64-bit hash for each string.

Equal hashes are a hint that strings are equal, never the proof: the bytes are compared.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from motet.jit.compiled import Hashes, Int32s, Ints, compiled, inlined

Scalar = TypeVar("Scalar", bound=np.generic)

_MAX_SLICES = 4
_SEED, _STEP, _LAST = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_HALF, _TURN, _ONE = np.uint64(32), np.uint64(29), np.uint64(1)
_S8, _S16, _S24, _S32, _S40, _S48, _S56 = (np.uint64(shift) for shift in range(8, 64, 8))


class StringColumn(NamedTuple):
    """String ``i`` is ``data[offsets[i]:offsets[i + 1]]``."""

    offsets: Int32s
    data: npt.NDArray[np.uint8]


def string_column(strings: pa.Array) -> StringColumn:
    """The buffers of a column of strings, without a copy."""
    strings = string_array(strings)
    _, offsets, data = strings.buffers()
    if len(strings) == 0 or offsets is None:
        return StringColumn(frozen(np.zeros(1, np.int32)), frozen(np.zeros(0, np.uint8)))
    starts = np.frombuffer(offsets, np.int32, len(strings) + 1, strings.offset * 4)
    bytes_ = np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8)
    starts.flags.writeable = bytes_.flags.writeable = False
    return StringColumn(starts, bytes_)


def string_array(column: pa.Array) -> pa.Array:
    """Strings as a column of type string."""
    return column if column.type == pa.string() else column.cast(pa.string())


def take_rows(column: pa.Array, rows: Ints) -> pa.Array:
    """The values of some rows; a few, as of a single event, are sliced, which is several times faster."""
    if len(rows) == 1:
        return column.slice(int(rows[0]), 1)
    if 1 < len(rows) <= _MAX_SLICES:
        return pa.concat_arrays([column.slice(row, 1) for row in rows.tolist()])
    return column.take(pa.array(rows))


def frozen(array: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """A read-only view of the array: kernels are compiled for one array type."""
    array = np.ascontiguousarray(array).view()
    array.flags.writeable = False
    return array


@inlined
def byte_range(strings: StringColumn, at: int) -> tuple[int, int]:
    """The start and the end of a string. The index is unsigned: there is no code for one that counts from the end."""
    return strings.offsets[np.uint64(at)], strings.offsets[np.uint64(at + 1)]


@inlined
def _word(data: npt.NDArray[np.uint8], at: int) -> np.uint64:
    """Eight bytes as one integer; the compiler makes one load of it."""
    return (
        np.uint64(data[np.uint64(at)])
        | np.uint64(data[np.uint64(at + 1)]) << _S8
        | np.uint64(data[np.uint64(at + 2)]) << _S16
        | np.uint64(data[np.uint64(at + 3)]) << _S24
        | np.uint64(data[np.uint64(at + 4)]) << _S32
        | np.uint64(data[np.uint64(at + 5)]) << _S40
        | np.uint64(data[np.uint64(at + 6)]) << _S48
        | np.uint64(data[np.uint64(at + 7)]) << _S56
    )


@inlined
def _rest(data: npt.NDArray[np.uint8], start: int, end: int) -> np.uint64:
    """The last eight bytes as one integer, or all if there are fewer; reading bytes twice is faster than a loop."""
    if end - start >= 8:
        return _word(data, end - 8)
    word = np.uint64(0)
    for at in range(start, end):
        word = word << _S8 | np.uint64(data[np.uint64(at)])
    return word


@inlined
def string_hash(data: npt.NDArray[np.uint8], start: int, end: int) -> np.uint64:
    """The hash of the bytes from start to end."""
    hash_ = _SEED ^ np.uint64(end - start)
    at = start
    while at + 8 < end:
        hash_ = (hash_ ^ _word(data, at)) * _STEP
        hash_ ^= hash_ >> _HALF
        at += 8
    hash_ = (hash_ ^ _rest(data, start, end)) * _LAST
    return hash_ ^ hash_ >> _TURN


@inlined
def combine_hashes(left: np.uint64, right: np.uint64) -> np.uint64:
    """One hash of two, in this order."""
    mixed = (left ^ right >> _TURN ^ right) * _STEP
    return (mixed ^ mixed >> _HALF) * _LAST ^ mixed >> _TURN


@inlined
def equal_bytes(
    data: npt.NDArray[np.uint8], start: int, end: int, other_data: npt.NDArray[np.uint8], begin: int, stop: int
) -> bool:
    """Whether two byte ranges are equal."""
    if end - start != stop - begin:
        return False
    at, other_at = start, begin
    while at + 8 < end:
        if _word(data, at) != _word(other_data, other_at):
            return False
        at += 8
        other_at += 8
    return bool(_rest(data, start, end) == _rest(other_data, begin, stop))


@compiled
def string_hashes(strings: StringColumn) -> Hashes:
    """The hash of each string."""
    hashes = np.empty(strings.offsets.size - 1, np.uint64)
    for index in range(hashes.size):
        hashes[index] = string_hash(strings.data, strings.offsets[index], strings.offsets[index + 1])
    return hashes


class StringTable(NamedTuple):
    """A hash table from strings to their indexes."""

    strings: StringColumn
    hashes: Hashes
    slots: Int32s  # a power of two; -1 is free


@compiled
def hash_slots(keys: Hashes, min_size: int) -> Int32s:
    """The slots of a hash table with open addressing, at least so many: the index of a key, or -1."""
    size = 4
    while size < min_size:
        size *= 2
    slots = np.full(size, -1, np.int32)
    for index in range(keys.size):
        at = np.int64(keys[index] & np.uint64(size - 1))
        while slots[at] >= 0:
            at = (at + 1) & (size - 1)
        slots[at] = index
    return slots


@inlined
def lookup(table: StringTable, hash_: np.uint64, data: npt.NDArray[np.uint8], start: int, end: int) -> int:
    """The index of a string in the table, or -1."""
    mask = np.uint64(table.slots.size - 1)
    at = hash_ & mask
    while table.slots[at] >= 0:
        index = table.slots[at]
        begin, stop = byte_range(table.strings, index)
        if table.hashes[np.uint64(index)] == hash_ and equal_bytes(data, start, end, table.strings.data, begin, stop):
            return index
        at = (at + _ONE) & mask
    return -1
