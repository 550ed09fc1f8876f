"""The predicate index of all leaves: immutable segments that merge as in an LSM tree.

An index never changes; a changed one shares the segments that stay. New leaves make a segment of their own, merged with
the segments that are not larger, so there are at most as many as the number of leaves has binary digits. Removed leaves
are marked, and left out when their segment is merged. Bulk registration needs no object per leaf: a `LeafTable` has the
constants and ranges of leaves of one shape as columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.match.encode import EncodedEvents, IntLists, int_lists
from motet.engine.match.leaf import (
    EVENT_END,
    EVENT_START,
    READ_VALUE,
    LeafEntry,
    LeafProjection,
    LeafQuery,
    LeafShape,
    leaf_entry,
)
from motet.engine.match.search_kernels import (
    ARITY,
    ENTRY,
    EVENT,
    FLAG_BITS,
    HIGH,
    HIT_LEAF,
    IS_OPEN,
    LOW,
    MATCHED_ROWS,
    MORE,
    PACKED,
    POSTING,
    POSTING_END,
    PREDICATES,
    SearchTables,
    build_interval_tree,
    constant_hashes,
    posting_keys,
    search,
    tagged_slots,
)
from motet.engine.match.string_column import StringColumn, frozen, string_column
from motet.jit.compiled import Floats
from motet.model.terms import RDF_TYPE

ANY_LENGTH = np.iinfo(np.int64).max
VERIFIED = -1  # the projection of a leaf that has none


@dataclass(frozen=True, eq=False)
class SegmentLeaves:
    """The leaves of a segment, by their index in it; equal only to itself."""

    names: pa.Array
    projections: tuple[LeafProjection, ...]
    projection_ids: npt.NDArray[np.int32]
    max_length: npt.NDArray[np.int64]
    leaf: Callable[[int], LeafQuery]  # called for the verified ones only

    def __len__(self) -> int:
        return len(self.names)

    def name(self, leaf: int) -> str:
        """One name, decoded from the buffers: an Arrow scalar would take as long as the search."""
        offsets, data = self._name_column
        return data[offsets[leaf] : offsets[leaf + 1]].tobytes().decode()

    @cached_property
    def _name_column(self) -> StringColumn:
        return string_column(self.names)


class ProjectionArrays:
    """The bindings of a segment's projections as arrays: projection ``i`` has those from ``starts[i]``."""

    def __init__(self, projections: Sequence[LeafProjection], predicates: Mapping[str, int]) -> None:
        bindings = [binding for projection in projections for binding in projection.bindings]
        self.starts = np.cumsum([0, *(len(projection.bindings) for projection in projections)], dtype=np.int64)
        self.labels = [name for name, _ in bindings]
        self.names = pa.array(self.labels, pa.string())
        self.kind = np.array([source.kind for _, source in bindings], np.int64)
        indexes = (
            predicates[source.predicate] if source.kind == READ_VALUE else source.row_index for _, source in bindings
        )
        self.value_index = np.fromiter(indexes, np.int64)
        self.has_times = bool(np.isin(self.kind, (EVENT_START, EVENT_END)).any())


@dataclass(frozen=True, slots=True)
class IndexSegment:
    """The search arrays of some leaves, with a mask of the live ones."""

    arrays: SearchArrays
    leaves: SegmentLeaves
    projections: ProjectionArrays
    live: npt.NDArray[np.bool_]
    is_index_decided: bool  # all leaves are live, have a projection and take events of any length


