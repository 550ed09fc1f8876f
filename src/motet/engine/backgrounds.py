"""Which background graph is in force, and which one decides who feeds whom.

The latter is the one in force when the first subscription was registered: it must not change while derived events are
under way.
"""

from __future__ import annotations

from collections.abc import Mapping

from motet.engine.match.closing import background_of
from motet.model.tables import Triple
from motet.ontology.entailment import Reasoner


class Backgrounds:
    """``given`` is the graph before the first record, ``asked`` the entailment that is wanted, if not the usual one."""

    def __init__(self, given: frozenset[Triple], asked: str | None) -> None:
        self.given = given
        self.asked = asked
        self.current = given
        self.deciding: frozenset[Triple] | None = None  # once it is decided who feeds whom
        self.reasoner: Reasoner | None = None  # of the deciding one

    @property
    def entailment(self) -> str:
        """What is entailed by the graph in force."""
        return self.asked or _usual_entailment(self.current)

    @property
    def likely_reasoner(self) -> Reasoner:
        """The one that decides who feeds whom, or would now."""
        return self.reasoner or background_of(self.current, self.entailment).reasoner

    def decide(self) -> Reasoner:
        """Let the graph in force decide who feeds whom, unless that is done."""
        return self.reasoner or self._decide_by(self.current)

    def change(self, record: Mapping[str, object]) -> None:
        """Let a background record take effect."""
        rows = record["triples"]
        assert isinstance(rows, list)
        change = frozenset((row["subject"], row["predicate"], row["object"]) for row in rows)
        self.current = self.current - change if record["text"] == "remove" else self.current | change

    def graphs(self) -> dict[str, frozenset[Triple]]:
        """What is saved of them."""
        deciding = {} if self.deciding is None else {"feeding": self.deciding}
        return {"given": self.given, "current": self.current, **deciding}

    @classmethod
    def of(cls, graphs: Mapping[str, frozenset[Triple]], asked: str | None) -> Backgrounds:
        """Those that were saved."""
        found = cls(graphs["given"], asked)
        found.current = graphs["current"]
        if "feeding" in graphs:
            found._decide_by(graphs["feeding"])
        return found

    def _decide_by(self, graph: frozenset[Triple]) -> Reasoner:
        self.deciding = graph
        self.reasoner = background_of(graph, self.asked or _usual_entailment(graph)).reasoner
        return self.reasoner


def _usual_entailment(background: frozenset[Triple]) -> str:
    """What is entailed when nothing is asked for: without a background there is nothing to reason with."""
    return "owl-rl" if background else "none"
