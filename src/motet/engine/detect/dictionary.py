"""The dictionary of occurrence tables: term ids to strings, and event offsets to IRIs and triples.

Terms get their ids in the order in which they first occur. Events are known by their offsets; their triples are held
only if a subscription delivers them. Both are compacted to what the tables use when they have outgrown it.

The document of an XML event that is delivered is held as one more triple, which has neither subject nor predicate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from motet.engine.detect.occurrences import Occurrences, all_values, map_values
from motet.engine.detect.table_kernels import EVENT_BIT, assign_term_ids, concatenate_terms
from motet.engine.match.string_column import Scalar, StringColumn, hash_slots, string_column
from motet.jit.compiled import Ints
from motet.model.batches import TRIPLE, payload_column
from motet.model.terms import iri
from motet.model.xml_document import canonical_document

_MAX_SPARSITY = 8  # offsets for each event up to which a chunk has a direct index
_NO_STRINGS = pa.array([], pa.string())
_TRIPLES = pa.list_(pa.field("item", TRIPLE, nullable=False))


class Terms:
    """The strings of terms, by term id.

    >>> terms = Terms()
    >>> terms.ids(pa.array(["<urn:a>", "<urn:b>", "<urn:a>"])).tolist()
    [0, 1, 0]
    >>> terms[1]
    '<urn:b>'
    """

    _SPARE_TERMS, _TERM_BYTES = 64, 64  # reserved beyond the need, and bytes for each of them

    def __init__(self, strings: pa.Array = _NO_STRINGS) -> None:
        self._size = 0
        self._offsets = np.zeros(1, np.int64)  # of each term in the data
        self._data = np.empty(0, np.uint8)
        self._hashes = np.empty(0, np.uint64)
        self._slots = np.empty(0, np.int32)
        self._reserve(len(strings), len(string_column(strings).data))
        self.ids(strings)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, term_id: int) -> str:
        return self._data[self._offsets[term_id] : self._offsets[term_id + 1]].tobytes().decode()

    def strings(self) -> pa.Array:
        """All terms, by id."""
        return term_column(np.arange(self._size), self, _NO_STRINGS)

    def buffers(self) -> tuple[Ints, npt.NDArray[np.uint8]]:
        """The offsets of all terms in an array of bytes, and that array; both may be longer than used."""
        return self._offsets, self._data

    def ids(self, strings: pa.Array) -> Ints:
        """The ids of a column of terms."""
        return self.ids_at(string_column(strings), np.arange(len(strings)))

    def ids_at(self, strings: StringColumn, indexes: Ints) -> Ints:
        """The ids of the terms at some indexes; -1 for the index -1."""
        ids, done = np.empty(len(indexes), np.int64), 0
        while True:
            arrays = self._offsets, self._data, self._hashes, self._slots
            done, self._size = assign_term_ids(*strings, indexes, ids, done, self._size, *arrays)
            if done == len(indexes):
                return ids
            length = int(strings.offsets[indexes[done] + 1] - strings.offsets[indexes[done]])
            self._reserve(self._size, int(self._offsets[self._size]) + length)

    def _reserve(self, count: int, length: int) -> None:
        """Make room for so many more terms, and for so many bytes of them."""
        size, used = self._size, int(self._offsets[self._size])
        self._offsets = _enlarge(self._offsets, size + 1, size + 1 + count + self._SPARE_TERMS)
        self._data = _enlarge(self._data, used, used + length + self._SPARE_TERMS * self._TERM_BYTES)
        self._hashes = _enlarge(self._hashes, size, size + count + self._SPARE_TERMS)
        self._slots = hash_slots(self._hashes[:size], 2 * len(self._hashes))


def _enlarge(array: npt.NDArray[Scalar], used: int, size: int) -> npt.NDArray[Scalar]:
    larger = np.empty(size, array.dtype)
    larger[:used] = array[:used]
    return larger


def delivered_triples(events: pa.RecordBatch) -> pa.Array:
    """The triples of events, and the canonical documents of XML events as triples without subject and predicate."""
    triples, payloads = events.column("triples"), payload_column(events)
    if payloads.null_count == len(payloads):
        return triples
    rows = zip(triples.to_pylist(), payloads.to_pylist(), strict=True)
    return pa.array([row if payload is None else [*row, _document_triple(payload)] for row, payload in rows], _TRIPLES)


def _document_triple(payload: bytes) -> dict[str, str]:
    return {"subject": "", "predicate": "", "object": canonical_document(payload).decode()}


def term_column(indexes: Ints, terms: Terms, iris: pa.Array) -> pa.Array:
    """A column of terms: an index is a term id, or ``~i`` for the IRI ``iris[i]``.

    >>> term_column(np.array([~1, 0]), Terms(pa.array(["<urn:a>"])), pa.array(["urn:b", "urn:c"])).to_pylist()
    ['<urn:c>', '<urn:a>']
    """
    offsets, data = concatenate_terms(indexes, *terms.buffers(), *string_column(iris))
    column = pa.LargeStringArray.from_buffers(len(indexes), pa.py_buffer(offsets), pa.py_buffer(data))
    return column.cast(pa.string())


@dataclass(frozen=True)
class _Chunk:
    """Events in the order of their offsets."""

    offsets: Ints
    iris: pa.Array
    triples: pa.Array | None

    def rows(self, offsets: Ints) -> Ints:
        """The row of each offset; any row for an offset that is not here."""
        if self._row_by_distance is None:
            rows = np.searchsorted(self.offsets, offsets)
            rows[rows == len(self.offsets)] = 0
            return rows
        return self._row_by_distance[np.clip(offsets - self.offsets[0], 0, len(self._row_by_distance) - 1)]

    def take(self, rows: Ints) -> _Chunk:
        indexes = pa.array(rows)
        triples = None if self.triples is None else self.triples.take(indexes)
        return _Chunk(self.offsets[rows], self.iris.take(indexes), triples)

    @cached_property
    def _row_by_distance(self) -> Ints | None:
        """The rows by the distance of their offsets from the first one, unless the offsets are too sparse."""
        distances = self.offsets - self.offsets[0]
        if distances[-1] > _MAX_SPARSITY * len(distances):
            return None
        rows = np.zeros(distances[-1] + 1, np.int64)
        rows[distances] = np.arange(len(distances))
        return rows


class EventIris:
    """The IRIs of events by their offsets, and their triples if these are delivered."""

    def __init__(self, *, with_triples: bool = False) -> None:
        self.with_triples = with_triples
        self._chunks: list[_Chunk] = []

    def __len__(self) -> int:
        return sum(len(chunk.offsets) for chunk in self._chunks)

    def add(self, offsets: Ints, iris: pa.Array, triples: pa.Array | None) -> None:
        """Add events in the order of their offsets; events that are there already stay as they are."""
        if self.with_triples:
            chunks = (_without(chunk, offsets) if chunk.triples is None else chunk for chunk in self._chunks)
            self._chunks = [chunk for chunk in chunks if len(chunk.offsets)]
        exists = np.zeros(len(offsets), np.bool_)
        for _, indexes, _ in self._find(offsets):
            exists[indexes] = True
        if exists.any():
            is_new = pa.array(~exists)
            offsets, iris = offsets[~exists], iris.filter(is_new)
            triples = None if triples is None else triples.filter(is_new)
        if len(offsets):
            self._chunks.append(_Chunk(offsets, iris.cast(pa.string()), triples if self.with_triples else None))
        while len(self._chunks) > 1 and _should_merge(*self._chunks[-2:]):
            self._chunks[-2:] = [_merge(self._chunks[-2:])]

    def iris(self, offsets: Ints) -> pa.Array:
        """The IRIs of events."""
        iris, indexes = self.iri_indexes(offsets)
        return iris.take(pa.array(indexes))

    def iri_indexes(self, offsets: Ints) -> tuple[pa.Array, Ints]:
        """A column of IRIs, and the index in it of each event's IRI."""
        hits = list(self._find(offsets))
        if len(hits) == 1 and len(hits[0][1]) == len(offsets):
            return hits[0][0].iris, hits[0][2]
        columns = [_NO_STRINGS, *(chunk.iris.take(pa.array(rows)) for chunk, _, rows in hits)]
        order = np.argsort(np.concatenate([np.empty(0, np.int64), *(indexes for _, indexes, _ in hits)]))
        assert len(order) == len(offsets), "the events of occurrences are in the dictionary"
        return pa.concat_arrays(columns), order

    def graphs(self, offsets: Ints) -> list[list[dict[str, str]]]:
        """The triples of events."""
        graphs: list[list[dict[str, str]]] = [[] for _ in offsets]
        for chunk, indexes, rows in self._find(offsets):
            assert chunk.triples is not None, "triples are held from the beginning or not at all"
            for index, graph in zip(indexes.tolist(), chunk.triples.take(pa.array(rows)).to_pylist(), strict=True):
                graphs[index] = graph
        return graphs

    def retain(self, offsets: Ints) -> None:
        """Drop all events but these."""
        chunks = [chunk.take(_sorted_distinct(rows, len(chunk.offsets))) for chunk, _, rows in self._find(offsets)]
        by_kind = ([chunk for chunk in chunks if (chunk.triples is None) == is_bare] for is_bare in (True, False))
        self._chunks = [_merge(same_kind) for same_kind in by_kind if same_kind]

    def table(self) -> tuple[Ints, pa.Array, pa.Array | None]:
        """The offsets, IRIs and triples of all events, in the order of the offsets."""
        if not self._chunks:
            return np.empty(0, np.int64), pa.array([], pa.string()), None
        whole = _merge(self._chunks)
        return whole.offsets, whole.iris, whole.triples

    def _find(self, offsets: Ints) -> Iterable[tuple[_Chunk, Ints, Ints]]:
        """For each chunk with some of these events: their indexes in ``offsets``, and their rows in the chunk."""
        if not len(offsets):
            return
        first, last = offsets.min(), offsets.max()
        for chunk in self._chunks:
            if last < chunk.offsets[0] or chunk.offsets[-1] < first:
                continue
            rows = chunk.rows(offsets)
            indexes = np.flatnonzero(chunk.offsets[rows] == offsets)
            if len(indexes):
                yield chunk, indexes, rows[indexes]


