"""Turns events and control records into records of the log: checks and stamps them, then assigns offsets, frontiers
and late flags.

A small batch is handled in Python values, where calling Arrow would cost more than the work; a test compares both ways.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.lake.snapshot import DataFile
from motet.model.batches import EVENTS, RECORDS, TIME, EventRow, RecordRow, Triple, event_rows, record_batch
from motet.model.errors import UsageError
from motet.model.records import EVENT, ControlRecord, Tick
from motet.model.timeline import NO_FRONTIER, assign_frontiers, assign_frontiers_small
from motet.model.times import END_OF_TIME, START_OF_TIME

_ASSIGNED = ("offset", "frontier", "late")  # columns that a commit fills in
UNCOMMITTED_RECORDS = pa.schema([column for column in RECORDS if column.name not in _ASSIGNED])


def uncommitted_events(events: pa.RecordBatch | pa.Table, now: int) -> pa.Table:
    """Events as records without offsets; those that state no time are stamped with ``now``."""
    table = pa.Table.from_batches([events]) if isinstance(events, pa.RecordBatch) else events
    try:
        table = table.select(EVENTS.names).cast(EVENTS)
    except (KeyError, ValueError) as error:
        raise UsageError(f"these are not events: {error}", advice="Append batches of the EVENTS schema.") from error
    stamp = pa.scalar(now, pa.int64()).cast(TIME)
    start, end = (pc.fill_null(table[column], stamp) for column in ("start", "end"))
    _check_times(table, start, end)
    count = table.num_rows
    text = pa.nulls(count, pa.string())
    columns = [_repeat(EVENT, count), table["id"], start, end, text, table["triples"]]
    return pa.table(columns, schema=UNCOMMITTED_RECORDS)


def uncommitted_controls(records: Sequence[ControlRecord]) -> pa.Table:
    """Control records without offset, frontier and late flag."""
    for record in records:
        if isinstance(record, Tick) and not START_OF_TIME <= record.instant <= END_OF_TIME:
            raise UsageError(
                f"a tick at {record.instant} is outside the years 1 to 9999", advice="Give an instant within them."
            )
    rows = record_batch(record.to_row() for record in records)
    return pa.Table.from_batches([rows]).select(UNCOMMITTED_RECORDS.names)


def assign_offsets(
    uncommitted: pa.Table, first: int, frontier: int | None, lateness: int | None
) -> tuple[pa.Table, int | None]:
    """The records at offsets from ``first`` on, and the frontier after them.

    >>> records, after = assign_offsets(uncommitted_controls([Tick(5)]), first=0, frontier=None, lateness=None)
    >>> records["offset"].to_pylist(), records["frontier"].to_pylist(), after
    ([0], [None], 5)
    """
    frontiers, is_late, after = assign_frontiers(uncommitted["kind"], uncommitted["end"], frontier, lateness)
    assigned = {
        "offset": pa.array(np.arange(first, first + uncommitted.num_rows)),
        "frontier": pa.array(frontiers, mask=frontiers == NO_FRONTIER).cast(TIME),
        "late": pa.array(is_late),
    }
    columns = [assigned[name] if name in assigned else uncommitted[name] for name in RECORDS.names]
    return pa.table(columns, schema=RECORDS), after


def _check_times(events: pa.Table, start: pa.ChunkedArray, end: pa.ChunkedArray) -> None:
    lacks_one_end = pc.xor(pc.is_null(events["start"]), pc.is_null(events["end"])).to_numpy()
    starts, ends = start.cast(pa.int64()).to_numpy(), end.cast(pa.int64()).to_numpy()
    is_wrong = lacks_one_end | (starts > ends) | (starts < START_OF_TIME) | (ends > END_OF_TIME)
    if is_wrong.any():
        event = events["id"][int(is_wrong.argmax())].as_py()
        raise UsageError(
            f"event <{event}>: its time is not an interval", advice="Give it start <= end, or neither of them."
        )


def _repeat(value: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.string()), count)


# Small batches.

SMALL_BATCH = 32  # events
SMALL_BATCH_TRIPLES = 512


class SmallBatch(NamedTuple):
    """A few events as columns of Python values: stamped, with distinct ids and valid intervals."""

    ids: list[str]
    starts: list[int]
    ends: list[int]
    triples: list[tuple[Triple, ...]]


CommittedRecords: TypeAlias = pa.Table | list[RecordRow]


def record_batches(records: CommittedRecords) -> list[pa.RecordBatch]:
    """Records as batches of RECORDS."""
    return records.to_batches() if isinstance(records, pa.Table) else [record_batch(records)]


class PlacedRecords(NamedTuple):
    """Records with offsets, the frontier after them, and their entry in the manifest without name and size."""

    records: CommittedRecords
    frontier: int | None
    file: DataFile


def as_small_batch(events: pa.RecordBatch | pa.Table | Sequence[EventRow], now: int) -> SmallBatch | None:
    """The events as a small batch, stamped with ``now`` where they state no time.

    None for other batches, also for one that has to be rejected: `uncommitted_events` says why.
    """
    rows = _small_rows(events) if isinstance(events, pa.RecordBatch | pa.Table) else events
    if rows is None or not 0 < len(rows) <= SMALL_BATCH:
        return None
    batch = SmallBatch([], [], [], [])
    for id_, stated_start, stated_end, triples in rows:
        start, end = (now, now) if stated_start is stated_end is None else (stated_start, stated_end)
        if id_ in batch.ids or start is None or end is None or not _is_interval(start, end):
            return None
        batch.ids.append(id_)
        batch.starts.append(start)
        batch.ends.append(end)
        batch.triples.append(triples)
    return batch


def _small_rows(events: pa.RecordBatch | pa.Table) -> list[EventRow] | None:
    """The rows of an EVENTS batch that is small and has no nulls where none may be; None for others."""
    if not isinstance(events, pa.RecordBatch) or not 0 < events.num_rows <= SMALL_BATCH or events.schema != EVENTS:
        return None
    ids, triples = events.column(0), events.column(3)
    if ids.null_count or triples.null_count:
        return None
    count = triples.offsets[-1].as_py() - triples.offsets[0].as_py()
    return list(event_rows(events)) if count <= SMALL_BATCH_TRIPLES else None


def place_small(batch: SmallBatch, first: int, frontier: int | None, lateness: int | None) -> PlacedRecords:
    """The records at offsets from ``first`` on."""
    frontiers, late, after = assign_frontiers_small(batch.ends, frontier, lateness)
    rows = zip(*batch, frontiers, late, strict=True)
    records = [
        RecordRow(offset, EVENT, id_, start, end, before, is_late, None, triples)
        for offset, (id_, start, end, triples, before, is_late) in enumerate(rows, first)
    ]
    count, kinds = len(records), {EVENT: len(records)}
    file = DataFile("", first, first + count, count, 0, kinds, sum(late), min(batch.starts), max(batch.ends))
    return PlacedRecords(records, after, file)


def _is_interval(start: int, end: int) -> bool:
    return START_OF_TIME <= start <= end <= END_OF_TIME
