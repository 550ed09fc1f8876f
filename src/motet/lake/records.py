"""How events and commands become records: checked, stamped, then placed at offsets with frontiers and late flags.

Pure: the same draft placed at the same point of the same log gives the same records.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.model.batches import EVENTS, RECORDS, TIME, record_batch
from motet.model.errors import UsageError
from motet.model.records import EVENT, ControlRecord, Tick
from motet.model.timeline import NO_FRONTIER, stamp_columns
from motet.model.times import END_OF_TIME, START_OF_TIME

_PLACED = ("offset", "frontier", "late")  # what only a commit can know
DRAFT = pa.schema([column for column in RECORDS if column.name not in _PLACED])


def draft_events(events: pa.RecordBatch | pa.Table, now: int) -> pa.Table:
    """Events as records without a place. Those without a time of their own are stamped with ``now``."""
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
    return pa.table(columns, schema=DRAFT)


def draft_controls(records: Sequence[ControlRecord]) -> pa.Table:
    """Control records without offset, frontier and late flag."""
    for record in records:
        if isinstance(record, Tick) and not START_OF_TIME <= record.instant <= END_OF_TIME:
            raise UsageError(
                f"a tick at {record.instant} is outside the years 1 to 9999", advice="Give an instant within them."
            )
    return pa.Table.from_batches([record_batch(record.to_row() for record in records)]).select(DRAFT.names)


def place(draft: pa.Table, first: int, frontier: int | None, lateness: int | None) -> tuple[pa.Table, int | None]:
    """The records at offsets from ``first`` on, and the frontier after them.

    >>> records, after = place(draft_controls([Tick(5)]), first=0, frontier=None, lateness=None)
    >>> records["offset"].to_pylist(), records["frontier"].to_pylist(), after
    ([0], [None], 5)
    """
    stamps = stamp_columns(draft["kind"], draft["end"], frontier, lateness)
    placed = {
        "offset": pa.array(np.arange(first, first + draft.num_rows)),
        "frontier": pa.array(stamps.frontiers, mask=stamps.frontiers == NO_FRONTIER).cast(TIME),
        "late": pa.array(stamps.is_late),
    }
    columns = [placed[name] if name in placed else draft[name] for name in RECORDS.names]
    return pa.table(columns, schema=RECORDS), stamps.frontier


def _check_times(events: pa.Table, start: pa.ChunkedArray, end: pa.ChunkedArray) -> None:
    half = pc.xor(pc.is_null(events["start"]), pc.is_null(events["end"]))
    early, latest = start.cast(pa.int64()).to_numpy(), end.cast(pa.int64()).to_numpy()
    wrong = half.to_numpy() | (early > latest) | (early < START_OF_TIME) | (latest > END_OF_TIME)
    if wrong.any():
        event = events["id"][int(wrong.argmax())].as_py()
        raise UsageError(
            f"event <{event}>: its time is not an interval", advice="Give it start <= end, or neither of them."
        )


def _repeat(value: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.string()), count)
