"""Builds the plan: merges the operators of all subscriptions into one graph in which equal sub-patterns appear once.

Equal means equal results, up to the names of variables. Two sub-patterns are one node when operator, operands, bound,
condition and joined variables agree, and besides:

- context, on pairing operators and counted iterations only: nothing else depends on it;
- the start of the subscription, except where results can be filtered by it afterwards: for leaves, OR, WITHIN and
  FILTER, and for pairing operators in the unrestricted context. Absence and iteration depend on other events than those
  of the result, and the other contexts on earlier pairs;
- the order of variable names, where it decides between occurrences with equal intervals and events (language page,
  section 7): renaming ``?x ?y`` to ``?y ?x`` changes which of them is the oldest;
- the order of operands, except of OR and XOR, and of AND, ALONGSIDE and EQUALS. These three keep it above NO, whose
  occurrences have no events, and AND keeps it below WITHOUT, which depends on which side is the left one.

Node ids depend on what was planned before; digests depend on the structure only. State is stored by digest, so that
every plan of the same subscriptions can read it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields, replace
from hashlib import blake2b

from motet.language import syntax
from motet.language.annotate import Node as Annotated
from motet.language.annotate import annotate
from motet.language.syntax import Context, Event, Subscription
from motet.language.walk import children as children_of
from motet.model.intervals import Relation
from motet.plan.graph import (
    ITERATION,
    NEGATION,
    PAIRING,
    Edge,
    Kind,
    Operator,
    Plan,
    PlanNode,
    Renaming,
    Root,
    Route,
    Start,
)
from motet.plan.leaves import LeafPredicates, normalise
from motet.sparql.algebra import Expr
from motet.sparql.scope import renamed, variables_in_order

_UNNUMBERED = -1
_FILTERABLE = frozenset({Kind.LEAF, Kind.OR, Kind.WITHIN, Kind.FILTER})
_KINDS = {
    syntax.And: Kind.AND,
    syntax.Or: Kind.OR,
    syntax.Xor: Kind.XOR,
    syntax.Timed: Kind.TIMED,
    syntax.Alongside: Kind.ALONGSIDE,
    syntax.Within: Kind.WITHIN,
    syntax.Unless: Kind.UNLESS,
    syntax.Without: Kind.WITHOUT,
    syntax.Filter: Kind.FILTER,
    syntax.No: Kind.NO,
    syntax.Times: Kind.TIMES,
    syntax.Run: Kind.RUN,
}


def build_plan(subscriptions: Iterable[Subscription], *, start_offsets: Mapping[str, int] | None = None) -> Plan:
    """The plan of some subscriptions; ``start_offsets`` says by name where each begins, 0 if it is not named.

    >>> from motet.language.parse import parse
    >>> text = "SUBSCRIPTION {} EVENT {} : <urn:C> EVENT x : <urn:D> WHEN {} AND x WITHIN 5 s "
    >>> plan = build_plan(parse(text.format("one", "a", "a") + text.format("two", "b", "b")))
    >>> [node.kind.value for node in plan.nodes], [root.node for root in plan.roots]
    (['EVENT', 'EVENT', 'AND'], [2, 2])
    """
    builder = PlanBuilder()
    return builder.plan(
        builder.add(subscription, Start((start_offsets or {}).get(subscription.name, 0), subscription.since))
        for subscription in subscriptions
    )


@dataclass
class _Built:
    """A node of the plan as one subscription sees it."""

    node: PlanNode
    names: dict[str, str]  # the node's variables, in its own order, to the subscription's
    certain: frozenset[str]  # those of the subscription's names that every occurrence binds
    has_no: bool = False  # NO stands below


@dataclass(frozen=True, slots=True)
class SharedLeaf:
    """The predicates of an EVENT, and the one that was first seen with them."""

    predicates: LeafPredicates
    event: Event
    variable_names: Mapping[str, str]  # of the predicates' variables, in the event
    certain_variables: frozenset[str]
    event_variables: frozenset[str]


@dataclass
class PlanBuilder:
    """Numbers nodes as they are first seen. Two nodes are one when all but their ids are equal.

    Subscriptions can be added one by one, and nodes that nobody needs any more be forgotten: the numbers of the others
    stay, and none is ever given again.
    """

    nodes: dict[int, PlanNode] = field(default_factory=dict)
    variable_names: dict[int, dict[str, str]] = field(default_factory=dict)  # of each node, where it was first seen
    digests: dict[int, str] = field(default_factory=dict)  # of each node
    leaves: dict[int, SharedLeaf] = field(default_factory=dict)
    _ids: dict[PlanNode, int] = field(default_factory=dict)
    _matches: dict[LeafPredicates, int] = field(default_factory=dict)  # the numbers of leaves
    _uses: dict[int, int] = field(default_factory=dict)  # by number of a leaf: how many nodes are
    _new: set[int] = field(default_factory=set)  # the nodes of which it is not yet known whether they are used
    _next_id: int = 0
    _next_match: int = 0

    def add(
        self,
        subscription: Subscription,
        start: Start,
        *,
        alone: bool = False,
        routes: Mapping[str, Route] | None = None,
    ) -> Root:
        """Add a subscription; ``alone`` it shares nothing with others. ``routes`` are those of its EVENTs."""
        with_members = _fills_members(subscription)
        owner = subscription.name if alone or with_members else None
        walk = _Walk(self, subscription.context, start, owner, with_members, routes or {})
        built = walk.built(annotate(subscription))
        return Root(subscription, built.node.id, tuple(built.names.items()), start)

    def reachable(self, roots: Iterable[Root]) -> set[int]:
        """The ids of all nodes some roots need."""
        found: set[int] = set()
        waiting = [root.node for root in roots]
        while waiting:
            id_ = waiting.pop()
            if id_ not in found:
                found.add(id_)
                waiting += (edge.child for edge in self.nodes[id_].children)
        return found

    def remove_unused(self, gone: Iterable[int], used: Container[int]) -> None:
        """Forget the nodes that are not used, of those that are gone and those built since this was last said."""
        for id_ in {*gone, *self._new}:
            if id_ not in used and id_ in self.nodes:
                node = self.nodes.pop(id_)
                del self._ids[replace(node, id=_UNNUMBERED)], self.variable_names[id_], self.digests[id_]
                self._forget_leaf(node)
        self._new.clear()

    def _forget_leaf(self, node: PlanNode) -> None:
        match = node.operator.leaf_id
        if match is not None:
            self._uses[match] -= 1
            if not self._uses[match]:
                del self._uses[match], self._matches[self.leaves.pop(match).predicates]

    def copy(self) -> PlanBuilder:
        """One that knows the same nodes by the same numbers, all of them new, and goes its own way from here."""
        return replace(PlanBuilder(*(copy(getattr(self, part.name)) for part in fields(self))), _new=set(self.nodes))

    def plan(self, roots: Iterable[Root]) -> Plan:
        """The nodes that some roots need, in the same order but numbered without gaps."""
        found = tuple(roots)
        ids = tuple(sorted(self.reachable(found)))
        matches = sorted({match for id_ in ids if (match := self.nodes[id_].operator.leaf_id) is not None})
        place, leaf = ({number: index for index, number in enumerate(some)} for some in (ids, matches))
        leaves = [self.leaves[match] for match in matches]
        nodes = tuple(_renumbered(self.nodes[id_], place, leaf) for id_ in ids)
        placed = tuple(replace(root, node=place[root.node]) for root in found)
        return Plan(
            tuple(leaf.predicates for leaf in leaves),
            nodes,
            placed,
            tuple(leaf.event for leaf in leaves),
            _users(nodes, placed),
            tuple(self.variable_names[id_] for id_ in ids),
            tuple(leaf.variable_names for leaf in leaves),
            ids,
        )

    def interned(self, node: PlanNode, names: dict[str, str]) -> PlanNode:
        """The plan's node that is equal to this one, which has no number yet."""
        known = self._ids.get(node)
        if known is not None:
            return self.nodes[known]
        id_, self._next_id = self._next_id, self._next_id + 1
        self._ids[node] = id_
        self._new.add(id_)
        self.nodes[id_], self.variable_names[id_] = replace(node, id=id_), names
        match = node.operator.leaf_id
        if match is not None:
            self._uses[match] = self._uses.get(match, 0) + 1
        leaf = None if match is None else self.leaves[match].predicates
        self.digests[id_] = node_digest(node, leaf, [self.digests[edge.child] for edge in node.children])
        return self.nodes[id_]

    def leaf(self, event: Event) -> tuple[int, dict[str, str]]:
        """The number of the leaf with the event's predicates, and the event's names for their variables."""
        found, names = normalise(event)
        known = self._matches.get(found)
        if known is not None:
            return known, names
        match, self._next_match = self._next_match, self._next_match + 1
        self._matches[found] = match
        self.leaves[match] = SharedLeaf(found, event, names, found.certain_variables(), found.event_variables())
        return match, names


