"""What is done for the subscriptions in force: what is matched, which nodes run, who waits where, who feeds whom."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from motet.engine.backgrounds import Backgrounds
from motet.engine.detect.leaves import Leaves
from motet.engine.detect.output import SubscriberGroup
from motet.engine.feeding import Feeding
from motet.engine.lives import Life
from motet.engine.match.matcher import Matcher
from motet.engine.match.registered import Registered
from motet.engine.match.single_events import single_event_leaf
from motet.engine.memory import Memory
from motet.engine.sharing import Sharing
from motet.plan.builder import NodeReferences
from motet.plan.finality import node_lags
from motet.plan.graph import PlanNode


class Waiting:
    """Who waits at which node; where all are told in the same way, as one audience."""

    def __init__(self) -> None:
        self.at: dict[int, dict[str, Life]] = {}  # by node and name
        self._audiences: dict[int, SubscriberGroup | None] = {}  # where somebody was told since the last change

    def begin(self, node: int, life: Life) -> None:
        self.at.setdefault(node, {})[life.subscription.name] = life
        self._audiences.pop(node, None)

    def end(self, node: int, life: Life) -> None:
        del self.at[node][life.subscription.name]
        if not self.at[node]:
            del self.at[node]
        self._audiences.pop(node, None)

    def audience(self, node: int) -> SubscriberGroup | None:
        """All who wait at a node, if they are told in the same way."""
        if node not in self._audiences:
            lives = self.at.get(node, {}).values()
            deliveries = [life.delivery for life in lives if life.delivery is not None]
            is_one = bool(deliveries) and all(life.is_plain for life in lives)
            self._audiences[node] = SubscriberGroup(deliveries) if is_one else None
        return self._audiences[node]


class Work:
    """For nobody, until it is told for whom."""

    def __init__(self, backgrounds: Backgrounds, sharing: Sharing) -> None:
        self.leaves = Leaves(backgrounds.current, backgrounds.entailment)  # of all but those of a single EVENT
        self.feeding = Feeding(sharing.builder)
        self.waiting = Waiting()
        self._singles = Registered(backgrounds.current, backgrounds.entailment)  # of a single EVENT
        self._lives: dict[str, Life] = {}
        self._uses = NodeReferences(sharing.builder.nodes)

    @property
    def matcher(self) -> Matcher | None:
        """Of those of a single EVENT, if there are any."""
        return self._singles.matcher if self._singles else None

    def compile_as(self, other: Work) -> None:
        """Begin with what another one has compiled."""
        self._singles.borrow(other._singles)
        self.leaves.compile_as(other.leaves)

    def change(self, names: Collection[str], memory: Memory, sharing: Sharing, backgrounds: Backgrounds) -> None:
        """Work for the subscriptions that are in force now; of these names some may have come or gone.

        What was built for those that are gone is forgotten.
        """
        before, now = self._lives, memory.lives
        gone = [life for name in names if (life := before.get(name)) and life is not now.get(name)]
        come = [life for name in names if (life := now.get(name)) and life is not before.get(name)]
        background, builder = (backgrounds.current, backgrounds.entailment), sharing.builder
        singles = [single_event_leaf(life.subscription) for life in come if life.root is None]
        self._singles.change(singles, {life.subscription.name for life in gone if life.root is None}, *background)
        new, lost = self._exchange(come, gone)
        memory.detector.update(new, lost, builder.nodes)
        if self.feeding.change(come, gone, now, backgrounds.edge_reasoner):
            self._rank(memory)
        self.leaves.change(new, lost, builder, *background)
        if not sharing.is_past_shown:
            sharing.forget(names, now, [node.id for node in lost], self._uses)
            has_names = len(sharing.names.terms) or len(sharing.names.events)
            if has_names and not self._uses and all(life.told is None for life in now.values()):
                sharing.names.compact(())

    def _exchange(self, come: Sequence[Life], gone: Sequence[Life]) -> tuple[list[PlanNode], list[PlanNode]]:
        """Let some come and others go: the nodes that are new, and those nobody needs any more."""
        for life in gone:
            del self._lives[life.subscription.name]
            if life.root is not None:
                self.waiting.end(life.root.node, life)
        for life in come:
            self._lives[life.subscription.name] = life
            if life.root is not None:
                self.waiting.begin(life.root.node, life)
        new = [node for life in come if life.root is not None for node in self._uses.acquire(life.root.node)]
        lost = [node for life in gone if life.root is not None for node in self._uses.release(life.root.node)]
        return new, lost

    def _rank(self, memory: Memory) -> None:
        """Let producers run before those they feed, which wait for them."""
        nodes = self.feeding.ordered(set(self._uses))
        memory.detector.set_order(
            nodes if self.feeding.is_somebody_fed else (), node_lags(nodes, self.feeding.leaf_lag)
        )
