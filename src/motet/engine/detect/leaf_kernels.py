"""The machine-code half of the leaves: from solutions to the columns of tables."""

from __future__ import annotations

import numpy as np

from motet.engine.detect.columns import EMISSION_OFFSET, END, EVENT_BIT, FIRST_OFFSET, START, UNBOUND, VALUES, Ints
from motet.jit.compiled import compiled


@compiled
def plain_terms(leaf: Ints, starts: Ints, term: Ints, first: Ints, columns: Ints, own: Ints) -> Ints:
    """By binding its term, or -1 where that is an event that is told from terms."""
    found = np.empty(term.size, np.int64)
    for solution in range(leaf.size):
        begin, shift = starts[solution], first[leaf[solution]] - starts[solution]
        for at in range(begin, starts[solution + 1]):
            found[at] = -1 if columns[at + shift] == own[leaf[solution]] else term[at]
    return found


@compiled
def leaf_columns(  # noqa: PLR0913, PLR0917  (a kernel has no object to keep its state in)
    order: Ints, event: Ints, leaf: Ints, starts: Ints, numbers: Ints, offset: Ints, start: Ints, end: Ints,
    width: Ints, first: Ints, columns: Ints, own: Ints,
) -> Ints:  # fmt: skip
    """The columns of all leaves, leaf by leaf, for solutions in an order by their leaves."""
    size = 0
    for solution in order:
        size += VALUES + width[leaf[solution]]
    found = np.full(size, UNBOUND, np.int64)
    at = place = 0
    while place < len(order):
        here, stop = leaf[order[place]], place
        while stop < len(order) and leaf[order[stop]] == here:
            stop += 1
        rows = stop - place
        for row in range(rows):
            solution = order[place + row]
            to, of = at + row, event[solution]
            found[to + START * rows], found[to + END * rows] = start[of], end[of]
            found[to + EMISSION_OFFSET * rows] = found[to + FIRST_OFFSET * rows] = offset[of]
            values, shift = to + VALUES * rows, first[here] - starts[solution]
            for binding in range(starts[solution], starts[solution + 1]):
                found[values + columns[binding + shift] * rows] = numbers[binding]
            if own[here] >= 0:
                found[values + own[here] * rows] = offset[of] | EVENT_BIT
        at, place = at + (VALUES + width[here]) * rows, stop
    return found
