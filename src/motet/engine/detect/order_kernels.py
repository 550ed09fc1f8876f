"""Machine code for completion order: do rows stand in it already, as far as times decide?"""

from __future__ import annotations

from motet.engine.detect.occurrences import Ints
from motet.jit.compiled import compiled


@compiled
def in_order(start: Ints, end: Ints) -> bool:
    """Whether rows stand by end and start."""
    falls = 0
    ends, last_ends, starts, last_starts = end[1:], end[:-1], start[1:], start[:-1]
    for row in range(len(ends)):  # without a way out, which would be slower
        falls += (ends[row] < last_ends[row]) | ((ends[row] == last_ends[row]) & (starts[row] < last_starts[row]))
    return falls == 0
