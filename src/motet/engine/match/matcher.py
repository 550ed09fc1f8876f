"""Matches leaves against batches of events; the result is the solutions by leaf.

The index returns the candidates of each event. What it cannot decide alone (FILTERs beyond comparisons, OPTIONAL, joins
with the background, ties between numbers that float64 cannot tell apart) is verified, leaf by leaf, over the event's
closure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.match.closure import (
    ClosedBackground,
    EventClosures,
    ReferencedTerms,
    closed_background,
    hierarchy_suffices,
)
from motet.engine.match.encode import class_names, encode, encode_small, encoding_tables
from motet.engine.match.encode_kernels import EncodingTables
from motet.engine.match.index import (
    ANY_LENGTH,
    VERIFIED,
    IndexHits,
    IndexSegment,
    LeafIndex,
    ProjectionArrays,
    SegmentLeaves,
    build_arrays,
)
from motet.engine.match.leaf import LeafBindings, LeafQuery
from motet.engine.match.search_kernels import IS_OPEN
from motet.engine.match.solution_kernels import fill_solutions
from motet.engine.match.string_column import StringColumn, frozen, string_array, string_column
from motet.engine.match.verifier import Verifier, XmlDocument, instant
from motet.engine.match.xml_index import XmlIndex, XmlSegment, is_block_leaf
from motet.jit.compiled import Ints
from motet.model.batches import EventRow, RecordRow, Records, Triple, micros, payload_column
from motet.model.control import entailment_of
from motet.model.xml_document import parse_stored_xml
from motet.xmlql.evaluate import Evaluation

_VERIFIERS = 10_000


class EncodedBatch:
    """Events and what the index reads of them."""

    def __init__(self, events: Records, index: BuiltIndex) -> None:
        self.events = events
        self.rows: Sequence[RecordRow] = events.rows if events.is_small else ()  # those of columns are not made
        self._index = index
        predicates = index.predicates
        self._is_row_encoded = events.is_small and predicates.is_simple  # the terms are a tuple
        if self._is_row_encoded:
            self.encoded = encode_small(self.rows, predicates.encoding)
        else:
            self.encoded = encode(self.closures.closed, predicates.encoding)

    @cached_property
    def closures(self) -> EventClosures:
        """What follows from the events."""
        return EventClosures(self.events, self._index.predicates.reasoning.closed, self._index.referenced)

    @cached_property
    def offsets(self) -> pa.Array:
        """The offsets of records; those of EVENTS are their indexes."""
        events = self.events.columns
        return events.column("offset") if "offset" in events.schema.names else pa.array(np.arange(len(events)))

    @cached_property
    def times(self) -> tuple[Ints, Ints, Ints]:
        """The offset, start and end of each event."""
        if self.rows:
            rows = self.rows
            columns = [row.offset for row in rows], [row.start for row in rows], [row.end for row in rows]
            offsets, start, end = frozen(np.array(columns, np.int64))
        else:
            events = self.events.columns
            arrays = (self.offsets, events.column("start"), events.column("end"))
            offsets, start, end = (frozen(np.asarray(array.cast(pa.int64()))) for array in arrays)
        return offsets, start, end

    def iris(self, events: Ints) -> pa.Array:
        """The IRIs of some events, by their indexes."""
        if self.rows:
            return pa.array([self.rows[event].id for event in events.tolist()], pa.string())
        column = self.events.columns.column("id")
        return column if len(events) == len(column) else column.take(pa.array(events))

    def term_texts(self, indexes: Ints) -> list[str]:
        """The terms of a few events, by index."""
        objects, rows = self.encoded.terms, self.rows
        if not self._is_row_encoded:
            objects = objects.to_pylist()
        texts = []
        for index in indexes.tolist():
            column, event = divmod(index - len(objects), len(rows))
            if index < len(objects):
                texts.append(objects[index])
            elif column == 0:
                texts.append(f"<{rows[event].id}>")
            else:
                texts.append(instant((rows[event].start if column == 1 else rows[event].end) or 0))
        return texts

    def terms(self, indexes: Ints, *, with_times: bool) -> pa.Array:
        """The terms by index, at least up to the greatest of the given ones."""
        objects = self.encoded.terms
        terms = pa.array(objects, pa.string()) if self._is_row_encoded else string_array(objects)
        if indexes.max(initial=0) < len(objects):
            return terms
        events = self.events.columns
        columns = [terms, pc.binary_join_element_wise("<", string_array(events.column("id")), ">", "")]
        for name in ("start", "end") if with_times else ():
            instants = (None if time is None else instant(time) for time in micros(events.column(name)))
            columns.append(pa.array(instants, pa.string()))
        return pa.concat_arrays(columns)


class Solutions(NamedTuple):
    """Solution ``i`` has an event, a leaf, and bindings from ``starts[i]`` on: indexes in projections, and terms."""

    event: Ints
    leaf: Ints
    starts: Ints
    binding: Ints
    term: Ints  # index among the terms of the events, then the events, their starts and their ends
    projections: ProjectionArrays
    batch: EncodedBatch

    def terms(self) -> pa.Array:
        """The terms by index, at least up to the greatest of a binding."""
        return self.batch.terms(self.term, with_times=self.projections.has_times)

    def strings(self, indexes: Ints) -> StringColumn:
        """As `terms`, up to the greatest of the given indexes."""
        encoded = self.batch.encoded
        if indexes.max(initial=0) < len(encoded.terms):
            return encoded.strings
        return string_column(self.batch.terms(indexes, with_times=self.projections.has_times))


class VerifiedSolutions(NamedTuple):
    """Solutions that the verifier has found: by row an event, a leaf and bindings."""

    event: Ints
    leaf: Ints
    bindings: list[LeafBindings]
    rows: list[EventRow]  # of the events


class SegmentMatches(NamedTuple):
    """The solutions of a segment's leaves on a batch: those that the index decides, and those that were verified."""

    segment: IndexSegment
    batch: EncodedBatch
    decided: Solutions | None
    verified: VerifiedSolutions | None

    def events(self) -> Ints:
        """The events that match a leaf, by their index in the batch."""
        parts = (self.decided, self.verified)
        return np.unique(np.concatenate([part.event for part in parts if part is not None]))


