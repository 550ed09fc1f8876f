"""How much load does each class carry, and how is it shared among brokers?

The weighted class tree (OCWT) and its combination to a given number of brokers (COCWT), as pure functions. Counts
come from whoever has them: a lake's history, a list of subscriptions.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from motet.model.errors import UsageError
from motet.ontology.codes.cover import tree_parents
from motet.ontology.hierarchy import Hierarchy

#: The parent of a root.
NONE = -1


@dataclass(frozen=True)
class WeightedTree:
    """Nodes of a tree with their own weights. A node stands for one class, or for several that were combined."""

    members: tuple[tuple[int, ...], ...]
    parents: tuple[int, ...]
    weights: tuple[float, ...]

    @cached_property
    def totals(self) -> tuple[float, ...]:
        """The weight of each node with everything below it."""
        totals = list(self.weights)
        for node in reversed(self._parents_first):
            if self.parents[node] != NONE:
                totals[self.parents[node]] += totals[node]
        return tuple(totals)

    @cached_property
    def _parents_first(self) -> list[int]:
        below: dict[int, list[int]] = {}
        for node, parent in enumerate(self.parents):
            below.setdefault(parent, []).append(node)
        order = list(below.get(NONE, ()))
        for node in order:  # grows while it is walked
            order.extend(below.get(node, ()))
        return order


def class_weights(
    hierarchy: Hierarchy,
    events: Mapping[str, float],
    subscriptions: Mapping[str, float],
    *,
    event_share: float = 0.5,
    smoothing: float = 1.0,
) -> tuple[float, ...]:
    """The share of the load each node carries; shares add up to 1, and a class never seen gets ``smoothing`` counts.

    >>> from motet.ontology.hierarchy import hierarchy_from_parents
    >>> class_weights(hierarchy_from_parents({"Cat": ["Pet"]}), {"Cat": 2}, {}, event_share=1)
    (0.25, 0.75)
    """
    if not 0 <= event_share <= 1 or smoothing <= 0:
        raise UsageError("weights need a share between 0 and 1 and a positive smoothing", advice="use 0.5 and 1")
    by_event, by_subscription = (_shares(hierarchy, counts, smoothing) for counts in (events, subscriptions))
    return tuple(event_share * e + (1 - event_share) * s for e, s in zip(by_event, by_subscription, strict=True))


def weighted_tree(hierarchy: Hierarchy, weights: Sequence[float]) -> WeightedTree:
    """The OCWT: every node of the hierarchy once, below one of its parents, with its weight."""
    members = tuple((node,) for node in range(len(hierarchy.groups)))
    return WeightedTree(members, tuple(tree_parents(hierarchy)), tuple(map(float, weights)))


def combine(tree: WeightedTree, brokers: int) -> WeightedTree:
    """The COCWT: childless siblings, or an only child and its parent, combined lightest first until all have a broker.

    >>> tree = WeightedTree(((0,), (1,), (2,), (3,)), (-1, 0, 0, 0), (1.0, 5.0, 2.0, 1.0))
    >>> combine(tree, 3).members, combine(tree, 3).weights
    (((0,), (1,), (2, 3)), (1.0, 5.0, 3.0))
    """
    if brokers < 1:
        raise UsageError(f"{brokers} brokers cannot carry anything", advice="give at least one broker")
    combining = _Combining(tree)
    while len(combining.members) > brokers and combining.combine_lightest():
        pass
    return combining.result()


def assign(tree: WeightedTree, broker_weights: Sequence[float]) -> dict[int, int]:
    """Node → broker, the heaviest to the heaviest. There must be a broker for every node; others are spare."""
    if len(broker_weights) < len(tree.weights):
        raise UsageError(
            f"{len(tree.weights)} nodes for {len(broker_weights)} brokers",
            advice="combine the tree to that number first",
        )
    nodes = sorted(range(len(tree.weights)), key=lambda node: (-tree.weights[node], node))
    brokers = sorted(range(len(broker_weights)), key=lambda broker: (-broker_weights[broker], broker))
    return dict(zip(nodes, brokers, strict=False))


def broker_weight(
    bandwidth: float, compute: float, online: float, *, factors: tuple[float, float, float] = (1, 1, 1)
) -> float:
    """The paper's ``W = a1·bandwidth + a2·compute + a3·online time``."""
    return sum(factor * part for factor, part in zip(factors, (bandwidth, compute, online), strict=True))


def _shares(hierarchy: Hierarchy, counts: Mapping[str, float], smoothing: float) -> list[float]:
    by_node = [smoothing] * len(hierarchy.groups)
    for name, count in counts.items():
        node = hierarchy.node_of.get(name)
        if node is not None:
            by_node[node] += count
    total = sum(by_node)
    return [count / total for count in by_node]


class _Combining:
    """The tree while nodes are being combined: per parent its childless children, lightest first."""

    def __init__(self, tree: WeightedTree) -> None:
        self.members = {node: list(found) for node, found in enumerate(tree.members)}
        self._weights = dict(enumerate(tree.weights))
        self._parents = dict(enumerate(tree.parents))
        self._children = dict.fromkeys([NONE, *self.members], 0)
        for parent in tree.parents:
            self._children[parent] += 1
        self._childless: dict[int, list[tuple[float, int]]] = {node: [] for node in self._children}
        for node in self.members:
            if self._children[node] == 0:
                self._childless[self._parents[node]].append((self._weights[node], node))
        self._candidates: list[tuple[float, int]] = []
        for parent, found in self._childless.items():
            heapq.heapify(found)
            self._offer(parent)

    def combine_lightest(self) -> bool:
        """Combine the two whose sum is least; false if only one node is left."""
        while self._candidates:
            offered, parent = heapq.heappop(self._candidates)
            if self._price(parent) == offered:
                self._combine_below(parent)
                return True
        return False

    def result(self) -> WeightedTree:
        place = {node: number for number, node in enumerate(self.members)}
        place[NONE] = NONE
        return WeightedTree(
            tuple(tuple(sorted(found)) for found in self.members.values()),
            tuple(place[self._parents[node]] for node in self.members),
            tuple(self._weights[node] for node in self.members),
        )

    def _price(self, parent: int) -> float | None:
        found = self._childless.get(parent, [])
        if len(found) > 1:
            return found[0][0] + min(found[1:3])[0]
        if len(found) == 1 and self._children[parent] == 1 and parent != NONE:
            return found[0][0] + self._weights[parent]
        return None

    def _offer(self, parent: int) -> None:
        price = self._price(parent)
        if price is not None:
            heapq.heappush(self._candidates, (price, parent))

    def _combine_below(self, parent: int) -> None:
        weight, node = heapq.heappop(self._childless[parent])
        into = self._childless[parent][0][1] if self._childless[parent] else parent
        self.members[into] += self.members.pop(node)
        self._weights[into] += weight
        self._children[parent] -= 1
        if into != parent:
            heapq.heapreplace(self._childless[parent], (self._weights[into], into))
            self._offer(parent)
        else:
            above = self._parents[parent]
            heapq.heappush(self._childless[above], (self._weights[parent], parent))
            self._offer(above)
