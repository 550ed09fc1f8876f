"""The table kernels against slow and obvious implementations."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from motet.engine.detect.occurrences import Occurrences
from motet.engine.detect.operator import Frontier
from motet.engine.detect.table_kernels import VALUES, gather_columns, is_time_ordered, key_ids, merge_events
from motet.jit.compiled import Ints
from motet.model.timeline import NO_FRONTIER

NUMBERS = st.integers(-3, 3)
LISTS = st.lists(st.lists(st.integers(0, 9), max_size=3).map(sorted), min_size=1, max_size=6)


def _columns(rows: list[list[int]]) -> Ints:
    return np.array(rows, np.int64).reshape(-1, 3).T.copy()


def _table(lists: list[list[int]]) -> Occurrences:
    columns = np.arange((VALUES + 1) * len(lists)).reshape(VALUES + 1, len(lists))
    starts = np.cumsum([0, *map(len, lists)])
    return Occurrences(columns, starts, np.array([event for some in lists for event in some], np.int64))


@given(st.lists(st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS).map(list), max_size=9), min_size=6, max_size=6))
def test_equal_keys_have_equal_ids(tables: list[list[list[int]]]) -> None:
    """Rows have the same id if and only if they agree in the key columns, which may differ between tables."""
    columns = np.array([[0, 2]] * 3 + [[1, 0]] * 3, np.int64)
    numbers, count = key_ids(tuple(map(_columns, tables)), columns)
    keys = [(row[one], row[two]) for table, (one, two) in zip(tables, columns, strict=True) for row in table]
    first = {key: place for place, key in reversed(list(enumerate(keys)))}
    assert [first[key] for key in keys] == [numbers.tolist().index(number) for number in numbers.tolist()]
    assert count == len(first)


def test_there_may_be_many_keys() -> None:
    """More keys than the first hash table holds; without a key column all rows have one key."""
    values = np.random.default_rng(1).permutation(np.repeat(np.arange(20_000), 2)) << 40
    table = np.stack([values, values, values])
    numbers, count = key_ids((table,) * 6, np.zeros((6, 1), np.int64))
    pairs = np.unique(np.stack([np.tile(values, 6), numbers]), axis=1)
    assert (count, pairs.shape[1], len(np.unique(numbers))) == (20_000, 20_000, 20_000)
    assert key_ids((table,) * 6, np.zeros((6, 0), np.int64))[1] == 1


@given(LISTS, LISTS, LISTS, st.data())
def test_rows_are_gathered_from_three_tables(
    a: list[list[int]], b: list[list[int]], c: list[list[int]], data: st.DataObject
) -> None:
    """Rows are numbered consecutively; each column is copied to its target, and other columns stay as they are."""
    tables = [_table(lists).columns for lists in (a, b, c)]
    whole = np.concatenate(tables, axis=1)
    rows = np.array(data.draw(st.lists(st.integers(0, whole.shape[1] - 1))), np.uint32)
    found = np.full((3, len(rows)), -7)
    gather_columns(found, np.array([2, 0]), *tables, rows, np.array([1, 4]))
    assert np.array_equal(found, np.stack([whole[4, rows], np.full(len(rows), -7), whole[1, rows]]))


@given(LISTS, st.data())
def test_pairs_have_the_events_of_both(lists: list[list[int]], data: st.DataObject) -> None:
    """Sorted, with those of both sides."""
    table = _table(lists)
    pairs = st.lists(st.tuples(*[st.integers(0, len(lists) - 1)] * 2), min_size=1, max_size=9)
    left, right = np.array(data.draw(pairs), np.uint32).T.copy()
    starts, events = merge_events(table.starts, table.events, left, right)
    found = [events[begin:end].tolist() for begin, end in pairwise(starts)]
    assert found == [sorted(lists[one] + lists[two]) for one, two in zip(left, right, strict=True)]


@given(LISTS, st.data())
def test_rows_are_taken_with_their_events(lists: list[list[int]], data: st.DataObject) -> None:
    """By index, in any order and more than once, or by mask."""
    table = _table(lists)
    rows = np.array(data.draw(st.lists(st.integers(0, len(lists) - 1))), np.int64)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(lists), max_size=len(lists))))
    for chosen, places in ((rows, rows), (mask, np.flatnonzero(mask))):
        found = table.take(chosen)
        assert np.array_equal(found.columns, table.columns[:, places])
        assert found.events.tolist() == [event for place in places for event in lists[place]]
        assert np.diff(found.starts).tolist() == [len(lists[place]) for place in places]


@given(
    st.lists(st.integers(0, 300), min_size=1, max_size=200), st.lists(st.integers(0, 299), max_size=50), st.booleans()
)
def test_the_first_record_that_passed_an_instant(reached: list[int], asked: list[int], rising: bool) -> None:
    """Whether the instants ascend or not; an instant that no record of the batch passed gets its first offset."""
    frontier = Frontier.from_records(np.arange(len(reached)) + 50, np.array(reached), NO_FRONTIER)
    instants = np.array(sorted(asked) if rising else asked, np.int64)
    expected = [next((place for place, at in enumerate(reached) if at > instant), 0) + 50 for instant in instants]
    assert frontier.offsets_past(instants).tolist() == expected


@given(st.lists(st.tuples(NUMBERS, NUMBERS)))
def test_rows_in_order_of_time(times: list[tuple[int, int]]) -> None:
    """By end, then by start."""
    start, end = np.array([*times, (0, 0)], np.int64)[: len(times)].T.copy()
    assert is_time_ordered(start, end) == (times == sorted(times, key=lambda time: (time[1], time[0])))
