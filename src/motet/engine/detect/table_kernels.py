"""The columns of occurrence tables, and compiled functions over their rows, over terms and over the frontier."""

from __future__ import annotations

import numpy as np

from motet.engine.match.string_column import equal_bytes, string_hash
from motet.jit.compiled import Bytes, Hashes, Int32s, Ints, UInts, allocating, compiled, inlined

# EMISSION_OFFSET is the offset of the record that made the occurrence final, FIRST_OFFSET that of its first event.
# LEFT_END and RIGHT_START are the ends of the free interval between the sides of a pair; only WITHOUT reads them.
# From VALUES on there is one column for each variable.
START, END, EMISSION_OFFSET, FIRST_OFFSET, LEFT_END, RIGHT_START, VALUES = range(7)

UNBOUND = -1
EVENT_BIT = 1 << 62  # set in a value that stands for the IRI of an event of a leaf; the other bits are its offset
NO_OFFSET = np.iinfo(np.int64).max  # the first offset of an occurrence without events

Members = frozenset[tuple[tuple[str, int], ...]]  # the solutions a CONSTRUCT template is filled with


# Rows of one table


@compiled
def take_rows(columns: Ints, starts: Ints, events: Ints, rows: UInts) -> tuple[Ints, Ints, Ints]:
    """The columns of the given rows, the start of each row's events, and the events of all rows in one array."""
    taken, taken_starts = np.empty((len(columns), len(rows)), np.int64), np.empty(len(rows) + 1, np.int64)
    for column in range(len(columns)):
        target, values = taken[column], columns[column]
        for index in range(len(rows)):
            target[index] = values[rows[index]]
    total = taken_starts[0] = 0
    for index in range(len(rows)):
        total += starts[rows[index] + 1] - starts[rows[index]]
        taken_starts[index + 1] = total
    taken_events, size = np.empty(total, np.int64), 0
    for index in range(len(rows)):
        for event in range(starts[rows[index]], starts[rows[index] + 1]):
            taken_events[size] = events[event]
            size += 1
    return taken, taken_starts, taken_events


@compiled
def is_time_ordered(start: Ints, end: Ints) -> bool:
    """Whether rows are sorted by end, then by start."""
    descents = 0
    ends, previous_ends, starts, previous_starts = end[1:], end[:-1], start[1:], start[:-1]
    for row in range(len(ends)):  # no early exit: the loop is vectorised
        descents += (ends[row] < previous_ends[row]) | (
            (ends[row] == previous_ends[row]) & (starts[row] < previous_starts[row])
        )
    return descents == 0


# Rows of several tables


@compiled
def gather_columns(
    result: Ints, targets: Ints, first: Ints, second: Ints, third: Ints, rows: UInts, sources: Ints
) -> None:
    """Copy column ``sources[i]`` of the given rows to ``result[targets[i]]``; rows count through three tables."""
    second_start = first.shape[1]
    third_start = second_start + second.shape[1]
    for index in range(len(targets)):
        target, source = result[targets[index]], sources[index]
        of_first, of_second, of_third = first[source], second[source], third[source]
        for at in range(len(rows)):
            row = rows[at]
            if row >= third_start:
                target[at] = of_third[np.uint32(row - third_start)]
            elif row < second_start:
                target[at] = of_first[row]
            else:
                target[at] = of_second[np.uint32(row - second_start)]


@compiled
def merge_events(starts: Ints, events: Ints, left: UInts, right: UInts) -> tuple[Ints, Ints]:
    """The sorted events of pairs of rows without a common event: the start of each pair's events, and all events."""
    pair_starts, total = np.empty(len(left) + 1, np.int64), 0
    pair_starts[0] = 0
    for pair in range(len(left)):
        row, other = left[pair], right[pair]
        total += starts[row + 1] - starts[row] + starts[other + 1] - starts[other]
        pair_starts[pair + 1] = total
    pair_events, size = np.empty(total, np.int64), np.uint64(0)
    for pair in range(len(left)):
        row, other = left[pair], right[pair]
        at, stop = np.uint64(starts[row]), np.uint64(starts[row + 1])
        other_at, other_stop = np.uint64(starts[other]), np.uint64(starts[other + 1])
        while at < stop or other_at < other_stop:
            if other_at == other_stop or (at < stop and events[at] < events[other_at]):
                pair_events[size] = events[at]
                at += np.uint64(1)
            else:
                pair_events[size] = events[other_at]
                other_at += np.uint64(1)
            size += np.uint64(1)
    return pair_starts, pair_events


# Equal rows and groups of rows

_HASH_SEED, _HASH_FACTOR, _HASH_SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xFF51AFD7ED558CCD), np.uint64(32)


