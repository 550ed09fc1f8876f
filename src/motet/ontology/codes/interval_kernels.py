"""Compiled interval tests over long arrays. Importing it loads Numba."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motet.jit.compiled import compiled

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]


@compiled
def inside_one(numbers: Numbers, low: int, high: int) -> Mask:
    """Mask of the numbers in one interval."""
    mask = np.empty(numbers.size, np.bool_)
    for index in range(numbers.size):
        mask[index] = (low <= numbers[index]) & (numbers[index] < high)
    return mask


@compiled
def inside_each(numbers: Numbers, low: Numbers, high: Numbers) -> Mask:
    """Whether each number lies in the interval of the same index."""
    mask = np.empty(numbers.size, np.bool_)
    for index in range(numbers.size):
        mask[index] = (low[index] <= numbers[index]) & (numbers[index] < high[index])
    return mask


@compiled
def inside_any(points: Numbers, first: Numbers, low: Numbers, high: Numbers, upper: Numbers, lower: Numbers) -> Mask:
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
