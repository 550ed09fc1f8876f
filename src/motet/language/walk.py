"""How to go through a pattern's tree without knowing every operator."""

from __future__ import annotations

from collections.abc import Iterator

from motet.language.syntax import (
    Alongside,
    And,
    Filter,
    Leaf,
    No,
    Or,
    Pattern,
    Run,
    Timed,
    Times,
    Unless,
    Within,
    Without,
    Xor,
)

PAIRING = (And, Timed, Alongside)
ITERATION = (Times, Run)


def children(node: Pattern) -> tuple[Pattern, ...]:
    """The operands, left to right.

    >>> children(Or(Leaf("a"), Leaf("b")))
    (Leaf(name='a', position=0), Leaf(name='b', position=0))
    """
    match node:
        case Leaf():
            return ()
        case And() | Or() | Xor() | Timed() | Alongside():
            return node.left, node.right
        case Unless() | Without():
            return node.operand, node.absent
        case Within() | Filter() | No() | Times() | Run():
            return (node.operand,)


def nodes(root: Pattern) -> Iterator[tuple[Pattern, int]]:
    """Every node with its depth, parents first, left to right; without recursion, so depth is no danger."""
    waiting = [(root, 1)]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        waiting.extend((child, depth + 1) for child in reversed(children(node)))


def leaves(root: Pattern) -> Iterator[Leaf]:
    """
    >>> [leaf.name for leaf in leaves(Or(Leaf("a"), Times(Leaf("b"), 2)))]
    ['a', 'b']
    """
    return (node for node, _ in nodes(root) if isinstance(node, Leaf))
