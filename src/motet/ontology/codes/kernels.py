"""Interval tests over long arrays in one pass, compiled. Importing this loads Numba: do it when arrays are long."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motet.jit.compiled import compiled

Numbers = NDArray[np.int64]
Answers = NDArray[np.bool_]


@compiled
def inside_one(numbers: Numbers, low: int, high: int) -> Answers:
    """Which numbers lie in one interval."""
    found = np.empty(numbers.size, np.bool_)
    for place in range(numbers.size):
        found[place] = (low <= numbers[place]) & (numbers[place] < high)
    return found


@compiled
def inside_each(numbers: Numbers, low: Numbers, high: Numbers) -> Answers:
    """Element by element, whether a number lies in an interval."""
    found = np.empty(numbers.size, np.bool_)
    for place in range(numbers.size):
        found[place] = (low[place] <= numbers[place]) & (numbers[place] < high[place])
    return found


@compiled
def inside_any(points: Numbers, first: Numbers, low: Numbers, high: Numbers, upper: Numbers, lower: Numbers) -> Answers:
    """Element by element, whether one of the upper node's intervals holds the lower node's point."""
    found = np.empty(upper.size, np.bool_)
    for place in range(upper.size):
        point = points[lower[place]]
        begin, end = first[upper[place]], first[upper[place] + 1]
        while end - begin > 1:  # the last interval that does not begin after the point
            middle = (begin + end) // 2
            if low[middle] <= point:
                begin = middle
            else:
                end = middle
        found[place] = (low[begin] <= point) & (point < high[begin])
    return found
