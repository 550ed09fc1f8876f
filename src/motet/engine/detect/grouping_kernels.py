"""Machine code for rows that belong together: finding equal ones, and merging some into one."""

from __future__ import annotations

import numpy as np

from motet.engine.detect.occurrences import EMITTED, END, FIRST, START, UNBOUND, VALUES, Ints
from motet.jit.compiled import compiled, inlined

_SEED, _STEP, _TURN = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xFF51AFD7ED558CCD), np.uint64(32)


@inlined
def stirred(code: np.uint64, value: int) -> np.uint64:
    """A code that also depends on one more value."""
    mixed = (code ^ np.uint64(value)) * _STEP
    return mixed ^ (mixed >> _TURN)


@inlined
def row_code(table: Ints, row: int, columns: Ints) -> np.uint64:
    code = _SEED
    for column in columns:
        code = stirred(code, table[column, row])
    return code


@compiled
def first_equal(table: Ints, columns: Ints, starts: Ints, events: Ints) -> Ints:
    """For each row the first one with the same values in some columns and the same events."""
    count = table.shape[1]
    size = 16
    while size < 2 * count:
        size *= 2
    slots = np.full(size, -1, np.int64)
    found = np.empty(count, np.int64)
    for row in range(count):
        code = row_code(table, row, columns)
        for at in range(starts[row], starts[row + 1]):
            code = stirred(code, events[at])
        slot = np.int64(code & np.uint64(size - 1))
        while slots[slot] >= 0 and not _equal(table, columns, starts, events, slots[slot], row):
            slot = (slot + 1) & (size - 1)
        if slots[slot] < 0:
            slots[slot] = row
        found[row] = slots[slot]
    return found


@inlined
def _equal(table: Ints, columns: Ints, starts: Ints, events: Ints, one: int, other: int) -> bool:
    for column in columns:
        if table[column, one] != table[column, other]:
            return False
    size = starts[one + 1] - starts[one]
    if starts[other + 1] - starts[other] != size:
        return False
    for at in range(size):
        if events[starts[one] + at] != events[starts[other] + at]:
            return False
    return True


@compiled
def merged(table: Ints, starts: Ints, events: Ints, groups: Ints, places: Ints) -> tuple[Ints, Ints, Ints]:
    """One row for each group of places: the hull, all events, and the values on which those that are bound agree."""
    count, width = len(groups) - 1, table.shape[0]
    found = np.empty((width, count), np.int64)
    bounds = np.zeros(count + 1, np.int64)
    total = 0
    for place in places:
        total += starts[place + 1] - starts[place]
    pool = np.empty(total, np.int64)
    size = 0
    for group in range(count):
        begin = size
        for at in range(groups[group], groups[group + 1]):
            row = places[at]
            if at == groups[group]:
                found[:, group] = table[:, row]
            else:
                _widen(found, group, table, row)
            for event in range(starts[row], starts[row + 1]):
                size = _insert(pool, begin, size, events[event])
        for column in range(VALUES, width):
            if found[column, group] == _DISAGREED:
                found[column, group] = UNBOUND
        bounds[group + 1] = size
    return found, bounds, pool[:size].copy()


_DISAGREED = -2


@inlined
def _widen(found: Ints, group: int, table: Ints, row: int) -> None:
    found[START, group] = min(found[START, group], table[START, row])
    found[END, group] = max(found[END, group], table[END, row])
    found[EMITTED, group] = max(found[EMITTED, group], table[EMITTED, row])
    found[FIRST, group] = min(found[FIRST, group], table[FIRST, row])
    for column in range(VALUES, table.shape[0]):
        value = table[column, row]
        if value == UNBOUND or found[column, group] == value:
            continue
        found[column, group] = value if found[column, group] == UNBOUND else _DISAGREED


@inlined
def _insert(pool: Ints, begin: int, size: int, event: int) -> int:
    """Into a sorted list without repetitions; the new size."""
    at = size
    while at > begin and pool[at - 1] > event:
        at -= 1
    if at > begin and pool[at - 1] == event:
        return size
    for move in range(size, at, -1):
        pool[move] = pool[move - 1]
    pool[at] = event
    return size + 1
