"""The machine-code half of the index: which entries does each event meet?

For each shape whose rarest predicate an event has, the event's values for the constants name a bucket of entries, and
an implicit interval tree in the bucket finds those whose range holds the value.

Numbers that are looked at together lie together, in the columns of a few tables: calls with few arrays are quick.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from motet.engine.match.string_column import (
    Hashes,
    Ints,
    Numbers,
    StringColumn,
    byte_range,
    combine_hashes,
    equal_bytes,
    string_hash,
)
from motet.jit.compiled import compiled, inlined

Floats = npt.NDArray[np.float64]
Bytes = npt.NDArray[np.uint8]

PREFIX_MARK = "^"  # first character of a constant that is a prefix, not a term
FREE = np.uint64(2**64 - 1)
_TAG = np.uint64(0xFFFFFFFF00000000)
_MAX_COMBINATIONS = 1_000_000  # combinations of values beyond which the verifier says what is to be done
_KIND, _INEXACT, _WIDE = 3, 4, 8
_INSTANT = 2
_STRICT_LOW, _STRICT_HIGH, _INEXACT_LOW, _INEXACT_HIGH = 1, 2, 4, 8
_NO, _YES, _OPEN = 0, 1, 2
_FEW = 16
_MARK = ord(PREFIX_MARK)

# Columns of the tables below.
PREDICATE, REF, KIND = range(3)
ARITY, RANGES, READS, POSTING, POSTING_END, ENTRY, MORE, PREDICATES = range(8)
LOW, HIGH, FARTHEST, PACKED = range(4)
FLAG_BITS = 4
EVENT, HIT_LEAF, IS_OPEN, MATCHED_ROWS = range(4)
_FIRST, _LAST, _CHOSEN, _ALL_FIRST, _ALL_LAST = range(5)
_OF_EVENT, _OF_SHAPE, _IS_CROWDED, _KEY, _AT, _BUCKET, _NEAR = range(7)
_FLAGS = 2**FLAG_BITS - 1
_HALF, _PLACE = np.uint64(32), np.uint64(2**32 - 1)
_ENOUGH = 256  # probes whose memory fits into the nearest cache
_NEAR_BY = 1024  # slots of a plan that stays in the nearest cache
_RUN = 16  # entries that are looked at one after the other sooner than by halves


class EncodedRows(NamedTuple):
    """Encoded quads."""

    starts: Ints  # by event
    row: Numbers  # predicate, reference to the object, kind of its value
    code: Hashes
    value: Floats
    offsets: Numbers  # of the terms
    data: Bytes


class SearchTables(NamedTuple):
    """What leaves ask for. All tables are sorted by shape, then by bucket, then by the lower end of the first range."""

    shape: Ints  # numbers of parts, ranges and reads, places in the other tables, predicates, kinds of the ranges
    slots: Hashes  # a hash table: half of a bucket's key, and its place among the buckets
    posting: Numbers  # one behind the other: its first entry, its constants; the end of the entries behind the last
    entry: Floats  # by entry: low, high, farthest end in its subtree, leaf and flags
    more: Floats  # further intervals of the entries: low, high, flags
    codes: Hashes  # of the constants' terms
    offsets: Numbers
    data: Bytes


@inlined
def predicate_rows(row: Numbers, begin: int, end: int, wanted: int) -> tuple[int, int]:
    """Where an event's rows with a predicate begin and end."""
    first = begin
    if end - begin > _FEW:
        last = end
        while first < last:
            middle = (first + last) // 2
            if row[np.uint64(middle), PREDICATE] < wanted:
                first = middle + 1
            else:
                last = middle
    while first < end and row[np.uint64(first), PREDICATE] < wanted:
        first += 1
    last = first
    while last < end and row[np.uint64(last), PREDICATE] == wanted:
        last += 1
    return first, last


@inlined
def _slack(value: float, kind: int) -> float:
    """How far off a value may be. What is true of a dateTime in every zone is true of it in UTC: no more is needed."""
    if not kind & _WIDE or kind & _KIND == _INSTANT or np.isinf(value):
        return 0.0
    return abs(value) * 1e-6 + 1e-40


