"""Routes of leaves and buckets of their occurrences."""

from __future__ import annotations

import numpy as np
import pytest
from tests.builders import control_row, record_batch
from tests.engine.detect.operator_driver import Driver, point

from motet.engine.detect.stateless import OrOperator
from motet.engine.runtime.routing import BucketLayout, bucket_of, derivation_linked, leaf_routes
from motet.language.parse import parse
from motet.language.syntax import Subscription
from motet.plan.graph import Kind, Operator, PlanNode, Route, RouteKind

BUCKETS = 4
LEAVES = "EVENT a : <urn:A> { ?a <urn:room> ?r } EVENT b : <urn:B> { ?b <urn:room> ?r }"


def subscription(pattern: str, name: str = "s", leaves: str = LEAVES) -> Subscription:
    (parsed,) = parse(f"SUBSCRIPTION {name} {leaves} WHEN {pattern}")
    return parsed


def kinds(pattern: str, leaves: str = LEAVES) -> dict[str, RouteKind]:
    return {name: route.kind for name, route in leaf_routes(subscription(pattern, leaves=leaves)).items()}


def test_a_key_that_is_projected_partitions_a_subscription() -> None:
    """All operators join on the room, and notifications have it: each room is in one bucket."""
    pattern = "a BEFORE b WITHIN 5 s CONTEXT chronicle SELECT ?r"
    assert kinds(pattern) == {"a": RouteKind.KEY, "b": RouteKind.KEY}


def test_a_key_that_is_not_projected_is_no_route() -> None:
    """Notifications of different buckets could be equal, so all rooms are in one bucket."""
    pattern = "a BEFORE b WITHIN 5 s CONTEXT chronicle SIGNAL"
    assert kinds(pattern) == {"a": RouteKind.SINGLE, "b": RouteKind.SINGLE}


def test_a_pattern_that_one_event_decides_is_routed_by_event() -> None:
    """OR is stateless: no two events have to be in one bucket."""
    assert kinds("a OR b SELECT ?r") == {"a": RouteKind.EVENT, "b": RouteKind.EVENT}


def test_a_pattern_without_a_key_is_in_a_single_bucket() -> None:
    """The rooms of a and b are different variables."""
    leaves = "EVENT a : <urn:A> { ?a <urn:room> ?r } EVENT b : <urn:B> { ?b <urn:room> ?q }"
    assert kinds("a AND b WITHIN 5 s CONTEXT chronicle", leaves) == {"a": RouteKind.SINGLE, "b": RouteKind.SINGLE}


def test_equal_subscriptions_have_the_same_single_bucket() -> None:
    """The route depends on the pattern, not on the name."""
    pattern = "a BEFORE b WITHIN 5 s CONTEXT chronicle SIGNAL"
    first, second = (leaf_routes(subscription(pattern, name)) for name in ("first", "second"))
    assert first == second


def bucket_row(route: Route | None, *rows: tuple[str, str]) -> list[int]:
    """The buckets of rows (event, room) of a leaf with a route."""
    driver = Driver(OrOperator())
    node = PlanNode(0, Operator(Kind.LEAF), variables=("v0",), route=route)
    table = driver.table([point(1, event, room) for event, room in rows])
    return BucketLayout(BUCKETS).buckets_of(node, table, driver.dictionary).tolist()


ROWS = [(f"e{index}", f"<urn:room:{index % 3}>") for index in range(12)]


def test_occurrences_with_one_key_are_in_one_bucket() -> None:
    """The bucket is the hash of the key's terms, whatever their ids in the dictionary."""
    expected = [bucket_of([room], BUCKETS) for _, room in ROWS]
    assert bucket_row(Route(RouteKind.KEY, ("v0",)), *ROWS) == expected
    assert bucket_row(Route(RouteKind.KEY, ("v0",)), *ROWS[::-1]) == expected[::-1]


def test_occurrences_routed_by_event_are_in_the_bucket_of_its_iri() -> None:
    """All solutions of one event are in one bucket."""
    expected = [bucket_of([f"urn:{event}"], BUCKETS) for event, _ in ROWS]
    assert bucket_row(Route(RouteKind.EVENT), *ROWS) == expected


@pytest.mark.parametrize("route", [Route(RouteKind.SINGLE, ("label",)), None])
def test_occurrences_of_a_single_bucket_are_in_the_bucket_of_its_label(route: Route | None) -> None:
    """A leaf without a route belongs to the subscriptions that derivation edges link."""
    layout = BucketLayout(BUCKETS)
    expected = bucket_of(["label"], BUCKETS) if route else layout.derivation_bucket
    assert np.unique(bucket_row(route, *ROWS)).tolist() == [expected]


def test_a_bucket_may_hold_a_subscription_that_is_routed_there() -> None:
    """Every bucket may hold a subscription with a key; one bucket holds a single-bucket one."""
    layout = BucketLayout(BUCKETS)
    keyed = subscription("a BEFORE b WITHIN 5 s CONTEXT chronicle SELECT ?r")
    single = subscription("a BEFORE b WITHIN 5 s CONTEXT chronicle SIGNAL")
    assert [layout.may_hold(bucket, keyed) for bucket in range(BUCKETS)] == [True] * BUCKETS
    assert sum(layout.may_hold(bucket, single) for bucket in range(BUCKETS)) == 1
    assert (layout.is_single_bucket(keyed), layout.is_single_bucket(single)) == (False, True)


def test_subscriptions_linked_by_derivation_edges_share_a_bucket() -> None:
    """Both ends of an edge are in the derivation bucket, though each alone has a key."""
    upstream = f"SUBSCRIPTION up {LEAVES} WHEN a BEFORE b WITHIN 5 s CONSTRUCT {{ ?this a <urn:C> }}"
    downstream = "SUBSCRIPTION down EVENT c : <urn:C> EVENT b : <urn:B> WHEN c BEFORE b WITHIN 5 s"
    other = f"SUBSCRIPTION other {LEAVES} WHEN a BEFORE b WITHIN 5 s SELECT ?r"
    texts = {"up": upstream, "down": downstream, "other": other}
    rows = [control_row(offset, "subscribe", name, text) for offset, (name, text) in enumerate(texts.items())]
    linked = derivation_linked(record_batch(*rows))
    assert linked == {"up", "down"}
    layout = BucketLayout(BUCKETS, linked)
    holders = {
        name: [bucket for bucket in range(BUCKETS) if layout.may_hold(bucket, parse(texts[name])[0])] for name in linked
    }
    assert holders == {name: [layout.derivation_bucket] for name in linked}
