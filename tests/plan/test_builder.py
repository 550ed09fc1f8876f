"""The shared graph of operators: which sub-patterns are one node, and the removal of unused nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.language import trees

from motet.language.parse import parse
from motet.language.scope import AnnotatedPattern as Annotated
from motet.language.scope import annotate, leaf_variables
from motet.language.scope import nodes as pattern_nodes
from motet.language.syntax import (
    Alongside,
    And,
    Context,
    Filter,
    No,
    Or,
    Run,
    Subscription,
    Timed,
    Times,
    Unless,
    Within,
    Without,
    Xor,
)
from motet.model.intervals import Relation
from motet.model.terms import RDF_TYPE
from motet.model.times import END_OF_TIME
from motet.plan.builder import NodeReferences, PlanBuilder, build_plan
from motet.plan.graph import Kind, Operator, Plan, PlanNode, Root, Start
from motet.plan.leaves import normalise
from motet.reference import EventRecord, SubscribeRecord, TickRecord, evaluate
from motet.sparql.parse_cache import parse_expression
from motet.sparql.scope import renamed, variables_in_order

Write = Callable[..., Subscription]
PAIR = "a:A room?r; b:B room?r"
RENAMED = "x:A room?y; z:B room?y"
CONTEXTS = [context.value for context in Context]


def roots(*subscriptions: Subscription, **options: Mapping[str, int]) -> list[int]:
    numbered = [replace(one, name=f"s{index}") for index, one in enumerate(subscriptions)]
    return [root.node for root in build_plan(numbered, start_offsets=options.get("start_offsets")).roots]


def shares(*subscriptions: Subscription, **options: Mapping[str, int]) -> bool:
    return len(set(roots(*subscriptions, **options))) == 1


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a BEFORE b", "x BEFORE z"),
        ("a AND b", "z AND x"),
        ("a ALONGSIDE b", "z ALONGSIDE x"),
        ("a EQUALS b", "z EQUALS x"),
        ("a OR b", "z OR x"),
        ("a XOR b WITHIN 5 s", "z XOR x WITHIN 5 s"),
        ("a UNLESS b WITHIN 5 s", "x UNLESS z WITHIN 5 s"),
        ("(a AND b) FILTER(?r > 3)", "(z AND x) FILTER(?y > 3)"),
        ("NO (a{3}) FOR 5 s OR b", "z OR NO (x{3}) FOR 5 s"),
    ],
)
def test_equal_patterns_are_one_node(write: Write, context: str, one: str, other: str) -> None:
    """Names of variables and events do not matter, nor the order of commutative operands."""
    assert shares(write(PAIR, one, f"{context} UNBOUNDED"), write(RENAMED, other, f"{context} UNBOUNDED"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a BEFORE b", "b BEFORE a"),
        ("a BEFORE b", "a AFTER b"),
        ("a BEFORE b WITHIN 5 s", "a BEFORE b WITHIN 6 s"),
        ("a BEFORE b WITHIN 5 s", "a BEFORE b"),
        ("a UNLESS b WITHIN 5 s", "b UNLESS a WITHIN 5 s"),
        ("a UNLESS b WITHIN 5 s", "a UNLESS b WITHIN 6 s"),
        ("a XOR b WITHIN 5 s", "a XOR b WITHIN 6 s"),
        ("(a AND b) FILTER(?r > 3)", "(a AND b) FILTER(?r > 4)"),
        ("(a AND b) FILTER(?r > 3)", "a AND b"),
        ("a{2} AND b", "a{3} AND b"),
        ("a{2} EVERY 5 s AND b", "a{2} AND b"),
        ("NO a FOR 5 s AND b", "NO a FOR 6 s AND b"),
        ("(a AND b WITHIN 5 s) FILTER(?r > 3)", "(a AND b FILTER(?r > 3)) WITHIN 5 s"),
    ],
)
def test_patterns_that_differ_are_different_nodes(write: Write, one: str, other: str) -> None:
    """Operator, order, relation, bound, window, gap, count and condition all count."""
    assert not shares(write(PAIR, one), write(PAIR, other))


@pytest.mark.parametrize(
    ("one", "other"),
    [(PAIR, "a:A room?r; b:B room?q"), (PAIR, "a:A room?r; b:B floor?r"), (PAIR, "a:A room?r; b:B room~r")],
)
def test_joins_are_part_of_the_pattern(write: Write, one: str, other: str) -> None:
    """Which variables the sides share, and what binds them, makes the node."""
    assert not shares(write(one, "a AND b", deliver="SELECT *"), write(other, "a AND b", deliver="SELECT *"))


def test_leaves_with_different_visible_variables_share_their_predicates(write: Write) -> None:
    """Projection changes which occurrences are distinct; the predicates behind them are still the same."""
    plan = build_plan(
        [write("a:A room?r", "a", deliver=clause, name=f"s{len(clause)}") for clause in ("SIGNAL", "SELECT ?r")]
    )
    assert len(plan.leaves) == 1
    assert [node.variables for node in plan.nodes] == [("v0",), ("v0", "v1")]


@pytest.mark.parametrize("when", ["a BEFORE b", "a{2} AND b"])
def test_contexts_are_not_mixed_where_they_matter(write: Write, when: str) -> None:
    """A pairing operator and a count are nodes of one context."""
    assert len(set(roots(*(write(PAIR, when, f"{context} UNBOUNDED") for context in CONTEXTS)))) == 5


@pytest.mark.parametrize("when", ["a OR b", "a UNLESS b WITHIN 5 s", "a XOR b WITHIN 5 s", "NO a FOR 1 s OR b"])
def test_contexts_are_mixed_where_they_do_not_matter(write: Write, when: str) -> None:
    """Everything that does not pair is the same in every context."""
    assert shares(*(write(PAIR, when, f"{context} UNBOUNDED") for context in CONTEXTS))


def later(write: Write, when: str, context: str) -> bool:
    one, other = write(PAIR, when, context), write(PAIR, when, context)
    return shares(one, other, start_offsets={"s0": 0, "s1": 17})


@pytest.mark.parametrize("when", ["a", "a OR b", "(a OR b) WITHIN 5 s", "a FILTER(?r > 1)"])
def test_leaves_and_filters_serve_every_start(write: Write, when: str) -> None:
    """What one event decides can be filtered by offset afterwards, in every context."""
    events = PAIR if "b" in when else "a:A room?r"
    one, other = write(events, when, "chronicle"), write(events, when, "chronicle")
    assert shares(one, other, start_offsets={"s0": 0, "s1": 17})


def test_unrestricted_pairs_serve_every_start(write: Write) -> None:
    """Unrestricted pairing may be filtered by offset, no other context may."""
    assert [later(write, "a BEFORE b", f"{context} UNBOUNDED") for context in CONTEXTS] == [True] + 4 * [False]


@pytest.mark.parametrize(
    "when",
    [
        "a UNLESS b WITHIN 5 s",
        "a XOR b WITHIN 5 s",
        "NO a FOR 5 s OR b",
        "a{2} AND b",
        "(a AND b) UNLESS b2 WITHIN 1 s",
    ],
)
def test_absence_and_iteration_belong_to_their_start(write: Write, when: str) -> None:
    """They depend on events that are not in the result, so that even unrestricted results depend on the start."""
    events = f"{PAIR}; b2:B room?r" if "b2" in when else PAIR
    one = write(events, when, "unrestricted UNBOUNDED")
    assert not shares(one, one, start_offsets={"s0": 0, "s1": 17})
    assert shares(one, one, start_offsets={"s0": 17, "s1": 17})


def test_since_is_part_of_the_start(write: Write) -> None:
    """SINCE gives NO a start point and a subscription earlier events."""
    one = write("a:A", "NO a FOR 5 s")
    assert not shares(one, replace(one, since=0))


@pytest.mark.parametrize("context", CONTEXTS[1:])
def test_pairs_above_absence_keep_their_order(write: Write, context: str) -> None:
    """NO has no events, and then left before right decides which side opens first; unrestricted has no such order."""
    one, other = "NO a FOR 5 s AND NO b FOR 5 s", "NO b FOR 5 s AND NO a FOR 5 s"
    assert not shares(write(PAIR, one, f"{context} UNBOUNDED"), write(PAIR, other, f"{context} UNBOUNDED"))
    assert shares(write(PAIR, one, "unrestricted UNBOUNDED"), write(PAIR, other, "unrestricted UNBOUNDED"))


def test_and_below_without_keeps_its_order(write: Write) -> None:
    """WITHOUT depends on which side is the left one."""
    events = f"{PAIR}; c:C"
    assert not shares(write(events, "(a AND b) WITHOUT c"), write(events, "(b AND a) WITHOUT c"))
    events = f"{events}; d:D"
    one, other = "((a AND b) UNLESS c WITHIN 1 s) WITHOUT d", "((b AND a) UNLESS c WITHIN 1 s) WITHOUT d"
    assert not shares(write(events, one), write(events, other))
    assert shares(write(events, "(a ALONGSIDE b) WITHOUT (c OR d)"), write(events, "(b ALONGSIDE a) WITHOUT (d OR c)"))


TWO = "a:A x?x y?y; b:B"
SWAPPED = "a:A x?y y?x; b:B"


def test_the_order_of_names_counts_where_it_decides(write: Write) -> None:
    """One event with several solutions: which is the oldest depends on the names of the variables."""
    one = write(TWO, "a BEFORE b", deliver="SELECT ?x ?y", name="one")
    other = write(SWAPPED, "a BEFORE b", deliver="SELECT ?x ?y", name="other")
    assert not shares(one, other)
    oldest = [_bindings(one, {"x": "x", "y": "y"}), _bindings(other, {"x": "y", "y": "x"})]
    assert oldest == [{("1", "1"), ("1", "2")}, {("1", "1"), ("2", "1")}]


def _bindings(subscription: Subscription, names: Mapping[str, str]) -> set[tuple[str, str]]:
    """The values of the properties x and y that the reference engine pairs with two events of class B."""
    values = {("<urn:a1>", f"<urn:{key}>", f'"{value}"') for key in "xy" for value in (1, 2)}
    first = EventRecord(1, "urn:a1", 1, 1, frozenset({("<urn:a1>", RDF_TYPE, "<urn:A>"), *values}))
    rest = [
        EventRecord(offset, f"urn:b{offset}", offset, offset, frozenset({(f"<urn:b{offset}>", RDF_TYPE, "<urn:B>")}))
        for offset in (2, 3)
    ]
    found = evaluate([SubscribeRecord(0, subscription), first, *rest, TickRecord(4, END_OF_TIME)], lateness=None)
    rows = [dict(notification.bindings) for notification in found]
    return {(row[names["x"]].strip('"'), row[names["y"]].strip('"')) for row in rows}


def test_where_a_variable_may_be_unbound_every_name_counts() -> None:
    """Bindings are compared pair by pair, so that even the event's own name decides which comes first."""
    text = """SUBSCRIPTION {0} EVENT {1} {{ {{ ?{1} <urn:x> ?{2} }} UNION {{ ?{1} a <urn:A> }} }} EVENT b : <urn:B>
        WHEN {1} BEFORE b CONTEXT chronicle UNBOUNDED SELECT ?{2}"""
    one, other = (parse(text.format(*names))[0] for names in (("one", "a", "x"), ("other", "z", "c")))
    assert not shares(one, other)
    first = EventRecord(2, "urn:a", 1, 1, frozenset({("<urn:a>", "<urn:x>", '"1"'), ("<urn:a>", RDF_TYPE, "<urn:A>")}))
    second = EventRecord(3, "urn:b", 2, 2, frozenset({("<urn:b>", RDF_TYPE, "<urn:B>")}))
    subscribed = [SubscribeRecord(0, one), SubscribeRecord(1, other)]
    found = evaluate([*subscribed, first, second, TickRecord(4, END_OF_TIME)], lateness=None)
    assert {notification.subscription: notification.bindings for notification in found} == {
        "one": (),
        "other": (("c", '"1"'),),
    }


