"""Machine code for pairing: which open occurrences of the other side does each one take when it completes?

Open occurrences stand in lists, one for each side and join key, in the order in which they completed. A key is a hash,
so that lists may hold strangers: all joined values are compared for every candidate.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from motet.engine.detect.grouping_kernels import row_code
from motet.engine.detect.occurrences import END, START, UNBOUND, Ints
from motet.engine.match.compiled import compiled, inner

Flags = npt.NDArray[np.bool_]

UNRESTRICTED, RECENT, CHRONICLE, CONTINUOUS, CUMULATIVE = range(5)
(
    AND, ALONGSIDE, BEFORE, AFTER, MEETS, MET_BY, OVERLAPS, OVERLAPPED_BY, STARTS, STARTED_BY, DURING, INCLUDES,
    FINISHES, FINISHED_BY, EQUALS,
) = range(15)  # fmt: skip


@inner
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


@inner
def _admits(
    rows: Ints, starts: Ints, events: Ints, left: int, right: int, joined: Ints, relation: int, bound: int
) -> bool:
    a, z, b, y = rows[left, START], rows[left, END], rows[right, START], rows[right, END]
    if not _related(relation, a, z, b, y) or (bound >= 0 and max(z, y) - min(a, b) > bound):
        return False
    for column in joined:
        one, other = rows[left, column], rows[right, column]
        if one != other and UNBOUND not in (one, other):
            return False
    at, other_at = starts[left], starts[right]
    while at < starts[left + 1] and other_at < starts[right + 1]:
        if events[at] == events[other_at]:
            return False
        if events[at] < events[other_at]:
            at += 1
        else:
            other_at += 1
    return True


@inner
def _allowed(pairs: Ints, code: int) -> bool:
    low, high = 0, len(pairs)
    while low < high:
        middle = (low + high) // 2
        if pairs[middle] < code:
            low = middle + 1
        else:
            high = middle
    return low < len(pairs) and pairs[low] == code


@inner
def _same_slot(rows: Ints, one: int, other: int, joined: Ints) -> bool:
    for column in joined:
        if rows[one, column] != rows[other, column]:
            return False
    return True


@inner
def _unlink(after: Ints, before: Ints, heads: Ints, tails: Ints, lane: int, row: int) -> None:
    if before[row] >= 0:
        after[before[row]] = after[row]
    else:
        heads[lane] = after[row]
    if after[row] >= 0:
        before[after[row]] = before[row]
    else:
        tails[lane] = before[row]
    before[row] = -2


@inner
def _append(after: Ints, before: Ints, heads: Ints, tails: Ints, lane: int, row: int) -> None:
    after[row], before[row] = -1, tails[lane]
    if tails[lane] >= 0:
        after[tails[lane]] = row
    else:
        heads[lane] = row
    tails[lane] = row


@inner
def _insert_by_end(rows: Ints, after: Ints, before: Ints, heads: Ints, tails: Ints, lane: int, row: int) -> None:
    """Where it belongs in a list sorted by end; most come last."""
    place = tails[lane]
    while place >= 0 and rows[place, END] > rows[row, END]:
        place = before[place]
    following = heads[lane] if place < 0 else after[place]
    before[row], after[row] = place, following
    if place >= 0:
        after[place] = row
    else:
        heads[lane] = row
    if following >= 0:
        before[following] = row
    else:
        tails[lane] = row


@compiled
def lanes_of(rows: Ints, is_right: Flags, columns: Ints) -> tuple[Ints, int]:
    """The list each row belongs to, right ones at odd numbers; ``columns`` are the key's, for either side."""
    size = 16
    while size < 2 * len(rows):
        size *= 2
    slots = np.full(size, -1, np.int64)
    codes = np.empty(size, np.uint64)
    found = np.empty(len(rows), np.int64)
    count = 0
    for row in range(len(rows)):
        code = row_code(rows, row, columns[1] if is_right[row] else columns[0])
        slot = np.int64(code & np.uint64(size - 1))
        while slots[slot] >= 0 and codes[slot] != code:
            slot = (slot + 1) & (size - 1)
        if slots[slot] < 0:
            slots[slot], codes[slot] = count, code
            count += 1
        found[row] = 2 * slots[slot] + (1 if is_right[row] else 0)
    return found, 2 * count


