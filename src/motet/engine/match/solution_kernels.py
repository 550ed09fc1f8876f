"""The machine-code half of making solutions: one for each combination of the values a leaf reads."""

from __future__ import annotations

import numpy as np

from motet.engine.match.search_kernels import EVENT, HIT_LEAF, MATCHED_ROWS, REF, predicate_rows
from motet.engine.match.string_column import Ints, Numbers
from motet.jit.compiled import allocating, compiled

_EVENT, _START, _END, _WITNESS, _READ = range(5)


@allocating
def _counts(hits: Numbers, form: Numbers, starts: Ints, kind: Ints, number: Ints, rows: Ints, row: Numbers) -> Ints:
    """How many solutions each hit has."""
    found = np.ones(hits.shape[0], np.int64)
    for hit in range(hits.shape[0]):
        event, own = hits[hit, EVENT], form[np.uint64(hits[hit, HIT_LEAF])]
        for at in range(starts[np.uint64(own)], starts[np.uint64(own + 1)]):
            if kind[np.uint64(at)] == _READ:
                begin, end = predicate_rows(
                    row, rows[np.uint64(event)], rows[np.uint64(event + 1)], number[np.uint64(at)]
                )
                found[hit] *= end - begin
    return found


@compiled
def fill_solutions(
    hits: Numbers, form: Numbers, starts: Ints, kind: Ints, number: Ints, rows: Ints, row: Numbers, terms: int,
) -> tuple[Ints, Ints, Ints, Ints, Ints]:  # fmt: skip
    """By solution its event, its leaf and where its bindings begin; by binding its place among the forms' and its term.

    Behind the terms, events are numbered, then starts and ends.
    """
    counts = _counts(hits, form, starts, kind, number, rows, row)
    count = rows.size - 1
    total = width = 0
    for hit in range(hits.shape[0]):
        own = form[np.uint64(hits[hit, HIT_LEAF])]
        total += counts[hit]
        width += counts[hit] * (starts[np.uint64(own + 1)] - starts[np.uint64(own)])
    events, leaves, first = np.empty(total, np.int64), np.empty(total, np.int64), np.zeros(total + 1, np.int64)
    binding, term = np.empty(width, np.int64), np.empty(width, np.int64)
    solution = size = 0
    for hit in range(hits.shape[0]):
        own, leaf = hits[hit, EVENT], hits[hit, HIT_LEAF]
        bound, last = starts[np.uint64(form[np.uint64(leaf)])], starts[np.uint64(form[np.uint64(leaf)] + 1)]
        for turn in range(counts[hit]):
            rest = turn  # the number of the combination, its digits are rows
            for at in range(bound, last):
                source, which = kind[np.uint64(at)], number[np.uint64(at)]
                if source == _EVENT:
                    found = terms + own
                elif source == _START:
                    found = terms + count + own
                elif source == _END:
                    found = terms + 2 * count + own
                elif source == _WITNESS:
                    found = np.int64(row[np.uint64(hits[hit, np.uint64(MATCHED_ROWS + which)]), REF])
                else:
                    begin, end = predicate_rows(row, rows[np.uint64(own)], rows[np.uint64(own + 1)], which)
                    found = np.int64(row[np.uint64(begin + rest % (end - begin)), REF])
                    rest //= end - begin
                binding[np.uint64(size)], term[np.uint64(size)] = at, found
                size += 1
            events[np.uint64(solution)], leaves[np.uint64(solution)] = own, leaf
            solution += 1
            first[np.uint64(solution)] = size
    return events, leaves, first, binding, term
