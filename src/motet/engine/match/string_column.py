"""Columns of strings as plain arrays, with a 64-bit code for each string.

Codes are a quick way to find equal strings and never the proof: whoever finds equal codes compares the bytes.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from motet.jit.compiled import compiled, inlined

Hashes = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]

Scalar = TypeVar("Scalar", bound=np.generic)

_SEED, _STEP, _LAST = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_HALF, _TURN, _ONE = np.uint64(32), np.uint64(29), np.uint64(1)
_S8, _S16, _S24, _S32, _S40, _S48, _S56 = (np.uint64(shift) for shift in range(8, 64, 8))


class StringColumn(NamedTuple):
    """String ``i`` is ``data[offsets[i]:offsets[i + 1]]``."""

    offsets: Numbers
    data: npt.NDArray[np.uint8]


def string_column(strings: pa.Array) -> StringColumn:
    """The buffers of a column of strings, without a copy."""
    strings = strings if strings.type == pa.string() else strings.cast(pa.string())
    _, offsets, data = strings.buffers()
    if len(strings) == 0 or offsets is None:
        return StringColumn(frozen(np.zeros(1, np.int32)), frozen(np.zeros(0, np.uint8)))
    places = np.frombuffer(offsets, np.int32, len(strings) + 1, strings.offset * 4)
    bytes_ = np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8)
    places.flags.writeable = bytes_.flags.writeable = False
    return StringColumn(places, bytes_)


def frozen(array: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """The array, not to be written: so all arrays have one type for the compiler."""
    array = np.ascontiguousarray(array).view()
    array.flags.writeable = False
    return array


@inlined
def byte_range(strings: StringColumn, at: int) -> tuple[int, int]:
    """Where a string begins and ends. Of a place without a sign nobody asks whether it counts from the end."""
    return strings.offsets[np.uint64(at)], strings.offsets[np.uint64(at + 1)]


@inlined
def _word(data: npt.NDArray[np.uint8], at: int) -> np.uint64:
    """Eight bytes as one number; the compiler makes one load of it."""
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
    """Up to eight bytes as one number: after the first eight, together with bytes before them, which is quicker."""
    if end - start >= 8:
        return _word(data, end - 8)
    found = np.uint64(0)
    for at in range(start, end):
        found = found << _S8 | np.uint64(data[np.uint64(at)])
    return found


@inlined
def string_hash(data: npt.NDArray[np.uint8], start: int, end: int) -> np.uint64:
    """The code of the bytes from start to end."""
    found = _SEED ^ np.uint64(end - start)
    at = start
    while at + 8 < end:
        found = (found ^ _word(data, at)) * _STEP
        found ^= found >> _HALF
        at += 8
    found = (found ^ _rest(data, start, end)) * _LAST
    return found ^ found >> _TURN


@inlined
def combine_hashes(left: np.uint64, right: np.uint64) -> np.uint64:
    """One code of two, in this order."""
    found = (left ^ right >> _TURN ^ right) * _STEP
    return (found ^ found >> _HALF) * _LAST ^ found >> _TURN


@inlined
def equal_bytes(
    data: npt.NDArray[np.uint8], start: int, end: int, other: npt.NDArray[np.uint8], begin: int, stop: int
) -> bool:
    """Whether two stretches of bytes are equal."""
    if end - start != stop - begin:
        return False
    at, place = start, begin
    while at + 8 < end:
        if _word(data, at) != _word(other, place):
            return False
        at += 8
        place += 8
    return bool(_rest(data, start, end) == _rest(other, begin, stop))


@compiled
def string_hashes(strings: StringColumn) -> Hashes:
    """The code of each string."""
    found = np.empty(strings.offsets.size - 1, np.uint64)
    for place in range(found.size):
        found[place] = string_hash(strings.data, strings.offsets[place], strings.offsets[place + 1])
    return found


class Table(NamedTuple):
    """A hash table from strings to their numbers."""

    strings: StringColumn
    codes: Hashes
    slots: Numbers  # a power of two of them; -1 is free


@compiled
def hash_slots(keys: Hashes, room: int) -> Numbers:
    """Open addressing: where to look for each key, in at least so many slots."""
    size = 4
    while size < room:
        size *= 2
    found = np.full(size, -1, np.int32)
    for number in range(keys.size):
        at = np.int64(keys[number] & np.uint64(size - 1))
        while found[at] >= 0:
            at = (at + 1) & (size - 1)
        found[at] = number
    return found


@inlined
def lookup(known: Table, key: np.uint64, data: npt.NDArray[np.uint8], start: int, end: int) -> int:
    """The number of a string, or -1."""
    mask = np.uint64(known.slots.size - 1)
    at = key & mask
    while known.slots[at] >= 0:
        number = known.slots[at]
        begin, stop = byte_range(known.strings, number)
        if known.codes[np.uint64(number)] == key and equal_bytes(data, start, end, known.strings.data, begin, stop):
            return number
        at = (at + _ONE) & mask
    return -1
