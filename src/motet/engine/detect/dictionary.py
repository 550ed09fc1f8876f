"""The strings behind the numbers in tables of occurrences: terms, and the events still in use.

Terms are numbered as they come. Events bring their own numbers, and their triples when somebody delivers them. Both are
rebuilt from what is still in use now and then, so that they do not outgrow the state they serve.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.detect.occurrences import EVENT, Ints, Occurrences, values_in, with_values
from motet.model.schemas import TRIPLE
from motet.model.terms import iri

_TRIPLES = pa.list_(pa.field("item", TRIPLE, nullable=False))


class Terms:
    """
    >>> terms = Terms()
    >>> terms.numbers(pa.array(["<urn:a>", "<urn:b>", "<urn:a>"])).tolist()
    [0, 1, 0]
    >>> terms[1]
    '<urn:b>'
    """

    def __init__(self, strings: Iterable[str] = ()) -> None:
        self.strings = list(strings)
        self._numbers = {string: number for number, string in enumerate(self.strings)}
        self._column = pa.array([], pa.string())  # of the strings, as far as they were asked for

    def __len__(self) -> int:
        return len(self.strings)

    def __getitem__(self, number: int) -> str:
        return self.strings[number]

    def number(self, string: str) -> int:
        found = self._numbers.setdefault(string, len(self.strings))
        if found == len(self.strings):
            self.strings.append(string)
        return found

    def taken(self, numbers: Ints) -> pa.Array:
        """The terms with these numbers."""
        known = len(self._column)
        if known < len(self.strings):
            self._column = pa.concat_arrays([self._column, pa.array(self.strings[known:], pa.string())])
        return self._column.take(pa.array(numbers))

    def numbers(self, strings: pa.Array) -> Ints:
        """The numbers of a column of terms."""
        encoded = strings.dictionary_encode()
        distinct = np.fromiter(map(self.number, encoded.dictionary.to_pylist()), np.int64)
        return distinct[np.asarray(encoded.indices)] if len(distinct) else np.empty(0, np.int64)


class _Chunk(NamedTuple):
    numbers: Ints  # ascending
    ids: pa.Array
    triples: pa.Array | None


class EventNames:
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

    def ids(self, numbers: Ints) -> pa.Array:
        parts, rows = [pa.array([], pa.string())], [np.empty(0, np.int64)]
        for chunk, wanted, places in self._found(numbers):
            parts.append(chunk.ids.take(pa.array(places)))
            rows.append(wanted)
        if len(parts) == 2 and len(rows[1]) == len(numbers):
            return parts[1]
        order = np.argsort(np.concatenate(rows))
        assert len(order) == len(numbers), "the events of occurrences are known"
        return pa.concat_arrays(parts).take(pa.array(order))

    def graphs(self, numbers: Ints) -> list[list[dict[str, str]]]:
        """The triples of events."""
        found: list[list[dict[str, str]]] = [[] for _ in numbers]
        for chunk, wanted, places in self._found(numbers):
            assert chunk.triples is not None, "triples are kept from the beginning or not at all"
            for place, graph in zip(wanted.tolist(), chunk.triples.take(pa.array(places)).to_pylist(), strict=True):
                found[place] = graph
        return found

    def kept(self, numbers: Ints) -> None:
        """Forget all events but these."""
        chunks = [(chunk, np.sort(places)) for chunk, _, places in self._found(np.unique(numbers))]
        taken = [
            _Chunk(
                chunk.numbers[places],
                chunk.ids.take(pa.array(places)),
                None if chunk.triples is None else chunk.triples.take(pa.array(places)),
            )
            for chunk, places in chunks
        ]
        by_kind = ([chunk for chunk in taken if (chunk.triples is None) == bare] for bare in (True, False))
        self._chunks = [_merged(chunks) for chunks in by_kind if chunks]

    def table(self) -> tuple[Ints, pa.Array, pa.Array | None]:
        """All of them, in the order of their numbers."""
        if not self._chunks:
            return np.empty(0, np.int64), pa.array([], pa.string()), None
        return _merged(self._chunks)

    def _found(self, numbers: Ints) -> Iterable[tuple[_Chunk, Ints, Ints]]:
        """For each chunk that has some: which of the numbers, and their places in it."""
        if not len(numbers):
            return
        least, most = numbers.min(), numbers.max()
        for chunk in self._chunks:
            if most < chunk.numbers[0] or chunk.numbers[-1] < least:
                continue
            places = np.searchsorted(chunk.numbers, numbers)
            places[places == len(chunk.numbers)] = 0
            wanted = np.flatnonzero(chunk.numbers[places] == numbers)
            if len(wanted):
                yield chunk, wanted, places[wanted]


class Dictionary:
    """Terms and events together: what the values of occurrences stand for."""

    _FEW = 4096  # not worth looking what of it is still in use
    _A_TABLE = 16  # strings that are not worth looking into a table

    def __init__(self, terms: Terms | None = None, events: EventNames | None = None) -> None:
        self.terms = terms or Terms()
        self.events = events or EventNames()
        self._many = self._FEW

    @property
    def is_crowded(self) -> bool:
        """Much more is known than was in use when that was last looked at."""
        return len(self.terms) + len(self.events) > self._many

    def settle(self, tables: int = 0) -> None:
        """Take everything that is known now for being in use."""
        self._many = self._FEW + self._A_TABLE * tables + 2 * (len(self.terms) + len(self.events))

    def keep(self, tables: Sequence[Occurrences]) -> Callable[[Occurrences], Occurrences]:
        """Forget what does not occur in these tables, which are all there are; how to write them anew is returned."""
        values = _distinct([values_in(table) for table in tables])
        numbers = values[(values >= 0) & (values < EVENT)]
        self.events.kept(_distinct([*(table.events for table in tables), values[values >= EVENT] ^ EVENT]))
        self.terms = Terms([self.terms[number] for number in numbers.tolist()])
        self.settle(len(tables))

        def renumbered(found: Ints) -> Ints:
            plain = (found >= 0) & (found < EVENT)
            return np.where(plain, np.searchsorted(numbers, found), found)

        return lambda table: with_values(table, renumbered) if len(table) else table

    def strings(self, values: Ints) -> pa.Array:
        """The terms that bound values stand for."""
        own = (values & EVENT) != 0
        plain = self.terms.taken(values[~own])
        if not own.any():
            return plain
        events = pc.binary_join_element_wise("<", self.events.ids(values[own] ^ EVENT), ">", "")
        order = np.where(own, len(plain) + np.cumsum(own), np.cumsum(~own)) - 1
        return pa.concat_arrays([plain, events]).take(pa.array(order))

    def string(self, value: int) -> str:
        """The term one value stands for."""
        if value & EVENT:
            return iri(self.events.ids(np.array([value ^ EVENT]))[0].as_py())
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
    numbers = np.concatenate([chunk.numbers for chunk in chunks])
    order = np.argsort(numbers, kind="stable")
    ids = pa.concat_arrays([chunk.ids for chunk in chunks]).take(pa.array(order))
    if all(chunk.triples is None for chunk in chunks):
        return _Chunk(numbers[order], ids, None)
    lists = [pa.nulls(len(c.numbers), _TRIPLES) if c.triples is None else c.triples.cast(_TRIPLES) for c in chunks]
    return _Chunk(numbers[order], ids, pa.concat_arrays(lists).take(pa.array(order)))


def _distinct(arrays: Sequence[Ints]) -> Ints:
    return np.unique(np.concatenate([np.empty(0, np.int64), *arrays]))
