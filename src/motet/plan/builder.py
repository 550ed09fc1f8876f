"""Builds the plan: merges the operators of all subscriptions into one graph in which equal sub-patterns appear once.

Equal means equal results, up to the names of variables. Two sub-patterns are one node when operator, operands, bound,
condition and joined variables agree, and besides:

- context, on pairing operators and counted iterations only: nothing else depends on it;
- the start of the subscription, except where results can be filtered by it afterwards: for leaves, OR, WITHIN and
  FILTER, and for pairing operators in the unrestricted context. Absence and iteration depend on other events than those
  of the result, and the other contexts on earlier pairs; NO also depends on the beginning of the subscription;
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
from motet.language.scope import AnnotatedPattern, annotate
from motet.language.scope import children as children_of
from motet.language.syntax import Context, Event, Subscription
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
    """The plan of subscriptions; ``start_offsets`` has the offset at which each begins, by name; 0 if it is missing.

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
    """A node of the plan with the names and bound variables of one subscription."""

    node: PlanNode
    names: dict[str, str]  # the node's variables, in its order, to the subscription's names
    certain: frozenset[str]  # the subscription's names that every occurrence binds
    has_no: bool = False  # there is a NO below


@dataclass(frozen=True, slots=True)
class SharedLeaf:
    """The predicates of an EVENT, and the first EVENT that was added with them."""

    predicates: LeafPredicates
    event: Event
    variable_names: Mapping[str, str]  # names in the event, by variable of the predicates
    certain_variables: frozenset[str]
    event_variables: frozenset[str]


@dataclass
class PlanBuilder:
    """Assigns ids to nodes. Two nodes are one when all but their ids are equal.

    Subscriptions can be added one by one, and unused nodes removed: the ids of the others stay, and no id is reused.
    """

    nodes: dict[int, PlanNode] = field(default_factory=dict)
    variable_names: dict[int, dict[str, str]] = field(default_factory=dict)  # by node, in its first subscription
    digests: dict[int, str] = field(default_factory=dict)  # by node
    leaves: dict[int, SharedLeaf] = field(default_factory=dict)
    _ids: dict[PlanNode, int] = field(default_factory=dict)
    _leaf_ids: dict[LeafPredicates, int] = field(default_factory=dict)  # by predicates
    _leaf_uses: dict[int, int] = field(default_factory=dict)  # by leaf: the number of its nodes
    _new: set[int] = field(default_factory=set)  # nodes added since unused nodes were last removed
    _next_id: int = 0
    _next_leaf_id: int = 0

    def add(
        self,
        subscription: Subscription,
        start: Start,
        *,
        isolated: bool = False,
        routes: Mapping[str, Route] | None = None,
    ) -> Root:
        """Add a subscription; an ``isolated`` one shares no node with others. ``routes`` are by EVENT."""
        with_members = _instantiates_members(subscription)
        owner = subscription.name if isolated or with_members else None
        nodes = _SubscriptionNodes(self, subscription.context, start, owner, with_members, routes or {})
        built = nodes.build(annotate(subscription))
        return Root(subscription, built.node.id, tuple(built.names.items()), start)

    def reachable(self, roots: Iterable[Root]) -> set[int]:
        """The ids of the nodes below some roots, roots included."""
        ids: set[int] = set()
        stack = [root.node for root in roots]
        while stack:
            id_ = stack.pop()
            if id_ not in ids:
                ids.add(id_)
                stack += (edge.child for edge in self.nodes[id_].children)
        return ids

    def remove_unused(self, released: Iterable[int], used: Container[int]) -> None:
        """Remove the unused nodes among the released ones and those added since the last call."""
        for id_ in {*released, *self._new}:
            if id_ not in used and id_ in self.nodes:
                node = self.nodes.pop(id_)
                del self._ids[replace(node, id=_UNNUMBERED)], self.variable_names[id_], self.digests[id_]
                self._remove_leaf_use(node)
        self._new.clear()

    def _remove_leaf_use(self, node: PlanNode) -> None:
        leaf_id = node.operator.leaf_id
        if leaf_id is not None:
            self._leaf_uses[leaf_id] -= 1
            if not self._leaf_uses[leaf_id]:
                del self._leaf_uses[leaf_id], self._leaf_ids[self.leaves.pop(leaf_id).predicates]

    def copy(self) -> PlanBuilder:
        """An independent copy with the same nodes and ids, all of them new."""
        return replace(
            PlanBuilder(*(copy(getattr(self, attribute.name)) for attribute in fields(self))), _new=set(self.nodes)
        )

    def plan(self, roots: Iterable[Root]) -> Plan:
        """The plan of some roots: their nodes in the same order, with ids without gaps."""
        given = tuple(roots)
        ids = tuple(sorted(self.reachable(given)))
        leaf_ids = sorted({leaf_id for id_ in ids if (leaf_id := self.nodes[id_].operator.leaf_id) is not None})
        new_ids = {id_: index for index, id_ in enumerate(ids)}
        new_leaf_ids = {leaf_id: index for index, leaf_id in enumerate(leaf_ids)}
        leaves = [self.leaves[leaf_id] for leaf_id in leaf_ids]
        nodes = tuple(_renumbered(self.nodes[id_], new_ids, new_leaf_ids) for id_ in ids)
        renumbered = tuple(replace(root, node=new_ids[root.node]) for root in given)
        return Plan(
            tuple(leaf.predicates for leaf in leaves),
            nodes,
            renumbered,
            tuple(leaf.event for leaf in leaves),
            _users(nodes, renumbered),
            tuple(self.variable_names[id_] for id_ in ids),
            tuple(leaf.variable_names for leaf in leaves),
            ids,
        )

    def intern(self, node: PlanNode, names: dict[str, str]) -> PlanNode:
        """The plan's node that is equal to this one, which has no id yet."""
        existing = self._ids.get(node)
        if existing is not None:
            return self.nodes[existing]
        id_, self._next_id = self._next_id, self._next_id + 1
        self._ids[node] = id_
        self._new.add(id_)
        self.nodes[id_], self.variable_names[id_] = replace(node, id=id_), names
        leaf_id = node.operator.leaf_id
        if leaf_id is not None:
            self._leaf_uses[leaf_id] = self._leaf_uses.get(leaf_id, 0) + 1
        leaf = None if leaf_id is None else self.leaves[leaf_id].predicates
        self.digests[id_] = node_digest(node, leaf, [self.digests[edge.child] for edge in node.children])
        return self.nodes[id_]

    def leaf(self, event: Event) -> tuple[int, dict[str, str]]:
        """The id of the leaf with the event's predicates, and the event's names for their variables."""
        predicates, names = normalise(event)
        existing = self._leaf_ids.get(predicates)
        if existing is not None:
            return existing, names
        leaf_id, self._next_leaf_id = self._next_leaf_id, self._next_leaf_id + 1
        self._leaf_ids[predicates] = leaf_id
        self.leaves[leaf_id] = SharedLeaf(
            predicates, event, names, predicates.certain_variables(), predicates.event_variables()
        )
        return leaf_id, names


