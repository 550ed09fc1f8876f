"""How events and commands become records: checked, stamped, then placed at offsets with frontiers and late flags.

Pure: the same draft placed at the same point of the same log gives the same records.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from motet.model.errors import UsageError
from motet.model.schemas import EVENTS, RECORDS, TIME
from motet.model.times import END_OF_TIME, START_OF_TIME

Triples = Iterable[tuple[str, str, str]]

CONTROLS = ("tick", "subscribe", "unsubscribe", "background", "retract")
NO_FRONTIER = np.iinfo(np.int64).min
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
    columns = [_repeat("event", count), table["id"], start, end, text, table["triples"]]
    return pa.table(columns, schema=DRAFT)


def draft_control(
    kind: str,
    *,
    id: str | None = None,  # noqa: A002 the column's name
    text: str | None = None,
    end: int | None = None,
    triples: Triples = (),
) -> pa.Table:
    """One command as a record without a place."""
    if kind not in CONTROLS:
        raise UsageError(f"{kind!r} is not a kind of control record", advice=f"Use one of {', '.join(CONTROLS)}.")
    if (end is not None) != (kind == "tick") or not START_OF_TIME <= (end or 0) <= END_OF_TIME:
        raise UsageError(f"{kind}: a tick has an instant between the years 1 and 9999, other records have none")
    listed = [{"subject": s, "predicate": p, "object": o} for s, p, o in triples]
    row = {"kind": kind, "id": id, "start": None, "end": end, "text": text, "triples": listed}
    return pa.table([pa.array([row[column.name]], column.type) for column in DRAFT], schema=DRAFT)


def place(draft: pa.Table, first: int, frontier: int | None, lateness: int | None) -> tuple[pa.Table, int | None]:
    """The records at offsets from ``first`` on, and the frontier after them.

    >>> records, after = place(draft_control("tick", end=5), first=0, frontier=None, lateness=None)
    >>> records["offset"].to_pylist(), records["frontier"].to_pylist(), after
    ([0], [None], 5)
    """
    before, late, after = advance_frontier(draft["kind"], draft["end"], frontier, lateness)
    placed = {
        "offset": pa.array(np.arange(first, first + draft.num_rows)),
        "frontier": pa.array(before, mask=before == NO_FRONTIER).cast(TIME),
        "late": pa.array(late),
    }
    columns = [placed[name] if name in placed else draft[name] for name in RECORDS.names]
    return pa.table(columns, schema=RECORDS), after


def advance_frontier(
    kind: pa.ChunkedArray, end: pa.ChunkedArray, frontier: int | None, lateness: int | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], int | None]:
    """The frontier before each record, whether the record is late, and the frontier after all of them."""
    events, ticks = (pc.equal(kind, wanted).to_numpy() for wanted in ("event", "tick"))
    ends = pc.fill_null(end.cast(pa.int64()), NO_FRONTIER).to_numpy()
    reach = np.where(ticks, ends, NO_FRONTIER)
    if (
        lateness is not None
    ):  # held inside the years a log can hold: nothing can be earlier, so nothing turns late by it
        reach[events] = np.maximum(ends[events] - lateness, START_OF_TIME)
    running = np.maximum.accumulate(np.concatenate([[NO_FRONTIER if frontier is None else frontier], reach]))
    after = int(running[-1])
    return running[:-1], events & (ends < running[:-1]), None if after == NO_FRONTIER else after


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
