"""The lag of each node (language page, section 12, "Finality"), and whether a node may emit an occurrence twice.

The lag of a node is the least L such that all its occurrences that end at or before t are decided once the frontier has
passed t + L. A node may emit an occurrence twice unless its occurrences are *identified by their bindings*: those of a
leaf with its event visible, and those of pairs of such leaves that keep all bindings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from motet.language.syntax import Context
from motet.plan.graph import GUARDS, PAIRING, Edge, Kind, Node
from motet.plan.leaves import EVENT


def lags(nodes: Iterable[Node], of_leaf: Callable[[Node, Mapping[int, int]], int] = lambda *_: 0) -> dict[int, int]:
    """By node id, of nodes in an order in which operands come first; a leaf waits for the events that feed it.

    >>> from motet.language.parse import parse
    >>> from motet.plan.builder import build
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


Nodes = Mapping[int, Node] | Sequence[Node]  # by id


def repeats(node: Node, nodes: Nodes) -> bool:
    """Whether a node may repeat; those below it are among ``nodes``.

    >>> from motet.language.parse import parse
    >>> from motet.plan.builder import build
    >>> text = "SUBSCRIPTION s EVENT a EVENT b WHEN (a OR b){2} CONTEXT chronicle UNBOUNDED"
    >>> nodes = build(parse(text)).nodes
    >>> [repeats(node, nodes) for node in nodes]
    [False, False, True]
    """
    return _may_repeat(node, nodes) and not _is_told_apart(node, nodes)


def _is_told_apart(node: Node, nodes: Nodes) -> bool:
    if node.kind is Kind.LEAF:
        return EVENT in node.variables
    below = [nodes[edge.child] for edge in node.children]
    if node.kind in (Kind.WITHIN, Kind.FILTER, *GUARDS):
        return _is_told_apart(below[0], nodes)
    if not all(_is_told_apart(child, nodes) for child in below):
        return False
    if node.kind in PAIRING:
        return node.context is not Context.CUMULATIVE and set(node.joined) == set(node.keys)
    return node.kind in (Kind.OR, Kind.XOR) and _sides_differ(node, nodes)


def _sides_differ(node: Node, nodes: Nodes) -> bool:
    """Each side shows an event of its own that the other one never binds."""
    one, other = (_own_events(edge, nodes) for edge in node.children)
    left, right = ({parent for _, parent in edge.names} for edge in node.children)
    return bool(one - right) and bool(other - left)


def _own_events(edge: Edge, nodes: Nodes) -> set[str]:
    """The parent's variables that are certainly the event of a leaf below."""
    node = nodes[edge.child]
    names = dict(edge.names)
    if node.kind is Kind.LEAF:
        return {names[EVENT]} if EVENT in names else set()
    if node.kind in PAIRING and node.context is not Context.CUMULATIVE:
        below = set().union(*(_own_events(child, nodes) for child in node.children))
    elif node.kind in (Kind.WITHIN, Kind.FILTER, *GUARDS):
        below = _own_events(node.children[0], nodes)
    else:
        return set()
    return {names[variable] for variable in below if variable in names}


def _may_repeat(node: Node, nodes: Nodes) -> bool:
    """A leaf is found once for each solution; what only passes occurrences on does not double them."""
    if node.kind is Kind.LEAF:
        return False
    if node.kind in (Kind.WITHIN, Kind.FILTER, Kind.UNLESS, Kind.NO):
        return False
    if node.kind in (Kind.TIMES, Kind.RUN):
        return nodes[node.children[0].child].kind is not Kind.LEAF
    return True