class Dictionary:
    """Terms and events together: the strings that the values of occurrence tables stand for."""

    _MIN_THRESHOLD = 4096  # entries below which compaction is not worth its time
    _PER_TABLE = 16  # entries that are not worth looking into one more table

    def __init__(self, terms: Terms | None = None, events: EventIris | None = None) -> None:
        self.terms = terms or Terms()
        self.events = events or EventIris()
        self._threshold = self._MIN_THRESHOLD

    @property
    def should_compact(self) -> bool:
        """Whether it has grown far beyond what was in use at the last compaction."""
        return len(self.terms) + len(self.events) > self._threshold

    def reset_threshold(self, tables: int = 0) -> None:
        """Set the size for the next compaction, as if everything were in use now."""
        entries = len(self.terms) + len(self.events)
        self._threshold = self._MIN_THRESHOLD + self._PER_TABLE * tables + 2 * entries

    def compact(self, tables: Sequence[Occurrences]) -> Callable[[Occurrences], Occurrences]:
        """Drop what no table uses; ``tables`` are all there are. Returns the function that renumbers a table."""
        values = _concatenate([all_values(table) for table in tables])
        self.events.retain(_concatenate([*(table.events for table in tables), values[values >= EVENT_BIT] ^ EVENT_BIT]))
        is_used = np.zeros(len(self.terms), np.bool_)
        is_used[values[(values >= 0) & (values < EVENT_BIT)]] = True
        self.terms = Terms(term_column(np.flatnonzero(is_used), self.terms, _NO_STRINGS))
        self.reset_threshold(len(tables))
        new_ids = np.cumsum(is_used) - 1

        def renumber(values: Ints) -> Ints:
            renumbered, is_term = values.copy(), (values >= 0) & (values < EVENT_BIT)
            renumbered[is_term] = new_ids[values[is_term]]
            return renumbered

        return lambda table: map_values(table, renumber) if len(table) else table

    def strings(self, values: Ints) -> pa.Array:
        """The terms that bound values stand for."""
        is_event = values >= EVENT_BIT
        if not is_event.any():
            return term_column(values, self.terms, _NO_STRINGS)
        iris, iri_indexes = self.events.iri_indexes(values[is_event] ^ EVENT_BIT)
        indexes = values.copy()
        indexes[is_event] = ~iri_indexes
        return term_column(indexes, self.terms, iris)

    def string(self, value: int) -> str:
        """The term that one value stands for."""
        if value & EVENT_BIT:
            return iri(self.events.iris(np.array([value ^ EVENT_BIT]))[0].as_py())
        return self.terms[value]


