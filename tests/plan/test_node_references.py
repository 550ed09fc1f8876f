"""A builder forgets nodes that nobody needs any more, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from motet.language.parse import parse
from motet.language.syntax import Subscription
from motet.plan.builder import NodeReferences, PlanBuilder
from motet.plan.graph import PlanNode, Root, Start

Write = Callable[..., Subscription]
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
