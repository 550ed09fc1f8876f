"""The derivation edges between active subscriptions, the run order they require, and the lags of leaves they feed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from motet.engine.runtime.active_subscription import ActiveSubscription
from motet.language.syntax import Construct, Subscription
from motet.ontology.entailment import Reasoner
from motet.plan.builder import PlanBuilder
from motet.plan.derivation_edges import DerivationGraph, Required, required_triples, template_triples
from motet.plan.graph import PlanNode
from motet.plan.leaves import normalise


class ActiveDerivations:
    """Edges are computed only while a CONSTRUCT subscription is active."""

    def __init__(self, builder: PlanBuilder) -> None:
        self._builder = builder
        self._edges = DerivationGraph()
        self._upstream_nodes: dict[int, set[int]] = {}  # by leaf: the root nodes whose derived events feed it

    @property
    def has_edges(self) -> bool:
        return any(self._edges.edges.values())

    def downstream(self, name: str, clause: int) -> Mapping[str, Sequence[int]]:
        """The subscriptions that the derived events of a clause feed, with the leaves that these match.

        Leaves are node ids; those of a single-event subscription are indexes of its EVENTs.
        """
        return dict(sorted(self._edges.edges[name, clause].items()))

    def linked_names(self) -> set[str]:
        """The subscriptions at either end of an edge."""
        return {name for edge in self._edges.pairs() for name in edge}

    def update(
        self,
        added: Collection[ActiveSubscription],
        removed: Iterable[ActiveSubscription],
        active: Mapping[str, ActiveSubscription],
        reasoner: Reasoner | None,
    ) -> bool:
        """Add and remove subscriptions, so that the active ones are left; returns whether any edge has changed.

        A cycle is a UsageError that names its subscriptions.
        """
        changes = [self._edges.remove(each.subscription.name) for each in removed]
        if not self._edges.required:
            added = active.values() if any(each.templates for each in added) else ()
        changes += [self._add(each, reasoner) for each in added]
        if not self._edges.templates:
            self._edges = DerivationGraph()
        if any(changes):
            self._edges.refuse_cycles()
            self._upstream_nodes = self._find_upstream_nodes(active)
        return any(changes)

    def _add(self, active: ActiveSubscription, reasoner: Reasoner | None) -> bool:
        assert reasoner is not None, "the first subscription fixes it"
        subscription, leaves = active.subscription, self._builder.leaves
        if active.root is None:
            return self._edges.add(subscription.name, (), _required_by_events(subscription))
        nodes = (self._builder.nodes[node_id] for node_id in self._builder.reachable([active.root]))
        by_node = {node.id: leaves[node.operator.leaf_id] for node in nodes if node.operator.leaf_id is not None}
        required = {node_id: required_triples(leaf.predicates) for node_id, leaf in by_node.items()}
        return self._edges.add(subscription.name, template_triples(subscription, reasoner), required)

    def _find_upstream_nodes(self, active: Mapping[str, ActiveSubscription]) -> dict[int, set[int]]:
        upstream_nodes: dict[int, set[int]] = {}
        for (upstream, _), downstream in self._edges.edges.items():
            root = active[upstream].root
            assert root is not None, "a CONSTRUCT subscription is composite"
            for name, leaves in downstream.items():
                for leaf in leaves if active[name].root else ():
                    upstream_nodes.setdefault(leaf, set()).add(root.node)
        return upstream_nodes

    def refuse_cycles(self, subscriptions: Iterable[Subscription], reasoner: Reasoner) -> None:
        """Refuse subscriptions whose derived events would feed each other in a cycle, with the active ones."""
        new = {subscription.name: subscription for subscription in subscriptions}
        if not self._edges.templates and not any(isinstance(each.delivery, Construct) for each in new.values()):
            return
        edges = self._edges.copy()
        for name in new:
            edges.remove(name)
        for name, subscription in new.items():
            edges.add(name, template_triples(subscription, reasoner), _required_by_events(subscription))
        edges.refuse_cycles()

    def run_order(self, node_ids: set[int]) -> list[PlanNode]:
        """Nodes after their operands, and leaves after the nodes whose derived events feed them."""
        order: dict[int, PlanNode] = {}
        nodes = self._builder.nodes

        def visit(node_id: int) -> None:
            if node_id not in order:
                operands = [edge.child for edge in nodes[node_id].children]
                for earlier in [*operands, *sorted(self._upstream_nodes.get(node_id, ()))]:
                    visit(earlier)
                order[node_id] = nodes[node_id]

        for node_id in sorted(node_ids):
            visit(node_id)
        return list(order.values())

    def leaf_lag(self, leaf: PlanNode, lags: Mapping[int, int]) -> int:
        """The lag of a leaf: the longest of the nodes whose derived events feed it."""
        return max((lags[root] for root in self._upstream_nodes.get(leaf.id, ())), default=0)


def _required_by_events(subscription: Subscription) -> dict[int, Required]:
    """The required triples of each EVENT, by its index."""
    return {index: required_triples(normalise(event)[0]) for index, event in enumerate(subscription.events)}
