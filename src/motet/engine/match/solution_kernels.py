"""Compiled functions that make solutions: one for each combination of the values that a leaf reads."""

from __future__ import annotations

import numpy as np

from motet.engine.match.search_kernels import EVENT, HIT_LEAF, MATCHED_ROWS, REF, predicate_rows
from motet.jit.compiled import Int32s, Ints, allocating, compiled

_EVENT, _START, _END, _WITNESS, _READ = range(5)


@allocating
def _counts(
    hits: Int32s, projection_ids: Int32s, starts: Ints, kind: Ints, value_index: Ints, rows: Ints, row: Int32s
) -> Ints:
    """The number of solutions of each hit."""
    counts = np.ones(hits.shape[0], np.int64)
    for hit in range(hits.shape[0]):
        event, projection = hits[hit, EVENT], projection_ids[np.uint64(hits[hit, HIT_LEAF])]
        for at in range(starts[np.uint64(projection)], starts[np.uint64(projection + 1)]):
            if kind[np.uint64(at)] == _READ:
                begin, end = predicate_rows(
                    row, rows[np.uint64(event)], rows[np.uint64(event + 1)], value_index[np.uint64(at)]
                )
                counts[hit] *= end - begin
    return counts


@compiled
def fill_solutions(
    hits: Int32s, projection_ids: Int32s, starts: Ints, kind: Ints, value_index: Ints, rows: Ints, row: Int32s,
    terms: int,
) -> tuple[Ints, Ints, Ints, Ints, Ints]:  # fmt: skip
    """By solution its event, its leaf and the start of its bindings; by binding its index in the projections, its term.

    Term indexes count the terms, then the events, then their starts, then their ends.
    """
    counts = _counts(hits, projection_ids, starts, kind, value_index, rows, row)
    count = rows.size - 1
    total = width = 0
    for hit in range(hits.shape[0]):
        projection = projection_ids[np.uint64(hits[hit, HIT_LEAF])]
        total += counts[hit]
        width += counts[hit] * (starts[np.uint64(projection + 1)] - starts[np.uint64(projection)])
    events, leaves, first = np.empty(total, np.int64), np.empty(total, np.int64), np.zeros(total + 1, np.int64)
    binding, term = np.empty(width, np.int64), np.empty(width, np.int64)
    solution = size = 0
    for hit in range(hits.shape[0]):
        event, leaf = hits[hit, EVENT], hits[hit, HIT_LEAF]
        bound, last = (
            starts[np.uint64(projection_ids[np.uint64(leaf)])],
            starts[np.uint64(projection_ids[np.uint64(leaf)] + 1)],
        )
        for combination in range(counts[hit]):
            rest = combination  # its digits, by the number of rows of each value, select the rows
            for at in range(bound, last):
                source, index = kind[np.uint64(at)], value_index[np.uint64(at)]
                if source == _EVENT:
                    value = terms + event
                elif source == _START:
                    value = terms + count + event
                elif source == _END:
                    value = terms + 2 * count + event
                elif source == _WITNESS:
                    value = np.int64(row[np.uint64(hits[hit, np.uint64(MATCHED_ROWS + index)]), REF])
                else:
                    begin, end = predicate_rows(row, rows[np.uint64(event)], rows[np.uint64(event + 1)], index)
                    value = np.int64(row[np.uint64(begin + rest % (end - begin)), REF])
                    rest //= end - begin
                binding[np.uint64(size)], term[np.uint64(size)] = at, value
                size += 1
            events[np.uint64(solution)], leaves[np.uint64(solution)] = event, leaf
            solution += 1
            first[np.uint64(solution)] = size
    return events, leaves, first, binding, term
