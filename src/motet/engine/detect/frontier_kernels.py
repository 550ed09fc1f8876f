"""Machine code for the frontier: which was the first record to pass each of some instants?"""

from __future__ import annotations

import numpy as np

from motet.engine.detect.occurrences import Ints
from motet.jit.compiled import compiled, inlined

_STEP, _FAR, _ONE = np.uint64(8), np.uint64(64), np.uint64(1)


@compiled
def first_above(passed: Ints, offsets: Ints, before: int, otherwise: int, instants: Ints) -> Ints:
    """For each instant the offset of the first record that passed it; ``passed`` and mostly the instants ascend.

    So each search sets out from where the last one ended, mostly a few records away: they are counted, which is quicker
    than to guess at each of them whether it is the one. What is earlier than ``before``, or later than all, is given
    another offset.
    """
    found = np.empty(len(instants), np.int64)
    at, count = np.uint64(0), np.uint64(len(passed))
    for place in range(len(instants)):
        instant = instants[place]
        if (at > 0 and passed[at - _ONE] > instant) or (at + _FAR < count and passed[at + _FAR] <= instant):
            at = _searched(passed, instant)
        while at + _STEP <= count and passed[at + _STEP - _ONE] <= instant:
            at += _STEP
        above = at
        for near in range(at, min(at + _STEP, count)):
            above += np.uint64(passed[near] <= instant)
        found[place] = offsets[above] if above < count and instant >= before else otherwise
    return found


@inlined
def _searched(passed: Ints, instant: int) -> np.uint64:
    low, high = np.uint64(0), np.uint64(len(passed))
    while low < high:
        middle = (low + high) >> _ONE
        if passed[middle] <= instant:
            low = middle + _ONE
        else:
            high = middle
    return low
