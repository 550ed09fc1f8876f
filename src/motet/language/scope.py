"""Analyses of a pattern: its nodes, the WITHIN that bounds each operator, and the variables visible outside each node.

Bounds (language page, sections 3, 5 and 7): a WITHIN is carried when its immediate operand is a pairing operator or an
iteration, a FILTER when its immediate operand is a pairing operator. All others filter the result of their operand. An
operator that carries no WITHIN inherits the nearest enclosing one, carried or not.

Visibility (section 4): a variable leaves a sub-pattern when a leaf or FILTER elsewhere or the delivery clause uses it,
or when it is the name of an event that is not iterated. SELECT * uses all variables, except those inside an iteration.
NO shows none, and the right sides of UNLESS and WITHOUT show none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from motet.language import syntax

PAIRING = (syntax.And, syntax.Timed, syntax.Alongside)
ITERATION = (syntax.Times, syntax.Run)


def children(node: syntax.Pattern) -> tuple[syntax.Pattern, ...]:
    """The operands, left to right.

    >>> children(syntax.Or(syntax.Leaf("a"), syntax.Leaf("b")))
    (Leaf(name='a', position=0), Leaf(name='b', position=0))
    """
    match node:
        case syntax.Leaf():
            return ()
        case syntax.And() | syntax.Or() | syntax.Xor() | syntax.Timed() | syntax.Alongside():
            return node.left, node.right
        case syntax.Unless() | syntax.Without():
            return node.operand, node.absent
        case syntax.Within() | syntax.Filter() | syntax.No() | syntax.Times() | syntax.Run():
            return (node.operand,)


def nodes(root: syntax.Pattern) -> Iterator[tuple[syntax.Pattern, int]]:
    """Every node with its depth, parents first, left to right; without recursion, so that any depth is safe."""
    stack = [(root, 1)]
    while stack:
        node, depth = stack.pop()
        yield node, depth
        stack.extend((child, depth + 1) for child in reversed(children(node)))


def has_no(root: syntax.Pattern) -> bool:
    """Whether a pattern has a NO, whose first start point is the beginning of the subscription."""
    return any(isinstance(node, syntax.No) for node, _ in nodes(root))


def is_single_event(subscription: syntax.Subscription) -> bool:
    """Whether a subscription has one leaf under WITHIN and FILTER only, and no CONSTRUCT."""
    pattern = subscription.pattern
    while isinstance(pattern, syntax.Within | syntax.Filter):
        pattern = pattern.operand
    return isinstance(pattern, syntax.Leaf) and not isinstance(subscription.delivery, syntax.Construct)


def leaves(root: syntax.Pattern) -> Iterator[syntax.Leaf]:
    """
    >>> [leaf.name for leaf in leaves(syntax.Or(syntax.Leaf("a"), syntax.Times(syntax.Leaf("b"), 2)))]
    ['a', 'b']
    """
    return (node for node, _ in nodes(root) if isinstance(node, syntax.Leaf))


@dataclass(frozen=True, slots=True)
class Bounded:
    """A node with the bound and condition of its pairs or members.

    ``bound`` is the node's own or inherited WITHIN in microseconds: of pairing operators and iterations it limits the
    hull, for other nodes it is what their operands inherit. ``condition`` is the FILTER a pairing operator carries.
    ``carried`` says of a WITHIN or FILTER that its operand applies it, so that the node itself passes all occurrences.
    """

    node: syntax.Pattern
    children: tuple[Bounded, ...]
    bound: int | None
    condition: syntax.Expression | None = None
    carried: bool = False


def bounds(pattern: syntax.Pattern) -> Bounded:
    """The pattern with its bounds.

    >>> from motet.language.syntax import And, Leaf, Or
    >>> tree = bounds(syntax.Within(syntax.Or(syntax.Leaf("c"), syntax.And(syntax.Leaf("a"), syntax.Leaf("b"))), 5))
    >>> tree.carried, tree.children[0].children[1].bound
    (False, 5)
    """
    return _bounded(pattern, None, None)


def _bounded(node: syntax.Pattern, inherited: int | None, condition: syntax.Expression | None) -> Bounded:
    bound, carried, passed_down = inherited, False, None
    if isinstance(node, syntax.Within):
        bound, carried = node.bound, isinstance(node.operand, (*PAIRING, *ITERATION))
    elif isinstance(node, syntax.Filter):
        carried = isinstance(node.operand, PAIRING)
        passed_down = node.condition if carried else None
    below = tuple(_bounded(child, bound, passed_down) for child in children(node))
    return Bounded(node, below, bound, condition, carried)


@dataclass(frozen=True, slots=True)
class Visible:
    """A node with the variables its occurrences show to the outside."""

    node: syntax.Pattern
    children: tuple[Visible, ...]
    variables: frozenset[str]


def visible_variables(subscription: syntax.Subscription) -> Visible:
    """The pattern with the variables visible outside each node; the root's are what SELECT * delivers.

    >>> from motet.language.parse import parse
    >>> text = "SUBSCRIPTION s EVENT a { ?a <urn:p> ?x } EVENT b { ?b <urn:p> ?y } WHEN a{2} BEFORE b SELECT *"
    >>> sorted(visible_variables(parse(text)[0]).variables)
    ['b', 'y']
    """
    return _Scope(subscription).visible(subscription.pattern, delivered_names(subscription))


def leaf_variables(event: syntax.Event) -> frozenset[str]:
    """The variables a leaf binds: the event's own name, those in scope in its body, and those of its interval."""
    body = event.body or event.xml
    return frozenset({event.name, *(event.times or ())}) | (body.variables if body else frozenset())


