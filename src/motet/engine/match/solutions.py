"""From hits to solutions, column by column: the bindings of leaves that the index decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.match.encode import EncodedEvents
from motet.engine.match.index import IndexHits
from motet.engine.match.leaf import EVENT_END, EVENT_START, READ_VALUE, Bindings, LeafProjection
from motet.engine.match.solution_kernels import fill_solutions
from motet.engine.match.string_column import Ints
from motet.engine.match.verifier import instant
from motet.model.batches import EventRow, micros


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """Events and what was encoded of them."""

    events: pa.RecordBatch
    offsets: pa.Array
    encoded: EncodedEvents


@dataclass(frozen=True, slots=True)
class Solutions:
    """Solution ``i`` has an event, a leaf, and bindings from ``starts[i]`` on: places among the forms', and terms."""

    event: Ints
    leaf: Ints
    starts: Ints
    binding: Ints
    term: Ints  # numbers objects, then events, starts and ends
    projections: ProjectionArrays
    batch: EncodedBatch

    def terms(self, wanted: Ints) -> pa.Array:
        """The terms by number, at least as far as some are wanted."""
        objects = self.batch.encoded.terms
        is_enough = wanted.max(initial=0) < len(objects)
        return string_array(objects) if is_enough else _terms(self.batch, self.projections)


class VerifiedSolutions(NamedTuple):
    """Solutions that the verifier has found: by row an event, a leaf and bindings."""

    event: Ints
    leaf: Ints
    bindings: list[Bindings]
    rows: list[EventRow]  # of the events


class SolutionArrays(NamedTuple):
    """Solutions apart from their events."""

    event: Ints
    leaf: Ints
    starts: Ints
    binding: Ints
    term: Ints
    projections: ProjectionArrays


def solutions(
    batch: EncodedBatch,
    hits: IndexHits,
    forms: Sequence[LeafProjection],
    form: npt.NDArray[np.int32],
    predicates: Mapping[str, int],
) -> Solutions:
    """The solutions of hits that are decided; ``form`` belongs to the leaves."""
    return Solutions(*solution_arrays(batch.encoded, hits, forms, form, predicates), batch)


def solution_arrays(
    encoded: EncodedEvents,
    hits: IndexHits,
    forms: Sequence[LeafProjection],
    form: npt.NDArray[np.int32],
    predicates: Mapping[str, int],
) -> SolutionArrays:
    sources = _sources(forms, predicates)
    event, leaf, starts, binding, term = fill_solutions(
        hits.table, form, sources.starts, sources.kind, sources.number,
        encoded.starts, encoded.row, len(encoded.terms),
    )  # fmt: skip
    kept = _distinct(event, leaf, starts, term)
    if kept is not None:
        event, leaf = event[kept], leaf[kept]
        rows_kept = _within(starts, kept)
        starts = np.concatenate([[0], np.cumsum(np.diff(starts)[kept])])
        binding, term = binding[rows_kept], term[rows_kept]
    return SolutionArrays(event, leaf, starts, binding, term, sources)


def take_rows(column: pa.Array, rows: Ints) -> pa.Array:
    """The values of some rows; a few, as of a single event, are cut out, which is several times faster."""
    if len(rows) == 1:
        return column.slice(int(rows[0]), 1)
    if 1 < len(rows) <= _FEW:
        return pa.concat_arrays([column.slice(row, 1) for row in rows.tolist()])
    return column.take(pa.array(rows))


_FEW = 4
_known: dict[tuple[int, int], tuple[Sequence[LeafProjection], Mapping[str, int], ProjectionArrays]] = {}
_KNOWN = 64


def _sources(forms: Sequence[LeafProjection], predicates: Mapping[str, int]) -> ProjectionArrays:
    """The sources of forms, known by identity: to compare forms would mean to read them all."""
    key = id(forms), id(predicates)
    known = _known.get(key)
    if known is None or known[0] is not forms or known[1] is not predicates:
        if len(_known) >= _KNOWN:
            _known.clear()
        known = _known[key] = forms, predicates, ProjectionArrays(forms, predicates)
    return known[2]


class ProjectionArrays:
    """The forms' bindings as arrays: form ``i`` has those from ``starts[i]``."""

    def __init__(self, forms: Sequence[LeafProjection], predicates: Mapping[str, int]) -> None:
        found = [one for form in forms for one in form.bindings]
        self.starts = np.cumsum([0, *(len(form.bindings) for form in forms)], dtype=np.int64)
        self.labels = [name for name, _ in found]
        self.names = pa.array(self.labels, pa.string())
        self.kind = np.array([source.kind for _, source in found], np.int64)
        numbers = (predicates[s.predicate] if s.kind == READ_VALUE else s.row_index for _, s in found)
        self.number = np.fromiter(numbers, np.int64)
        self.has_times = bool(np.isin(self.kind, (EVENT_START, EVENT_END)).any())


def _terms(batch: EncodedBatch, sources: ProjectionArrays) -> pa.Array:
    """All terms that can be bound: objects, events, and starts and ends where somebody wants them."""
    events = pc.binary_join_element_wise("<", string_array(batch.events.column("id")), ">", "")
    parts = [string_array(batch.encoded.terms), events]
    if sources.has_times:
        for name in ("start", "end"):
            found = (None if time is None else instant(time) for time in micros(batch.events.column(name)))
            parts.append(pa.array(found, pa.string()))
    return pa.concat_arrays(parts)


def string_array(column: pa.Array) -> pa.Array:
    return column if column.type == pa.string() else column.cast(pa.string())


def _distinct(event: Ints, leaf: Ints, starts: Ints, term: Ints) -> Ints | None:
    """Which solutions to keep; None when all differ. Two of one event and leaf have the same variables."""
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


def _within(starts: Ints, kept: Ints) -> Ints:
    """The places of the kept lists' elements."""
    sizes = np.diff(starts)[kept]
    first = np.repeat(starts[kept] - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes)
    return first + np.arange(len(first))
