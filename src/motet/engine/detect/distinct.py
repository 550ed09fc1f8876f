"""Each occurrence once: the way that was final first counts, and later ways are recognised (language page, 4 and 5).

No occurrence that ends at an instant can be new once the frontier has passed that instant and the lag of the pattern,
so that much has to be remembered and no more.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from motet.engine.detect.columns import EMISSION_OFFSET, END, LEFT_END, RIGHT_START, START, VALUES, Ints
from motet.engine.detect.occurrences import Occurrences, concatenate, empty_table, member_array
from motet.engine.detect.operator import OperatorEnv
from motet.engine.detect.table_kernels import first_equal

_TIMES = np.array([START, END], np.int64)


class Deduplicator:
    """``pairs``: two ways with sides that leave different instants free between them are different."""

    def __init__(self, width: int, *, pairs: bool = False, with_members: bool = False) -> None:
        sides = (LEFT_END, RIGHT_START) if pairs else ()
        self._columns = np.array([START, END, *sides, *range(VALUES, VALUES + width)], np.int64)
        self.emitted_before = empty_table(width, with_members=with_members)

    def advance(self, new: Occurrences, now: OperatorEnv) -> Occurrences:
        """What has not been seen before."""
        if not len(self.emitted_before) and (not len(new) or now.frontier.has_passed(new.columns[END] + now.lag).all()):
            return self._once(new)  # none of these can come again
        ordered = new.take(np.argsort(new.columns[EMISSION_OFFSET], kind="stable"))
        table = concatenate([self.emitted_before, ordered])
        first = first_equal(table.columns, self._columns, table.starts, table.events)
        kept = first == np.arange(len(table))
        table = _with_members(table, first)
        fresh = kept.copy()
        fresh[: len(self.emitted_before)] = False
        found = table.take(fresh)
        may_come_again = ~now.frontier.has_passed(table.columns[END] + now.lag)
        self.emitted_before = table.take(kept & may_come_again)
        return found

    def _once(self, new: Occurrences) -> Occurrences:
        if len(new) < 2:
            return new
        emitted = new.columns[EMISSION_OFFSET]
        in_order = (emitted[1:] >= emitted[:-1]).all()
        ordered = new if in_order else new.take(np.argsort(emitted, kind="stable"))
        first = first_equal(ordered.columns, self._columns, ordered.starts, ordered.events)
        kept = first == np.arange(len(ordered))
        return ordered if kept.all() else _with_members(ordered, first).take(kept)


def are_distinct(table: Occurrences) -> bool:
    """Whether no two rows have the same times and events."""
    first = first_equal(table.columns, _TIMES, table.starts, table.events)
    return bool((first == np.arange(len(table))).all())


def _with_members(table: Occurrences, first: Ints) -> Occurrences:
    """Ways that are final with the same record share their members."""
    again: npt.NDArray[np.int64] = np.flatnonzero(first != np.arange(len(table)))
    if table.members is None or not len(again):
        return table
    members, emitted = list(table.members), table.columns[EMISSION_OFFSET]
    for row in again.tolist():
        if emitted[row] == emitted[first[row]]:
            members[first[row]] |= members[row]
    return Occurrences(table.columns, table.starts, table.events, member_array(members))