@inlined
def _mix(hash_: np.uint64, value: int) -> np.uint64:
    """A hash of a hash and one more value."""
    mixed = (hash_ ^ np.uint64(value)) * _HASH_FACTOR
    return mixed ^ (mixed >> _HASH_SHIFT)


@inlined
def hash_row(table: Ints, row: int, columns: Ints) -> np.uint64:
    """A hash of the values of a row in the given columns."""
    hash_ = _HASH_SEED
    for column in columns:
        hash_ = _mix(hash_, table[column, row])
    return hash_


@compiled
def first_equal(table: Ints, columns: Ints, starts: Ints, events: Ints) -> Ints:
    """For each row the first row with the same values in the given columns and the same events."""
    count = table.shape[1]
    size = 16
    while size < 2 * count:
        size *= 2
    slots = np.full(size, -1, np.int64)
    first = np.empty(count, np.int64)
    for row in range(count):
        hash_ = hash_row(table, row, columns)
        for at in range(starts[row], starts[row + 1]):
            hash_ = _mix(hash_, events[at])
        slot = np.int64(hash_ & np.uint64(size - 1))
        while slots[slot] >= 0 and not _are_equal(table, columns, starts, events, slots[slot], row):
            slot = (slot + 1) & (size - 1)
        if slots[slot] < 0:
            slots[slot] = row
        first[row] = slots[slot]
    return first


@inlined
def _are_equal(table: Ints, columns: Ints, starts: Ints, events: Ints, row: int, other: int) -> bool:
    for column in columns:
        if table[column, row] != table[column, other]:
            return False
    size = starts[row + 1] - starts[row]
    if starts[other + 1] - starts[other] != size:
        return False
    for at in range(size):
        if events[starts[row] + at] != events[starts[other] + at]:
            return False
    return True


@compiled
def merge_groups(table: Ints, starts: Ints, events: Ints, groups: Ints, rows: Ints) -> tuple[Ints, Ints, Ints]:
    """One row for each group: the hull, all events, and the values on which the rows that bind them agree.

    Group ``i`` is ``rows[groups[i]:groups[i + 1]]``.
    """
    count, width = len(groups) - 1, table.shape[0]
    merged = np.empty((width, count), np.int64)
    merged_starts = np.zeros(count + 1, np.int64)
    total = 0
    for row in rows:
        total += starts[row + 1] - starts[row]
    merged_events = np.empty(total, np.int64)
    size = 0
    for group in range(count):
        begin = size
        for at in range(groups[group], groups[group + 1]):
            row = rows[at]
            if at == groups[group]:
                merged[:, group] = table[:, row]
            else:
                _widen(merged, group, table, row)
            for event in range(starts[row], starts[row + 1]):
                size = _insert(merged_events, begin, size, events[event])
        for column in range(VALUES, width):
            if merged[column, group] == _CONFLICT:
                merged[column, group] = UNBOUND
        merged_starts[group + 1] = size
    return merged, merged_starts, merged_events[:size].copy()


_CONFLICT = -2  # while a group is merged: its rows bind a variable to different values


@inlined
def _widen(merged: Ints, group: int, table: Ints, row: int) -> None:
    merged[START, group] = min(merged[START, group], table[START, row])
    merged[END, group] = max(merged[END, group], table[END, row])
    merged[EMISSION_OFFSET, group] = max(merged[EMISSION_OFFSET, group], table[EMISSION_OFFSET, row])
    merged[FIRST_OFFSET, group] = min(merged[FIRST_OFFSET, group], table[FIRST_OFFSET, row])
    for column in range(VALUES, table.shape[0]):
        value = table[column, row]
        if value == UNBOUND or merged[column, group] == value:
            continue
        merged[column, group] = value if merged[column, group] == UNBOUND else _CONFLICT


@inlined
def _insert(events: Ints, begin: int, size: int, event: int) -> int:
    """Insert into the sorted list without repetitions that begins at ``begin``; returns the new size."""
    at = size
    while at > begin and events[at - 1] > event:
        at -= 1
    if at > begin and events[at - 1] == event:
        return size
    for index in range(size, at, -1):
        events[index] = events[index - 1]
    events[at] = event
    return size + 1


# Key ids: rows that agree in the key columns have the same id

Slots = tuple[UInts, UInts, Ints]  # of each slot of a hash table: the id or EMPTY, the previous id, and the value

EMPTY = np.uint32(0xFFFFFFFF)
_SLOTS = 4096
_FACTOR, _PREVIOUS_FACTOR, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(40)