@dataclass(frozen=True)
class _SubscriptionNodes:
    """Builds the nodes of one subscription."""

    builder: PlanBuilder
    context: Context
    start: Start
    owner: str | None
    with_members: bool
    routes: Mapping[str, Route]

    def build(self, tree: AnnotatedPattern, *, below_without: bool = False) -> _Built:
        if tree.event is not None:
            return self._leaf(tree, tree.event)
        passes = isinstance(tree.node, syntax.Unless | syntax.Without | syntax.Within | syntax.Filter)
        inherits = isinstance(tree.node, syntax.Without) or (below_without and passes)
        children = [
            self.build(child, below_without=inherits and index == 0) for index, child in enumerate(tree.children)
        ]
        if tree.carried:
            return children[0]
        keeps_sides = below_without and (passes or isinstance(tree.node, syntax.Pairing))
        draft = replace(self._draft(tree, [child.node for child in children]), keeps_sides=keeps_sides)
        condition = _condition(tree)
        orders = [children, children[::-1]] if self._commutes(draft, children, below_without) else [children]
        candidates = [self._with_operands(draft, order, condition, tree.visible) for order in orders]
        node, names = min(candidates, key=lambda candidate: self._rank(candidate[0]))
        has_no = draft.kind is Kind.NO or any(child.has_no for child in children)
        return _Built(self.builder.intern(node, names), names, _certain(draft, names, children), has_no)

    def _leaf(self, tree: AnnotatedPattern, event: Event) -> _Built:
        leaf_id, names = self.builder.leaf(event)
        visible = {canonical: name for canonical, name in names.items() if name in tree.visible}
        route = self.routes.get(event.name)
        draft = PlanNode(_UNNUMBERED, Operator(Kind.LEAF, leaf_id=leaf_id), variables=tuple(visible), route=route)
        owner = f"{self.owner} {event.name}" if self.with_members else self.owner  # members name their events
        node = self.builder.intern(replace(draft, with_members=self.with_members, owner=owner), names)
        certain = self.builder.leaves[leaf_id].certain_variables
        return _Built(node, visible, frozenset(name for canonical, name in visible.items() if canonical in certain))

    def _draft(self, tree: AnnotatedPattern, children: list[PlanNode]) -> PlanNode:
        """The node without operands and variables."""
        operator = _operator(tree.node)
        is_pairing = operator.kind in PAIRING
        free = operator.kind in _FILTERABLE or (is_pairing and self.context is Context.UNRESTRICTED)
        filterable = free and all(child.start is None for child in children)
        return PlanNode(
            _UNNUMBERED,
            operator,
            bound=tree.bound if is_pairing or operator.kind in ITERATION else None,
            context=self.context if is_pairing or operator.kind is Kind.TIMES else None,
            start=None if filterable else self._node_start(operator.kind),
            with_members=self.with_members,
            owner=self.owner,
        )

    def _node_start(self, kind: Kind) -> Start:
        """The start of a node; only NO depends on the beginning of the subscription."""
        return self.start if kind is Kind.NO else Start(self.start.offset)

    def _commutes(self, draft: PlanNode, children: list[_Built], below_without: bool) -> bool:
        if draft.kind in (Kind.OR, Kind.XOR):
            return True
        if draft.context is not Context.UNRESTRICTED and any(child.has_no for child in children):
            return False
        symmetric = draft.kind is Kind.ALONGSIDE or draft.operator.relation is Relation.EQUALS
        return symmetric or (draft.kind is Kind.AND and not below_without)

    def _with_operands(
        self, draft: PlanNode, children: list[_Built], condition: Expr | None, visible: frozenset[str]
    ) -> tuple[PlanNode, dict[str, str]]:
        """The node with its operands in this order, and its variables with the subscription's names."""
        flowing = _flowing(draft.kind, children, visible)
        canonical_names = {name: f"v{index}" for index, name in enumerate(flowing)}
        edges = tuple(Edge(child.node.id, _edge_names(child, canonical_names)) for child in children)
        node = replace(
            draft,
            children=edges,
            variables=tuple(canonical_names.values()),
            condition=_canonical_condition(condition, canonical_names),
            order=self._order(draft, children, canonical_names),
            key_variables=_keys(children, canonical_names),
        )
        return node, {canonical: name for name, canonical in canonical_names.items()}

    def _rank(self, node: PlanNode) -> tuple[object, ...]:
        """The sort key of an order of the operands: the same for equal patterns in every plan."""
        builder = self.builder
        kinds = tuple(builder.nodes[edge.child].kind is Kind.LEAF for edge in node.children)
        below = tuple((builder.digests[edge.child], edge.renaming) for edge in node.children)
        return kinds, below, repr(node.condition), node.order

    def _order(
        self, draft: PlanNode, children: list[_Built], canonical_names: Mapping[str, str]
    ) -> tuple[tuple[str, ...], ...]:
        if draft.kind not in PAIRING or draft.context is Context.UNRESTRICTED:
            return ()
        joined = children[0].certain & children[1].certain
        return tuple(
            tuple(canonical_names[name] for name in sorted(self._deciding(child, joined))) for child in children
        )

    def _deciding(self, child: _Built, joined: frozenset[str]) -> list[str]:
        """The variables whose order can decide between occurrences with equal intervals and events.

        All solutions of an event have the event itself and its times, and solutions that differ in a variable on which
        both sides certainly join are never compared. But (variable, value) pairs are compared one by one, so that
        every name matters where a variable may be unbound.
        """
        if not child.certain.issuperset(child.names.values()):
            return list(child.names.values())
        leaf_id = child.node.operator.leaf_id
        same = self.builder.leaves[leaf_id].event_variables if leaf_id is not None else frozenset()
        deciding = [name for canonical, name in child.names.items() if canonical not in same and name not in joined]
        return deciding if len(deciding) > 1 else []


