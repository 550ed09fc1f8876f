"""The frontier along the records of a log, and which events are late (language page, sections 11 and 14).

The writer of a commit computes both, and they are stored with its records; engines only read them. An event is late if
it ends below the frontier before its commit. At the end of time the frontier has passed every instant, so every event
after that is late. The frontier after a record is the one that the
next record stores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from motet.model.batches import micros
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
    after = NO_FRONTIER if frontier is None else frontier
    lateness = settings.lateness
    if newest_end is not None and lateness is not None:
        capped = clock if newest_end > clock and settings.ahead is not None else newest_end
        after = max(after, capped - lateness, START_OF_TIME)
    for instant in ticks:
        after = max(after, instant)
    return None if after == NO_FRONTIER else after


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
