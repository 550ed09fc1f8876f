"""Small batches become the same records as large ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from motet.lake.accept import SMALL_BATCH, AppendRequest, commit_order, place, place_small, small_rows
from motet.lake.snapshot import Snapshot
from motet.lake.store import Store
from motet.model.settings import Settings

Events = Callable[..., pa.Table]
TIMES = st.one_of(
    st.just((None, None)), st.tuples(st.integers(-50, 50), st.integers(0, 50)).map(lambda pair: (pair[0], sum(pair)))
)
DURATION = st.one_of(st.none(), st.integers(0, 9))


@given(
    st.lists(TIMES, min_size=1, max_size=5),
    st.one_of(st.none(), st.integers(-60, 60)),
    st.integers(-60, 60),
    DURATION,
    DURATION,
)
def test_small_batches_become_the_same_records(
    events: Events,
    times: list[tuple[int | None, int | None]],
    frontier: int | None,
    clock: int,
    lateness: int | None,
    ahead: int | None,
) -> None:
    """Records, frontier, delay and manifest entry are those that columns give."""
    table = events([(f"urn:{n}", start, end) for n, (start, end) in enumerate(times)])
    settings = Settings(lateness=lateness, ahead=ahead)
    newest = Snapshot(Store(Path()), next_offset=7, frontier=frontier, settings=settings)
    few, many = AppendRequest(table.combine_chunks().to_batches()[0]), AppendRequest(table)
    assert few.rows is not None
    assert many.rows is None
    assert few.ends.tolist() == many.ends.tolist()
    order = commit_order(few.ends)
    records, *rest = place_small(few, order, newest, clock)
    expected, *expected_rest = place(many.uncommitted.take(pa.array(order)), newest, clock)
    tables = [pa.Table.from_batches([batch.columns for batch in each]) for each in (records, expected)]
    assert tables[0].equals(tables[1])
    assert rest == expected_rest


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
    assert [small_rows(batch) for batch in batches] == [None] * len(odd)
    assert small_rows(events(["urn:a"])) is None


def test_events_are_committed_in_the_order_of_their_ends(events: Events) -> None:
    """ "Committed in the order of its events' ends, stamped ones last", equal ends in input order."""
    table = events([("urn:a", 1, 9), ("urn:b", None, None), ("urn:c", 0, 3), ("urn:d", 2, 9), ("urn:e", None, None)])
    request = AppendRequest(table)
    assert list(commit_order(request.ends)) == [2, 0, 3, 1, 4]
    assert list(commit_order(request.ends, {0, 4})) == [2, 3, 1]