def test_the_order_of_names_does_not_count_where_it_cannot_decide(write: Write) -> None:
    """Not in the unrestricted context, and not for variables on which both sides certainly join."""
    free = [write(events, "a BEFORE b", "unrestricted UNBOUNDED", "SELECT ?x ?y") for events in (TWO, SWAPPED)]
    assert shares(*free)
    joined = [
        write(f"{events} x?{name}", "a BEFORE b", deliver="SELECT ?x ?y")
        for events, name in ((TWO, "x"), (SWAPPED, "y"))
    ]
    assert shares(*joined)


def test_one_leaf_may_be_on_both_sides(write: Write) -> None:
    """Two events of one kind are one leaf; swapping them changes nothing."""
    plan = build_plan([write("a:A room?r; b:A room?r", "a AND b WITHIN 5 s", deliver="SELECT ?r")])
    assert [node.kind for node in plan.nodes] == [Kind.LEAF, Kind.AND]
    events = "a:A room?r; b:A room?q"
    assert shares(write(events, "(a AND b) FILTER(?r > ?q)"), write(events, "(b AND a) FILTER(?r > ?q)"))
    assert shares(write(events, "(a AND b) FILTER(?r > ?q)"), write(events, "(a AND b) FILTER(?q > ?r)"))
    assert not shares(write(events, "(a BEFORE b) FILTER(?r > ?q)"), write(events, "(a BEFORE b) FILTER(?q > ?r)"))


