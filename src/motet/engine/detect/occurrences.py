"""Tables of occurrences: times, progress and values column by column, and the events of each as a list.

A value is the number of a term in the dictionary, or an event's number with `EVENT_BIT` set, or `UNBOUND`. An event's
number is its offset in the log. Tables never change; whoever wants another one makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from motet.engine.detect.columns import UNBOUND, VALUES, Ints, Members
from motet.engine.detect.table_kernels import take_rows


@dataclass(frozen=True, slots=True)
class Occurrences:
    """Row ``i`` has the events ``events[starts[i]:starts[i + 1]]``, in the order of their numbers."""

    columns: Ints  # see above; each is contiguous
    starts: Ints
    events: Ints
    members: npt.NDArray[Any] | None = None  # only below CONSTRUCT over cumulative or iterations

    def __post_init__(self) -> None:
        """Kernels are compiled for arrays of one kind: those that are contiguous and can be written."""
        for name in ("columns", "starts", "events"):
            array = getattr(self, name)
            if not array.flags.carray:
                object.__setattr__(self, name, array.copy(order="C"))

    def __len__(self) -> int:
        return self.columns.shape[1]

    @property
    def width(self) -> int:
        """How many variables there are."""
        return len(self.columns) - VALUES

    @property
    def values(self) -> Ints:
        """By row and variable."""
        return self.columns[VALUES:].T

    def take(self, chosen: npt.NDArray[Any]) -> Occurrences:
        """Some rows, by number or by mask."""
        if chosen.dtype == np.bool_:
            if chosen.all():
                return self
            chosen = np.flatnonzero(chosen)
        members = None if self.members is None else self.members[chosen]
        columns, starts, events = take_rows(self.columns, self.starts, self.events, chosen.astype(np.uint32))
        return Occurrences(columns, starts, events, members)

    def with_column(self, column: int, values: npt.NDArray[Any] | int) -> Occurrences:
        columns = self.columns.copy()
        columns[column] = values
        return replace(self, columns=columns)

    def project(self, sources: Sequence[int]) -> Occurrences:
        """With other variables: the new one ``i`` is the old one ``sources[i]``, or unbound if that is negative."""
        if list(sources) == list(range(self.width)):
            return self
        columns = self.columns[_columns(tuple(sources))]
        for new, old in enumerate(sources):
            if old < 0:
                columns[VALUES + new] = UNBOUND
        return Occurrences(columns, self.starts, self.events, self.members)


@cache
def _columns(sources: tuple[int, ...]) -> Ints:
    return np.array([*range(VALUES), *(VALUES + old for old in sources)], np.int64)


@cache
def empty_table(width: int, *, with_members: bool = False) -> Occurrences:
    """
    >>> len(empty_table(2)), empty_table(2).width
    (0, 2)
    """
    members = np.empty(0, object) if with_members else None
    return Occurrences(np.empty((VALUES + width, 0), np.int64), np.zeros(1, np.int64), np.empty(0, np.int64), members)


def concatenate(tables: Iterable[Occurrences]) -> Occurrences:
    """One table of several with the same variables."""
    found = list(tables)
    filled = [table for table in found if len(table)]
    if len(filled) <= 1:
        return filled[0] if filled else found[0]
    ends = np.cumsum([0, *(len(table.events) for table in filled)])
    starts = [table.starts[:-1] + end for table, end in zip(filled, ends, strict=False)]
    with_members = all(table.members is not None for table in filled)
    return Occurrences(
        np.concatenate([table.columns for table in filled], axis=1),
        np.concatenate([*starts, ends[-1:]]),
        np.concatenate([table.events for table in filled]),
        np.concatenate([table.members for table in filled if table.members is not None]) if with_members else None,
    )


def member_array(sets: Sequence[Members]) -> npt.NDArray[Any]:
    """NumPy would take sets apart if it could; this keeps them whole."""
    found = np.empty(len(sets), object)
    found[:] = sets
    return found


def all_values(table: Occurrences) -> Ints:
    """All values that occur in a table, those of its members included."""
    own = table.columns[VALUES:].ravel()
    if table.members is None:
        return own
    of_members = (value for members in table.members for member in members for _, value in member)
    return np.append(own, np.fromiter(of_members, np.int64))


def map_values(table: Occurrences, changed: Callable[[Ints], Ints]) -> Occurrences:
    """The table with other numbers for its values."""
    columns = table.columns.copy()
    columns[VALUES:] = changed(columns[VALUES:])
    if table.members is None:
        return replace(table, columns=columns)
    before = all_values(table)
    values = dict(zip(before.tolist(), changed(before).tolist(), strict=True))
    members = [
        frozenset(tuple((name, values[value]) for name, value in member) for member in found) for found in table.members
    ]
    return replace(table, columns=columns, members=member_array(members))