class Matcher:
    """An immutable set of leaves over a background. It is pickled without its index, which workers build again."""

    def __init__(
        self, leaves: tuple[LeafQuery, ...], background: frozenset[Triple] = frozenset(), entailment: str | None = None
    ) -> None:
        self._reasoning = Reasoning(background, entailment_of(background, entailment))
        self._leaves: tuple[LeafQuery, ...] | None = leaves  # None after a change: they are read from the index

    def __reduce__(self) -> tuple[type[Matcher], tuple[object, ...]]:
        return Matcher, (self.leaves, self.background, self.entailment)

    @property
    def background(self) -> frozenset[Triple]:
        return self._reasoning.background

    @property
    def entailment(self) -> str:
        return self._reasoning.entailment

    @property
    def leaves(self) -> tuple[LeafQuery, ...]:
        """All leaves."""
        if self._leaves is None:
            segments = self.segments()
            self._leaves = (
                *(segment.leaves.leaf(leaf) for segment in segments for leaf in np.flatnonzero(segment.live).tolist()),
                *(leaf for segment in self._index.blocks.segments for leaf in segment.live()),
            )
        return self._leaves

    def segments(self) -> tuple[IndexSegment, ...]:
        return self._index.leaves.segments

    def changed(self, leaves: tuple[LeafQuery, ...]) -> Matcher:
        """The matcher of other leaves over the same background; common leaves stay indexed."""
        present, requested = set(self.leaves), set(leaves)
        removed = {leaf.name for leaf in present - requested}
        return self.exchanged([leaf for leaf in leaves if leaf not in present], removed)

    def exchanged(self, added: Sequence[LeafQuery], removed: Collection[str]) -> Matcher:
        """The matcher with more leaves, and without those of some names, which added ones may take."""
        matcher = Matcher((), self.background, self.entailment)
        matcher._reasoning, matcher._leaves = self._reasoning, None
        matcher._index = self._index.exchanged(added, removed)
        return matcher

    @cached_property
    def _index(self) -> BuiltIndex:
        """Built for the first batch."""
        added = self._leaves or ()
        leaves = LeafIndex().with_leaves([leaf for leaf in added if not is_block_leaf(leaf)])
        blocks = XmlIndex().with_leaves(filter(is_block_leaf, added))
        return BuiltIndex(leaves, blocks, IndexedPredicates(leaves, self._reasoning))

    def solve(self, events: Records) -> list[SegmentMatches]:
        """The solutions of each segment's leaves on EVENTS or event RECORDS; none of a segment without matches."""
        index, matches = self._index, []
        batch = EncodedBatch(events, index)
        for segment in index.leaves.segments:
            hits = segment.arrays.search(batch.encoded)
            if len(hits.table):
                matches.append(self._segment_matches(batch, segment, hits))
        if index.blocks.segments:
            matches += self._block_matches(batch)
        return matches

    def _segment_matches(self, batch: EncodedBatch, segment: IndexSegment, hits: IndexHits) -> SegmentMatches:
        none_in_background = not len(self._reasoning.closed.subjects)
        if segment.is_index_decided and none_in_background and not np.count_nonzero(hits.table[:, IS_OPEN]):
            return SegmentMatches(segment, batch, solutions(batch, segment, hits), None)
        leaves, closures = segment.leaves, batch.closures
        hits = _select(hits, segment.live[hits.leaf] & _is_short_enough(batch.events.columns, hits, leaves))
        pair = hits.event.astype(np.int64) * len(leaves) + hits.leaf
        is_open = hits.is_open | (leaves.projection_ids[hits.leaf] == VERIFIED) | closures.is_in_background[hits.event]
        doubtful = np.unique(pair[is_open]) if is_open.any() else pair[:0]
        certain = _select(hits, ~np.isin(pair, doubtful)) if len(doubtful) else hits
        decided = solutions(batch, segment, certain) if len(certain.table) else None
        verified = self._verified(closures, segment, doubtful) if len(doubtful) else None
        return SegmentMatches(segment, batch, decided, verified)

    def _verified(self, closures: EventClosures, segment: IndexSegment, pairs: Ints) -> VerifiedSolutions:
        events: list[int] = []
        leaves: list[int] = []
        bindings: list[LeafBindings] = []
        for event, leaf in zip(*map(np.ndarray.tolist, np.divmod(pairs, len(segment.leaves))), strict=True):
            verifier = self._reasoning.verifier(segment.leaves.leaf(leaf))
            solutions = verifier.solutions(closures.row(event), closures.graph(event), self._reasoning.closed.graph)
            events += [event] * len(solutions)
            leaves += [leaf] * len(solutions)
            bindings += solutions
        rows = list(map(closures.row, events))
        return VerifiedSolutions(np.array(events, np.int64), np.array(leaves, np.int64), bindings, rows)

    def _block_matches(self, batch: EncodedBatch) -> Iterator[SegmentMatches]:
        """The solutions of the leaves with blocks on the XML events of a batch."""
        events, closures = batch.events, batch.closures
        payloads = (
            [row.payload for row in batch.rows] if events.is_small else payload_column(events.columns).to_pylist()
        )
        documents = [(event, data) for event, data in enumerate(payloads) if data]
        trees = [(event, parse_stored_xml(data), Evaluation()) for event, data in documents]
        for segment in self._index.blocks.segments:
            matched: list[tuple[int, int, LeafBindings]] = []
            for event, root, evaluation in trees:
                for leaf, elements in segment.hits(root, evaluation).items():
                    verifier, row = self._reasoning.verifier(segment.leaves[leaf]), closures.row(event)
                    document = XmlDocument(evaluation, segment.index.blocks[leaf].element, elements)
                    solutions = verifier.solutions(row, None, self._reasoning.closed.graph, document)
                    matched += [(event, leaf, solution) for solution in solutions]
            if matched:
                matched_events, leaves, bindings = zip(*matched, strict=True)
                rows = list(map(closures.row, matched_events))
                verified = VerifiedSolutions(
                    np.array(matched_events, np.int64), np.array(leaves, np.int64), [*bindings], rows
                )
                yield SegmentMatches(_index_segment(segment), batch, None, verified)