def test_ids_are_a_topological_order(write: Write) -> None:
    """Children come before parents; every node has the names of the subscriptions that use it."""
    one = write(PAIR, "a AND b", name="one")
    two = write(f"{RENAMED}; w:W", "(x AND z) UNLESS w WITHIN 5 s", name="two")
    plan = build_plan([one, two])
    assert [[edge.child for edge in node.children] for node in plan.nodes] == [[], [], [0, 1], [], [2, 3]]
    assert dict(plan.users) == {0: ("one", "two"), 1: ("one", "two"), 2: ("one", "two"), 3: ("two",), 4: ("two",)}


# Expanding a root gives back the subscription: no merge was wrong.


def expand(plan: Plan, root: Root) -> None:
    namings = _Expansion(plan, root).namings(root.node, annotate(root.subscription), below_without=False)
    assert dict(root.renaming) in list(namings)


class _Expansion:
    """Walks a node and an annotated tree together and finds the names of the node's variables at the leaves.

    Operands of a commutative operator may fit in both orders, with different names: only the parent can tell which of
    them are meant. A node therefore has any number of namings, none if it is not what the subscription says.
    """

    def __init__(self, plan: Plan, root: Root) -> None:
        self.plan = plan
        self.context = root.subscription.context
        self.start = root.start

    def namings(self, node_id: int, tree: Annotated, *, below_without: bool) -> Iterator[dict[str, str]]:
        passes = isinstance(tree.node, Without) or (
            below_without and isinstance(tree.node, Unless | Without | Within | Filter)
        )
        node = self.plan.nodes[node_id]
        if tree.carried:
            yield from self.namings(node_id, tree.children[0], below_without=passes)
        elif tree.event is not None:
            yield from self._leaf_namings(node, tree)
        elif self._is_same_operator(node, tree) and len(node.children) == len(tree.children):
            orders = [tree.children, tree.children[::-1]] if self._commutes(tree, below_without) else [tree.children]
            for operands in orders:
                below = (
                    self.namings(edge.child, operand, below_without=passes and index == 0)
                    for index, (edge, operand) in enumerate(zip(node.children, operands, strict=True))
                )
                for combination in product(*below):
                    names = _combined(node, combination, _flow(tree))
                    if names is not None and _same_condition(node, names, tree) and _is_ordered(node, names):
                        yield names

    def _is_same_operator(self, node: PlanNode, tree: Annotated) -> bool:
        start = self.start if isinstance(tree.node, No) else Start(self.start.offset)
        starts = node.start in (start, None) and (node.start is None) == self._serves_all(tree)
        return node.operator == _operator(tree) and (node.bound, node.context) == self._limits(tree) and starts

    def _leaf_namings(self, node: PlanNode, tree: Annotated) -> Iterator[dict[str, str]]:
        assert tree.event is not None
        leaf, own = normalise(tree.event)
        is_same = node.operator.leaf_id is not None and self.plan.leaves[node.operator.leaf_id] == leaf
        names = {variable: own[variable] for variable in node.variables} if is_same else {}
        shows_all = set(names.values()) == tree.visible & leaf_variables(tree.event)
        if is_same and shows_all and node.start is None and node.context is None:
            yield names

    def _limits(self, tree: Annotated) -> tuple[int | None, Context | None]:
        paired = isinstance(tree.node, And | Timed | Alongside)
        bound = tree.bound if paired or isinstance(tree.node, Times | Run) else None
        return bound, self.context if paired or isinstance(tree.node, Times) else None

    def _serves_all(self, tree: Annotated) -> bool:
        kinds = {type(node) for node, _ in pattern_nodes(tree.node)}
        looking = {Unless, Without, Xor, No, Times, Run}
        pairing = {And, Timed, Alongside}
        return not kinds & (looking if self.context is Context.UNRESTRICTED else looking | pairing)

    def _commutes(self, tree: Annotated, below_without: bool) -> bool:
        node = tree.node
        if isinstance(node, Or | Xor):
            return True
        symmetric = isinstance(node, Alongside | And) or (isinstance(node, Timed) and node.relation is Relation.EQUALS)
        absent = any(isinstance(below, No) for below, _ in pattern_nodes(node))
        free = self.context is Context.UNRESTRICTED or not absent
        return symmetric and free and not (below_without and isinstance(node, And))


