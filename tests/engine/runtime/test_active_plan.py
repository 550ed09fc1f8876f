"""Subscriptions come and go: what is done follows from those in force, and what a change costs from the change."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import control_row, event_row, record_batch

from motet.engine.detect.detector import ReadyQueue
from motet.engine.runtime.processor import Processor
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


def subscribe(kernel: Processor, number: int, offset: int) -> None:
    kernel.advance(record("subscribe", offset, f"s{number}", f"SUBSCRIPTION s{number} {TEXTS[number]}"))


def at_work(kernel: Processor) -> dict[str, object]:
    """What is done, by what does not depend on the numbers of nodes."""
    kernel.snapshot()  # puts changes to work
    work, detector, digests = kernel._plan, kernel._state.detector, kernel._shared.builder.digests
    return {
        "planned": sorted(digests.values()),
        "running": {
            digests[id_]: (one.lag, one.lags, one.deduplicator is not None)
            for id_, one in detector.operator_nodes.items()
        },
        "leaves": {digests[leaf.node.id]: leaf.is_plain for leaf in work.leaf_matcher._leaves.values()},
        "waiting": {digests[id_]: list(lives) for id_, lives in work.root_subscribers.by_node.items()},
        "matched": sorted(one.name for one in work.matcher.leaves) if work.matcher else [],
        "fed": kernel.derivation_linked(),
    }


def is_in_order(kernel: Processor) -> bool:
    """Whether nodes have their turn after their operands, and leaves after those who feed them."""
    feeding, nodes = kernel._plan.derivations, kernel._shared.builder.nodes
    turns = {id_: turn for turn, id_ in enumerate(ReadyQueue(kernel._state.detector._order, kernel._plan._references))}
    before = {
        id_: {edge.child for edge in nodes[id_].children} | feeding._upstream_nodes.get(id_, set()) for id_ in turns
    }
    return all(turns[one] < turns[id_] for id_, others in before.items() for one in others)


@given(st.lists(st.tuples(st.integers(0, len(TEXTS) - 1), st.booleans()), max_size=25))
def test_what_is_done_follows_from_who_is_there(asked: list[tuple[int, bool]]) -> None:
    """Whoever came and went, one by one or together, the kernel does what it does for those in force alone."""
    kernel, there = Processor(lateness=0), set[int]()
    for offset, (number, is_seen) in enumerate(asked):
        if number in there:
            there.remove(number)
            kernel.advance(record("unsubscribe", offset, f"s{number}"))
        else:
            there.add(number)
            subscribe(kernel, number, offset)
        if is_seen:
            at_work(kernel)
            assert is_in_order(kernel)
    fresh = Processor(lateness=0)
    for life in kernel._state.active.values():
        fresh.seek(life.start.offset + 1)
        subscribe(fresh, int(life.subscription.name[1:]), life.offset)
    assert at_work(kernel) == at_work(fresh)
    assert is_in_order(kernel)


def calls(do: Callable[[], object]) -> int:
    """How many Python functions are called."""
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


def living(count: int, *, is_somebody_fed: bool) -> Processor:
    """One with so many subscriptions of distinct parts, all at work."""
    kernel = Processor(lateness=0)
    if is_somebody_fed:
        for number in (5, 4):
            subscribe(kernel, number, 900 + number)
    for number in range(count):
        events = f"EVENT a : <urn:A{number}> EVENT b : <urn:B{number}>"
        text = f"SUBSCRIPTION t{number} {events} WHEN a BEFORE b WITHIN 5 s CONTEXT continuous"
        kernel.advance(record("subscribe", number, f"t{number}", text))
    at_work(kernel)
    return kernel


@pytest.mark.parametrize("is_somebody_fed", [False, True])
def test_a_change_costs_the_same_among_few_and_many(is_somebody_fed: bool) -> None:
    """One subscription that comes and goes calls as many functions among 20 others as among 200, who may derive events
    for each other, but not for this one.
    """

    def change(kernel: Processor, offset: int) -> None:
        subscribe(kernel, 1, offset)
        kernel._apply_changes()
        kernel.advance(record("unsubscribe", offset + 1, "s1"))

    few, many = (living(count, is_somebody_fed=is_somebody_fed) for count in (20, 200))
    for kernel in (few, many):  # what is looked into once for all
        change(kernel, 1000)
    assert calls(lambda: change(few, 2000)) == calls(lambda: change(many, 2000))


def test_what_was_compiled_for_others_is_not_taken_for_ones_own() -> None:
    """A kernel that begins with the compiled leaves of another goes by its own, though they have the same numbers."""

    def asked(predicate: str, variable: str) -> tuple[Subscription, ...]:
        events = f"EVENT a {{ ?a <urn:{predicate}> ?{variable} }} EVENT b {{ ?b <urn:q> ?y }}"
        return parse(f"SUBSCRIPTION s {events} WHEN a BEFORE b WITHIN 5 s SELECT ?{variable} ?y")

    def event(offset: int, predicate: str) -> dict[str, object]:
        return event_row(offset, f"urn:{offset}", offset, [(f"<urn:{offset}>", f"<urn:{predicate}>", f'"{offset}"')])

    first = Processor(lateness=0)
    first.activate(asked("p", "x"))
    second = first.spawn(asked("r", "z"))
    events = record_batch(event(0, "p"), event(1, "r"), event(2, "q"), event(3, "none"))
    assert [kernel.advance(events).column("events").to_pylist() for kernel in (first, second)] == [
        [["urn:0", "urn:2"]],
        [["urn:1", "urn:2"]],
    ]
