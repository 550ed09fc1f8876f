"""The active plan: matchers, operator nodes, root subscribers and derivation edges of the active subscriptions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from motet.engine.detect.leaves import LeafMatcher
from motet.engine.detect.output import SubscriberGroup
from motet.engine.match.leaf import LeafQuery
from motet.engine.match.matcher import Matcher, MatcherRegistry
from motet.engine.runtime.active_subscription import ActiveSubscription
from motet.engine.runtime.processor_state import ProcessorState, SharedPlan
from motet.language import syntax
from motet.language.scope import leaf_variables
from motet.language.syntax import Construct, Subscription
from motet.model import batches
from motet.model.errors import EngineError
from motet.ontology.entailment import Reasoner
from motet.plan.builder import NodeReferences, PlanBuilder
from motet.plan.derivation_edges import DerivationGraph, Required, required_triples, template_triples
from motet.plan.finality import node_lags
from motet.plan.graph import PlanNode
from motet.plan.leaves import normalise


class RootSubscribers:
    """The subscriptions of each root node; as one group where all of them get the same output."""

    def __init__(self) -> None:
        self.by_node: dict[int, dict[str, ActiveSubscription]] = {}  # by node and name
        self._groups: dict[int, SubscriberGroup | None] = {}  # cached since the last change of the node's subscribers

    def add(self, node_id: int, active: ActiveSubscription) -> None:
        self.by_node.setdefault(node_id, {})[active.subscription.name] = active
        self._groups.pop(node_id, None)

    def remove(self, node_id: int, active: ActiveSubscription) -> None:
        del self.by_node[node_id][active.subscription.name]
        if not self.by_node[node_id]:
            del self.by_node[node_id]
        self._groups.pop(node_id, None)

    def group(self, node_id: int) -> SubscriberGroup | None:
        """All subscribers of a node, if their notifications have only bindings."""
        if node_id not in self._groups:
            subscribers = self.by_node.get(node_id, {}).values()
            outputs = [active.output for active in subscribers if active.output is not None]
            is_group = bool(outputs) and all(active.has_only_bindings for active in subscribers)
            self._groups[node_id] = SubscriberGroup(outputs) if is_group else None
        return self._groups[node_id]


class ActivePlan:
    """What a processor runs for the active subscriptions; empty at first."""

    def __init__(self, state: ProcessorState, shared: SharedPlan) -> None:
        backgrounds = state.backgrounds
        self.leaf_matcher = LeafMatcher(backgrounds.current, backgrounds.entailment)  # of composite subscriptions
        self.derivations = ActiveDerivations(shared.builder)
        self.root_subscribers = RootSubscribers()
        self.matcher: Matcher | None = None  # of single-event subscriptions, if there are any
        self._single_event = MatcherRegistry(backgrounds.current, backgrounds.entailment)
        self._active: dict[str, ActiveSubscription] = {}
        self._references = NodeReferences(shared.builder.nodes)

    def reuse_compiled(self, other: ActivePlan) -> None:
        """Begin with what another one has compiled."""
        self._single_event.reuse(other._single_event)
        self.leaf_matcher.reuse_compiled(other.leaf_matcher)

    def update(self, state: ProcessorState, shared: SharedPlan) -> None:
        """Follow the active subscriptions. What was built for removed ones is dropped."""
        names, backgrounds = state.take_changes(), state.backgrounds
        before, now = self._active, state.active
        removed = [active for name in names if (active := before.get(name)) and active is not now.get(name)]
        added = [active for name in names if (active := now.get(name)) and active is not before.get(name)]
        background, builder = (backgrounds.current, backgrounds.entailment), shared.builder
        added_single = [single_event_leaf(active.subscription) for active in added if active.root is None]
        removed_single = {active.subscription.name for active in removed if active.root is None}
        self._single_event.change(added_single, removed_single, *background)
        self.matcher = self._single_event.matcher if self._single_event else None
        added_nodes, removed_nodes = self._exchange(added, removed)
        state.detector.update(added_nodes, removed_nodes, builder.nodes)
        if self.derivations.update(added, removed, now, backgrounds.edge_reasoner):
            self._set_order(state)
        self.leaf_matcher.change(added_nodes, removed_nodes, builder, *background)
        if not shared.is_backfilling:
            shared.remove_unused(names, now, [node.id for node in removed_nodes], self._references)
            has_entries = len(shared.dictionary.terms) or len(shared.dictionary.events)
            if has_entries and not self._references and not state.backfill_results:
                shared.dictionary.compact(())

    def _exchange(
        self, added: Sequence[ActiveSubscription], removed: Sequence[ActiveSubscription]
    ) -> tuple[list[PlanNode], list[PlanNode]]:
        """Exchange subscriptions; returns the nodes that are new, and those that no subscription uses any more."""
        for active in removed:
            del self._active[active.subscription.name]
            if active.root is not None:
                self.root_subscribers.remove(active.root.node, active)
        for active in added:
            self._active[active.subscription.name] = active
            if active.root is not None:
                self.root_subscribers.add(active.root.node, active)
        references = self._references
        new = [node for active in added if active.root is not None for node in references.acquire(active.root.node)]
        unused = [
            node for active in removed if active.root is not None for node in references.release(active.root.node)
        ]
        return new, unused

    def _set_order(self, state: ProcessorState) -> None:
        """Run upstream nodes before the leaves that their derived events feed, which lag behind them."""
        nodes = self.derivations.run_order(set(self._references))
        order = nodes if self.derivations.has_edges else ()
        state.detector.set_order(order, node_lags(nodes, self.derivations.leaf_lag))


# Single-event subscriptions


def single_event_leaf(subscription: syntax.Subscription) -> LeafQuery:
    """The leaf of a single-event subscription; other subscriptions are refused.

    >>> from motet.language.parse import parse
    >>> leaf = single_event_leaf(parse("SUBSCRIPTION s EVENT a DURING ?t ?u WHEN a WITHIN 5 s")[0])
    >>> leaf.variables, leaf.max_length
    (('a', 't', 'u'), 5000000)
    """
    if isinstance(subscription.delivery, syntax.Construct):
        raise _refusal(subscription, "derives events (CONSTRUCT)")
    max_length: int | None = None
    conditions: list[syntax.Expression] = []
    pattern: syntax.Pattern = subscription.pattern
    while isinstance(pattern, syntax.Within | syntax.Filter):
        match pattern:
            case syntax.Within(_, bound):
                max_length = bound if max_length is None else min(bound, max_length)
            case syntax.Filter(_, condition):
                conditions.insert(0, condition)
        pattern = pattern.operand
    if not isinstance(pattern, syntax.Leaf):
        raise _refusal(subscription, f"combines events ({type(pattern).__name__.upper()})")
    event = subscription.event(pattern.name)
    with_triples = isinstance(subscription.delivery, syntax.Events)
    variables = _delivered(subscription, event)
    return LeafQuery(subscription.name, event, variables, max_length, tuple(conditions), with_triples)


def single_event_matcher(
    subscriptions: Iterable[syntax.Subscription],
    background: frozenset[batches.Triple] = frozenset(),
    entailment: str | None = None,
) -> Matcher:
    """The matcher of single-event subscriptions."""
    return Matcher(tuple(map(single_event_leaf, subscriptions)), background, entailment)


def _delivered(subscription: syntax.Subscription, event: syntax.Event) -> tuple[str, ...]:
    match subscription.delivery:
        case syntax.Select(None):
            return tuple(sorted(leaf_variables(event)))
        case syntax.Select(tuple(variables)):
            return tuple(sorted(leaf_variables(event) & frozenset(variables)))
    return ()


def _refusal(subscription: syntax.Subscription, problem: str) -> EngineError:
    return EngineError(
        f"subscription {subscription.name!r} {problem}",
        advice="Run it on a Processor: a matcher takes single-event subscriptions only.",
    )


# Derivation edges: the run order they require, and the lags of the leaves they feed


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
