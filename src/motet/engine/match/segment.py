"""A fixed set of leaves as sorted arrays that can be searched; segments are made in one go and never change.

Bulk registration needs no objects per leaf: a `Block` is a table of the constants and ranges of leaves of one shape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from motet.engine.match.encode import Encoded
from motet.engine.match.leaf import Entry, Shape
from motet.engine.match.plan_kernels import bucket_keys, constant_codes, plant, tagged_slots
from motet.engine.match.search_kernels import (
    ARITY,
    ASKED,
    BUCKET,
    ENTRY,
    EVENT,
    FLAG_BITS,
    HIGH,
    HIT_LEAF,
    IS_OPEN,
    LAST_BUCKET,
    LOW,
    MORE,
    PACKED,
    WITNESS,
    Plan,
    search,
)
from motet.engine.match.texts import frozen, texts
from motet.engine.match.vocabulary import Lists, lists

Floats = npt.NDArray[np.float64]
_LINE = 64  # bytes
_NONE = pa.array([], pa.string())


@dataclass(frozen=True, slots=True)
class Block:
    """Entries of one shape, as columns."""

    shape: Shape
    terms: tuple[pa.Array, ...]  # one column for each part
    intervals: Floats  # by entry and range: low, high, flags
    leaf: npt.NDArray[np.int32]


class Hits(NamedTuple):
    """Events that meet leaves, as the search has written them down."""

    table: npt.NDArray[np.int32]  # also the rows that met the leaf's parts and ranges

    @property
    def event(self) -> npt.NDArray[np.int32]:
        return self.table[:, EVENT]

    @property
    def leaf(self) -> npt.NDArray[np.int32]:
        return self.table[:, HIT_LEAF]

    @property
    def is_open(self) -> npt.NDArray[np.bool_]:
        """Only the verifier can tell."""
        return np.not_equal(self.table[:, IS_OPEN], 0)


@dataclass(frozen=True, slots=True)
class Segment:
    """Searchable arrays; a shape's number is its place in ``shapes``."""

    shapes: tuple[Shape, ...]
    plan: Plan
    dictionary: pa.Array  # the terms of the constants
    anchored: Lists  # the shapes to try always, then by predicate those to try when an event has it
    slots: int  # the most predicates of a shape

    def search(self, encoded: Encoded) -> Hits:
        """Which leaves the events meet, by event and leaf."""
        rows, size, event = encoded.rows(), 0, 0
        table = np.empty((len(rows.starts) + 64, WITNESS + self.slots), np.int32)
        while True:
            size, event = search(self.slots, table, size, event, *self.anchored, *rows, *self.plan)
            if event == len(rows.starts) - 1:
                break
            table = _with_room(table, size)
        return Hits(table[:size])

    def blocks(self) -> list[Block]:
        """The tables the segment was made of, in its own order."""
        return [self._block(number) for number in range(len(self.shapes))]

    def _block(self, number: int) -> Block:
        shape, plan, place = self.shapes[number], self.plan, self.plan.shape[number]
        parts, further = len(shape.parts), max(len(shape.ranges) - 1, 0)
        buckets = plan.bucket[place[BUCKET] : place[LAST_BUCKET]].reshape(-1, parts + 1)
        sizes = np.diff(np.append(buckets[:, 0], plan.bucket[place[LAST_BUCKET]]))
        count = int(sizes.sum())
        entries = slice(place[ENTRY], place[ENTRY] + count)
        repeated = np.repeat(buckets[:, 1:], sizes, axis=0)
        leaf, flags = np.divmod(plan.entry[entries, PACKED], 2**FLAG_BITS)
        first = np.stack([plan.entry[entries, LOW], plan.entry[entries, HIGH], flags], axis=1)
        more = plan.more[place[MORE] : place[MORE] + count * further].reshape(count, further, 3)
        intervals = np.concatenate([first[:, None], more], axis=1)[:, : len(shape.ranges)]
        found = tuple(self.dictionary.take(pa.array(repeated[:, part])) for part in range(parts))
        return Block(shape, found, intervals, leaf.astype(np.int32))


def _with_room(table: npt.NDArray[np.int32], size: int) -> npt.NDArray[np.int32]:
    """The first rows of a table, with room for more; what is not written to takes no memory."""
    larger = np.empty((4 * len(table), table.shape[1]), np.int32)
    larger[:size] = table[:size]
    return larger


def blocks_of(entries: Sequence[Entry]) -> list[Block]:
    """The tables of some entries; their leaves are numbered as they come."""
    by_shape: dict[Shape, list[tuple[int, Entry]]] = {}
    for leaf, entry in enumerate(entries):
        by_shape.setdefault(entry.shape, []).append((leaf, entry))
    return [_table(shape, found) for shape, found in by_shape.items()]


def _table(shape: Shape, found: Iterable[tuple[int, Entry]]) -> Block:
    rows = [(leaf, terms, entry.intervals) for leaf, entry in found for terms in entry.terms]
    columns = tuple(pa.array([terms[part] for _, terms, _ in rows], pa.string()) for part in range(len(shape.parts)))
    intervals = np.array([intervals for _, _, intervals in rows], np.float64).reshape(len(rows), len(shape.ranges), 3)
    return Block(shape, columns, intervals, np.array([leaf for leaf, _, _ in rows], np.int32))


def build(blocks: Sequence[Block], predicates: Mapping[str, int]) -> Segment:
    """Sort the tables of distinct shapes into a segment; ``predicates`` are the vocabulary's numbers."""
    dictionary, terms = _encoded(blocks)
    tables = [_sorted(block, ids) for block, ids in zip(blocks, terms, strict=True)]
    shapes = tuple(block.shape for block in blocks)
    slots_ = max((len(list(shape.predicates())) for shape in shapes), default=0)
    return Segment(shapes, _plan(tables, predicates, dictionary), dictionary, _anchored(shapes, predicates), slots_)


