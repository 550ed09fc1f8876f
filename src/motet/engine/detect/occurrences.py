"""Tables of occurrences: times, offsets and values column by column, and the events of each row as a list.

A value is a term id of the dictionary, or an event's offset with `EVENT_BIT` set, or `UNBOUND`. Tables are immutable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from motet.engine.detect.table_kernels import UNBOUND, VALUES, Members, take_rows
from motet.jit.compiled import Ints


@dataclass(frozen=True, slots=True)
class Occurrences:
    """Row ``i`` has the events ``events[starts[i]:starts[i + 1]]``, in the order of their offsets."""

    columns: Ints  # see `columns.py`; each is contiguous
    starts: Ints
    events: Ints
    members: npt.NDArray[Any] | None = None  # by row; only below a CONSTRUCT over cumulative or iterations

    def __post_init__(self) -> None:
        """Copy arrays that are not contiguous or not writeable: kernels are compiled for one array type."""
        for name in ("columns", "starts", "events"):
            array = getattr(self, name)
            if not array.flags.carray:
                object.__setattr__(self, name, array.copy(order="C"))

    def __len__(self) -> int:
        return self.columns.shape[1]

    @property
    def width(self) -> int:
        """The number of variables."""
        return len(self.columns) - VALUES

    @property
    def values(self) -> Ints:
        """By row and variable."""
        return self.columns[VALUES:].T

    def take(self, rows: npt.NDArray[Any]) -> Occurrences:
        """The given rows, by index or by mask."""
        if rows.dtype == np.bool_:
            if rows.all():
                return self
            rows = np.flatnonzero(rows)
        members = None if self.members is None else self.members[rows]
        columns, starts, events = take_rows(self.columns, self.starts, self.events, rows.astype(np.uint32))
        return Occurrences(columns, starts, events, members)

    def with_column(self, column: int, values: npt.NDArray[Any] | int) -> Occurrences:
        columns = self.columns.copy()
        columns[column] = values
        return replace(self, columns=columns)

    def project(self, variables: Sequence[int]) -> Occurrences:
        """With other variables: the new variable ``i`` is the old ``variables[i]``, or unbound if that is negative."""
        if list(variables) == list(range(self.width)):
            return self
        columns = self.columns[_projected_columns(tuple(variables))]
        for new, old in enumerate(variables):
            if old < 0:
                columns[VALUES + new] = UNBOUND
        return Occurrences(columns, self.starts, self.events, self.members)


@cache
def _projected_columns(variables: tuple[int, ...]) -> Ints:
    return np.array([*range(VALUES), *(VALUES + variable for variable in variables)], np.int64)


@cache
def empty_table(width: int, *, with_members: bool = False) -> Occurrences:
    """
    >>> len(empty_table(2)), empty_table(2).width
    (0, 2)
    """
    members = np.empty(0, object) if with_members else None
    return Occurrences(np.empty((VALUES + width, 0), np.int64), np.zeros(1, np.int64), np.empty(0, np.int64), members)


def concatenate(tables: Iterable[Occurrences]) -> Occurrences:
    """The rows of several tables with the same variables, in one table."""
    tables = list(tables)
    filled = [table for table in tables if table.columns.shape[1]]
    if len(filled) <= 1:
        return filled[0] if filled else tables[0]
    ends = [*accumulate([len(table.events) for table in filled], initial=0)]
    starts = [table.starts[:-1] + end for table, end in zip(filled, ends, strict=False)]
    members = [table.members for table in filled if table.members is not None]
    return Occurrences(
        np.concatenate([table.columns for table in filled], axis=1),
        np.concatenate([*starts, ends[-1:]]),
        np.concatenate([table.events for table in filled]),
        np.concatenate(members) if len(members) == len(filled) else None,
    )


def member_array(sets: Sequence[Members]) -> npt.NDArray[Any]:
    """An array of sets; NumPy's own conversion would look into them."""
    array = np.empty(len(sets), object)
    array[:] = sets
    return array


def all_values(table: Occurrences) -> Ints:
    """All values of a table, those of its members included."""
    values = table.columns[VALUES:].ravel()
    if table.members is None:
        return values
    member_values = (value for members in table.members for member in members for _, value in member)
    return np.append(values, np.fromiter(member_values, np.int64))


def map_values(table: Occurrences, function: Callable[[Ints], Ints]) -> Occurrences:
    """The table with a function applied to its values."""
    columns = table.columns.copy()
    columns[VALUES:] = function(columns[VALUES:])
    if table.members is None:
        return replace(table, columns=columns)
    values = all_values(table)
    mapped = dict(zip(values.tolist(), function(values).tolist(), strict=True))
    member_sets = [
        frozenset(tuple((name, mapped[value]) for name, value in member) for member in members)
        for members in table.members
    ]
    return replace(table, columns=columns, members=member_array(member_sets))
