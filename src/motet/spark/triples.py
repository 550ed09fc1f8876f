"""Triples as text and back: Spark moves a string per event far more cheaply than a nested row per triple.

A term has no line break of its own (in N-Triples it is written ``\\n``), so terms stand one to a line.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.model.schemas import EVENTS, TRIPLE

_BREAK = "\n"


def to_text(triples: pa.ListArray) -> pa.StringArray:
    """The triples of each event as one string.

    >>> to_text(pa.array([[{"subject": "<urn:s>", "predicate": "<urn:p>", "object": '"o"'}], []], _LISTS)).to_pylist()
    ['<urn:s>\\n<urn:p>\\n"o"', '']
    """
    terms = triples.flatten().flatten()
    lines = pc.binary_join_element_wise(*terms, _BREAK)
    lengths = pc.list_value_length(triples).to_numpy()
    return pc.binary_join(pa.ListArray.from_arrays(_offsets(lengths), lines), _BREAK)


def from_text(texts: pa.StringArray) -> pa.ListArray:
    """The inverse of :func:`to_text`.

    >>> from_text(pa.array(['<urn:s>\\n<urn:p>\\n"o"', ''])).to_pylist()
    [[{'subject': '<urn:s>', 'predicate': '<urn:p>', 'object': '"o"'}], []]
    """
    split = pc.split_pattern(texts, _BREAK)
    terms = split.flatten()
    terms = terms.filter(pc.not_equal(terms, ""))  # an event without triples has one line, an empty one
    places = np.arange(0, len(terms), len(TRIPLE))
    columns = [terms.take(pa.array(places + number)) for number in range(len(TRIPLE))]
    lengths = pc.list_value_length(split).to_numpy() // len(TRIPLE)
    return pa.ListArray.from_arrays(
        _offsets(lengths), pa.StructArray.from_arrays(columns, fields=list(TRIPLE)), type=_LISTS
    )


def _offsets(lengths: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())


_LISTS = EVENTS.field("triples").type
