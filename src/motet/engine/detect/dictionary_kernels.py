"""The machine-code half of the dictionary: from strings to their numbers, and from numbers to strings."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from motet.engine.detect.occurrences import Ints
from motet.engine.match.texts import Codes, Numbers, code, same
from motet.jit.compiled import compiled, inlined

Bytes = npt.NDArray[np.uint8]

_LESS, _MORE = ord("<"), ord(">")


@inlined
def _copy(data: Bytes, start: int, end: int, to: Bytes, at: int) -> int:
    """Where the copied bytes end."""
    for place in range(end - start):
        to[np.uint64(at + place)] = data[np.uint64(start + place)]
    return at + end - start


@compiled
def number_terms(  # noqa: PLR0913, PLR0917  (a kernel has no object to keep its state in)
    offsets: Numbers, data: Bytes, wanted: Ints, numbers: Ints, begin: int,
    size: int, own_offsets: Ints, own_data: Bytes, codes: Codes, slots: Numbers,
) -> tuple[int, int]:  # fmt: skip
    """Write the numbers of the wanted strings from one on, -1 for the string -1, while there is room for new ones.

    Returns the first string without a number, and how many terms there are.
    """
    mask = np.uint64(slots.size - 1)
    for at in range(begin, wanted.size):
        numbers[at] = -1
        if wanted[at] < 0:
            continue
        start, end = offsets[wanted[at]], offsets[wanted[at] + 1]
        key = code(data, start, end)
        slot = key & mask
        while slots[slot] >= 0:
            known = slots[slot]
            first, last = own_offsets[known], own_offsets[known + 1]
            if codes[known] == key and same(data, start, end, own_data, first, last):
                break
            slot = (slot + np.uint64(1)) & mask
        if slots[slot] < 0:
            if size == codes.size or own_offsets[size] + end - start > own_data.size:
                return at, size
            own_offsets[size + 1] = _copy(data, start, end, own_data, own_offsets[size])
            codes[size], slots[slot] = key, size
            size += 1
        numbers[at] = slots[slot]
    return wanted.size, size


@compiled
def write_terms(places: Ints, offsets: Ints, data: Bytes, id_offsets: Numbers, ids: Bytes) -> tuple[Ints, Bytes]:
    """The terms in some places, one behind the other; a place below 0 is, from the other end, that of an event's id."""
    found = np.zeros(places.size + 1, np.int64)
    for at in range(places.size):
        place = places[at]
        size = offsets[place + 1] - offsets[place] if place >= 0 else id_offsets[-place] - id_offsets[~place] + 2
        found[at + 1] = found[at] + size
    text = np.empty(found[-1], np.uint8)
    for at in range(places.size):
        place, to = places[at], found[at]
        if place >= 0:
            _copy(data, offsets[place], offsets[place + 1], text, to)
        else:
            text[to] = _LESS
            to = _copy(ids, id_offsets[~place], id_offsets[-place], text, to + 1)
            text[to] = _MORE
    return found, text
