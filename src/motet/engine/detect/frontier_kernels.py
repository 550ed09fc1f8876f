"""Machine code for the frontier: which was the first record to pass each of some instants?"""

from __future__ import annotations

import numpy as np

from motet.engine.compiled import compiled
from motet.engine.detect.occurrences import Ints


@compiled
def first_above(passed: Ints, instants: Ints) -> Ints:
    """For each instant the place of the first one in ``passed``, which ascend, that is later.

    Instants mostly ascend too: each search sets out from where the last one ended, in steps that double.
    """
    found = np.empty(len(instants), np.int64)
    at, count = 0, len(passed)
    for place in range(len(instants)):
        instant, step = instants[place], 1
        low, high = at, at
        while low > 0 and passed[low - 1] > instant:
            low, high, step = max(0, low - step), low, 2 * step
        while high < count and passed[high] <= instant:
            low, high, step = high + 1, min(count, high + step), 2 * step
        while low < high:
            middle = (low + high) >> 1
            if passed[middle] <= instant:
                low = middle + 1
            else:
                high = middle
        found[place] = at = low
    return found
