"""Who is matched, as they come and go, and the matcher for them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from motet.engine.match.leaf import LeafQuery
from motet.engine.match.matcher import Matcher
from motet.model.batches import Triple


class Registered:
    """Nobody, until they come."""

    def __init__(self, background: frozenset[Triple], entailment: str) -> None:
        self.matcher = Matcher((), background, entailment)
        self._own: dict[str, LeafQuery] = {}  # by name
        self._is_borrowed = False  # the matcher is for others

    def __len__(self) -> int:
        return len(self._own)

    def borrow(self, other: Registered) -> None:
        """Begin with another one's matcher: what both have in common is compiled already."""
        self.matcher, self._is_borrowed = other.matcher, True

    def change(
        self, come: Sequence[LeafQuery], gone: Collection[str], background: frozenset[Triple], entailment: str
    ) -> None:
        """Match some more, and some no longer; whoever comes again under a name is gone before."""
        for name in gone:
            self._own.pop(name, None)
        self._own.update((leaf.name, leaf) for leaf in come)
        if (background, entailment) != (self.matcher.background, self.matcher.entailment):
            self.matcher = Matcher(tuple(self._own.values()), background, entailment)
        elif self._is_borrowed:
            self.matcher = self.matcher.changed(tuple(self._own.values()))
        elif come or gone:
            self.matcher = self.matcher.exchanged(come, gone)
        self._is_borrowed = False
