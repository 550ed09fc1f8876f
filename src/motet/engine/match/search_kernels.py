"""Compiled functions of the index: the entries of leaves that each event meets.

For each leaf shape whose rarest predicate an event has, the event's values for the constants select a posting list, and
an implicit interval tree in the list finds the entries whose range holds the value.

Integers that are read together are stored together, in the columns of a few tables: calls with few arrays are fast.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from motet.engine.match.string_column import StringColumn, byte_range, combine_hashes, equal_bytes, string_hash
from motet.jit.compiled import Bytes, Floats, Hashes, Int32s, Ints, compiled, inlined

PREFIX_MARK = "^"  # first character of a constant that is a prefix, not a term
FREE = np.uint64(2**64 - 1)
_TAG = np.uint64(0xFFFFFFFF00000000)
_MAX_COMBINATIONS = 1_000_000  # of values, beyond which the verifier decides
_KIND, _INEXACT, _WIDE = 3, 4, 8
_INSTANT = 2
_STRICT_LOW, _STRICT_HIGH, _INEXACT_LOW, _INEXACT_HIGH = 1, 2, 4, 8
_NO, _YES, _OPEN = 0, 1, 2
_LINEAR_ROWS = 16
_MARK = ord(PREFIX_MARK)

# Columns of the tables below.
PREDICATE, REF, KIND = range(3)
ARITY, RANGES, READS, POSTING, POSTING_END, ENTRY, MORE, PREDICATES = range(8)
LOW, HIGH, FARTHEST, PACKED = range(4)
FLAG_BITS = 4
EVENT, HIT_LEAF, IS_OPEN, MATCHED_ROWS = range(4)
_FIRST, _LAST, _CHOSEN, _ALL_FIRST, _ALL_LAST = range(5)
_OF_EVENT, _OF_SHAPE, _IS_UNDECIDED, _KEY, _AT, _POSTING, _NEAR = range(7)
_FLAGS = 2**FLAG_BITS - 1
_HALF, _POSTING_MASK = np.uint64(32), np.uint64(2**32 - 1)
_MAX_PROBES = 256  # whose memory fits into the first-level cache
_CACHED_SLOTS = 1024  # of tables that stay in the first-level cache
_LINEAR_ENTRIES = 16  # that are faster to scan than to bisect


class EncodedRows(NamedTuple):
    """The encoded rows of a batch of events."""

    starts: Ints  # by event
    row: Int32s  # predicate, reference to the object, kind of its value
    code: Hashes
    value: Floats
    offsets: Int32s  # of the terms
    data: Bytes


class SearchTables(NamedTuple):
    """The leaves of a segment, sorted by shape, then by posting list, then by the lower end of the first range."""

    shape: Ints  # counts of constants, ranges and reads, starts in the other tables, predicates, kinds of ranges
    slots: Hashes  # a hash table: the upper half of a posting list's key, and its start in `posting`
    posting: Int32s  # for each list its first entry and its constants; after the last one the end of the entries
    entry: Floats  # by entry: low, high, farthest end in its subtree, leaf and flags
    more: Floats  # further intervals of the entries: low, high, flags
    codes: Hashes  # of the constants' terms
    offsets: Int32s
    data: Bytes


@inlined
def predicate_rows(row: Int32s, begin: int, end: int, predicate: int) -> tuple[int, int]:
    """The start and the end of an event's rows with a predicate."""
    first = begin
    if end - begin > _LINEAR_ROWS:
        last = end
        while first < last:
            middle = (first + last) // 2
            if row[np.uint64(middle), PREDICATE] < predicate:
                first = middle + 1
            else:
                last = middle
    while first < end and row[np.uint64(first), PREDICATE] < predicate:
        first += 1
    last = first
    while last < end and row[np.uint64(last), PREDICATE] == predicate:
        last += 1
    return first, last


@inlined
def _slack(value: float, kind: int) -> float:
    """The possible error of a value. A dateTime has none: what holds for it in every zone holds in UTC."""
    if not kind & _WIDE or kind & _KIND == _INSTANT or np.isinf(value):
        return 0.0
    return abs(value) * 1e-6 + 1e-40