@dataclass(frozen=True)
class LeafIndex:
    """
    >>> from motet.language.syntax import Event
    >>> index = LeafIndex().with_leaves([LeafQuery("s", Event("e", "urn:A"), ("e",))])
    >>> len(index), len(index.without({"s"}))
    (1, 0)
    """

    segments: tuple[IndexSegment, ...] = ()
    predicates: tuple[str, ...] = (RDF_TYPE,)  # by id; ids never change
    compared: frozenset[str] = frozenset()  # predicates whose values are compared

    def __len__(self) -> int:
        return sum(int(segment.live.sum()) for segment in self.segments)

    def with_leaves(self, leaves: Sequence[LeafQuery]) -> LeafIndex:
        """The index with more leaves."""
        if not leaves:
            return self
        entries = list(map(leaf_entry, leaves))
        return self.with_tables(leaf_tables(entries), _leaves(leaves, entries))

    def with_tables(self, tables: Sequence[LeafTable], leaves: SegmentLeaves) -> LeafIndex:
        """The index with more leaves, given as tables of distinct shapes."""
        index = self._with_predicates(table.shape for table in tables)
        merged, retained = [], list(index.segments)
        size = len(leaves)
        while retained and len(retained[-1].leaves) <= size:
            merged.append(retained.pop())
            size += len(merged[-1].leaves)
        for segment in merged:
            tables, leaves = _merge(segment, tables, leaves)
        ids = {name: id_ for id_, name in enumerate(index.predicates)}
        projections = ProjectionArrays(leaves.projections, ids)
        return replace(index, segments=(*retained, _new_segment(build_arrays(tables, ids), leaves, projections)))

    def without(self, names: Collection[str]) -> LeafIndex:
        """The index without the leaves of these names."""
        segments = [_without(segment, names) for segment in self.segments]
        return replace(self, segments=tuple(segment for segment in segments if segment.live.any()))

    def _with_predicates(self, shapes: Iterable[LeafShape]) -> LeafIndex:
        """The index with the predicates of more shapes."""
        shapes = list(shapes)
        predicates = dict.fromkeys([*self.predicates, *(p for shape in shapes for p in shape.predicates())])
        compared = self.compared | {predicate for shape in shapes for predicate, _ in shape.ranges}
        return LeafIndex(self.segments, tuple(predicates), compared)


def _leaves(leaves: Sequence[LeafQuery], entries: Sequence[LeafEntry]) -> SegmentLeaves:
    ids: dict[LeafProjection, int] = {}
    projections = (entry.projection for entry in entries)
    projection_ids = [VERIFIED if each is None else ids.setdefault(each, len(ids)) for each in projections]
    max_length = [ANY_LENGTH if leaf.max_length is None else leaf.max_length for leaf in leaves]
    return SegmentLeaves(
        pa.array([leaf.name for leaf in leaves], pa.string()),
        tuple(ids),
        np.array(projection_ids, np.int32),
        np.array(max_length, np.int64),
        tuple(leaves).__getitem__,
    )


def _new_segment(arrays: SearchArrays, leaves: SegmentLeaves, projections: ProjectionArrays) -> IndexSegment:
    is_index_decided = bool((leaves.projection_ids != VERIFIED).all() and (leaves.max_length == ANY_LENGTH).all())
    return IndexSegment(arrays, leaves, projections, np.ones(len(leaves), np.bool_), is_index_decided)


def _without(segment: IndexSegment, names: Collection[str]) -> IndexSegment:
    removed = np.asarray(pc.is_in(segment.leaves.names, pa.array(sorted(names), pa.string())))
    return replace(segment, live=segment.live & ~removed, is_index_decided=False) if removed.any() else segment


def _merge(
    segment: IndexSegment, tables: Sequence[LeafTable], leaves: SegmentLeaves
) -> tuple[list[LeafTable], SegmentLeaves]:
    """The live leaves of a segment, followed by more leaves."""
    retained = np.flatnonzero(segment.live)
    new_index = np.cumsum(segment.live, dtype=np.int32) - 1
    by_shape = {table.shape: [_live_rows(table, segment.live, new_index)] for table in segment.arrays.leaf_tables()}
    for table in tables:
        shifted = replace(table, leaf=table.leaf + np.int32(len(retained)))
        by_shape.setdefault(table.shape, []).append(shifted)
    merged = [_concatenate(of_shape) for of_shape in by_shape.values()]
    return [table for table in merged if len(table.leaf)], _concatenate_leaves(segment.leaves, retained, leaves)


def _live_rows(table: LeafTable, live: npt.NDArray[np.bool_], new_index: npt.NDArray[np.int32]) -> LeafTable:
    rows = np.flatnonzero(live[table.leaf])
    terms = tuple(column.take(pa.array(rows)) for column in table.terms)
    return LeafTable(table.shape, terms, table.intervals[rows], new_index[table.leaf[rows]])


