"""Machine code for pairing: which open occurrences of the other side does each one take when it completes?

Open occurrences stand in lists, one for each side and join key, in the order in which they completed. A key is a hash,
so that lists may hold strangers: all joined values are compared for every candidate.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from motet.engine.detect.grouping_kernels import row_code
from motet.engine.detect.occurrences import EMITTED, END, FIRST, LEFT_END, RIGHT_START, START, UNBOUND, VALUES, Ints
from motet.engine.match.compiled import compiled, inner, making

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
def _disjoint(starts: Ints, events: Ints, one: int, other: int) -> bool:
    at, other_at = starts[one], starts[other]
    while at < starts[one + 1] and other_at < starts[other + 1]:
        if events[at] == events[other_at]:
            return False
        if events[at] < events[other_at]:
            at += 1
        else:
            other_at += 1
    return True


@inner
def _agree(loose: Ints, one: int, other: int) -> bool:
    for column in range(loose.shape[1]):
        first, second = loose[one, column], loose[other, column]
        if first != second and UNBOUND not in (first, second):
            return False
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
def _same_slot(loose: Ints, one: int, other: int) -> bool:
    for column in range(loose.shape[1]):
        if loose[one, column] != loose[other, column]:
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
def _insert_by_end(end: Ints, after: Ints, before: Ints, heads: Ints, tails: Ints, lane: int, row: int) -> None:
    """Where it belongs in a list sorted by end; most come last."""
    place = tails[lane]
    while place >= 0 and end[place] > end[row]:
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
def read_parts(
    parts: tuple[Ints, ...], is_right: Flags, is_new: Flags, limit: int, columns: Ints
) -> tuple[Ints, Ints, Ints, Ints, Ints, int]:
    """Start, end, list, part and place of the rows of several tables that take part, and how many lists there are.

    Of the new ones only those take part that end before a limit. Rows belong to the same list when they are of one side
    and agree in the key's columns, which are given for either side; the lists of the right side have odd numbers.
    """
    total = 0
    for part in range(len(parts)):
        total += len(parts[part])
    start, end, lane = np.empty(total, np.int64), np.empty(total, np.int64), np.empty(total, np.int64)
    of_part, place = np.empty(total, np.int64), np.empty(total, np.int64)
    slots = np.full(1024, -1, np.int64)
    keys = np.empty((512, columns.shape[1]), np.int64)
    codes = np.empty(512, np.uint64)
    count = found = 0
    for part in range(len(parts)):
        rows = parts[part]
        side = 1 if is_right[part] else 0
        own = columns[side]
        for row in range(len(rows)):
            if is_new[part] and rows[row, END] >= limit:
                continue
            start[found], end[found] = rows[row, START], rows[row, END]
            of_part[found], place[found] = part, row
            code = row_code(rows, row, own)
            slot = _slot(slots, keys, codes, code, rows, row, own)
            if slots[slot] < 0:
                slots[slot] = count
                codes[count] = code
                for column in range(len(own)):
                    keys[count, column] = rows[row, own[column]]
                count += 1
                if count == len(codes):
                    keys, codes = np.concatenate((keys, keys)), np.concatenate((codes, codes))
                    slots = _spread(codes[:count], 2 * len(slots))
                    slot = _slot(slots, keys, codes, code, rows, row, own)
            lane[found] = 2 * slots[slot] + side
            found += 1
    return start[:found], end[:found], lane[:found], of_part[:found], place[:found], 2 * count


@inner
def _slot(
    slots: Ints, keys: Ints, codes: npt.NDArray[np.uint64], code: np.uint64, rows: Ints, row: int, columns: Ints
) -> np.int64:
    """Where the key of a row stands, or belongs."""
    mask = len(slots) - 1
    slot = np.int64(code & np.uint64(mask))
    while slots[slot] >= 0 and not (codes[slots[slot]] == code and _is_key(keys, slots[slot], rows, row, columns)):
        slot = (slot + 1) & mask
    return slot


@making
def _spread(codes: npt.NDArray[np.uint64], size: int) -> Ints:
    """A larger table of the same keys."""
    slots = np.full(size, -1, np.int64)
    for key in range(len(codes)):
        slot = np.int64(codes[key] & np.uint64(size - 1))
        while slots[slot] >= 0:
            slot = (slot + 1) & (size - 1)
        slots[slot] = key
    return slots


@inner
def _is_key(keys: Ints, key: int, rows: Ints, row: int, columns: Ints) -> bool:
    for column in range(len(columns)):
        if keys[key, column] != rows[row, columns[column]]:
            return False
    return True


@compiled
def merge_runs(start: Ints, end: Ints, first: int, second: int) -> tuple[Ints, bool, bool]:
    """Two runs in one order by end and start; whether both were in order, and whether some have equal times."""
    count = len(start)
    order = np.empty(count - first, np.int64)
    for row in range(first + 1, count):
        if row != second and (end[row] < end[row - 1] or (end[row] == end[row - 1] and start[row] < start[row - 1])):
            return order, False, True
    one, other, tied = first, second, False
    for at in range(count - first):
        if other == count or (
            one < second and (end[one] < end[other] or (end[one] == end[other] and start[one] <= start[other]))
        ):
            order[at] = one
            one += 1
        else:
            order[at] = other
            other += 1
        if at and end[order[at]] == end[order[at - 1]] and start[order[at]] == start[order[at - 1]]:
            tied = True
    return order, True, tied


@compiled
def pair_rows(  # noqa: PLR0913, PLR0917, PLR0912, PLR0915, C901  (one loop over one state)
    start: Ints, end: Ints, lane: Ints, lanes: int, loose: Ints, starts: Ints, events: Ints, open_rows: int,
    order: Ints, together: Flags, relation: int, bound: int, context: int, opens: Flags, checked: bool, allowed: Ints,
) -> tuple[Ints, Ints, Ints]:  # fmt: skip
    """The pairs (later, earlier) by row, those of one row together, and the rows that stay open, in their order.

    The first rows are open already, the others complete in the given order. Rows of one key agree in all but the
    ``loose`` values. Without ``starts`` no row shares an event with another. With ``checked`` only allowed pairs count.
    """
    count = len(start)
    heads, tails = np.full(lanes, -1, np.int64), np.full(lanes, -1, np.int64)
    after, before = np.empty(count, np.int64), np.full(count, -2, np.int64)
    later, earlier = np.empty(max(16, len(order)), np.int64), np.empty(max(16, len(order)), np.int64)
    found = 0
    for row in range(open_rows):
        if context == UNRESTRICTED:
            _insert_by_end(end, after, before, heads, tails, lane[row], row)
        else:
            _append(after, before, heads, tails, lane[row], row)
    backwards = context in (UNRESTRICTED, RECENT)
    consumes = context in (CHRONICLE, CONTINUOUS, CUMULATIVE)
    place = 0
    while place < len(order):
        stop = place + 1
        if context == RECENT:
            while stop < len(order) and together[stop]:
                stop += 1
        for at in range(place, stop):
            x = order[at]
            side = lane[x] & 1
            other = lane[x] ^ 1
            had = found
            y = tails[other] if backwards else heads[other]
            while y >= 0:
                following = before[y] if backwards else after[y]
                if bound >= 0:
                    if context == UNRESTRICTED:
                        if end[y] < end[x] - bound:
                            break  # the list is sorted by end
                    elif end[x] - start[y] > bound:
                        _unlink(after, before, heads, tails, other, y)  # what completes from now on ends even later
                        y = following
                        continue
                if side:
                    holds = _related(relation, start[y], end[y], start[x], end[x])
                else:
                    holds = _related(relation, start[x], end[x], start[y], end[y])
                if (
                    holds
                    and (bound < 0 or max(end[x], end[y]) - min(start[x], start[y]) <= bound)
                    and _agree(loose, x, y)
                    and (len(starts) == 0 or _disjoint(starts, events, x, y))
                    and (not checked or _allowed(allowed, x * count + y))
                ):
                    if found == len(later):
                        later = np.concatenate((later, np.empty(found, np.int64)))
                        earlier = np.concatenate((earlier, np.empty(found, np.int64)))
                    later[found], earlier[found] = x, y
                    found += 1
                    if consumes:
                        _unlink(after, before, heads, tails, other, y)
                    if context in (CHRONICLE, RECENT):
                        break
                y = following
            if context == UNRESTRICTED:
                _insert_by_end(end, after, before, heads, tails, lane[x], x)
            elif context != RECENT and found == had and opens[side]:
                _append(after, before, heads, tails, lane[x], x)
        if context == RECENT:
            for at in range(place, stop):
                x = order[at]
                if not opens[lane[x] & 1]:
                    continue
                y = heads[lane[x]]
                while y >= 0:
                    following = after[y]
                    if _same_slot(loose, x, y):
                        _unlink(after, before, heads, tails, lane[x], y)
                    y = following
                _append(after, before, heads, tails, lane[x], x)
        place = stop
    kept, size = np.empty(count, np.int64), 0
    for row in range(open_rows):
        if before[row] != -2:
            kept[size] = row
            size += 1
    for row in order:
        if before[row] != -2:
            kept[size] = row
            size += 1
    return later[:found].copy(), earlier[:found].copy(), kept[:size].copy()


@compiled
def joined_rows(parts: tuple[Ints, ...], of_part: Ints, place: Ints, left: Ints, right: Ints, sources: Ints) -> Ints:
    """The rows of pairs; ``sources`` are, for the left and the right side, the columns of the result's values."""
    count, width = len(left), sources.shape[1]
    found = np.empty((count, VALUES + width), np.int64)
    for pair in range(count):
        one, other = parts[of_part[left[pair]]], parts[of_part[right[pair]]]
        a, b = place[left[pair]], place[right[pair]]
        found[pair, START] = min(one[a, START], other[b, START])
        found[pair, END] = max(one[a, END], other[b, END])
        found[pair, EMITTED] = max(one[a, EMITTED], other[b, EMITTED])
        found[pair, FIRST] = min(one[a, FIRST], other[b, FIRST])
        found[pair, LEFT_END] = one[a, END]
        found[pair, RIGHT_START] = other[b, START]
        for column in range(width):
            value = one[a, sources[0, column]] if sources[0, column] >= 0 else UNBOUND
            if value == UNBOUND and sources[1, column] >= 0:
                value = other[b, sources[1, column]]
            found[pair, VALUES + column] = value
    return found


