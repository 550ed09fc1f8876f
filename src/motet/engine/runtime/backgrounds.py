"""The background graphs of a processor: the initial one, the current one, and the one that fixes the derivation edges.

The last is the one in force at the first subscription: derivation edges must not change while derived events are
pending.
"""

from __future__ import annotations

from collections.abc import Mapping

from motet.engine.match.closure import closed_background
from motet.model.batches import Triple
from motet.model.control import ControlState
from motet.ontology.entailment import Reasoner


class Backgrounds:
    """The graphs of a `ControlState`, which has the current one, with the reasoner for derivation edges."""

    def __init__(self, controls: ControlState) -> None:
        self.controls = controls
        self.initial = controls.background
        self._edge_reasoner: Reasoner | None = None

    @property
    def current(self) -> frozenset[Triple]:
        return self.controls.background

    @property
    def entailment(self) -> str:
        """The entailment of the next event."""
        return self.controls.entailment

    @property
    def requested_entailment(self) -> str | None:
        return self.controls.requested_entailment

    @property
    def edge_reasoner(self) -> Reasoner | None:
        """The reasoner that decides derivation edges; None before the first subscription."""
        if self._edge_reasoner is None and self.controls.edge_background is not None:
            background = closed_background(self.controls.edge_background, self.controls.edge_entailment)
            self._edge_reasoner = background.reasoner
        return self._edge_reasoner

    @property
    def likely_edge_reasoner(self) -> Reasoner:
        """The reasoner that decides derivation edges, or would if a subscription were registered now."""
        return self.edge_reasoner or closed_background(self.current, self.entailment).reasoner

    def fix_edge_background(self) -> Reasoner:
        """Let the current graph decide derivation edges, unless an earlier one does; its reasoner."""
        self.controls.fix_edge_background()
        reasoner = self.edge_reasoner
        assert reasoner is not None
        return reasoner

    def take_edges(self, other: Backgrounds) -> None:
        """Decide derivation edges as another processor does."""
        self.controls.edge_background = other.controls.edge_background
        self._edge_reasoner = other.edge_reasoner

    def graphs(self) -> dict[str, frozenset[Triple]]:
        """The graphs as they are stored in a state snapshot."""
        edges = self.controls.edge_background
        return {"given": self.initial, "current": self.current, **({} if edges is None else {"feeding": edges})}

    def restore(self, graphs: Mapping[str, frozenset[Triple]]) -> None:
        """The inverse of `graphs`."""
        self.initial, self.controls.background = graphs["given"], graphs["current"]
        self.controls.edge_background = graphs.get("feeding")
