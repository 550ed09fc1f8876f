"""The strings behind the numbers in tables of occurrences: terms, and the events still in use.

Terms are numbered as they come. Events bring their own numbers, and their triples when somebody delivers them. Both are
rebuilt from what is still in use now and then, so that they do not outgrow the state they serve.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from motet.engine.detect.columns import EVENT_BIT, Ints
from motet.engine.detect.occurrences import Occurrences, all_values, map_values
from motet.engine.detect.table_kernels import assign_term_ids, concatenate_terms
from motet.engine.match.texts import Scalar, slots, texts
from motet.model.schemas import TRIPLE
from motet.model.terms import iri

_GAPS = 8  # as many numbers as events for each of which a place is kept
_NONE = pa.array([], pa.string())
_TRIPLES = pa.list_(pa.field("item", TRIPLE, nullable=False))


class Terms:
    """
    >>> terms = Terms()
    >>> terms.ids(pa.array(["<urn:a>", "<urn:b>", "<urn:a>"])).tolist()
    [0, 1, 0]
    >>> terms[1]
    '<urn:b>'
    """

    _FEW, _SHORT = 64, 64  # terms there is always room for when room is made, and bytes for each

    def __init__(self, strings: pa.Array = _NONE) -> None:
        self._size = 0
        self._offsets = np.zeros(1, np.int64)  # of each term in the data
        self._data = np.empty(0, np.uint8)
        self._codes = np.empty(0, np.uint64)
        self._slots = np.empty(0, np.int32)
        self._make_room(len(strings), len(texts(strings).data))
        self.ids(strings)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, number: int) -> str:
        return self._data[self._offsets[number] : self._offsets[number + 1]].tobytes().decode()

    def strings(self) -> pa.Array:
        """All of them, by number."""
        return term_column(np.arange(self._size), self, _NONE)

    def buffers(self) -> tuple[Ints, npt.NDArray[np.uint8]]:
        """Where each term begins and the last one ends in which bytes; there may be room behind."""
        return self._offsets, self._data

    def ids(self, strings: pa.Array, wanted: Ints | None = None) -> Ints:
        """The numbers of a column of terms, or of some places in it; -1 for the place -1."""
        places = np.arange(len(strings)) if wanted is None else wanted
        found, done, given = np.empty(len(places), np.int64), 0, texts(strings)
        while True:
            own = self._offsets, self._data, self._codes, self._slots
            done, self._size = assign_term_ids(*given, places, found, done, self._size, *own)
            if done == len(places):
                return found
            length = int(given.offsets[places[done] + 1] - given.offsets[places[done]])
            self._make_room(self._size, int(self._offsets[self._size]) + length)

    def _make_room(self, count: int, length: int) -> None:
        """For so many more terms, and bytes of them."""
        size, used = self._size, int(self._offsets[self._size])
        self._offsets = _larger(self._offsets, size + 1, size + 1 + count + self._FEW)
        self._data = _larger(self._data, used, used + length + self._FEW * self._SHORT)
        self._codes = _larger(self._codes, size, size + count + self._FEW)
        self._slots = slots(self._codes[:size], 2 * len(self._codes))


def _larger(array: npt.NDArray[Scalar], used: int, room: int) -> npt.NDArray[Scalar]:
    found = np.empty(room, array.dtype)
    found[:used] = array[:used]
    return found


def term_column(places: Ints, terms: Terms, ids: pa.Array) -> pa.Array:
    """The terms of some numbers, and where those are below 0 the IRIs of some ids, the first of which has the place -1.

    >>> term_column(np.array([-2, 0]), Terms(pa.array(["<urn:a>"])), pa.array(["urn:b", "urn:c"])).to_pylist()
    ['<urn:c>', '<urn:a>']
    """
    offsets, data = concatenate_terms(places, *terms.buffers(), *texts(ids))
    column = pa.LargeStringArray.from_buffers(len(places), pa.py_buffer(offsets), pa.py_buffer(data))
    return column.cast(pa.string())


@dataclass(frozen=True)
class _Chunk:
    numbers: Ints  # ascending
    ids: pa.Array
    triples: pa.Array | None

    def places(self, numbers: Ints) -> Ints:
        """Where some numbers are; that of another one where one is not."""
        if self._by_number is None:
            places = np.searchsorted(self.numbers, numbers)
            places[places == len(self.numbers)] = 0
            return places
        return self._by_number[np.clip(numbers - self.numbers[0], 0, len(self._by_number) - 1)]

    def taken(self, places: Ints) -> _Chunk:
        rows = pa.array(places)
        triples = None if self.triples is None else self.triples.take(rows)
        return _Chunk(self.numbers[places], self.ids.take(rows), triples)

    @cached_property
    def _by_number(self) -> Ints | None:
        """The places by how far numbers are from the first one, unless there are large gaps."""
        numbers = self.numbers - self.numbers[0]
        if numbers[-1] > _GAPS * len(numbers):
            return None
        found = np.zeros(numbers[-1] + 1, np.int64)
        found[numbers] = np.arange(len(numbers))
        return found


class EventIris:
    """The ids of events by their numbers, and their triples if those are kept."""

    def __init__(self, *, with_triples: bool = False) -> None:
        self.with_triples = with_triples
        self._chunks: list[_Chunk] = []

    def __len__(self) -> int:
        return sum(len(chunk.numbers) for chunk in self._chunks)

    def add(self, numbers: Ints, ids: pa.Array, triples: pa.Array | None) -> None:
        """More events, in the order of their numbers; those that are known stay as they are."""
        if self.with_triples:
            chunks = (_without(chunk, numbers) if chunk.triples is None else chunk for chunk in self._chunks)
            self._chunks = [chunk for chunk in chunks if len(chunk.numbers)]
        known = np.zeros(len(numbers), np.bool_)
        for _, wanted, _ in self._found(numbers):
            known[wanted] = True
        if known.any():
            fresh = pa.array(~known)
            numbers, ids = numbers[~known], ids.filter(fresh)
            triples = None if triples is None else triples.filter(fresh)
        if len(numbers):
            self._chunks.append(_Chunk(numbers, ids.cast(pa.string()), triples if self.with_triples else None))
        while len(self._chunks) > 1 and _should_merge(*self._chunks[-2:]):
            self._chunks[-2:] = [_merged(self._chunks[-2:])]

    def iris(self, numbers: Ints) -> pa.Array:
        ids, places = self.iri_indexes(numbers)
        return ids.take(pa.array(places))

    def iri_indexes(self, numbers: Ints) -> tuple[pa.Array, Ints]:
        """Ids, and the places of those that events with these numbers have."""
        found = list(self._found(numbers))
        if len(found) == 1 and len(found[0][1]) == len(numbers):
            return found[0][0].ids, found[0][2]
        parts = [_NONE, *(chunk.ids.take(pa.array(places)) for chunk, _, places in found)]
        order = np.argsort(np.concatenate([np.empty(0, np.int64), *(wanted for _, wanted, _ in found)]))
        assert len(order) == len(numbers), "the events of occurrences are known"
        return pa.concat_arrays(parts), order

    def graphs(self, numbers: Ints) -> list[list[dict[str, str]]]:
        """The triples of events."""
        found: list[list[dict[str, str]]] = [[] for _ in numbers]
        for chunk, wanted, places in self._found(numbers):
            assert chunk.triples is not None, "triples are kept from the beginning or not at all"
            for place, graph in zip(wanted.tolist(), chunk.triples.take(pa.array(places)).to_pylist(), strict=True):
                found[place] = graph
        return found

    def retain(self, numbers: Ints) -> None:
        """Forget all events but these."""
        taken = [chunk.taken(_marked(places, len(chunk.numbers))) for chunk, _, places in self._found(numbers)]
        by_kind = ([chunk for chunk in taken if (chunk.triples is None) == bare] for bare in (True, False))
        self._chunks = [_merged(chunks) for chunks in by_kind if chunks]

    def table(self) -> tuple[Ints, pa.Array, pa.Array | None]:
        """All of them, in the order of their numbers."""
        if not self._chunks:
            return np.empty(0, np.int64), pa.array([], pa.string()), None
        whole = _merged(self._chunks)
        return whole.numbers, whole.ids, whole.triples

    def _found(self, numbers: Ints) -> Iterable[tuple[_Chunk, Ints, Ints]]:
        """For each chunk that has some: which of the numbers, and their places in it."""
        if not len(numbers):
            return
        least, most = numbers.min(), numbers.max()
        for chunk in self._chunks:
            if most < chunk.numbers[0] or chunk.numbers[-1] < least:
                continue
            places = chunk.places(numbers)
            wanted = np.flatnonzero(chunk.numbers[places] == numbers)
            if len(wanted):
                yield chunk, wanted, places[wanted]


class Dictionary:
    """Terms and events together: what the values of occurrences stand for."""

    _FEW = 4096  # not worth looking what of it is still in use
    _A_TABLE = 16  # strings that are not worth looking into a table

    def __init__(self, terms: Terms | None = None, events: EventIris | None = None) -> None:
        self.terms = terms or Terms()
        self.events = events or EventIris()
        self._many = self._FEW

    @property
    def should_compact(self) -> bool:
        """Much more is known than was in use when that was last looked at."""
        return len(self.terms) + len(self.events) > self._many

    def reset_threshold(self, tables: int = 0) -> None:
        """Take everything that is known now for being in use."""
        self._many = self._FEW + self._A_TABLE * tables + 2 * (len(self.terms) + len(self.events))

    def compact(self, tables: Sequence[Occurrences]) -> Callable[[Occurrences], Occurrences]:
        """Forget what does not occur in these tables, which are all there are; how to write them anew is returned."""
        values = _joined([all_values(table) for table in tables])
        self.events.retain(_joined([*(table.events for table in tables), values[values >= EVENT_BIT] ^ EVENT_BIT]))
        is_used = np.zeros(len(self.terms), np.bool_)
        is_used[values[(values >= 0) & (values < EVENT_BIT)]] = True
        self.terms = Terms(term_column(np.flatnonzero(is_used), self.terms, _NONE))
        self.reset_threshold(len(tables))
        number = np.cumsum(is_used) - 1

        def renumbered(found: Ints) -> Ints:
            changed, plain = found.copy(), (found >= 0) & (found < EVENT_BIT)
            changed[plain] = number[found[plain]]
            return changed

        return lambda table: map_values(table, renumbered) if len(table) else table

    def strings(self, values: Ints) -> pa.Array:
        """The terms that bound values stand for."""
        own = values >= EVENT_BIT
        if not own.any():
            return term_column(values, self.terms, _NONE)
        ids, places = self.events.iri_indexes(values[own] ^ EVENT_BIT)
        numbers = values.copy()
        numbers[own] = ~places
        return term_column(numbers, self.terms, ids)

    def string(self, value: int) -> str:
        """The term one value stands for."""
        if value & EVENT_BIT:
            return iri(self.events.iris(np.array([value ^ EVENT_BIT]))[0].as_py())
        return self.terms[value]


def _without(chunk: _Chunk, numbers: Ints) -> _Chunk:
    """Without those that are about to come with their triples."""
    stays = ~np.isin(chunk.numbers, numbers)
    return _Chunk(chunk.numbers[stays], chunk.ids.filter(pa.array(stays)), None)


def _should_merge(before: _Chunk, last: _Chunk) -> bool:
    """So that there are few, of sizes that fall; those without triples stay apart."""
    return len(before.numbers) <= len(last.numbers) and (before.triples is None) == (last.triples is None)


def _merged(chunks: Sequence[_Chunk]) -> _Chunk:
    if len(chunks) == 1:
        return chunks[0]
    numbers, ids = (
        np.concatenate([chunk.numbers for chunk in chunks]),
        pa.concat_arrays([chunk.ids for chunk in chunks]),
    )
    lists = [pa.nulls(len(c.numbers), _TRIPLES) if c.triples is None else c.triples.cast(_TRIPLES) for c in chunks]
    triples = None if all(chunk.triples is None for chunk in chunks) else pa.concat_arrays(lists)
    merged = _Chunk(numbers, ids, triples)
    return merged if (numbers[1:] > numbers[:-1]).all() else merged.taken(np.argsort(numbers, kind="stable"))


def _joined(arrays: Sequence[Ints]) -> Ints:
    return np.concatenate([np.empty(0, np.int64), *arrays])


def _marked(places: Ints, count: int) -> Ints:
    """The places below some number, in order and each once."""
    is_marked = np.zeros(count, np.bool_)
    is_marked[places] = True
    return np.flatnonzero(is_marked)