@compiled
def key_ids(tables: tuple[Ints, ...], columns: Ints) -> tuple[UInts, int]:
    """The key ids of all rows of the tables, and the number of ids; ``columns`` are the key columns of each table.

    Each key column refines the ids that the columns before it have given.
    """
    total = 0
    for table in range(len(tables)):
        total += tables[table].shape[1]
    ids, count = np.zeros(total, np.uint32), 1
    for index in range(columns.shape[1]):
        slots, count, first = _new_slots(_SLOTS), 0, 0
        for table in range(len(tables)):
            values = tables[table][columns[table, index]]
            table_ids = ids[first : first + len(values)]
            row = 0
            while row < len(values):
                row, count = _assign_ids(values, table_ids, row, slots, count)
                if 2 * count >= len(slots[0]):
                    slots = _grow(slots)
            first += len(values)
    return ids, count


@allocating
def _new_slots(size: int) -> Slots:
    return np.full(size, EMPTY, np.uint32), np.empty(size, np.uint32), np.empty(size, np.int64)


@inlined
def _assign_ids(values: Ints, ids: UInts, row: int, slots: Slots, count: int) -> tuple[int, int]:
    """Assign ids until all rows have one or the hash table is half full; returns the next row and the number of ids."""
    slot_ids, slot_previous, slot_values = slots
    max_count = len(slot_ids) // 2
    while row < len(values) and count < max_count:
        value, previous = values[row], ids[row]
        slot = _slot(slots, previous, value)
        if slot_ids[slot] == EMPTY:
            slot_ids[slot], slot_previous[slot], slot_values[slot] = np.uint32(count), previous, value
            count += 1
        ids[row] = slot_ids[slot]
        row += 1
    return row, count


@inlined
def _slot(slots: Slots, previous: np.uint32, value: int) -> np.uint64:
    """The slot that holds a previous id and a value, or the empty one where they belong."""
    slot_ids, slot_previous, slot_values = slots
    mask = np.uint64(len(slot_ids) - 1)
    slot = ((np.uint64(value) * _FACTOR + np.uint64(previous) * _PREVIOUS_FACTOR) >> _SHIFT) & mask
    while slot_ids[slot] != EMPTY and (slot_values[slot] != value or slot_previous[slot] != previous):
        slot = (slot + np.uint64(1)) & mask
    return slot


@allocating
def _grow(slots: Slots) -> Slots:
    """The same entries in a hash table four times as large."""
    slot_ids, slot_previous, slot_values = slots
    larger = _new_slots(4 * len(slot_ids))
    for at in range(len(slot_ids)):
        if slot_ids[at] != EMPTY:
            slot = _slot(larger, slot_previous[at], slot_values[at])
            larger[0][slot], larger[1][slot], larger[2][slot] = slot_ids[at], slot_previous[at], slot_values[at]
    return larger


# Terms of the dictionary

_LESS, _MORE = ord("<"), ord(">")


@inlined
def _copy(data: Bytes, start: int, end: int, target: Bytes, at: int) -> int:
    """Copy bytes; returns the position behind the copy."""
    for index in range(end - start):
        target[np.uint64(at + index)] = data[np.uint64(start + index)]
    return at + end - start


@compiled
def assign_term_ids(  # noqa: PLR0913, PLR0917  (a kernel has no object to keep its state in)
    offsets: Int32s, data: Bytes, requested: Ints, ids: Ints, begin: int,
    size: int, term_offsets: Ints, term_data: Bytes, hashes: Hashes, slots: Int32s,
) -> tuple[int, int]:  # fmt: skip
    """Write the term ids of the requested strings from ``begin`` on, while the arrays of the terms have room.

    The string index -1 has the id -1. Returns the index of the first string without an id, and the number of terms.
    """
    mask = np.uint64(slots.size - 1)
    for at in range(begin, requested.size):
        ids[at] = -1
        if requested[at] < 0:
            continue
        start, end = offsets[requested[at]], offsets[requested[at] + 1]
        hash_ = string_hash(data, start, end)
        slot = hash_ & mask
        while slots[slot] >= 0:
            term = slots[slot]
            term_start, term_end = term_offsets[term], term_offsets[term + 1]
            if hashes[term] == hash_ and equal_bytes(data, start, end, term_data, term_start, term_end):
                break
            slot = (slot + np.uint64(1)) & mask
        if slots[slot] < 0:
            if size == hashes.size or term_offsets[size] + end - start > term_data.size:
                return at, size
            term_offsets[size + 1] = _copy(data, start, end, term_data, term_offsets[size])
            hashes[size], slots[slot] = hash_, size
            size += 1
        ids[at] = slots[slot]
    return requested.size, size