@inlined
def _inside(value: float, kind: int, low: float, high: float, flags: int) -> int:
    """Whether a value is in an interval; _OPEN if only the terms decide."""
    slack = _slack(value, kind)
    if value + slack < low or value - slack > high:
        return _NO
    if kind & _WIDE:
        return _OPEN
    answer = _YES
    if value == low and (flags & (_STRICT_LOW | _INEXACT_LOW) or kind & _INEXACT):
        answer = _OPEN if kind & _INEXACT or flags & _INEXACT_LOW else _NO
    if value == high and answer != _NO and (flags & (_STRICT_HIGH | _INEXACT_HIGH) or kind & _INEXACT):
        answer = _OPEN if kind & _INEXACT or flags & _INEXACT_HIGH else _NO
    return answer


@inlined
def _is_term(rows: EncodedRows, plan: SearchTables, term: int, row: int) -> bool:
    """Whether a constant is the object of a row, or its prefix, byte by byte."""
    start, end = byte_range(StringColumn(plan.offsets, plan.data), term)
    begin, stop = byte_range(StringColumn(rows.offsets, rows.data), rows.row[np.uint64(row), REF])
    if plan.data[np.uint64(start)] == _MARK:
        return begin + end - start < stop and equal_bytes(
            plan.data, start + 1, end, rows.data, begin + 1, begin + end - start
        )
    return equal_bytes(plan.data, start, end, rows.data, begin, stop)


@inlined
def _is_posting(rows: EncodedRows, plan: SearchTables, posting: int, arity: int, work: Ints) -> bool:
    """Whether the constants of a posting list are the objects of the chosen rows."""
    index = 0
    while index < arity and _is_term(
        rows, plan, plan.posting[np.uint64(posting + 1 + index)], work[np.uint64(index), _CHOSEN]
    ):
        index += 1
    return index == arity


@inlined
def _key(rows: EncodedRows, shape: int, arity: int, work: Ints) -> np.uint64:
    """The key of the posting list of the chosen rows' terms."""
    key = np.uint64(shape) + np.uint64(1)
    for index in range(arity):
        key = combine_hashes(key, rows.code[np.uint64(work[np.uint64(index), _CHOSEN])])
    return key


@inlined
def _slot(plan: SearchTables, key: np.uint64, at: int) -> int:
    """From slot ``at`` on, the first one that may be the key's, or a free one if there is none."""
    mask = plan.slots.size - 1
    while True:
        slot = plan.slots[np.uint64(at)]
        if slot == FREE or slot >> _HALF == key >> _HALF:
            return at
        at = (at + 1) & mask


@inlined
def _find(rows: EncodedRows, plan: SearchTables, shape: int, key: np.uint64, at: int, work: Ints) -> int:
    """The posting list of the chosen rows' terms, or -1; it is not in the slots of the key before ``at``."""
    shape_row, mask = plan.shape[np.uint64(shape)], plan.slots.size - 1
    arity, begin, end = shape_row[ARITY], shape_row[POSTING], shape_row[POSTING_END]
    at = _slot(plan, key, at)
    while plan.slots[np.uint64(at)] != FREE:
        posting: int = np.int64(plan.slots[np.uint64(at)] & _POSTING_MASK)  # type: ignore[assignment]
        if begin <= posting < end and _is_posting(rows, plan, posting, arity, work):
            return posting
        at = _slot(plan, key, (at + 1) & mask)
    return -1


@inlined
def _narrow(rows: EncodedRows, plan: SearchTables, posting: int, arity: int, work: Ints) -> bool:
    """Whether the event may have the constants of a posting list; leaves only rows with their hashes to choose from."""
    for index in range(arity):
        hash_ = plan.codes[plan.posting[posting + 1 + index]]
        begin, end, last = work[index, _ALL_FIRST], work[index, _ALL_LAST], work[index, _ALL_LAST]
        while begin < end:
            middle = (begin + end) // 2
            if rows.code[middle] < hash_:
                begin = middle + 1
            else:
                end = middle
        while end < last and rows.code[end] == hash_:
            end += 1
        if begin == end:
            return False
        work[index, _FIRST] = work[index, _CHOSEN] = begin
        work[index, _LAST] = end
    return True


