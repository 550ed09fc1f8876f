"""Machine code for iterations: which successive members of a key make an occurrence, and which may still do so?"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from motet.engine.detect.columns import END, START, VALUES, Ints
from motet.jit.compiled import compiled, inlined


@inlined
def _breaks(table: Ints, previous: int, following: int, gap: int) -> bool:
    return gap >= 0 and table[END, following] - table[END, previous] > gap


@compiled
def sliding(table: Ints, keys: Ints, is_new: Ints, count: int, gap: int, bound: int) -> tuple[Ints, Ints]:
    """The last places of all windows of ``count`` members that are close and fit; and which rows may begin another.

    Rows stand key by key, in completion order; a window ends with a new row.
    """
    rows = table.shape[1]
    ends, size = np.empty(rows, np.int64), 0
    stays = np.zeros(rows, np.int64)
    first = 0
    for row in range(rows):
        if row and keys[row] != keys[row - 1]:
            first = row
        if row and row > first and _breaks(table, row - 1, row, gap):
            first = row
        begin = row - count + 1
        if is_new[row] and begin >= first and _fits(table, begin, row, bound):
            ends[size] = row
            size += 1
        if row + 1 == rows or keys[row + 1] != keys[row]:
            for place in range(max(first, row - count + 2), row + 1):
                stays[place] = 1
    return ends[:size].copy(), stays


@inlined
def _fits(table: Ints, begin: int, last: int, bound: int) -> bool:
    if bound < 0:
        return True
    start = table[START, begin]
    for row in range(begin, last + 1):
        start = min(start, table[START, row])
    return table[END, last] - start <= bound


@compiled
def tumbling(table: Ints, keys: Ints, count: int, gap: int, bound: int) -> tuple[Ints, Ints]:
    """The last places of all full groups; and which rows are counted at the end of their key."""
    rows = table.shape[1]
    ends, size = np.empty(rows, np.int64), 0
    stays = np.zeros(rows, np.int64)
    first, start = 0, 0
    for row in range(rows):
        if row == 0 or keys[row] != keys[row - 1]:
            first = row
        if row > first:
            start = min(start, table[START, row])
            if _breaks(table, row - 1, row, gap) or (bound >= 0 and table[END, row] - start > bound):
                first = row
        if row == first:
            start = table[START, row]
        if row - first + 1 == count:
            ends[size] = row
            size += 1
            first = row + 1
        if row + 1 == rows or keys[row + 1] != keys[row]:
            for place in range(first, row + 1):
                stays[place] = 1
    return ends[:size].copy(), stays


@compiled
def runs(table: Ints, keys: Ints, gap: int, bound: int) -> tuple[Ints, Ints]:
    """Where each run begins, and whether it is the last one of its key, which may go on."""
    rows = table.shape[1]
    begins, size = np.empty(rows, np.int64), 0
    is_open = np.zeros(rows, np.int64)
    start = 0
    for row in range(rows):
        same = row > 0 and keys[row] == keys[row - 1]
        longer = same and not _breaks(table, row - 1, row, gap)
        if longer and bound >= 0 and table[END, row] - start > bound:  # by itself no member exceeds the bound
            longer = False
        if longer:
            start = min(start, table[START, row])
        else:
            begins[size] = row
            size += 1
            start = table[START, row]
        if row + 1 == rows or keys[row + 1] != keys[row]:
            is_open[size - 1] = 1
    return begins[:size].copy(), is_open[:size].copy()


@compiled
def hopeful(table: Ints, following: int, gap: int, bound: int, slides: bool) -> npt.NDArray[np.bool_]:
    """Which members can be counted with one that ends at an instant or later; rows stand key by key.

    Windows have no holes: one that is out of reach takes those before it along. In a group that tumbles it takes all.
    """
    rows = table.shape[1]
    stays = np.ones(rows, np.bool_)
    last = rows - 1
    lost = False
    for row in range(rows - 1, -1, -1):
        if row == last or not _same_key(table, row, row + 1):
            last = row
            lost = gap >= 0 and following - table[END, row] > gap
        if bound >= 0 and following - table[START, row] > bound:
            lost = True
            if not slides:
                for later in range(row + 1, last + 1):
                    stays[later] = False
        stays[row] = not lost
    return stays


@inlined
def _same_key(table: Ints, one: int, other: int) -> bool:
    for column in range(VALUES, table.shape[0]):
        if table[column, one] != table[column, other]:
            return False
    return True
