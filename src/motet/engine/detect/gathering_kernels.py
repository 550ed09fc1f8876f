"""Machine code for rows out of several tables: their columns, and the events of two of them together."""

from __future__ import annotations

import numpy as np

from motet.engine.detect.key_kernels import Numbers
from motet.engine.detect.occurrences import Ints
from motet.jit.compiled import compiled


@compiled
def gather(found: Ints, targets: Ints, one: Ints, two: Ints, three: Ints, rows: Numbers, sources: Ints) -> None:
    """Some columns of rows that are numbered through three tables; each goes to its target."""
    second = one.shape[1]
    third = second + two.shape[1]
    for place in range(len(targets)):
        into, source = found[targets[place]], sources[place]
        ones, twos, threes = one[source], two[source], three[source]
        for at in range(len(rows)):
            row = rows[at]
            if row >= third:
                into[at] = threes[np.uint32(row - third)]
            elif row < second:
                into[at] = ones[row]
            else:
                into[at] = twos[np.uint32(row - second)]


@compiled
def events_of_both(starts: Ints, events: Ints, rows: Numbers, others: Numbers) -> tuple[Ints, Ints]:
    """The events of pairs of rows, which share none, in order: where those of each pair begin, and all."""
    bounds, total = np.empty(len(rows) + 1, np.int64), 0
    bounds[0] = 0
    for pair in range(len(rows)):
        row, other = rows[pair], others[pair]
        total += starts[row + 1] - starts[row] + starts[other + 1] - starts[other]
        bounds[pair + 1] = total
    found, target = np.empty(total, np.int64), np.uint64(0)
    for pair in range(len(rows)):
        row, other = rows[pair], others[pair]
        at, stop = np.uint64(starts[row]), np.uint64(starts[row + 1])
        other_at, other_stop = np.uint64(starts[other]), np.uint64(starts[other + 1])
        while at < stop or other_at < other_stop:
            if other_at == other_stop or (at < stop and events[at] < events[other_at]):
                found[target] = events[at]
                at += np.uint64(1)
            else:
                found[target] = events[other_at]
                other_at += np.uint64(1)
            target += np.uint64(1)
    return bounds, found
