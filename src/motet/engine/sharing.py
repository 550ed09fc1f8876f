"""What kernels that work on one log have in common: a kernel, and those that show somebody the past for it."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from motet.engine.buckets import Buckets
from motet.engine.detect.dictionary import Dictionary
from motet.engine.lives import Life
from motet.engine.memory import Memory
from motet.plan.builder import PlanBuilder
from motet.plan.graph import Root


@dataclass
class Sharing:
    """The plan, the strings behind the numbers in all tables, and whose tables these are."""

    builder: PlanBuilder = field(default_factory=PlanBuilder)
    names: Dictionary = field(default_factory=Dictionary)
    memories: list[Memory] = field(default_factory=list)
    derived: int = 0  # how many events were derived so far
    _roots: dict[str, tuple[Hashable, Root]] = field(default_factory=dict)  # by name: of what, and what was built
    _built: set[str] = field(default_factory=set)  # names whose roots are new

    @property
    def is_past_shown(self) -> bool:
        """Whether a second kernel is at work."""
        return len(self.memories) > 1

    def with_plan(self) -> Sharing:
        """For a kernel that goes on from elsewhere: what was built for these."""
        return Sharing(self.builder.copy(), _roots=dict(self._roots), _built=set(self._roots))

    def root(self, life: Life, buckets: Buckets | None) -> Root:
        """Where a subscription's notifications come from; what was built for it is used again."""
        routes = buckets.routes(life.subscription) if buckets else None
        of = life.subscription, life.start, life.is_alone, frozenset(routes.items()) if routes else None
        known, root = self._roots.get(life.subscription.name, (None, None))
        if root is None or known != of:
            root = self.builder.add(life.subscription, life.start, alone=life.is_alone, routes=routes)
            self._roots[life.subscription.name] = of, root
            self._built.add(life.subscription.name)
        return root

    def forget(
        self, names: Iterable[str], lives: Mapping[str, Life], gone: Iterable[int], used: Container[int]
    ) -> None:
        """Forget what was built for others than these lives, of those of some names, of some nodes, and of all that was
        built since this was last said.
        """
        self.builder.remove_unused(gone, used)
        for name in self._built.union(names):
            life, (_, root) = lives.get(name), self._roots.get(name, (None, None))
            if root is not None and (life is None or life.root is not root):
                del self._roots[name]
        self._built.clear()

    def tidy(self) -> None:
        """Forget the strings that no table needs any more, and number the others anew."""
        stores = [running for memory in self.memories for running in memory.detector.operator_nodes.values()]
        seen = {id(one): one for memory in self.memories for one in memory.delivered().values()}.values()
        pasts = [memory.past for memory in self.memories if memory.past]
        lives = {id(life): life for memory in self.memories for life in memory.lives.values()}.values()
        told = [(life, life.told) for life in lives if life.told is not None]
        tables = [table for store in stores for table in store.tables().values()]
        tables += [distinct.emitted_before for distinct in seen] + [table for past in pasts for table in past.found]
        renumbered = self.names.compact([*tables, *(table for _, table in told)])
        for store in stores:
            store.restore({name: renumbered(table) for name, table in store.tables().items()})
        for distinct in seen:
            distinct.emitted_before = renumbered(distinct.emitted_before)
        for past in pasts:
            past.found = list(map(renumbered, past.found))
        for life, table in told:
            life.told = renumbered(table)
