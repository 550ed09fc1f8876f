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
    SegmentLeaves,
    build_arrays,
)
from motet.engine.match.leaf import LeafBindings, LeafQuery
from motet.engine.match.search_kernels import IS_OPEN
from motet.engine.match.solutions import EncodedBatch, Solutions, VerifiedSolutions, solutions
from motet.engine.match.verifier import Verifier, XmlDocument
from motet.engine.match.xml_index import XmlIndex, XmlSegment, is_block_leaf
from motet.jit.compiled import Ints
from motet.model.batches import Records, Triple, payload_column
from motet.model.control import entailment_of
from motet.model.xml_document import parse_stored_xml
from motet.xmlql.evaluate import Evaluation

_VERIFIERS = 10_000


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
        self._reasoning = _Reasoning(background, entailment_of(background, entailment))
        self._leaves: tuple[LeafQuery, ...] | None = leaves  # None after a change: they are read from the index
        self._built: _BuiltIndex | None = None

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

    def changed(self, leaves: tuple[LeafQuery, ...]) -> Matcher:
        """The matcher of other leaves over the same background; common leaves stay indexed."""
        present, requested = set(self.leaves), set(leaves)
        removed = {leaf.name for leaf in present - requested}
        return self.exchanged([leaf for leaf in leaves if leaf not in present], removed)

    def exchanged(self, added: Sequence[LeafQuery], removed: Collection[str]) -> Matcher:
        """The matcher with more leaves, and without those of some names, which added ones may take."""
        matcher = Matcher((), self.background, self.entailment)
        matcher._reasoning, matcher._leaves = self._reasoning, None
        matcher._built = self._index.exchanged(added, removed)
        return matcher

    def solve(self, events: Records) -> list[SegmentMatches]:
        """The solutions of each segment's leaves on EVENTS or event RECORDS; none of a segment without matches."""
        index = self._built or self._index
        tables = index.predicates.encoding
        closures = EventClosures(events, self._reasoning.closed, index.referenced)
        if events.is_small and index.predicates.is_simple:
            encoded = encode_small(events.rows(), tables)
        else:
            encoded = encode(closures.closed, tables)
        batch = EncodedBatch(events, encoded)
        matches = []
        for segment in index.leaves.segments:
            hits = segment.arrays.search(encoded)
            if len(hits.table):
                matches.append(self._segment_matches(batch, closures, segment, hits))
        if index.blocks.segments:
            matches += self._block_matches(batch, closures)
        return matches

    def _block_matches(self, batch: EncodedBatch, closures: EventClosures) -> Iterator[SegmentMatches]:
        """The solutions of the leaves with blocks on the XML events of a batch."""
        events = batch.events
        payloads = (
            [row.payload for row in events.rows()] if events.is_small else payload_column(events.columns()).to_pylist()
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

    def segments(self) -> tuple[IndexSegment, ...]:
        return self._index.leaves.segments

    def _segment_matches(
        self, batch: EncodedBatch, closures: EventClosures, segment: IndexSegment, hits: IndexHits
    ) -> SegmentMatches:
        leaves = segment.leaves
        if segment.is_index_decided and closures.none_in_background and not hits.table[:, IS_OPEN].any():
            return SegmentMatches(segment, batch, solutions(batch, hits, leaves, self._index.predicates.ids), None)
        hits = _select(hits, segment.live[hits.leaf] & _is_short_enough(batch.events.columns(), hits, leaves))
        pair = hits.event.astype(np.int64) * len(leaves) + hits.leaf
        is_open = hits.is_open | (leaves.projection_ids[hits.leaf] == VERIFIED) | closures.is_in_background[hits.event]
        doubtful = np.unique(pair[is_open]) if is_open.any() else pair[:0]
        certain = _select(hits, ~np.isin(pair, doubtful)) if len(doubtful) else hits
        decided = solutions(batch, certain, leaves, self._index.predicates.ids) if len(certain.table) else None
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

    @property
    def _index(self) -> _BuiltIndex:
        if self._built is None:
            added = self._leaves or ()
            leaves = LeafIndex().with_leaves([leaf for leaf in added if not is_block_leaf(leaf)])
            blocks = XmlIndex().with_leaves(filter(is_block_leaf, added))
            self._built = _BuiltIndex(leaves, _IndexedPredicates(leaves, self._reasoning), blocks)
        return self._built


class _Reasoning:
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


class _IndexedPredicates:
    """What depends on the predicates of an index, but not on its leaves."""

    def __init__(self, leaves: LeafIndex, reasoning: _Reasoning) -> None:
        self.names, self.compared = leaves.predicates, leaves.compared
        self._reasoning = reasoning

    def of(self, leaves: LeafIndex) -> _IndexedPredicates:
        """The same for another index: this one if it has the same predicates."""
        is_same = (leaves.predicates, leaves.compared) == (self.names, self.compared)
        return self if is_same else _IndexedPredicates(leaves, self._reasoning)

    @cached_property
    def ids(self) -> dict[str, int]:
        return {name: id_ for id_, name in enumerate(self.names)}

    @cached_property
    def encoding(self) -> EncodingTables:
        schema = self._reasoning.closed.reasoner.schema
        return encoding_tables(self.names, set(self.compared), schema.superclasses, schema.properties)

    @cached_property
    def is_simple(self) -> bool:
        """Whether nothing can be inferred about an event."""
        background = self._reasoning.closed
        has_classes = len(class_names(self.encoding)) > 0
        return not len(background.subjects) and hierarchy_suffices(background.reasoner) and not has_classes


class _BuiltIndex:
    """The index of some leaves."""

    def __init__(self, leaves: LeafIndex, predicates: _IndexedPredicates, blocks: XmlIndex) -> None:
        self.leaves = leaves
        self.predicates = predicates
        self.blocks = blocks  # of the leaves over XML documents without a class

    def exchanged(self, added: Sequence[LeafQuery], removed: Collection[str]) -> _BuiltIndex:
        leaves = self.leaves.without(removed).with_leaves([leaf for leaf in added if not is_block_leaf(leaf)])
        blocks = self.blocks.without(removed).with_leaves(filter(is_block_leaf, added))
        return _BuiltIndex(leaves, self.predicates.of(leaves), blocks)

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
    return IndexSegment(build_arrays([], {}), leaves, np.ones(count, np.bool_), False)


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
