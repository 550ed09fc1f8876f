"""The frontier and late flags along a log, against the reference engine's."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from motet.model.batches import RecordRow, record_batch
from motet.model.records import EVENT, Tick
from motet.model.settings import Settings
from motet.model.timeline import (
    END_FRONTIER,
    NO_FRONTIER,
    FrontierTimeline,
    clamp_frontier,
    late_below,
    next_frontier,
    stamped_time,
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


@given(LOGS, LATENESS)
def test_frontiers_are_those_of_the_reference_engine(log: Log, lateness: int | None) -> None:
    """With one record per commit, frontiers and late flags follow the definition."""
    expected = by_definition(log, lateness)
    settings, frontier = Settings(lateness=lateness and min(lateness, END_OF_TIME), ahead=None), None
    frontiers, late = [], []
    for kind, end in log:
        late.append(kind == EVENT and end < late_below(frontier))
        newest_end = end if kind == EVENT and not late[-1] else None
        frontier = next_frontier(frontier, newest_end, [end] if kind == Tick.kind else [], 0, settings)
        frontiers.append(frontier)
    assert (frontiers, late) == (frontiers_of(expected), late_flags(expected))


def test_the_frontier_is_capped_by_the_clock() -> None:
    """ "min(E, clock) − lateness"; "with `ahead` unlimited it is E − lateness"; otherwise only ticks move it."""
    assert next_frontier(None, 90, (), 50, Settings(lateness=10)) == 40
    assert next_frontier(None, 30, (), 50, Settings(lateness=10)) == 20
    assert next_frontier(None, 90, (), 50, Settings(lateness=10, ahead=None)) == 80
    assert next_frontier(None, 90, (), 50, Settings(lateness=None)) is None
    assert next_frontier(25, 90, (7,), 50, Settings(lateness=None)) == 25
    assert next_frontier(25, None, (70, 60), 50, Settings(lateness=10)) == 70


def test_stamped_events_have_the_clock_or_the_frontier() -> None:
    """ "Stamped with its writer's clock at the commit, or the frontier if that is later"."""
    assert [stamped_time(frontier, 50) for frontier in (None, 40, 60)] == [50, 50, 60]


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
    assert late_below(END_OF_TIME - 1) <= END_OF_TIME < late_below(END_OF_TIME)
    assert clamp_frontier(END_OF_TIME) == END_FRONTIER > END_OF_TIME
