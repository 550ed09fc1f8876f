"""Compiled functions for iterations: which successive members of a key form an occurrence, and which still may."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from motet.engine.detect.table_kernels import END, START, VALUES
from motet.jit.compiled import Ints, compiled, inlined


@inlined
def _exceeds_gap(table: Ints, previous: int, following: int, gap: int) -> bool:
    return gap >= 0 and table[END, following] - table[END, previous] > gap


@compiled
def sliding_windows(table: Ints, keys: Ints, is_new: Ints, count: int, gap: int, bound: int) -> tuple[Ints, Ints]:
    """The last rows of all windows of ``count`` members within gap and bound; and which rows may begin another one.

    Rows are sorted by key, then in completion order; a window ends with a new row.
    """
    rows = table.shape[1]
    last_rows, size = np.empty(rows, np.int64), 0
    is_counted = np.zeros(rows, np.int64)
    first = 0
    for row in range(rows):
        if row and keys[row] != keys[row - 1]:
            first = row
        if row and row > first and _exceeds_gap(table, row - 1, row, gap):
            first = row
        begin = row - count + 1
        if is_new[row] and begin >= first and _is_in_bound(table, begin, row, bound):
            last_rows[size] = row
            size += 1
        if row + 1 == rows or keys[row + 1] != keys[row]:
            for member in range(max(first, row - count + 2), row + 1):
                is_counted[member] = 1
    return last_rows[:size].copy(), is_counted


@inlined
def _is_in_bound(table: Ints, begin: int, last: int, bound: int) -> bool:
    if bound < 0:
        return True
    start = table[START, begin]
    for row in range(begin, last + 1):
        start = min(start, table[START, row])
    return table[END, last] - start <= bound


@compiled
def tumbling_groups(table: Ints, keys: Ints, count: int, gap: int, bound: int) -> tuple[Ints, Ints]:
    """The last rows of all full groups; and which rows are in the unfinished group of their key."""
    rows = table.shape[1]
    last_rows, size = np.empty(rows, np.int64), 0
    is_counted = np.zeros(rows, np.int64)
    first, start = 0, 0
    for row in range(rows):
        if row == 0 or keys[row] != keys[row - 1]:
            first = row
        if row > first:
            start = min(start, table[START, row])
            if _exceeds_gap(table, row - 1, row, gap) or (bound >= 0 and table[END, row] - start > bound):
                first = row
        if row == first:
            start = table[START, row]
        if row - first + 1 == count:
            last_rows[size] = row
            size += 1
            first = row + 1
        if row + 1 == rows or keys[row + 1] != keys[row]:
            for member in range(first, row + 1):
                is_counted[member] = 1
    return last_rows[:size].copy(), is_counted


@compiled
def maximal_runs(table: Ints, keys: Ints, gap: int, bound: int) -> tuple[Ints, Ints]:
    """The first row of each run, and whether the run is the last one of its key, which may continue."""
    rows = table.shape[1]
    first_rows, size = np.empty(rows, np.int64), 0
    is_last = np.zeros(rows, np.int64)
    start = 0
    for row in range(rows):
        is_same_key = row > 0 and keys[row] == keys[row - 1]
        continues = is_same_key and not _exceeds_gap(table, row - 1, row, gap)
        if continues and bound >= 0 and table[END, row] - start > bound:  # no member alone exceeds the bound
            continues = False
        if continues:
            start = min(start, table[START, row])
        else:
            first_rows[size] = row
            size += 1
            start = table[START, row]
        if row + 1 == rows or keys[row + 1] != keys[row]:
            is_last[size - 1] = 1
    return first_rows[:size].copy(), is_last[:size].copy()


@compiled
def extendable(table: Ints, following: int, gap: int, bound: int, slides: bool) -> npt.NDArray[np.bool_]:
    """Which members can be counted with one that ends at ``following`` or later; rows are sorted by key.

    Windows have no holes: with a member that is too old, those before it are too old; in a tumbling group, all are.
    """
    rows = table.shape[1]
    is_extendable = np.ones(rows, np.bool_)
    last = rows - 1
    is_too_old = False
    for row in range(rows - 1, -1, -1):
        if row == last or not _is_same_key(table, row, row + 1):
            last = row
            is_too_old = gap >= 0 and following - table[END, row] > gap
        if bound >= 0 and following - table[START, row] > bound:
            is_too_old = True
            if not slides:
                for later in range(row + 1, last + 1):
                    is_extendable[later] = False
        is_extendable[row] = not is_too_old
    return is_extendable


@inlined
def _is_same_key(table: Ints, row: int, other: int) -> bool:
    for column in range(VALUES, table.shape[0]):
        if table[column, row] != table[column, other]:
            return False
    return True
