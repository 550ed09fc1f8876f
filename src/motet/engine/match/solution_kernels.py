"""The machine-code half of making solutions: one for each combination of the values a leaf reads."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from motet.engine.compiled import compiled, making
from motet.engine.match.search_kernels import REF, run
from motet.engine.match.texts import Ints, Numbers

_EVENT, _START, _END, _WITNESS, _READ = range(5)


@making
def _counts(
    event: Numbers, leaf: Numbers, form: Numbers, starts: Ints, kind: Ints, number: Ints, rows: Ints, row: Numbers
) -> Ints:
    """How many solutions each hit has."""
    found = np.ones(event.size, np.int64)
    for hit in range(event.size):
        own = form[leaf[hit]]
        for at in range(starts[own], starts[own + 1]):
            if kind[at] == _READ:
                begin, end = run(row, rows[event[hit]], rows[event[hit] + 1], number[at])
                found[hit] *= end - begin
    return found


@compiled
def fill_solutions(  # noqa: PLR0913, PLR0917  (a kernel has no object to keep its state in)
    event: Numbers, leaf: Numbers, witness: npt.NDArray[np.int32], form: Numbers, starts: Ints, kind: Ints,
    number: Ints, rows: Ints, row: Numbers, terms: int,
) -> tuple[Ints, Ints, Ints, Ints, Ints]:  # fmt: skip
    """By solution its event, its leaf and where its bindings begin; by binding its place among the forms' and its term.

    Behind the terms, events are numbered, then starts and ends.
    """
    counts = _counts(event, leaf, form, starts, kind, number, rows, row)
    count = rows.size - 1
    total = width = 0
    for hit in range(event.size):
        total += counts[hit]
        width += counts[hit] * (starts[form[leaf[hit]] + 1] - starts[form[leaf[hit]]])
    events, leaves, first = np.empty(total, np.int64), np.empty(total, np.int64), np.zeros(total + 1, np.int64)
    binding, term = np.empty(width, np.int64), np.empty(width, np.int64)
    solution = size = 0
    for hit in range(event.size):
        own = event[hit]
        for turn in range(counts[hit]):
            rest = turn  # the number of the combination, its digits are rows
            for at in range(starts[form[leaf[hit]]], starts[form[leaf[hit]] + 1]):
                binding[size] = at
                if kind[at] == _EVENT:
                    term[size] = terms + own
                elif kind[at] == _START:
                    term[size] = terms + count + own
                elif kind[at] == _END:
                    term[size] = terms + 2 * count + own
                elif kind[at] == _WITNESS:
                    term[size] = row[witness[hit, number[at]], REF]
                else:
                    begin, end = run(row, rows[own], rows[own + 1], number[at])
                    term[size] = row[begin + rest % (end - begin), REF]
                    rest //= end - begin
                size += 1
            events[solution], leaves[solution] = own, leaf[hit]
            solution += 1
            first[solution] = size
    return events, leaves, first, binding, term
