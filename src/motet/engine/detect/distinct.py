"""Removes repeated occurrences: the first final one counts, later ones are dropped (language page, 4 and 5).

Once the frontier has passed an instant and the lag of the pattern, no occurrence that ends there can be new. Older rows
are pruned.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from motet.engine.detect.columns import EMISSION_OFFSET, END, LEFT_END, RIGHT_START, START, VALUES
from motet.engine.detect.occurrences import Occurrences, concatenate, empty_table, member_array
from motet.engine.detect.operator import OperatorEnv
from motet.engine.detect.table_kernels import first_equal
from motet.jit.compiled import Ints

_TIMES = np.array([START, END], np.int64)


class Deduplicator:
    """With ``pairs``, rows whose sides leave different intervals free between them are different."""

    def __init__(self, width: int, *, pairs: bool = False, with_members: bool = False) -> None:
        sides = (LEFT_END, RIGHT_START) if pairs else ()
        self._columns = np.array([START, END, *sides, *range(VALUES, VALUES + width)], np.int64)
        self.emitted_before = empty_table(width, with_members=with_members)

    def advance(self, new: Occurrences, env: OperatorEnv) -> Occurrences:
        """The rows that have not been emitted before."""
        result, emitted_before = self._separate(new, env)
        if not env.is_probe:
            self.emitted_before = emitted_before
        return result

    def prune(self, env: OperatorEnv) -> None:
        """Drop the rows that cannot be repeated any more."""
        if len(self.emitted_before):
            may_repeat = ~env.frontier.has_passed(self.emitted_before.columns[END] + env.lag)
            self.emitted_before = self.emitted_before.take(may_repeat)

    def _separate(self, new: Occurrences, env: OperatorEnv) -> tuple[Occurrences, Occurrences]:
        """The rows that have not been emitted before, and those that may be repeated later."""
        if not len(self.emitted_before) and (not len(new) or env.frontier.has_passed(new.columns[END] + env.lag).all()):
            return self._deduplicate(new), self.emitted_before  # none of these can be repeated later
        ordered = new.take(np.argsort(new.columns[EMISSION_OFFSET], kind="stable"))
        table = concatenate([self.emitted_before, ordered])
        first = first_equal(table.columns, self._columns, table.starts, table.events)
        is_first = first == np.arange(len(table))
        table = _with_all_members(table, first)
        is_new = is_first.copy()
        is_new[: len(self.emitted_before)] = False
        may_repeat = ~env.frontier.has_passed(table.columns[END] + env.lag)
        return table.take(is_new), table.take(is_first & may_repeat)

    def _deduplicate(self, new: Occurrences) -> Occurrences:
        if len(new) < 2:
            return new
        offsets = new.columns[EMISSION_OFFSET]
        is_ordered = (offsets[1:] >= offsets[:-1]).all()
        ordered = new if is_ordered else new.take(np.argsort(offsets, kind="stable"))
        first = first_equal(ordered.columns, self._columns, ordered.starts, ordered.events)
        is_first = first == np.arange(len(ordered))
        return ordered if is_first.all() else _with_all_members(ordered, first).take(is_first)


def are_distinct(table: Occurrences) -> bool:
    """Whether no two rows have the same times and events."""
    first = first_equal(table.columns, _TIMES, table.starts, table.events)
    return bool((first == np.arange(len(table))).all())


def _with_all_members(table: Occurrences, first: Ints) -> Occurrences:
    """Add the members of repeated rows to the first one, if both are final with the same record."""
    repeated: npt.NDArray[np.int64] = np.flatnonzero(first != np.arange(len(table)))
    if table.members is None or not len(repeated):
        return table
    members, offsets = list(table.members), table.columns[EMISSION_OFFSET]
    for row in repeated.tolist():
        if offsets[row] == offsets[first[row]]:
            members[first[row]] |= members[row]
    return Occurrences(table.columns, table.starts, table.events, member_array(members))
