"""How far behind the frontier the occurrences of each node are known (language page, section 12, "Finality").

The lag of a node is the least L such that every occurrence of it that ends at or before t, and every one that will not
exist, is known once the frontier has passed t + L.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from motet.plan.nodes import Kind, Node


def lags(nodes: Iterable[Node], of_leaf: Callable[[Node, Mapping[int, int]], int] = lambda *_: 0) -> dict[int, int]:
    """By node id, of nodes in an order in which operands come first; a leaf waits for the events that feed it.

    >>> from motet.language.parse import parse
    >>> from motet.plan.dag import build
    >>> text = "SUBSCRIPTION s EVENT a : <urn:C> EVENT b : <urn:D> WHEN a UNLESS b WITHIN 5 s"
    >>> lags(build(parse(text)).nodes)
    {0: 0, 1: 0, 2: 5000000}
    """
    found: dict[int, int] = {}
    for node in nodes:
        below = [found[edge.child] for edge in node.children]
        found[node.id] = of_leaf(node, found) if node.kind is Kind.LEAF else lag(node, below)
    return found


def lag(node: Node, below: Sequence[int]) -> int:
    """That of a node which is no leaf, given those of its operands."""
    window, gap = node.operator.window or 0, node.operator.gap
    match node.kind:
        case Kind.XOR:
            return max(below) + window
        case Kind.UNLESS:
            return max(below[0], below[1] + window)
        case Kind.RUN:
            spans = [span for span in (gap, node.bound) if span is not None]
            return below[0] + min(spans, default=0)
    return max(below)
