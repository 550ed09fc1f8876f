"""Compiled interval tests over long arrays. Importing it loads Numba."""

from __future__ import annotations

import numpy as np

from motet.jit.compiled import Bools, Ints, compiled


@compiled
def inside_one(numbers: Ints, low: int, high: int) -> Bools:
    """Mask of the numbers in one interval."""
    mask = np.empty(numbers.size, np.bool_)
    for index in range(numbers.size):
        mask[index] = (low <= numbers[index]) & (numbers[index] < high)
    return mask


@compiled
def inside_each(numbers: Ints, low: Ints, high: Ints) -> Bools:
    """Whether each number lies in the interval of the same index."""
    mask = np.empty(numbers.size, np.bool_)
    for index in range(numbers.size):
        mask[index] = (low[index] <= numbers[index]) & (numbers[index] < high[index])
    return mask


@compiled
def inside_any(points: Ints, first: Ints, low: Ints, high: Ints, upper: Ints, lower: Ints) -> Bools:
    """Whether an interval of each upper node contains the number of the lower one, elementwise."""
    mask = np.empty(upper.size, np.bool_)
    for index in range(upper.size):
        point = points[lower[index]]
        begin, end = first[upper[index]], first[upper[index] + 1]
        while end - begin > 1:  # the last interval that starts at or before the point
            middle = (begin + end) // 2
            if low[middle] <= point:
                begin = middle
            else:
                end = middle
        mask[index] = (low[begin] <= point) & (point < high[begin])
    return mask
