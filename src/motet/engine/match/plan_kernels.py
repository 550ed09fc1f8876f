"""The machine-code half of making a segment: keys, hash slots and interval trees of its buckets."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from motet.engine.match.prefixes import MARK
from motet.engine.match.texts import Codes, Ints, Texts, code, mixed
from motet.jit.compiled import compiled

Floats = npt.NDArray[np.float64]

FREE = np.uint64(2**64 - 1)
_MARK = ord(MARK)
_TAG = np.uint64(0xFFFFFFFF00000000)


@compiled
def constant_codes(strings: Texts) -> Codes:
    """The codes of constants; the mark of one that is no term does not count."""
    found = np.empty(strings.offsets.size - 1, np.uint64)
    for place in range(found.size):
        start, end = strings.offsets[place], strings.offsets[place + 1]
        found[place] = code(strings.data, start + 1 if strings.data[start] == _MARK else start, end)
    return found


@compiled
def bucket_keys(shape: int, terms: Any, codes: Codes) -> Codes:
    """The key of each row of terms."""
    found = np.empty(terms.shape[0], np.uint64)
    for row in range(terms.shape[0]):
        key = np.uint64(shape) + np.uint64(1)
        for term in terms[row]:
            key = mixed(key, codes[term])
        found[row] = key
    return found


def tagged_slots(keys: Codes, places: Ints) -> Codes:
    """Open addressing: a slot has the upper half of a key, so that most others need no second look, and its place."""
    found = np.full(max(4, 1 << (2 * len(keys) - 1).bit_length()), FREE)  # NumPy asks for huge pages, Numba does not
    _fill_slots(found, keys, places)
    return found


@compiled
def _fill_slots(slots: Codes, keys: Codes, places: Ints) -> None:
    mask = slots.size - 1
    for number in range(keys.size):
        at = np.int64(keys[number] & np.uint64(mask))
        while slots[at] != FREE:
            at = (at + 1) & mask
        slots[at] = keys[number] & _TAG | np.uint64(places[number])


@compiled
def plant(starts: Ints, high: Floats) -> Floats:
    """The farthest end in each subtree; the middle entry of a stretch is its root."""
    farthest = np.empty(high.size, np.float64)
    for entry in range(high.size):
        farthest[entry] = high[entry]
    stack = np.empty((130, 3), np.int64)
    for bucket in range(starts.size - 1):
        depth = 1
        stack[0, 0], stack[0, 1], stack[0, 2] = starts[bucket], starts[bucket + 1], 0
        while depth:
            begin, end, visits = stack[depth - 1, 0], stack[depth - 1, 1], stack[depth - 1, 2]
            middle = (begin + end) // 2
            stack[depth - 1, 2] += 1
            if end - begin <= 1 or visits == 2:
                if begin < middle:
                    farthest[middle] = max(farthest[middle], farthest[(begin + middle) // 2])
                if middle + 1 < end:
                    farthest[middle] = max(farthest[middle], farthest[(middle + 1 + end) // 2])
                depth -= 1
                continue
            left, right = (begin, middle) if visits == 0 else (middle + 1, end)
            if left < right:
                stack[depth, 0], stack[depth, 1], stack[depth, 2] = left, right, 0
                depth += 1
    return farthest
