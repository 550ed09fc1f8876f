"""The k-d tree of zones: divides rows by the medians of their coordinates, between terms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Coordinates = npt.NDArray[np.int64]
RowNumbers = npt.NDArray[np.int64]

WORST_SHARE = 0.25  # a dimension is skipped if its best cut leaves less than this on one side


def divide(dimensions: Sequence[Coordinates], least: int, most: int) -> list[RowNumbers]:
    """The rows of each zone: parts of more than ``most`` rows are cut, into parts of at least ``least``.

    The dimensions are taken in turn. A cut is never inside one value, so a zone without any possible cut may be larger.

    >>> [part.tolist() for part in divide([np.array([0, 0, 1, 2])], least=1, most=2)]
    [[0, 1], [2, 3]]
    """
    zones: list[RowNumbers] = []
    pending = [(np.arange(len(dimensions[0])), 0)]
    while pending:
        rows, depth = pending.pop()
        parts = _cut(dimensions, rows, depth, least) if len(rows) > most else None
        if parts is None:
            zones.append(rows)
        else:
            pending += [(parts[1], parts[2]), (parts[0], parts[2])]
    return zones


def _cut(
    dimensions: Sequence[Coordinates], rows: RowNumbers, depth: int, least: int
) -> tuple[RowNumbers, RowNumbers, int] | None:
    """Both sides of the cut in the next dimension that has a good one, and the depth below it."""
    for dimension in range(depth, depth + len(dimensions)):
        values = dimensions[dimension % len(dimensions)][rows]
        median = np.partition(values, len(values) // 2)[len(values) // 2]
        below, up_to = values < median, values <= median
        is_left = min(below, up_to, key=lambda side: abs(2 * int(side.sum()) - len(rows)))
        smaller = min(int(is_left.sum()), len(rows) - int(is_left.sum()))
        if smaller >= max(least, WORST_SHARE * len(rows)):
            return rows[is_left], rows[~is_left], dimension + 1
    return None
