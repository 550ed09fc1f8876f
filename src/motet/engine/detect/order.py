"""Completion order: by end, start and sorted event IRIs, then left before right, then bindings (language page, 4, 7).

Only rows with equal times are compared by their strings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.occurrences import Occurrences
from motet.engine.detect.table_kernels import END, START, UNBOUND, is_time_ordered
from motet.jit.compiled import Ints

Sides = npt.NDArray[np.bool_]  # true for the right side

_UNBOUND_LAST, _UNBOUND_BEFORE_OTHERS = -1, np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class CompletionOrder:
    """The rows of a table in completion order."""

    rows: Ints
    same_events: npt.NDArray[np.bool_]  # by index in `rows`: has the times and the events, at least one, of the last


def completion_order(table: Occurrences, dictionary: Dictionary) -> Ints:
    """The rows of a table of one side in completion order."""
    start, end = table.columns[START], table.columns[END]

    def tied_rows(rows: Ints) -> tuple[Occurrences, Sides]:
        return table.take(rows), np.zeros(len(rows), np.bool_)

    return break_ties(_time_order(start, end), start, end, tied_rows, dictionary).rows


def break_ties(
    rows: Ints,
    start: Ints,
    end: Ints,
    take_tied: Callable[[Ints], tuple[Occurrences, Sides]],
    dictionary: Dictionary,
    variables: Sequence[Sequence[int]] = ((), ()),
    tied: Sides | None = None,
) -> CompletionOrder:
    """Sort rows that are ordered by time among those with equal times, or among the ``tied`` ones.

    ``take_tied`` returns rows with their sides; ``variables`` are those compared first, by side.
    """
    starts, ends = start[rows], end[rows]
    same_time = (starts[1:] == starts[:-1]) & (ends[1:] == ends[:-1])
    same_events = np.zeros(len(rows), np.bool_)
    if tied is None:
        tied = np.append(False, same_time) | np.append(same_time, False)
    if not tied.any():
        return CompletionOrder(rows, same_events)
    table, is_right = take_tied(rows[tied])
    group = np.cumsum(np.append(True, ~same_time))[tied]
    order = np.lexsort([*reversed(list(_tie_keys(table, dictionary, is_right, variables).T)), group])
    ordered = rows.copy()
    ordered[tied] = rows[tied][order]
    same_events[np.flatnonzero(tied)] = _same_events(table.take(order), group)
    return CompletionOrder(ordered, same_events)


def _time_order(start: Ints, end: Ints) -> Ints:
    """The rows by end and start; most streams are ordered already."""
    return np.arange(len(end)) if is_time_ordered(start, end) else np.lexsort([start, end])


def _tie_keys(table: Occurrences, dictionary: Dictionary, is_right: Sides, variables: Sequence[Sequence[int]]) -> Ints:
    """By row: the ranks of its sorted event IRIs, its side, the ranks of its values."""
    left, right = (_value_ranks(table, dictionary, first) for first in variables)
    values = np.where(is_right[:, None], right, left)
    return np.concatenate([_event_ranks(table, dictionary), is_right[:, None].astype(np.int64), values], axis=1)


def _event_ranks(table: Occurrences, dictionary: Dictionary) -> Ints:
    """By row the ranks of its event IRIs; -1 behind them, so that a prefix of a longer list is less."""
    distinct, indexes = np.unique(table.events, return_inverse=True)
    rank = string_ranks(dictionary.events.iris(distinct))[indexes]
    sizes = np.diff(table.starts)
    max_size = int(sizes.max(initial=0))
    ranks = np.full((len(table), max_size), np.iinfo(np.int64).max, np.int64)
    row = np.repeat(np.arange(len(table)), sizes)
    ranks[row, np.arange(len(rank)) - np.repeat(table.starts[:-1], sizes)] = rank
    ranks.sort(axis=1)
    ranks[np.arange(max_size)[None, :] >= sizes[:, None]] = -1
    return ranks


def _value_ranks(table: Occurrences, dictionary: Dictionary, first: Sequence[int]) -> Ints:
    """By row the ranks of all its values, the ``first`` variables first.

    Lists of (variable, value) pairs are compared, which lack the unbound variables: an unbound one ranks above every
    value if a bound one follows, and below otherwise.
    """
    columns = [*first, *(variable for variable in range(table.width) if variable not in first)]
    values = table.values[:, columns]
    is_bound = values != UNBOUND
    distinct, indexes = np.unique(values[is_bound], return_inverse=True)
    ranks = np.empty(values.shape, np.int64)
    ranks[is_bound] = string_ranks(dictionary.strings(distinct))[indexes]
    bound_follows = np.zeros(len(table), np.bool_)
    for column in reversed(range(len(columns))):
        unbound_rank = np.where(bound_follows, _UNBOUND_BEFORE_OTHERS, _UNBOUND_LAST)
        ranks[:, column] = np.where(is_bound[:, column], ranks[:, column], unbound_rank)
        bound_follows |= is_bound[:, column]
    return ranks


def string_ranks(strings: pa.Array) -> Ints:
    """The rank of each string by code points; equal strings have equal ranks.

    >>> string_ranks(pa.array(["b", "a", "b"])).tolist()
    [1, 0, 1]
    """
    encoded = strings.dictionary_encode()
    order = np.asarray(pc.sort_indices(encoded.dictionary))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank[np.asarray(encoded.indices)]


def _same_events(table: Occurrences, group: Ints) -> npt.NDArray[np.bool_]:
    """Which rows have the group and the events, at least one, of the row before."""
    sizes = np.diff(table.starts)
    same = np.zeros(len(table), np.bool_)
    same[1:] = (group[1:] == group[:-1]) & (sizes[1:] == sizes[:-1]) & (sizes[1:] > 0)
    for row in np.flatnonzero(same):
        previous, begin, end = table.starts[row - 1], table.starts[row], table.starts[row + 1]
        same[row] = np.array_equal(table.events[previous:begin], table.events[begin:end])
    return same