def _combined(node: PlanNode, operands: Iterable[Mapping[str, str]], flow: frozenset[str]) -> dict[str, str] | None:
    """The names of the node's variables by those of its operands, if they agree and are all that flows."""
    names: dict[str, str] = {}
    for edge, below in zip(node.children, operands, strict=True):
        if {child for child, _ in edge.renaming} != {child for child, name in below.items() if name in flow}:
            return None
        if any(names.setdefault(parent, below[child]) != below[child] for child, parent in edge.renaming):
            return None
    is_whole = len(set(names.values())) == len(names) and set(names.values()) == flow
    return names if is_whole and set(names) == set(node.variables) else None


def _is_ordered(node: PlanNode, names: Mapping[str, str]) -> bool:
    sides = [[names[variable] for variable in side] for side in node.order]
    return all(side == sorted(side) for side in sides)


def _operator(tree: Annotated) -> Operator:
    node = tree.node
    kind = Kind[type(node).__name__.upper()]
    window = getattr(node, "window", None) or getattr(node, "duration", None)
    if isinstance(node, Within):
        window = node.bound
    return Operator(
        kind, getattr(node, "relation", None), window, getattr(node, "count", None), getattr(node, "gap", None)
    )


def _flow(tree: Annotated) -> frozenset[str]:
    """The variables that the occurrences of a pattern bind."""
    below = [_flow(child) for child in tree.children]
    match tree.node:
        case No():
            return frozenset()
        case Unless() | Without():
            return below[0]
        case Times() | Run():
            return below[0] & tree.visible
    return tree.visible if tree.event is not None else frozenset().union(*below)


