"""What a task makes of decoded events before the shuffle: notifications of single events, and where the others go.

An event goes to the components one of whose leaves it matches: to the bucket of each match, or to the only one. The
same hash decides, behind the shuffle, which matches a bucket takes for its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.buckets import bucket_of
from motet.engine.detect.columns import Ints
from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.occurrences import Occurrences
from motet.engine.match.matcher import Matcher
from motet.engine.match.verify import is_single
from motet.language.syntax import Leaf, Select, Subscription
from motet.plan.graph import Kind, Plan
from motet.spark.batch.job_plan import DetectionGroup, JobPlan, Spread

BUCKETS = 64  # of a component that can be spread

ROUTES = pa.schema([pa.field(name, pa.int32(), nullable=False) for name in ("event", "component", "bucket")])


NO_ROUTES = pa.RecordBatch.from_pylist([], schema=ROUTES)


@dataclass(frozen=True)
class RoutedEvents:
    """What a task finds in some events: NOTIFICATIONS, and GROUPS in the order of the events."""

    notifications: pa.RecordBatch
    routes: pa.RecordBatch = field(default_factory=lambda: NO_ROUTES)


@dataclass(frozen=True)
class RoutedLeaf:
    """A leaf of a component; ``key`` are places among the variables it is matched for, in the order of their names."""

    component: int
    spread: Spread
    subscription: Subscription
    key: tuple[int, ...] = ()


@dataclass(frozen=True)
class EventRouter:
    """Matches all leaves of a division at once."""

    plan: JobPlan

    def match(self, events: pa.RecordBatch) -> RoutedEvents:
        """Of EVENTS that carry their places as ``offset``."""
        matched = self._matcher.notify(events)
        names = matched.column("subscription").dictionary_encode()
        if not any(name in self._wanted for name in names.dictionary.to_pylist()):
            return RoutedEvents(matched)
        is_own = pc.is_in(names.dictionary, value_set=pa.array(self._wanted, pa.string()))
        own = is_own.take(names.indices)
        return RoutedEvents(matched.filter(pc.invert(own)), self._groups(matched.filter(own), events.column("id")))

    @cached_property
    def _wanted(self) -> dict[str, RoutedLeaf]:
        """By a name that no subscription has."""
        leaves = [
            leaf
            for number, component in enumerate(self.plan.groups)
            for leaf in _leaves(number, component, self.plan.prototype.anew(component.subscriptions).plan())
        ]
        return {f" {place}": leaf for place, leaf in enumerate(leaves)}

    @cached_property
    def _matcher(self) -> Matcher:
        leaves = tuple(replace(leaf.subscription, name=name) for name, leaf in self._wanted.items())
        return Matcher((*self.plan.single_event, *leaves), self.plan.background, self.plan.resolved_entailment)

    def _groups(self, matched: pa.RecordBatch, ids: pa.Array) -> pa.RecordBatch:
        names = matched.column("subscription").dictionary_encode()
        numbers = np.asarray(names.indices)
        rows = []
        for number, name in enumerate(names.dictionary.to_pylist()):
            of_leaf = matched.filter(pa.array(numbers == number))
            wanted = self._wanted[name]
            places = np.asarray(of_leaf.column("offset"))
            component = np.full(len(places), wanted.component)
            rows.append(np.stack([places, component, _buckets(wanted, of_leaf, ids, places)], axis=1))
        found = np.unique(np.concatenate(rows), axis=0)
        return pa.RecordBatch.from_arrays([pa.array(column, pa.int32()) for column in found.T], schema=ROUTES)

    def __reduce__(self) -> tuple[type[EventRouter], tuple[object, ...]]:
        return EventRouter, (self.plan,)


@dataclass(frozen=True)
class BucketFilter:
    """Keeps, of the occurrences of leaves, those whose key belongs to a bucket."""

    component: DetectionGroup
    plan: Plan
    number: int

    def __call__(self, leaf: int, table: Occurrences, names: Dictionary) -> Occurrences:
        place = self.plan.ids.index(leaf)
        variables = self.plan.nodes[place].variables
        columns = [variables.index(name) for name in self.component.keys[place]]
        distinct, places = np.unique(table.values[:, columns], axis=0, return_inverse=True)
        strings = [[names.string(value) for value in key] for key in distinct.tolist()]
        buckets = np.array([bucket_of(key, BUCKETS) for key in strings], np.int64)
        return table.take(buckets[places.ravel()] == self.number)


def _leaves(number: int, component: DetectionGroup, plan: Plan) -> Iterator[RoutedLeaf]:
    """What has to be matched for a component."""
    for node in plan.nodes:
        if node.kind is Kind.LEAF and node.operator.match is not None:
            event = plan.events[node.operator.match]
            own = [plan.leaf_names[node.operator.match][name] for name in component.keys.get(node.id, ())]
            shown = tuple(sorted(set(own)))
            subscription = Subscription("", (event,), Leaf(event.name), delivery=Select(shown))
            yield RoutedLeaf(number, component.route_kind, subscription, tuple(map(shown.index, own)))
    for one in component.subscriptions:
        if is_single(one):
            yield RoutedLeaf(number, component.route_kind, replace(one, delivery=Select(())))


def _buckets(wanted: RoutedLeaf, matched: pa.RecordBatch, ids: pa.Array, places: Ints) -> Ints:
    """The bucket of each match of a leaf."""
    match wanted.spread:
        case Spread.KEY:
            width = len(set(wanted.key))
            terms = matched.column("bindings").flatten().field("term").dictionary_encode()
            keys = np.asarray(terms.indices).reshape(len(places), width)[:, list(wanted.key)]
            return _hashed(keys, terms.dictionary.to_pylist())
        case Spread.EVENT:
            own = ids.take(pa.array(places)).dictionary_encode()
            return _hashed(np.asarray(own.indices)[:, None], own.dictionary.to_pylist())
    return np.zeros(len(places), np.int64)


def _hashed(keys: Ints, strings: Sequence[str]) -> Ints:
    distinct, places = np.unique(keys, axis=0, return_inverse=True)
    buckets = [bucket_of([strings[number] for number in key], BUCKETS) for key in distinct.tolist()]
    return np.array(buckets, np.int64)[places.ravel()]