def _concatenate(tables: Sequence[LeafTable]) -> LeafTable:
    first = tables[0]
    if len(tables) == 1:
        return first
    terms = tuple(pa.concat_arrays([table.terms[part] for table in tables]) for part in range(len(first.terms)))
    intervals = np.concatenate([table.intervals for table in tables])
    return LeafTable(first.shape, terms, intervals, np.concatenate([table.leaf for table in tables]))


def _concatenate_leaves(first: SegmentLeaves, retained: npt.NDArray[np.int64], second: SegmentLeaves) -> SegmentLeaves:
    ids = {one: id_ for id_, one in enumerate(dict.fromkeys([*first.projections, *second.projections]))}
    renumbered = [
        np.array([*(ids[one] for one in leaves.projections), VERIFIED], np.int32)[leaves.projection_ids]
        for leaves in (first, second)
    ]
    count, of_first, of_second = len(retained), first.leaf, second.leaf

    def leaf_at(leaf: int) -> LeafQuery:
        return of_first(int(retained[leaf])) if leaf < count else of_second(leaf - count)

    return SegmentLeaves(
        pa.concat_arrays([first.names.take(pa.array(retained)), second.names]),
        tuple(ids),
        np.concatenate([renumbered[0][retained], renumbered[1]]),
        np.concatenate([first.max_length[retained], second.max_length]),
        leaf_at,
    )


_LINE = 64  # bytes
_NONE = pa.array([], pa.string())


@dataclass(frozen=True, slots=True)
class LeafTable:
    """Index entries of one shape, as columns."""

    shape: LeafShape
    terms: tuple[pa.Array, ...]  # one column for each constant
    intervals: Floats  # by entry and range: low, high, flags
    leaf: npt.NDArray[np.int32]


class IndexHits(NamedTuple):
    """The candidates that the search has found: events with leaves."""

    table: npt.NDArray[np.int32]  # event, leaf, flag, and the rows that matched the leaf's constants and ranges

    @property
    def event(self) -> npt.NDArray[np.int32]:
        return self.table[:, EVENT]

    @property
    def leaf(self) -> npt.NDArray[np.int32]:
        return self.table[:, HIT_LEAF]

    @property
    def is_open(self) -> npt.NDArray[np.bool_]:
        """Whether the verifier has to decide."""
        return np.not_equal(self.table[:, IS_OPEN], 0)


@dataclass(frozen=True, slots=True)
class SearchArrays:
    """The arrays of a segment that the search reads; a shape's id is its index in ``shapes``."""

    shapes: tuple[LeafShape, ...]
    tables: SearchTables
    dictionary: pa.Array  # the terms of the constants
    shapes_by_predicate: IntLists  # the shapes to try always, then by predicate those to try when an event has it
    slots: int  # the most predicates of a shape

    def search(self, encoded: EncodedEvents) -> IndexHits:
        """The candidates of some events, sorted by event and leaf."""
        starts, row, code, value, _, strings = encoded
        arrays = (*self.shapes_by_predicate, starts, row, code, value, *strings, *self.tables)
        table = np.empty((len(starts) + 64, MATCHED_ROWS + self.slots), np.int32)
        size = event = 0
        while True:
            size, event = search(self.slots, table, size, event, *arrays)
            if event == len(starts) - 1:
                break
            table = _grow(table, size)
        return IndexHits(table[:size])

    def leaf_tables(self) -> list[LeafTable]:
        """The tables the segment was built from, in its order."""
        return [self._leaf_table(shape_id) for shape_id in range(len(self.shapes))]

    def _leaf_table(self, shape_id: int) -> LeafTable:
        shape, tables, row = self.shapes[shape_id], self.tables, self.tables.shape[shape_id]
        arity, further = len(shape.constants), max(len(shape.ranges) - 1, 0)
        postings = tables.posting[row[POSTING] : row[POSTING_END]].reshape(-1, arity + 1)
        sizes = np.diff(np.append(postings[:, 0], tables.posting[row[POSTING_END]]))
        count = int(sizes.sum())
        entries = slice(row[ENTRY], row[ENTRY] + count)
        repeated = np.repeat(postings[:, 1:], sizes, axis=0)
        leaf, flags = np.divmod(tables.entry[entries, PACKED], 2**FLAG_BITS)
        first = np.stack([tables.entry[entries, LOW], tables.entry[entries, HIGH], flags], axis=1)
        more = tables.more[row[MORE] : row[MORE] + count * further].reshape(count, further, 3)
        intervals = np.concatenate([first[:, None], more], axis=1)[:, : len(shape.ranges)]
        terms = tuple(self.dictionary.take(pa.array(repeated[:, column])) for column in range(arity))
        return LeafTable(shape, terms, intervals, leaf.astype(np.int32))