@inlined
def _next(work: Ints, first: int, last: int) -> bool:
    """Choose the next combination of rows; False after the last one."""
    for index in range(first, last):
        choice = work[np.uint64(index)]
        choice[_CHOSEN] += 1
        if choice[_CHOSEN] < choice[_LAST]:
            return True
        choice[_CHOSEN] = choice[_FIRST]
    return False


@inlined
def _put(hits: Int32s, size: int, event: int, leaf: np.int64, is_open: bool, work: Ints, slots: int) -> int:
    """Add a hit; -1 without room."""
    if size >= hits.shape[0]:
        return -1
    hit = hits[np.uint64(size)]
    hit[EVENT], hit[HIT_LEAF], hit[IS_OPEN] = event, leaf, is_open
    for index in range(slots):
        hit[np.uint64(MATCHED_ROWS + index)] = work[np.uint64(index), _CHOSEN]
    return size + 1


@inlined
def _leaf(plan: SearchTables, entry: int) -> np.int64:
    return np.int64(plan.entry[np.uint64(entry), PACKED]) >> FLAG_BITS


@inlined
def _match_further_ranges(
    rows: EncodedRows, plan: SearchTables, hits: Int32s, size: int, probe: Ints, entry: int, is_open: bool, work: Ints
) -> int:
    """The hits of an entry whose first range is met, one for each combination of rows that meets the others."""
    event, shape = probe[_OF_EVENT], probe[_OF_SHAPE]
    arity, ranges = plan.shape[shape, ARITY], plan.shape[shape, RANGES]
    kinds = PREDICATES + arity + ranges + plan.shape[shape, READS]
    first = plan.shape[shape, MORE] + (entry - plan.shape[shape, ENTRY]) * (ranges - 1)
    for index in range(arity + 1, arity + ranges):
        work[index, _CHOSEN] = work[index, _FIRST]
    while True:
        answer = _OPEN if is_open else _YES
        for index in range(1, ranges):
            row, at = work[arity + index, _CHOSEN], first + index - 1
            met, kind = _NO, rows.row[row, KIND]
            if kind & _KIND == plan.shape[shape, kinds + index]:
                met = _inside(rows.value[row], kind, plan.more[at, 0], plan.more[at, 1], np.int64(plan.more[at, 2]))
            answer = _NO if min(answer, met) == _NO else max(answer, met)
        if answer != _NO:
            size = _put(hits, size, event, _leaf(plan, entry), answer == _OPEN, work, arity + ranges)
            if size < 0:
                return -1
        if not _next(work, arity + 1, arity + ranges):
            return size


@inlined
def _stab(rows: EncodedRows, plan: SearchTables, hits: Int32s, size: int, probe: Ints, work: Ints, stack: Ints) -> int:
    """The hits of the entries on the stack whose first range holds the value of the row chosen for it, in order."""
    event, shape, is_undecided = probe[_OF_EVENT], probe[_OF_SHAPE], probe[_IS_UNDECIDED] != 0
    arity, ranges = plan.shape[np.uint64(shape), ARITY], plan.shape[np.uint64(shape), RANGES]
    row = np.uint64(work[np.uint64(arity), _CHOSEN])
    value, kind = rows.value[row], rows.row[row, KIND]
    slack = _slack(value, kind)
    depth = 1
    while depth:
        depth -= 1
        begin, end = stack[np.uint64(depth), 0], stack[np.uint64(depth), 1]
        middle = (begin + end) >> 1
        if begin >= end or plan.entry[np.uint64(middle), FARTHEST] < value - slack:
            continue
        if end - begin > _LINEAR_ENTRIES:
            if plan.entry[np.uint64(middle), LOW] <= value + slack:
                stack[depth, 0], stack[depth, 1] = middle + 1, end
                stack[depth + 1, 0], stack[depth + 1, 1] = middle, middle + 1
                depth += 2
            stack[depth, 0], stack[depth, 1] = begin, middle
            depth += 1
            continue
        while begin < end and plan.entry[np.uint64(begin), LOW] <= value + slack:
            entry = plan.entry[np.uint64(begin)]
            low, high, packed = entry[LOW], entry[HIGH], np.int64(entry[PACKED])
            answer = _inside(value, kind, low, high, packed & _FLAGS)
            if answer != _NO:
                is_open = answer == _OPEN or is_undecided
                if ranges == 1 or is_undecided:
                    size = _put(hits, size, event, packed >> FLAG_BITS, is_open, work, arity + ranges)
                else:
                    size = _match_further_ranges(rows, plan, hits, size, probe, begin, is_open, work)
                if size < 0:
                    return -1
            begin += 1
    return size


