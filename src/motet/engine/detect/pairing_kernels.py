"""Machine code for pairing: which open occurrences of the other side does each one take when it completes?

Open occurrences stand in lists, one for each side and join key, in the order in which they completed. Shared variables
that may be unbound are no part of the key: they are loose, and compared for every candidate.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from motet.engine.compiled import compiled, inner, making
from motet.engine.detect.grouping_kernels import row_code
from motet.engine.detect.occurrences import EMITTED, END, FIRST, LEFT_END, RIGHT_START, START, UNBOUND, VALUES, Ints

Flags = npt.NDArray[np.bool_]
Small = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.int8]
Parts = tuple[Ints, ...]
Lists = tuple[Parts, Parts, Bytes, Small, bool]  # the tables' events, where each row is, and whether any may share one

NOT_LISTED = -1
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
def _disjoint(lists: Lists, one: int, other: int) -> bool:
    """Whether two rows share no event."""
    starts, events, of_part, place, may_share = lists
    if not may_share:
        return True
    own, others = events[of_part[one]], events[of_part[other]]
    at, stop = starts[of_part[one]][place[one]], starts[of_part[one]][place[one] + 1]
    other_at, other_stop = starts[of_part[other]][place[other]], starts[of_part[other]][place[other] + 1]
    while at < stop and other_at < other_stop:
        if own[at] == others[other_at]:
            return False
        if own[at] < others[other_at]:
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


@making
def _empty_lists(rows: int, lanes: int) -> tuple[Small, Small]:
    """What follows and what precedes each row, and behind the rows each list, which is its own neighbour when empty.

    So no list has an end that would have to be asked for. A row that is in none precedes nothing: `NOT_LISTED`.
    """
    after, before = np.empty(rows + lanes, np.int32), np.empty(rows + lanes, np.int32)
    before[:rows] = NOT_LISTED
    for list_ in range(rows, rows + lanes):
        after[list_] = before[list_] = list_
    return after, before


@inner
def _unlink(after: Small, before: Small, row: int) -> None:
    after[before[row]], before[after[row]] = after[row], before[row]
    before[row] = NOT_LISTED


@inner
def _append(after: Small, before: Small, list_: int, row: int) -> None:
    last = before[list_]
    after[last] = before[list_] = row
    before[row], after[row] = last, list_


@compiled
def read_parts(
    parts: Parts, is_right: Flags, is_new: Flags, limit: int, columns: Ints
) -> tuple[Ints, Ints, Small, Bytes, Small, int]:
    """Start, end, list, part and place of the rows of several tables that take part, and how many lists there are.

    Of the new ones only those take part that end before a limit. Rows belong to the same list when they are of one side
    and agree in the key's columns, which are given for either side; the lists of the right side have odd numbers.
    """
    total = 0
    for part in range(len(parts)):
        total += len(parts[part])
    start, end, lane = np.empty(total, np.int64), np.empty(total, np.int64), np.empty(total, np.int32)
    of_part, place = np.empty(total, np.int8), np.empty(total, np.int32)
    slots = np.full(2048, -1, np.int32)  # mostly empty: what stands in another one's place is guessed wrong
    keys = np.empty((256, columns.shape[1]), np.int64)
    count = found = 0
    for part in range(len(parts)):
        rows = parts[part]
        side = 1 if is_right[part] else 0
        before = limit if is_new[part] else np.iinfo(np.int64).max
        row = 0
        while row < len(rows):
            first = found
            row, found, count = _read_rows(
                rows, row, side, before, columns[side], slots, keys, count, start, end, lane, place, found
            )
            of_part[first:found] = part
            if count == len(keys):
                keys = np.concatenate((keys, keys))
                slots = _spread(keys[:count], 2 * len(slots))
    return start[:found], end[:found], lane[:found], of_part[:found], place[:found], 2 * count


@inner
def _read_rows(  # noqa: PLR0913, PLR0917  (a kernel has no object to keep its state in)
    rows: Ints, row: int, side: int, before: int, columns: Ints, slots: Small, keys: Ints, count: int, start: Ints,
    end: Ints, lane: Small, place: Small, found: int,
) -> tuple[int, int, int]:  # fmt: skip
    """Go on until all rows are read or the table of keys is full; the next row, how many were found, and keys."""
    while row < len(rows) and count < len(keys):
        if rows[row, END] < before:
            start[found], end[found], place[found] = rows[row, START], rows[row, END], row
            slot = _slot(slots, keys, rows, row, columns)
            if slots[slot] < 0:
                slots[slot] = count
                for column in range(len(columns)):
                    keys[count, column] = rows[row, columns[column]]
                count += 1
            lane[found] = 2 * slots[slot] + side
            found += 1
        row += 1
    return row, found, count


@inner
def _slot(slots: Small, keys: Ints, rows: Ints, row: int, columns: Ints) -> np.int64:
    """Where the key of a row stands, or belongs."""
    mask = len(slots) - 1
    slot = np.int64(row_code(rows, row, columns) & np.uint64(mask))
    while slots[slot] >= 0 and not _is_key(keys, slots[slot], rows, row, columns):
        slot = (slot + 1) & mask
    return slot


@making
def _spread(keys: Ints, size: int) -> Small:
    """A larger table of the same keys."""
    slots = np.full(size, -1, np.int32)
    columns = np.arange(keys.shape[1])
    for key in range(len(keys)):
        slots[_slot(slots, keys, keys, key, columns)] = key
    return slots


@inner
def _is_key(keys: Ints, key: int, rows: Ints, row: int, columns: Ints) -> bool:
    for column in range(len(columns)):
        if keys[key, column] != rows[row, columns[column]]:
            return False
    return True


@compiled
def merge_runs(start: Ints, end: Ints, first: int, second: int) -> tuple[Ints, bool]:
    """Two runs in one order by end and start, and whether each of them was in order."""
    count = len(start)
    order = np.empty(count - first, np.int64)
    for row in range(first + 1, count):
        if row != second and (end[row] < end[row - 1] or (end[row] == end[row - 1] and start[row] < start[row - 1])):
            return order, False
    one, other = first, second
    for at in range(count - first):
        if other == count or (
            one < second and (end[one] < end[other] or (end[one] == end[other] and start[one] <= start[other]))
        ):
            order[at] = one
            one += 1
        else:
            order[at] = other
            other += 1
    return order, True


@compiled
def rivals(start: Ints, end: Ints, lane: Small, lanes: int, order: Ints) -> tuple[Flags, bool]:
    """Which places of an order have the times and the key of another one: only among those does more decide."""
    found = np.zeros(len(order), np.bool_)
    seen = np.full(lanes // 2, -1, np.int64)  # by key: the last place
    some = False
    group = 0
    for place in range(len(order)):
        row = order[place]
        if place and (end[row] != end[order[place - 1]] or start[row] != start[order[place - 1]]):
            group = place
        key = lane[row] >> 1
        if seen[key] >= group:
            found[seen[key]] = found[place] = some = True
        seen[key] = place
    return found, some


@compiled
def pair_all(  # noqa: PLR0913, PLR0917  (a kernel has no object to keep its state in)
    start: Ints, end: Ints, lane: Small, open_rows: int, loose: Ints, lists: Lists, relation: int, bound: int,
    order: Ints, last: Small, before: Small, first: int, most: int,
) -> tuple[Ints, Ints, int]:  # fmt: skip
    """All pairs (later, earlier) of rows that are not both open already, whatever became of them.

    The order is that of the ends. Its places from ``first`` on are taken until there are more than enough pairs; where
    to go on is returned. ``last`` has the row of each list that came last, ``before`` that before each row.
    """
    room = max(16, len(start))
    later, earlier = np.empty(room, np.int64), np.empty(room, np.int64)
    found, at = 0, first
    while at < len(order) and found < most:
        x = order[at]
        more = _pair_with_earlier(
            start, end, lane, open_rows, loose, lists, relation, bound, last, before, x, later, earlier, found
        )
        if more > room:  # again, with more of it
            later = np.concatenate((later[:found], np.empty(2 * more - found, np.int64)))
            earlier = np.concatenate((earlier[:found], np.empty(2 * more - found, np.int64)))
            room = len(later)
            continue
        found = more
        before[x] = last[lane[x]]
        last[lane[x]] = x
        at += 1
    return later[:found].copy(), earlier[:found].copy(), at


@inner
def _pair_with_earlier(  # noqa: PLR0913, PLR0917  (a kernel has no object to keep its state in)
    start: Ints, end: Ints, lane: Small, open_rows: int, loose: Ints, lists: Lists, relation: int, bound: int,
    last: Small, before: Small, x: int, later: Ints, earlier: Ints, found: int,
) -> int:  # fmt: skip
    """How many pairs there are now, even where there is no room for them."""
    y = last[lane[x] ^ 1]
    while y >= 0 and (bound < 0 or end[y] >= end[x] - bound):
        both_open = x < open_rows and y < open_rows
        if not both_open and _admits(start, end, lane, loose, lists, relation, bound, x, y):
            if found < len(later):
                later[found], earlier[found] = x, y
            found += 1
        y = before[y]
    return found


@inner
def _admits(  # noqa: PLR0913, PLR0917  (a kernel has no object to keep its state in)
    start: Ints, end: Ints, lane: Small, loose: Ints, lists: Lists, relation: int, bound: int, x: int,
    y: int,
) -> bool:  # fmt: skip
    left, right = (y, x) if lane[x] & 1 else (x, y)
    if not _related(relation, start[left], end[left], start[right], end[right]):
        return False
    if bound >= 0 and max(end[x], end[y]) - min(start[x], start[y]) > bound:
        return False
    return _agree(loose, x, y) and _disjoint(lists, x, y)


@compiled
def pair_some(  # noqa: PLR0913, PLR0917, PLR0912  (one loop over one state)
    start: Ints, end: Ints, lane: Small, open_rows: int, loose: Ints, lists: Lists, relation: int, bound: int,
    order: Ints, together: Flags, lanes: int, context: int, opens: Flags, checked: bool, allowed: Ints,
) -> tuple[Ints, Ints, Ints]:  # fmt: skip
    """The pairs (later, earlier) a context makes, those of one row together, and the rows that stay open, in order.

    First come the rows that are open, then those that complete, which are given in their order. Rows of one key agree
    in all but the ``loose`` values. With ``checked`` only allowed pairs count.
    """
    count = len(start)
    after, before = _empty_lists(count, lanes)
    later, earlier = np.empty(count, np.int64), np.empty(count, np.int64)  # a row is taken, or takes one, once
    for row in range(open_rows):
        _append(after, before, count + lane[row], row)
    found = place = 0
    while place < len(order):
        stop = place + 1
        if context == RECENT:
            while stop < len(order) and together[stop]:
                stop += 1
        for at in range(place, stop):
            x = order[at]
            other = count + (lane[x] ^ 1)
            had = found
            y = before[other] if context == RECENT else after[other]
            while y != other:
                following = before[y] if context == RECENT else after[y]
                if bound >= 0 and end[x] - start[y] > bound:
                    _unlink(after, before, y)  # what completes from now on ends even later
                elif _admits(start, end, lane, loose, lists, relation, bound, x, y) and (
                    not checked or _allowed(allowed, x * count + y)
                ):
                    later[found], earlier[found] = x, y
                    found += 1
                    if context != RECENT:
                        _unlink(after, before, y)
                    if context in (CHRONICLE, RECENT):
                        break
                y = following
            if context != RECENT and found == had and opens[lane[x] & 1]:
                _append(after, before, count + lane[x], x)
        if context == RECENT:
            for at in range(place, stop):
                x = order[at]
                if opens[lane[x] & 1]:
                    _leave_slot(loose, after, before, count + lane[x], x)
                    _append(after, before, count + lane[x], x)
        place = stop
    return later[:found].copy(), earlier[:found].copy(), _still_open(before, open_rows, order)


@making
def _still_open(before: Small, open_rows: int, order: Ints) -> Ints:
    kept, size = np.empty(open_rows + len(order), np.int64), 0
    for row in range(open_rows):
        if before[row] != NOT_LISTED:
            kept[size] = row
            size += 1
    for row in order:
        if before[row] != NOT_LISTED:
            kept[size] = row
            size += 1
    return kept[:size].copy()


@inner
def _leave_slot(loose: Ints, after: Small, before: Small, list_: int, x: int) -> None:
    """Take away what stands for the same values of the shared variables."""
    y = after[list_]
    while y != list_:
        following = after[y]
        if _same_slot(loose, x, y):
            _unlink(after, before, y)
        y = following


@compiled
def joined(
    parts: Parts, lists: Lists, lane: Small, later: Ints, earlier: Ints, sources: Ints
) -> tuple[Ints, Ints, Ints]:
    """Pairs as occurrences; ``sources`` are, for the left and the right side, the columns of the result's values."""
    starts, events, of_part, place, _ = lists
    tables, left, right, counts = _sides(of_part, place, lane, later, earlier, len(parts))
    rows = np.empty((len(later), VALUES + sources.shape[1]), np.int64)
    bounds = np.zeros(len(later) + 1, np.int64)
    for one in range(len(parts)):
        for other in range(len(parts)):
            both = one * len(parts) + other
            if counts[both]:
                pairs = (tables, both, left, right)
                _join_rows(rows, parts[one], parts[other], *pairs, sources)
                _add_sizes(bounds, starts[one], starts[other], *pairs)
    for pair in range(len(later)):
        bounds[pair + 1] += bounds[pair]
    found = np.empty(bounds[-1], np.int64)
    for one in range(len(parts)):
        for other in range(len(parts)):
            both = one * len(parts) + other
            if counts[both]:
                pairs = (tables, both, left, right)
                _join_events(found, bounds, starts[one], events[one], starts[other], events[other], *pairs)
    return rows, bounds, found