@compiled
def pair_rows(  # noqa: PLR0913, PLR0917, PLR0912, PLR0915  (one loop over one state)
    rows: Ints, starts: Ints, events: Ints, is_right: Flags, open_rows: int, order: Ints, together: Flags,
    lane: Ints, lanes: int, joined: Ints, relation: int, bound: int, context: int, opens: Flags, checked: bool,
    allowed: Ints,
) -> tuple[Ints, Ints, Ints]:  # fmt: skip
    """The pairs (later, earlier) by row, those of one row together, and the rows that stay open, in their order.

    The first rows are open already, the others complete in the given order. With ``checked`` only allowed pairs count.
    """
    heads, tails = np.full(lanes, -1, np.int64), np.full(lanes, -1, np.int64)
    after, before = np.full(len(rows), -1, np.int64), np.full(len(rows), -2, np.int64)
    later, earlier = np.empty(max(16, len(order)), np.int64), np.empty(max(16, len(order)), np.int64)
    count = 0
    for row in range(open_rows):
        if context == UNRESTRICTED:
            _insert_by_end(rows, after, before, heads, tails, lane[row], row)
        else:
            _append(after, before, heads, tails, lane[row], row)
    place = 0
    while place < len(order):
        stop = place + 1
        if context == RECENT:
            while stop < len(order) and together[stop]:
                stop += 1
        for at in range(place, stop):
            x = order[at]
            other = lane[x] ^ 1
            had = count
            y = tails[other] if context in (UNRESTRICTED, RECENT) else heads[other]
            while y >= 0:
                if context == UNRESTRICTED and bound >= 0 and rows[y, END] < rows[x, END] - bound:
                    break  # the list is sorted by end
                following = before[y] if context in (UNRESTRICTED, RECENT) else after[y]
                if context != UNRESTRICTED and bound >= 0 and rows[x, END] - rows[y, START] > bound:
                    _unlink(after, before, heads, tails, other, y)  # what completes from now on ends even later
                    y = following
                    continue
                left, right = (y, x) if is_right[x] else (x, y)
                if _admits(rows, starts, events, left, right, joined, relation, bound) and (
                    not checked or _allowed(allowed, x * len(rows) + y)
                ):
                    if count == len(later):
                        later = np.concatenate((later, np.empty(count, np.int64)))
                        earlier = np.concatenate((earlier, np.empty(count, np.int64)))
                    later[count], earlier[count] = x, y
                    count += 1
                    if context in (CHRONICLE, CONTINUOUS, CUMULATIVE):
                        _unlink(after, before, heads, tails, other, y)
                    if context in (CHRONICLE, RECENT):
                        break
                y = following
            if context == UNRESTRICTED:
                _insert_by_end(rows, after, before, heads, tails, lane[x], x)
            elif context != RECENT and count == had and opens[lane[x] & 1]:
                _append(after, before, heads, tails, lane[x], x)
        if context == RECENT:
            for at in range(place, stop):
                x = order[at]
                if not opens[lane[x] & 1]:
                    continue
                y = heads[lane[x]]
                while y >= 0:
                    following = after[y]
                    if _same_slot(rows, x, y, joined):
                        _unlink(after, before, heads, tails, lane[x], y)
                    y = following
                _append(after, before, heads, tails, lane[x], x)
        place = stop
    kept = np.empty(len(rows), np.int64)
    size = 0
    for row in range(open_rows):
        if before[row] != -2:
            kept[size] = row
            size += 1
    for row in order:
        if before[row] != -2:
            kept[size] = row
            size += 1
    return later[:count].copy(), earlier[:count].copy(), kept[:size].copy()
