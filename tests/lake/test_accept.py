"""Small batches become the same records as large ones."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from motet.lake.accept import (
    SMALL_BATCH,
    as_small_batch,
    assign_offsets,
    place_small,
    record_batches,
    uncommitted_events,
)
from motet.lake.snapshot import describe_segment

Events = Callable[..., pa.Table]
TIMES = st.one_of(
    st.just((None, None)), st.tuples(st.integers(-50, 50), st.integers(0, 50)).map(lambda pair: (pair[0], sum(pair)))
)


@given(
    st.data(), st.integers(0, 9), st.one_of(st.none(), st.integers(-60, 60)), st.one_of(st.none(), st.integers(0, 9))
)
def test_small_batches_become_the_same_records(
    events: Events, data: st.DataObject, first: int, frontier: int | None, lateness: int | None
) -> None:
    """Records, frontier and manifest entry are those that columns give."""
    times = data.draw(st.lists(TIMES, min_size=1, max_size=5))
    table = events([(f"urn:{n}", start, end) for n, (start, end) in enumerate(times)])
    few = as_small_batch(table.combine_chunks().to_batches()[0], 7)
    assert few is not None
    records, after, described = place_small(few, first, frontier, lateness)
    expected, expected_after = assign_offsets(uncommitted_events(table, 7), first, frontier, lateness)
    assert pa.Table.from_batches(record_batches(records)).equals(expected)
    assert (after, described) == (expected_after, describe_segment("", 0, expected))


def test_other_batches_are_not_small_batches(events: Events) -> None:
    """Repeated ids, times that are no interval, tables and large batches are handled as columns."""
    odd = [
        ["urn:a", "urn:a"],
        [("urn:a", 2, 1)],
        [("urn:a", None, 1)],
        [f"urn:{n}" for n in range(SMALL_BATCH + 1)],
        [],
    ]
    tables = [events(specs) for specs in odd]
    batches = [pa.RecordBatch.from_pylist(table.to_pylist(), table.schema) for table in tables]
    assert [as_small_batch(batch, 0) for batch in batches] == [None] * len(odd)
    assert as_small_batch(events(["urn:a"]), 0) is None
