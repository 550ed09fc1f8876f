"""A few events made records in plain Python: for so few, calling Arrow's kernels costs more than the work they do.

Says the same as ``records``, which is for any number of events; a test holds the two together.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa

from motet.lake.files import DataFile
from motet.model.schemas import EVENTS, RECORDS, TIME
from motet.model.times import END_OF_TIME, START_OF_TIME

FEW = 32


class Few(NamedTuple):
    """Events with times, distinct, sound."""

    ids: list[str]
    starts: list[int]
    ends: list[int]
    columns: pa.RecordBatch


class Placed(NamedTuple):
    """Records with their place in the log, the frontier after them, and a description of them without name and size."""

    records: pa.RecordBatch | pa.Table
    frontier: int | None
    described: DataFile


def few_events(events: pa.RecordBatch | pa.Table, now: int) -> Few | None:
    """The events, those without a time stamped with ``now``; None when there are many or something is odd."""
    if not isinstance(events, pa.RecordBatch) or not 0 < events.num_rows <= FEW or events.schema != EVENTS:
        return None
    ids, starts, ends = events.column(0).to_pylist(), _micros(events.column(1)), _micros(events.column(2))
    times = [(now, now) if start is end is None else (start, end) for start, end in zip(starts, ends, strict=True)]
    checked = [(start, end) for start, end in times if start is not None and end is not None and _sound(start, end)]
    if len(set(ids)) < len(ids) or None in ids or len(checked) < len(ids) or events.column(3).null_count:
        return None
    return Few(ids, [start for start, _ in checked], [end for _, end in checked], events)


def place_few(few: Few, first: int, frontier: int | None, lateness: int | None) -> Placed:
    """The records at offsets from ``first`` on."""
    count = len(few.ids)
    before, late = [], []
    for end in few.ends:
        before.append(frontier)
        late.append(frontier is not None and end < frontier)
        if lateness is not None:
            reach = max(end - lateness, START_OF_TIME)
            frontier = reach if frontier is None else max(frontier, reach)
    ids, start, end, triples = few.columns.columns[:4]
    kind, on_time, text = _same_for_all(count)
    placed = {
        "offset": pa.array(range(first, first + count), pa.int64()),
        "kind": kind,
        "id": ids,
        "start": pa.array(few.starts, TIME) if start.null_count else start,
        "end": pa.array(few.ends, TIME) if end.null_count else end,
        "frontier": pa.array(before, TIME),
        "late": pa.array(late, pa.bool_()) if any(late) else on_time,
        "text": text,
        "triples": triples,
    }
    records = pa.RecordBatch.from_arrays([placed[name] for name in _NAMES], schema=RECORDS)
    kinds = {"event": count}
    described = DataFile("", first, first + count, count, 0, kinds, sum(late), min(few.starts), max(few.ends))
    return Placed(records, frontier, described)


_NAMES = RECORDS.names


@lru_cache(FEW)
def _same_for_all(count: int) -> tuple[pa.Array, pa.Array, pa.Array]:
    """The columns that are the same for any so many events in time: kind, late, text."""
    kind, late = pa.array(["event"] * count, pa.string()), pa.array([False] * count, pa.bool_())
    return kind, late, pa.nulls(count, pa.string())


def _sound(start: int, end: int) -> bool:
    return START_OF_TIME <= start <= end <= END_OF_TIME


def _micros(times: pa.TimestampArray) -> list[int | None]:
    found: list[int | None] = times.view(pa.int64()).to_pylist()
    return found