def xml_variables(subscription: syntax.Subscription) -> frozenset[str]:
    """The variables that may stand for XML: those of ELEMENT_AS and CONTENT_AS, and any of a SPARQL body."""
    names: set[str] = set()
    for event in subscription.events:
        if event.body is not None:
            names |= event.body.variables - {event.name}
        for element in event.xml.tree.element.walk() if event.xml is not None else ():
            names |= {*element.element_as, *element.content_as}
    return frozenset(names)


def iterated_names(pattern: syntax.Pattern) -> frozenset[str]:
    """The names of events that stand below an iteration."""
    iterations = (node for node, _ in nodes(pattern) if isinstance(node, ITERATION))
    return frozenset(
        leaf.name for iteration in iterations for leaf, _ in nodes(iteration) if isinstance(leaf, syntax.Leaf)
    )


def delivered_names(subscription: syntax.Subscription) -> frozenset[str]:
    """The variables the delivery clause names; none for SELECT *, SIGNAL and EVENTS."""
    match subscription.delivery:
        case syntax.Select(variables=variables):
            return frozenset(variables or ())
        case syntax.Construct(templates=templates):
            used_outside = frozenset(name for template in templates for name in template.variables)
            return used_outside - iterated_names(
                subscription.pattern
            )  # templates are filled once per member, and these are no keys
        case _:
            return frozenset()


class _Scope:
    """The subscription's constants during one walk."""

    def __init__(self, subscription: syntax.Subscription) -> None:
        self._leaves = {event.name: leaf_variables(event) for event in subscription.events}
        self._iterated = iterated_names(subscription.pattern)
        self._everything = subscription.delivery == syntax.Select()

    def visible(self, node: syntax.Pattern, used_outside: frozenset[str]) -> Visible:
        """``used_outside`` are the variables that occur outside the node, or in the delivery clause."""
        operands = children(node)
        used = [self._used(child) for child in operands]
        condition = node.condition.variables if isinstance(node, syntax.Filter) else frozenset()
        visible = tuple(
            self.visible(child, used_outside.union(condition, *used[:index], *used[index + 1 :]))
            for index, child in enumerate(operands)
        )
        return Visible(node, visible, self._visible_variables(node, self._bound_variables(node, visible), used_outside))

    def _visible_variables(
        self, node: syntax.Pattern, bound: frozenset[str], used_outside: frozenset[str]
    ) -> frozenset[str]:
        if isinstance(node, ITERATION):
            return bound & used_outside
        if self._everything:
            return bound
        names = frozenset(self._leaves) - self._iterated
        return bound & (used_outside | names)

    def _bound_variables(self, node: syntax.Pattern, visible: tuple[Visible, ...]) -> frozenset[str]:
        match node:
            case syntax.Leaf():
                return self._leaves[node.name]
            case syntax.No():
                return frozenset()
            case syntax.Unless() | syntax.Without():
                return visible[0].variables
            case _:
                return _union(child.variables for child in visible)

    def _used(self, root: syntax.Pattern) -> frozenset[str]:
        """The variables that occur in a sub-pattern's leaves and FILTERs."""
        all_nodes = [node for node, _ in nodes(root)]
        occurring = (self._leaves[node.name] for node in all_nodes if isinstance(node, syntax.Leaf))
        return _union(occurring) | _union(
            node.condition.variables for node in all_nodes if isinstance(node, syntax.Filter)
        )


def _union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*sets)


@dataclass(frozen=True, slots=True)
class AnnotatedPattern:
    """A pattern node with all that an evaluator needs: operands, visible variables, bound, carried condition.

    A node with ``carried`` set is a WITHIN or FILTER that its operand applies: evaluate the operand and pass it on.
    """

    node: syntax.Pattern
    children: tuple[AnnotatedPattern, ...]
    visible: frozenset[str]  # variables of its occurrences outside
    bound: int | None  # own or inherited WITHIN; limits pairing operators and iterations
    condition: syntax.Expression | None  # the FILTER a pairing operator carries
    carried: bool
    event: syntax.Event | None  # of a leaf: its declaration

    @property
    def shared(self) -> frozenset[str]:
        """The shared variables of an operator with two operands: those visible in both (language page, section 7)."""
        return self.children[0].visible & self.children[1].visible


def annotate(subscription: syntax.Subscription) -> AnnotatedPattern:
    """
    >>> from motet.language.parse import parse
    >>> text = "SUBSCRIPTION s EVENT a { ?a <urn:p> ?x } EVENT b { ?b <urn:p> ?x } WHEN a BEFORE b WITHIN 5 s SELECT ?x"
    >>> pair = annotate(parse(text)[0]).children[0]
    >>> sorted(pair.shared), pair.bound
    (['x'], 5000000)
    """
    return _annotate(subscription, bounds(subscription.pattern), visible_variables(subscription))


def _annotate(subscription: syntax.Subscription, bounded: Bounded, visible: Visible) -> AnnotatedPattern:
    node = bounded.node
    pairs = zip(bounded.children, visible.children, strict=True)
    return AnnotatedPattern(
        node,
        tuple(_annotate(subscription, bounded_child, visible_child) for bounded_child, visible_child in pairs),
        visible.variables,
        bounded.bound,
        bounded.condition,
        bounded.carried,
        subscription.event(node.name) if isinstance(node, syntax.Leaf) else None,
    )