def _same_condition(node: PlanNode, names: Mapping[str, str], tree: Annotated) -> bool:
    """Whether the node's condition is that of the tree. What the node never binds has no name in it."""
    condition = tree.node.condition if isinstance(tree.node, Filter) else tree.condition
    if condition is None or node.condition is None:
        return condition is None and node.condition is None
    own = parse_expression(condition.text)
    pairs = zip(variables_in_order(node.condition), variables_in_order(own), strict=True)
    unbound = {variable: name for variable, name in pairs if variable not in names and name not in names.values()}
    return renamed(node.condition, lambda name: {**names, **unbound}.get(name, "?")) == own


@settings(max_examples=150, deadline=None)
@given(st.lists(trees.subscriptions(), min_size=1, max_size=3), st.sampled_from((0, 5)))
def test_expanding_a_root_gives_the_subscription(subscriptions: list[Subscription], offset: int) -> None:
    """Through all renamings, the shared graph has the pattern of every subscription."""
    numbered = [replace(one, name=f"s{index}") for index, one in enumerate([*subscriptions, *subscriptions])]
    plan = build_plan(numbered, start_offsets={"s0": offset})
    assert [root.start for root in plan.roots[1:]] == [Start(0, one.since) for one in numbered[1:]]
    for root in plan.roots:
        expand(plan, root)
    if offset == 0:
        pairs = zip(plan.roots[: len(subscriptions)], plan.roots[len(subscriptions) :], strict=True)
        shared = [(one.node, other.node) for one, other in pairs if plan.nodes[one.node].owner is None]
        assert [one for one, _ in shared] == [other for _, other in shared]


