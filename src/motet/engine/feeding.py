"""Whose derived events feed whom among the subscriptions in force, what runs before what, and what leaves wait for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from motet.engine.lives import Life
from motet.ontology.entailment import Reasoner
from motet.plan.dag import Builder
from motet.plan.feeding import Feed, feeds
from motet.plan.nodes import Node, Root


class Feeding:
    """The feeding edges of some lives; none when nobody derives events."""

    def __init__(self, lives: Mapping[str, Life], builder: Builder, reasoner: Reasoner | None) -> None:
        self._lives = lives
        self._nodes = builder.nodes
        self.roots: list[Root] = []  # of all lives, if somebody derives events
        self._feeds: dict[tuple[str, int], list[Feed]] = {}
        if any(life.templates for life in lives.values()):
            self.roots = [life.root or builder.root(life.subscription, life.start) for life in lives.values()]
            plan = builder.plan(self.roots)
            for feed in feeds(plan, reasoner):
                own = replace(feed, node=plan.ids[feed.node])
                self._feeds.setdefault((feed.producer, feed.clause), []).append(own)

    @property
    def is_somebody_fed(self) -> bool:
        return bool(self._feeds)

    def of(self, producer: str, clause: int) -> Sequence[Feed]:
        """Whom the events of a clause feed."""
        return self._feeds.get((producer, clause), ())

    def subscriptions(self) -> set[str]:
        """Those that derive events for others, and those others."""
        return {name for fed in self._feeds.values() for feed in fed for name in (feed.producer, feed.consumer)}

    def ordered(self, ids: set[int]) -> list[Node]:
        """Nodes after their operands, and leaves after those that feed them."""
        order: dict[int, Node] = {}

        def visit(id_: int) -> None:
            if id_ not in order:
                operands = [edge.child for edge in self._nodes[id_].children]
                for before in [*operands, *sorted(self._producers(id_))]:
                    visit(before)
                order[id_] = self._nodes[id_]

        for id_ in sorted(ids):
            visit(id_)
        return list(order.values())

    def leaf_lag(self, leaf: Node, known: Mapping[int, int]) -> int:
        """How long a leaf waits for derived events, given how long their producers' nodes do."""
        return max((known[root] for root in self._producers(leaf.id)), default=0)

    def _producers(self, leaf: int) -> set[int]:
        """The nodes whose occurrences become events that a leaf sees."""
        return self._by_leaf.get(leaf, set())

    @cached_property
    def _by_leaf(self) -> dict[int, set[int]]:
        found: dict[int, set[int]] = {}
        for (producer, _), fed in self._feeds.items():
            root = self._lives[producer].root
            assert root is not None, "what derives events is detected"
            for feed in fed:
                found.setdefault(feed.node, set()).add(root.node)
        return found
