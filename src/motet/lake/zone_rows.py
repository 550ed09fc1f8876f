"""The rows of zone files: the triples of events with typed columns for their objects, and the events themselves.

The same functions make the rows of zones and of the records that are in no zone yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from motet.lake.snapshot import Snapshot
from motet.model.records import EVENT
from motet.sparql.term_columns import typed_columns

QUAD_ROWS = pa.schema(
    [
        ("off", pa.int64()),  # of the event
        ("s", pa.string()),
        ("p", pa.string()),
        ("o", pa.string()),
        ("okind", pa.int8()),
        ("onum", pa.float64()),
        ("ots", pa.int64()),
        ("first", pa.bool_()),  # no record of a lower offset has the triple
    ]
)
EVENT_ROWS = pa.schema([("g", pa.string()), ("off", pa.int64()), ("start_", pa.int64()), ("end_", pa.int64())])
TERMS = ("s", "p", "o")

_FIELDS = (("s", "subject"), ("p", "predicate"), ("o", "object"))


class LogRows(NamedTuple):
    """The events of a range of offsets: their triples, and the events with their intervals."""

    quads: pa.Table  # QUAD_ROWS; ``first`` is among these rows
    events: pa.Table  # EVENT_ROWS
    stop: int  # they are the rows of all records below this offset


def log_rows(snapshot: Snapshot, first: int, stop: int, most: int | None = None) -> LogRows:
    """The rows of the records ``[first, stop)``; with ``most``, of the first ones with about so many triples."""
    quads, events, count = [], [], 0
    for batch in snapshot.records(first, stop, ["offset", "kind", "id", "start", "end", "triples"]):
        records = batch.filter(pc.equal(batch.column("kind"), EVENT))
        events.append(_event_rows(records))
        triples = records.column("triples")
        terms = triples.flatten()
        offsets = records.column("offset").take(pc.list_parent_indices(triples))
        quads.append(
            pa.RecordBatch.from_arrays([offsets, *(terms.field(name) for _, name in _FIELDS)], ["off", *TERMS])
        )
        count += len(offsets)
        if most is not None and count >= most:
            stop = int(batch.column("offset")[-1].as_py()) + 1
            break
    schema = pa.schema([QUAD_ROWS.field(name) for name in ("off", *TERMS)])
    table = pa.Table.from_batches(quads, schema)
    return LogRows(quad_rows(table), pa.Table.from_batches(events, EVENT_ROWS), stop)


def _event_rows(records: pa.RecordBatch) -> pa.RecordBatch:
    names = pc.binary_join_element_wise("<", records.column("id"), ">", "")
    times = [records.column(name).cast(pa.int64()) for name in ("start", "end")]
    return pa.RecordBatch.from_arrays([names, records.column("offset"), *times], schema=EVENT_ROWS)


def quad_rows(triples: pa.Table) -> pa.Table:
    """QUAD_ROWS of a table with the columns off, s, p and o; ``first`` is among its rows."""
    objects = _encoded(triples["o"])
    columns = {name: triples[name] for name in ("off", *TERMS)}
    columns |= {name: values.take(objects.indices) for name, values in typed_columns(objects.dictionary).items()}
    columns["first"] = pa.array(_is_first(triples))
    return pa.table(columns, schema=QUAD_ROWS)


def _is_first(triples: pa.Table) -> npt.NDArray[np.bool_]:
    """Whether a row is the one of the lowest offset with its triple."""
    codes = [ranks(triples[name]) for name in TERMS]
    order = np.lexsort((triples["off"].to_numpy(), *codes))
    is_first = np.ones(len(order), np.bool_)
    repeated = np.ones(max(len(order) - 1, 0), np.bool_)
    for code in codes:
        in_order = code[order]
        repeated &= in_order[1:] == in_order[:-1]
    is_first[order[1:]] = ~repeated
    return is_first


def ranks(terms: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Integers in the order of the terms, equal for equal terms."""
    encoded = _encoded(terms)
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank[encoded.indices.to_numpy(zero_copy_only=False)]


def _encoded(terms: pa.ChunkedArray) -> pa.DictionaryArray:
    """A column with its distinct terms as the dictionary; as one array, because each chunk would have a dictionary."""
    return terms.cast(pa.large_string()).combine_chunks().dictionary_encode()


def without_earlier(quads: pa.Table, earlier: Iterable[pa.Table]) -> pa.Table:
    """The rows with ``first`` false where tables of lower offsets have the triple."""
    dictionaries = [quads[name].unique() for name in TERMS]
    keys = _keys(quads, dictionaries)
    is_first = quads["first"].to_numpy(zero_copy_only=False).copy()
    for table in earlier:
        known = _keys(table, dictionaries)
        is_first &= ~np.isin(keys, known[known >= 0])
    return quads.set_column(QUAD_ROWS.get_field_index("first"), QUAD_ROWS.field("first"), pa.array(is_first))


def _keys(table: pa.Table, dictionaries: list[pa.Array]) -> npt.NDArray[np.int64]:
    """One number for each triple, by the positions of its terms in the dictionaries; -1 if one is in none."""
    keys = np.zeros(table.num_rows, np.int64)
    for name, dictionary in zip(TERMS, dictionaries, strict=True):
        position = pc.fill_null(pc.index_in(table[name], dictionary), -1).to_numpy().astype(np.int64)
        keys = np.where((keys < 0) | (position < 0), -1, keys * (len(dictionary) + 1) + position)
    return keys