def solutions(batch: EncodedBatch, segment: IndexSegment, hits: IndexHits) -> Solutions:
    """The solutions of decided hits of a segment's leaves."""
    arrays, encoded = segment.projections, batch.encoded
    event, leaf, starts, binding, term = fill_solutions(
        hits.table, segment.leaves.projection_ids, arrays.starts, arrays.kind, arrays.value_index,
        encoded.starts, encoded.row, len(encoded.terms),
    )  # fmt: skip
    if len(event) > 1:
        retained = _distinct(event, leaf, starts, term)
        if retained is not None:
            event, leaf = event[retained], leaf[retained]
            bindings = _list_elements(starts, retained)
            starts = np.concatenate([[0], np.cumsum(np.diff(starts)[retained])])
            binding, term = binding[bindings], term[bindings]
    return Solutions(event, leaf, starts, binding, term, arrays, batch)


def _distinct(event: Ints, leaf: Ints, starts: Ints, term: Ints) -> Ints | None:
    """The distinct solutions; None when all differ. Two of one event and leaf have the same variables."""
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


class Reasoning:
    """A background with its entailment, for all matchers over it."""

    def __init__(self, background: frozenset[Triple], entailment: str) -> None:
        self.background = background
        self.entailment = entailment

    @cached_property
    def closed(self) -> ClosedBackground:
        return closed_background(self.background, self.entailment)

    @cached_property
    def verifier(self) -> Callable[[LeafQuery], Verifier]:
        return lru_cache(_VERIFIERS)(Verifier)