@compiled
def joined_events(  # noqa: PLR0913, PLR0917  (a kernel has no object to keep its state in)
    starts: tuple[Ints, ...], events: tuple[Ints, ...], of_part: Ints, place: Ints, left: Ints, right: Ints
) -> tuple[Ints, Ints]:
    """The events of pairs, which share none, in the order of their numbers."""
    bounds = np.zeros(len(left) + 1, np.int64)
    for pair in range(len(left)):
        one, other = starts[of_part[left[pair]]], starts[of_part[right[pair]]]
        a, b = place[left[pair]], place[right[pair]]
        bounds[pair + 1] = bounds[pair] + one[a + 1] - one[a] + other[b + 1] - other[b]
    found = np.empty(bounds[-1], np.int64)
    for pair in range(len(left)):
        part, other_part = of_part[left[pair]], of_part[right[pair]]
        own, others = events[part], events[other_part]
        at, stop = starts[part][place[left[pair]]], starts[part][place[left[pair]] + 1]
        other_at, other_stop = starts[other_part][place[right[pair]]], starts[other_part][place[right[pair]] + 1]
        for target in range(bounds[pair], bounds[pair + 1]):
            if other_at == other_stop or (at < stop and own[at] < others[other_at]):
                found[target] = own[at]
                at += 1
            else:
                found[target] = others[other_at]
                other_at += 1
    return bounds, found
