"""Routers and workers: buckets of occurrences, subscriptions that derivation edges link, and planned batch runs."""

from __future__ import annotations

import numpy as np
import pytest
from tests.builders import control_row, record_batch
from tests.engine.detect.operator_driver import Driver, point

from motet.engine.detect.stateless import OrOperator
from motet.engine.runtime.partitions import PartitionedRun, derivation_linked
from motet.language.parse import parse
from motet.model.errors import UsageError
from motet.plan.graph import Kind, Operator, PlanNode, Route, RouteKind
from motet.plan.partitioning import BucketLayout, bucket_of

BUCKETS = 4
LEAVES = "EVENT a : <urn:A> { ?a <urn:room> ?r } EVENT b : <urn:B> { ?b <urn:room> ?r }"


def bucket_row(route: Route | None, *rows: tuple[str, str]) -> list[int]:
    """The buckets of rows (event, room) of a leaf with a route."""
    driver = Driver(OrOperator(PlanNode(0, Operator(Kind.OR))))
    node = PlanNode(0, Operator(Kind.LEAF), variables=("v0",), route=route)
    table = driver.table([point(1, event, room) for event, room in rows])
    dictionary = driver.dictionary
    iris = dictionary.events.iris(table.events).to_pylist
    return BucketLayout(BUCKETS).buckets(node, table.values, dictionary.string, iris).tolist()


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
    holders = {name: layout.holders(*parse(texts[name])) for name in linked}
    assert holders == {name: [layout.derivation_bucket] for name in linked}


ROOM = "EVENT {0} : <urn:{1}> {{ ?{0} <urn:room> ?room }} "
PAIR = ROOM.format("a", "A") + ROOM.format("b", "B") + "WHEN a BEFORE b WITHIN 5 s "


def planned(text: str) -> PartitionedRun:
    return PartitionedRun.plan(parse(text), frozenset(), "none", BUCKETS)


def test_linked_subscriptions_of_a_run_are_in_one_bucket() -> None:
    """An upstream subscription and all downstream ones share a bucket; without a downstream one, it has its key."""
    producer = f"SUBSCRIPTION producer {PAIR} CONSTRUCT {{ ?this a <urn:D> ; <urn:room> ?room }} "
    single = "SUBSCRIPTION single EVENT d : <urn:D> WHEN d "
    other = "SUBSCRIPTION other EVENT c : <urn:C> WHEN c "
    linked, alone = planned(producer + single + other), planned(producer + other)
    assert linked.layout.derivation_linked == {"producer", "single"} and not alone.layout.derivation_linked
    holders = [linked.layout.holders(subscription) for subscription in linked.subscriptions[:2]]
    assert holders == [[linked.layout.derivation_bucket]] * 2
    assert {route.kind for route in alone.layout.routes(alone.subscriptions[0]).values()} == {RouteKind.KEY}


def test_cycles_are_refused_before_a_run() -> None:
    """Two subscriptions that feed each other are an error of the request, not of a task."""
    text = "SUBSCRIPTION {0} EVENT a : <urn:{1}> WHEN a CONSTRUCT {{ ?this a <urn:{2}> }} "
    with pytest.raises(UsageError, match="feed each other in a cycle"):
        planned(text.format("one", "A", "B") + text.format("two", "B", "A"))


def test_only_a_hidden_key_repeats_and_only_no_needs_the_beginning() -> None:
    """What a host must do at the end and at the beginning of a run is said by its plan."""
    hidden = f"SUBSCRIPTION hidden {PAIR} SIGNAL "
    silence = "SUBSCRIPTION silence EVENT a : <urn:A> WHEN NO a FOR 5 s SIGNAL "
    shown = f"SUBSCRIPTION shown {PAIR} "
    assert [planned(text).may_repeat for text in (hidden, silence, shown)] == [True, False, False]
    assert [len(planned(text).no_buckets) for text in (hidden, silence, shown)] == [0, 1, 0]
