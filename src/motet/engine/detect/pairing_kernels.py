"""Compiled functions for pairing: the partners that each completing occurrence gets from the other side.

The rows of both sides are numbered consecutively, and so are their keys: only rows with the same key can be a pair.
Shared variables that may be unbound are not part of the key; they are the nullable ones, compared for each candidate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from motet.engine.detect.table_kernels import UNBOUND
from motet.jit.compiled import Bools, Ints, UInts, allocating, compiled, inlined

UNRESTRICTED, RECENT, CHRONICLE, CONTINUOUS, CUMULATIVE = range(5)
(
    AND, ALONGSIDE, BEFORE, AFTER, MEETS, MET_BY, OVERLAPS, OVERLAPPED_BY, STARTS, STARTED_BY, DURING, INCLUDES,
    FINISHES, FINISHED_BY, EQUALS,
) = range(15)  # fmt: skip

NOT_LISTED = np.uint32(0xFFFFFFFF)
_NO_BOUND = np.iinfo(np.int64).max


class SideRange(NamedTuple):
    """The rows of a side that take part: the open ones from ``first``, the completing ones from ``new`` to ``stop``.

    Completing rows are sorted by end and start.
    """

    first: int
    new: int
    stop: int


class PairRows(NamedTuple):
    """The rows of both sides as the kernels read them; without events unless related rows ``may_share_events``."""

    start: Ints
    end: Ints
    key: UInts
    left: SideRange
    right: SideRange
    nullable: Ints  # the values of the nullable variables, by row and variable
    may_share_events: bool
    starts: Ints
    events: Ints


class PairTest(NamedTuple):
    """What a pair has to meet: a relation, a bound unless it is negative, and, with a condition, to be allowed."""

    relation: int
    bound: int
    has_condition: bool
    allowed: Ints  # sorted: the later row times the number of rows, plus the earlier row


@inlined
def _side(rows: PairRows, row: int) -> int:
    """0 for the left side, 1 for the right one."""
    return 1 if row >= rows.right.first else 0


@inlined
def _is_open(rows: PairRows, row: int) -> bool:
    return row < rows.left.new or rows.right.first <= row < rows.right.new


@inlined
def _are_related(rows: PairRows, relation: int, row: int, other: int) -> bool:
    """Whether the row of the left side has the relation to that of the right side."""
    left, right = (other, row) if _side(rows, row) else (row, other)
    return _is_related(relation, rows.start[left], rows.end[left], rows.start[right], rows.end[right])


@inlined
def _is_related(relation: int, a: int, z: int, b: int, y: int) -> bool:  # noqa: PLR0911, PLR0912  (a table)
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
def _agree(nullable: Ints, row: int, other: int) -> bool:
    for column in range(nullable.shape[1]):
        first, second = nullable[row, column], nullable[other, column]
        if first != second and UNBOUND not in (first, second):
            return False
    return True


@inlined
def _disjoint(rows: PairRows, row: int, other: int) -> bool:
    """Whether two rows share no event."""
    if not rows.may_share_events:
        return True
    at, stop = rows.starts[row], rows.starts[row + 1]
    other_at, other_stop = rows.starts[other], rows.starts[other + 1]
    while at < stop and other_at < other_stop:
        if rows.events[at] == rows.events[other_at]:
            return False
        if rows.events[at] < rows.events[other_at]:
            at += 1
        else:
            other_at += 1
    return True


@inlined
def _contains(sorted_pairs: Ints, pair: int) -> bool:
    low, high = 0, len(sorted_pairs)
    while low < high:
        middle = (low + high) // 2
        if sorted_pairs[middle] < pair:
            low = middle + 1
        else:
            high = middle
    return low < len(sorted_pairs) and sorted_pairs[low] == pair


@inlined
def _are_compatible(rows: PairRows, pair_test: PairTest, x: int, y: int) -> bool:
    """Whether a later and an earlier row agree in values, share no event, and meet the condition."""
    if pair_test.has_condition and not _contains(pair_test.allowed, x * len(rows.start) + y):
        return False
    return _agree(rows.nullable, x, y) and _disjoint(rows, x, y)


@inlined
def _is_pair(rows: PairRows, pair_test: PairTest, x: int, y: int) -> bool:
    """Whether a later and an earlier row meet the pair test."""
    hull = max(rows.end[x], rows.end[y]) - min(rows.start[x], rows.start[y])
    if (0 <= pair_test.bound < hull) or not _are_related(rows, pair_test.relation, x, y):
        return False
    return _are_compatible(rows, pair_test, x, y)


@compiled
def completing_rows(rows: PairRows) -> UInts:
    """The completing rows of both sides, by end and start."""
    start, end, (_, left, left_stop), (_, right, right_stop) = rows.start, rows.end, rows.left, rows.right
    order = np.empty(left_stop - left + right_stop - right, np.uint32)
    for at in range(len(order)):
        if right == right_stop or (
            left < left_stop and (end[left] < end[right] or (end[left] == end[right] and start[left] <= start[right]))
        ):
            order[at] = left
            left += 1
        else:
            order[at] = right
            right += 1
    return order


@compiled
def find_ties(rows: PairRows, keys: int, order: UInts) -> tuple[Bools, bool]:
    """Which rows, by their index in the order, have the times and the key of another row; and whether any has."""
    is_tied = np.zeros(len(order), np.bool_)
    last_index = np.full(keys, -1, np.int64)  # by key
    has_ties = False
    group = 0
    for index in range(len(order)):
        row = order[index]
        if index and (rows.end[row] != rows.end[order[index - 1]] or rows.start[row] != rows.start[order[index - 1]]):
            group = index
        key = rows.key[row]
        if last_index[key] >= group:
            is_tied[last_index[key]] = is_tied[index] = has_ties = True
        last_index[key] = index
    return is_tied, has_ties


@compiled
def pair_all(
    rows: PairRows, pair_test: PairTest, order: UInts, last: UInts, before: UInts, first: int, max_pairs: int
) -> tuple[UInts, UInts, int]:
    """All pairs (later, earlier) of rows that are not both open; nothing is consumed.

    Rows are taken in an order by their ends, from index ``first`` on, until there are ``max_pairs`` pairs; the next
    index is returned. ``last`` has, by key and side, the last row so far, ``before`` the one before each row.
    """
    size = max(16, len(order))
    later, earlier = np.empty(size, np.uint32), np.empty(size, np.uint32)
    pairs, at = 0, first
    while at < len(order) and pairs < max_pairs:
        x = order[at]
        list_ = 2 * rows.key[x] + _side(rows, x)
        total = _pair_with_earlier(rows, pair_test, last[list_ ^ 1], before, x, later, earlier, pairs)
        if total > size:  # enlarge the arrays and repeat this row
            later = np.concatenate((later[:pairs], np.empty(2 * total - pairs, np.uint32)))
            earlier = np.concatenate((earlier[:pairs], np.empty(2 * total - pairs, np.uint32)))
            size = len(later)
            continue
        pairs = total
        before[x] = last[list_]
        last[list_] = x
        at += 1
    return later[:pairs].copy(), earlier[:pairs].copy(), at


@inlined
def _pair_with_earlier(
    rows: PairRows, pair_test: PairTest, y: int, before: UInts, x: int, later: UInts, earlier: UInts, pairs: int
) -> int:
    """Append the pairs of a row while there is room; returns the number of pairs, those without room included."""
    while y != NOT_LISTED and (pair_test.bound < 0 or rows.end[y] >= rows.end[x] - pair_test.bound):
        if not (_is_open(rows, x) and _is_open(rows, y)) and _is_pair(rows, pair_test, x, y):
            if pairs < len(later):
                later[pairs], earlier[pairs] = x, y
            pairs += 1
        y = before[y]
    return pairs


@compiled
def pair_one_sided(
    rows: PairRows, pair_test: PairTest, keys: int, opens_right: bool, oldest: int
) -> tuple[UInts, UInts, UInts, bool]:
    """Pairs (later, earlier) where one side opens, and the first row of the other side that may consumes each of it.

    The pairs of one later row are adjacent, the later rows in their order. Then follow the rows that stay open: those
    that no row consumed and that do not start before ``oldest``; and whether later rows of one key have equal times,
    so that the result depends on their completion order.
    """
    opening, consuming = (rows.right, rows.left) if opens_right else (rows.left, rows.right)
    consumers = consuming.stop - consuming.new
    consuming_row = np.full(opening.stop - opening.first, consumers, np.uint32)  # of each row; ``consumers`` for none
    counts = np.zeros(consumers + 2, np.uint32)
    next_row = np.full(keys, consumers, np.uint32)
    has_ties = _find_consuming_rows(rows, pair_test, opening, consuming, not opens_right, next_row, consuming_row)
    for row in range(len(consuming_row)):
        counts[consuming_row[row] + 1] += np.uint32(1)
    for consumer in range(consumers + 1):
        counts[consumer + 1] += counts[consumer]
    pairs = counts[consumers]
    later, earlier = np.empty(len(consuming_row), np.uint32), np.empty(len(consuming_row), np.uint32)
    for row in range(len(consuming_row)):
        at = counts[consuming_row[row]]
        counts[consuming_row[row]] = at + 1
        later[at], earlier[at] = consuming_row[row] + consuming.new, row + opening.first
    stop = pairs
    for at in range(pairs, len(earlier)):
        earlier[stop] = earlier[at]
        stop += rows.start[earlier[at]] >= oldest
    return later[:pairs].copy(), earlier[:pairs].copy(), earlier[pairs:stop].copy(), has_ties


@allocating
def _find_consuming_rows(
    rows: PairRows, pair_test: PairTest, opening: SideRange, consuming: SideRange, left_opens: bool, next_row: UInts,
    consuming_row: UInts,
) -> bool:  # fmt: skip
    """Fill ``consuming_row``, from the last row to the first; ``next_row`` has, by key, the next consuming row.

    Most rows are consumed by the next row of their key or, because of the bound, by none; the code decides between
    these two without a branch.
    """
    start, end = rows.start[opening.first : opening.stop], rows.end[opening.first : opening.stop]
    key = rows.key[opening.first : opening.stop]
    starts, ends = rows.start[consuming.new : consuming.stop], rows.end[consuming.new : consuming.stop]
    keys, following = rows.key[consuming.new : consuming.stop], np.empty(len(ends), np.uint32)
    none, last = np.uint32(len(ends)), np.uint32(max(len(ends) - 1, 0))
    bound = pair_test.bound if pair_test.bound >= 0 else _NO_BOUND
    relation_suffices = not (pair_test.has_condition or rows.may_share_events or rows.nullable.shape[1])
    x, has_ties = none, False
    y = np.uint32(len(start)) if len(ends) else np.uint32(0)
    while y > 0:
        y = np.uint32(y - 1)
        while x > 0 and ends[np.uint32(x - 1)] >= end[y]:
            x = np.uint32(x - 1)
            candidate = next_row[keys[x]]
            index = min(candidate, last)
            has_ties |= (candidate < none) & (ends[index] == ends[x]) & (starts[index] == starts[x])
            following[x], next_row[keys[x]] = candidate, x
        candidate = next_row[key[y]]
        index = min(candidate, last)
        in_bound = (candidate < none) & (ends[index] - start[y] <= bound)
        fits = _fits(pair_test.relation, left_opens, start[y], end[y], starts[index], ends[index], bound)
        if in_bound & (not (fits & relation_suffices)):
            while candidate < none and ends[candidate] - start[y] <= bound:
                if _fits(
                    pair_test.relation, left_opens, start[y], end[y], starts[candidate], ends[candidate], bound
                ) and (
                    relation_suffices or _are_compatible(rows, pair_test, consuming.new + candidate, opening.first + y)
                ):
                    break
                candidate = following[candidate]
            in_bound = fits = candidate < none and ends[candidate] - start[y] <= bound
        consuming_row[y] = candidate if in_bound & fits else none
    return has_ties


@inlined
def _fits(
    relation: int, left_opens: bool, start: int, end: int, other_start: int, other_end: int, bound: int
) -> bool:  # fmt: skip
    """Whether an interval that ends first has the relation to another one that is no longer than the bound."""
    is_short = other_end - other_start <= bound
    if left_opens:
        return _is_related(relation, start, end, other_start, other_end) & is_short
    return _is_related(relation, other_start, other_end, start, end) & is_short


@compiled
def pair_in_context(
    rows: PairRows, pair_test: PairTest, keys: int, order: UInts, same_events: Bools, context: int, opens: Bools
) -> tuple[UInts, UInts, UInts]:
    """The pairs (later, earlier) of a context, those of one later row adjacent, and the rows that stay open, in order.

    ``order`` are the completing rows in completion order. Open rows are in linked lists, one for each key and side, in
    the order in which they completed.
    """
    count = len(rows.start)
    after, before = _empty_lists(count, 2 * keys)
    size = len(order) + _list_open_rows(rows, after, before)  # each row is consumed, or consumes one, at most once
    later, earlier = np.empty(size, np.uint32), np.empty(size, np.uint32)
    pairs = index = 0
    while index < len(order):
        stop = index + 1
        if context == RECENT:
            while stop < len(order) and same_events[stop]:
                stop += 1
        for at in range(index, stop):
            x = order[at]
            previous, pairs = pairs, _pair_row(rows, pair_test, context, after, before, x, later, earlier, pairs)
            if context != RECENT and pairs == previous and opens[_side(rows, x)]:
                _append(after, before, _list_of(rows, x), x)
        if context == RECENT:
            for at in range(index, stop):
                x = order[at]
                if opens[_side(rows, x)]:
                    _remove_replaced(rows.nullable, after, before, _list_of(rows, x), x)
                    _append(after, before, _list_of(rows, x), x)
        index = stop
    return later[:pairs].copy(), earlier[:pairs].copy(), _listed_rows(rows, before, order)


@inlined
def _pair_row(  # noqa: PLR0913, PLR0917  (a kernel has no object to keep its state in)
    rows: PairRows, pair_test: PairTest, context: int, after: UInts, before: UInts, x: int, later: UInts,
    earlier: UInts, pairs: int,
) -> int:  # fmt: skip
    """Pair a row with open rows of the other side; returns the number of pairs."""
    list_ = len(rows.start) + ((2 * rows.key[x] + _side(rows, x)) ^ 1)
    y = before[list_] if context == RECENT else after[list_]
    while y != list_:
        following = before[y] if context == RECENT else after[y]
        if pair_test.bound >= 0 and rows.end[x] - rows.start[y] > pair_test.bound:
            _unlink(after, before, y)  # all later rows end even later
        elif _is_pair(rows, pair_test, x, y):
            later[pairs], earlier[pairs] = x, y
            pairs += 1
            if context != RECENT:
                _unlink(after, before, y)
            if context in (CHRONICLE, RECENT):
                break
        y = following
    return pairs


@inlined
def _list_of(rows: PairRows, row: int) -> int:
    return len(rows.start) + 2 * rows.key[row] + _side(rows, row)


@allocating
def _empty_lists(rows: int, lists: int) -> tuple[UInts, UInts]:
    """The successor and predecessor of each row, and then of each list: an empty list is its own neighbour.

    Lists are circular, so no end has to be tested. The predecessor of a row that is in no list is `NOT_LISTED`.
    """
    after, before = np.empty(rows + lists, np.uint32), np.empty(rows + lists, np.uint32)
    before[:rows] = NOT_LISTED
    for list_ in range(rows, rows + lists):
        after[list_] = before[list_] = list_
    return after, before


@inlined
def _list_open_rows(rows: PairRows, after: UInts, before: UInts) -> int:
    """Append the open rows to their lists; returns their number."""
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
def _remove_replaced(nullable: Ints, after: UInts, before: UInts, list_: int, x: int) -> None:
    """Remove the row with the same values of the shared variables: in recent, x replaces it."""
    y = after[list_]
    while y != list_:
        following = after[y]
        if _are_equal(nullable, x, y):
            _unlink(after, before, y)
        y = following


@inlined
def _are_equal(nullable: Ints, row: int, other: int) -> bool:
    for column in range(nullable.shape[1]):
        if nullable[row, column] != nullable[other, column]:
            return False
    return True


@allocating
def _listed_rows(rows: PairRows, before: UInts, order: UInts) -> UInts:
    """The rows that are in a list: open ones first, then completing ones in order."""
    listed, size = np.empty(len(rows.start), np.uint32), 0
    for row in range(rows.left.first, rows.left.new):
        size = _add_listed(before, row, listed, size)
    for row in range(rows.right.first, rows.right.new):
        size = _add_listed(before, row, listed, size)
    for row in order:
        size = _add_listed(before, row, listed, size)
    return listed[:size].copy()


@inlined
def _add_listed(before: UInts, row: int, listed: UInts, size: int) -> int:
    if before[row] == NOT_LISTED:
        return size
    listed[size] = row
    return size + 1
