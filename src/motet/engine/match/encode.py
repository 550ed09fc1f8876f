"""A batch of events as encoded quads: numbers, codes and values in columns, ready to be searched for."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from motet.engine.match.encode_kernels import Vocabulary, encode_rows
from motet.engine.match.search_kernels import KIND, REF, Rows
from motet.engine.match.texts import Codes, Ints, Numbers, Texts, frozen, texts
from motet.engine.match.values import comparable
from motet.engine.match.vocabulary import class_names

SLOW = 255


class Encoded(NamedTuple):
    """The rows of event ``i`` are ``starts[i]`` to ``starts[i + 1]``, sorted by predicate, then code, each once."""

    starts: Ints
    row: Numbers  # predicate, reference to the object among the terms, kind of its value
    code: Codes
    value: npt.NDArray[np.float64]
    terms: pa.Array  # of a few events, a list
    strings: Texts  # of the terms

    def rows(self) -> Rows:
        return Rows(self.starts, self.row, self.code, self.value, *self.strings)


def encode(events: pa.RecordBatch, known: Vocabulary) -> Encoded:
    """The triples about the events themselves that the vocabulary knows, with all its hierarchy adds.

    >>> from motet.engine.match.vocabulary import vocabulary
    >>> from motet.model.batches import EVENTS
    >>> triple = {"subject": "<urn:e>", "predicate": "<urn:p>", "object": '"5"^^<http://www.w3.org/2001/XMLSchema#byte>'}
    >>> event = {"id": "urn:e", "start": 0, "end": 0, "triples": [triple], "line": 1}
    >>> found = encode(pa.RecordBatch.from_pylist([event], EVENTS), vocabulary(["<urn:p>"], {"<urn:p>"}, {}, {}))
    >>> found.starts.tolist(), found.value.tolist()
    ([0, 1], [5.0])
    """
    offsets, subjects, predicates, objects = _columns(events.column("triples"))
    strings = texts(objects)
    columns = (*texts(events.column("id")), *texts(subjects), *texts(predicates), *strings)
    starts, row, code, value = encode_rows(offsets, *columns, *known)
    settle_slow(row, value, lambda ref: objects[ref].as_py())
    classes = class_names(known)
    if not len(classes):
        return Encoded(starts, row, code, value, objects, strings)
    terms = pa.concat_arrays([objects, classes])
    return Encoded(starts, row, code, value, terms, texts(terms))


def settle_slow(row: Numbers, value: npt.NDArray[np.float64], term: Callable[[int], str]) -> None:
    """Find out about the values that the kernel has left alone."""
    for at in (row[:, KIND] == SLOW).nonzero()[0]:
        value[at], row[at, KIND] = comparable(term(int(row[at, REF])))


def _columns(lists: pa.ListArray) -> tuple[Ints, pa.Array, pa.Array, pa.Array]:
    """Where each list begins, and the columns of all triples; those of whole batches are there already."""
    offsets = np.asarray(lists.offsets).astype(np.int64)
    triples = lists.values
    if offsets[0] == 0 and offsets[-1] == len(triples) and not lists.null_count:
        return frozen(offsets), triples.field(0), triples.field(1), triples.field(2)
    return (frozen(offsets - offsets[0]), *lists.flatten().flatten())
