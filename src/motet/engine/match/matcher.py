"""Matching subscriptions of a single EVENT, a batch of events at a time.

The index says which subscriptions an event meets. What the index cannot decide alone (FILTERs beyond comparisons,
OPTIONAL, joins with the background, ties between numbers that float64 cannot tell apart) is verified, subscription by
subscription, over the event's closed graph.
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
from motet.engine.match.few import tell_few
from motet.engine.match.index import ANY_LENGTH, VERIFIED, Group, Index, Leaves
from motet.engine.match.needs import needs_nobody
from motet.engine.match.segment import Hits
from motet.engine.match.solutions import Batch, Solutions, solutions
from motet.engine.match.texts import Ints
from motet.engine.match.verify import Verifier, leaf_of
from motet.engine.match.vocabulary import class_names, vocabulary
from motet.language.syntax import Subscription
from motet.model.batches import RecordRow, Triple, notification_batch, notification_rows, record_batch
from motet.model.notifications import Notification

_VERIFIERS = 10_000

# What a matcher has found for itself: by its subscriptions, and by the predicates these ask for. The rest it has by its
# background alone.
_OF_SUBSCRIPTIONS = ("subscriptions", "_asked")
_OF_PREDICATES = ("_predicates", "_vocabulary", "_tables")


class Verified(NamedTuple):
    """Notifications with their events."""

    notifications: pa.RecordBatch
    event: Ints


class Part(NamedTuple):
    """What the leaves of a group find: solutions the index decides, and notifications that were verified."""

    group: Group
    decided: Solutions | None
    verified: Verified | None


class Matcher:
    """Does not change. Picklable: workers build what they need from the plain parts."""

    def __init__(
        self,
        subscriptions: tuple[Subscription, ...],
        background: frozenset[Triple] = frozenset(),
        entailment: str = "owl-rl",
    ) -> None:
        for subscription in subscriptions:
            leaf_of(subscription)
        self.background = background
        self.entailment = entailment
        self.__dict__["subscriptions"] = subscriptions

    def __reduce__(self) -> tuple[type[Matcher], tuple[object, ...]]:
        return Matcher, (self.subscriptions, self.background, self.entailment)

    @cached_property
    def subscriptions(self) -> tuple[Subscription, ...]:
        """All; where some have come and gone, the index knows who is left."""
        groups = self._index.groups
        return tuple(
            group.leaves.subscription(leaf) for group in groups for leaf in np.flatnonzero(group.alive).tolist()
        )

    def changed(self, subscriptions: tuple[Subscription, ...]) -> Matcher:
        """The matcher of other subscriptions over the same background; what both have in common is kept."""
        known, wanted = set(self.subscriptions), set(subscriptions)
        gone = {subscription.name for subscription in known - wanted}
        return self.exchanged([one for one in subscriptions if one not in known], gone)

    def exchanged(self, come: Sequence[Subscription], gone: Collection[str]) -> Matcher:
        """The matcher with some more subscriptions, and without those of some names, which others may take."""
        for subscription in come:
            leaf_of(subscription)
        index = self._index.without(gone).plus(come)
        asks_alike = (index.predicates, index.compared) == (self._index.predicates, self._index.compared)
        lost = _OF_SUBSCRIPTIONS if asks_alike else {*_OF_SUBSCRIPTIONS, *_OF_PREDICATES}
        matcher = object.__new__(Matcher)  # what the others ask for has been looked into before
        matcher.__dict__.update({name: one for name, one in self.__dict__.items() if name not in lost})
        matcher.__dict__["_index"] = index
        return matcher

    def notify(self, events: pa.RecordBatch) -> pa.RecordBatch:
        """The notifications of a batch of EVENTS or of event RECORDS, in the order of the events."""
        found: list[tuple[pa.RecordBatch, Ints]] = []
        for part in self.solve(events):
            if part.decided is not None:
                found.append((part.decided.notifications(part.group.leaves.names), part.decided.event))
            if part.verified is not None:
                found.append(part.verified)
        if not found:
            return notification_batch(())
        if len(found) == 1:  # is in order
            return found[0][0]
        tables = pa.Table.from_batches([notifications for notifications, _ in found]).combine_chunks()
        order = np.argsort(np.concatenate([event for _, event in found]), kind="stable")
        (ordered,) = tables.take(pa.array(order)).combine_chunks().to_batches() or [notification_batch(())]
        return ordered

    def tell(self, records: Sequence[RecordRow]) -> list[tuple[Notification, int]]:
        """As `notify`, from event records in Python values to such: quicker for a few events."""
        told = tell_few(records, self._index.groups, self._vocabulary, self._predicates) if self._is_simple else None
        return list(notification_rows(self.notify(record_batch(records)))) if told is None else told

    def solve(self, events: pa.RecordBatch) -> Iterator[Part]:
        """What each group of leaves finds in a batch of EVENTS or of event RECORDS."""
        closing = Closing(events, self._background, self._asked)
        offsets = events.column("offset") if "offset" in events.schema.names else pa.array(np.arange(len(events)))
        batch = Batch(events, offsets, encode(closing.closed, self._vocabulary))
        for group in self._index.groups:
            hits = group.segment.search(batch.encoded)
            if len(hits.table):
                yield self._part(batch, closing, group, hits)

    def leaves(self) -> Iterator[Leaves]:
        """Those of each group."""
        return (group.leaves for group in self._index.groups)

    def _part(self, batch: Batch, closing: Closing, group: Group, hits: Hits) -> Part:
        leaves = group.leaves
        if group.is_plain and closing.knows_none and not hits.is_open.any():
            return Part(group, solutions(batch, hits, leaves.forms, leaves.form, self._predicates), None)
        hits = _chosen(hits, group.alive[hits.leaf] & _short_enough(batch.events, hits, leaves))
        pair = hits.event.astype(np.int64) * len(leaves) + hits.leaf
        asked = hits.is_open | (leaves.form[hits.leaf] == VERIFIED) | closing.known[hits.event]
        doubtful = np.unique(pair[asked]) if asked.any() else pair[:0]
        decided = _chosen(hits, ~np.isin(pair, doubtful)) if len(doubtful) else hits
        return Part(
            group,
            solutions(batch, decided, leaves.forms, leaves.form, self._predicates) if len(decided.table) else None,
            self._verified(batch, closing, group, doubtful) if len(doubtful) else None,
        )

    def _verified(self, batch: Batch, closing: Closing, group: Group, pairs: Ints) -> Verified:
        found: list[tuple[Notification, int]] = []
        places: list[int] = []
        for event, leaf in zip(*map(np.ndarray.tolist, np.divmod(pairs, len(group.leaves))), strict=True):
            verifier = self._verifier(group.leaves.subscription(leaf))
            told = list(verifier.match(closing.row(event), closing.graph(event), self._background.graph))
            found += [(notification, batch.offsets[event].as_py()) for notification in told]
            places += [event] * len(told)
        return Verified(notification_batch(found), np.array(places, np.int64))

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
        return Index().plus(self.subscriptions)

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
    def _verifier(self) -> Callable[[Subscription], Verifier]:
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
