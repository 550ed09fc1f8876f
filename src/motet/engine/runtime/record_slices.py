"""A batch of records as the processor reads it: cut at control records, with the frontier timeline of each slice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from motet.jit.compiled import Ints
from motet.model.records import ControlRecord, Subscribe, control_records
from motet.model.timeline import FrontierTimeline


@dataclass(frozen=True, slots=True)
class FilteredRecords:
    """The records of an offset range that concern one bucket, all control records among them, with the timeline of
    the whole range.
    """

    records: pa.RecordBatch
    timeline: FrontierTimeline


@dataclass(frozen=True, slots=True)
class RecordSlice:
    """Consecutive records of which at most the first is a control record other than a tick."""

    control: ControlRecord | None
    events: pa.RecordBatch  # those that are not late
    offsets: Ints
    frontiers: Ints  # after each record
    is_subscription: bool  # it is one subscribe record
    has_events: bool  # the range has visible events, perhaps in other buckets


def slice_at_controls(
    records: pa.RecordBatch, lateness: int | None, timeline: FrontierTimeline | None = None
) -> Iterator[RecordSlice]:
    """The slices of a batch in log order. With a ``timeline``, the records are those of its range that concern one
    bucket.

    >>> from motet.model.batches import tick_record
    >>> [(piece.control, piece.frontiers.tolist()) for piece in slice_at_controls(tick_record(7, offset=0), None)]
    [(None, [7])]
    """
    if not len(records) and timeline is None:
        return
    read = FrontierTimeline.from_records(records, lateness)
    whole = timeline or read
    rows = np.flatnonzero(read.is_boundary)
    begins = rows if timeline is None else np.searchsorted(whole.offsets, read.offsets[rows])
    parsed = control_records(records.take(pa.array(rows))) if len(rows) else ()
    controls = dict(zip(zip(rows.tolist(), begins.tolist(), strict=True), parsed, strict=True))
    for (row, begin), (row_end, end) in pairwise(sorted({(0, 0), *controls, (len(records), len(whole.offsets))})):
        piece = records if row_end - row == len(records) else records.slice(row, row_end - row)
        control = controls.get((row, begin))
        is_visible = read.is_visible[row:row_end]
        yield RecordSlice(
            control,
            piece if is_visible.all() else piece.filter(pa.array(is_visible)),
            whole.offsets[begin:end],
            whole.frontiers[begin:end],
            isinstance(control, Subscribe) and end - begin == 1,
            bool(whole.is_visible[begin:end].any()),
        )
