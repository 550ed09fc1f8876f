"""What is done for the subscriptions in force: what is matched, which nodes run, who waits where, who feeds whom."""

from __future__ import annotations

import copy
from collections.abc import Iterable

from motet.engine.backgrounds import Backgrounds
from motet.engine.detect.deliver import Audience
from motet.engine.detect.leaves import Leaves, leaf_nodes
from motet.engine.feeding import Feeding
from motet.engine.lives import Life
from motet.engine.match.matcher import Matcher
from motet.engine.memory import Memory
from motet.engine.sharing import Sharing
from motet.plan.lags import lags
from motet.plan.repeats import repeating


class Waiting:
    """Who waits at which node; where all are told in the same way, as one audience."""

    def __init__(self, lives: Iterable[Life]) -> None:
        self.at: dict[int, list[Life]] = {}
        for life in lives:
            if life.root is not None:
                self.at.setdefault(life.root.node, []).append(life)
        self.audiences = {
            id_: Audience([life.delivery for life in lives if life.delivery is not None])
            for id_, lives in self.at.items()
            if all(life.is_plain for life in lives)
        }


class Work:
    """For nobody, until it is told for whom."""

    def __init__(self, backgrounds: Backgrounds, sharing: Sharing) -> None:
        self.matcher = Matcher((), backgrounds.current, backgrounds.entailment)  # of those of a single EVENT
        self.leaves = Leaves(backgrounds.current, backgrounds.entailment)  # of all others
        self.feeding = Feeding({}, sharing.builder, None)
        self.waiting = Waiting(())

    def compile_as(self, other: Work) -> None:
        """Begin with what another one has compiled."""
        self.matcher, self.leaves = other.matcher, copy.copy(other.leaves)

    def change(self, memory: Memory, sharing: Sharing, backgrounds: Backgrounds) -> None:
        """Work for the subscriptions that are in force now; what was built for others is forgotten."""
        lives, builder = memory.lives, sharing.builder
        roots = [life.root for life in lives.values() if life.root is not None]
        self._change_matcher(lives.values(), backgrounds)
        self.waiting = Waiting(lives.values())
        self.feeding = Feeding(lives, builder, backgrounds.reasoner)
        nodes = self.feeding.ordered(builder.below(roots))
        memory.detector.change(nodes, repeating(nodes), lags(nodes, self.feeding.leaf_lag))
        self.leaves.change(leaf_nodes(nodes, builder), backgrounds.current, backgrounds.entailment)
        if not sharing.is_past_shown:
            sharing.keep([*roots, *self.feeding.roots])
            if not roots and all(life.told is None for life in lives.values()):
                sharing.names.keep(())

    def _change_matcher(self, lives: Iterable[Life], backgrounds: Backgrounds) -> None:
        singles = tuple(life.subscription for life in lives if life.root is None)
        if (backgrounds.current, backgrounds.entailment) != (self.matcher.background, self.matcher.entailment):
            self.matcher = Matcher(singles, backgrounds.current, backgrounds.entailment)
        elif singles != self.matcher.subscriptions:
            self.matcher = self.matcher.changed(singles)
