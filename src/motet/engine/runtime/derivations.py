"""Whose derived events feed whom among the subscriptions in force, what runs before what, and what leaves wait for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from motet.engine.runtime.active_subscription import ActiveSubscription
from motet.language.syntax import Construct, Subscription
from motet.ontology.entailment import Reasoner
from motet.plan.builder import PlanBuilder
from motet.plan.derivation_edges import DerivationGraph, RequiredTriples, required_triples, template_triples
from motet.plan.graph import PlanNode
from motet.plan.leaves import normalise


class ActiveDerivations:
    """The feeding edges of the lives in force. Only while somebody derives events are all of them looked at."""

    def __init__(self, builder: PlanBuilder) -> None:
        self._builder = builder
        self._edges = DerivationGraph()
        self._upstream_nodes: dict[
            int, set[int]
        ] = {}  # by leaf: the nodes whose occurrences become events that it sees

    @property
    def has_edges(self) -> bool:
        return any(self._edges.edges.values())

    def downstream(self, producer: str, clause: int) -> Mapping[str, Sequence[int]]:
        """Whom the events of a clause feed, and by which leaves they see them; these are nodes, if they have a root."""
        return dict(sorted(self._edges.edges[producer, clause].items()))

    def linked_names(self) -> set[str]:
        """Those that derive events for others, and those others."""
        return {name for edge in self._edges.pairs() for name in edge}

    def update(
        self,
        come: Collection[ActiveSubscription],
        gone: Iterable[ActiveSubscription],
        lives: Mapping[str, ActiveSubscription],
        reasoner: Reasoner | None,
    ) -> bool:
        """Let some come and others go, so that these lives are left; whether others are fed than before.

        A UsageError names those that feed each other in a cycle.
        """
        changes = [self._edges.remove(life.subscription.name) for life in gone]
        if not self._edges.required:
            come = lives.values() if any(life.templates for life in come) else ()
        changes += [self._add(life, reasoner) for life in come]
        if not self._edges.templates:
            self._edges = DerivationGraph()
        if any(changes):
            self._edges.refuse_cycles()
            self._upstream_nodes = self._found_producers(lives)
        return any(changes)

    def _add(self, life: ActiveSubscription, reasoner: Reasoner | None) -> bool:
        assert reasoner is not None, "it is decided with the first subscription"
        subscription, leaves = life.subscription, self._builder.leaves
        if life.root is None:
            return self._edges.add(subscription.name, (), _needs(subscription))
        nodes = (self._builder.nodes[id_] for id_ in self._builder.reachable([life.root]))
        own = {node.id: leaves[node.operator.leaf_id] for node in nodes if node.operator.leaf_id is not None}
        needed = {id_: required_triples(leaf.predicates) for id_, leaf in own.items()}
        return self._edges.add(subscription.name, template_triples(subscription, reasoner), needed)

    def _found_producers(self, lives: Mapping[str, ActiveSubscription]) -> dict[int, set[int]]:
        found: dict[int, set[int]] = {}
        for (producer, _), fed in self._edges.edges.items():
            root = lives[producer].root
            assert root is not None, "what derives events is detected"
            for consumer, leaves in fed.items():
                for leaf in leaves if lives[consumer].root else ():
                    found.setdefault(leaf, set()).add(root.node)
        return found

    def refuse_cycles(self, subscriptions: Iterable[Subscription], reasoner: Reasoner) -> None:
        """Refuse subscriptions that would feed each other in a cycle, with those in force."""
        new = {one.name: one for one in subscriptions}
        if not self._edges.templates and not any(isinstance(one.delivery, Construct) for one in new.values()):
            return
        edges = self._edges.copy()
        for name in new:
            edges.remove(name)
        for name, one in new.items():
            edges.add(name, template_triples(one, reasoner), _needs(one))
        edges.refuse_cycles()

    def run_order(self, ids: set[int]) -> list[PlanNode]:
        """Nodes after their operands, and leaves after those that feed them."""
        order: dict[int, PlanNode] = {}
        nodes = self._builder.nodes

        def visit(id_: int) -> None:
            if id_ not in order:
                operands = [edge.child for edge in nodes[id_].children]
                for before in [*operands, *sorted(self._upstream_nodes.get(id_, ()))]:
                    visit(before)
                order[id_] = nodes[id_]

        for id_ in sorted(ids):
            visit(id_)
        return list(order.values())

    def leaf_lag(self, leaf: PlanNode, known: Mapping[int, int]) -> int:
        """How long a leaf waits for derived events, given how long their producers' nodes do."""
        return max((known[root] for root in self._upstream_nodes.get(leaf.id, ())), default=0)


def _needs(subscription: Subscription) -> dict[int, RequiredTriples]:
    """Of its EVENTs, in their order."""
    return {place: required_triples(normalise(event)[0]) for place, event in enumerate(subscription.events)}
