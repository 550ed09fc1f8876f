"""Which variables are visible outside each sub-pattern (language page, section 4).

A variable leaves a sub-pattern when something outside wants it: a leaf or FILTER elsewhere in the pattern, the delivery
clause, or because it is the name of an event that is not iterated. SELECT * wants everything, except across the border
of an iteration. NO lets nothing out, and the right sides of UNLESS and WITHOUT only decide.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from motet.language.syntax import Construct, Event, Filter, Leaf, No, Pattern, Select, Subscription, Unless, Without
from motet.language.walk import ITERATION, children, nodes


@dataclass(frozen=True, slots=True)
class Visible:
    """A node with the variables its occurrences show to the outside."""

    node: Pattern
    children: tuple[Visible, ...]
    variables: frozenset[str]


def visible_variables(subscription: Subscription) -> Visible:
    """The pattern with the variables visible outside each node; the root's are what SELECT * delivers.

    >>> from motet.language.parse import parse
    >>> text = "SUBSCRIPTION s EVENT a { ?a <urn:p> ?x } EVENT b { ?b <urn:p> ?y } WHEN a{2} BEFORE b SELECT *"
    >>> sorted(visible_variables(parse(text)[0]).variables)
    ['b', 'y']
    """
    return _Scope(subscription).visible(subscription.pattern, delivered_names(subscription))


def leaf_variables(event: Event) -> frozenset[str]:
    """The variables a leaf binds: the event's own name, those in scope in its body, and those of its interval."""
    return frozenset({event.name, *(event.times or ())}) | (event.body.variables if event.body else frozenset())


def iterated_names(pattern: Pattern) -> frozenset[str]:
    """The names of events that stand below an iteration."""
    iterations = (node for node, _ in nodes(pattern) if isinstance(node, ITERATION))
    return frozenset(leaf.name for iteration in iterations for leaf, _ in nodes(iteration) if isinstance(leaf, Leaf))


def delivered_names(subscription: Subscription) -> frozenset[str]:
    """The variables the delivery clause names; none for SELECT *, SIGNAL and EVENTS."""
    match subscription.delivery:
        case Select(variables=variables):
            return frozenset(variables or ())
        case Construct(templates=templates):
            wanted = frozenset(name for template in templates for name in template.variables)
            return wanted - iterated_names(subscription.pattern)  # those are filled once per member, and key nothing
        case _:
            return frozenset()


class _Scope:
    """What stays the same during one walk."""

    def __init__(self, subscription: Subscription) -> None:
        self._leaves = {event.name: leaf_variables(event) for event in subscription.events}
        self._iterated = iterated_names(subscription.pattern)
        self._everything = subscription.delivery == Select()

    def visible(self, node: Pattern, wanted: frozenset[str]) -> Visible:
        """``wanted`` are the variables that occur outside the node, or in the delivery clause."""
        below = children(node)
        used = [self._used(child) for child in below]
        own = node.condition.variables if isinstance(node, Filter) else frozenset()
        seen = tuple(
            self.visible(child, wanted.union(own, *used[:index], *used[index + 1 :]))
            for index, child in enumerate(below)
        )
        return Visible(node, seen, self._shown(node, self._flowing(node, seen), wanted))

    def _shown(self, node: Pattern, flowing: frozenset[str], wanted: frozenset[str]) -> frozenset[str]:
        if isinstance(node, ITERATION):
            return flowing & wanted
        if self._everything:
            return flowing
        names = frozenset(self._leaves) - self._iterated
        return flowing & (wanted | names)

    def _flowing(self, node: Pattern, seen: tuple[Visible, ...]) -> frozenset[str]:
        match node:
            case Leaf():
                return self._leaves[node.name]
            case No():
                return frozenset()
            case Unless() | Without():
                return seen[0].variables
            case _:
                return _union(child.variables for child in seen)

    def _used(self, root: Pattern) -> frozenset[str]:
        """The variables that occur in a sub-pattern's leaves and FILTERs."""
        found = [node for node, _ in nodes(root)]
        occurring = (self._leaves[node.name] for node in found if isinstance(node, Leaf))
        return _union(occurring) | _union(node.condition.variables for node in found if isinstance(node, Filter))


def _union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*sets)
