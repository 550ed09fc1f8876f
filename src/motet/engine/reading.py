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

from motet.engine.detect.frontier import NOWHERE
from motet.engine.detect.occurrences import Ints

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Part:
    """Records of which at most the first is a control record."""

    control: dict[str, object] | None
    events: pa.RecordBatch  # those that are not late
    offsets: Ints
    reached: Ints  # where the frontier stands after each record
    is_subscription: bool  # and nothing else


def parts(records: pa.RecordBatch, lateness: int | None) -> Iterator[Part]:
    """The records in order; ``lateness`` is the log's.

    >>> from motet.model.tables import tick_record
    >>> [(part.control, part.reached.tolist()) for part in parts(tick_record(7, offset=0), None)]
    [(None, [7])]
    """
    if not len(records):
        return
    is_event, is_tick = _is_kind(records, "event"), _is_kind(records, "tick")
    offsets = _numbers(records.column("offset"))
    reached = _reached(records, is_event, is_tick, lateness)
    seen = is_event & ~np.asarray(records.column("late")) if records.column("late").true_count else is_event
    controls = np.flatnonzero(~(is_event | is_tick)).tolist()
    for begin, end in pairwise(sorted({0, *controls, len(records)})):
        whole = end - begin == len(records)
        part = records if whole else records.slice(begin, end - begin)
        control = part.slice(0, 1).to_pylist()[0] if begin in controls else None
        visible = seen[begin:end]
        yield Part(
            control,
            part if visible.all() else part.filter(pa.array(visible)),
            offsets[begin:end],
            reached[begin:end],
            control is not None and control["kind"] == "subscribe" and end - begin == 1,
        )


def _is_kind(records: pa.RecordBatch, kind: str) -> Flags:
    if len(records) == 1:
        return np.array([records.column("kind")[0].as_py() == kind])
    return np.asarray(pc.equal(records.column("kind"), kind))


def _reached(records: pa.RecordBatch, is_event: Flags, is_tick: Flags, lateness: int | None) -> Ints:
    frontier, end = _numbers(records.column("frontier")), _numbers(records.column("end"))
    moved = np.where(is_tick, end, NOWHERE)
    if lateness is not None:
        moved = np.where(is_event, end - lateness, moved)
    return np.maximum(frontier, moved)


def _numbers(column: pa.Array) -> Ints:
    """Numbers or times; before everything where there is none."""
    found = np.frombuffer(column.buffers()[1], np.int64, len(column), 8 * column.offset)
    return np.where(np.asarray(column.is_valid()), found, NOWHERE) if column.null_count else found
