"""Components of a plan that must run together, and the variables by which each can be partitioned.

Matching is done event by event and needs no partitioning; leaf occurrences then go to the *components*: groups of
operators that share operands. A component is partitioned by variables that are bound in all occurrences of all its
leaves and on which all its operators join, so that two occurrences that can pair have equal values. An unbound variable
joins with every value: hashing on a variable that may be unbound would lose matches. Without a key, a component runs on
one worker.

Sharing stops where it would cost the key: subscriptions that have a key alone but none together are separated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from motet.plan.graph import ITERATION, Edge, Kind, Plan, PlanNode, Root

_APART = "what it shares with other subscriptions is computed apart, because together they have no key"
_STATELESS = frozenset({Kind.LEAF, Kind.OR, Kind.WITHIN, Kind.FILTER})


@dataclass(frozen=True, slots=True)
class Component:
    """Operators that run together. ``keys`` gives for each of them its variables to hash by, in the same order."""

    nodes: tuple[int, ...]
    subscriptions: tuple[str, ...]
    keys: tuple[tuple[int, tuple[str, ...]], ...]  # empty without a key
    is_stateless: bool
    reason: str

    def key(self, node: int) -> tuple[str, ...]:
        """The key in the variables of one node."""
        return dict(self.keys).get(node, ())


def components(plan: Plan) -> tuple[Component, ...]:
    """The components of a plan, in the order of their first subscriptions.

    >>> from motet.language.parse import parse
    >>> from motet.plan.builder import build_plan
    >>> body = "{{ ?{0} <urn:room> ?room }}".format
    >>> text = f"SUBSCRIPTION s EVENT a {body('a')} EVENT b {body('b')} WHEN a BEFORE b WITHIN 5 s"
    >>> [(part.nodes, part.keys) for part in components(build_plan(parse(text)))]
    [((1,), ((1, ('v1',)),))]
    """
    analysis = _Analysis(plan)
    return tuple(part for roots in _connected(plan) for part in analysis.parts(roots))


def _connected(plan: Plan) -> list[list[Root]]:
    """The subscriptions that share an operator, directly or through others. Leaves do not count."""
    groups = _Groups(len(plan.nodes))
    for node in plan.nodes:
        for edge in _operators(plan, node):
            groups.unite(node.id, edge.child)
    together: dict[int, list[Root]] = {}
    for root in plan.roots:
        together.setdefault(groups.find(root.node), []).append(root)
    return list(together.values())


class _Groups:
    """Disjoint sets of numbers."""

    def __init__(self, count: int) -> None:
        self._above = list(range(count))

    def find(self, one: int) -> int:
        while self._above[one] != one:
            self._above[one] = self._above[self._above[one]]
            one = self._above[one]
        return one

    def unite(self, one: int, other: int) -> None:
        first, second = sorted((self.find(one), self.find(other)))
        self._above[second] = first


class _Analysis:
    """For every node, the variables it could be partitioned by if it stood alone, or why there are none."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._certain = [leaf.certain_variables() for leaf in plan.leaves]
        self._keys: list[frozenset[str]] = []
        self._lost: list[str] = []
        for node in plan.nodes:
            keys = self._own_keys(node)
            self._keys.append(keys)
            self._lost.append("" if keys else self._why(node))

    def parts(self, roots: list[Root]) -> Iterator[Component]:
        """The component of some connected subscriptions; several where sharing would cost the key."""
        whole = self._component(roots)
        keyed = {root.node for root in roots if self._keys[root.node]}
        if whole.keys or whole.is_stateless or not keyed or len({root.node for root in roots}) == 1:
            yield whole
            return
        apart = [[root for root in roots if root.node == node] for node in sorted(keyed)]
        rest = [root for root in roots if root.node not in keyed]
        for some in [*apart, *([rest] if rest else [])]:
            part = self._component(some)
            yield replace(part, reason=f"{part.reason}; {_APART}")

    def _component(self, roots: list[Root]) -> Component:
        nodes = _below(self.plan, {root.node for root in roots})
        names = tuple(root.subscription.name for root in roots)
        if all(self.plan.nodes[number].kind in _STATELESS for number in nodes):
            return Component(nodes, names, (), True, "each event by itself decides, so any worker will do")
        aligned = self._aligned(nodes)
        keys = tuple((number, tuple(key[number] for key in aligned)) for number in nodes) if aligned else ()
        return Component(nodes, names, keys, False, self._reason(nodes, bool(keys)))

    def _reason(self, nodes: tuple[int, ...], keyed: bool) -> str:
        if keyed:
            return "certainly bound in all its leaves, and every operator joins on it"
        lost = next((self._lost[number] for number in nodes if self._lost[number]), None)
        return lost or "the subscriptions that share its operators join on different variables"

    def _aligned(self, nodes: tuple[int, ...]) -> list[dict[int, str]]:
        """The keys: for each, the one variable of every node that stands for it."""
        places = {(number, name): 0 for number in nodes for name in self.plan.nodes[number].variables}
        for index, place in enumerate(places):
            places[place] = index
        classes = _Groups(len(places))
        for number in nodes:
            for edge in _operators(self.plan, self.plan.nodes[number]):
                for below, above in edge.renaming:
                    classes.unite(places[number, above], places[edge.child, below])
        found: dict[int, list[tuple[int, str]]] = {}
        for (number, name), index in places.items():
            found.setdefault(classes.find(index), []).append((number, name))
        return [dict(members) for members in found.values() if self._is_key(members, nodes)]

    def _is_key(self, members: list[tuple[int, str]], nodes: tuple[int, ...]) -> bool:
        """Exactly one variable of each node, and each is a key of its node."""
        once = len(members) == len(nodes) == len({number for number, _ in members})
        return once and all(name in self._keys[number] for number, name in members)

    def _own_keys(self, node: PlanNode) -> frozenset[str]:
        if node.operator.leaf_id is not None:
            return self._certain[node.operator.leaf_id].intersection(node.variables)
        if node.kind is Kind.NO:
            return frozenset()
        sides = [self._seen(edge) for edge in node.children]
        return sides[0].intersection(*sides[1:])

    def _seen(self, edge: Edge) -> frozenset[str]:
        """The keys of an operand, as the operator calls them."""
        return frozenset(above for below, above in edge.renaming if below in self._keys[edge.child])

    def _why(self, node: PlanNode) -> str:
        """Why a node has no key: the lowest cause."""
        below = [self._lost[edge.child] for edge in node.children if self._lost[edge.child]]
        if below:
            return below[0]
        if node.kind is Kind.LEAF:
            return "nothing that an EVENT certainly binds is visible outside it"
        if node.kind is Kind.NO:
            return "NO has no bindings, so it must see all values"
        if node.kind in ITERATION:
            return "the iteration counts across all values, nothing that is certainly bound is visible outside it"
        if node.joined_variables:
            return f"what both sides of {node.title} share may be unbound, and unbound joins with everything"
        return f"the sides of {node.title} share no variable"


def _operators(plan: Plan, node: PlanNode) -> Iterator[Edge]:
    """The edges to operands that are not leaves."""
    return (edge for edge in node.children if plan.nodes[edge.child].kind is not Kind.LEAF)


def _below(plan: Plan, roots: Iterable[int]) -> tuple[int, ...]:
    """The roots and all operators below them; leaves only where they are roots themselves."""
    found = set(roots)
    waiting = list(found)
    while waiting:
        for edge in _operators(plan, plan.nodes[waiting.pop()]):
            if edge.child not in found:
                found.add(edge.child)
                waiting.append(edge.child)
    return tuple(sorted(found))