@inlined
def _match_posting(
    rows: EncodedRows, plan: SearchTables, hits: Int32s, size: int, probe: Ints, posting: int, work: Ints, stack: Ints
) -> int:
    """Add the hits of a posting list whose constants are met; -1 without room."""
    event, shape, is_undecided = probe[_OF_EVENT], probe[_OF_SHAPE], probe[_IS_UNDECIDED] != 0
    shape_row = plan.shape[np.uint64(shape)]
    arity, ranges, reads = shape_row[ARITY], shape_row[RANGES], shape_row[READS]
    begin, end = np.int64(plan.posting[np.uint64(posting)]), np.int64(plan.posting[np.uint64(posting + arity + 1)])
    if ranges == 0:
        for entry in range(begin, end):
            size = _put(hits, size, event, _leaf(plan, entry), is_undecided, work, arity)
            if size < 0:
                return -1
        return size
    kind, first = shape_row[np.uint64(PREDICATES + arity + ranges + reads)], work[np.uint64(arity)]
    for row in range(first[_FIRST], first[_LAST]):
        if rows.row[np.uint64(row), KIND] & _KIND == kind:
            first[_CHOSEN] = row
            stack[0, 0], stack[0, 1] = begin, end
            size = _stab(rows, plan, hits, size, probe, work, stack)
            if size < 0:
                return -1
    return size


@inlined
def _match_postings(
    rows: EncodedRows, plan: SearchTables, hits: Int32s, size: int, probe: Ints, work: Ints, stack: Ints
) -> int:
    """Add the hits of all posting lists of a shape: faster when an event has many values and there are few leaves."""
    shape, is_undecided = probe[_OF_SHAPE], probe[_IS_UNDECIDED] != 0
    arity = plan.shape[shape, ARITY]
    for posting in range(plan.shape[shape, POSTING], plan.shape[shape, POSTING_END], arity + 1):
        has_next = _narrow(rows, plan, posting, arity, work)
        while has_next and size >= 0:
            is_met = _is_posting(rows, plan, posting, arity, work)
            if is_met:
                size = _match_posting(rows, plan, hits, size, probe, posting, work, stack)
            has_next = _next(work, 0, arity) and not (is_met and is_undecided)
    return size


@inlined
def _match_probe(
    rows: EncodedRows, plan: SearchTables, hits: Int32s, size: int, probe: Ints, work: Ints, stack: Ints
) -> int:
    """The hits of all leaves of a probe's shape; -1 without room."""
    shape = probe[_OF_SHAPE]
    arity = plan.shape[np.uint64(shape), ARITY]
    if probe[_AT] < 0:
        return _match_postings(rows, plan, hits, size, probe, work, stack)
    key, at = np.uint64(probe[_KEY]), probe[_AT]
    for index in range(arity):
        work[np.uint64(index), _CHOSEN] = work[np.uint64(index), _FIRST]
    while True:
        posting = _find(rows, plan, shape, key, at, work)
        if posting >= 0:
            size = _match_posting(rows, plan, hits, size, probe, posting, work, stack)
        if size < 0 or not _next(work, 0, arity):
            return size
        key = _key(rows, shape, arity, work)
        at = np.int64(key & np.uint64(plan.slots.size - 1))


