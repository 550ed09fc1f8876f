"""Which nodes may find the same occurrence in more than one way, so that repetitions have to be recognised.

An occurrence is *told apart by its bindings* when no other one has the same: that of a leaf which shows its event, and
that of a pair of such ones which forgets nothing. Whatever cannot be told apart like this may repeat.
"""

from __future__ import annotations

from collections.abc import Iterable

from motet.language.syntax import Context
from motet.plan.leaf_predicates import EVENT
from motet.plan.nodes import GUARDS, PAIRING, Edge, Kind, Node


def repeating(nodes: Iterable[Node]) -> set[int]:
    """The ids of the nodes that may repeat, of nodes in an order in which operands come first.

    >>> from motet.language.parse import parse
    >>> from motet.plan.dag import build
    >>> text = "SUBSCRIPTION s EVENT a EVENT b WHEN (a OR b){2} CONTEXT chronicle UNBOUNDED"
    >>> sorted(repeating(build(parse(text)).nodes))
    [2]
    """
    known: dict[int, Node] = {}
    apart: set[int] = set()
    repeats: set[int] = set()
    for node in nodes:
        known[node.id] = node
        if _is_told_apart(node, known, apart):
            apart.add(node.id)
        elif _may_repeat(node, known):
            repeats.add(node.id)
    return repeats


def _is_told_apart(node: Node, known: dict[int, Node], apart: set[int]) -> bool:
    if node.kind is Kind.LEAF:
        return EVENT in node.variables
    if node.kind in (Kind.WITHIN, Kind.FILTER, *GUARDS):
        return node.children[0].child in apart
    if not all(edge.child in apart for edge in node.children):
        return False
    if node.kind in PAIRING:
        return node.context is not Context.CUMULATIVE and set(node.joined) == set(node.keys)
    return node.kind in (Kind.OR, Kind.XOR) and _sides_differ(node, known)


def _sides_differ(node: Node, known: dict[int, Node]) -> bool:
    """Each side shows an event of its own that the other one never binds."""
    one, other = (_own_events(edge, known) for edge in node.children)
    left, right = ({parent for _, parent in edge.names} for edge in node.children)
    return bool(one - right) and bool(other - left)


def _own_events(edge: Edge, known: dict[int, Node]) -> set[str]:
    """The parent's variables that are certainly the event of a leaf below."""
    node = known[edge.child]
    names = dict(edge.names)
    if node.kind is Kind.LEAF:
        return {names[EVENT]} if EVENT in names else set()
    if node.kind in PAIRING and node.context is not Context.CUMULATIVE:
        below = set().union(*(_own_events(child, known) for child in node.children))
    elif node.kind in (Kind.WITHIN, Kind.FILTER, *GUARDS):
        below = _own_events(node.children[0], known)
    else:
        return set()
    return {names[variable] for variable in below if variable in names}


def _may_repeat(node: Node, known: dict[int, Node]) -> bool:
    """A leaf is found once for each solution; what only passes occurrences on does not double them."""
    if node.kind is Kind.LEAF:
        return False
    if node.kind in (Kind.WITHIN, Kind.FILTER, Kind.UNLESS, Kind.NO):
        return False
    if node.kind in (Kind.TIMES, Kind.RUN):
        return known[node.children[0].child].kind is not Kind.LEAF
    return True