@making
def _sides(
    of_part: Bytes, place: Small, lane: Small, later: Ints, earlier: Ints, parts: int
) -> tuple[Bytes, Small, Small, Ints]:
    """Of pairs: the two tables they are from as one number, the places there, and how many are from which tables."""
    count = len(later)
    tables, left, right = np.empty(count, np.int8), np.empty(count, np.int32), np.empty(count, np.int32)
    counts = np.zeros(parts * parts, np.int64)
    for pair in range(count):
        x, y = later[pair], earlier[pair]
        if lane[x] & 1:
            x, y = y, x
        tables[pair] = of_part[x] * parts + of_part[y]
        left[pair], right[pair] = place[x], place[y]
        counts[tables[pair]] += 1
    return tables, left, right, counts


@inner
def _join_rows(
    found: Ints, lefts: Ints, rights: Ints, tables: Bytes, both: int, left: Small, right: Small, sources: Ints
) -> None:
    for pair in range(len(left)):
        if tables[pair] != both:
            continue
        a, b = left[pair], right[pair]
        found[pair, START] = min(lefts[a, START], rights[b, START])
        found[pair, END] = max(lefts[a, END], rights[b, END])
        found[pair, EMITTED] = max(lefts[a, EMITTED], rights[b, EMITTED])
        found[pair, FIRST] = min(lefts[a, FIRST], rights[b, FIRST])
        found[pair, LEFT_END] = lefts[a, END]
        found[pair, RIGHT_START] = rights[b, START]
        for column in range(sources.shape[1]):
            value = lefts[a, sources[0, column]] if sources[0, column] >= 0 else UNBOUND
            if value == UNBOUND and sources[1, column] >= 0:
                value = rights[b, sources[1, column]]
            found[pair, VALUES + column] = value


@inner
def _add_sizes(
    bounds: Ints, starts: Ints, other_starts: Ints, tables: Bytes, both: int, left: Small, right: Small
) -> None:
    for pair in range(len(left)):
        if tables[pair] == both:
            a, b = left[pair], right[pair]
            bounds[pair + 1] = starts[a + 1] - starts[a] + other_starts[b + 1] - other_starts[b]


@inner
def _join_events(  # noqa: PLR0913, PLR0917  (a kernel has no object to keep its state in)
    found: Ints, bounds: Ints, starts: Ints, events: Ints, other_starts: Ints, other_events: Ints, tables: Bytes,
    both: int, left: Small, right: Small,
) -> None:  # fmt: skip
    """The events of both, which share none, in the order of their numbers."""
    for pair in range(len(left)):
        if tables[pair] != both:
            continue
        a, b = left[pair], right[pair]
        at, stop, other_at, other_stop = starts[a], starts[a + 1], other_starts[b], other_starts[b + 1]
        for target in range(bounds[pair], bounds[pair + 1]):
            if other_at == other_stop or (at < stop and events[at] < other_events[other_at]):
                found[target] = events[at]
                at += 1
            else:
                found[target] = other_events[other_at]
                other_at += 1