@inlined
def _prepare_probe(rows: EncodedRows, plan: SearchTables, event: int, shape: int, probe: Ints, work: Ints) -> bool:
    """Prepare a probe; False when the event lacks a predicate of the shape, or the shape has no leaves."""
    shape_row = plan.shape[np.uint64(shape)]
    size = shape_row[POSTING_END] - shape_row[POSTING]
    if not size:
        return False
    arity, begin, end = shape_row[ARITY], rows.starts[np.uint64(event)], rows.starts[np.uint64(event + 1)]
    combinations = all_combinations = 1.0
    for index in range(arity + shape_row[RANGES] + shape_row[READS]):
        first, last = predicate_rows(rows.row, begin, end, shape_row[np.uint64(PREDICATES + index)])
        if first == last:
            return False
        choice = work[np.uint64(index)]
        choice[_FIRST] = choice[_CHOSEN] = choice[_ALL_FIRST] = first
        choice[_LAST] = choice[_ALL_LAST] = last
        all_combinations *= last - first
        combinations *= last - first if index < arity else 1
    key = _key(rows, shape, arity, work)
    is_probed = combinations * (arity + 1) <= size
    probe[_OF_EVENT], probe[_OF_SHAPE], probe[_IS_UNDECIDED] = event, shape, all_combinations > _MAX_COMBINATIONS
    probe[_KEY], probe[_AT] = np.int64(key), np.int64(key & np.uint64(plan.slots.size - 1)) if is_probed else -1
    return True


@inlined
def _prepare_probes(
    rows: EncodedRows, plan: SearchTables, starts: Ints, anchored: Ints, event: int, probes: Ints, works: Ints
) -> tuple[int, int]:
    """Prepare probes for the next events, up to a limit; returns their number, and the first event without.

    ``anchored`` from ``starts[0]`` are the shapes to try always, from ``starts[p + 1]`` those to try for predicate p.
    """
    size = 0
    while size < _MAX_PROBES and event < rows.starts.size - 1:
        row, end = rows.starts[np.uint64(event)], rows.starts[np.uint64(event + 1)]
        tried = np.int64(0)
        while True:
            if tried + 1 < starts.size:
                for at in range(starts[np.uint64(tried)], starts[np.uint64(tried + 1)]):
                    probe, work = probes[np.uint64(size)], works[np.uint64(size)]
                    size += _prepare_probe(rows, plan, event, anchored[np.uint64(at)], probe, work)
            if row == end:
                break
            tried = np.int64(rows.row[np.uint64(row), PREDICATE]) + 1
            while row < end and rows.row[np.uint64(row), PREDICATE] + 1 == tried:
                row += 1
        event += 1
    return size, event


@inlined
def _prefetch(plan: SearchTables, probes: Ints, size: int) -> None:
    """Load all memory that the probes will read: loads that do not depend on each other run at the same time.

    What may span two cache lines is read at both ends.
    """
    for probe in range(size):
        probes[probe, _NEAR] = np.int64(plan.slots[max(probes[probe, _AT], 0)])
    for probe in range(size):
        if probes[probe, _AT] >= 0:
            probes[probe, _AT] = _slot(plan, np.uint64(probes[probe, _KEY]), probes[probe, _AT])
    for probe in range(size):
        shape, posting = probes[probe, _OF_SHAPE], np.int64(plan.slots[max(probes[probe, _AT], 0)] & _POSTING_MASK)
        is_of_shape = plan.shape[shape, POSTING] <= posting < plan.shape[shape, POSTING_END]
        probes[probe, _POSTING] = posting if is_of_shape else plan.shape[shape, POSTING]
        probes[probe, _NEAR] = plan.posting[probes[probe, _POSTING]]
    for probe in range(size):
        near = np.int64(plan.entry[np.uint64(probes[probe, _NEAR]), PACKED])
        list_start, arity = probes[probe, _POSTING], plan.shape[np.uint64(probes[probe, _OF_SHAPE]), ARITY]
        for constant in range(list_start + 1, list_start + 1 + arity):
            near += plan.offsets[np.uint64(plan.posting[np.uint64(constant)])]
        probes[probe, _NEAR] = (
            near + plan.posting[np.uint64(list_start + 1 + arity)]
        )  # stored: else the compiler would drop loads
    for probe in range(size):
        near = probes[probe, _NEAR]
        list_start, arity = probes[probe, _POSTING], plan.shape[np.uint64(probes[probe, _OF_SHAPE]), ARITY]
        for constant in range(list_start + 1, list_start + 1 + arity):
            term = np.uint64(plan.posting[np.uint64(constant)])
            near += plan.data[np.uint64(plan.offsets[term])]
            near += plan.data[np.uint64(plan.offsets[term + np.uint64(1)] - 1)]
        probes[probe, _NEAR] = near