@inlined
def _inside(value: float, kind: int, low: float, high: float, flags: int) -> int:
    """Whether a value lies in an interval, or only the terms can tell."""
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
    """Whether a constant is the object of a row, or what it begins with, byte by byte."""
    start, end = byte_range(StringColumn(plan.offsets, plan.data), term)
    begin, stop = byte_range(StringColumn(rows.offsets, rows.data), rows.row[np.uint64(row), REF])
    if plan.data[np.uint64(start)] == _MARK:
        return begin + end - start < stop and equal_bytes(
            plan.data, start + 1, end, rows.data, begin + 1, begin + end - start
        )
    return equal_bytes(plan.data, start, end, rows.data, begin, stop)


@inlined
def _is_posting(rows: EncodedRows, plan: SearchTables, bucket: int, arity: int, work: Ints) -> bool:
    """Whether a bucket's constants are the objects of the chosen rows."""
    place = 0
    while place < arity and _is_term(
        rows, plan, plan.posting[np.uint64(bucket + 1 + place)], work[np.uint64(place), _CHOSEN]
    ):
        place += 1
    return place == arity


@inlined
def _key(rows: EncodedRows, shape: int, arity: int, work: Ints) -> np.uint64:
    """The key of the bucket the chosen rows' terms would have."""
    key = np.uint64(shape) + np.uint64(1)
    for place in range(arity):
        key = combine_hashes(key, rows.code[np.uint64(work[np.uint64(place), _CHOSEN])])
    return key


@inlined
def _slot(plan: SearchTables, key: np.uint64, at: int) -> int:
    """From slot ``at`` on, the first that may be the key's, or the free one that says there is none."""
    mask = plan.slots.size - 1
    while True:
        slot = plan.slots[np.uint64(at)]
        if slot == FREE or slot >> _HALF == key >> _HALF:
            return at
        at = (at + 1) & mask


@inlined
def _find(rows: EncodedRows, plan: SearchTables, shape: int, key: np.uint64, at: int, work: Ints) -> int:
    """The bucket of the chosen rows' terms, or -1; it is not in the slots of the key before ``at``."""
    own, mask = plan.shape[np.uint64(shape)], plan.slots.size - 1
    arity, begin, end = own[ARITY], own[POSTING], own[POSTING_END]
    at = _slot(plan, key, at)
    while plan.slots[np.uint64(at)] != FREE:
        bucket: int = np.int64(plan.slots[np.uint64(at)] & _PLACE)  # type: ignore[assignment]
        if begin <= bucket < end and _is_posting(rows, plan, bucket, arity, work):
            return bucket
        at = _slot(plan, key, (at + 1) & mask)
    return -1


@inlined
def _narrow(rows: EncodedRows, plan: SearchTables, bucket: int, arity: int, work: Ints) -> bool:
    """Whether the event may have the constants of a bucket: only rows with their codes are left to choose from."""
    for place in range(arity):
        wanted = plan.codes[plan.posting[bucket + 1 + place]]
        begin, end, last = work[place, _ALL_FIRST], work[place, _ALL_LAST], work[place, _ALL_LAST]
        while begin < end:
            middle = (begin + end) // 2
            if rows.code[middle] < wanted:
                begin = middle + 1
            else:
                end = middle
        while end < last and rows.code[end] == wanted:
            end += 1
        if begin == end:
            return False
        work[place, _FIRST] = work[place, _CHOSEN] = begin
        work[place, _LAST] = end
    return True


@inlined
def _next(work: Ints, first: int, last: int) -> bool:
    """Turn to the next combination of rows; False after the last one."""
    for place in range(first, last):
        own = work[np.uint64(place)]
        own[_CHOSEN] += 1
        if own[_CHOSEN] < own[_LAST]:
            return True
        own[_CHOSEN] = own[_FIRST]
    return False


@inlined
def _put(hits: Numbers, size: int, event: int, leaf: np.int64, is_open: bool, work: Ints, slots: int) -> int:
    """One more hit; -1 when there is no room."""
    if size >= hits.shape[0]:
        return -1
    hit = hits[np.uint64(size)]
    hit[EVENT], hit[HIT_LEAF], hit[IS_OPEN] = event, leaf, is_open
    for place in range(slots):
        hit[np.uint64(MATCHED_ROWS + place)] = work[np.uint64(place), _CHOSEN]
    return size + 1


@inlined
def _leaf(plan: SearchTables, entry: int) -> np.int64:
    return np.int64(plan.entry[np.uint64(entry), PACKED]) >> FLAG_BITS


