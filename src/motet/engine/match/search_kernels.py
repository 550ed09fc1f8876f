"""The machine-code half of the index: which entries does each event meet?

For each shape whose rarest predicate an event has, the event's values for the constants name a bucket of entries, and
an implicit interval tree in the bucket finds those whose range holds the value.

Numbers that are looked at together lie together, in the columns of a few tables: calls with few arrays are quick.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from motet.engine.match.compiled import compiled, inner, making
from motet.engine.match.prefixes import MARK
from motet.engine.match.texts import Codes, Ints, Numbers, Texts, code, mixed, same

Floats = npt.NDArray[np.float64]
Bytes = npt.NDArray[np.uint8]

_CROWDED = 1_000_000  # combinations of values beyond which the verifier says what is to be done
_KIND, _INEXACT, _WIDE = 3, 4, 8
_INSTANT = 2
_STRICT_LOW, _STRICT_HIGH, _INEXACT_LOW, _INEXACT_HIGH = 1, 2, 4, 8
_NO, _YES, _OPEN = 0, 1, 2
_FEW = 16
_MARK = ord(MARK)

# Columns of the tables below.
PREDICATE, REF, KIND = range(3)
ARITY, RANGES, READS, BUCKET, LAST_BUCKET, TERMS, ENTRY, MORE, ASKED = range(9)
KEY, START = range(2)
LOW, HIGH, FARTHEST, PACKED = range(4)
FLAG_BITS = 4
EVENT, HIT_LEAF, IS_OPEN, WITNESS = range(4)
_FIRST, _LAST, _CHOSEN, _ALL_FIRST, _ALL_LAST = range(5)
_FLAGS = 2**FLAG_BITS - 1


class Rows(NamedTuple):
    """Encoded quads."""

    starts: Ints  # by event
    row: Numbers  # predicate, reference to the object, kind of its value
    code: Codes
    value: Floats
    offsets: Numbers  # of the terms
    data: Bytes


class Plan(NamedTuple):
    """What leaves ask for. All tables are sorted by shape, then by bucket, then by the lower end of the first range."""

    shape: Ints  # numbers of parts, ranges and reads, places in the other tables, predicates, kinds of the ranges
    slots: Numbers  # a hash table of the buckets
    bucket: Ints  # by bucket: the bits of its key and its first entry; one row more for the end
    terms: Numbers  # the constants of the buckets
    entry: Floats  # by entry: low, high, farthest end in its subtree, leaf and flags
    more: Floats  # further intervals of the entries: low, high, flags
    codes: Codes  # of the constants' terms
    offsets: Numbers
    data: Bytes


@compiled
def constant_codes(strings: Texts) -> Codes:
    """The codes of constants; the mark of one that is no term does not count."""
    found = np.empty(strings.offsets.size - 1, np.uint64)
    for place in range(found.size):
        start, end = strings.offsets[place], strings.offsets[place + 1]
        found[place] = code(strings.data, start + 1 if strings.data[start] == _MARK else start, end)
    return found


@inner
def _bucket_key(shape: int, terms: Any, codes: Codes) -> np.uint64:
    found = np.uint64(shape) + np.uint64(1)
    for term in terms:
        found = mixed(found, codes[term])
    return found


@compiled
def bucket_keys(shape: int, terms: Any, codes: Codes) -> Codes:
    """The key of each row of terms."""
    found = np.empty(terms.shape[0], np.uint64)
    for row in range(terms.shape[0]):
        found[row] = _bucket_key(shape, terms[row], codes)
    return found


@compiled
def plant(starts: Ints, high: Floats) -> Floats:
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


@inner
def run(row: Numbers, begin: int, end: int, wanted: int) -> tuple[int, int]:
    """Where an event's rows with a predicate begin and end."""
    first = begin
    if end - begin > _FEW:
        last = end
        while first < last:
            middle = (first + last) // 2
            if row[middle, PREDICATE] < wanted:
                first = middle + 1
            else:
                last = middle
    while first < end and row[first, PREDICATE] < wanted:
        first += 1
    last = first
    while last < end and row[last, PREDICATE] == wanted:
        last += 1
    return first, last


@inner
def _slack(value: float, kind: int) -> float:
    """How far off a value may be. What is true of a dateTime in every zone is true of it in UTC: no more is needed."""
    if not kind & _WIDE or kind & _KIND == _INSTANT or np.isinf(value):
        return 0.0
    return abs(value) * 1e-6 + 1e-40


@inner
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


@inner
def _is_term(rows: Rows, plan: Plan, term: int, row: int) -> bool:
    """Whether a constant is the object of a row, or what it begins with, byte by byte."""
    ref, start, end = rows.row[row, REF], plan.offsets[term], plan.offsets[term + 1]
    begin, stop = rows.offsets[ref], rows.offsets[ref + 1]
    if plan.data[start] == _MARK:
        return begin + end - start < stop and same(plan.data, start + 1, end, rows.data, begin + 1, begin + end - start)
    return same(plan.data, start, end, rows.data, begin, stop)


