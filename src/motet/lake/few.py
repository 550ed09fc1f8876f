"""A few events made records in plain Python: for so few, calling Arrow's kernels costs more than the work they do.

Says the same as ``records``, which is for any number of events; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from motet.lake.files import DataFile
from motet.model.batches import EVENTS, EventRow, RecordRow, Triple, event_rows, record_batch
from motet.model.records import EVENT
from motet.model.timeline import stamp_rows
from motet.model.times import END_OF_TIME, START_OF_TIME

FEW = 32
FEW_TRIPLES = 512


class Few(NamedTuple):
    """Events with times, distinct, sound."""

    ids: list[str]
    starts: list[int]
    ends: list[int]
    triples: list[tuple[Triple, ...]]


Records: TypeAlias = pa.Table | list[RecordRow]


def batches_of(records: Records) -> list[pa.RecordBatch]:
    """Records as batches of RECORDS."""
    return records.to_batches() if isinstance(records, pa.Table) else [record_batch(records)]


class Placed(NamedTuple):
    """Records with their place in the log, the frontier after them, and a description of them without name and size."""

    records: Records
    frontier: int | None
    described: DataFile


def few_events(events: pa.RecordBatch | pa.Table | Sequence[EventRow], now: int) -> Few | None:
    """The events, those without a time stamped with ``now``; None when there are many or something is odd."""
    rows = _rows(events) if isinstance(events, pa.RecordBatch | pa.Table) else events
    if rows is None or not 0 < len(rows) <= FEW:
        return None
    found = Few([], [], [], [])
    for id_, own_start, own_end, triples in rows:
        start, end = (now, now) if own_start is own_end is None else (own_start, own_end)
        if id_ in found.ids or start is None or end is None or not _sound(start, end):
            return None
        found.ids.append(id_)
        found.starts.append(start)
        found.ends.append(end)
        found.triples.append(triples)
    return found


def _rows(events: pa.RecordBatch | pa.Table) -> list[EventRow] | None:
    """The events of a small sound batch as Python values."""
    if not isinstance(events, pa.RecordBatch) or not 0 < events.num_rows <= FEW or events.schema != EVENTS:
        return None
    ids, triples = events.column(0), events.column(3)
    if ids.null_count or triples.null_count or triples.offsets[-1].as_py() - triples.offsets[0].as_py() > FEW_TRIPLES:
        return None
    return list(event_rows(events))


def place_few(few: Few, first: int, frontier: int | None, lateness: int | None) -> Placed:
    """The records at offsets from ``first`` on."""
    frontiers, late, after = stamp_rows(few.ends, frontier, lateness)
    rows = zip(*few, frontiers, late, strict=True)
    records = [
        RecordRow(offset, EVENT, id_, start, end, before, is_late, None, triples)
        for offset, (id_, start, end, triples, before, is_late) in enumerate(rows, first)
    ]
    count, kinds = len(records), {EVENT: len(records)}
    described = DataFile("", first, first + count, count, 0, kinds, sum(late), min(few.starts), max(few.ends))
    return Placed(records, after, described)


def _sound(start: int, end: int) -> bool:
    return START_OF_TIME <= start <= end <= END_OF_TIME
