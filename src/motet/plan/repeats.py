"""Which nodes may find the same occurrence in more than one way, so that repetitions have to be recognised.

An occurrence is *told apart by its bindings* when no other one has the same: that of a leaf which shows its event, and
that of a pair of such ones which forgets nothing. Whatever cannot be told apart like this may repeat.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from motet.language.syntax import Context
from motet.plan.leaf_predicates import EVENT
from motet.plan.nodes import GUARDS, PAIRING, Edge, Kind, Node

Nodes = Mapping[int, Node] | Sequence[Node]  # by id


def repeats(node: Node, nodes: Nodes) -> bool:
    """Whether a node may repeat; those below it are among ``nodes``.

    >>> from motet.language.parse import parse
    >>> from motet.plan.dag import build
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