@inner
def _is_bucket(rows: Rows, plan: Plan, first: int, arity: int, work: Ints) -> bool:
    """Whether a bucket's constants are the objects of the chosen rows."""
    place = 0
    while place < arity and _is_term(rows, plan, plan.terms[first + place], work[place, _CHOSEN]):
        place += 1
    return place == arity


@inner
def _find(rows: Rows, plan: Plan, shape: int, work: Ints) -> int:
    """The bucket of the chosen rows' terms, or -1."""
    arity, begin = plan.shape[shape, ARITY], plan.shape[shape, BUCKET]
    key = np.uint64(shape) + np.uint64(1)
    for place in range(arity):
        key = mixed(key, rows.code[work[place, _CHOSEN]])
    mask = plan.slots.size - 1
    at = np.int64(key & np.uint64(mask))
    while plan.slots[at] >= 0:
        bucket: int = np.int64(plan.slots[at])  # type: ignore[assignment]
        found = plan.bucket[bucket, KEY] == np.int64(key) and begin <= bucket < plan.shape[shape, LAST_BUCKET]
        if found and _is_bucket(rows, plan, plan.shape[shape, TERMS] + (bucket - begin) * arity, arity, work):
            return bucket
        at = (at + 1) & mask
    return -1


@inner
def _narrow(rows: Rows, plan: Plan, first: int, arity: int, work: Ints) -> bool:
    """Whether the event may have the constants of a bucket: only rows with their codes are left to choose from."""
    for place in range(arity):
        wanted = plan.codes[plan.terms[first + place]]
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


@inner
def _next(work: Ints, first: int, last: int) -> bool:
    """Turn to the next combination of rows; False after the last one."""
    for place in range(first, last):
        work[place, _CHOSEN] += 1
        if work[place, _CHOSEN] < work[place, _LAST]:
            return True
        work[place, _CHOSEN] = work[place, _FIRST]
    return False


@inner
def _put(hits: Numbers, size: int, event: int, leaf: np.int64, is_open: bool, work: Ints, slots: int) -> int:
    """One more hit; -1 when there is no room."""
    if size >= hits.shape[0]:
        return -1
    hits[size, EVENT], hits[size, HIT_LEAF], hits[size, IS_OPEN] = event, leaf, is_open
    for place in range(slots):
        hits[size, WITNESS + place] = work[place, _CHOSEN]
    return size + 1


@inner
def _leaf(plan: Plan, entry: int) -> np.int64:
    return np.int64(plan.entry[entry, PACKED]) >> FLAG_BITS


@inner
def _meet_rest(  # noqa: PLR0913, PLR0917  (a kernel has no object to keep its state in)
    rows: Rows, plan: Plan, hits: Numbers, size: int, event: int, shape: int, entry: int, is_open: bool, work: Ints
) -> int:
    """The hits of an entry whose first range is met, one for each combination of rows that meets the others."""
    arity, ranges = plan.shape[shape, ARITY], plan.shape[shape, RANGES]
    kinds = ASKED + arity + ranges + plan.shape[shape, READS]
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


@inner
def _stab(  # noqa: PLR0913, PLR0917  (a kernel has no object to keep its state in)
    rows: Rows, plan: Plan, hits: Numbers, size: int, event: int, shape: int, bucket: int, crowded: bool, work: Ints
) -> int:
    """The hits of a bucket's entries whose first range holds the value of the row chosen for it."""
    arity, ranges = plan.shape[shape, ARITY], plan.shape[shape, RANGES]
    value, kind = rows.value[work[arity, _CHOSEN]], rows.row[work[arity, _CHOSEN], KIND]
    slack = _slack(value, kind)
    bottom = depth = work.shape[0] - 66  # the stack lies behind the slots
    work[depth, 0], work[depth, 1] = plan.bucket[bucket, START], plan.bucket[bucket + 1, START]
    depth += 1
    while depth > bottom:
        depth -= 1
        begin, end = work[depth, 0], work[depth, 1]
        middle = (begin + end) // 2
        if begin >= end or plan.entry[middle, FARTHEST] < value - slack:
            continue
        work[depth, 0], work[depth, 1] = begin, middle
        depth += 1
        low, high = plan.entry[middle, LOW], plan.entry[middle, HIGH]
        if low > value + slack:
            continue
        work[depth, 0], work[depth, 1] = middle + 1, end
        depth += 1
        answer = _inside(value, kind, low, high, np.int64(plan.entry[middle, PACKED]) & _FLAGS)
        if answer == _NO:
            continue
        is_open = answer == _OPEN or crowded
        if ranges == 1 or crowded:
            size = _put(hits, size, event, _leaf(plan, middle), is_open, work, arity + ranges)
        else:
            size = _meet_rest(rows, plan, hits, size, event, shape, middle, is_open, work)
        if size < 0:
            return -1
    return size