@inlined
def _sort(hits: Int32s, begin: int, end: int) -> None:
    """Sort an event's hits by leaf (Shell sort). Most are sorted already."""
    index = begin + 1
    while index < end and hits[np.uint64(index - 1), HIT_LEAF] <= hits[np.uint64(index), HIT_LEAF]:
        index += 1
    if index >= end:
        return
    step = 1
    while step < (end - begin) // 3:
        step = 3 * step + 1
    while step:
        for index in range(begin + step, end):
            at = index
            while at >= begin + step and hits[at - step, HIT_LEAF] > hits[at, HIT_LEAF]:
                for column in range(hits.shape[1]):
                    hits[at - step, column], hits[at, column] = hits[at, column], hits[at - step, column]
                at -= step
        step //= 3


@compiled
def search(
    slots: int, hits: Int32s, size: int, event: int, starts: Ints, anchored: Ints, *tables: npt.NDArray[Any]
) -> tuple[int, int]:
    """Write the hits of the events from one on, by event and leaf, while there is room.

    Returns the number of hits, and the next event.
    No shape has more than ``slots`` predicates. The tables are those of the rows, then of the plan: Numba is slow
    at unpacking tuples.
    """
    rows = EncodedRows(tables[0], tables[1], tables[2], tables[3], tables[4], tables[5])
    plan = SearchTables(tables[6], tables[7], tables[8], tables[9], tables[10], tables[11], tables[12], tables[13])
    capacity = _MAX_PROBES + plan.shape.shape[0]
    probes, works = np.empty((capacity, 7), np.int64), np.empty((capacity, slots, 5), np.int64)
    stack = np.empty((130, 2), np.int64)
    while event < rows.starts.size - 1:
        count, event = _prepare_probes(rows, plan, starts, anchored, event, probes, works)
        if plan.slots.size > _CACHED_SLOTS:
            _prefetch(plan, probes, count)
        first = size
        for probe in range(count):
            probe_event = probes[np.uint64(probe), _OF_EVENT]
            size = _match_probe(rows, plan, hits, size, probes[np.uint64(probe)], works[np.uint64(probe)], stack)
            if size < 0:
                return first, probe_event
            if probe + 1 == count or probes[np.uint64(probe + 1), _OF_EVENT] != probe_event:
                _sort(hits, first, size)
                first = size
    return size, event


@compiled
def constant_hashes(strings: StringColumn) -> Hashes:
    """The hashes of constants, without the mark of a prefix."""
    hashes = np.empty(strings.offsets.size - 1, np.uint64)
    for index in range(hashes.size):
        start, end = strings.offsets[index], strings.offsets[index + 1]
        hashes[index] = string_hash(strings.data, start + 1 if strings.data[start] == _MARK else start, end)
    return hashes


@compiled
def posting_keys(shape: int, terms: Any, codes: Hashes) -> Hashes:
    """The key of each row of constants."""
    keys = np.empty(terms.shape[0], np.uint64)
    for row in range(terms.shape[0]):
        key = np.uint64(shape) + np.uint64(1)
        for term in terms[row]:
            key = combine_hashes(key, codes[term])
        keys[row] = key
    return keys


def tagged_slots(keys: Hashes, postings: Ints) -> Hashes:
    """A hash table with open addressing: a slot has the upper half of a key, to skip most others, and its posting."""
    slots = np.full(max(4, 1 << (2 * len(keys) - 1).bit_length()), FREE)  # NumPy requests huge pages, Numba does not
    _fill_slots(slots, keys, postings)
    return slots


@compiled
def _fill_slots(slots: Hashes, keys: Hashes, postings: Ints) -> None:
    mask = slots.size - 1
    for index in range(keys.size):
        at = np.int64(keys[index] & np.uint64(mask))
        while slots[at] != FREE:
            at = (at + 1) & mask
        slots[at] = keys[index] & _TAG | np.uint64(postings[index])


@compiled
def build_interval_tree(starts: Ints, high: Floats) -> Floats:
    """The farthest end in each subtree; the middle entry of a range is its root."""
    farthest = np.empty(high.size, np.float64)
    for entry in range(high.size):
        farthest[entry] = high[entry]
    stack = np.empty((130, 3), np.int64)
    for posting in range(starts.size - 1):
        depth = 1
        stack[0, 0], stack[0, 1], stack[0, 2] = starts[posting], starts[posting + 1], 0
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
