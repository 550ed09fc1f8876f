"""Routing: the bucket in which an occurrence of a leaf is detected, when detection is partitioned.

The route of a subscription depends on nothing but the subscription, so that others never move its state. It is by key
if it has a partition key that its notifications project: then those of different buckets differ. It is by event if each
event decides alone. Otherwise it is to a single bucket: one for all equal subscriptions, and one for all that
derivation edges link.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

import numpy as np
import pyarrow as pa

from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.occurrences import Occurrences
from motet.engine.detect.output import root_output
from motet.engine.match.closure import closed_background
from motet.engine.match.single_events import is_single_event
from motet.engine.runtime.active_subscription import parse_stored
from motet.jit.compiled import Ints
from motet.language.syntax import Construct, Subscription
from motet.model.control import ControlState
from motet.model.records import BackgroundChange, SettingsChange, Subscribe, control_records
from motet.plan.builder import PlanBuilder, build_plan
from motet.plan.derivation_edges import linked_names
from motet.plan.graph import Kind, Plan, PlanNode, Root, Route, RouteKind, Start
from motet.plan.partitioning import Component, components

_DERIVATIONS = "what feeds each other"  # hashed to a bucket: not to be changed
_MAX_CACHED = 20_000  # subscriptions


def bucket_of(strings: Sequence[str], count: int) -> int:
    """The bucket of a key, the same in all processes.

    >>> bucket_of(["<urn:room:1>"], 64), bucket_of(["<urn:room:1>"], 64)
    (34, 34)
    """
    digest = blake2b("\n".join(strings).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") % count


@dataclass(frozen=True)
class BucketLayout:
    """The number of buckets, and the subscriptions at either end of a derivation edge."""

    count: int
    derivation_linked: frozenset[str] = frozenset()

    @property
    def derivation_bucket(self) -> int:
        """The bucket of all subscriptions that are linked by derivation edges."""
        return bucket_of([_DERIVATIONS], self.count)

    def routes(self, subscription: Subscription) -> Mapping[str, Route]:
        """The route of each EVENT of a subscription, by its name."""
        if subscription.name in self.derivation_linked:
            return dict.fromkeys(
                (event.name for event in subscription.events), Route(RouteKind.SINGLE, (_DERIVATIONS,))
            )
        return leaf_routes(subscription)

    def is_single_bucket(self, subscription: Subscription) -> bool:
        """Whether all occurrences of a subscription are in one bucket."""
        return any(route.kind is RouteKind.SINGLE for route in self.routes(subscription).values())

    def may_hold(self, bucket: int, subscription: Subscription) -> bool:
        """Whether a subscription may have occurrences in a bucket."""
        labels = {route.key for route in self.routes(subscription).values() if route.kind is RouteKind.SINGLE}
        return not labels or any(bucket_of(label, self.count) == bucket for label in labels)

    def buckets_of(self, node: PlanNode, table: Occurrences, dictionary: Dictionary) -> Ints:
        """The bucket of each occurrence of a leaf."""
        route = node.route
        if route is None or route.kind is RouteKind.SINGLE:
            return np.full(len(table), bucket_of(route.key if route else [_DERIVATIONS], self.count))
        if route.kind is RouteKind.EVENT:
            iris = dictionary.events.iris(table.events).to_pylist()
            return np.array([bucket_of([iri], self.count) for iri in iris], np.int64)
        columns = [node.variables.index(name) for name in route.key]
        distinct, indexes = np.unique(table.values[:, columns], axis=0, return_inverse=True)
        keys = [[dictionary.string(value) for value in key] for key in distinct.tolist()]
        return np.array([bucket_of(key, self.count) for key in keys], np.int64)[indexes.ravel()]


def derivation_linked(controls: pa.RecordBatch) -> frozenset[str]:
    """The names at either end of a derivation edge, if all subscriptions of the given records were active at once.

    The records begin with the log; other records than control records are skipped.
    """
    records = list(control_records(controls, Subscribe, BackgroundChange, SettingsChange))
    subscriptions = [
        subscription
        for record in records
        if isinstance(record, Subscribe)
        for subscription in parse_stored(record.text, f"subscription {record.name!r} in the log")
    ]
    if not any(isinstance(subscription.delivery, Construct) for subscription in subscriptions):
        return frozenset()
    state = ControlState().apply_all(records)
    return linked_names(
        build_plan(subscriptions), closed_background(state.fix_edge_background(), state.edge_entailment).reasoner
    )


@lru_cache(maxsize=_MAX_CACHED)
def leaf_routes(subscription: Subscription) -> Mapping[str, Route]:
    """The route of each EVENT, by its name, of a subscription without derivation edges.

    >>> from motet.language.parse import parse
    >>> leaf = "EVENT {0} {{ ?{0} <urn:room> ?room }}".format
    >>> subscriptions = (
    ...     parse(f"SUBSCRIPTION s {leaf('a')} {leaf('b')} WHEN a BEFORE b WITHIN 5 s SELECT {variables}")[0]
    ...     for variables in ("?room", "?a")
    ... )
    >>> [{route.kind.name for route in leaf_routes(subscription).values()} for subscription in subscriptions]
    [{'KEY'}, {'SINGLE'}]
    """
    builder = PlanBuilder()
    root = builder.add(subscription, Start(0, subscription.since))
    plan = builder.plan([root])
    (component,) = components(plan)
    leaf_ids = {event.name: builder.leaf(event)[0] for event in subscription.events}
    # In buckets a single-event subscription has only its backfill, which is read once: in a single bucket.
    if component.is_stateless and not is_single_event(subscription):
        return dict.fromkeys(leaf_ids, Route(RouteKind.EVENT))
    keys = _leaf_keys(plan, component, _projected(plan, root))
    if keys.keys() >= set(leaf_ids.values()):
        return {name: Route(RouteKind.KEY, keys[leaf_id]) for name, leaf_id in leaf_ids.items()}
    return dict.fromkeys(leaf_ids, Route(RouteKind.SINGLE, (builder.digests[root.node],)))


def _projected(plan: Plan, root: Root) -> set[str]:
    """The variables of the root node that notifications project."""
    node = plan.nodes[root.node]
    return {node.variables[index] for index in root_output(root, node, root.start.offset).variable_indexes}


def _leaf_keys(plan: Plan, component: Component, projected: Collection[str]) -> dict[int, tuple[str, ...]]:
    """The projected part of the key in the variables of each leaf, by leaf id; not of a leaf that has two keys."""
    (root,) = plan.roots
    positions = [position for position, name in enumerate(component.key(root.node)) if name in projected]
    keys: dict[int, set[tuple[str, ...]]] = {}
    for node_id in component.nodes if positions else ():
        for edge in plan.nodes[node_id].children:
            leaf = plan.nodes[edge.child]
            if leaf.kind is Kind.LEAF and leaf.operator.leaf_id is not None:
                leaf_variables = {parent: child for child, parent in edge.renaming}
                key = component.key(node_id)
                leaf_key = tuple(leaf_variables[key[position]] for position in positions)
                keys.setdefault(leaf.operator.leaf_id, set()).add(leaf_key)
    return {leaf_id: next(iter(leaf_keys)) for leaf_id, leaf_keys in keys.items() if len(leaf_keys) == 1}
