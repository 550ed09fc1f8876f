"""Machine code for taking some rows of a table, with the list of each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from motet.jit.compiled import compiled

_Ints = npt.NDArray[np.int64]


@compiled
def taken(columns: _Ints, starts: _Ints, items: _Ints, rows: npt.NDArray[np.uint32]) -> tuple[_Ints, _Ints, _Ints]:
    """The columns of some rows, where the list of each begins, and all lists one behind the other."""
    found, begins = np.empty((len(columns), len(rows)), np.int64), np.empty(len(rows) + 1, np.int64)
    for column in range(len(columns)):
        into, values = found[column], columns[column]
        for at in range(len(rows)):
            into[at] = values[rows[at]]
    total = begins[0] = 0
    for at in range(len(rows)):
        total += starts[rows[at] + 1] - starts[rows[at]]
        begins[at + 1] = total
    lists, target = np.empty(total, np.int64), 0
    for at in range(len(rows)):
        for place in range(starts[rows[at]], starts[rows[at] + 1]):
            lists[target] = items[place]
            target += 1
    return found, begins, lists
