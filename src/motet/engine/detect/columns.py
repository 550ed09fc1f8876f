"""The columns of an occurrence table, and the special values in them."""

from __future__ import annotations

import numpy as np

# EMISSION_OFFSET is the offset of the record that made the occurrence final, FIRST_OFFSET that of its first event.
# LEFT_END and RIGHT_START are the ends of the free interval between the sides of a pair; only WITHOUT reads them.
# From VALUES on there is one column for each variable.
START, END, EMISSION_OFFSET, FIRST_OFFSET, LEFT_END, RIGHT_START, VALUES = range(7)

UNBOUND = -1
EVENT_BIT = 1 << 62  # set in a value that stands for the IRI of an event of a leaf; the other bits are its offset
NO_OFFSET = np.iinfo(np.int64).max  # the first offset of an occurrence without events

Members = frozenset[tuple[tuple[str, int], ...]]  # the solutions a CONSTRUCT template is filled with
