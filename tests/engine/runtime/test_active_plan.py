"""The active plan follows from the active subscriptions alone, and an update costs as much as the change."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import LogProcessor, control_row, event_row, record_batch

from motet.language.parse import parse
from motet.language.syntax import Subscription

DECLARED = "EVENT a : <urn:A> { ?a <urn:k> ?k } EVENT b : <urn:B> { ?b <urn:k> ?k } "
TEXTS = (
    DECLARED + "WHEN a BEFORE b WITHIN 5 s CONTEXT chronicle",
    DECLARED + "EVENT c : <urn:C> WHEN (a BEFORE b WITHIN 5 s) UNLESS c WITHIN 2 s",
    DECLARED + "WHEN a OR b SIGNAL",
    "EVENT a : <urn:A> { ?a <urn:k> ?k } EVENT c { ?c <urn:cause> ?a } WHEN a BEFORE c WITHIN 5 s",
    "EVENT d : <urn:D> EVENT c : <urn:C> WHEN d UNLESS c WITHIN 9 s",
    "EVENT a : <urn:A> EVENT b : <urn:B> WHEN a UNLESS b WITHIN 3 s CONSTRUCT { ?this a <urn:D> }",
    "EVENT a : <urn:A> WHEN a",
    "EVENT b : <urn:B> WHEN b SIGNAL",
)


def record(kind: str, offset: int, name: str, text: str | None = None) -> pa.RecordBatch:
    return record_batch(control_row(offset, kind, name, text))


def subscribe(processor: LogProcessor, number: int, offset: int) -> None:
    processor.commit(record("subscribe", offset, f"s{number}", f"SUBSCRIPTION s{number} {TEXTS[number]}"))


def plan_of(processor: LogProcessor) -> dict[str, object]:
    """The active plan in terms that do not depend on node ids."""
    processor.snapshot()  # applies the changes
    work, detector, digests = (
        processor._dataflow.plan,
        processor._dataflow.state.detector,
        processor._dataflow.shared.builder.digests,
    )
    return {
        "planned": sorted(digests.values()),
        "running": {
            digests[id_]: (one.lag, one.lags, one.deduplicator is not None)
            for id_, one in detector.operator_nodes.items()
        },
        "leaves": {digests[leaf.node.id]: leaf.compares_terms for leaf in work.leaf_matcher._leaves.values()},
        "waiting": {digests[id_]: list(lives) for id_, lives in work.root_subscribers.by_node.items()},
        "matched": sorted(one.name for one in work.matcher.leaves) if work.matcher else [],
        "fed": processor.derivation_linked(),
    }


def is_in_order(processor: LogProcessor) -> bool:
    """Whether nodes run after their operands, and leaves after the nodes whose derived events feed them."""
    feeding, nodes = processor._dataflow.plan.derivations, processor._dataflow.shared.builder.nodes
    order = sorted(processor._dataflow.plan._references, key=processor._dataflow.state.detector.ranked)
    turns = {id_: turn for turn, id_ in enumerate(order)}
    before = {
        id_: {edge.child for edge in nodes[id_].children} | feeding._upstream_nodes.get(id_, set()) for id_ in turns
    }
    return all(turns[one] < turns[id_] for id_, others in before.items() for one in others)


@given(st.lists(st.tuples(st.integers(0, len(TEXTS) - 1), st.booleans()), max_size=25))
def test_the_plan_follows_from_the_active_subscriptions(changes: list[tuple[int, bool]]) -> None:
    """Whatever was added and removed, one by one or together, the plan is that of the active subscriptions alone."""
    processor, active = LogProcessor(), set[int]()
    for offset, (number, is_checked) in enumerate(changes):
        if number in active:
            active.remove(number)
            processor.commit(record("unsubscribe", offset, f"s{number}"))
        else:
            active.add(number)
            subscribe(processor, number, offset)
        if is_checked:
            plan_of(processor)
            assert is_in_order(processor)
    fresh = LogProcessor()
    for each in processor._dataflow.state.active.values():
        fresh.seek(each.start.offset + 1)
        subscribe(fresh, int(each.subscription.name[1:]), each.offset)
    assert plan_of(processor) == plan_of(fresh)
    assert is_in_order(processor)


def calls(do: Callable[[], object]) -> int:
    """The number of Python functions that are called."""
    count = 0

    def note(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        do()
    finally:
        sys.setprofile(None)
    return count


def with_subscriptions(count: int, *, has_edges: bool) -> LogProcessor:
    """A processor with so many subscriptions that share no nodes, all in its plan."""
    processor = LogProcessor()
    if has_edges:
        for number in (5, 4):
            subscribe(processor, number, 900 + number)
    for number in range(count):
        events = f"EVENT a : <urn:A{number}> EVENT b : <urn:B{number}>"
        text = f"SUBSCRIPTION t{number} {events} WHEN a BEFORE b WITHIN 5 s CONTEXT continuous"
        processor.commit(record("subscribe", number, f"t{number}", text))
    plan_of(processor)
    return processor


@pytest.mark.parametrize("has_edges", [False, True])
def test_a_change_costs_the_same_among_20_and_among_200(has_edges: bool) -> None:
    """Adding and removing one subscription calls as many functions among 20 others as among 200, also while derivation
    edges link others.
    """

    def change(processor: LogProcessor, offset: int) -> None:
        subscribe(processor, 1, offset)
        processor._dataflow.update_plan()
        processor.commit(record("unsubscribe", offset + 1, "s1"))

    few, many = (with_subscriptions(count, has_edges=has_edges) for count in (20, 200))
    for processor in (few, many):  # fill the caches
        change(processor, 1000)
    assert calls(lambda: change(few, 2000)) == calls(lambda: change(many, 2000))


def test_compiled_leaves_of_another_processor_are_not_confused_with_ones_own() -> None:
    """A processor that reuses the compiled leaves of another matches its own leaves, though node ids are equal."""

    def subscriptions(predicate: str, variable: str) -> tuple[Subscription, ...]:
        events = f"EVENT a {{ ?a <urn:{predicate}> ?{variable} }} EVENT b {{ ?b <urn:q> ?y }}"
        return parse(f"SUBSCRIPTION s {events} WHEN a BEFORE b WITHIN 5 s SELECT ?{variable} ?y")

    def event(offset: int, predicate: str) -> dict[str, object]:
        return event_row(offset, f"urn:{offset}", offset, [(f"<urn:{offset}>", f"<urn:{predicate}>", f'"{offset}"')])

    first = LogProcessor()
    first.activate(subscriptions("p", "x"))
    second = LogProcessor.spawn(first._dataflow, subscriptions("r", "z"))
    events = record_batch(event(0, "p"), event(1, "r"), event(2, "q"), event(3, "none"))
    assert [processor.commit(events, 3).column("events").to_pylist() for processor in (first, second)] == [
        [["urn:0", "urn:2"]],
        [["urn:1", "urn:2"]],
    ]
