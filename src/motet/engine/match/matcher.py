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

from motet.engine.match.asked import Asked
from motet.engine.match.closing import Background, Closing, background_of
from motet.engine.match.encode import encode
from motet.engine.match.encode_kernels import Vocabulary
from motet.engine.match.few import SmallMatches, solve_few
from motet.engine.match.index import ANY_LENGTH, VERIFIED, Group, Index, Leaves
from motet.engine.match.leaf import Bindings, LeafQuery
from motet.engine.match.needs import needs_nobody
from motet.engine.match.segment import Hits
from motet.engine.match.solutions import Batch, Solutions, VerifiedSolutions, solutions
from motet.engine.match.texts import Ints
from motet.engine.match.verify import Verifier
from motet.engine.match.vocabulary import class_names, vocabulary
from motet.model.batches import RecordRow, Triple

_VERIFIERS = 10_000

# What a matcher has found for itself: by its subscriptions, and by the predicates these ask for. The rest it has by its
# background alone.
_OF_SUBSCRIPTIONS = ("leaves", "_asked")
_OF_PREDICATES = ("_predicates", "_vocabulary", "_tables")


class SegmentMatches(NamedTuple):
    """The solutions of a group's leaves on a batch: those that the index decides, and those that were verified."""

    group: Group
    batch: Batch
    decided: Solutions | None
    verified: VerifiedSolutions | None

    def events(self) -> Ints:
        """The events that match a leaf, by their index in the batch."""
        parts = (self.decided, self.verified)
        return np.unique(np.concatenate([part.event for part in parts if part is not None]))