def _keys(children: list[_Built], canonical_names: Mapping[str, str]) -> tuple[str, ...]:
    """The node's variables that both operands certainly bind."""
    if len(children) != 2:
        return ()
    both = children[0].certain & children[1].certain
    return tuple(canonical for name, canonical in canonical_names.items() if name in both)


def _instantiates_members(subscription: Subscription) -> bool:
    """Whether CONSTRUCT templates are instantiated for the members of an occurrence, not for its bindings."""
    cumulative = subscription.context is Context.CUMULATIVE
    return isinstance(subscription.delivery, syntax.Construct) and (cumulative or _iterates(subscription.pattern))


def _iterates(pattern: syntax.Pattern) -> bool:
    return isinstance(pattern, syntax.Times | syntax.Run) or any(map(_iterates, children_of(pattern)))


def _certain(node: PlanNode, names: Mapping[str, str], children: list[_Built]) -> frozenset[str]:
    """The names every occurrence binds. Cumulative drops variables on which its members disagree."""
    sides = [child.certain for child in children[:1] if node.kind in NEGATION] or [child.certain for child in children]
    binds_all = node.kind in PAIRING and node.context is not Context.CUMULATIVE
    bound = sides[0].union(*sides[1:]) if binds_all else sides[0].intersection(*sides[1:])
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


