"""Which nodes of a plan are needed, as those who need them come and go: the way is as long as the nodes that change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from motet.plan.nodes import Node


class Uses:
    """How often each node is needed: by whoever waits for it, and as an operand of nodes that are needed.

    >>> from motet.language.parse import parse
    >>> from motet.plan.dag import build
    >>> text = "SUBSCRIPTION s{} EVENT a : <urn:A> EVENT b : <urn:{}> WHEN a AND b WITHIN 5 s "
    >>> uses = Uses(dict(enumerate(build(parse(text.format(1, "B") + text.format(2, "C"))).nodes)))
    >>> [node.id for node in uses.begin(2)], [node.id for node in uses.begin(4)]
    ([0, 1, 2], [3, 4])
    >>> [node.id for node in uses.end(2)], sorted(uses)
    ([2, 1], [0, 3, 4])
    """

    def __init__(self, nodes: Mapping[int, Node]) -> None:
        self._nodes = nodes
        self._counts: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._counts)

    def __iter__(self) -> Iterator[int]:
        return iter(self._counts)

    def __contains__(self, id_: object) -> bool:
        return id_ in self._counts

    def begin(self, id_: int) -> list[Node]:
        """Somebody needs a node: those that nobody needed before, operands first."""
        self._counts[id_] = self._counts.get(id_, 0) + 1
        if self._counts[id_] > 1:
            return []
        node = self._nodes[id_]
        return [*(new for edge in node.children for new in self.begin(edge.child)), node]

    def end(self, id_: int) -> list[Node]:
        """Somebody needs a node no longer: those that nobody needs now, operands last."""
        self._counts[id_] -= 1
        if self._counts[id_]:
            return []
        del self._counts[id_]
        node = self._nodes[id_]
        return [node, *(gone for edge in node.children for gone in self.end(edge.child))]
