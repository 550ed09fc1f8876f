"""The frontier along the records of a log, and which events are late (language page, sections 11 and 12).

Writers compute both, for columns and for a few rows. The frontier before a record is the greatest of the instants of
earlier ticks and of the ends of earlier events less the log's lateness. An event that ends below it is late. At the end
of time the frontier has passed every instant, so every event after that is late.

Engines only read it: the frontier after a record is the one that the next record stores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from motet.model.batches import micros
from motet.model.records import EVENT, Tick
from motet.model.times import END_OF_TIME, START_OF_TIME

InstantColumn = npt.NDArray[np.int64]
FlagColumn = npt.NDArray[np.bool_]

NO_FRONTIER = int(np.iinfo(np.int64).min) // 4  # before any record has moved it; durations can be added to it
END_FRONTIER = int(np.iinfo(np.int64).max) // 4  # the frontier at the end of time: it has passed every instant

TIMELINE_COLUMNS = ("offset", "kind", "end", "frontier", "late")


def clamp_frontier(frontier: int) -> int:
    """The frontier as instants are compared with it: at the end of time it is greater than all of them."""
    return END_FRONTIER if frontier >= END_OF_TIME else frontier


# Writing: the frontiers and late flags of the records of a commit.


class AssignedFrontiers(NamedTuple):
    """The frontiers and late flags that a commit writes into its records, and the frontier after them."""

    frontiers: InstantColumn  # before each record; NO_FRONTIER: none yet
    is_late: FlagColumn
    frontier: int | None  # after the last record


def assign_frontiers(
    kinds: pa.ChunkedArray, ends: pa.ChunkedArray, frontier: int | None, lateness: int | None
) -> AssignedFrontiers:
    """The frontiers and late flags of records that follow a frontier, from their kinds and ends.

    >>> kinds, ends = pa.chunked_array([["tick", "event"]]), pa.chunked_array([[5, 4]])
    >>> [field.tolist() for field in assign_frontiers(kinds, ends, None, None)[:2]]
    [[-2305843009213693952, 5], [False, True]]
    """
    is_event, is_tick = (pc.equal(kinds, kind).to_numpy() for kind in (EVENT, Tick.kind))
    instants = pc.fill_null(ends.cast(pa.int64()), NO_FRONTIER).to_numpy()
    moves = _moves(is_event, is_tick, instants, lateness)
    frontiers = np.maximum.accumulate(np.concatenate([[NO_FRONTIER if frontier is None else frontier], moves]))
    before, after = frontiers[:-1], int(frontiers[-1])
    return AssignedFrontiers(before, is_event & (instants < _clamped(before)), None if after == NO_FRONTIER else after)


def assign_frontiers_small(
    ends: Iterable[int], frontier: int | None, lateness: int | None
) -> tuple[list[int | None], list[bool], int | None]:
    """As `assign_frontiers` for a few events, in Python values: frontiers, late flags, and the frontier after them.

    >>> assign_frontiers_small([9, 3], frontier=None, lateness=2)
    ([None, 7], [False, True], 7)
    """
    frontiers: list[int | None] = []
    late: list[bool] = []
    for end in ends:
        frontiers.append(frontier)
        late.append(frontier is not None and end < clamp_frontier(frontier))
        if lateness is not None:
            moved_to = max(end - lateness, START_OF_TIME)
            frontier = moved_to if frontier is None else max(frontier, moved_to)
    return frontiers, late, frontier


# Reading: the frontier after committed records.


@dataclass(frozen=True, slots=True)
class FrontierTimeline:
    """The frontier after each record of an offset range, also after records that only other buckets read."""

    offsets: InstantColumn
    frontiers: InstantColumn  # after each record, clamped
    ends: InstantColumn  # of events
    is_visible: FlagColumn  # events that are not late
    is_boundary: FlagColumn  # control records other than ticks: they change more than time

    @classmethod
    def from_records(cls, records: pa.RecordBatch, frontier: int | None) -> FrontierTimeline:
        """The timeline of committed records, given the frontier after the last; only TIMELINE_COLUMNS are read.

        >>> from motet.model.batches import RecordRow, record_batch
        >>> rows = [RecordRow(offset, "event", f"urn:{offset}", 9, 9, 4, False, None, ()) for offset in (7, 8)]
        >>> FrontierTimeline.from_records(record_batch(rows), 6).frontiers.tolist()
        [4, 6]
        """
        is_event = _is_kind(records, EVENT)
        is_tick = ~is_event if is_event.all() else _is_kind(records, Tick.kind)
        late = records.column("late")
        stored, last = _instants(records.column("frontier")), NO_FRONTIER if frontier is None else frontier
        return cls(
            _instants(records.column("offset")),
            _clamped(np.append(stored[1:], np.int64(last)) if len(stored) else stored),
            _instants(records.column("end")),
            is_event & ~np.asarray(late) if late.true_count else is_event,
            ~(is_event | is_tick),
        )

    def between(self, first: int, stop: int) -> FrontierTimeline:
        """The part of the offsets ``[first, stop)``."""
        begin, end = np.searchsorted(self.offsets, [first, stop])
        rows = slice(begin, end)
        instants = (self.offsets[rows], self.frontiers[rows], self.ends[rows])
        return FrontierTimeline(*instants, self.is_visible[rows], self.is_boundary[rows])


#: What an engine is given with records: the frontier after the last of them (None: none yet), or, when the records are
#: those of an offset range that concern one bucket, the timeline of the range.
FrontierAfter: TypeAlias = int | FrontierTimeline | None
LogRecords: TypeAlias = tuple[pa.RecordBatch, FrontierAfter]


def with_frontiers(
    batches: Iterable[pa.RecordBatch], last: Callable[[], int | None]
) -> Iterator[tuple[pa.RecordBatch, int | None]]:
    """Consecutive batches of records, each with the frontier after it; ``last`` returns the one after the last batch.

    >>> from motet.model.batches import RecordRow, record_batch
    >>> rows = [RecordRow(offset, "event", f"urn:{offset}", 9, 9, offset, False, None, ()) for offset in (3, 4)]
    >>> [after for _, after in with_frontiers([record_batch([row]) for row in rows], lambda: 5)]
    [4, 5]
    """
    previous: pa.RecordBatch | None = None
    for batch in batches:
        if not len(batch):
            continue
        if previous is not None:
            yield previous, first_frontier(batch)
        previous = batch
    if previous is not None:
        yield previous, last()


def first_frontier(records: pa.RecordBatch) -> int | None:
    """The frontier that the first of some records stores."""
    return micros(records.column("frontier").slice(0, 1))[0]


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