@inner
def _meet_bucket(  # noqa: PLR0913, PLR0917  (a kernel has no object to keep its state in)
    rows: Rows, plan: Plan, hits: Numbers, size: int, event: int, shape: int, bucket: int, crowded: bool, work: Ints
) -> int:
    """The hits of a bucket whose constants are met."""
    arity, ranges, reads = plan.shape[shape, ARITY], plan.shape[shape, RANGES], plan.shape[shape, READS]
    if ranges == 0:
        for entry in range(plan.bucket[bucket, START], plan.bucket[bucket + 1, START]):
            size = _put(hits, size, event, _leaf(plan, entry), crowded, work, arity)
            if size < 0:
                return -1
        return size
    kind = plan.shape[shape, ASKED + arity + ranges + reads]
    for row in range(work[arity, _FIRST], work[arity, _LAST]):
        if rows.row[row, KIND] & _KIND == kind:
            work[arity, _CHOSEN] = row
            size = _stab(rows, plan, hits, size, event, shape, bucket, crowded, work)
            if size < 0:
                return -1
    return size


@inner
def _runs(rows: Rows, plan: Plan, event: int, shape: int, work: Ints, first: int, last: int) -> float:
    """The rows for the predicates at some places of a shape; how many combinations they have."""
    combinations = 1.0
    begin, end = rows.starts[event], rows.starts[event + 1]
    for place in range(first, last):
        start, stop = run(rows.row, begin, end, plan.shape[shape, ASKED + place])
        work[place, _FIRST] = work[place, _CHOSEN] = work[place, _ALL_FIRST] = start
        work[place, _LAST] = work[place, _ALL_LAST] = stop
        combinations *= stop - start
    return combinations


@inner
def _meet_buckets(
    rows: Rows, plan: Plan, hits: Numbers, size: int, event: int, shape: int, crowded: bool, work: Ints
) -> int:
    """The hits of all leaves of a shape, bucket by bucket: quicker when an event has many values and leaves are few."""
    arity, begin = plan.shape[shape, ARITY], plan.shape[shape, BUCKET]
    for bucket in range(begin, plan.shape[shape, LAST_BUCKET]):
        first = plan.shape[shape, TERMS] + (bucket - begin) * arity
        more = _narrow(rows, plan, first, arity, work)
        while more and size >= 0:
            found = _is_bucket(rows, plan, first, arity, work)
            if found:
                size = _meet_bucket(rows, plan, hits, size, event, shape, bucket, crowded, work)
            more = _next(work, 0, arity) and not (found and crowded)
    return size


@inner
def _meet_shape(rows: Rows, plan: Plan, hits: Numbers, size: int, event: int, shape: int, work: Ints) -> int:
    """The hits of all leaves of a shape."""
    arity = plan.shape[shape, ARITY]
    combinations = _runs(rows, plan, event, shape, work, 0, arity)
    if combinations == 0:
        return size
    asked = arity + plan.shape[shape, RANGES] + plan.shape[shape, READS]
    values = _runs(rows, plan, event, shape, work, arity, asked)
    if values == 0:
        return size
    crowded = values * combinations > _CROWDED
    if combinations > plan.shape[shape, LAST_BUCKET] - plan.shape[shape, BUCKET]:
        return _meet_buckets(rows, plan, hits, size, event, shape, crowded, work)
    while True:
        bucket = _find(rows, plan, shape, work)
        if bucket >= 0:
            size = _meet_bucket(rows, plan, hits, size, event, shape, bucket, crowded, work)
        if size < 0 or not _next(work, 0, arity):
            return size


@inner
def _meet_event(
    rows: Rows, plan: Plan, starts: Ints, anchored: Ints, hits: Numbers, size: int, event: int, work: Ints
) -> int:
    """The hits of one event; -1 when there is no room for them.

    ``anchored`` from ``starts[0]`` are the shapes to try always, from ``starts[p + 1]`` those to try for predicate p.
    """
    row, end = rows.starts[event], rows.starts[event + 1]
    tried = np.int64(0)
    while size >= 0:
        if tried + 1 < starts.size:
            for at in range(starts[tried], starts[tried + 1]):
                if size >= 0:
                    size = _meet_shape(rows, plan, hits, size, event, anchored[at], work)
        if row == end:
            break
        tried = np.int64(rows.row[row, PREDICATE]) + 1
        while row < end and rows.row[row, PREDICATE] + 1 == tried:
            row += 1
    return size


@making
def _larger(hits: Numbers) -> Numbers:
    """The hits, with room for as many again."""
    larger = np.empty((2 * hits.shape[0], hits.shape[1]), np.int32)
    for row in range(hits.shape[0]):
        for column in range(hits.shape[1]):
            larger[row, column] = hits[row, column]
    return larger


@compiled
def search(rows: Rows, plan: Plan, starts: Ints, anchored: Ints, slots: int) -> tuple[Numbers, int]:
    """All hits of a batch, by event, and how many there are. No shape has more than ``slots`` predicates."""
    hits = np.empty((rows.starts.size + 64, WITNESS + slots), np.int32)
    work = np.zeros((slots + 66, 5), np.int64)
    size = 0
    for event in range(rows.starts.size - 1):
        found = _meet_event(rows, plan, starts, anchored, hits, size, event, work)
        while found < 0:
            hits = _larger(hits)
            found = _meet_event(rows, plan, starts, anchored, hits, size, event, work)
        size = found
    return hits, size
