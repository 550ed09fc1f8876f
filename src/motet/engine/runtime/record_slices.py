"""A batch of records as the processor reads it: cut at control records, with the frontier timeline of each slice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from motet.jit.compiled import Ints
from motet.model.records import ControlRecord, Subscribe, control_records
from motet.model.timeline import NO_FRONTIER, FrontierAfter, FrontierTimeline, clamp_frontier, first_frontier


@dataclass(frozen=True, slots=True)
class RecordSlice:
    """Consecutive records of which at most the first is a control record other than a tick."""

    control: ControlRecord | None
    events: pa.RecordBatch  # those that are not late
    offsets: Ints
    frontiers: Ints  # after each record
    frontier_before: int  # that the control record stores; NO_FRONTIER without one
    visible_ends: Ints  # of all visible events of the range, perhaps in other buckets
    is_subscription: bool  # it is one subscribe record


def slice_at_controls(records: pa.RecordBatch, frontier: FrontierAfter) -> Iterator[RecordSlice]:
    """The slices of a batch in log order.

    >>> from motet.model.batches import tick_record
    >>> [(piece.control, piece.frontiers.tolist()) for piece in slice_at_controls(tick_record(7, offset=0), 7)]
    [(None, [7])]
    """
    timeline = frontier if isinstance(frontier, FrontierTimeline) else None
    if not len(records) and timeline is None:
        return
    read = FrontierTimeline.from_records(records, None if isinstance(frontier, FrontierTimeline) else frontier)
    whole = timeline or read
    rows = np.flatnonzero(read.is_boundary)
    begins = rows if timeline is None else np.searchsorted(whole.offsets, read.offsets[rows])
    parsed = control_records(records.take(pa.array(rows))) if len(rows) else ()
    controls = dict(zip(zip(rows.tolist(), begins.tolist(), strict=True), parsed, strict=True))
    for (row, begin), (row_end, end) in pairwise(sorted({(0, 0), *controls, (len(records), len(whole.offsets))})):
        piece = records if row_end - row == len(records) else records.slice(row, row_end - row)
        control = controls.get((row, begin))
        is_visible = read.is_visible[row:row_end]
        before = None if control is None else first_frontier(piece)
        yield RecordSlice(
            control,
            piece if is_visible.all() else piece.filter(pa.array(is_visible)),
            whole.offsets[begin:end],
            whole.frontiers[begin:end],
            NO_FRONTIER if before is None else clamp_frontier(before),
            whole.ends[begin:end][whole.is_visible[begin:end]],
            isinstance(control, Subscribe) and end - begin == 1,
        )
