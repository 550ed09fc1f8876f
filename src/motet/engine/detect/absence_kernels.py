"""Compiled functions for absence: whether a negated occurrence starts after one instant and ends by another."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from motet.engine.detect.table_kernels import END, START, UNBOUND, hash_row
from motet.jit.compiled import Hashes, Ints, compiled, inlined


@compiled
def hash_rows(table: Ints, columns: Ints) -> Hashes:
    """A hash of the given columns for each row."""
    hashes = np.empty(table.shape[1], np.uint64)
    for row in range(table.shape[1]):
        hashes[row] = hash_row(table, row, columns)
    return hashes


@inlined
def _agree(table: Ints, row: int, negated: Ints, other: int, joined: Ints) -> bool:
    for column in joined:
        value, negated_value = table[column, row], negated[column, other]
        if value != negated_value and UNBOUND not in (value, negated_value):
            return False
    return True


@compiled
def find_contradicted(
    table: Ints, hashes: Hashes, low: Ints, high: Ints, negated: Ints, negated_hashes: Hashes, joined: Ints,
) -> npt.NDArray[np.bool_]:  # fmt: skip
    """Which rows have a negated row with agreeing values, ``start > low`` and ``end <= high``.

    The negated rows are sorted by the hash of their key, then by start.
    """
    count = negated.shape[1]
    earliest = np.empty(count, np.int64)  # by row: the least end from this row to the last one with the same hash
    for at in range(count - 1, -1, -1):
        earliest[at] = negated[END, at]
        if at + 1 < count and negated_hashes[at + 1] == negated_hashes[at]:
            earliest[at] = min(earliest[at], earliest[at + 1])
    is_contradicted = np.zeros(table.shape[1], np.bool_)
    for row in range(table.shape[1]):
        at = _first_after(negated_hashes, negated, hashes[row], low[row])
        while at < count and negated_hashes[at] == hashes[row] and earliest[at] <= high[row]:
            if negated[END, at] <= high[row] and _agree(table, row, negated, at, joined):
                is_contradicted[row] = True
                break
            at += 1
    return is_contradicted


@inlined
def _first_after(hashes: Hashes, negated: Ints, hash_: np.uint64, instant: int) -> int:
    """The first row with a hash that starts after an instant, or the row where it would be."""
    low, high = 0, len(hashes)
    while low < high:
        middle = (low + high) // 2
        if hashes[middle] < hash_ or (hashes[middle] == hash_ and negated[START, middle] <= instant):
            low = middle + 1
        else:
            high = middle
    return low
