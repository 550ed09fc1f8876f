"""Arrow batches as the bytes of one row: Spark moves them as they are, instead of taking every cell into its hands."""

from __future__ import annotations

import pyarrow as pa

from motet.model.schemas import RECORDS


def packed(batch: pa.RecordBatch) -> bytes:
    """
    >>> unpacked(packed(pa.RecordBatch.from_pydict({"a": [1, 2]}))).to_pydict()
    {'a': [1, 2]}
    """
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def unpacked(data: bytes) -> pa.RecordBatch:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()


def records(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Some batches of RECORDS as one, by offset."""
    table = pa.Table.from_batches(batches, schema=RECORDS).combine_chunks()
    found = table.take(pa.array(table["offset"].to_numpy().argsort(kind="stable"))).combine_chunks().to_batches()
    return found[0] if found else pa.RecordBatch.from_pylist([], schema=RECORDS)
