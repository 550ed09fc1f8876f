"""Tables of occurrences: times, progress and values as one matrix, and the events of each as a list.

A value is the number of a term in the dictionary, or an event's number with `EVENT` set, or `UNBOUND`. An event's
number is its offset in the log. Tables never change; whoever wants another one makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

# The columns of the matrix. What a pair's sides leave free between them is only asked for by WITHOUT.
START, END, EMITTED, FIRST, LEFT_END, RIGHT_START, VALUES = range(7)

UNBOUND = -1
EVENT = 1 << 62  # set in a value that stands for an event's own IRI
NO_OFFSET = np.iinfo(np.int64).max  # the first offset of an occurrence without events

Members = frozenset[tuple[tuple[str, int], ...]]  # the solutions a CONSTRUCT template is filled with


@dataclass(frozen=True, slots=True)
class Occurrences:
    """Row ``i`` has the events ``events[starts[i]:starts[i + 1]]``, in the order of their numbers."""

    rows: Ints  # by column, see above
    starts: Ints
    events: Ints
    members: npt.NDArray[Any] | None = None  # only below CONSTRUCT over cumulative or iterations

    def __post_init__(self) -> None:
        """Kernels are compiled for arrays of one kind: those that can be written."""
        for name in ("rows", "starts", "events"):
            array = getattr(self, name)
            if not array.flags.writeable:
                object.__setattr__(self, name, array.copy())

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def width(self) -> int:
        """How many variables there are."""
        return self.rows.shape[1] - VALUES

    def take(self, chosen: npt.NDArray[Any]) -> Occurrences:
        """Some rows, by number or by mask."""
        if chosen.dtype == np.bool_:
            if chosen.all():
                return self
            chosen = np.flatnonzero(chosen)
        starts, places = _lists(self.starts, chosen)
        members = None if self.members is None else self.members[chosen]
        return Occurrences(self.rows[chosen], starts, self.events[places], members)

    def first(self, count: int) -> Occurrences:
        """The first rows, without a copy."""
        starts = self.starts[: count + 1]
        members = None if self.members is None else self.members[:count]
        return Occurrences(self.rows[:count], starts, self.events[: starts[-1]], members)

    def with_column(self, column: int, values: npt.NDArray[Any] | int) -> Occurrences:
        rows = self.rows.copy()
        rows[:, column] = values
        return replace(self, rows=rows)

    def renamed(self, sources: Sequence[int]) -> Occurrences:
        """With other variables: the new one ``i`` is the old one ``sources[i]``, or unbound if that is negative."""
        if list(sources) == list(range(self.width)):
            return self
        rows = self.rows.take(_columns(tuple(sources)), axis=1)
        for new, old in enumerate(sources):
            if old < 0:
                rows[:, VALUES + new] = UNBOUND
        return Occurrences(rows, self.starts, self.events, self.members)


@cache
def _columns(sources: tuple[int, ...]) -> Ints:
    return np.array([*range(VALUES), *(VALUES + old for old in sources)], np.int64)


@cache
def none(width: int, *, with_members: bool = False) -> Occurrences:
    """
    >>> len(none(2)), none(2).width
    (0, 2)
    """
    members = np.empty(0, object) if with_members else None
    return Occurrences(np.empty((0, VALUES + width), np.int64), np.zeros(1, np.int64), np.empty(0, np.int64), members)


def concatenated(tables: Iterable[Occurrences]) -> Occurrences:
    """One table of several with the same variables."""
    found = list(tables)
    filled = [table for table in found if len(table)]
    if len(filled) <= 1:
        return filled[0] if filled else found[0]
    ends = np.cumsum([0, *(len(table.events) for table in filled)])
    starts = [table.starts[:-1] + end for table, end in zip(filled, ends, strict=False)]
    with_members = all(table.members is not None for table in filled)
    return Occurrences(
        np.concatenate([table.rows for table in filled]),
        np.concatenate([*starts, ends[-1:]]),
        np.concatenate([table.events for table in filled]),
        np.concatenate([table.members for table in filled if table.members is not None]) if with_members else None,
    )


def member_sets(sets: Sequence[Members]) -> npt.NDArray[Any]:
    """NumPy would take sets apart if it could; this keeps them whole."""
    found = np.empty(len(sets), object)
    found[:] = sets
    return found


def values_in(table: Occurrences) -> Ints:
    """All values that occur in a table, those of its members included."""
    own = table.rows[:, VALUES:].ravel()
    if table.members is None:
        return own
    of_members = (value for members in table.members for member in members for _, value in member)
    return np.append(own, np.fromiter(of_members, np.int64))


def with_values(table: Occurrences, changed: Callable[[Ints], Ints]) -> Occurrences:
    """The table with other numbers for its values."""
    rows = table.rows.copy()
    rows[:, VALUES:] = changed(rows[:, VALUES:])
    if table.members is None:
        return replace(table, rows=rows)
    before = values_in(table)
    values = dict(zip(before.tolist(), changed(before).tolist(), strict=True))
    members = [
        frozenset(tuple((name, values[value]) for name, value in member) for member in found) for found in table.members
    ]
    return replace(table, rows=rows, members=member_sets(members))


def _lists(starts: Ints, chosen: Ints) -> tuple[Ints, Ints]:
    """Where the chosen lists begin when they stand one behind the other, and the places of their elements."""
    begin = starts[chosen]
    sizes = starts[chosen + 1] - begin
    found = np.zeros(len(chosen) + 1, np.int64)
    np.cumsum(sizes, out=found[1:])
    if found[-1] == len(chosen) and (len(sizes) == 0 or sizes.min() == 1):
        return found, begin
    return found, np.repeat(begin - found[:-1], sizes) + np.arange(found[-1])
