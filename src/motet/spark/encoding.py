"""Compact forms in which Arrow data crosses Spark's shuffles: a batch as bytes in one cell, triples as text.

Spark moves bytes and strings as they are; it would convert every cell of a batch and every nested row of a triple.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.model.batches import EVENTS, TRIPLE

Batches = Iterator[pa.RecordBatch]  # what tasks map over

_BREAK = "\n"  # no term contains one: N-Triples writes it as \n


def pack(batch: pa.RecordBatch) -> bytes:
    """A batch as bytes of Arrow's stream format.

    >>> unpack(pack(pa.RecordBatch.from_pydict({"a": [1, 2]}))).to_pydict()
    {'a': [1, 2]}
    """
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def unpack(data: bytes | pa.Buffer) -> pa.RecordBatch:
    """The inverse of :func:`pack`."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()


def triples_to_text(triples: pa.ListArray) -> pa.StringArray:
    """The triples of each event as one string, one term per line.

    >>> triples = [[{"subject": "<urn:s>", "predicate": "<urn:p>", "object": '"o"'}], []]
    >>> triples_to_text(pa.array(triples, _TRIPLE_LISTS)).to_pylist()
    ['<urn:s>\\n<urn:p>\\n"o"', '']
    """
    terms = triples.flatten().flatten()
    lines = pc.binary_join_element_wise(*terms, _BREAK)
    lengths = pc.list_value_length(triples).to_numpy()
    return pc.binary_join(pa.ListArray.from_arrays(list_offsets(lengths), lines), _BREAK)


def triples_from_text(texts: pa.StringArray) -> pa.ListArray:
    """The inverse of :func:`triples_to_text`.

    >>> triples_from_text(pa.array(['<urn:s>\\n<urn:p>\\n"o"', ''])).to_pylist()
    [[{'subject': '<urn:s>', 'predicate': '<urn:p>', 'object': '"o"'}], []]
    """
    lines = pc.split_pattern(texts, _BREAK)
    terms = lines.flatten()
    terms = terms.filter(pc.not_equal(terms, ""))  # an event without triples has one line, which is empty
    first_terms = np.arange(0, len(terms), len(TRIPLE))
    columns = [terms.take(pa.array(first_terms + position)) for position in range(len(TRIPLE))]
    lengths = pc.list_value_length(lines).to_numpy() // len(TRIPLE)
    return pa.ListArray.from_arrays(
        list_offsets(lengths), pa.StructArray.from_arrays(columns, fields=list(TRIPLE)), type=_TRIPLE_LISTS
    )


def list_offsets(lengths: np.ndarray | pa.Array) -> pa.Array:
    """The offsets of a list array whose lists have these lengths."""
    return pa.array(np.concatenate([[0], np.cumsum(np.asarray(lengths))]), pa.int32())


_TRIPLE_LISTS = EVENTS.field("triples").type
