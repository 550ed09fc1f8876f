"""The records of recent commits."""

from __future__ import annotations

import tempfile

from hypothesis import given, settings
from hypothesis import strategies as st

from motet.embedded import delivery_loop
from motet.embedded.delivery_loop import RecentRecords
from motet.lake import AppendRequest, Lake
from motet.model.batches import EventRow, record_rows
from motet.model.errors import DecodeError


def _request(first: int, count: int) -> AppendRequest:
    rows = [EventRow(f"urn:e:{number}", number, number, ()) for number in range(first, first + count)]
    return AppendRequest(rows)


@settings(max_examples=40)
@given(st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=3), min_size=1, max_size=4), st.data())
def test_records_in_memory_are_those_of_the_log(commits: list[list[int]], data: st.DataObject) -> None:
    """Taken in steps of any length they are the stored ones, each batch with the frontier after it."""
    recent, number = RecentRecords(), 0
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake.open(folder, durable=False, lateness=3, ahead=None)
        for sizes in commits:
            requests = []
            for size in sizes:
                requests.append(_request(number, size))
                number += size
            result = lake.append_group(requests)
            assert not any(isinstance(receipt, DecodeError) for receipt in result.receipts)
            assert result.placed is not None
            recent.add(result.placed)
        snapshot, first = lake.snapshot(), 1  # after the settings
        while first < snapshot.next_offset:
            stop = data.draw(st.integers(first + 1, snapshot.next_offset))
            taken = recent.take(first, stop)
            assert taken is not None
            rows = [row for records, _ in taken for row in records.rows]
            assert rows == [row for batch in snapshot.records(first, stop) for row in record_rows(batch)]
            end = first
            for records, frontier in taken:
                end += len(records)
                assert frontier == snapshot.frontier_at(end)
            first = stop
    assert recent.take(1, 2) is None  # dropped


def test_only_the_latest_records_stay_in_memory() -> None:
    """Above their size the oldest commits are dropped: a range that begins with one of them is not in memory."""
    recent = RecentRecords()
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake.open(folder, durable=False)
        placed = [lake.append_group([_request(number, 1)]).placed for number in range(3)]
    for commit in placed:
        assert commit is not None
        recent.add(commit._replace(file=commit.file._replace(size=delivery_loop.RECENT_BYTES // 2)))
    assert recent.take(1, 2) is None
    assert [[row.offset for row in records.rows] for records, _ in recent.take(2, 4) or ()] == [[2], [3]]