def _grow(table: npt.NDArray[np.int32], size: int) -> npt.NDArray[np.int32]:
    """A table four times as long, with the first rows copied; unwritten pages take no memory."""
    larger = np.empty((4 * len(table), table.shape[1]), np.int32)
    larger[:size] = table[:size]
    return larger


def leaf_tables(entries: Sequence[LeafEntry]) -> list[LeafTable]:
    """The tables of some entries; leaf ids are their indexes."""
    by_shape: dict[LeafShape, list[tuple[int, LeafEntry]]] = {}
    for leaf, entry in enumerate(entries):
        by_shape.setdefault(entry.shape, []).append((leaf, entry))
    return [_table(shape, of_shape) for shape, of_shape in by_shape.items()]


def _table(shape: LeafShape, entries: Iterable[tuple[int, LeafEntry]]) -> LeafTable:
    rows = [(leaf, terms, entry.intervals) for leaf, entry in entries for terms in entry.terms]
    columns = tuple(
        pa.array([terms[column] for _, terms, _ in rows], pa.string()) for column in range(len(shape.constants))
    )
    intervals = np.array([intervals for _, _, intervals in rows], np.float64).reshape(len(rows), len(shape.ranges), 3)
    return LeafTable(shape, columns, intervals, np.array([leaf for leaf, _, _ in rows], np.int32))


def build_arrays(tables: Sequence[LeafTable], predicates: Mapping[str, int]) -> SearchArrays:
    """Sort the tables of distinct shapes into search arrays; ``predicates`` are ids."""
    dictionary, terms = _encode_terms(tables)
    sorted_tables = [_sorted(table, ids) for table, ids in zip(tables, terms, strict=True)]
    shapes = tuple(table.shape for table in tables)
    slots = max((len(list(shape.predicates())) for shape in shapes), default=0)
    search_tables = _search_tables(sorted_tables, predicates, dictionary)
    return SearchArrays(shapes, search_tables, dictionary, _shapes_by_predicate(shapes, predicates), slots)


def _encode_terms(tables: Sequence[LeafTable]) -> tuple[pa.Array, list[npt.NDArray[np.int32]]]:
    """The distinct terms, and for each table its term ids. Copies of all terms would stay in Arrow's memory."""
    columns = [column for table in tables for column in table.terms if len(column)]
    encoded = pa.chunked_array(columns, pa.string()).dictionary_encode().unify_dictionaries()
    chunks, ids_of_tables = iter(encoded.chunks), []
    for table in tables:
        ids = np.empty((len(table.leaf), len(table.terms)), np.int32)
        for column in range(len(table.terms) if len(ids) else 0):
            ids[:, column] = np.asarray(next(chunks).indices)
        ids_of_tables.append(ids)
    return encoded.chunk(0).dictionary if encoded.num_chunks else _NONE, ids_of_tables


def _sorted(table: LeafTable, ids: npt.NDArray[np.int32]) -> tuple[LeafTable, npt.NDArray[np.int32]]:
    """Sorted by the terms, then by the lower end of the first range."""
    order = np.lexsort([table.leaf, *table.intervals[:, :1, 0].T, *ids.T])
    return LeafTable(table.shape, (), table.intervals[order], table.leaf[order]), ids[order]


