"""One tree with everything an evaluator asks of a node: operands, visible variables, bound, carried condition."""

from __future__ import annotations

from dataclasses import dataclass

from motet.language.bounds import Bounded, bounds
from motet.language.syntax import Event, Expression, Leaf, Pattern, Subscription
from motet.language.visibility import Visible, visible_variables


@dataclass(frozen=True, slots=True)
class Node:
    """A pattern node, ready for an evaluator that walks the tree.

    A node with ``carried`` set is a WITHIN or FILTER that its operand applies: evaluate the operand and pass it on.
    """

    node: Pattern
    children: tuple[Node, ...]
    visible: frozenset[str]  # variables its occurrences show to the outside
    bound: int | None  # own or inherited WITHIN; limits pairing operators and iterations
    condition: Expression | None  # the FILTER a pairing operator carries
    carried: bool
    event: Event | None  # of a leaf: its declaration

    @property
    def shared(self) -> frozenset[str]:
        """The shared variables of an operator with two operands: those visible in both (language page, section 7)."""
        return self.children[0].visible & self.children[1].visible


def annotate(subscription: Subscription) -> Node:
    """
    >>> from motet.language.parse import parse
    >>> text = "SUBSCRIPTION s EVENT a { ?a <urn:p> ?x } EVENT b { ?b <urn:p> ?x } WHEN a BEFORE b WITHIN 5 s SELECT ?x"
    >>> pair = annotate(parse(text)[0]).children[0]
    >>> sorted(pair.shared), pair.bound
    (['x'], 5000000)
    """
    return _joined(subscription, bounds(subscription.pattern), visible_variables(subscription))


def _joined(subscription: Subscription, bounded: Bounded, visible: Visible) -> Node:
    node = bounded.node
    pairs = zip(bounded.children, visible.children, strict=True)
    return Node(
        node,
        tuple(_joined(subscription, below, seen) for below, seen in pairs),
        visible.variables,
        bounded.bound,
        bounded.condition,
        bounded.carried,
        subscription.event(node.name) if isinstance(node, Leaf) else None,
    )
