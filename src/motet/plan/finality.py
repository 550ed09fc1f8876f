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
    """The lags by node id; operands must come first. ``of_leaf`` gives the lag of a leaf that derived events feed.

    >>> from motet.language.parse import parse
    >>> from motet.plan.builder import build_plan
    >>> text = "SUBSCRIPTION s EVENT a : <urn:C> EVENT b : <urn:D> WHEN a UNLESS b WITHIN 5 s"
    >>> node_lags(build_plan(parse(text)).nodes)
    {0: 0, 1: 0, 2: 5000000}
    """
    lags: dict[int, int] = {}
    for node in nodes:
        below = [lags[edge.child] for edge in node.children]
        lags[node.id] = of_leaf(node, lags) if node.kind is Kind.LEAF else lag(node, below)
    return lags


def lag(node: PlanNode, below: Sequence[int]) -> int:
    """The lag of a node that is no leaf, given the lags of its operands."""
    window, gap = node.operator.window or 0, node.operator.gap
    match node.kind:
        case Kind.XOR:
            return max(below) + window
        case Kind.UNLESS:
            return max(below[0], below[1] + window)
        case Kind.RUN:
            durations = [duration for duration in (gap, node.bound) if duration is not None]
            return below[0] + min(durations, default=0)
    return max(below)


NodesById = Mapping[int, PlanNode] | Sequence[PlanNode]  # by id


def may_duplicate(node: PlanNode, nodes: NodesById) -> bool:
    """Whether a node may emit an occurrence twice; the nodes below it are among ``nodes``.

    >>> from motet.language.parse import parse
    >>> from motet.plan.builder import build_plan
    >>> text = "SUBSCRIPTION s EVENT a EVENT b WHEN (a OR b){2} CONTEXT chronicle UNBOUNDED"
    >>> nodes = build_plan(parse(text)).nodes
    >>> [may_duplicate(node, nodes) for node in nodes]
    [False, False, True]
    """
    return _has_duplicates(node, nodes) and not _is_identified(node, nodes)


def _is_identified(node: PlanNode, nodes: NodesById) -> bool:
    if node.kind is Kind.LEAF:
        return EVENT_VARIABLE in node.variables
    below = [nodes[edge.child] for edge in node.children]
    if node.kind in (Kind.WITHIN, Kind.FILTER, *NEGATION):
        return _is_identified(below[0], nodes)
    if not all(_is_identified(child, nodes) for child in below):
        return False
    if node.kind in PAIRING:
        return node.context is not Context.CUMULATIVE and set(node.joined_variables) == set(node.key_variables)
    return node.kind in (Kind.OR, Kind.XOR) and _sides_differ(node, nodes)


def _sides_differ(node: PlanNode, nodes: NodesById) -> bool:
    """Whether each side binds an event that the other side never binds."""
    left_events, right_events = (_event_variables(edge, nodes) for edge in node.children)
    left, right = ({parent for _, parent in edge.renaming} for edge in node.children)
    return bool(left_events - right) and bool(right_events - left)


def _event_variables(edge: Edge, nodes: NodesById) -> set[str]:
    """The parent's variables that are certainly the event of a leaf below."""
    node = nodes[edge.child]
    names = dict(edge.renaming)
    if node.kind is Kind.LEAF:
        return {names[EVENT_VARIABLE]} if EVENT_VARIABLE in names else set()
    if node.kind in PAIRING and node.context is not Context.CUMULATIVE:
        below = set().union(*(_event_variables(child, nodes) for child in node.children))
    elif node.kind in (Kind.WITHIN, Kind.FILTER, *NEGATION):
        below = _event_variables(node.children[0], nodes)
    else:
        return set()
    return {names[variable] for variable in below if variable in names}


def _has_duplicates(node: PlanNode, nodes: NodesById) -> bool:
    """Whether the operator itself may give an occurrence twice; leaves and operators that only filter do not."""
    if node.kind is Kind.LEAF:
        return False
    if node.kind in (Kind.WITHIN, Kind.FILTER, Kind.UNLESS, Kind.NO):
        return False
    if node.kind in (Kind.TIMES, Kind.RUN):
        return nodes[node.children[0].child].kind is not Kind.LEAF
    return True