def _without(chunk: _Chunk, offsets: Ints) -> _Chunk:
    """A chunk without triples, less the events that are about to be added with theirs."""
    is_other = ~np.isin(chunk.offsets, offsets)
    return _Chunk(chunk.offsets[is_other], chunk.iris.filter(pa.array(is_other)), None)


def _should_merge(previous: _Chunk, last: _Chunk) -> bool:
    """Whether the last two chunks become one: sizes fall, so that there are few; those without triples stay apart."""
    return len(previous.offsets) <= len(last.offsets) and (previous.triples is None) == (last.triples is None)


def _merge(chunks: Sequence[_Chunk]) -> _Chunk:
    if len(chunks) == 1:
        return chunks[0]
    offsets = np.concatenate([chunk.offsets for chunk in chunks])
    iris = pa.concat_arrays([chunk.iris for chunk in chunks])
    lists = [pa.nulls(len(c.offsets), _TRIPLES) if c.triples is None else c.triples.cast(_TRIPLES) for c in chunks]
    triples = None if all(chunk.triples is None for chunk in chunks) else pa.concat_arrays(lists)
    merged = _Chunk(offsets, iris, triples)
    return merged if (offsets[1:] > offsets[:-1]).all() else merged.take(np.argsort(offsets, kind="stable"))


def _concatenate(arrays: Sequence[Ints]) -> Ints:
    return np.concatenate([np.empty(0, np.int64), *arrays])


def _sorted_distinct(rows: Ints, count: int) -> Ints:
    """The distinct rows, all below a count, in ascending order."""
    is_taken = np.zeros(count, np.bool_)
    is_taken[rows] = True
    return np.flatnonzero(is_taken)
