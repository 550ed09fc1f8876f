"""The active plan: matchers, operator nodes, root subscribers and derivation edges of the active subscriptions."""

from __future__ import annotations

from collections.abc import Sequence

from motet.engine.detect.leaves import LeafMatcher
from motet.engine.detect.output import SubscriberGroup
from motet.engine.match.matcher import Matcher, MatcherRegistry
from motet.engine.match.single_events import single_event_leaf
from motet.engine.runtime.active_subscription import ActiveSubscription
from motet.engine.runtime.derivations import ActiveDerivations
from motet.engine.runtime.processor_state import ProcessorState, SharedPlan
from motet.plan.builder import NodeReferences
from motet.plan.finality import node_lags
from motet.plan.graph import PlanNode


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
