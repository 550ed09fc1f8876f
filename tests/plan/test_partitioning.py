"""How the operators of a plan are spread over workers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from motet.language.parse import parse
from motet.language.syntax import Subscription
from motet.plan.builder import build_plan
from motet.plan.graph import RouteKind
from motet.plan.partitioning import BucketLayout, Component, components, leaf_routes

Write = Callable[..., Subscription]
PAIR = "a:A room?r; b:B room?r"
TRIPLE = f"{PAIR}; c:C room?r"


def keys(*subscriptions: Subscription) -> list[tuple[str, ...]]:
    """For each component its key, in the names of its last subscription."""
    plan = build_plan(subscriptions)
    names = {root.subscription.name: (root.node, dict(root.renaming)) for root in plan.roots}
    found = []
    for component in components(plan):
        node, own = names[component.subscriptions[-1]]
        found.append(tuple(own[variable] for variable in component.key(node)))
    return found


def only(*subscriptions: Subscription) -> Component:
    (component,) = components(build_plan(subscriptions))
    return component


@pytest.mark.parametrize(
    "when",
    [
        "(a BEFORE b) AND c",
        "(a OR b) AND c",
        "(a XOR b WITHIN 5 s) AND c",
        "(a AND b) UNLESS c WITHIN 5 s",
        "(a AND b) WITHOUT c",
        "a{3} AND b AND c",
        "(a+ EVERY 5 s) AND (b OR c)",
        "(a AND b AND c) FILTER(?r > 3)",
    ],
)
@pytest.mark.parametrize("context", ["unrestricted", "recent", "chronicle", "continuous", "cumulative"])
def test_a_variable_joined_everywhere_is_the_key(write: Write, context: str, when: str) -> None:
    """A variable bound in all occurrences of all leaves and joined by every operator, in every context."""
    assert keys(write(TRIPLE, when, f"{context} UNBOUNDED", "SELECT ?r")) == [("r",)]


def test_all_such_variables_are_the_key(write: Write) -> None:
    """Two joined variables partition better than one."""
    assert keys(write("a:A room?r floor?f; b:B floor?f room?r", "a AND b")) in ([("r", "f")], [("f", "r")])


@pytest.mark.parametrize(
    ("events", "when", "reason"),
    [
        ("a:A room?r; b:B", "a AND b", "the sides of AND share no variable"),
        ("a:A room?r; b:B", "a UNLESS b WITHIN 5 s", "the sides of UNLESS share no variable"),
        (
            "a:A room?r; b:B room~r",
            "a BEFORE b",
            "variables that both sides of BEFORE share may be unbound, and unbound joins with every value",
        ),
        ("a:A room?r; b:B; c:C room?r", "(a OR b) AND c", "the sides of OR share no variable"),
        (
            "a:A room?r; b:B room~r; c:C room?r",
            "(a OR b) AND c",
            "variables that both sides of OR share may be unbound, and unbound joins with every value",
        ),
        ("a:A room?r; b:B room?r", "NO a FOR 5 s AND b", "NO has no bindings, so it needs the events of all values"),
        (
            "a:A room?r; b:B room?r",
            "a UNLESS NO b FOR 1 s WITHIN 5 s",
            "NO has no bindings, so it needs the events of all values",
        ),
    ],
)
def test_variables_that_may_be_unbound_are_no_key(write: Write, events: str, when: str, reason: str) -> None:
    """OPTIONAL, OR and NO leave variables unbound; hashing on them would lose matches."""
    component = only(write(events, when))
    assert (component.keys, component.is_stateless, component.reason) == ((), False, reason)


def test_an_iteration_that_hides_its_variables_has_no_key(write: Write) -> None:
    """The iteration counts across all values of variables that are not visible outside."""
    component = only(write("a:A room?r", "a{3}"))
    assert component.keys == ()
    assert component.reason == "no variable that an EVENT always binds is visible outside it"


def test_a_union_that_binds_on_one_side_only_is_no_key() -> None:
    """A variable of one branch is not certain."""
    text = """PREFIX : <urn:> SUBSCRIPTION s
        EVENT a { { ?a :p ?r ; :q ?s } UNION { ?a :p ?r } } EVENT b { ?b :p ?r ; :q ?s } WHEN a AND b WITHIN 5 s"""
    assert keys(parse(text)[0]) == [("r",)]


def test_single_event_patterns_need_no_key(write: Write) -> None:
    """Leaves, OR and filters run in any bucket."""
    assert only(write("a:A", "a")).is_stateless
    assert only(write("a:A; b:B", "(a OR b) WITHIN 5 s")).is_stateless


def test_leaves_do_not_connect_components(write: Write) -> None:
    """Matching precedes partitioning, so only shared operators must run together."""
    one = write(PAIR, "a AND b", name="one")
    other = write(PAIR, "a BEFORE b", name="other")
    assert keys(one, other) == [("r",), ("r",)]


def test_subscriptions_that_share_an_operator_run_together(write: Write) -> None:
    """One key for all of them, each node with its own variable for it."""
    one = write(TRIPLE, "(a AND b) UNLESS c WITHIN 5 s", name="one")
    other = write("x:A room?q; y:B room?q; z:Z room?q", "(x AND y) BEFORE z", name="other")
    component = only(one, other)
    assert component.subscriptions == ("one", "other")
    assert [len(key) for _, key in component.keys] == [1, 1, 1]


def test_sharing_stops_where_it_would_cost_the_key(write: Write) -> None:
    """Subscriptions that join on different variables are separated; so is the one without a key."""
    events = "a:A room?r floor?f; b:B room?r floor?f"
    rooms = write(f"{events}; c:C room?r", "(a AND b) BEFORE c", name="rooms", deliver="SELECT ?r ?f")
    floors = write(f"{events}; c:C floor?f", "(a AND b) BEFORE c", name="floors", deliver="SELECT ?r ?f")
    nothing = write(f"{events}; c:D", "(a AND b) BEFORE c", name="nothing", deliver="SELECT ?r ?f")
    assert keys(rooms, floors, nothing) == [("r",), ("f",), ()]
    assert keys(rooms) == [("r",)]


def test_a_crossed_operand_is_not_hashed_two_ways(write: Write) -> None:
    """One node used on both sides with its variables swapped has no order to hash them in."""
    events = "a:A x?x y?y; b:B x?x y?y; c:A x?y y?x; d:B x?y y?x"
    component = only(write(events, "(a AND b) BEFORE (c AND d)", "unrestricted UNBOUNDED", "SELECT ?x ?y"))
    assert len(component.nodes) == 2
    assert component.keys == ()


BUCKETS = 4
LEAVES = "EVENT a : <urn:A> { ?a <urn:room> ?r } EVENT b : <urn:B> { ?b <urn:room> ?r }"


def routed(pattern: str, name: str = "s", leaves: str = LEAVES) -> Subscription:
    (parsed,) = parse(f"SUBSCRIPTION {name} {leaves} WHEN {pattern}")
    return parsed


def route_kinds(pattern: str, leaves: str = LEAVES) -> dict[str, RouteKind]:
    return {name: route.kind for name, route in leaf_routes(routed(pattern, leaves=leaves)).items()}


def test_a_key_that_is_projected_partitions_a_subscription() -> None:
    """All operators join on the room, and notifications have it: each room is in one bucket."""
    pattern = "a BEFORE b WITHIN 5 s CONTEXT chronicle SELECT ?r"
    assert route_kinds(pattern) == {"a": RouteKind.KEY, "b": RouteKind.KEY}


def test_a_key_that_is_not_projected_is_no_route() -> None:
    """Notifications of different buckets could be equal, so all rooms are in one bucket."""
    pattern = "a BEFORE b WITHIN 5 s CONTEXT chronicle SIGNAL"
    assert route_kinds(pattern) == {"a": RouteKind.SINGLE, "b": RouteKind.SINGLE}


def test_a_pattern_that_one_event_decides_is_routed_by_event() -> None:
    """OR is stateless: no two events have to be in one bucket."""
    assert route_kinds("a OR b SELECT ?r") == {"a": RouteKind.EVENT, "b": RouteKind.EVENT}


def test_a_pattern_without_a_key_is_in_a_single_bucket() -> None:
    """The rooms of a and b are different variables."""
    leaves = "EVENT a : <urn:A> { ?a <urn:room> ?r } EVENT b : <urn:B> { ?b <urn:room> ?q }"
    assert route_kinds("a AND b WITHIN 5 s CONTEXT chronicle", leaves) == {"a": RouteKind.SINGLE, "b": RouteKind.SINGLE}


def test_equal_subscriptions_have_the_same_single_bucket() -> None:
    """The route depends on the pattern, not on the name."""
    pattern = "a BEFORE b WITHIN 5 s CONTEXT chronicle SIGNAL"
    first, second = (leaf_routes(routed(pattern, name)) for name in ("first", "second"))
    assert first == second


def test_a_bucket_may_hold_a_subscription_that_is_routed_there() -> None:
    """Every bucket may hold a subscription with a key; one bucket holds a single-bucket one."""
    layout = BucketLayout(BUCKETS)
    keyed = routed("a BEFORE b WITHIN 5 s CONTEXT chronicle SELECT ?r")
    single = routed("a BEFORE b WITHIN 5 s CONTEXT chronicle SIGNAL")
    assert list(layout.holders(keyed)) == list(range(BUCKETS))
    assert len(layout.holders(single)) == 1
    assert (layout.is_single_bucket(keyed), layout.is_single_bucket(single)) == (False, True)


def test_a_key_that_is_not_projected_is_a_route_where_repetitions_are_removed() -> None:
    """A batch run accepts that two buckets compute the same notification; members of an iteration are not divided."""
    hidden = routed("a BEFORE b WITHIN 5 s CONTEXT chronicle SIGNAL")
    routes = leaf_routes(hidden, may_repeat=True).values()
    assert {(route.kind, route.may_repeat) for route in routes} == {(RouteKind.KEY, True)}
    assert not BucketLayout(BUCKETS, may_repeat=True).is_single_bucket(hidden)
    shown = routed("a BEFORE b WITHIN 5 s CONTEXT chronicle SELECT ?r")
    assert leaf_routes(shown, may_repeat=True) == leaf_routes(shown)
    members = routed("a AND b WITHIN 5 s CONTEXT cumulative CONSTRUCT { ?this <urn:of> ?a }")
    assert {route.kind for route in leaf_routes(members, may_repeat=True).values()} == {RouteKind.SINGLE}


def test_a_leaf_with_two_keys_goes_to_a_single_bucket() -> None:
    """Both operands are one leaf with swapped variables: its occurrences belong to two buckets."""
    leaf = "EVENT {0} {{ ?{0} <urn:p> ?{1} ; <urn:q> ?{2} }} ".format
    pattern, leaves = "a BEFORE b WITHIN 5 s", f"{leaf('a', 'x', 'y')} {leaf('b', 'y', 'x')}"
    assert route_kinds(pattern, leaves) == {"a": RouteKind.SINGLE, "b": RouteKind.SINGLE}
