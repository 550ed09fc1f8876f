"""Machine code for absence: is there something that starts after one instant and ends by another?"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from motet.engine.detect.columns import END, START, UNBOUND, Ints
from motet.engine.detect.table_kernels import hash_row
from motet.jit.compiled import compiled, inlined


@compiled
def codes_of(table: Ints, columns: Ints) -> npt.NDArray[np.uint64]:
    """A hash of some columns for each row."""
    found = np.empty(table.shape[1], np.uint64)
    for row in range(table.shape[1]):
        found[row] = hash_row(table, row, columns)
    return found


@inlined
def _agree(table: Ints, row: int, others: Ints, other: int, joined: Ints) -> bool:
    for column in joined:
        one, two = table[column, row], others[column, other]
        if one != two and UNBOUND not in (one, two):
            return False
    return True


@compiled
def contradicted(
    table: Ints, codes: npt.NDArray[np.uint64], low: Ints, high: Ints, others: Ints,
    other_codes: npt.NDArray[np.uint64], joined: Ints,
) -> npt.NDArray[np.bool_]:  # fmt: skip
    """Which rows have another one with agreeing values, ``start > low`` and ``end <= high``.

    The others are sorted by code, then by start.
    """
    count = others.shape[1]
    earliest = np.empty(count, np.int64)  # the least end from here to the last one with the same code
    for at in range(count - 1, -1, -1):
        earliest[at] = others[END, at]
        if at + 1 < count and other_codes[at + 1] == other_codes[at]:
            earliest[at] = min(earliest[at], earliest[at + 1])
    found = np.zeros(table.shape[1], np.bool_)
    for row in range(table.shape[1]):
        at = _first_after(other_codes, others, codes[row], low[row])
        while at < count and other_codes[at] == codes[row] and earliest[at] <= high[row]:
            if others[END, at] <= high[row] and _agree(table, row, others, at, joined):
                found[row] = True
                break
            at += 1
    return found


@inlined
def _first_after(codes: npt.NDArray[np.uint64], others: Ints, code: np.uint64, instant: int) -> int:
    low, high = 0, len(codes)
    while low < high:
        middle = (low + high) // 2
        if codes[middle] < code or (codes[middle] == code and others[START, middle] <= instant):
            low = middle + 1
        else:
            high = middle
    return low