@pytest.mark.parametrize("pair", ["c AND d", "d AND c"])
def test_operands_that_differ_in_their_events_only_are_expanded(write: Write, pair: str) -> None:
    """With members such leaves are two nodes; both orders fit them, and the names on their parent decide."""
    events = "a:A; b:A; c:A; d:A"
    construct = write(events, f"a AND (b AND ({pair}))", "cumulative UNBOUNDED", deliver="CONSTRUCT { ?a :p ?b }")
    plan = build_plan([construct])
    expand(plan, plan.roots[0])


CYCLES = 10_000
PATTERNS = (
    "a BEFORE b WITHIN 5 s",
    "(a BEFORE b WITHIN 5 s) UNLESS c WITHIN 2 s",
    "b AND a WITHIN 5 s",
    "(a BEFORE b WITHIN 5 s) OR c",
    "c{3}",
)


def written(number: int, pattern: str) -> Subscription:
    declared = " ".join(f"EVENT {name} : <urn:{name}>" for name in "abc" if name in pattern)
    (found,) = parse(f"SUBSCRIPTION s{number} {declared} WHEN {pattern} CONTEXT chronicle UNBOUNDED")
    return found


SUBSCRIPTIONS = tuple(written(number, pattern) for number, pattern in enumerate(PATTERNS))