def _encoded(blocks: Sequence[Block]) -> tuple[pa.Array, list[npt.NDArray[np.int32]]]:
    """All terms once, and for each table its terms by number. Copies of all terms would stay in Arrow's memory."""
    columns = [column for block in blocks for column in block.terms if len(column)]
    encoded = pa.chunked_array(columns, pa.string()).dictionary_encode().unify_dictionaries()
    chunks, found = iter(encoded.chunks), []
    for block in blocks:
        ids = np.empty((len(block.leaf), len(block.terms)), np.int32)
        for part in range(len(block.terms) if len(ids) else 0):
            ids[:, part] = np.asarray(next(chunks).indices)
        found.append(ids)
    return encoded.chunk(0).dictionary if encoded.num_chunks else _NONE, found


def _sorted(block: Block, ids: npt.NDArray[np.int32]) -> tuple[Block, npt.NDArray[np.int32]]:
    """By the terms, then by the lower end of the first range."""
    order = np.lexsort([block.leaf, *block.intervals[:, :1, 0].T, *ids.T])
    return Block(block.shape, (), block.intervals[order], block.leaf[order]), ids[order]


def _first_of_bucket(ids: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """Where the sorted terms change."""
    changes = np.any(ids[1:] != ids[:-1], axis=1) if len(ids) else np.zeros(0, np.bool_)
    return np.flatnonzero(np.append(np.ones(min(len(ids), 1), np.bool_), changes))


def _plan(
    tables: Sequence[tuple[Block, npt.NDArray[np.int32]]], predicates: Mapping[str, int], dictionary: pa.Array
) -> Plan:
    strings = texts(dictionary)
    codes = constant_codes(strings)
    blocks = [block for block, _ in tables]
    firsts = [_first_of_bucket(ids) for _, ids in tables]
    constants = [np.ascontiguousarray(ids[first]) for first, (_, ids) in zip(firsts, tables, strict=True)]
    keys = _stacked([bucket_keys(number, terms, codes) for number, terms in enumerate(constants)], np.uint64)
    shape = _shape_table(blocks, predicates, [len(found) for found in constants])
    places = [np.arange(row[BUCKET], row[LAST_BUCKET], row[ARITY] + 1) for row in shape]
    buckets = [
        np.column_stack([row[ENTRY] + first, terms]) for row, first, terms in zip(shape, firsts, constants, strict=True)
    ]
    end = np.array([sum(len(block.leaf) for block in blocks)])
    starts = _stacked([*(found[:, 0] for found in buckets), end], np.int64)
    first = _stacked([_first(block) for block in blocks], np.float64, 3)
    packed = _stacked([block.leaf for block in blocks], np.int32) * float(2**FLAG_BITS) + first[:, 2]
    farthest = plant(starts, np.ascontiguousarray(first[:, 1]))
    more = _stacked([block.intervals[:, 1:].reshape(-1, 3) for block in blocks], np.float64, 3)
    return Plan(
        frozen(shape),
        frozen(tagged_slots(keys, _stacked(places, np.int64))),
        frozen(_stacked([*(found.ravel() for found in buckets), end], np.int32)),
        frozen(_aligned(np.column_stack([first[:, 0], first[:, 1], farthest, packed]))),
        frozen(more),
        frozen(codes),
        *strings,
    )


def _aligned(table: Floats) -> Floats:
    """The table at a place in memory where no entry lies in two cache lines."""
    room = np.empty(table.size + _LINE // 8)
    at = -room.ctypes.data % _LINE // 8
    found = room[at : at + table.size].reshape(table.shape)
    found[...] = table
    return found


def _first(block: Block) -> Floats:
    """The first intervals; zeros when there are none."""
    return block.intervals[:, 0] if block.shape.ranges else np.zeros((len(block.leaf), 3))


def _stacked(parts: Sequence[npt.NDArray[Any]], kind: type[Any], width: int = 0) -> npt.NDArray[Any]:
    return np.concatenate([np.empty((0, width) if width else 0, kind), *parts]).astype(kind, copy=False)


def _shape_table(blocks: Sequence[Block], predicates: Mapping[str, int], buckets: list[int]) -> npt.NDArray[np.int64]:
    """A row for each shape: see the columns in ``search_kernels``."""
    rows, bucket, entry, more = [], 0, 0, 0
    for block, count in zip(blocks, buckets, strict=True):
        shape = block.shape
        numbers = [predicates[predicate] for predicate in shape.predicates()]
        last = bucket + count * (len(shape.parts) + 1)
        lengths = [len(shape.parts), len(shape.ranges), len(shape.reads)]
        rows.append([*lengths, bucket, last, entry, more, *numbers, *(kind for _, kind in shape.ranges)])
        bucket, entry = last, entry + len(block.leaf)
        more += len(block.leaf) * max(len(shape.ranges) - 1, 0)
    table = np.zeros((len(rows), max(map(len, rows), default=ASKED)), np.int64)
    for number, row in enumerate(rows):
        table[number, : len(row)] = row
    return table


def _anchored(shapes: Sequence[Shape], predicates: Mapping[str, int]) -> Lists:
    """The shapes that ask for nothing; then by predicate the others, each at the one the fewest shapes ask for."""
    counts = Counter(predicate for shape in shapes for predicate in set(shape.predicates()))
    found: list[list[int]] = [[] for _ in range(len(predicates) + 1)]
    for number, shape in enumerate(shapes):
        anchor = min(shape.predicates(), key=counts.__getitem__, default=None)
        found[0 if anchor is None else predicates[anchor] + 1].append(number)
    return lists(found)
