"""Topics: the classes of a described individual, and the weights of classes by their load.

A user describes an individual ("a film whose genre is an action genre"); the reasoner infers its classes, each of which
can be subscribed to, listed from the most specific to the most general. Weights distribute the tree of classes over
brokers: the weighted class tree (OCWT) and its combination to a number of brokers (COCWT). The counts come from the log
of a lake or from a list of subscriptions.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from motet.model.errors import UsageError
from motet.model.terms import iri_value, is_iri
from motet.ontology import owl_names as v
from motet.ontology.entailment import Reasoner
from motet.ontology.hierarchy import NO_PARENT, Hierarchy, tree_parents
from motet.ontology.owl_names import TYPE, Triple


def find_topics(
    reasoner: Reasoner, hierarchy: Hierarchy, description: Iterable[Triple], individual: str
) -> tuple[str, ...]:
    """The named classes of an individual, each after its subclasses.

    >>> from motet.ontology.hierarchy import classify
    >>> from motet.ontology.load import Ontology
    >>> films = Ontology((("<urn:Film>", v.SUBCLASS, "<urn:Video>"),))
    >>> find_topics(Reasoner(films.triples), classify(films), [("<urn:x>", TYPE, "<urn:Film>")], "<urn:x>")
    ('<urn:Film>', '<urn:Video>')
    """
    closure = reasoner.close_layered(description)
    classes = {c for c in closure.objects(individual, TYPE) if is_iri(c)}
    depth = {c: len(hierarchy.ancestors[hierarchy.node_of[c]]) if c in hierarchy.node_of else 0 for c in classes}
    return tuple(sorted(classes, key=lambda c: (c == v.THING, -depth[c], c)))


def most_specific(hierarchy: Hierarchy, classes: Iterable[str]) -> tuple[str, ...]:
    """The classes without a proper subclass among them; one of each group of equivalent classes."""
    names: dict[int, str] = {}
    for name in sorted(classes):
        if name in hierarchy.node_of:
            names.setdefault(hierarchy.node_of[name], name)
    above = frozenset().union(*(hierarchy.ancestors[node] for node in names))
    return tuple(sorted(name for node, name in names.items() if node not in above))


def described_individuals(description: Iterable[Triple]) -> tuple[str, ...]:
    """The individuals of a description: subjects that are not objects of other triples, or else all subjects."""
    stated = list(description)
    subjects = {s for s, _, _ in stated}
    roots = subjects - {o for s, _, o in stated if s != o}
    return tuple(sorted(roots or subjects))


def subscription_for(*topics: str) -> str:
    """A subscription to the individuals that belong to all of the topics.

    >>> print(subscription_for("<http://example.org/film#Action>", "<http://example.org/film#English>"))
    SUBSCRIPTION topic-Action-English
      EVENT item : <http://example.org/film#Action> { ?item a <http://example.org/film#English> }
      WHEN item
    """
    name = "-".join(["topic", *(name for topic in topics if (name := _local_name(topic)))])
    conditions = " . ".join(f"?item a {topic}" for topic in topics[1:])
    body = f" {{ {conditions} }}" if conditions else ""
    return f"SUBSCRIPTION {name}\n  EVENT item : {topics[0]}{body}\n  WHEN item"


def event_for(description: Iterable[Triple], individual: str) -> str:
    """The event that publishes a described individual, as N-Quads in the graph of the individual.

    >>> event_for([("<urn:x>", "<urn:p>", "<urn:y>")], "<urn:x>")
    '<urn:x> <urn:p> <urn:y> <urn:x> .'
    """
    return "\n".join(f"{s} {p} {o} {individual} ." for s, p, o in sorted(set(description)))


def _local_name(topic: str) -> str:
    """The last segment of an IRI, without characters that the name of a subscription must not contain."""
    last = re.split(r"[#/:]", iri_value(topic).rstrip("#/:"))[-1]
    return re.sub(r"[^A-Za-z0-9_]+", "-", last).strip("-")


# Weights


@dataclass(frozen=True)
class WeightedTree:
    """A tree of nodes with weights. A node represents one class, or several combined ones."""

    members: tuple[tuple[int, ...], ...]
    parents: tuple[int, ...]
    weights: tuple[float, ...]

    @cached_property
    def totals(self) -> tuple[float, ...]:
        """The total weight of the subtree of each node."""
        totals = list(self.weights)
        for node in reversed(self._parents_first):
            if self.parents[node] != NO_PARENT:
                totals[self.parents[node]] += totals[node]
        return tuple(totals)

    @cached_property
    def _parents_first(self) -> list[int]:
        below: dict[int, list[int]] = {}
        for node, parent in enumerate(self.parents):
            below.setdefault(parent, []).append(node)
        order = list(below.get(NO_PARENT, ()))
        for node in order:  # children are appended during the loop
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
    """The share of the load of each node; shares add up to 1, and ``smoothing`` is added to each count.

    >>> from motet.ontology.hierarchy import hierarchy_from_parents
    >>> class_weights(hierarchy_from_parents({"Cat": ["Pet"]}), {"Cat": 2}, {}, event_share=1)
    (0.25, 0.75)
    """
    if not 0 <= event_share <= 1 or smoothing <= 0:
        raise UsageError("weights need a share between 0 and 1 and a positive smoothing", advice="use 0.5 and 1")
    by_event, by_subscription = (_shares(hierarchy, counts, smoothing) for counts in (events, subscriptions))
    return tuple(event_share * e + (1 - event_share) * s for e, s in zip(by_event, by_subscription, strict=True))


def weighted_tree(hierarchy: Hierarchy, weights: Sequence[float]) -> WeightedTree:
    """The OCWT: the spanning tree of the hierarchy, with the weight of each node."""
    members = tuple((node,) for node in range(len(hierarchy.groups)))
    return WeightedTree(members, tuple(tree_parents(hierarchy)), tuple(map(float, weights)))


def combine(tree: WeightedTree, brokers: int) -> WeightedTree:
    """The COCWT: combines childless siblings, or an only child and its parent, lightest first, to ``brokers`` nodes.

    >>> tree = WeightedTree(((0,), (1,), (2,), (3,)), (-1, 0, 0, 0), (1.0, 5.0, 2.0, 1.0))
    >>> combine(tree, 3).members, combine(tree, 3).weights
    (((0,), (1,), (2, 3)), (1.0, 5.0, 3.0))
    """
    if brokers < 1:
        raise UsageError(f"the number of brokers is {brokers}", advice="give at least one broker")
    combiner = _TreeCombiner(tree)
    while len(combiner.members) > brokers and combiner.combine_lightest():
        pass
    return combiner.result()


def assign(tree: WeightedTree, broker_weights: Sequence[float]) -> dict[int, int]:
    """Node → broker, the heaviest node to the heaviest broker; there must be at least as many brokers as nodes."""
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
    return sum(factor * term for factor, term in zip(factors, (bandwidth, compute, online), strict=True))


def _shares(hierarchy: Hierarchy, counts: Mapping[str, float], smoothing: float) -> list[float]:
    by_node = [smoothing] * len(hierarchy.groups)
    for name, count in counts.items():
        node = hierarchy.node_of.get(name)
        if node is not None:
            by_node[node] += count
    total = sum(by_node)
    return [count / total for count in by_node]


class _TreeCombiner:
    """Combines nodes of a tree; holds the childless children of each parent, lightest first."""

    def __init__(self, tree: WeightedTree) -> None:
        self.members = {node: list(classes) for node, classes in enumerate(tree.members)}
        self._weights = dict(enumerate(tree.weights))
        self._parents = dict(enumerate(tree.parents))
        self._children = dict.fromkeys([NO_PARENT, *self.members], 0)
        for parent in tree.parents:
            self._children[parent] += 1
        self._childless: dict[int, list[tuple[float, int]]] = {node: [] for node in self._children}
        for node in self.members:
            if self._children[node] == 0:
                self._childless[self._parents[node]].append((self._weights[node], node))
        self._candidates: list[tuple[float, int]] = []
        for parent, childless in self._childless.items():
            heapq.heapify(childless)
            self._push_candidate(parent)

    def combine_lightest(self) -> bool:
        """Combine the two nodes with the least total weight; false if only one node is left."""
        while self._candidates:
            weight, parent = heapq.heappop(self._candidates)
            if self._combined_weight(parent) == weight:
                self._combine_below(parent)
                return True
        return False

    def result(self) -> WeightedTree:
        index = {node: position for position, node in enumerate(self.members)}
        index[NO_PARENT] = NO_PARENT
        return WeightedTree(
            tuple(tuple(sorted(classes)) for classes in self.members.values()),
            tuple(index[self._parents[node]] for node in self.members),
            tuple(self._weights[node] for node in self.members),
        )

    def _combined_weight(self, parent: int) -> float | None:
        childless = self._childless.get(parent, [])
        if len(childless) > 1:
            return childless[0][0] + min(childless[1:3])[0]
        if len(childless) == 1 and self._children[parent] == 1 and parent != NO_PARENT:
            return childless[0][0] + self._weights[parent]
        return None

    def _push_candidate(self, parent: int) -> None:
        weight = self._combined_weight(parent)
        if weight is not None:
            heapq.heappush(self._candidates, (weight, parent))

    def _combine_below(self, parent: int) -> None:
        weight, node = heapq.heappop(self._childless[parent])
        target = self._childless[parent][0][1] if self._childless[parent] else parent
        self.members[target] += self.members.pop(node)
        self._weights[target] += weight
        self._children[parent] -= 1
        if target != parent:
            heapq.heapreplace(self._childless[parent], (self._weights[target], target))
            self._push_candidate(parent)
        else:
            above = self._parents[parent]
            heapq.heappush(self._childless[above], (self._weights[parent], parent))
            self._push_candidate(above)
