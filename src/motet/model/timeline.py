"""The frontier along the records of a log, and which events are late (language page, sections 11 and 14).

The writer of a commit computes both, and they are stored with its records; engines only read them. An event is late if
it ends below the frontier before its commit. At the end of time the frontier has passed every instant, so every event
after that is late.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from motet.model.batches import RecordRow
from motet.model.records import EVENT, Tick
from motet.model.settings import Settings
from motet.model.times import END_OF_TIME, START_OF_TIME

InstantColumn = npt.NDArray[np.int64]
FlagColumn = npt.NDArray[np.bool_]

NO_FRONTIER = int(np.iinfo(np.int64).min) // 4  # before any record has moved it; durations can be added to it
END_FRONTIER = int(np.iinfo(np.int64).max) // 4  # the frontier at the end of time: it has passed every instant

TIMELINE_COLUMNS = ("offset", "kind", "end", "frontier", "late")


def clamp_frontier(frontier: int) -> int:
    """The frontier as instants are compared with it: at the end of time it is greater than all of them."""
    return END_FRONTIER if frontier >= END_OF_TIME else frontier


# Writing: the frontier after a commit, and the instant below which its events are late.


def late_below(frontier: int | None) -> int:
    """Events of a commit after this frontier are late if they end below this instant.

    >>> late_below(None) == NO_FRONTIER, late_below(7), late_below(END_OF_TIME) == END_FRONTIER
    (True, 7, True)
    """
    return NO_FRONTIER if frontier is None else clamp_frontier(frontier)


def stamped_time(frontier: int | None, clock: int) -> int:
    """The time of an event that states none: its writer's clock at the commit, or the frontier if that is later."""
    return clock if frontier is None else max(clock, frontier)


def next_frontier(
    frontier: int | None, newest_end: int | None, ticks: Iterable[int], clock: int, settings: Settings
) -> int | None:
    """The frontier after a commit, from the one before it.

    ``newest_end`` is the greatest end of its events that are neither late nor stamped; ``clock`` is its writer's.

    >>> next_frontier(None, newest_end=90, ticks=[], clock=50, settings=Settings(lateness=10))
    40
    """
    instants = [*ticks] if frontier is None else [frontier, *ticks]
    if newest_end is not None and settings.lateness is not None:
        capped = newest_end if settings.ahead is None else min(newest_end, clock)
        instants.append(max(capped - settings.lateness, START_OF_TIME))
    return max(instants, default=None)


# Reading: the frontier after committed records.


@dataclass(frozen=True, slots=True)
class FrontierTimeline:
    """The frontier after each record of an offset range, also after records that only other buckets read."""

    offsets: InstantColumn
    frontiers: InstantColumn  # after each record, clamped; not yet monotonic: earlier records may have moved it farther
    is_visible: FlagColumn  # events that are not late
    is_boundary: FlagColumn  # control records other than ticks: they change more than time

    @classmethod
    def from_records(cls, records: pa.RecordBatch, lateness: int | None) -> FrontierTimeline:
        """The timeline of committed records; only the columns TIMELINE_COLUMNS are read."""
        is_event = _is_kind(records, EVENT)
        is_tick = ~is_event if is_event.all() else _is_kind(records, Tick.kind)
        late = records.column("late")
        frontiers, ends = _instants(records.column("frontier")), _instants(records.column("end"))
        return cls(
            _instants(records.column("offset")),
            _clamped(np.maximum(frontiers, _moves(is_event, is_tick, ends, lateness))),
            is_event & ~np.asarray(late) if late.true_count else is_event,
            ~(is_event | is_tick),
        )

    def between(self, first: int, stop: int) -> FrontierTimeline:
        """The part of the offsets ``[first, stop)``."""
        begin, end = np.searchsorted(self.offsets, [first, stop])
        rows = slice(begin, end)
        return FrontierTimeline(self.offsets[rows], self.frontiers[rows], self.is_visible[rows], self.is_boundary[rows])


def frontier_after(events: Iterable[RecordRow], lateness: int | None) -> int:
    """The frontier after a few committed events, clamped; NO_FRONTIER if nothing has moved it."""
    frontier = NO_FRONTIER
    for event in events:
        if event.frontier is not None:
            frontier = max(frontier, event.frontier)
        if lateness is not None and event.end is not None:
            frontier = max(frontier, event.end - lateness, START_OF_TIME)
    return clamp_frontier(frontier)


def _moves(is_event: FlagColumn, is_tick: FlagColumn, ends: InstantColumn, lateness: int | None) -> InstantColumn:
    """The instant to which each record moves the frontier at least; NO_FRONTIER where it does not move it.

    An event moves it to no instant before the first that a log can hold.
    """
    if lateness is None:
        return np.where(is_tick, ends, NO_FRONTIER)
    by_events = np.maximum(ends - lateness, START_OF_TIME)
    return by_events if is_event.all() else np.where(is_event, by_events, np.where(is_tick, ends, NO_FRONTIER))


def _clamped(frontiers: InstantColumn) -> InstantColumn:
    return np.where(frontiers >= END_OF_TIME, END_FRONTIER, frontiers)


def _is_kind(records: pa.RecordBatch, kind: str) -> FlagColumn:
    if len(records) == 1:
        return np.array([records.column("kind")[0].as_py() == kind])
    return np.asarray(pc.equal(records.column("kind"), kind))


def _instants(column: pa.Array) -> InstantColumn:
    """Integers or times as integers; NO_FRONTIER where the column is null."""
    if not len(column):
        return np.empty(0, np.int64)
    values = np.frombuffer(column.buffers()[1], np.int64, len(column), 8 * column.offset)
    return np.where(np.asarray(column.is_valid()), values, NO_FRONTIER) if column.null_count else values
