"""What is the same node in another plan? Numbers depend on what was planned before; digests of the structure do not.

State is kept by digest, so that it can be read by whoever plans the same subscriptions, in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b

from motet.plan.leaf_predicates import LeafPredicates
from motet.plan.nodes import Edge, Node

_NOWHERE = -1


def digest_of(node: Node, leaf: LeafPredicates | None, below: Sequence[str]) -> str:
    """A text of a node, given its leaf, if it is one, and the digests of its operands.

    It begins with what the node is, so that sorting by it is sorting by something people recognise.

    >>> from motet.language.parse import parse
    >>> from motet.plan.dag import Builder
    >>> from motet.plan.nodes import Start
    >>> text = "SUBSCRIPTION s EVENT a : <urn:A> EVENT b : <urn:B> WHEN {} WITHIN 5 s"
    >>> one, other = Builder(), Builder()
    >>> for builder, pattern in ((one, "a AND b"), (other, "b AND a")):
    ...     _ = builder.root(*parse(text.format(pattern)), Start(0))
    >>> one.digests[2] == other.digests[2], one.digests[2].split()[0]
    (True, 'AND')
    """
    bare = replace(
        node,
        id=_NOWHERE,
        operator=replace(node.operator, match=None),
        children=tuple(Edge(_NOWHERE, edge.names) for edge in node.children),
    )
    whole = blake2b(repr((bare, leaf, tuple(below))).encode(), digest_size=16).hexdigest()
    said = f"{node.title} {' '.join(leaf.classes)}" if leaf is not None else node.title
    return f"{said} {whole}"