@given(st.lists(st.sampled_from(SUBSCRIPTIONS), max_size=20))
def test_removed_subscriptions_leave_no_nodes(asked: list[Subscription]) -> None:
    """After removals a builder has the nodes of one that never had them; ids of the others stay."""
    builder = PlanBuilder()
    uses = NodeReferences(builder.nodes)
    roots: dict[str, Root] = {}
    for subscription in asked:  # who is there goes
        gone: list[PlanNode] = []
        if root := roots.pop(subscription.name, None):
            gone = uses.release(root.node)
        else:
            root = roots[subscription.name] = builder.add(subscription, Start(0))
            others = builder.reachable(other for other in roots.values() if other is not root)
            new = [node.id for node in uses.acquire(root.node)]
            assert (sorted(new), new[-1:]) == (sorted(builder.reachable([root]) - others), [root.node] if new else [])
        needed = {id_: builder.nodes[id_] for id_ in builder.reachable(roots.values())}
        builder.remove_unused([node.id for node in gone], uses)
        assert (builder.nodes, set(uses)) == (needed, set(needed))
    fresh = PlanBuilder()
    expected = fresh.plan(fresh.add(root.subscription, root.start) for root in roots.values())
    found = builder.plan(roots.values())
    assert [found.builder_ids[one.node] for one in found.roots] == [one.node for one in roots.values()]
    assert sorted(builder.digests.values()) == sorted(fresh.digests.values())
    assert sorted(map(repr, found.leaves)) == sorted(map(repr, expected.leaves))
    assert len(found.leaves) == len(builder.leaves)


def test_an_id_is_never_reused(write: Write) -> None:
    """A subscription that is added again gets new nodes: state may still refer to the old ids."""
    builder, one = PlanBuilder(), write("a:A; b:B", "a BEFORE b")
    first = builder.add(one, Start(0))
    builder.remove_unused([], ())
    again = builder.add(one, Start(0))
    assert (first.node, again.node, sorted(builder.nodes)) == (2, 5, [3, 4, 5])


def test_used_nodes_are_shared(write: Write) -> None:
    """A node that one of two subscriptions releases still serves the other and later ones."""
    builder = PlanBuilder()
    one, two = (write("a:A; b:B; c:C", f"(a BEFORE b) {rest}") for rest in ("UNLESS c WITHIN 2 s", "OR c"))
    builder.add(one, Start(0))
    stays = builder.add(two, Start(0))
    builder.remove_unused([], builder.reachable([stays]))
    count = len(builder.nodes)
    assert (builder.add(two, Start(0)).node, len(builder.nodes)) == (stays.node, count)


def test_a_plan_has_no_gaps(write: Write) -> None:
    """The nodes and leaves of a plan have ids from 0, whatever the ids in the builder."""
    builder = PlanBuilder()
    builder.add(write("x:X; y:Y", "x BEFORE y"), Start(0))
    stays = write("a:A; b:B", "a BEFORE b")
    roots = [builder.add(stays, Start(0))]
    builder.remove_unused([], builder.reachable(roots))
    fresh = PlanBuilder()
    assert builder.plan(roots) == fresh.plan([fresh.add(stays, Start(0))])
    assert builder.plan(roots).builder_ids == (3, 4, 5)


def test_a_copy_is_independent(write: Write) -> None:
    """It has the same nodes with the same ids; additions and removals of one do not affect the other."""
    builder = PlanBuilder()
    root = builder.add(write("a:A; b:B", "a BEFORE b"), Start(0))
    other = builder.copy()
    builder.remove_unused([], ())
    other.add(write("a:A; c:C", "a BEFORE c"), Start(0))
    assert (builder.nodes, sorted(other.nodes), other.reachable([root])) == ({}, [0, 1, 2, 3, 4], {0, 1, 2})


def test_ten_thousand_removed_subscriptions_leave_nothing(write: Write) -> None:
    """Distinct subscriptions are added and removed one after the other, beside one that stays."""
    builder = PlanBuilder()
    like = write("a:A; b:B", "a BEFORE b")
    stays = builder.add(write("a:A; c:C", "a AND c", name="stays"), Start(0))
    builder.remove_unused([], builder.reachable([stays]))
    before = repr(builder).partition("_next_id")[0]
    for number in range(CYCLES):
        events = (replace(like.events[0], class_iri=f"urn:{number}"), like.events[1])
        gone = builder.add(replace(like, name=f"s{number}", events=events), Start(number))
        assert gone.node in builder.nodes
        builder.remove_unused([], builder.reachable([stays]))
    assert repr(builder).partition("_next_id")[0] == before
