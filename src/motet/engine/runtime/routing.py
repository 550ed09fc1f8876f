"""How detection is spread over buckets: which bucket an occurrence of a leaf belongs to.

Every subscription has a route of its own, found from it alone, so that others coming and going never moves what it
remembers. It is spread by the values of a key, if it has one that its notifications show: then those of different
buckets differ. One whose events each decide alone is spread by event. Any other has a home: one bucket for all equal
ones, and one for all that feed each other by CONSTRUCT.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

import numpy as np
import pyarrow as pa

from motet.engine.detect.columns import Ints
from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.occurrences import Occurrences
from motet.engine.detect.output import root_output
from motet.engine.match.closing import background_of
from motet.engine.match.single_events import is_single_event
from motet.engine.runtime.active_subscription import parse_stored
from motet.language.syntax import Construct, Subscription
from motet.model.control import ControlState
from motet.model.records import BackgroundChange, Subscribe, control_records
from motet.plan.builder import PlanBuilder, build_plan
from motet.plan.derivation_edges import linked_names
from motet.plan.graph import Kind, Plan, PlanNode, Root, Route, RouteKind, Start
from motet.plan.partitioning import Component, components

_FED = "what feeds each other"
_ROUTES = 20_000  # of so many subscriptions routes are remembered


def bucket_of(strings: Sequence[str], count: int) -> int:
    """The bucket of a key, the same in all processes.

    >>> bucket_of(["<urn:room:1>"], 64), bucket_of(["<urn:room:1>"], 64)
    (34, 34)
    """
    code = blake2b("\n".join(strings).encode(), digest_size=8).digest()
    return int.from_bytes(code, "little") % count


@dataclass(frozen=True)
class BucketLayout:
    """``fed`` are the subscriptions that derive events for others, and those others."""

    count: int
    derivation_linked: frozenset[str] = frozenset()

    @property
    def derivation_bucket(self) -> int:
        """Where derived events are."""
        return bucket_of([_FED], self.count)

    def routes(self, subscription: Subscription) -> Mapping[str, Route]:
        """Of each EVENT of a subscription."""
        if subscription.name in self.derivation_linked:
            return dict.fromkeys((event.name for event in subscription.events), Route(RouteKind.SINGLE, (_FED,)))
        return leaf_routes(subscription)

    def is_single_bucket(self, subscription: Subscription) -> bool:
        """Whether all occurrences of a subscription are in one bucket."""
        return any(route.kind is RouteKind.SINGLE for route in self.routes(subscription).values())

    def may_hold(self, bucket: int, subscription: Subscription) -> bool:
        """Whether occurrences of a subscription may be in a bucket; silence speaks only at home."""
        labels = {route.key for route in self.routes(subscription).values() if route.kind is RouteKind.SINGLE}
        return not labels or any(bucket_of(label, self.count) == bucket for label in labels)

    def buckets_of(self, node: PlanNode, table: Occurrences, names: Dictionary) -> Ints:
        """The bucket of each occurrence of a leaf."""
        route = node.route
        if route is None or route.kind is RouteKind.SINGLE:
            return np.full(len(table), bucket_of(route.key if route else [_FED], self.count))
        if route.kind is RouteKind.EVENT:
            ids = names.events.iris(table.events).to_pylist()
            return np.array([bucket_of([id_], self.count) for id_ in ids], np.int64)
        columns = [node.variables.index(name) for name in route.key]
        distinct, places = np.unique(table.values[:, columns], axis=0, return_inverse=True)
        keys = [[names.string(value) for value in key] for key in distinct.tolist()]
        return np.array([bucket_of(key, self.count) for key in keys], np.int64)[places.ravel()]


def derivation_linked(controls: pa.RecordBatch) -> frozenset[str]:
    """The subscriptions of some control records, from the beginning of the log on, that derive events for others, and
    those others, were they all in force at once. Records of other kinds are passed over.
    """
    records = list(control_records(controls, Subscribe, BackgroundChange))
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
        build_plan(subscriptions), background_of(state.fix_edge_background(), state.edge_entailment).reasoner
    )


@lru_cache(maxsize=_ROUTES)
def leaf_routes(subscription: Subscription) -> Mapping[str, Route]:
    """Of each EVENT of a subscription that nobody feeds.

    >>> from motet.language.parse import parse
    >>> leaf = "EVENT {0} {{ ?{0} <urn:room> ?room }}".format
    >>> keyed, alone = (
    ...     parse(f"SUBSCRIPTION s {leaf('a')} {leaf('b')} WHEN a BEFORE b WITHIN 5 s SELECT {names}")[0]
    ...     for names in ("?room", "?a")
    ... )
    >>> [{route.meeting.value for route in routes(one).values()} for one in (keyed, alone)]
    [{'key'}, {'home'}]
    """
    builder = PlanBuilder()
    root = builder.add(subscription, Start(0, subscription.since))
    plan = builder.plan([root])
    (part,) = components(plan)
    places = {event.name: builder.leaf(event)[0] for event in subscription.events}
    if part.is_stateless and not is_single_event(subscription):  # whose past alone is read in a bucket, once
        return dict.fromkeys(places, Route(RouteKind.EVENT))
    keys = _keys(plan, part, _shown(plan, root))
    if keys.keys() >= set(places.values()):
        return {name: Route(RouteKind.KEY, keys[place]) for name, place in places.items()}
    return dict.fromkeys(places, Route(RouteKind.SINGLE, (builder.digests[root.node],)))


def _shown(plan: Plan, root: Root) -> set[str]:
    """The variables of the root that notifications show."""
    node = plan.nodes[root.node]
    return {node.variables[source] for source in root_output(root, node, root.start.offset).variable_indexes}


def _keys(plan: Plan, part: Component, shown: Collection[str]) -> dict[int, tuple[str, ...]]:
    """The shown part of the key in the variables of each leaf, by its predicates; without those that need two keys."""
    (root,) = plan.roots
    wanted = [place for place, name in enumerate(part.key(root.node)) if name in shown]
    found: dict[int, set[tuple[str, ...]]] = {}
    for number in part.nodes if wanted else ():
        for edge in plan.nodes[number].children:
            leaf = plan.nodes[edge.child]
            if leaf.kind is Kind.LEAF and leaf.operator.leaf_id is not None:
                below = {parent: child for child, parent in edge.renaming}
                key = part.key(number)
                found.setdefault(leaf.operator.leaf_id, set()).add(tuple(below[key[place]] for place in wanted))
    return {match: next(iter(keys)) for match, keys in found.items() if len(keys) == 1}
