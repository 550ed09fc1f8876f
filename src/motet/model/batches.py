"""Arrow schemas of quads, events, records and notifications, and conversion between their batches and Python rows.

Terms are canonical N-Triples strings (``model.terms``), ids bare IRIs, times UTC microseconds. The digest of an event's
content distinguishes a repetition from a conflict (language page, section 14).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from hashlib import sha256
from itertools import pairwise, repeat
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.model.notifications import Notification

TIME = pa.timestamp("us", tz="UTC")

TRIPLE = pa.struct(
    [
        pa.field("subject", pa.string(), nullable=False),
        pa.field("predicate", pa.string(), nullable=False),
        pa.field("object", pa.string(), nullable=False),
    ]
)

QUADS = pa.schema(
    [
        pa.field("graph", pa.string()),  # null: the default graph
        pa.field("subject", pa.string(), nullable=False),
        pa.field("predicate", pa.string(), nullable=False),
        pa.field("object", pa.string(), nullable=False),
        pa.field("line", pa.int64(), nullable=False),  # in its source, from 1
    ]
)

EVENTS = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("start", TIME),  # null with end: the event states no time and is stamped at its commit
        pa.field("end", TIME),
        pa.field("triples", pa.list_(pa.field("item", TRIPLE, nullable=False)), nullable=False),
        pa.field("line", pa.int64(), nullable=False),
        pa.field("payload", pa.binary()),  # the document of an XML event, as it was published; null for RDF
    ]
)

RECORDS = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),  # event, or a kind of control record
        pa.field("id", pa.string()),  # an event's IRI, a subscription's name; null for a tick
        pa.field("start", TIME),
        pa.field("end", TIME),  # of a tick: its instant
        pa.field("frontier", TIME),  # before the record's commit; null: none yet
        pa.field("late", pa.bool_(), nullable=False),
        pa.field("text", pa.string()),  # of a subscription; of settings; of a background change "add", "remove"
        pa.field("triples", pa.list_(pa.field("item", TRIPLE, nullable=False)), nullable=False),
        pa.field("stamped", pa.bool_(), nullable=False),  # the event states no time: it has that of its commit
        pa.field("digest", pa.binary()),  # of an event's content; null for control records and events of format 1
        pa.field("payload", pa.binary()),  # the document of an XML event, as it was published; null for others
    ]
)

BINDING = pa.struct([pa.field("variable", pa.string(), nullable=False), pa.field("term", pa.string(), nullable=False)])

NOTIFICATIONS = pa.schema(
    [
        pa.field("subscription", pa.string(), nullable=False),
        pa.field("start", TIME, nullable=False),
        pa.field("end", TIME, nullable=False),
        pa.field("events", pa.list_(pa.field("item", pa.string(), nullable=False)), nullable=False),
        pa.field("bindings", pa.list_(pa.field("item", BINDING, nullable=False)), nullable=False),
        pa.field("graphs", pa.list_(pa.string())),  # EVENTS delivery: N-Quads lines
        pa.field("construct", pa.list_(pa.string())),  # CONSTRUCT delivery: N-Triples lines
        pa.field("offset", pa.int64(), nullable=False),  # the emission offset: of the record that made it final
    ]
)


Triple = tuple[str, str, str]
R = TypeVar("R")  # a row

_EVENT, _RECORD, _NOTIFICATION = (pa.struct(list(schema)) for schema in (EVENTS, RECORDS, NOTIFICATIONS))


class EventRow(NamedTuple):
    """An event as Python values; start and end are None when it states no time."""

    id: str
    start: int | None
    end: int | None
    triples: tuple[Triple, ...]
    payload: bytes | None = None  # the document of an XML event


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
    stamped: bool = False
    digest: bytes | None = None
    payload: bytes | None = None


def event_rows(events: pa.RecordBatch | pa.Table) -> Iterator[EventRow]:
    """The rows of an EVENTS or RECORDS batch."""
    triples = events.column("triples").to_pylist()
    times = (micros(events.column("start")), micros(events.column("end")))
    ids, payloads = events.column("id").to_pylist(), payload_column(events).to_pylist()
    for id_, start, end, rows, payload in zip(ids, *times, triples, payloads, strict=True):
        graph = tuple((row["subject"], row["predicate"], row["object"]) for row in rows)
        yield EventRow(id_, start, end, graph, payload)


def payload_column(events: pa.RecordBatch | pa.Table) -> pa.Array | pa.ChunkedArray:
    """The documents of the XML events of a batch; null for RDF events, and for all of a batch without the column.

    >>> payload_column(event_batch([EventRow("urn:e", None, None, (), b"<a/>")])).to_pylist()
    [b'<a/>']
    """
    index = events.schema.get_field_index("payload")
    return pa.nulls(events.num_rows, pa.binary()) if index < 0 else events.column(index)


def event_batch(rows: Iterable[EventRow], lines: Iterable[int] | None = None) -> pa.RecordBatch:
    """The inverse of `event_rows`: an EVENTS batch, made in one call, which is quick for small batches.

    >>> row = EventRow("urn:e", None, None, (("<urn:s>", "<urn:p>", "<urn:o>"),))
    >>> list(event_rows(event_batch([row]))) == [row]
    True
    """
    numbers = repeat(1) if lines is None else lines
    events = [(*row[:-1], line, row.payload) for row, line in zip(rows, numbers, strict=False)]
    return pa.RecordBatch.from_struct_array(pa.array(events, _EVENT))


def record_batch(records: Iterable[RecordRow]) -> pa.RecordBatch:
    """Records as a RECORDS batch."""
    return pa.RecordBatch.from_struct_array(pa.array(list(records), _RECORD))


def record_rows(records: pa.RecordBatch | pa.Table) -> Iterator[RecordRow]:
    """The inverse of `record_batch`: the rows of a RECORDS batch."""
    times = ("start", "end", "frontier")
    columns = {name: records.column(name).to_pylist() for name in RecordRow._fields if name not in times}
    columns |= {name: micros(records.column(name)) for name in times}
    for row in map(RecordRow._make, zip(*(columns[name] for name in RecordRow._fields), strict=True)):
        triples = tuple((triple["subject"], triple["predicate"], triple["object"]) for triple in row.triples)  # type: ignore[call-overload]
        yield row._replace(triples=triples)


def micros(times: pa.Array | pa.ChunkedArray) -> list[int | None]:
    """A column of timestamps as microseconds."""
    integers = times.view(pa.int64()) if isinstance(times, pa.Array) else times.cast(pa.int64())
    values: list[int | None] = integers.to_pylist()
    return values


def stamp(events: pa.RecordBatch | pa.Table, arrival: int) -> pa.RecordBatch | pa.Table:
    """The events with the time of their arrival where they state none."""
    for name in ("start", "end"):
        index = events.schema.get_field_index(name)
        filled = events.column(index).fill_null(pa.scalar(arrival, pa.int64()).cast(TIME))
        events = events.set_column(index, events.schema.field(index), filled)
    return events


def event_records(events: pa.RecordBatch, offset: int | pa.Array, frontier: pa.Array | None = None) -> pa.RecordBatch:
    """Stamped events as RECORDS, from an offset on or at the given offsets; without frontiers unless they are given."""
    count = len(events)
    columns = {
        "offset": pa.array(range(offset, offset + count), pa.int64()) if isinstance(offset, int) else offset,
        "kind": pa.repeat(pa.scalar("event"), count),
        "frontier": pa.nulls(count, TIME) if frontier is None else frontier,
        "late": pa.repeat(pa.scalar(False), count),
        "text": pa.nulls(count, pa.string()),
        "stamped": pa.repeat(pa.scalar(False), count),
        "digest": pa.nulls(count, pa.binary()),
        "payload": payload_column(events),
    }
    arrays = [columns[field.name] if field.name in columns else events.column(field.name) for field in RECORDS]
    return pa.RecordBatch.from_arrays(arrays, schema=RECORDS)


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of a schema: a column that the batch lacks is false or null, others of the batch are left out.

    >>> batch = pa.RecordBatch.from_pydict({"a": [1], "b": [2]})
    >>> conform(batch, pa.schema({"b": pa.int64(), "c": pa.string()})).to_pylist()
    [{'b': 2, 'c': None}]
    """
    if batch.schema.equals(schema):
        return batch
    columns = [
        batch.column(field.name) if field.name in batch.schema.names else _missing(field, len(batch))
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _missing(field: pa.Field, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(False), count) if pa.types.is_boolean(field.type) else pa.nulls(count, field.type)


class Batch(Generic[R]):
    """Rows in one of two forms: Arrow columns, or a few Python values. The other form is made once, when it is read.

    >>> batch = Records(rows=[RecordRow(7, "event", "urn:e", 1, 2, None, False, None, ())])
    >>> batch.is_small, len(batch), batch.columns.column("offset").to_pylist()
    (True, 1, [7])
    """

    def __init__(self, *, columns: pa.RecordBatch | None = None, rows: list[R] | None = None) -> None:
        self.is_small = rows is not None  # it was made of rows
        if rows is not None:
            self.rows = rows
        if columns is not None:
            self.columns = columns

    def __len__(self) -> int:
        return len(self.rows) if self.is_small else self.columns.num_rows

    @cached_property
    def columns(self) -> pa.RecordBatch:
        """The rows as columns."""
        return self._make_columns(self.rows)

    @cached_property
    def rows(self) -> list[R]:
        """The rows as Python values."""
        return list(self._make_rows(self.columns))

    def _make_columns(self, rows: Sequence[R]) -> pa.RecordBatch:
        raise NotImplementedError

    def _make_rows(self, columns: pa.RecordBatch) -> Iterable[R]:
        raise NotImplementedError


class Records(Batch[RecordRow]):
    """Records of a log; columns may also be EVENTS."""

    def _make_columns(self, rows: Sequence[RecordRow]) -> pa.RecordBatch:
        return record_batch(rows)

    def _make_rows(self, columns: pa.RecordBatch) -> Iterable[RecordRow]:
        return record_rows(columns)


class NotificationBatch(Batch[tuple[Notification, int]]):
    """Notifications with their emission offsets."""

    def _make_columns(self, rows: Sequence[tuple[Notification, int]]) -> pa.RecordBatch:
        return notification_batch(rows)

    def _make_rows(self, columns: pa.RecordBatch) -> Iterable[tuple[Notification, int]]:
        return notification_rows(columns)


def tick_record(instant: int, offset: int) -> pa.RecordBatch:
    """A tick as a RECORDS batch."""
    return record_batch([RecordRow(offset, "tick", None, None, instant, None, False, None, ())])


def notification_batch(emissions: Iterable[tuple[Notification, int]]) -> pa.RecordBatch:
    """Notifications with their emission offsets as a NOTIFICATIONS batch."""
    rows = [
        (n.subscription, n.start_micros, n.end_micros, n.events, n.bindings, n.graphs, n.construct, at)
        for n, at in emissions
    ]
    return pa.RecordBatch.from_struct_array(pa.array(rows, _NOTIFICATION))


def notification_rows(batch: pa.RecordBatch | pa.Table) -> Iterator[tuple[Notification, int]]:
    """The inverse of `notification_batch`."""
    starts, ends = micros(batch.column("start")), micros(batch.column("end"))
    fields = ("subscription", "events", "bindings", "graphs", "construct", "offset")
    columns = [batch.column(field).to_pylist() for field in fields]
    for start, end, subscription, events, bindings, graphs, construct, offset in zip(
        starts, ends, *columns, strict=True
    ):
        assert start is not None and end is not None, "the schema forbids nulls"
        pairs = tuple((binding["variable"], binding["term"]) for binding in bindings)
        extras = (None if graphs is None else tuple(graphs), None if construct is None else tuple(construct))
        yield Notification(subscription, start, end, tuple(events), pairs, *extras), offset


# Content: triples without CloudEvents attributes, or the canonical document, whatever a mapping lifts from it


ATTRIBUTE = "urn:cloudevents:attribute:"  # the namespace of CloudEvents attributes
_ATTRIBUTE_PREDICATE = f"<{ATTRIBUTE}"


def content_digest(triples: Collection[Triple], payload: bytes | None = None) -> bytes:
    """The SHA-256 of an event's sorted triples without CloudEvents attributes; of the canonical document of XML events.

    >>> one, two = ("<urn:s>", "<urn:p>", '"1"'), ("<urn:s>", "<urn:p>", '"2"')
    >>> content_digest([one, two]) == content_digest([two, one]), content_digest([one]) == content_digest([two])
    (True, False)
    """
    if payload is not None:
        from motet.model.xml_document import canonical_document

        return sha256(canonical_document(payload)).digest()
    text = "\n".join(sorted(map(" ".join, triples)))
    if _ATTRIBUTE_PREDICATE in text:
        own = [triple for triple in triples if not triple[1].startswith(_ATTRIBUTE_PREDICATE)]
        text = "\n".join(sorted(map(" ".join, own)))
    return sha256(text.encode()).digest()


def content_digests(events: pa.RecordBatch | pa.Table) -> list[bytes]:
    """The digest of each event of a batch of EVENTS or RECORDS."""
    column = events.column("triples")
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    digests = [digest for chunk in chunks for digest in _digests(chunk)]
    payloads = payload_column(events)
    if payloads.null_count < len(digests):
        return [
            digest if payload is None else content_digest((), payload)
            for digest, payload in zip(digests, payloads.to_pylist(), strict=True)
        ]
    return digests


def _digests(lists: pa.ListArray) -> list[bytes]:
    triples = lists.flatten()  # without the elements before the first list and after the last
    bounds = lists.offsets.to_numpy().astype(np.int64)
    bounds = bounds - bounds[0]
    subjects, predicates, objects = (triples.field(index) for index in range(3))
    lines = pc.binary_join_element_wise(subjects, predicates, objects, " ")
    is_attribute = pc.starts_with(predicates, _ATTRIBUTE_PREDICATE).to_numpy(zero_copy_only=False)
    if is_attribute.any():
        lines = lines.filter(pa.array(~is_attribute))
        bounds = np.concatenate([[0], np.cumsum(~is_attribute)])[bounds]
    texts = lines.cast(pa.binary()).to_pylist()  # bytes sort as their characters do
    return [sha256(b"\n".join(sorted(texts[begin:end]))).digest() for begin, end in pairwise(bounds.tolist())]
