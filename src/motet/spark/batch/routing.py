"""Routes the events of a batch job before the shuffle, and filters a bucket's occurrences after it.

A task emits the notifications of single-event subscriptions. An event goes to each detection group with a leaf that it
matches: to the bucket of each solution's key, to the bucket of the event, or to the group's single bucket. After the
shuffle the same hash selects the solutions that belong to a bucket.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.occurrences import Occurrences
from motet.engine.match.leaf import LeafQuery
from motet.engine.match.matcher import Matcher
from motet.engine.match.single_events import is_single_event, notify, single_event_leaf
from motet.engine.runtime.routing import bucket_of
from motet.jit.compiled import Ints
from motet.language.syntax import Select
from motet.plan.graph import Kind, Plan, RouteKind
from motet.spark.batch.job_plan import DetectionGroup, JobPlan

BUCKETS = 64  # of a group that is routed by key or by event

ROUTES = pa.schema([pa.field(name, pa.int32(), nullable=False) for name in ("event", "group", "bucket")])
NO_ROUTES = pa.RecordBatch.from_pylist([], schema=ROUTES)


@dataclass(frozen=True)
class RoutedEvents:
    """The result of matching events in a task: NOTIFICATIONS, and ROUTES in the order of the events."""

    notifications: pa.RecordBatch
    routes: pa.RecordBatch = field(default_factory=lambda: NO_ROUTES)


@dataclass(frozen=True)
class RoutedLeaf:
    """A leaf of a detection group; ``key`` has indices into the variables it projects, which are sorted by name."""

    group: int
    route_kind: RouteKind
    leaf: LeafQuery
    key: tuple[int, ...] = ()


@dataclass(frozen=True)
class EventRouter:
    """Matches all single-event subscriptions and all leaves of a job at once."""

    plan: JobPlan

    def match(self, events: pa.RecordBatch) -> RoutedEvents:
        """The notifications and routes of EVENTS whose ``offset`` is their index."""
        matched = notify(self._matcher, events)
        names = matched.column("subscription").dictionary_encode()
        if not any(name in self._leaves for name in names.dictionary.to_pylist()):
            return RoutedEvents(matched)
        is_leaf = pc.is_in(names.dictionary, value_set=pa.array(self._leaves, pa.string())).take(names.indices)
        routes = self._routes(matched.filter(is_leaf), events.column("id"))
        return RoutedEvents(matched.filter(pc.invert(is_leaf)), routes)

    @cached_property
    def _leaves(self) -> dict[str, RoutedLeaf]:
        """The leaves of all groups, by a name that no subscription has."""
        leaves = [
            leaf
            for index, group in enumerate(self.plan.groups)
            for leaf in _group_leaves(index, group, self.plan.prototype.spawn(group.subscriptions).plan())
        ]
        return {f" {index}": leaf for index, leaf in enumerate(leaves)}

    @cached_property
    def _matcher(self) -> Matcher:
        leaves = (replace(routed.leaf, name=name) for name, routed in self._leaves.items())
        single_event = map(single_event_leaf, self.plan.single_event)
        return Matcher((*single_event, *leaves), self.plan.background, self.plan.resolved_entailment)

    def _routes(self, matched: pa.RecordBatch, ids: pa.Array) -> pa.RecordBatch:
        names = matched.column("subscription").dictionary_encode()
        name_indices = np.asarray(names.indices)
        rows = []
        for index, name in enumerate(names.dictionary.to_pylist()):
            solutions = matched.filter(pa.array(name_indices == index))
            leaf = self._leaves[name]
            events = np.asarray(solutions.column("offset"))
            group = np.full(len(events), leaf.group)
            rows.append(np.stack([events, group, _buckets(leaf, solutions, ids, events)], axis=1))
        routes = np.unique(np.concatenate(rows), axis=0)
        return pa.RecordBatch.from_arrays([pa.array(column, pa.int32()) for column in routes.T], schema=ROUTES)

    def __reduce__(self) -> tuple[type[EventRouter], tuple[object, ...]]:
        return EventRouter, (self.plan,)


@dataclass(frozen=True)
class BucketFilter:
    """Selects the occurrences of leaves whose key belongs to a bucket."""

    group: DetectionGroup
    plan: Plan
    bucket: int

    def __call__(self, leaf: int, table: Occurrences, dictionary: Dictionary) -> Occurrences:
        node = self.plan.builder_ids.index(leaf)
        variables = self.plan.nodes[node].variables
        columns = [variables.index(name) for name in self.group.keys[node]]
        distinct, key_indices = np.unique(table.values[:, columns], axis=0, return_inverse=True)
        keys = [[dictionary.string(term_id) for term_id in key] for key in distinct.tolist()]
        buckets = np.array([bucket_of(key, BUCKETS) for key in keys], np.int64)
        return table.take(buckets[key_indices.ravel()] == self.bucket)


def _group_leaves(index: int, group: DetectionGroup, plan: Plan) -> Iterator[RoutedLeaf]:
    """The leaves of a group, and its single-event subscriptions."""
    for node in plan.nodes:
        if node.kind is Kind.LEAF and node.operator.leaf_id is not None:
            event = plan.events[node.operator.leaf_id]
            key = [plan.leaf_names[node.operator.leaf_id][name] for name in group.keys.get(node.id, ())]
            projected = tuple(sorted(set(key)))
            yield RoutedLeaf(index, group.route_kind, LeafQuery("", event, projected), tuple(map(projected.index, key)))
    for subscription in group.subscriptions:
        if is_single_event(subscription):
            yield RoutedLeaf(index, group.route_kind, single_event_leaf(replace(subscription, delivery=Select(()))))


def _buckets(leaf: RoutedLeaf, solutions: pa.RecordBatch, ids: pa.Array, events: Ints) -> Ints:
    """The bucket of each solution of a leaf."""
    match leaf.route_kind:
        case RouteKind.KEY:
            width = len(set(leaf.key))
            terms = solutions.column("bindings").flatten().field("term").dictionary_encode()
            keys = np.asarray(terms.indices).reshape(len(events), width)[:, list(leaf.key)]
            return _hash_keys(keys, terms.dictionary.to_pylist())
        case RouteKind.EVENT:
            event_ids = ids.take(pa.array(events)).dictionary_encode()
            return _hash_keys(np.asarray(event_ids.indices)[:, None], event_ids.dictionary.to_pylist())
    return np.zeros(len(events), np.int64)


def _hash_keys(keys: Ints, strings: Sequence[str]) -> Ints:
    """The bucket of each key, given as indices into strings; each distinct key is hashed once."""
    distinct, key_indices = np.unique(keys, axis=0, return_inverse=True)
    buckets = [bucket_of([strings[index] for index in key], BUCKETS) for key in distinct.tolist()]
    return np.array(buckets, np.int64)[key_indices.ravel()]
