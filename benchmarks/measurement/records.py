"""The streams of the detection benchmarks as records of a log, and the pairs in notifications.

Event ``i`` has an IRI that ends in ``i``, with leading zeros, a class for its kind, and its key as a property.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from benchmarks.streams import KINDS, Column, Intervals, Pairs, Points

from motet.engine.runtime.processor import Processor
from motet.language.syntax import Subscription
from motet.model.batches import EVENTS, TIME, TRIPLE, Records, event_records, tick_record
from motet.model.terms import RDF_TYPE

NS = "http://example.org/"
DIGITS = 8
CLASSES = [f"<{NS}{kind}>" for kind in KINDS]
KEY = f"<{NS}key>"


def records(stream: Points | Intervals) -> pa.RecordBatch:
    """Event records with the rows of the stream as offsets."""
    kinds = pa.array(CLASSES).take(pa.array(stream.kind))
    return event_records(events(stream, {RDF_TYPE: kinds, KEY: repeated_names(f"<{NS}k/", stream.key, ">")}), 0)


def events(stream: Points | Intervals, objects: dict[str, pa.Array]) -> pa.RecordBatch:
    """EVENTS with the times of the stream, each with the same predicates."""
    count, width = len(stream.key), len(objects)
    ids = names("e/", np.arange(count), "", DIGITS)
    order = pa.array(np.arange(width * count).reshape(width, count).T.ravel())
    columns = [
        pa.concat_arrays([pc.binary_join_element_wise("<", ids, ">", "")] * width).take(order),
        pa.array(list(objects)).take(pa.array(np.tile(np.arange(width), count))),
        pa.concat_arrays(list(objects.values())).take(order),
    ]
    triples = pa.StructArray.from_arrays(columns, fields=list(TRIPLE))
    bounds = pa.array(np.arange(count + 1) * width, pa.int32())
    lists = pa.ListArray.from_arrays(bounds, triples, type=EVENTS.field("triples").type)
    start, end = (pa.array(column).cast(TIME) for column in (stream[2], stream[-1]))
    columns = [ids, start, end, lists, pa.array(np.arange(count)), pa.nulls(count, pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=EVENTS)


def names(stem: str, numbers: Column, tail: str, digits: int = 1) -> pa.Array:
    padded = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), width=digits, padding="0")
    return pc.binary_join_element_wise(NS + stem, padded, tail, "")


def repeated_names(stem: str, numbers: Column, tail: str) -> pa.Array:
    """Names of numbers among which there are few distinct ones."""
    distinct, indexes = np.unique(numbers, return_inverse=True)
    return pa.array([f"{stem}{number}{tail}" for number in distinct.tolist()], pa.string()).take(pa.array(indexes))


def batches(whole: pa.RecordBatch, size: int) -> list[pa.RecordBatch]:
    """Split into batches with separate buffers, as a log returns them."""
    return [_copy(whole.slice(first, size)) for first in range(0, len(whole), size)]


def _copy(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.take(pa.array(np.arange(len(batch))))


def ready_processor(subscriptions: Iterable[Subscription]) -> Processor:
    """A processor with active subscriptions and built indexes, before a log whose first offset is 0."""
    processor = Processor()
    processor.activate(subscriptions)
    processor.advance(Records(columns=tick_record(0, -1)), 0)
    return processor


def newest_end(records: pa.RecordBatch) -> int:
    """The frontier after records of a log without lateness."""
    return int(np.asarray(records.column("end").cast(pa.int64())).max())


def pairs(notifications: Sequence[pa.RecordBatch]) -> Pairs:
    """The event pairs of notifications with two events each; the ids of A and B are in the order of their times."""
    events = list(_event_numbers(notifications))
    left, right = np.concatenate([np.empty(0, np.int64), *events]).reshape(-1, 2).T
    order = np.lexsort([right, left])
    return Pairs(left[order], right[order])


def _event_numbers(notifications: Sequence[pa.RecordBatch]) -> Iterator[Column]:
    for batch in notifications:
        ids = batch.column("events").flatten()
        yield np.asarray(pc.utf8_slice_codeunits(ids, -DIGITS).cast(pa.int64()))