@inlined
def _match_further_ranges(
    rows: EncodedRows, plan: SearchTables, hits: Numbers, size: int, probe: Ints, entry: int, is_open: bool, work: Ints
) -> int:
    """The hits of an entry whose first range is met, one for each combination of rows that meets the others."""
    event, shape = probe[_OF_EVENT], probe[_OF_SHAPE]
    arity, ranges = plan.shape[shape, ARITY], plan.shape[shape, RANGES]
    kinds = PREDICATES + arity + ranges + plan.shape[shape, READS]
    first = plan.shape[shape, MORE] + (entry - plan.shape[shape, ENTRY]) * (ranges - 1)
    for place in range(arity + 1, arity + ranges):
        work[place, _CHOSEN] = work[place, _FIRST]
    while True:
        answer = _OPEN if is_open else _YES
        for place in range(1, ranges):
            row, at = work[arity + place, _CHOSEN], first + place - 1
            met, kind = _NO, rows.row[row, KIND]
            if kind & _KIND == plan.shape[shape, kinds + place]:
                met = _inside(rows.value[row], kind, plan.more[at, 0], plan.more[at, 1], np.int64(plan.more[at, 2]))
            answer = _NO if min(answer, met) == _NO else max(answer, met)
        if answer != _NO:
            size = _put(hits, size, event, _leaf(plan, entry), answer == _OPEN, work, arity + ranges)
            if size < 0:
                return -1
        if not _next(work, arity + 1, arity + ranges):
            return size


@inlined
def _stab(rows: EncodedRows, plan: SearchTables, hits: Numbers, size: int, probe: Ints, work: Ints, stack: Ints) -> int:
    """The hits of the entries on the stack whose first range holds the value of the row chosen for it, in order."""
    event, shape, crowded = probe[_OF_EVENT], probe[_OF_SHAPE], probe[_IS_CROWDED] != 0
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
        if end - begin > _RUN:
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
                is_open = answer == _OPEN or crowded
                if ranges == 1 or crowded:
                    size = _put(hits, size, event, packed >> FLAG_BITS, is_open, work, arity + ranges)
                else:
                    size = _match_further_ranges(rows, plan, hits, size, probe, begin, is_open, work)
                if size < 0:
                    return -1
            begin += 1
    return size


@inlined
def _match_posting(
    rows: EncodedRows, plan: SearchTables, hits: Numbers, size: int, probe: Ints, bucket: int, work: Ints, stack: Ints
) -> int:
    """The hits of a bucket whose constants are met; -1 when there is no room for them."""
    event, shape, crowded = probe[_OF_EVENT], probe[_OF_SHAPE], probe[_IS_CROWDED] != 0
    own = plan.shape[np.uint64(shape)]
    arity, ranges, reads = own[ARITY], own[RANGES], own[READS]
    begin, end = np.int64(plan.posting[np.uint64(bucket)]), np.int64(plan.posting[np.uint64(bucket + arity + 1)])
    if ranges == 0:
        for entry in range(begin, end):
            size = _put(hits, size, event, _leaf(plan, entry), crowded, work, arity)
            if size < 0:
                return -1
        return size
    kind, first = own[np.uint64(PREDICATES + arity + ranges + reads)], work[np.uint64(arity)]
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
    rows: EncodedRows, plan: SearchTables, hits: Numbers, size: int, probe: Ints, work: Ints, stack: Ints
) -> int:
    """The hits of all leaves of a shape, bucket by bucket: quicker when an event has many values and leaves are few."""
    shape, crowded = probe[_OF_SHAPE], probe[_IS_CROWDED] != 0
    arity = plan.shape[shape, ARITY]
    for bucket in range(plan.shape[shape, POSTING], plan.shape[shape, POSTING_END], arity + 1):
        more = _narrow(rows, plan, bucket, arity, work)
        while more and size >= 0:
            found = _is_posting(rows, plan, bucket, arity, work)
            if found:
                size = _match_posting(rows, plan, hits, size, probe, bucket, work, stack)
            more = _next(work, 0, arity) and not (found and crowded)
    return size