@dataclass(frozen=True)
class _Walk:
    """Builds the nodes of one subscription."""

    builder: PlanBuilder
    context: Context
    start: Start
    owner: str | None
    with_members: bool
    routes: Mapping[str, Route]

    def built(self, tree: Annotated, *, below_without: bool = False) -> _Built:
        if tree.event is not None:
            return self._leaf(tree, tree.event)
        passes = isinstance(tree.node, syntax.Unless | syntax.Without | syntax.Within | syntax.Filter)
        inherits = isinstance(tree.node, syntax.Without) or (below_without and passes)
        children = [
            self.built(child, below_without=inherits and index == 0) for index, child in enumerate(tree.children)
        ]
        if tree.carried:
            return children[0]
        pairs = below_without and (passes or isinstance(tree.node, syntax.Pairing))
        draft = replace(self._draft(tree, [child.node for child in children]), keeps_sides=pairs)
        condition = _condition(tree)
        orders = [children, children[::-1]] if self._commutes(draft, children, below_without) else [children]
        named = [self._named(draft, order, condition, tree.visible) for order in orders]
        node, names = min(named, key=lambda one: self._rank(one[0]))
        has_no = draft.kind is Kind.NO or any(child.has_no for child in children)
        return _Built(self.builder.interned(node, names), names, _certain(draft, names, children), has_no)

    def _leaf(self, tree: Annotated, event: Event) -> _Built:
        match, names = self.builder.leaf(event)
        shown = {canonical: own for canonical, own in names.items() if own in tree.visible}
        route = self.routes.get(event.name)
        draft = PlanNode(_UNNUMBERED, Operator(Kind.LEAF, leaf_id=match), variables=tuple(shown), route=route)
        owner = f"{self.owner} {event.name}" if self.with_members else self.owner  # members know events by name
        node = self.builder.interned(replace(draft, with_members=self.with_members, owner=owner), names)
        certain = self.builder.leaves[match].certain_variables
        return _Built(node, shown, frozenset(own for canonical, own in shown.items() if canonical in certain))

    def _draft(self, tree: Annotated, children: list[PlanNode]) -> PlanNode:
        """The node without its names."""
        operator = _operator(tree.node)
        paired = operator.kind in PAIRING
        free = operator.kind in _FILTERABLE or (paired and self.context is Context.UNRESTRICTED)
        filterable = free and all(child.start is None for child in children)
        return PlanNode(
            _UNNUMBERED,
            operator,
            bound=tree.bound if paired or operator.kind in ITERATION else None,
            context=self.context if paired or operator.kind is Kind.TIMES else None,
            start=None if filterable else self.start,
            with_members=self.with_members,
            owner=self.owner,
        )

    def _commutes(self, draft: PlanNode, children: list[_Built], below_without: bool) -> bool:
        if draft.kind in (Kind.OR, Kind.XOR):
            return True
        if draft.context is not Context.UNRESTRICTED and any(child.has_no for child in children):
            return False
        symmetric = draft.kind is Kind.ALONGSIDE or draft.operator.relation is Relation.EQUALS
        return symmetric or (draft.kind is Kind.AND and not below_without)

    def _named(
        self, draft: PlanNode, children: list[_Built], condition: Expr | None, visible: frozenset[str]
    ) -> tuple[PlanNode, dict[str, str]]:
        """The node with its operands in this order, and its variables with the subscription's names."""
        flowing = _flowing(draft.kind, children, visible)
        number = {own: f"v{index}" for index, own in enumerate(flowing)}
        edges = tuple(Edge(child.node.id, _edge_names(child, number)) for child in children)
        node = replace(
            draft,
            children=edges,
            variables=tuple(number.values()),
            condition=_canonical_condition(condition, number),
            order=self._order(draft, children, number),
            key_variables=_keys(children, number),
        )
        return node, {canonical: own for own, canonical in number.items()}

    def _rank(self, node: PlanNode) -> tuple[object, ...]:
        """Which of two orders of the operands to take; the same for all who write the same pattern, in any plan."""
        builder = self.builder
        kinds = tuple(builder.nodes[edge.child].kind is Kind.LEAF for edge in node.children)
        below = tuple((builder.digests[edge.child], edge.renaming) for edge in node.children)
        return kinds, below, repr(node.condition), node.order

    def _order(self, draft: PlanNode, children: list[_Built], number: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
        if draft.kind not in PAIRING or draft.context is Context.UNRESTRICTED:
            return ()
        joined = children[0].certain & children[1].certain
        return tuple(tuple(number[own] for own in sorted(self._deciding(child, joined))) for child in children)

    def _deciding(self, child: _Built, joined: frozenset[str]) -> list[str]:
        """The variables whose order can decide between occurrences with equal intervals and events.

        An event's solutions all have the event itself and its times; and those that differ in a variable on which both
        sides certainly join never compete. But (variable, value) pairs are compared one by one, so that where
        something may be unbound every name matters.
        """
        if not child.certain.issuperset(child.names.values()):
            return list(child.names.values())
        match = child.node.operator.leaf_id
        same = self.builder.leaves[match].event_variables if match is not None else frozenset()
        deciding = [own for canonical, own in child.names.items() if canonical not in same and own not in joined]
        return deciding if len(deciding) > 1 else []


def _keys(children: list[_Built], number: Mapping[str, str]) -> tuple[str, ...]:
    """The node's variables that both operands certainly bind."""
    if len(children) != 2:
        return ()
    both = children[0].certain & children[1].certain
    return tuple(canonical for own, canonical in number.items() if own in both)


def _fills_members(subscription: Subscription) -> bool:
    """Whether a CONSTRUCT template is filled with the members of an occurrence, not with its bindings."""
    cumulative = subscription.context is Context.CUMULATIVE
    return isinstance(subscription.delivery, syntax.Construct) and (cumulative or _iterates(subscription.pattern))


def _iterates(pattern: syntax.Pattern) -> bool:
    return isinstance(pattern, syntax.Times | syntax.Run) or any(map(_iterates, children_of(pattern)))


def _certain(node: PlanNode, names: Mapping[str, str], children: list[_Built]) -> frozenset[str]:
    """What every occurrence binds. Cumulative forgets what its members do not agree on."""
    sides = [child.certain for child in children[:1] if node.kind in NEGATION] or [child.certain for child in children]
    gathers = node.kind in PAIRING and node.context is not Context.CUMULATIVE
    bound = sides[0].union(*sides[1:]) if gathers else sides[0].intersection(*sides[1:])
    return bound.intersection(names.values())


def _operator(pattern: syntax.Pattern) -> Operator:  # noqa: PLR0911  (one return for each kind)
    kind = _KINDS[type(pattern)]
    match pattern:
        case syntax.Timed(relation):
            return Operator(kind, relation=relation)
        case syntax.Xor() | syntax.Unless():
            return Operator(kind, window=pattern.window)
        case syntax.Within():
            return Operator(kind, window=pattern.bound)
        case syntax.No():
            return Operator(kind, window=pattern.duration)
        case syntax.Times():
            return Operator(kind, count=pattern.count, gap=pattern.gap)
        case syntax.Run():
            return Operator(kind, gap=pattern.gap)
    return Operator(kind)


def _condition(tree: Annotated) -> Expr | None:
    condition = tree.node.condition if isinstance(tree.node, syntax.Filter) else tree.condition
    return None if condition is None else condition.algebra


def _flowing(kind: Kind, children: list[_Built], visible: frozenset[str]) -> dict[str, None]:
    """The variables the node's occurrences bind, in the order of the operands."""
    if kind is Kind.NO:
        return {}
    sources = children[:1] if kind in NEGATION else children
    flowing = dict.fromkeys(own for child in sources for own in child.names.values())
    return {own: None for own in flowing if own in visible} if kind in ITERATION else flowing


def _edge_names(child: _Built, number: Mapping[str, str]) -> Renaming:
    return tuple((canonical, number[own]) for canonical, own in child.names.items() if own in number)


def _canonical_condition(condition: Expr | None, number: Mapping[str, str]) -> Expr | None:
    """The condition over the node's variables; what the node never binds is numbered behind them."""
    if condition is None:
        return None
    names = dict(number)
    for own in variables_in_order(condition):
        names.setdefault(own, f"v{len(names)}")
    return renamed(condition, names.__getitem__)


def _renumbered(node: PlanNode, ids: Mapping[int, int], matches: Mapping[int, int]) -> PlanNode:
    edges = tuple(Edge(ids[edge.child], edge.renaming) for edge in node.children)
    match = None if node.operator.leaf_id is None else matches[node.operator.leaf_id]
    if (node.id, node.children, node.operator.leaf_id) == (ids[node.id], edges, match):
        return node
    return replace(node, id=ids[node.id], children=edges, operator=replace(node.operator, leaf_id=match))


def _users(nodes: tuple[PlanNode, ...], roots: tuple[Root, ...]) -> dict[int, tuple[str, ...]]:
    users: dict[int, dict[str, None]] = {}
    for root in roots:
        waiting = [root.node]
        while waiting:
            number = waiting.pop()
            if root.subscription.name not in users.setdefault(number, {}):
                users[number][root.subscription.name] = None
                waiting.extend(edge.child for edge in nodes[number].children)
    return {number: tuple(users[number]) for number in sorted(users)}


_NOWHERE = -1


def node_digest(node: PlanNode, leaf: LeafPredicates | None, below: Sequence[str]) -> str:
    """A text of a node, given its leaf, if it is one, and the digests of its operands.

    It begins with what the node is, so that sorting by it is sorting by something people recognise.

    >>> from motet.language.parse import parse
    >>> from motet.plan.builder import PlanBuilder
    >>> from motet.plan.graph import Start
    >>> text = "SUBSCRIPTION s EVENT a : <urn:A> EVENT b : <urn:B> WHEN {} WITHIN 5 s"
    >>> first, second = PlanBuilder(), PlanBuilder()
    >>> for builder, pattern in ((first, "a AND b"), (second, "b AND a")):
    ...     _ = builder.add(*parse(text.format(pattern)), Start(0))
    >>> first.digests[2] == second.digests[2], first.digests[2].split()[0]
    (True, 'AND')
    """
    bare = replace(
        node,
        id=_NOWHERE,
        operator=replace(node.operator, leaf_id=None),
        children=tuple(Edge(_NOWHERE, edge.renaming) for edge in node.children),
    )
    whole = blake2b(repr((bare, leaf, tuple(below))).encode(), digest_size=16).hexdigest()
    said = f"{node.title} {' '.join(leaf.classes)}" if leaf is not None else node.title
    return f"{said} {whole}"


class NodeReferences:
    """How often each node is needed: by whoever waits for it, and as an operand of nodes that are needed.

    >>> from motet.language.parse import parse
    >>> from motet.plan.builder import build_plan
    >>> text = "SUBSCRIPTION s{} EVENT a : <urn:A> EVENT b : <urn:{}> WHEN a AND b WITHIN 5 s "
    >>> references = NodeReferences(dict(enumerate(build_plan(parse(text.format(1, "B") + text.format(2, "C"))).nodes)))
    >>> [node.id for node in references.acquire(2)], [node.id for node in references.acquire(4)]
    ([0, 1, 2], [3, 4])
    >>> [node.id for node in references.release(2)], sorted(references)
    ([2, 1], [0, 3, 4])
    """

    def __init__(self, nodes: Mapping[int, PlanNode]) -> None:
        self._nodes = nodes
        self._counts: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._counts)

    def __iter__(self) -> Iterator[int]:
        return iter(self._counts)

    def __contains__(self, id_: object) -> bool:
        return id_ in self._counts

    def acquire(self, id_: int) -> list[PlanNode]:
        """Somebody needs a node: those that nobody needed before, operands first."""
        self._counts[id_] = self._counts.get(id_, 0) + 1
        if self._counts[id_] > 1:
            return []
        node = self._nodes[id_]
        return [*(new for edge in node.children for new in self.acquire(edge.child)), node]

    def release(self, id_: int) -> list[PlanNode]:
        """Somebody needs a node no longer: those that nobody needs now, operands last."""
        self._counts[id_] -= 1
        if self._counts[id_]:
            return []
        del self._counts[id_]
        node = self._nodes[id_]
        return [node, *(gone for edge in node.children for gone in self.release(edge.child))]
