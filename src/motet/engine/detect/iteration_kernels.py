"""Machine code for iterations: which successive members of a key make an occurrence, and which may still do so?"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from motet.engine.compiled import compiled, inner
from motet.engine.detect.occurrences import END, START, VALUES, Ints


@inner
def _breaks(rows: Ints, previous: int, following: int, gap: int) -> bool:
    return gap >= 0 and rows[following, END] - rows[previous, END] > gap


@compiled
def sliding(rows: Ints, keys: Ints, is_new: Ints, count: int, gap: int, bound: int) -> tuple[Ints, Ints]:
    """The last places of all windows of ``count`` members that are close and fit; and which rows may begin another.

    Rows stand key by key, in completion order; a window ends with a new row.
    """
    ends, size = np.empty(len(rows), np.int64), 0
    stays = np.zeros(len(rows), np.int64)
    first = 0
    for row in range(len(rows)):
        if row and keys[row] != keys[row - 1]:
            first = row
        if row and row > first and _breaks(rows, row - 1, row, gap):
            first = row
        begin = row - count + 1
        if is_new[row] and begin >= first and _fits(rows, begin, row, bound):
            ends[size] = row
            size += 1
        if row + 1 == len(rows) or keys[row + 1] != keys[row]:
            for place in range(max(first, row - count + 2), row + 1):
                stays[place] = 1
    return ends[:size].copy(), stays


@inner
def _fits(rows: Ints, begin: int, last: int, bound: int) -> bool:
    if bound < 0:
        return True
    start = rows[begin, START]
    for row in range(begin, last + 1):
        start = min(start, rows[row, START])
    return rows[last, END] - start <= bound


@compiled
def tumbling(rows: Ints, keys: Ints, count: int, gap: int, bound: int) -> tuple[Ints, Ints]:
    """The last places of all full groups; and which rows are counted at the end of their key."""
    ends, size = np.empty(len(rows), np.int64), 0
    stays = np.zeros(len(rows), np.int64)
    first, start = 0, 0
    for row in range(len(rows)):
        if row == 0 or keys[row] != keys[row - 1]:
            first = row
        if row > first:
            start = min(start, rows[row, START])
            if _breaks(rows, row - 1, row, gap) or (bound >= 0 and rows[row, END] - start > bound):
                first = row
        if row == first:
            start = rows[row, START]
        if row - first + 1 == count:
            ends[size] = row
            size += 1
            first = row + 1
        if row + 1 == len(rows) or keys[row + 1] != keys[row]:
            for place in range(first, row + 1):
                stays[place] = 1
    return ends[:size].copy(), stays


@compiled
def runs(rows: Ints, keys: Ints, gap: int, bound: int) -> tuple[Ints, Ints]:
    """Where each run begins, and whether it is the last one of its key, which may go on."""
    begins, size = np.empty(len(rows), np.int64), 0
    is_open = np.zeros(len(rows), np.int64)
    start = 0
    for row in range(len(rows)):
        same = row > 0 and keys[row] == keys[row - 1]
        longer = same and not _breaks(rows, row - 1, row, gap)
        if longer and bound >= 0 and rows[row, END] - start > bound:  # by itself no member exceeds the bound
            longer = False
        if longer:
            start = min(start, rows[row, START])
        else:
            begins[size] = row
            size += 1
            start = rows[row, START]
        if row + 1 == len(rows) or keys[row + 1] != keys[row]:
            is_open[size - 1] = 1
    return begins[:size].copy(), is_open[:size].copy()


@compiled
def hopeful(rows: Ints, following: int, gap: int, bound: int, slides: bool) -> npt.NDArray[np.bool_]:
    """Which members can be counted with one that ends at an instant or later; rows stand key by key.

    Windows have no holes: one that is out of reach takes those before it along. In a group that tumbles it takes all.
    """
    stays = np.ones(len(rows), np.bool_)
    last = len(rows) - 1
    lost = False
    for row in range(len(rows) - 1, -1, -1):
        if row == last or not _same_key(rows, row, row + 1):
            last = row
            lost = gap >= 0 and following - rows[row, END] > gap
        if bound >= 0 and following - rows[row, START] > bound:
            lost = True
            if not slides:
                for later in range(row + 1, last + 1):
                    stays[later] = False
        stays[row] = not lost
    return stays


@inner
def _same_key(rows: Ints, one: int, other: int) -> bool:
    for column in range(VALUES, rows.shape[1]):
        if rows[one, column] != rows[other, column]:
            return False
    return True
