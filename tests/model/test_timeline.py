"""The frontier and late flags along a log, against the reference engine's."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from motet.model.batches import TIME, RecordRow, record_batch
from motet.model.records import EVENT, Tick
from motet.model.timeline import (
    END_FRONTIER,
    NO_FRONTIER,
    FrontierTimeline,
    assign_frontiers,
    assign_frontiers_small,
    clamp_frontier,
)
from motet.model.times import END_OF_TIME, START_OF_TIME
from motet.reference import EventRecord, Record, TickRecord, WrittenLog, write_log

INSTANTS = st.one_of(
    st.integers(0, 12), st.integers(START_OF_TIME, START_OF_TIME + 5), st.integers(END_OF_TIME - 5, END_OF_TIME)
)
LATENESS = st.sampled_from((None, 0, 1, 4, END_OF_TIME))
LOGS = st.lists(st.tuples(st.sampled_from((EVENT, EVENT, EVENT, Tick.kind)), INSTANTS), max_size=12)

Log = list[tuple[str, int]]


def by_definition(log: Log, lateness: int | None) -> WrittenLog:
    records: list[Record] = []
    for offset, (kind, end) in enumerate(log):
        event = EventRecord(offset, f"urn:e:{offset}", end, end, frozenset())
        records.append(event if kind == EVENT else TickRecord(offset, end))
    return write_log(records, lateness)


def frontiers_of(written: WrittenLog) -> list[int | None]:
    """After each record."""
    return [*(record.frontier for record in written.records[1:]), written.frontier][: len(written.records)]


def late_flags(written: WrittenLog) -> list[bool]:
    return [isinstance(record, EventRecord) and bool(record.late) for record in written.records]


@given(LOGS, LATENESS, st.integers(0, 12))
def test_frontiers_are_those_of_the_reference_engine(log: Log, lateness: int | None, cut: int) -> None:
    """Frontiers and late flags do not depend on where commits cut the log, and follow the definition."""
    expected = by_definition(log, lateness)
    frontiers = frontiers_of(expected)
    results: list[tuple[int | None, bool]] = []
    frontier: int | None = None
    for part in (log[:cut], log[cut:]):
        kinds = pa.chunked_array([pa.array([kind for kind, _ in part], pa.string())])
        ends = pa.chunked_array([pa.array([end for _, end in part], pa.int64()).cast(TIME)])
        assigned = assign_frontiers(kinds, ends, frontier, lateness)
        before = [None if instant == NO_FRONTIER else instant for instant in assigned.frontiers.tolist()]
        results += zip(before, assigned.is_late.tolist(), strict=True)
        frontier = assigned.frontier
    assert [before for before, _ in results] == [None, *frontiers][: len(log)]
    assert [late for _, late in results] == late_flags(expected)
    assert frontier == [None, *frontiers][-1]


@given(st.lists(INSTANTS, max_size=8), st.none() | INSTANTS, LATENESS)
def test_small_batches_get_the_same_frontiers(ends: list[int], frontier: int | None, lateness: int | None) -> None:
    """Rows get the same frontiers and late flags as columns."""
    kinds = pa.chunked_array([pa.array([EVENT] * len(ends), pa.string())])
    columns = assign_frontiers(kinds, pa.chunked_array([pa.array(ends, pa.int64()).cast(TIME)]), frontier, lateness)
    before = [None if instant == NO_FRONTIER else instant for instant in columns.frontiers.tolist()]
    assert assign_frontiers_small(ends, frontier, lateness) == (before, columns.is_late.tolist(), columns.frontier)


@given(LOGS, LATENESS, st.integers(0, 12))
def test_a_timeline_reads_the_assigned_frontiers(log: Log, lateness: int | None, cut: int) -> None:
    """“the frontier after a record is what the next one stores”, clamped at the end of time."""
    expected = by_definition(log, lateness)
    frontiers = [NO_FRONTIER if at is None else clamp_frontier(at) for at in frontiers_of(expected)]
    rows = [
        RecordRow(offset, kind, None, None, end, before, late, None, ())
        for offset, ((kind, end), before, late) in enumerate(
            zip(log, [None, *frontiers_of(expected)][: len(log)], late_flags(expected), strict=True)
        )
    ]
    middle = rows[cut].frontier if cut < len(rows) else expected.frontier
    for part, after in ((rows[:cut], middle), (rows[cut:], expected.frontier)):
        timeline = FrontierTimeline.from_records(record_batch(part), after)
        assert timeline.offsets.tolist() == [row.offset for row in part]
        assert timeline.frontiers.tolist() == [frontiers[row.offset] for row in part]
        assert timeline.is_visible.tolist() == [row.kind == EVENT and not row.late for row in part]
        assert not timeline.is_boundary.any()


def test_the_end_of_time_has_passed_every_instant() -> None:
    """An event that ends at the end of time is late after a tick there, and on time before it."""
    assert assign_frontiers_small([END_OF_TIME], END_OF_TIME - 1, None)[1] == [False]
    assert assign_frontiers_small([END_OF_TIME], END_OF_TIME, None)[1] == [True]
    assert clamp_frontier(END_OF_TIME) == END_FRONTIER > END_OF_TIME