class IndexedPredicates:
    """What depends on the predicates of an index, but not on its leaves."""

    def __init__(self, leaves: LeafIndex, reasoning: Reasoning) -> None:
        self.names, self.compared = leaves.predicates, leaves.compared
        self.reasoning = reasoning

    def of(self, leaves: LeafIndex) -> IndexedPredicates:
        """The same for another index: this one if it has the same predicates."""
        is_same = (leaves.predicates, leaves.compared) == (self.names, self.compared)
        return self if is_same else IndexedPredicates(leaves, self.reasoning)

    @cached_property
    def encoding(self) -> EncodingTables:
        schema = self.reasoning.closed.reasoner.schema
        return encoding_tables(self.names, set(self.compared), schema.superclasses, schema.properties)

    @cached_property
    def is_simple(self) -> bool:
        """Whether nothing can be inferred about an event."""
        background = self.reasoning.closed
        has_classes = len(class_names(self.encoding)) > 0
        return not len(background.subjects) and hierarchy_suffices(background.reasoner) and not has_classes


class BuiltIndex:
    """The index of some leaves."""

    def __init__(self, leaves: LeafIndex, blocks: XmlIndex, predicates: IndexedPredicates) -> None:
        self.leaves = leaves
        self.blocks = blocks  # of the leaves over XML documents without a class
        self.predicates = predicates

    def exchanged(self, added: Sequence[LeafQuery], removed: Collection[str]) -> BuiltIndex:
        leaves = self.leaves.without(removed).with_leaves([leaf for leaf in added if not is_block_leaf(leaf)])
        blocks = self.blocks.without(removed).with_leaves(filter(is_block_leaf, added))
        return BuiltIndex(leaves, blocks, self.predicates.of(leaves))

    @cached_property
    def referenced(self) -> ReferencedTerms:
        return ReferencedTerms(self.leaves.segments)


@lru_cache(maxsize=64)
def _index_segment(segment: XmlSegment) -> IndexSegment:
    """The leaves of a segment of blocks, as results name them; nothing is searched in it."""
    count = len(segment.leaves)
    leaves = SegmentLeaves(
        pa.array([leaf.name for leaf in segment.leaves], pa.string()),
        (),
        np.full(count, VERIFIED, np.int32),
        np.full(count, ANY_LENGTH, np.int64),
        segment.leaves.__getitem__,
    )
    return IndexSegment(build_arrays([], {}), leaves, ProjectionArrays((), {}), np.ones(count, np.bool_), False)


def _select(hits: IndexHits, rows: npt.NDArray[np.bool_]) -> IndexHits:
    return hits if rows.all() else IndexHits(hits.table[rows])


def _is_short_enough(events: pa.RecordBatch, hits: IndexHits, leaves: SegmentLeaves) -> npt.NDArray[np.bool_]:
    max_length = leaves.max_length[hits.leaf]
    if max_length.min() == ANY_LENGTH:
        return np.ones(len(max_length), np.bool_)
    return np.asarray(_lengths(events)[hits.event] <= max_length)


def _lengths(events: pa.RecordBatch) -> Ints:
    """The length of each event's interval; 0 for an event without times."""
    start, end = (np.asarray(events.column(name).cast(pa.int64()).fill_null(0), np.int64) for name in ("start", "end"))
    return end - start


class MatcherRegistry:
    """The leaves that are matched, and the matcher built for them; empty at first."""

    def __init__(self, background: frozenset[Triple], entailment: str) -> None:
        self.matcher = Matcher((), background, entailment)
        self._leaves: dict[str, LeafQuery] = {}  # by name
        self._is_reused = False  # the matcher has the leaves of another registry

    def __len__(self) -> int:
        return len(self._leaves)

    def reuse(self, registry: MatcherRegistry) -> None:
        """Start with the matcher of another registry, so that common leaves are not indexed again."""
        self.matcher, self._is_reused = registry.matcher, True

    def change(
        self, added: Sequence[LeafQuery], removed: Collection[str], background: frozenset[Triple], entailment: str
    ) -> None:
        """Add and remove leaves; a name in both is removed first."""
        for name in removed:
            self._leaves.pop(name, None)
        self._leaves.update((leaf.name, leaf) for leaf in added)
        if (background, entailment) != (self.matcher.background, self.matcher.entailment):
            self.matcher = Matcher(tuple(self._leaves.values()), background, entailment)
        elif self._is_reused:
            self.matcher = self.matcher.changed(tuple(self._leaves.values()))
        elif added or removed:
            self.matcher = self.matcher.exchanged(added, removed)
        self._is_reused = False
