"""Between Arrow batches and Python values: rows of events, and notifications. Times are microseconds on both sides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import NamedTuple

import pyarrow as pa

from motet.model.notifications import Notification
from motet.model.schemas import EVENTS, NOTIFICATIONS, RECORDS, TIME

Triple = tuple[str, str, str]

_EVENT, _RECORD, _NOTIFICATION = (pa.struct(list(schema)) for schema in (EVENTS, RECORDS, NOTIFICATIONS))


class EventRow(NamedTuple):
    """An event as Python values; start and end are None when it carries no time of its own."""

    id: str
    start: int | None
    end: int | None
    triples: tuple[Triple, ...]


class RecordRow(NamedTuple):
    """A record as Python values, in the order of the RECORDS schema."""

    offset: int
    kind: str
    id: str | None
    start: int | None
    end: int | None
    frontier: int | None
    late: bool
    text: str | None
    triples: tuple[Triple, ...]


def event_rows(events: pa.RecordBatch | pa.Table) -> Iterator[EventRow]:
    """The rows of an EVENTS or RECORDS batch."""
    triples = events.column("triples").to_pylist()
    times = (micros(events.column("start")), micros(events.column("end")))
    for id_, start, end, rows in zip(events.column("id").to_pylist(), *times, triples, strict=True):
        yield EventRow(id_, start, end, tuple((row["subject"], row["predicate"], row["object"]) for row in rows))


def event_batch(rows: Iterable[EventRow], lines: Iterable[int] | None = None) -> pa.RecordBatch:
    """The inverse of `event_rows`: an EVENTS batch. Made in one call, which for few events is what counts.

    >>> row = EventRow("urn:e", None, None, (("<urn:s>", "<urn:p>", "<urn:o>"),))
    >>> list(event_rows(event_batch([row]))) == [row]
    True
    """
    found = [(*row, line) for row, line in zip(rows, repeat(1) if lines is None else lines, strict=False)]
    return pa.RecordBatch.from_struct_array(pa.array(found, _EVENT))


def record_batch(records: Iterable[RecordRow]) -> pa.RecordBatch:
    """Records as a RECORDS batch."""
    return pa.RecordBatch.from_struct_array(pa.array(list(records), _RECORD))


def record_rows(records: pa.RecordBatch | pa.Table) -> Iterator[RecordRow]:
    """The inverse of `record_batch`: the rows of a RECORDS batch."""
    columns = {name: records.column(name).to_pylist() for name in ("offset", "kind", "id", "late", "text", "triples")}
    columns |= {name: micros(records.column(name)) for name in ("start", "end", "frontier")}
    for row in map(RecordRow._make, zip(*(columns[name] for name in RecordRow._fields), strict=True)):
        triples = tuple((triple["subject"], triple["predicate"], triple["object"]) for triple in row.triples)  # type: ignore[call-overload]
        yield row._replace(triples=triples)


def micros(times: pa.Array | pa.ChunkedArray) -> list[int | None]:
    """A column of timestamps as microseconds."""
    numbers = times.view(pa.int64()) if isinstance(times, pa.Array) else times.cast(pa.int64())
    values: list[int | None] = numbers.to_pylist()
    return values


def stamp(events: pa.RecordBatch | pa.Table, arrival: int) -> pa.RecordBatch | pa.Table:
    """Give the events that carry no time the time of their arrival."""
    for name in ("start", "end"):
        index = events.schema.get_field_index(name)
        filled = events.column(index).fill_null(pa.scalar(arrival, pa.int64()).cast(TIME))
        events = events.set_column(index, events.schema.field(index), filled)
    return events


def event_records(events: pa.RecordBatch, offset: int | pa.Array, frontier: pa.Array | None = None) -> pa.RecordBatch:
    """Stamped events as RECORDS from an offset on, or at these; of a log that has no frontier unless one is given."""
    count = len(events)
    columns = {
        "offset": pa.array(range(offset, offset + count), pa.int64()) if isinstance(offset, int) else offset,
        "kind": pa.repeat(pa.scalar("event"), count),
        "frontier": pa.nulls(count, TIME) if frontier is None else frontier,
        "late": pa.repeat(pa.scalar(False), count),
        "text": pa.nulls(count, pa.string()),
    }
    found = [columns[field.name] if field.name in columns else events.column(field.name) for field in RECORDS]
    return pa.RecordBatch.from_arrays(found, schema=RECORDS)


def tick_record(instant: int, offset: int) -> pa.RecordBatch:
    """A tick as a RECORDS batch."""
    return record_batch([RecordRow(offset, "tick", None, None, instant, None, False, None, ())])


def notification_batch(emitted: Iterable[tuple[Notification, int]]) -> pa.RecordBatch:
    """Notifications with the offsets of the records that made them final, as a NOTIFICATIONS batch."""
    found = [(n.subscription, n.start, n.end, n.events, n.bindings, n.graphs, n.construct, at) for n, at in emitted]
    return pa.RecordBatch.from_struct_array(pa.array(found, _NOTIFICATION))


def notification_rows(batch: pa.RecordBatch | pa.Table) -> Iterator[tuple[Notification, int]]:
    """The inverse of `notification_batch`."""
    starts, ends = micros(batch.column("start")), micros(batch.column("end"))
    names = ("subscription", "events", "bindings", "graphs", "construct", "offset")
    columns = [batch.column(name).to_pylist() for name in names]
    for start, end, subscription, events, bindings, graphs, construct, offset in zip(
        starts, ends, *columns, strict=True
    ):
        assert start is not None and end is not None, "the schema forbids it"
        pairs = tuple((binding["variable"], binding["term"]) for binding in bindings)
        extras = (None if graphs is None else tuple(graphs), None if construct is None else tuple(construct))
        yield Notification(subscription, start, end, tuple(events), pairs, *extras), offset
