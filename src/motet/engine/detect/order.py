"""Completion order: by end, start and sorted event ids, then left before right, then bindings (language page, 4 and 7).

Strings are compared only between occurrences with equal times: those get ranks, the others never need them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.detect.columns import END, START, UNBOUND, Ints
from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.occurrences import Occurrences
from motet.engine.detect.table_kernels import is_time_ordered

Sides = npt.NDArray[np.bool_]  # true for the right one

_NOTHING_FOLLOWS, _SOMETHING_FOLLOWS = -1, np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class CompletionOrder:
    """``places`` are the rows in completion order; ``together``: which have times and events of the one before."""

    rows: Ints
    same_events: npt.NDArray[np.bool_]  # by place; never for occurrences without events


def completion_order(table: Occurrences, names: Dictionary) -> Ints:
    """The rows of a table of one side in completion order."""
    start, end = table.columns[START], table.columns[END]
    places = _by_time(start, end)

    def tied_rows(rows: Ints) -> tuple[Occurrences, Sides]:
        return table.take(rows), np.zeros(len(rows), np.bool_)

    return break_ties(places, start, end, tied_rows, names).rows


def break_ties(
    places: Ints,
    start: Ints,
    end: Ints,
    rows_of: Callable[[Ints], tuple[Occurrences, Sides]],
    names: Dictionary,
    variables: Sequence[Sequence[int]] = ((), ()),
    tied: Sides | None = None,
) -> CompletionOrder:
    """The order of rows that are in order of time, once those with equal times are too, or some of them.

    ``rows_of`` gives rows with their sides; ``variables`` are those whose values decide, for either side.
    """
    started, ended = start[places], end[places]
    again = (started[1:] == started[:-1]) & (ended[1:] == ended[:-1])
    together = np.zeros(len(places), np.bool_)
    if tied is None:
        tied = np.append(False, again) | np.append(again, False)
    if not tied.any():
        return CompletionOrder(places, together)
    table, is_right = rows_of(places[tied])
    group = np.cumsum(np.append(True, ~again))[tied]
    order = np.lexsort([*reversed(list(_tie_keys(table, names, is_right, variables).T)), group])
    found = places.copy()
    found[tied] = places[tied][order]
    together[np.flatnonzero(tied)] = _same_events(table.take(order), group)
    return CompletionOrder(found, together)


def _by_time(start: Ints, end: Ints) -> Ints:
    """Streams are mostly in order already."""
    return np.arange(len(end)) if is_time_ordered(start, end) else np.lexsort([start, end])


def _tie_keys(table: Occurrences, names: Dictionary, is_right: Sides, variables: Sequence[Sequence[int]]) -> Ints:
    """By row: the ranks of its sorted event ids, its side, the ranks of its values."""
    left, right = (_value_ranks(table, names, order) for order in variables)
    values = np.where(is_right[:, None], right, left)
    return np.concatenate([_event_ranks(table, names), is_right[:, None].astype(np.int64), values], axis=1)


def _event_ranks(table: Occurrences, names: Dictionary) -> Ints:
    """A shorter list that begins another one comes first, hence the padding with -1."""
    distinct, places = np.unique(table.events, return_inverse=True)
    rank = string_ranks(names.events.iris(distinct))[places]
    sizes = np.diff(table.starts)
    most = int(sizes.max(initial=0))
    matrix = np.full((len(table), most), np.iinfo(np.int64).max, np.int64)
    row = np.repeat(np.arange(len(table)), sizes)
    matrix[row, np.arange(len(rank)) - np.repeat(table.starts[:-1], sizes)] = rank
    matrix.sort(axis=1)
    matrix[np.arange(most)[None, :] >= sizes[:, None]] = -1
    return matrix


def _value_ranks(table: Occurrences, names: Dictionary, first: Sequence[int]) -> Ints:
    """All variables, those that decide first. An unbound one is left out of the pairs that are compared."""
    columns = [*first, *(other for other in range(table.width) if other not in first)]
    values = table.values[:, columns]
    bound = values != UNBOUND
    distinct, places = np.unique(values[bound], return_inverse=True)
    found = np.empty(values.shape, np.int64)
    found[bound] = string_ranks(names.strings(distinct))[places]
    follows = np.zeros(len(table), np.bool_)
    for column in reversed(range(len(columns))):
        missing = np.where(follows, _SOMETHING_FOLLOWS, _NOTHING_FOLLOWS)
        found[:, column] = np.where(bound[:, column], found[:, column], missing)
        follows |= bound[:, column]
    return found


def string_ranks(strings: pa.Array) -> Ints:
    """Equal strings have equal ranks, by code point.

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
        first, begin, end = table.starts[row - 1], table.starts[row], table.starts[row + 1]
        same[row] = np.array_equal(table.events[first:begin], table.events[begin:end])
    return same
