"""Turns the hits of the index into solutions, column by column, for leaves that the index decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.match.encode import EncodedEvents
from motet.engine.match.index import IndexHits, SegmentLeaves
from motet.engine.match.leaf import EVENT_END, EVENT_START, READ_VALUE, LeafBindings, LeafProjection
from motet.engine.match.solution_kernels import fill_solutions
from motet.engine.match.verifier import instant
from motet.jit.compiled import Ints
from motet.model.batches import EventRow, Records, micros


@dataclass(eq=False)
class EncodedBatch:
    """Events and what was encoded of them."""

    events: Records
    encoded: EncodedEvents

    @cached_property
    def offsets(self) -> pa.Array:
        """The offsets of records; those of EVENTS are their indexes."""
        events = self.events.columns()
        return events.column("offset") if "offset" in events.schema.names else pa.array(np.arange(len(events)))

    def times(self) -> tuple[Ints, Ints, Ints]:
        """The offset, start and end of each event."""
        if self.events.is_small:
            rows = self.events.rows()
            times = ([row.offset for row in rows], [row.start for row in rows], [row.end for row in rows])
            offsets, start, end = (np.array(column, np.int64) for column in times)
            return offsets, start, end
        events = self.events.columns()
        columns = (self.offsets, events.column("start"), events.column("end"))
        offsets, start, end = (np.asarray(column.cast(pa.int64())) for column in columns)
        return offsets, start, end


class Solutions(NamedTuple):
    """Solution ``i`` has an event, a leaf, and bindings from ``starts[i]`` on: indexes in projections, and terms."""

    event: Ints
    leaf: Ints
    starts: Ints
    binding: Ints
    term: Ints  # index among objects, then events, starts and ends
    projections: ProjectionArrays
    batch: EncodedBatch

    def term_texts(self) -> list[str]:
        """The term of each binding, for events that are rows."""
        records, objects = self.batch.events.rows(), self.batch.encoded.terms
        if not self.batch.encoded.is_small:
            objects = objects.to_pylist()
        texts = []
        for index in self.term.tolist():
            column, event = divmod(index - len(objects), len(records))
            if index < len(objects):
                texts.append(objects[index])
            elif column == 0:
                texts.append(f"<{records[event].id}>")
            else:
                texts.append(instant((records[event].start if column == 1 else records[event].end) or 0))
        return texts

    def terms(self, indexes: Ints) -> pa.Array:
        """The terms by index, at least up to the greatest of the given ones."""
        objects = self.batch.encoded.term_column()
        is_enough = indexes.max(initial=0) < len(objects)
        return string_array(objects) if is_enough else _terms(self.batch, self.projections)


class VerifiedSolutions(NamedTuple):
    """Solutions that the verifier has found: by row an event, a leaf and bindings."""

    event: Ints
    leaf: Ints
    bindings: list[LeafBindings]
    rows: list[EventRow]  # of the events


def solutions(batch: EncodedBatch, hits: IndexHits, leaves: SegmentLeaves, predicates: Mapping[str, int]) -> Solutions:
    """The solutions of decided hits of a segment's leaves."""
    arrays, encoded = _projection_arrays(leaves, predicates), batch.encoded
    event, leaf, starts, binding, term = fill_solutions(
        hits.table, leaves.projection_ids, arrays.starts, arrays.kind, arrays.value_index,
        encoded.starts, encoded.row, len(encoded.terms),
    )  # fmt: skip
    retained = _distinct(event, leaf, starts, term)
    if retained is not None:
        event, leaf = event[retained], leaf[retained]
        bindings = _list_elements(starts, retained)
        starts = np.concatenate([[0], np.cumsum(np.diff(starts)[retained])])
        binding, term = binding[bindings], term[bindings]
    return Solutions(event, leaf, starts, binding, term, arrays, batch)


def take_rows(column: pa.Array, rows: Ints) -> pa.Array:
    """The values of some rows; a few, as of a single event, are sliced, which is several times faster."""
    if len(rows) == 1:
        return column.slice(int(rows[0]), 1)
    if 1 < len(rows) <= _MAX_SLICES:
        return pa.concat_arrays([column.slice(row, 1) for row in rows.tolist()])
    return column.take(pa.array(rows))


_MAX_SLICES = 4
_arrays: WeakKeyDictionary[SegmentLeaves, ProjectionArrays] = WeakKeyDictionary()


def _projection_arrays(leaves: SegmentLeaves, predicates: Mapping[str, int]) -> ProjectionArrays:
    """The arrays of a segment's projections, made once: the ids of its predicates never change."""
    arrays = _arrays.get(leaves)
    if arrays is None:
        arrays = _arrays[leaves] = ProjectionArrays(leaves.projections, predicates)
    return arrays


class ProjectionArrays:
    """The bindings of projections as arrays: projection ``i`` has those from ``starts[i]``."""

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


def _terms(batch: EncodedBatch, arrays: ProjectionArrays) -> pa.Array:
    """All terms that can be bound: objects, events, and starts and ends where a projection has them."""
    events = pc.binary_join_element_wise("<", string_array(batch.events.columns().column("id")), ">", "")
    columns = [string_array(batch.encoded.term_column()), events]
    if arrays.has_times:
        for name in ("start", "end"):
            instants = (None if time is None else instant(time) for time in micros(batch.events.columns().column(name)))
            columns.append(pa.array(instants, pa.string()))
    return pa.concat_arrays(columns)


def string_array(column: pa.Array) -> pa.Array:
    """Strings as a column of type string."""
    return column if column.type == pa.string() else column.cast(pa.string())


def _distinct(event: Ints, leaf: Ints, starts: Ints, term: Ints) -> Ints | None:
    """The distinct solutions; None when all differ. Two of one event and leaf have the same variables."""
    if len(event) < 2:
        return None
    again = (event[1:] == event[:-1]) & (leaf[1:] == leaf[:-1])
    if not again.any():
        return None
    repeated = np.append(False, again) | np.append(again, False)
    several = np.flatnonzero(repeated)
    widths = np.diff(starts)[several]
    keys = np.full((len(several), 2 + int(widths.max(initial=0))), -1, np.int64)
    keys[:, 0], keys[:, 1] = event[several], leaf[several]
    for column in range(keys.shape[1] - 2):
        has = widths > column
        keys[has, column + 2] = term[starts[several[has]] + column]
    _, first = np.unique(keys, axis=0, return_index=True)
    return np.sort(np.concatenate([np.flatnonzero(~repeated), several[first]]))


def _list_elements(starts: Ints, retained: Ints) -> Ints:
    """The indexes of the elements of the retained lists."""
    sizes = np.diff(starts)[retained]
    first = np.repeat(starts[retained] - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes)
    return first + np.arange(len(first))
