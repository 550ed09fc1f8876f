"""The machine-code half of the leaves: from solutions to the rows of tables."""

from __future__ import annotations

import numpy as np

from motet.engine.compiled import compiled
from motet.engine.detect.occurrences import EMITTED, END, EVENT, FIRST, START, UNBOUND, VALUES, Ints


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
def leaf_rows(  # noqa: PLR0913, PLR0917  (a kernel has no object to keep its state in)
    order: Ints, event: Ints, leaf: Ints, starts: Ints, numbers: Ints, offset: Ints, start: Ints, end: Ints,
    width: Ints, first: Ints, columns: Ints, own: Ints,
) -> Ints:  # fmt: skip
    """The rows of all solutions in some order, one behind the other, each as wide as its leaf."""
    size = 0
    for solution in order:
        size += VALUES + width[leaf[solution]]
    found = np.full(size, UNBOUND, np.int64)
    at = 0
    for solution in order:
        here, of = leaf[solution], event[solution]
        found[at + START], found[at + END] = start[of], end[of]
        found[at + EMITTED] = found[at + FIRST] = offset[of]
        values, shift = at + VALUES, first[here] - starts[solution]
        for binding in range(starts[solution], starts[solution + 1]):
            found[values + columns[binding + shift]] = numbers[binding]
        if own[here] >= 0:
            found[values + own[here]] = offset[of] | EVENT
        at = values + width[here]
    return found