class Matcher:
    """Does not change. Picklable: workers build what they need from the plain parts."""

    def __init__(
        self,
        leaves: tuple[LeafQuery, ...],
        background: frozenset[Triple] = frozenset(),
        entailment: str = "owl-rl",
    ) -> None:
        self.background = background
        self.entailment = entailment
        self.__dict__["leaves"] = leaves

    def __reduce__(self) -> tuple[type[Matcher], tuple[object, ...]]:
        return Matcher, (self.leaves, self.background, self.entailment)

    @cached_property
    def leaves(self) -> tuple[LeafQuery, ...]:
        """All leaves; after a change they are read from the index."""
        groups = self._index.groups
        return tuple(group.leaves.leaf(leaf) for group in groups for leaf in np.flatnonzero(group.alive).tolist())

    def changed(self, leaves: tuple[LeafQuery, ...]) -> Matcher:
        """The matcher of other leaves over the same background; common leaves stay indexed."""
        present, requested = set(self.leaves), set(leaves)
        removed = {leaf.name for leaf in present - requested}
        return self.exchanged([leaf for leaf in leaves if leaf not in present], removed)

    def exchanged(self, added: Sequence[LeafQuery], removed: Collection[str]) -> Matcher:
        """The matcher with more leaves, and without those of some names, which added ones may take."""
        index = self._index.without(removed).plus(added)
        asks_alike = (index.predicates, index.compared) == (self._index.predicates, self._index.compared)
        lost = _OF_SUBSCRIPTIONS if asks_alike else {*_OF_SUBSCRIPTIONS, *_OF_PREDICATES}
        matcher = object.__new__(Matcher)  # what the others ask for has been looked into before
        matcher.__dict__.update({name: one for name, one in self.__dict__.items() if name not in lost})
        matcher.__dict__["_index"] = index
        return matcher

    def solve_small(self, records: Sequence[RecordRow]) -> list[SmallMatches] | None:
        """As `solve`, for a few event records in Python values; None when they have to be matched as columns."""
        if not self._is_simple:
            return None
        return solve_few(records, self._index.groups, self._vocabulary, self._predicates)

    def solve(self, events: pa.RecordBatch) -> Iterator[SegmentMatches]:
        """What each group of leaves finds in a batch of EVENTS or of event RECORDS."""
        closing = Closing(events, self._background, self._asked)
        offsets = events.column("offset") if "offset" in events.schema.names else pa.array(np.arange(len(events)))
        batch = Batch(events, offsets, encode(closing.closed, self._vocabulary))
        for group in self._index.groups:
            hits = group.segment.search(batch.encoded)
            if len(hits.table):
                yield self._part(batch, closing, group, hits)

    def groups(self) -> tuple[Group, ...]:
        return self._index.groups

    def _part(self, batch: Batch, closing: Closing, group: Group, hits: Hits) -> SegmentMatches:
        leaves = group.leaves
        if group.is_plain and closing.knows_none and not hits.is_open.any():
            decided = solutions(batch, hits, leaves.forms, leaves.form, self._predicates)
            return SegmentMatches(group, batch, decided, None)
        hits = _chosen(hits, group.alive[hits.leaf] & _short_enough(batch.events, hits, leaves))
        pair = hits.event.astype(np.int64) * len(leaves) + hits.leaf
        asked = hits.is_open | (leaves.form[hits.leaf] == VERIFIED) | closing.known[hits.event]
        doubtful = np.unique(pair[asked]) if asked.any() else pair[:0]
        certain = _chosen(hits, ~np.isin(pair, doubtful)) if len(doubtful) else hits
        return SegmentMatches(
            group,
            batch,
            solutions(batch, certain, leaves.forms, leaves.form, self._predicates) if len(certain.table) else None,
            self._verified(batch, closing, group, doubtful) if len(doubtful) else None,
        )

    def _verified(self, batch: Batch, closing: Closing, group: Group, pairs: Ints) -> VerifiedSolutions:
        events: list[int] = []
        leaves: list[int] = []
        found: list[Bindings] = []
        for event, leaf in zip(*map(np.ndarray.tolist, np.divmod(pairs, len(group.leaves))), strict=True):
            verifier = self._verifier(group.leaves.leaf(leaf))
            solutions = verifier.solutions(closing.row(event), closing.graph(event), self._background.graph)
            events += [event] * len(solutions)
            leaves += [leaf] * len(solutions)
            found += solutions
        rows = list(map(closing.row, events))
        return VerifiedSolutions(np.array(events, np.int64), np.array(leaves, np.int64), found, rows)

    @cached_property
    def _background(self) -> Background:
        return background_of(self.background, self.entailment)

    @cached_property
    def _is_simple(self) -> bool:
        """Whether events mean just what they say."""
        background = self._background
        has_classes = len(class_names(self._vocabulary)) > 0
        return not len(background.subjects) and needs_nobody(background.reasoner) and not has_classes

    @cached_property
    def _index(self) -> Index:
        return Index().plus(self.leaves)

    @cached_property
    def _asked(self) -> Asked:
        return Asked(self._index.groups)

    @cached_property
    def _predicates(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self._index.predicates)}

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        schema = self._background.reasoner.schema
        return vocabulary(self._index.predicates, set(self._index.compared), schema.superclasses, schema.properties)

    @cached_property
    def _verifier(self) -> Callable[[LeafQuery], Verifier]:
        return lru_cache(_VERIFIERS)(Verifier)


def _chosen(hits: Hits, rows: npt.NDArray[np.bool_]) -> Hits:
    return hits if rows.all() else Hits(hits.table[rows])


def _short_enough(events: pa.RecordBatch, hits: Hits, leaves: Leaves) -> npt.NDArray[np.bool_]:
    longest = leaves.longest[hits.leaf]
    if longest.min() == ANY_LENGTH:
        return np.ones(len(longest), np.bool_)
    return np.asarray(_lengths(events)[hits.event] <= longest)


def _lengths(events: pa.RecordBatch) -> Ints:
    """How long each event lasts; without times as if it were a point."""
    start, end = (np.asarray(events.column(name).cast(pa.int64()).fill_null(0), np.int64) for name in ("start", "end"))
    return end - start