def _first_of_posting(ids: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """The rows at which the sorted terms change."""
    changes = np.any(ids[1:] != ids[:-1], axis=1) if len(ids) else np.zeros(0, np.bool_)
    return np.flatnonzero(np.append(np.ones(min(len(ids), 1), np.bool_), changes))


def _search_tables(
    sorted_tables: Sequence[tuple[LeafTable, npt.NDArray[np.int32]]],
    predicates: Mapping[str, int],
    dictionary: pa.Array,
) -> SearchTables:
    strings = string_column(dictionary)
    hashes = constant_hashes(strings)
    tables = [table for table, _ in sorted_tables]
    firsts = [_first_of_posting(ids) for _, ids in sorted_tables]
    constants = [np.ascontiguousarray(ids[first]) for first, (_, ids) in zip(firsts, sorted_tables, strict=True)]
    keys = _stacked([posting_keys(shape_id, terms, hashes) for shape_id, terms in enumerate(constants)], np.uint64)
    shape = _shape_table(tables, predicates, list(map(len, constants)))
    positions = [np.arange(row[POSTING], row[POSTING_END], row[ARITY] + 1) for row in shape]
    postings = [
        np.column_stack([row[ENTRY] + first, terms]) for row, first, terms in zip(shape, firsts, constants, strict=True)
    ]
    end = np.array([sum(len(table.leaf) for table in tables)])
    starts = _stacked([*(posting[:, 0] for posting in postings), end], np.int64)
    first = _stacked([_first(table) for table in tables], np.float64, 3)
    packed = _stacked([table.leaf for table in tables], np.int32) * float(2**FLAG_BITS) + first[:, 2]
    farthest = build_interval_tree(starts, np.ascontiguousarray(first[:, 1]))
    more = _stacked([table.intervals[:, 1:].reshape(-1, 3) for table in tables], np.float64, 3)
    return SearchTables(
        frozen(shape),
        frozen(tagged_slots(keys, _stacked(positions, np.int64))),
        frozen(_stacked([*(posting.ravel() for posting in postings), end], np.int32)),
        frozen(_aligned(np.column_stack([first[:, 0], first[:, 1], farthest, packed]))),
        frozen(more),
        frozen(hashes),
        *strings,
    )


def _aligned(table: Floats) -> Floats:
    """A copy at an address where no entry crosses a cache line."""
    room = np.empty(table.size + _LINE // 8)
    at = -room.ctypes.data % _LINE // 8
    aligned = room[at : at + table.size].reshape(table.shape)
    aligned[...] = table
    return aligned


def _first(table: LeafTable) -> Floats:
    """The first intervals; zeros when there are none."""
    return table.intervals[:, 0] if table.shape.ranges else np.zeros((len(table.leaf), 3))


def _stacked(parts: Sequence[npt.NDArray[Any]], kind: type[Any], width: int = 0) -> npt.NDArray[Any]:
    return np.concatenate([np.empty((0, width) if width else 0, kind), *parts]).astype(kind, copy=False)


def _shape_table(
    tables: Sequence[LeafTable], predicates: Mapping[str, int], postings: list[int]
) -> npt.NDArray[np.int64]:
    """A row for each shape; `search_kernels` has the columns."""
    rows, posting, entry, more = [], 0, 0, 0
    for table, count in zip(tables, postings, strict=True):
        shape = table.shape
        predicate_ids = [predicates[predicate] for predicate in shape.predicates()]
        last = posting + count * (len(shape.constants) + 1)
        lengths = [len(shape.constants), len(shape.ranges), len(shape.reads)]
        rows.append([*lengths, posting, last, entry, more, *predicate_ids, *(kind for _, kind in shape.ranges)])
        posting, entry = last, entry + len(table.leaf)
        more += len(table.leaf) * max(len(shape.ranges) - 1, 0)
    padded = np.zeros((len(rows), max(map(len, rows), default=PREDICATES)), np.int64)
    for index, row in enumerate(rows):
        padded[index, : len(row)] = row
    return padded


def _shapes_by_predicate(shapes: Sequence[LeafShape], predicates: Mapping[str, int]) -> IntLists:
    """The shapes without a predicate; then by predicate the others, each at the one that the fewest shapes have."""
    counts = Counter(predicate for shape in shapes for predicate in set(shape.predicates()))
    lists: list[list[int]] = [[] for _ in range(len(predicates) + 1)]
    for shape_id, shape in enumerate(shapes):
        anchor = min(shape.predicates(), key=counts.__getitem__, default=None)
        lists[0 if anchor is None else predicates[anchor] + 1].append(shape_id)
    return int_lists(lists)
