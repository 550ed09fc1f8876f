"""The Arrow schemas of the data path: quads as decoded, events as published, records as they stand in the log.

Terms are canonical N-Triples strings (``model.terms``); ids are bare IRIs; times are UTC microseconds.
"""

from __future__ import annotations

import pyarrow as pa

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
        pa.field("line", pa.int64(), nullable=False),  # where it stood in its source, from 1
    ]
)

EVENTS = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("start", TIME),  # null with end: no time of its own, stamped when appended
        pa.field("end", TIME),
        pa.field("triples", pa.list_(pa.field("item", TRIPLE, nullable=False)), nullable=False),
        pa.field("line", pa.int64(), nullable=False),
    ]
)

RECORDS = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),  # event, tick, subscribe, unsubscribe, background, retract
        pa.field("id", pa.string()),  # an event's IRI, a subscription's name; null for a tick
        pa.field("start", TIME),
        pa.field("end", TIME),  # of a tick: the instant it promises
        pa.field("frontier", TIME),  # in force when the record was committed; null: none yet
        pa.field("late", pa.bool_(), nullable=False),
        pa.field("text", pa.string()),  # a subscription's text and settings
        pa.field("triples", pa.list_(pa.field("item", TRIPLE, nullable=False)), nullable=False),
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
        pa.field("offset", pa.int64(), nullable=False),  # of the record that made it final
    ]
)
