"""Machine code for keys: rows that agree in some columns get the same number.

Numbers of 32 bits without a sign are found faster than others: no index made of one can be negative.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from motet.engine.detect.occurrences import Ints
from motet.jit.compiled import allocating, compiled, inlined

Numbers = npt.NDArray[np.uint32]
Tables = tuple[Ints, ...]  # columns of each
Slots = tuple[Numbers, Numbers, Ints]  # of each slot: the number, with `EMPTY`; the number before and the value

EMPTY = np.uint32(0xFFFFFFFF)
_SLOTS = 4096
_FACTOR, _OTHER, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(40)


@compiled
def key_numbers(tables: Tables, columns: Ints) -> tuple[Numbers, int]:
    """The numbers of all rows of some tables, and how many there are.

    For each table it is said which columns are its key; numbers by one column are told apart by the next one.
    """
    total = 0
    for table in range(len(tables)):
        total += tables[table].shape[1]
    found, count = np.zeros(total, np.uint32), 1
    for place in range(columns.shape[1]):
        slots, count, first = _new_slots(_SLOTS), 0, 0
        for table in range(len(tables)):
            values = tables[table][columns[table, place]]
            numbers = found[first : first + len(values)]
            row = 0
            while row < len(values):
                row, count = _number(values, numbers, row, slots, count)
                if 2 * count >= len(slots[0]):
                    slots = _spread(slots)
            first += len(values)
    return found, count


@allocating
def _new_slots(size: int) -> Slots:
    return np.full(size, EMPTY, np.uint32), np.empty(size, np.uint32), np.empty(size, np.int64)


@inlined
def _number(values: Ints, numbers: Numbers, row: int, slots: Slots, count: int) -> tuple[int, int]:
    """Go on until all rows have their number or the table is too full; the next row, and how many numbers there are."""
    number_in, before_in, value_in = slots
    most = len(number_in) // 2
    while row < len(values) and count < most:
        value, before = values[row], numbers[row]
        slot = _slot(slots, before, value)
        if number_in[slot] == EMPTY:
            number_in[slot], before_in[slot], value_in[slot] = np.uint32(count), before, value
            count += 1
        numbers[row] = number_in[slot]
        row += 1
    return row, count


@inlined
def _slot(slots: Slots, before: np.uint32, value: int) -> np.uint64:
    """Where a number by the columns before and a value stand, or belong."""
    number_in, before_in, value_in = slots
    mask = np.uint64(len(number_in) - 1)
    slot = ((np.uint64(value) * _FACTOR + np.uint64(before) * _OTHER) >> _SHIFT) & mask
    while number_in[slot] != EMPTY and (value_in[slot] != value or before_in[slot] != before):
        slot = (slot + np.uint64(1)) & mask
    return slot


@allocating
def _spread(slots: Slots) -> Slots:
    """The same in a larger table."""
    number_in, before_in, value_in = slots
    larger = _new_slots(4 * len(number_in))
    for at in range(len(number_in)):
        if number_in[at] != EMPTY:
            slot = _slot(larger, before_in[at], value_in[at])
            larger[0][slot], larger[1][slot], larger[2][slot] = number_in[at], before_in[at], value_in[at]
    return larger
