"""A batch of records as the kernel reads it: cut where control records stand, with the frontier along each part.

One event at a time must be cheap: what can be seen at a glance is not computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.detect.columns import Ints
from motet.engine.detect.frontier import NO_FRONTIER

Flags = npt.NDArray[np.bool_]

COURSE = ("offset", "kind", "end", "frontier", "late")


@dataclass(frozen=True, slots=True)
class Course:
    """The records of a range of the log as far as they move time: all of them, also those that only others read."""

    offsets: Ints
    reached: Ints  # where the frontier stands after each record
    is_seen: Flags  # the events that are not late
    is_control: Flags

    @classmethod
    def of(cls, records: pa.RecordBatch, lateness: int | None) -> Course:
        """``lateness`` is the log's. Of the records only the columns of COURSE are read."""
        is_event = _is_kind(records, "event")
        is_tick = ~is_event if is_event.all() else _is_kind(records, "tick")
        late = records.column("late")
        return cls(
            _numbers(records.column("offset")),
            _reached(records, is_event, is_tick, lateness),
            is_event & ~np.asarray(late) if late.true_count else is_event,
            ~(is_event | is_tick),
        )

    def between(self, first: int, stop: int) -> Course:
        """That of the offsets ``[first, stop)``."""
        begin, end = np.searchsorted(self.offsets, [first, stop])
        cut = slice(begin, end)
        return Course(self.offsets[cut], self.reached[cut], self.is_seen[cut], self.is_control[cut])


@dataclass(frozen=True, slots=True)
class Extract:
    """Of the records of a range those that are of concern to somebody, all control records among them."""

    records: pa.RecordBatch
    course: Course


@dataclass(frozen=True, slots=True)
class Part:
    """Records of which at most the first is a control record."""

    control: dict[str, object] | None
    events: pa.RecordBatch  # those that are not late
    offsets: Ints
    reached: Ints  # where the frontier stands after each record
    is_subscription: bool  # and nothing else
    has_events: bool  # the log has, if not these records


def parts(records: pa.RecordBatch, lateness: int | None, course: Course | None = None) -> Iterator[Part]:
    """The records in order; with a ``course``, they are those of its range that matter here.

    >>> from motet.model.tables import tick_record
    >>> [(part.control, part.reached.tolist()) for part in parts(tick_record(7, offset=0), None)]
    [(None, [7])]
    """
    if not len(records) and course is None:
        return
    own = Course.of(records, lateness)
    whole = course or own
    controls = np.flatnonzero(own.is_control)
    begins = controls if course is None else np.searchsorted(whole.offsets, own.offsets[controls])
    cuts = set(zip(controls.tolist(), begins.tolist(), strict=True))
    for (row, begin), (row_end, end) in pairwise(sorted({(0, 0), *cuts, (len(records), len(whole.offsets))})):
        rows = records if row_end - row == len(records) else records.slice(row, row_end - row)
        control = rows.slice(0, 1).to_pylist()[0] if (row, begin) in cuts else None
        seen = own.is_seen[row:row_end]
        yield Part(
            control,
            rows if seen.all() else rows.filter(pa.array(seen)),
            whole.offsets[begin:end],
            whole.reached[begin:end],
            control is not None and control["kind"] == "subscribe" and end - begin == 1,
            bool(whole.is_seen[begin:end].any()),
        )


def _is_kind(records: pa.RecordBatch, kind: str) -> Flags:
    if len(records) == 1:
        return np.array([records.column("kind")[0].as_py() == kind])
    return np.asarray(pc.equal(records.column("kind"), kind))


def _reached(records: pa.RecordBatch, is_event: Flags, is_tick: Flags, lateness: int | None) -> Ints:
    frontier, end = _numbers(records.column("frontier")), _numbers(records.column("end"))
    if lateness is not None and is_event.all():
        return np.maximum(frontier, end - lateness)
    moved = np.where(is_tick, end, NO_FRONTIER)
    if lateness is not None:
        moved = np.where(is_event, end - lateness, moved)
    return np.maximum(frontier, moved)


def _numbers(column: pa.Array) -> Ints:
    """Numbers or times; before everything where there is none."""
    if not len(column):
        return np.empty(0, np.int64)
    found = np.frombuffer(column.buffers()[1], np.int64, len(column), 8 * column.offset)
    return np.where(np.asarray(column.is_valid()), found, NO_FRONTIER) if column.null_count else found
