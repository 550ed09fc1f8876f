"""Partitioning: the key by which a subscription is spread over buckets, the bucket of a row, and what may repeat.

It has two sides. `components` explains a plan: which operators run together, and by which variables. `BucketLayout`
decides: the route of each EVENT of a subscription, which depends on nothing but the subscription, so that others never
move its state. The route is by key if it has a partition key that its notifications project: then those of different
buckets differ. It is by event if each event decides alone. Otherwise it is to a single bucket: one for all equal
subscriptions, and one for all that derivation edges link. A run that removes repeated notifications at its end, as a
batch run can, also accepts routes by a key that notifications do not project; a pipeline refuses them.

Matching is done event by event and needs no partitioning; leaf occurrences then go to the *components*: groups of
operators that share operands. A component is partitioned by variables that are bound in all occurrences of all its
leaves and on which all its operators join, so that two occurrences that can pair have equal values. An unbound variable
joins with every value: hashing on a variable that may be unbound would lose matches. Without a key, a component runs on
one worker.

Sharing stops where it would cost the key: subscriptions that have a key alone but none together are separated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b

import numpy as np

from motet.jit.compiled import Ints
from motet.language.scope import delivered_names, is_single_event
from motet.language.syntax import Select, Subscription
from motet.plan.builder import PlanBuilder
from motet.plan.graph import ITERATION, Edge, Kind, Plan, PlanNode, Root, Route, RouteKind, Start

_SEPARATED = "operators shared with other subscriptions are computed separately, because together they have no key"
_STATELESS = frozenset({Kind.LEAF, Kind.OR, Kind.WITHIN, Kind.FILTER})
_DERIVATIONS = "what feeds each other"  # hashed to a bucket: not to be changed
_MAX_CACHED = 20_000  # subscriptions


@dataclass(frozen=True, slots=True)
class Component:
    """Operators that run together. ``keys`` has the variables of each by which it is partitioned, in the same order."""

    nodes: tuple[int, ...]
    subscriptions: tuple[str, ...]
    keys: tuple[tuple[int, tuple[str, ...]], ...]  # empty without a key
    is_stateless: bool
    reason: str

    def key(self, node: int) -> tuple[str, ...]:
        """The key in the variables of one node."""
        return dict(self.keys).get(node, ())


def components(plan: Plan) -> tuple[Component, ...]:
    """The components of a plan, in the order of their first subscriptions.

    >>> from motet.language.parse import parse
    >>> from motet.plan.builder import build_plan
    >>> body = "{{ ?{0} <urn:room> ?room }}".format
    >>> text = f"SUBSCRIPTION s EVENT a {body('a')} EVENT b {body('b')} WHEN a BEFORE b WITHIN 5 s"
    >>> [(component.nodes, component.keys) for component in components(build_plan(parse(text)))]
    [((1,), ((1, ('v1',)),))]
    """
    analysis = _Analysis(plan)
    return tuple(component for roots in _connected(plan) for component in analysis.components(roots))


def _connected(plan: Plan) -> list[list[Root]]:
    """Groups of subscriptions that share an operator, directly or through others; leaves do not count."""
    groups = _DisjointSets(len(plan.nodes))
    for node in plan.nodes:
        for edge in _operators(plan, node):
            groups.unite(node.id, edge.child)
    connected: dict[int, list[Root]] = {}
    for root in plan.roots:
        connected.setdefault(groups.find(root.node), []).append(root)
    return list(connected.values())


class _DisjointSets:
    """Disjoint sets of integers (union-find)."""

    def __init__(self, count: int) -> None:
        self._parents = list(range(count))

    def find(self, element: int) -> int:
        while self._parents[element] != element:
            self._parents[element] = self._parents[self._parents[element]]
            element = self._parents[element]
        return element

    def unite(self, left: int, right: int) -> None:
        first, second = sorted((self.find(left), self.find(right)))
        self._parents[second] = first


class _Analysis:
    """For every node, the variables by which it could be partitioned alone, or the reason why there are none."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._certain = [leaf.certain_variables() for leaf in plan.leaves]
        self._keys: list[frozenset[str]] = []
        self._reasons: list[str] = []
        for node in plan.nodes:
            keys = self._node_keys(node)
            self._keys.append(keys)
            self._reasons.append("" if keys else self._no_key_reason(node))

    def components(self, roots: list[Root]) -> Iterator[Component]:
        """The component of connected subscriptions; several where sharing would cost the key."""
        whole = self._component(roots)
        keyed = {root.node for root in roots if self._keys[root.node]}
        if whole.keys or whole.is_stateless or not keyed or len({root.node for root in roots}) == 1:
            yield whole
            return
        separated = [[root for root in roots if root.node == node] for node in sorted(keyed)]
        rest = [root for root in roots if root.node not in keyed]
        for group in [*separated, *([rest] if rest else [])]:
            component = self._component(group)
            yield replace(component, reason=f"{component.reason}; {_SEPARATED}")

    def _component(self, roots: list[Root]) -> Component:
        nodes = _below(self.plan, {root.node for root in roots})
        names = tuple(root.subscription.name for root in roots)
        if all(self.plan.nodes[id_].kind in _STATELESS for id_ in nodes):
            return Component(nodes, names, (), True, "each event decides alone, so any worker can evaluate it")
        aligned = self._aligned(nodes)
        keys = tuple((id_, tuple(key[id_] for key in aligned)) for id_ in nodes) if aligned else ()
        return Component(nodes, names, keys, False, self._reason(nodes, bool(keys)))

    def _reason(self, nodes: tuple[int, ...], keyed: bool) -> str:
        if keyed:
            return "bound in all occurrences of its leaves, and every operator joins on it"
        reason = next((self._reasons[id_] for id_ in nodes if self._reasons[id_]), None)
        return reason or "the subscriptions that share its operators join on different variables"

    def _aligned(self, nodes: tuple[int, ...]) -> list[dict[int, str]]:
        """The keys: for each, its variable in every node."""
        variables = [(id_, name) for id_ in nodes for name in self.plan.nodes[id_].variables]
        indices = {variable: index for index, variable in enumerate(variables)}
        classes = _DisjointSets(len(indices))
        for id_ in nodes:
            for edge in _operators(self.plan, self.plan.nodes[id_]):
                for below, above in edge.renaming:
                    classes.unite(indices[id_, above], indices[edge.child, below])
        members_by_class: dict[int, list[tuple[int, str]]] = {}
        for variable, index in indices.items():
            members_by_class.setdefault(classes.find(index), []).append(variable)
        return [dict(members) for members in members_by_class.values() if self._is_key(members, nodes)]

    def _is_key(self, members: list[tuple[int, str]], nodes: tuple[int, ...]) -> bool:
        """Whether there is exactly one variable of each node, and each is a key of its node."""
        is_unique = len(members) == len(nodes) == len({id_ for id_, _ in members})
        return is_unique and all(name in self._keys[id_] for id_, name in members)

    def _node_keys(self, node: PlanNode) -> frozenset[str]:
        if node.operator.leaf_id is not None:
            return self._certain[node.operator.leaf_id].intersection(node.variables)
        if node.kind is Kind.NO:
            return frozenset()
        sides = [self._operand_keys(edge) for edge in node.children]
        return sides[0].intersection(*sides[1:])

    def _operand_keys(self, edge: Edge) -> frozenset[str]:
        """The keys of an operand, in the variables of the operator."""
        return frozenset(above for below, above in edge.renaming if below in self._keys[edge.child])

    def _no_key_reason(self, node: PlanNode) -> str:
        """The reason why a node has no key; the lowest node with a reason decides."""
        below = [self._reasons[edge.child] for edge in node.children if self._reasons[edge.child]]
        if below:
            return below[0]
        if node.kind is Kind.LEAF:
            return "no variable that an EVENT always binds is visible outside it"
        if node.kind is Kind.NO:
            return "NO has no bindings, so it needs the events of all values"
        if node.kind in ITERATION:
            return "the iteration counts across all values: no variable that is always bound is visible outside it"
        if node.joined_variables:
            return f"variables that both sides of {node.title} share may be unbound, and unbound joins with every value"
        return f"the sides of {node.title} share no variable"


