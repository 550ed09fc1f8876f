"""Which WITHIN bounds which operator, and what an operator carries (language page, sections 3, 5 and 7).

The reading taken of the page: a WITHIN is carried when its immediate operand is a pairing operator or an iteration, a
FILTER when its immediate operand is a pairing operator. Everything else filters what its operand produced. An operator
that carries no WITHIN inherits the nearest enclosing one, carried or not.
"""

from __future__ import annotations

from dataclasses import dataclass

from motet.language.syntax import Expression, Filter, Pattern, Within
from motet.language.walk import ITERATION, PAIRING, children


@dataclass(frozen=True, slots=True)
class Bounded:
    """A node with what decides over its pairs or members.

    ``bound`` is the node's own or inherited WITHIN in microseconds: of pairing operators and iterations it limits the
    hull, for other nodes it is what their operands inherit. ``condition`` is the FILTER a pairing operator carries.
    ``carried`` says of a WITHIN or FILTER that its operand applies it, so that the node itself passes everything.
    """

    node: Pattern
    children: tuple[Bounded, ...]
    bound: int | None
    condition: Expression | None = None
    carried: bool = False


def bounds(pattern: Pattern) -> Bounded:
    """The pattern with its bounds.

    >>> from motet.language.syntax import And, Leaf, Or
    >>> tree = bounds(Within(Or(Leaf("c"), And(Leaf("a"), Leaf("b"))), 5))
    >>> tree.carried, tree.children[0].children[1].bound
    (False, 5)
    """
    return _bounded(pattern, None, None)


def _bounded(node: Pattern, inherited: int | None, condition: Expression | None) -> Bounded:
    bound, carried, handed = inherited, False, None
    if isinstance(node, Within):
        bound, carried = node.bound, isinstance(node.operand, (*PAIRING, *ITERATION))
    elif isinstance(node, Filter):
        carried = isinstance(node.operand, PAIRING)
        handed = node.condition if carried else None
    below = tuple(_bounded(child, bound, handed) for child in children(node))
    return Bounded(node, below, bound, condition, carried)