@compiled
def concatenate_terms(
    indexes: Ints, offsets: Ints, data: Bytes, iri_offsets: Int32s, iris: Bytes
) -> tuple[Ints, Bytes]:
    """The terms at the given indexes in one array of bytes, with their offsets; ``~i`` stands for event IRI ``i``."""
    result_offsets = np.zeros(indexes.size + 1, np.int64)
    for at in range(indexes.size):
        index = indexes[at]
        size = offsets[index + 1] - offsets[index] if index >= 0 else iri_offsets[-index] - iri_offsets[~index] + 2
        result_offsets[at + 1] = result_offsets[at] + size
    result = np.empty(result_offsets[-1], np.uint8)
    for at in range(indexes.size):
        index, target = indexes[at], result_offsets[at]
        if index >= 0:
            _copy(data, offsets[index], offsets[index + 1], result, target)
        else:
            result[target] = _LESS
            target = _copy(iris, iri_offsets[~index], iri_offsets[-index], result, target + 1)
            result[target] = _MORE
    return result_offsets, result


# The frontier

_STEP, _FAR, _ONE = np.uint64(8), np.uint64(64), np.uint64(1)


@compiled
def first_offsets_past(frontiers: Ints, offsets: Ints, previous: int, otherwise: int, instants: Ints) -> Ints:
    """For each instant the offset of the first record whose frontier is later; ``frontiers`` ascend.

    An instant before ``previous``, or one that no frontier has passed, gets the offset ``otherwise``. The instants
    mostly ascend, too, so each search starts where the last one ended. It counts in steps of a few records, which is
    faster than a branch for each.
    """
    result = np.empty(len(instants), np.int64)
    at, count = np.uint64(0), np.uint64(len(frontiers))
    for index in range(len(instants)):
        instant = instants[index]
        if (at > 0 and frontiers[at - _ONE] > instant) or (at + _FAR < count and frontiers[at + _FAR] <= instant):
            at = _search(frontiers, instant)
        while at + _STEP <= count and frontiers[at + _STEP - _ONE] <= instant:
            at += _STEP
        above = at
        for near in range(at, min(at + _STEP, count)):
            above += np.uint64(frontiers[near] <= instant)
        result[index] = offsets[above] if above < count and instant >= previous else otherwise
    return result


@inlined
def _search(frontiers: Ints, instant: int) -> np.uint64:
    low, high = np.uint64(0), np.uint64(len(frontiers))
    while low < high:
        middle = (low + high) >> _ONE
        if frontiers[middle] <= instant:
            low = middle + _ONE
        else:
            high = middle
    return low


@compiled
def plain_terms(leaf: Ints, starts: Ints, term: Ints, first: Ints, columns: Ints, event_column: Ints) -> Ints:
    """By binding its term; -1 for the event of a leaf whose value is the event's offset."""
    terms = np.empty(term.size, np.int64)
    for solution in range(leaf.size):
        begin, shift = starts[solution], first[leaf[solution]] - starts[solution]
        for at in range(begin, starts[solution + 1]):
            terms[at] = -1 if columns[at + shift] == event_column[leaf[solution]] else term[at]
    return terms


@compiled
def leaf_columns(  # noqa: PLR0913, PLR0917  (a kernel has no object to keep its state in)
    order: Ints, event: Ints, leaf: Ints, starts: Ints, term_ids: Ints, offset: Ints, start: Ints, end: Ints,
    width: Ints, first: Ints, columns: Ints, event_column: Ints,
) -> Ints:  # fmt: skip
    """The columns of all leaves, one leaf after the other, for solutions in an order by their leaves.

    ``first`` has the start of each leaf's part of ``columns``, which are the columns of its bindings.
    """
    size = 0
    for solution in order:
        size += VALUES + width[leaf[solution]]
    values = np.full(size, UNBOUND, np.int64)
    at = index = 0
    while index < len(order):
        current, stop = leaf[order[index]], index
        while stop < len(order) and leaf[order[stop]] == current:
            stop += 1
        rows = stop - index
        for row in range(rows):
            solution = order[index + row]
            target, source = at + row, event[solution]
            values[target + START * rows], values[target + END * rows] = start[source], end[source]
            values[target + EMISSION_OFFSET * rows] = values[target + FIRST_OFFSET * rows] = offset[source]
            first_value, shift = target + VALUES * rows, first[current] - starts[solution]
            for binding in range(starts[solution], starts[solution + 1]):
                values[first_value + columns[binding + shift] * rows] = term_ids[binding]
            if event_column[current] >= 0:
                values[first_value + event_column[current] * rows] = offset[source] | EVENT_BIT
        at, index = at + (VALUES + width[current]) * rows, stop
    return values