@inlined
def _match_probe(
    rows: EncodedRows, plan: SearchTables, hits: Numbers, size: int, probe: Ints, work: Ints, stack: Ints
) -> int:
    """The hits of all leaves of a probe's shape; -1 when there is no room for them."""
    shape = probe[_OF_SHAPE]
    arity = plan.shape[np.uint64(shape), ARITY]
    if probe[_AT] < 0:
        return _match_postings(rows, plan, hits, size, probe, work, stack)
    key, at = np.uint64(probe[_KEY]), probe[_AT]
    for place in range(arity):
        work[np.uint64(place), _CHOSEN] = work[np.uint64(place), _FIRST]
    while True:
        bucket = _find(rows, plan, shape, key, at, work)
        if bucket >= 0:
            size = _match_posting(rows, plan, hits, size, probe, bucket, work, stack)
        if size < 0 or not _next(work, 0, arity):
            return size
        key = _key(rows, shape, arity, work)
        at = np.int64(key & np.uint64(plan.slots.size - 1))


@inlined
def _prepare_probe(rows: EncodedRows, plan: SearchTables, event: int, shape: int, probe: Ints, work: Ints) -> bool:
    """Prepare a probe; False when the event has not all predicates of the shape, or the shape no leaves."""
    own = plan.shape[np.uint64(shape)]
    buckets = own[POSTING_END] - own[POSTING]
    if not buckets:
        return False
    arity, begin, end = own[ARITY], rows.starts[np.uint64(event)], rows.starts[np.uint64(event + 1)]
    combinations = every = 1.0
    for place in range(arity + own[RANGES] + own[READS]):
        first, last = predicate_rows(rows.row, begin, end, own[np.uint64(PREDICATES + place)])
        if first == last:
            return False
        choice = work[np.uint64(place)]
        choice[_FIRST] = choice[_CHOSEN] = choice[_ALL_FIRST] = first
        choice[_LAST] = choice[_ALL_LAST] = last
        every *= last - first
        combinations *= last - first if place < arity else 1
    key = _key(rows, shape, arity, work)
    few = combinations * (arity + 1) <= buckets
    probe[_OF_EVENT], probe[_OF_SHAPE], probe[_IS_CROWDED] = event, shape, every > _MAX_COMBINATIONS
    probe[_KEY], probe[_AT] = np.int64(key), np.int64(key & np.uint64(plan.slots.size - 1)) if few else -1
    return True


@inlined
def _prepare_probes(
    rows: EncodedRows, plan: SearchTables, starts: Ints, anchored: Ints, event: int, probes: Ints, works: Ints
) -> tuple[int, int]:
    """Probes for the coming events, until there are enough: how many, and the first event without.

    ``anchored`` from ``starts[0]`` are the shapes to try always, from ``starts[p + 1]`` those to try for predicate p.
    """
    size = 0
    while size < _ENOUGH and event < rows.starts.size - 1:
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
    """Have all memory that the probes will look at come near: loads that do not wait for each other come together.

    Whatever may lie in two cache lines is looked at on both ends.
    """
    for probe in range(size):
        probes[probe, _NEAR] = np.int64(plan.slots[max(probes[probe, _AT], 0)])
    for probe in range(size):
        if probes[probe, _AT] >= 0:
            probes[probe, _AT] = _slot(plan, np.uint64(probes[probe, _KEY]), probes[probe, _AT])
    for probe in range(size):
        shape, place = probes[probe, _OF_SHAPE], np.int64(plan.slots[max(probes[probe, _AT], 0)] & _PLACE)
        is_own = plan.shape[shape, POSTING] <= place < plan.shape[shape, POSTING_END]
        probes[probe, _BUCKET] = place if is_own else plan.shape[shape, POSTING]
        probes[probe, _NEAR] = plan.posting[probes[probe, _BUCKET]]
    for probe in range(size):
        near = np.int64(plan.entry[np.uint64(probes[probe, _NEAR]), PACKED])
        bucket, arity = probes[probe, _BUCKET], plan.shape[np.uint64(probes[probe, _OF_SHAPE]), ARITY]
        for constant in range(bucket + 1, bucket + 1 + arity):
            near += plan.offsets[np.uint64(plan.posting[np.uint64(constant)])]
        probes[probe, _NEAR] = near + plan.posting[np.uint64(bucket + 1 + arity)]  # kept, so that no load is left out
    for probe in range(size):
        near = probes[probe, _NEAR]
        bucket, arity = probes[probe, _BUCKET], plan.shape[np.uint64(probes[probe, _OF_SHAPE]), ARITY]
        for constant in range(bucket + 1, bucket + 1 + arity):
            term = np.uint64(plan.posting[np.uint64(constant)])
            near += plan.data[np.uint64(plan.offsets[term])]
            near += plan.data[np.uint64(plan.offsets[term + np.uint64(1)] - 1)]
        probes[probe, _NEAR] = near