def _operators(plan: Plan, node: PlanNode) -> Iterator[Edge]:
    """The edges to operands that are not leaves."""
    return (edge for edge in node.children if plan.nodes[edge.child].kind is not Kind.LEAF)


def _below(plan: Plan, roots: Iterable[int]) -> tuple[int, ...]:
    """The roots and all operators below them; leaves only where they are roots."""
    ids = set(roots)
    stack = list(ids)
    while stack:
        for edge in _operators(plan, plan.nodes[stack.pop()]):
            if edge.child not in ids:
                ids.add(edge.child)
                stack.append(edge.child)
    return tuple(sorted(ids))


def bucket_of(strings: Sequence[str], count: int) -> int:
    """The bucket of a key, the same in all processes.

    >>> bucket_of(["<urn:room:1>"], 64), bucket_of(["<urn:room:1>"], 64)
    (34, 34)
    """
    digest = blake2b("\n".join(strings).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") % count


def key_buckets(keys: Ints, string: Callable[[int], str], count: int) -> Ints:
    """The bucket of each row of keys, which ``string`` maps to strings; each distinct key is hashed once."""
    distinct, indexes = np.unique(keys, axis=0, return_inverse=True)
    buckets = [bucket_of([string(value) for value in key], count) for key in distinct.tolist()]
    return np.array(buckets, np.int64)[indexes.ravel()]


@dataclass(frozen=True)
class BucketLayout:
    """The number of buckets, the subscriptions at either end of a derivation edge, and whether several buckets may
    compute the same notification.
    """

    count: int
    derivation_linked: frozenset[str] = frozenset()
    may_repeat: bool = False

    @property
    def derivation_bucket(self) -> int:
        """The bucket of all subscriptions that are linked by derivation edges."""
        return bucket_of([_DERIVATIONS], self.count)

    def routes(self, subscription: Subscription) -> Mapping[str, Route]:
        """The route of each EVENT of a subscription, by its name."""
        if subscription.name in self.derivation_linked:
            return _same_route(subscription, Route(RouteKind.SINGLE, (_DERIVATIONS,)))
        return leaf_routes(subscription, may_repeat=self.may_repeat)

    def is_single_bucket(self, subscription: Subscription) -> bool:
        """Whether all occurrences of a subscription are in one bucket."""
        return any(route.kind is RouteKind.SINGLE for route in self.routes(subscription).values())

    def holders(self, subscription: Subscription) -> Sequence[int]:
        """The buckets in which a subscription may have occurrences."""
        labels = {route.key for route in self.routes(subscription).values() if route.kind is RouteKind.SINGLE}
        return sorted({bucket_of(label, self.count) for label in labels}) or range(self.count)

    def buckets(
        self, leaf: PlanNode, values: Ints, string: Callable[[int], str], iris: Callable[[], Sequence[str]]
    ) -> Ints:
        """The bucket of each occurrence of a leaf: of its row of ``values``, or of the IRI of its event."""
        route = leaf.route
        if route is None or route.kind is RouteKind.SINGLE:
            return np.full(len(values), bucket_of(route.key if route else [_DERIVATIONS], self.count))
        if route.kind is RouteKind.EVENT:
            return np.array([bucket_of([iri], self.count) for iri in iris()], np.int64)
        return key_buckets(values[:, [leaf.variables.index(name) for name in route.key]], string, self.count)


def _same_route(subscription: Subscription, route: Route) -> Mapping[str, Route]:
    return dict.fromkeys((event.name for event in subscription.events), route)


@lru_cache(maxsize=_MAX_CACHED)
def leaf_routes(subscription: Subscription, *, may_repeat: bool = False) -> Mapping[str, Route]:
    """The route of each EVENT, by its name, of a subscription without derivation edges.

    >>> from motet.language.parse import parse
    >>> leaf = "EVENT {0} {{ ?{0} <urn:room> ?room }}".format
    >>> subscriptions = [
    ...     parse(f"SUBSCRIPTION s {leaf('a')} {leaf('b')} WHEN a BEFORE b WITHIN 5 s SELECT {variables}")[0]
    ...     for variables in ("?room", "?a")
    ... ]
    >>> [leaf_routes(subscription)["a"].kind.name for subscription in subscriptions]
    ['KEY', 'SINGLE']
    >>> [leaf_routes(subscription, may_repeat=True)["a"].may_repeat for subscription in subscriptions]
    [False, True]
    """
    builder = PlanBuilder()
    root = builder.add(subscription, Start(0, subscription.since))
    plan = builder.plan([root])
    (component,) = components(plan)
    leaf_ids = {event.name: builder.leaf(event)[0] for event in subscription.events}
    # In buckets a single-event subscription has only its backfill, which is read once: in a single bucket.
    if component.is_stateless and not is_single_event(subscription):
        return _same_route(subscription, Route(RouteKind.EVENT))
    key, projected = component.key(root.node), _projected(root)
    positions = [position for position, name in enumerate(key) if name in projected]
    repeats = not positions and may_repeat and not plan.nodes[root.node].with_members
    keys = _leaf_keys(plan, component, [*range(len(key))] if repeats else positions)
    if keys.keys() >= set(leaf_ids.values()):
        return {name: Route(RouteKind.KEY, keys[leaf_id], repeats) for name, leaf_id in leaf_ids.items()}
    return _same_route(subscription, Route(RouteKind.SINGLE, (builder.digests[root.node],)))


def _projected(root: Root) -> set[str]:
    """The variables of the root node that notifications project."""
    delivery, delivered = root.subscription.delivery, delivered_names(root.subscription)
    return {variable for variable, name in root.renaming if delivery == Select() or name in delivered}


def _leaf_keys(plan: Plan, component: Component, positions: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """A part of the key in the variables of each leaf, by leaf id; not of a leaf that has two keys."""
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
