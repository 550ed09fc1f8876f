"""Compiled functions that turn the solutions of leaves into the columns of occurrence tables."""

from __future__ import annotations

import numpy as np

from motet.engine.detect.columns import EMISSION_OFFSET, END, EVENT_BIT, FIRST_OFFSET, START, UNBOUND, VALUES
from motet.jit.compiled import Ints, compiled


@compiled
def plain_terms(leaf: Ints, starts: Ints, term: Ints, first: Ints, columns: Ints, event_column: Ints) -> Ints:
    """By binding its term; -1 for the event of a leaf whose value is the event's offset."""
    terms = np.empty(term.size, np.int64)
    for solution in range(leaf.size):
        begin, shift = starts[solution], first[leaf[solution]] - starts[solution]
        for at in range(begin, starts[solution + 1]):
            terms[at] = -1 if columns[at + shift] == event_column[leaf[solution]] else term[at]
    return terms


@compiled
def leaf_columns(  # noqa: PLR0913, PLR0917  (a kernel has no object to keep its state in)
    order: Ints, event: Ints, leaf: Ints, starts: Ints, term_ids: Ints, offset: Ints, start: Ints, end: Ints,
    width: Ints, first: Ints, columns: Ints, event_column: Ints,
) -> Ints:  # fmt: skip
    """The columns of all leaves, one leaf after the other, for solutions in an order by their leaves.

    ``first`` has the start of each leaf's part of ``columns``, which are the columns of its bindings.
    """
    size = 0
    for solution in order:
        size += VALUES + width[leaf[solution]]
    values = np.full(size, UNBOUND, np.int64)
    at = index = 0
    while index < len(order):
        current, stop = leaf[order[index]], index
        while stop < len(order) and leaf[order[stop]] == current:
            stop += 1
        rows = stop - index
        for row in range(rows):
            solution = order[index + row]
            target, source = at + row, event[solution]
            values[target + START * rows], values[target + END * rows] = start[source], end[source]
            values[target + EMISSION_OFFSET * rows] = values[target + FIRST_OFFSET * rows] = offset[source]
            first_value, shift = target + VALUES * rows, first[current] - starts[solution]
            for binding in range(starts[solution], starts[solution + 1]):
                values[first_value + columns[binding + shift] * rows] = term_ids[binding]
            if event_column[current] >= 0:
                values[first_value + event_column[current] * rows] = offset[source] | EVENT_BIT
        at, index = at + (VALUES + width[current]) * rows, stop
    return values