def _condition(tree: AnnotatedPattern) -> Expr | None:
    condition = tree.node.condition if isinstance(tree.node, syntax.Filter) else tree.condition
    return None if condition is None else condition.algebra


def _flowing(kind: Kind, children: list[_Built], visible: frozenset[str]) -> dict[str, None]:
    """The variables the node's occurrences bind, in the order of the operands."""
    if kind is Kind.NO:
        return {}
    operands = children[:1] if kind in NEGATION else children
    flowing = dict.fromkeys(name for child in operands for name in child.names.values())
    return {name: None for name in flowing if name in visible} if kind in ITERATION else flowing


def _edge_names(child: _Built, canonical_names: Mapping[str, str]) -> Renaming:
    return tuple(
        (canonical, canonical_names[name]) for canonical, name in child.names.items() if name in canonical_names
    )


def _canonical_condition(condition: Expr | None, canonical_names: Mapping[str, str]) -> Expr | None:
    """The condition over the node's variables; variables that the node never binds are numbered after them."""
    if condition is None:
        return None
    names = dict(canonical_names)
    for name in variables_in_order(condition):
        names.setdefault(name, f"v{len(names)}")
    return renamed(condition, names.__getitem__)


def _renumbered(node: PlanNode, ids: Mapping[int, int], leaf_ids: Mapping[int, int]) -> PlanNode:
    edges = tuple(Edge(ids[edge.child], edge.renaming) for edge in node.children)
    leaf_id = None if node.operator.leaf_id is None else leaf_ids[node.operator.leaf_id]
    if (node.id, node.children, node.operator.leaf_id) == (ids[node.id], edges, leaf_id):
        return node
    return replace(node, id=ids[node.id], children=edges, operator=replace(node.operator, leaf_id=leaf_id))


def _users(nodes: tuple[PlanNode, ...], roots: tuple[Root, ...]) -> dict[int, tuple[str, ...]]:
    users: dict[int, dict[str, None]] = {}
    for root in roots:
        stack = [root.node]
        while stack:
            id_ = stack.pop()
            if root.subscription.name not in users.setdefault(id_, {}):
                users[id_][root.subscription.name] = None
                stack.extend(edge.child for edge in nodes[id_].children)
    return {id_: tuple(users[id_]) for id_ in sorted(users)}


def node_digest(node: PlanNode, leaf: LeafPredicates | None, below: Sequence[str]) -> str:
    """The digest of a node, given its predicates, if it is a leaf, and the digests of its operands.

    It begins with the operator or class, so that sorting by digest gives a readable order.

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
    without_ids = replace(
        node,
        id=_UNNUMBERED,
        operator=replace(node.operator, leaf_id=None),
        children=tuple(Edge(_UNNUMBERED, edge.renaming) for edge in node.children),
    )
    digest = blake2b(repr((without_ids, leaf, tuple(below))).encode(), digest_size=16).hexdigest()
    label = f"{node.title} {' '.join(leaf.classes)}" if leaf is not None else node.title
    return f"{label} {digest}"


class NodeReferences:
    """Reference counts of nodes: by roots, and as operands of referenced nodes. A change costs as much as it changes.

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
        """Add a reference; returns the nodes that had none before, operands first."""
        self._counts[id_] = self._counts.get(id_, 0) + 1
        if self._counts[id_] > 1:
            return []
        node = self._nodes[id_]
        return [*(added for edge in node.children for added in self.acquire(edge.child)), node]

    def release(self, id_: int) -> list[PlanNode]:
        """Remove a reference; returns the nodes that have none now, operands last."""
        self._counts[id_] -= 1
        if self._counts[id_]:
            return []
        del self._counts[id_]
        node = self._nodes[id_]
        return [node, *(removed for edge in node.children for removed in self.release(edge.child))]
