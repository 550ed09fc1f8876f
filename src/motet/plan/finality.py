"""The lag of each node (language page, section 12, "Finality"), and whether a node may emit an occurrence twice.

The lag of a node is the least L such that all its occurrences that end at or before t are decided once the frontier has
passed t + L. A node may emit an occurrence twice unless its occurrences are *identified by their bindings*: those of a
leaf with its event visible, and those of pairs of such leaves that keep all bindings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from motet.language.syntax import Context
from motet.plan.graph import NEGATION, PAIRING, Edge, Kind, PlanNode
from motet.plan.leaves import EVENT_VARIABLE


def node_lags(
    nodes: Iterable[PlanNode], of_leaf: Callable[[PlanNode, Mapping[int, int]], int] = lambda *_: 0
) -> dict[int, int]:
    """By node id, of nodes in an order in which operands come first; a leaf waits for the events that feed it.

    >>> from motet.language.parse import parse
    >>> from motet.plan.builder import build_plan
    >>> text = "SUBSCRIPTION s EVENT a : <urn:C> EVENT b : <urn:D> WHEN a UNLESS b WITHIN 5 s"
    >>> node_lags(build_plan(parse(text)).nodes)
    {0: 0, 1: 0, 2: 5000000}
    """
    found: dict[int, int] = {}
    for node in nodes:
        below = [found[edge.child] for edge in node.children]
        found[node.id] = of_leaf(node, found) if node.kind is Kind.LEAF else lag(node, below)
    return found


def lag(node: PlanNode, below: Sequence[int]) -> int:
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


Nodes = Mapping[int, PlanNode] | Sequence[PlanNode]  # by id


def may_duplicate(node: PlanNode, nodes: Nodes) -> bool:
    """Whether a node may repeat; those below it are among ``nodes``.

    >>> from motet.language.parse import parse
    >>> from motet.plan.builder import build_plan
    >>> text = "SUBSCRIPTION s EVENT a EVENT b WHEN (a OR b){2} CONTEXT chronicle UNBOUNDED"
    >>> nodes = build_plan(parse(text)).nodes
    >>> [may_duplicate(node, nodes) for node in nodes]
    [False, False, True]
    """
    return _may_repeat(node, nodes) and not _is_told_apart(node, nodes)


def _is_told_apart(node: PlanNode, nodes: Nodes) -> bool:
    if node.kind is Kind.LEAF:
        return EVENT_VARIABLE in node.variables
    below = [nodes[edge.child] for edge in node.children]
    if node.kind in (Kind.WITHIN, Kind.FILTER, *NEGATION):
        return _is_told_apart(below[0], nodes)
    if not all(_is_told_apart(child, nodes) for child in below):
        return False
    if node.kind in PAIRING:
        return node.context is not Context.CUMULATIVE and set(node.joined_variables) == set(node.key_variables)
    return node.kind in (Kind.OR, Kind.XOR) and _sides_differ(node, nodes)


def _sides_differ(node: PlanNode, nodes: Nodes) -> bool:
    """Each side shows an event of its own that the other one never binds."""
    one, other = (_own_events(edge, nodes) for edge in node.children)
    left, right = ({parent for _, parent in edge.renaming} for edge in node.children)
    return bool(one - right) and bool(other - left)


def _own_events(edge: Edge, nodes: Nodes) -> set[str]:
    """The parent's variables that are certainly the event of a leaf below."""
    node = nodes[edge.child]
    names = dict(edge.renaming)
    if node.kind is Kind.LEAF:
        return {names[EVENT_VARIABLE]} if EVENT_VARIABLE in names else set()
    if node.kind in PAIRING and node.context is not Context.CUMULATIVE:
        below = set().union(*(_own_events(child, nodes) for child in node.children))
    elif node.kind in (Kind.WITHIN, Kind.FILTER, *NEGATION):
        below = _own_events(node.children[0], nodes)
    else:
        return set()
    return {names[variable] for variable in below if variable in names}


def _may_repeat(node: PlanNode, nodes: Nodes) -> bool:
    """A leaf is found once for each solution; what only passes occurrences on does not double them."""
    if node.kind is Kind.LEAF:
        return False
    if node.kind in (Kind.WITHIN, Kind.FILTER, Kind.UNLESS, Kind.NO):
        return False
    if node.kind in (Kind.TIMES, Kind.RUN):
        return nodes[node.children[0].child].kind is not Kind.LEAF
    return True
