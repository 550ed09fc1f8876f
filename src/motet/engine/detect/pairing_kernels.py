"""Machine code for pairing: which occurrences of the other side does each one take when it completes?

Rows of both sides are numbered through, and so are their keys; only rows with one key can be a pair. Shared variables
that may be unbound are no part of the key: they are loose, and compared for every candidate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from motet.engine.detect.columns import UNBOUND, Ints
from motet.engine.detect.table_kernels import UInts
from motet.jit.compiled import allocating, compiled, inlined

Flags = npt.NDArray[np.bool_]

UNRESTRICTED, RECENT, CHRONICLE, CONTINUOUS, CUMULATIVE = range(5)
(
    AND, ALONGSIDE, BEFORE, AFTER, MEETS, MET_BY, OVERLAPS, OVERLAPPED_BY, STARTS, STARTED_BY, DURING, INCLUDES,
    FINISHES, FINISHED_BY, EQUALS,
) = range(15)  # fmt: skip

NOT_LISTED = np.uint32(0xFFFFFFFF)
_EVER = np.iinfo(np.int64).max


class Span(NamedTuple):
    """Where the rows of a side are that take part: what is open, then what completes, by end and start."""

    first: int
    new: int
    stop: int


class Rows(NamedTuple):
    """What pairing asks about rows; the events only if two that are related ``may_share`` one."""

    start: Ints
    end: Ints
    key: UInts
    left: Span
    right: Span
    loose: Ints  # by row and variable
    may_share: bool
    starts: Ints
    events: Ints


class Related(NamedTuple):
    """What is asked of pairs: a relation, a bound unless that is negative, and with ``checked`` to be among some."""

    relation: int
    bound: int
    checked: bool
    allowed: Ints  # by number, sorted: the later row's times how many rows there are, and the earlier one's


@inlined
def _side(rows: Rows, row: int) -> int:
    """1 for the right one."""
    return 1 if row >= rows.right.first else 0


@inlined
def _is_open(rows: Rows, row: int) -> bool:
    return row < rows.left.new or rows.right.first <= row < rows.right.new


@inlined
def _are_related(rows: Rows, relation: int, one: int, other: int) -> bool:
    """Whether the one of them that is left has the relation to the right one."""
    left, right = (other, one) if _side(rows, one) else (one, other)
    return _related(relation, rows.start[left], rows.end[left], rows.start[right], rows.end[right])


@inlined
def _related(relation: int, a: int, z: int, b: int, y: int) -> bool:  # noqa: PLR0911, PLR0912  (a table)
    """Whether the left interval [a, z] has the relation to the right one [b, y]."""
    if relation == AND:
        return True
    if relation == BEFORE:
        return z < b
    if relation == AFTER:
        return y < a
    if relation == ALONGSIDE:
        return max(a, b) <= min(z, y)
    if relation == MEETS:
        return z == b and a < b and z < y
    if relation == MET_BY:
        return y == a and b < a and y < z
    if relation == OVERLAPS:
        return a < b < z < y
    if relation == OVERLAPPED_BY:
        return b < a < y < z
    if relation == STARTS:
        return a == b and z < y
    if relation == STARTED_BY:
        return a == b and y < z
    if relation == DURING:
        return a > b and z < y
    if relation == INCLUDES:
        return b > a and y < z
    if relation == FINISHES:
        return a > b and z == y
    if relation == FINISHED_BY:
        return b > a and z == y
    return a == b and z == y


@inlined
def _agree(loose: Ints, one: int, other: int) -> bool:
    for column in range(loose.shape[1]):
        first, second = loose[one, column], loose[other, column]
        if first != second and UNBOUND not in (first, second):
            return False
    return True


@inlined
def _disjoint(rows: Rows, one: int, other: int) -> bool:
    """Whether two rows share no event."""
    if not rows.may_share:
        return True
    at, stop, other_at, other_stop = rows.starts[one], rows.starts[one + 1], rows.starts[other], rows.starts[other + 1]
    while at < stop and other_at < other_stop:
        if rows.events[at] == rows.events[other_at]:
            return False
        if rows.events[at] < rows.events[other_at]:
            at += 1
        else:
            other_at += 1
    return True


@inlined
def _is_among(pairs: Ints, code: int) -> bool:
    low, high = 0, len(pairs)
    while low < high:
        middle = (low + high) // 2
        if pairs[middle] < code:
            low = middle + 1
        else:
            high = middle
    return low < len(pairs) and pairs[low] == code


@inlined
def _go_together(rows: Rows, asked: Related, x: int, y: int) -> bool:
    """Whether the values and events of a later and an earlier row do, and any condition holds for them."""
    if asked.checked and not _is_among(asked.allowed, x * len(rows.start) + y):
        return False
    return _agree(rows.loose, x, y) and _disjoint(rows, x, y)


@inlined
def _admits(rows: Rows, asked: Related, x: int, y: int) -> bool:
    """Whether a later and an earlier row are such a pair."""
    span = max(rows.end[x], rows.end[y]) - min(rows.start[x], rows.start[y])
    if (0 <= asked.bound < span) or not _are_related(rows, asked.relation, x, y):
        return False
    return _go_together(rows, asked, x, y)


@compiled
def completing(rows: Rows) -> UInts:
    """The rows of both sides that complete, in one order by end and start."""
    start, end, (_, one, one_stop), (_, other, other_stop) = rows.start, rows.end, rows.left, rows.right
    order = np.empty(one_stop - one + other_stop - other, np.uint32)
    for at in range(len(order)):
        if other == other_stop or (
            one < one_stop and (end[one] < end[other] or (end[one] == end[other] and start[one] <= start[other]))
        ):
            order[at] = one
            one += 1
        else:
            order[at] = other
            other += 1
    return order


@compiled
def rivals(rows: Rows, keys: int, order: UInts) -> tuple[Flags, bool]:
    """Which places of an order have the times and the key of another one: only among those does more decide."""
    found = np.zeros(len(order), np.bool_)
    seen = np.full(keys, -1, np.int64)  # by key: the last place
    some = False
    group = 0
    for place in range(len(order)):
        row = order[place]
        if place and (rows.end[row] != rows.end[order[place - 1]] or rows.start[row] != rows.start[order[place - 1]]):
            group = place
        key = rows.key[row]
        if seen[key] >= group:
            found[seen[key]] = found[place] = some = True
        seen[key] = place
    return found, some


@compiled
def pair_all(
    rows: Rows, asked: Related, order: UInts, last: UInts, before: UInts, first: int, most: int
) -> tuple[UInts, UInts, int]:
    """All pairs (later, earlier) of rows that are not both open already, whatever became of them.

    The order is that of the ends. Its places from ``first`` on are taken until there are more than enough pairs; where
    to go on is returned. ``last`` has, by side and key, the row that came last, ``before`` that before each row.
    """
    room = max(16, len(order))
    later, earlier = np.empty(room, np.uint32), np.empty(room, np.uint32)
    found, at = 0, first
    while at < len(order) and found < most:
        x = order[at]
        list_ = 2 * rows.key[x] + _side(rows, x)
        more = _pair_with_earlier(rows, asked, last[list_ ^ 1], before, x, later, earlier, found)
        if more > room:  # again, with more of it
            later = np.concatenate((later[:found], np.empty(2 * more - found, np.uint32)))
            earlier = np.concatenate((earlier[:found], np.empty(2 * more - found, np.uint32)))
            room = len(later)
            continue
        found = more
        before[x] = last[list_]
        last[list_] = x
        at += 1
    return later[:found].copy(), earlier[:found].copy(), at


@inlined
def _pair_with_earlier(
    rows: Rows, asked: Related, y: int, before: UInts, x: int, later: UInts, earlier: UInts, found: int
) -> int:
    """How many pairs there are now, even where there is no room for them."""
    while y != NOT_LISTED and (asked.bound < 0 or rows.end[y] >= rows.end[x] - asked.bound):
        if not (_is_open(rows, x) and _is_open(rows, y)) and _admits(rows, asked, x, y):
            if found < len(later):
                later[found], earlier[found] = x, y
            found += 1
        y = before[y]
    return found


@compiled
def pair_next(rows: Rows, asked: Related, keys: int, is_right: bool, oldest: int) -> tuple[UInts, UInts, UInts, bool]:
    """Pairs (later, earlier) where each row of one side, which completes first, is taken by the first one that may.

    Those of one later row stand together, the later rows in their order. Then come the rows that nobody took, if they
    start no earlier than some instant, and whether later rows of one key have equal times: which of them is first has
    to be known, and they have to stand so.
    """
    own, other = (rows.right, rows.left) if is_right else (rows.left, rows.right)
    takers = other.stop - other.new
    taker = np.full(own.stop - own.first, takers, np.uint32)  # of each row: a number, or that of all of them for nobody
    counts = np.zeros(takers + 2, np.uint32)
    are_tied = _find_takers(rows, asked, own, other, not is_right, np.full(keys, takers, np.uint32), taker)
    for row in range(len(taker)):
        counts[taker[row] + 1] += np.uint32(1)
    for number in range(takers + 1):
        counts[number + 1] += counts[number]
    found = counts[takers]
    later, earlier = np.empty(len(taker), np.uint32), np.empty(len(taker), np.uint32)
    for row in range(len(taker)):
        at = counts[taker[row]]
        counts[taker[row]] = at + 1
        later[at], earlier[at] = taker[row] + other.new, row + own.first
    kept = found
    for at in range(found, len(earlier)):
        earlier[kept] = earlier[at]
        kept += rows.start[earlier[at]] >= oldest
    return later[:found].copy(), earlier[:found].copy(), earlier[found:kept].copy(), are_tied


@allocating
def _find_takers(
    rows: Rows, asked: Related, own: Span, other: Span, left_first: bool, next_: UInts, taker: UInts
) -> bool:
    """From the last row to the first. ``next_`` has, by key, the one of the other side that comes next.

    Most rows are taken by the next one or, for the bound, by nobody: which it is, is no branch to be guessed.
    """
    start, end, key = rows.start[own.first : own.stop], rows.end[own.first : own.stop], rows.key[own.first : own.stop]
    starts, ends = rows.start[other.new : other.stop], rows.end[other.new : other.stop]
    keys, following = rows.key[other.new : other.stop], np.empty(len(ends), np.uint32)
    nobody, last = np.uint32(len(ends)), np.uint32(len(ends) - 1)
    reach = asked.bound if asked.bound >= 0 else _EVER
    is_plain = not (asked.checked or rows.may_share or rows.loose.shape[1])
    x, are_tied = nobody, False
    y = np.uint32(len(start)) if len(ends) else np.uint32(0)
    while y > 0:
        y = np.uint32(y - 1)
        while x > 0 and ends[np.uint32(x - 1)] >= end[y]:
            x = np.uint32(x - 1)
            found = next_[keys[x]]
            near = min(found, last)
            are_tied |= (found < nobody) & (ends[near] == ends[x]) & (starts[near] == starts[x])
            following[x], next_[keys[x]] = found, x
        found = next_[key[y]]
        near = min(found, last)
        in_reach = (found < nobody) & (ends[near] - start[y] <= reach)
        fits = _fit(asked.relation, left_first, start[y], end[y], starts[near], ends[near], reach)
        if in_reach & (not (fits & is_plain)):
            while found < nobody and ends[found] - start[y] <= reach:
                if _fit(asked.relation, left_first, start[y], end[y], starts[found], ends[found], reach) and (
                    is_plain or _go_together(rows, asked, other.new + found, own.first + y)
                ):
                    break
                found = following[found]
            in_reach = fits = found < nobody and ends[found] - start[y] <= reach
        taker[y] = found if in_reach & fits else nobody
    return are_tied


@inlined
def _fit(
    relation: int, left_first: bool, start: int, end: int, other_start: int, other_end: int, reach: int
) -> bool:  # fmt: skip
    """Whether an interval that ends first is related to another one, which is no longer than the reach."""
    is_short = other_end - other_start <= reach
    if left_first:
        return _related(relation, start, end, other_start, other_end) & is_short
    return _related(relation, other_start, other_end, start, end) & is_short


@compiled
def pair_some(
    rows: Rows, asked: Related, keys: int, order: UInts, together: Flags, context: int, opens: Flags
) -> tuple[UInts, UInts, UInts]:
    """The pairs (later, earlier) a context makes, those of one row together, and the rows that stay open, in order.

    Rows that complete are given in their order. What is open stands in lists, one for each key and side, in the order
    in which it completed.
    """
    count = len(rows.start)
    after, before = _empty_lists(count, 2 * keys)
    room = len(order) + _open_all(rows, after, before)  # a row is taken, or takes one, once
    later, earlier = np.empty(room, np.uint32), np.empty(room, np.uint32)
    found = place = 0
    while place < len(order):
        stop = place + 1
        if context == RECENT:
            while stop < len(order) and together[stop]:
                stop += 1
        for at in range(place, stop):
            x = order[at]
            had, found = found, _take(rows, asked, context, after, before, x, later, earlier, found)
            if context != RECENT and found == had and opens[_side(rows, x)]:
                _append(after, before, _list_of(rows, x), x)
        if context == RECENT:
            for at in range(place, stop):
                x = order[at]
                if opens[_side(rows, x)]:
                    _leave_slot(rows.loose, after, before, _list_of(rows, x), x)
                    _append(after, before, _list_of(rows, x), x)
        place = stop
    return later[:found].copy(), earlier[:found].copy(), _still_open(rows, before, order)


@inlined
def _take(  # noqa: PLR0913, PLR0917  (a kernel has no object to keep its state in)
    rows: Rows, asked: Related, context: int, after: UInts, before: UInts, x: int, later: UInts,
    earlier: UInts, found: int,
) -> int:  # fmt: skip
    """Pair a row with what is open on the other side, and say how many pairs there are now."""
    other = len(rows.start) + ((2 * rows.key[x] + _side(rows, x)) ^ 1)
    y = before[other] if context == RECENT else after[other]
    while y != other:
        following = before[y] if context == RECENT else after[y]
        if asked.bound >= 0 and rows.end[x] - rows.start[y] > asked.bound:
            _unlink(after, before, y)  # what completes from now on ends even later
        elif _admits(rows, asked, x, y):
            later[found], earlier[found] = x, y
            found += 1
            if context != RECENT:
                _unlink(after, before, y)
            if context in (CHRONICLE, RECENT):
                break
        y = following
    return found


@inlined
def _list_of(rows: Rows, row: int) -> int:
    return len(rows.start) + 2 * rows.key[row] + _side(rows, row)


@allocating
def _empty_lists(rows: int, lists: int) -> tuple[UInts, UInts]:
    """What follows and what precedes each row, and behind the rows each list, which is its own neighbour when empty.

    So no list has an end that would have to be asked for. A row that is in none precedes nothing: `NOT_LISTED`.
    """
    after, before = np.empty(rows + lists, np.uint32), np.empty(rows + lists, np.uint32)
    before[:rows] = NOT_LISTED
    for list_ in range(rows, rows + lists):
        after[list_] = before[list_] = list_
    return after, before


@inlined
def _open_all(rows: Rows, after: UInts, before: UInts) -> int:
    """List what is open already, and say how much that is."""
    for row in range(rows.left.first, rows.left.new):
        _append(after, before, _list_of(rows, row), row)
    for row in range(rows.right.first, rows.right.new):
        _append(after, before, _list_of(rows, row), row)
    return rows.left.new - rows.left.first + rows.right.new - rows.right.first


@inlined
def _append(after: UInts, before: UInts, list_: int, row: int) -> None:
    last = before[list_]
    after[last] = before[list_] = row
    before[row], after[row] = last, list_


@inlined
def _unlink(after: UInts, before: UInts, row: int) -> None:
    after[before[row]], before[after[row]] = after[row], before[row]
    before[row] = NOT_LISTED


@inlined
def _leave_slot(loose: Ints, after: UInts, before: UInts, list_: int, x: int) -> None:
    """Take away what stands for the same values of the shared variables."""
    y = after[list_]
    while y != list_:
        following = after[y]
        if _same_slot(loose, x, y):
            _unlink(after, before, y)
        y = following


@inlined
def _same_slot(loose: Ints, one: int, other: int) -> bool:
    for column in range(loose.shape[1]):
        if loose[one, column] != loose[other, column]:
            return False
    return True


@allocating
def _still_open(rows: Rows, before: UInts, order: UInts) -> UInts:
    kept, size = np.empty(len(rows.start), np.uint32), 0
    for row in range(rows.left.first, rows.left.new):
        size = _keep(before, row, kept, size)
    for row in range(rows.right.first, rows.right.new):
        size = _keep(before, row, kept, size)
    for row in order:
        size = _keep(before, row, kept, size)
    return kept[:size].copy()


@inlined
def _keep(before: UInts, row: int, kept: UInts, size: int) -> int:
    if before[row] == NOT_LISTED:
        return size
    kept[size] = row
    return size + 1