@inlined
def _order(hits: Numbers, begin: int, end: int) -> None:
    """Sort an event's hits by leaf: by insertion, in ever smaller steps (Shell's sort). Most are in order already."""
    place = begin + 1
    while place < end and hits[np.uint64(place - 1), HIT_LEAF] <= hits[np.uint64(place), HIT_LEAF]:
        place += 1
    if place >= end:
        return
    step = 1
    while step < (end - begin) // 3:
        step = 3 * step + 1
    while step:
        for place in range(begin + step, end):
            at = place
            while at >= begin + step and hits[at - step, HIT_LEAF] > hits[at, HIT_LEAF]:
                for column in range(hits.shape[1]):
                    hits[at - step, column], hits[at, column] = hits[at, column], hits[at - step, column]
                at -= step
        step //= 3


@compiled
def search(
    slots: int, hits: Numbers, size: int, event: int, starts: Ints, anchored: Ints, *tables: npt.NDArray[Any]
) -> tuple[int, int]:
    """Write the hits of the events from one on, by event and leaf, while there is room: how many, and the next event.

    No shape has more than ``slots`` predicates. The tables are those of the rows, then of the plan: Numba takes long to
    look at tuples.
    """
    rows = EncodedRows(tables[0], tables[1], tables[2], tables[3], tables[4], tables[5])
    plan = SearchTables(tables[6], tables[7], tables[8], tables[9], tables[10], tables[11], tables[12], tables[13])
    room = _ENOUGH + plan.shape.shape[0]
    probes, works = np.empty((room, 7), np.int64), np.empty((room, slots, 5), np.int64)
    stack = np.empty((130, 2), np.int64)
    while event < rows.starts.size - 1:
        count, event = _prepare_probes(rows, plan, starts, anchored, event, probes, works)
        if plan.slots.size > _NEAR_BY:
            _prefetch(plan, probes, count)
        first = size
        for probe in range(count):
            own = probes[np.uint64(probe), _OF_EVENT]
            size = _match_probe(rows, plan, hits, size, probes[np.uint64(probe)], works[np.uint64(probe)], stack)
            if size < 0:
                return first, own
            if probe + 1 == count or probes[np.uint64(probe + 1), _OF_EVENT] != own:
                _order(hits, first, size)
                first = size
    return size, event


@compiled
def constant_hashes(strings: StringColumn) -> Hashes:
    """The codes of constants; the mark of one that is no term does not count."""
    found = np.empty(strings.offsets.size - 1, np.uint64)
    for place in range(found.size):
        start, end = strings.offsets[place], strings.offsets[place + 1]
        found[place] = string_hash(strings.data, start + 1 if strings.data[start] == _MARK else start, end)
    return found


@compiled
def posting_keys(shape: int, terms: Any, codes: Hashes) -> Hashes:
    """The key of each row of terms."""
    found = np.empty(terms.shape[0], np.uint64)
    for row in range(terms.shape[0]):
        key = np.uint64(shape) + np.uint64(1)
        for term in terms[row]:
            key = combine_hashes(key, codes[term])
        found[row] = key
    return found


def tagged_slots(keys: Hashes, places: Ints) -> Hashes:
    """Open addressing: a slot has the upper half of a key, so that most others need no second look, and its place."""
    found = np.full(max(4, 1 << (2 * len(keys) - 1).bit_length()), FREE)  # NumPy asks for huge pages, Numba does not
    _fill_slots(found, keys, places)
    return found


@compiled
def _fill_slots(slots: Hashes, keys: Hashes, places: Ints) -> None:
    mask = slots.size - 1
    for number in range(keys.size):
        at = np.int64(keys[number] & np.uint64(mask))
        while slots[at] != FREE:
            at = (at + 1) & mask
        slots[at] = keys[number] & _TAG | np.uint64(places[number])


@compiled
def build_interval_tree(starts: Ints, high: Floats) -> Floats:
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
