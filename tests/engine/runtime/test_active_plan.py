"""The active plan follows from the active subscriptions alone; an update costs as much as the change; single events."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import LogProcessor, control_row, event_row, matched, record_batch

from motet.engine.match.matcher import Matcher
from motet.engine.runtime.active_plan import single_event_matcher
from motet.language.parse import parse
from motet.language.syntax import Subscription
from motet.model.batches import EVENTS, EventRow, Records
from motet.model.errors import EngineError
from motet.model.notifications import Notification
from motet.model.terms import RDF_TYPE

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


A = (("<urn:e:1>", RDF_TYPE, "<urn:A>"), ("<urn:e:1>", "<urn:p>", '"01"^^<http://www.w3.org/2001/XMLSchema#integer>'))
EVENT = EventRow("urn:e:1", 2_000_000, 5_000_000, A)
SUBCLASS = ("<urn:A>", "<http://www.w3.org/2000/01/rdf-schema#subClassOf>", "<urn:B>")


def batch(event: EventRow) -> pa.RecordBatch:
    triples = [dict(zip(("subject", "predicate", "object"), triple, strict=True)) for triple in event.triples]
    row = {"id": event.id, "start": event.start, "end": event.end, "line": 1, "triples": triples}
    return pa.RecordBatch.from_pylist([row], schema=EVENTS)


def told(matcher: Matcher, event: EventRow = EVENT) -> list[Notification]:
    return [notification for notification, _ in matched(matcher, Records(columns=batch(event))).rows]


def match(body: str, event: EventRow = EVENT, **settings: object) -> list[tuple[tuple[str, str], ...]]:
    matcher = single_event_matcher(parse(f"SUBSCRIPTION s EVENT {body}"), **settings)  # type: ignore[arg-type]
    return [notification.bindings for notification in told(matcher, event)]


def test_a_literal_keeps_its_form() -> None:
    """The value decides the filter, the lexical form is what is delivered."""
    (found,) = match("e { ?e <urn:p> ?x FILTER(?x < 2) } WHEN e SELECT ?x")
    assert found == (("x", '"01"^^<http://www.w3.org/2001/XMLSchema#integer>'),)


def test_an_event_without_pattern_matches_once() -> None:
    """Neither class nor body: every event."""
    assert match("e WHEN e") == [(("e", "<urn:e:1>"),)]


def test_subclasses_need_the_ontology() -> None:
    """The background makes an A a B, unless entailment is off."""
    body = "e : <urn:B> WHEN e SIGNAL"
    assert match(body) == []
    assert match(body, background=frozenset({SUBCLASS})) == [()]
    assert match(body, background=frozenset({SUBCLASS}), entailment="none") == []


def test_a_solution_of_the_background_alone_does_not_count() -> None:
    """A solution needs at least one triple of the event."""
    fact = ("<urn:r>", RDF_TYPE, "<urn:Room>")
    assert match("e { ?r a <urn:Room> } WHEN e", background=frozenset({fact})) == []
    joined = match("e { ?r a <urn:Room> . ?e <urn:p> ?x } WHEN e SELECT ?r", background=frozenset({fact}))
    assert joined == [(("r", "<urn:r>"),)]
    assert match("e { VALUES ?x { 1 } } WHEN e") == []


def test_within_and_filter_around_a_leaf() -> None:
    """WITHIN limits the event's own length, FILTER its bindings."""
    assert match("e WHEN e WITHIN 3 s SIGNAL") == [()]
    assert match("e WHEN e WITHIN 2 s SIGNAL") == []
    assert match("e { ?e <urn:p> ?x } WHEN e FILTER(?x > 5) SIGNAL") == []


def test_during_binds_the_interval() -> None:
    """Start and end as xsd:dateTime."""
    (found,) = match("e DURING ?s ?t WHEN e SELECT ?s ?t")
    assert found == (
        ("s", '"1970-01-01T00:00:02.000000Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>'),
        ("t", '"1970-01-01T00:00:05.000000Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>'),
    )


def test_events_delivery_shows_the_graph() -> None:
    """Sorted N-Quads lines of the event as it was published."""
    (subscription,) = parse("SUBSCRIPTION s EVENT e WHEN e EVENTS")
    (found,) = told(single_event_matcher((subscription,)))
    assert found.graphs == tuple(sorted(f"{s} {p} {o} <urn:e:1> ." for s, p, o in A))
    assert found.bindings == ()


def test_an_event_that_entails_too_much_matches_no_pattern() -> None:
    """The limit on inferred triples protects the stream; a leaf without a body still matches the event."""
    background = frozenset(
        {("<urn:same>", RDF_TYPE, "<http://www.w3.org/2002/07/owl#TransitiveProperty>")}
        | {("<urn:link>", "<http://www.w3.org/2000/01/rdf-schema#subPropertyOf>", "<urn:same>")}
    )
    chain = tuple((f"<urn:{i}>", "<urn:same>", f"<urn:{i + 1}>") for i in range(400))
    event = EventRow("urn:e:1", 0, 0, chain)
    assert match("e { <urn:0> <urn:same> ?x } WHEN e SIGNAL", event, background=background) == []
    assert match("e WHEN e SIGNAL", event, background=background) == [()]


@pytest.mark.parametrize(
    "rest", ["EVENT a EVENT b WHEN a BEFORE b", "EVENT a WHEN a{2}", "EVENT a WHEN a CONSTRUCT { ?a <urn:p> 1 }"]
)
def test_composite_and_construct_subscriptions_are_refused(rest: str) -> None:
    """The error names the subscription and says what to do."""
    with pytest.raises(EngineError, match=r"'s'.*\n.*a Processor"):
        single_event_matcher(parse(f"SUBSCRIPTION s {rest}"))


def test_a_pickled_matcher_matches_the_same() -> None:
    """Pickled and back, it gives the same notifications for a batch."""
    matcher = single_event_matcher(parse("SUBSCRIPTION s EVENT e : <urn:B> WHEN e SIGNAL"), frozenset({SUBCLASS}))
    found = told(pickle.loads(pickle.dumps(matcher)))  # noqa: S301  (our own)
    assert found == [Notification("s", 2_000_000, 5_000_000, ("urn:e:1",), ())]


def test_values_combine_as_in_sparql() -> None:
    """Several values of several properties give every combination, each once, and only what is delivered counts."""
    triples = tuple(("<urn:e:1>", f"<urn:{p}>", f'"{value}"') for p in "pq" for value in (1, 2, 2))
    event = EventRow("urn:e:1", 0, 0, triples)
    body = "e { ?e <urn:p> ?x ; <urn:q> ?y } WHEN e SELECT"
    both = [(("x", f'"{x}"'), ("y", f'"{y}"')) for x in (1, 2) for y in (1, 2)]
    assert sorted(match(f"{body} ?x ?y", event)) == both
    assert sorted(match(f"{body} ?y", event)) == [(("y", '"1"'),), (("y", '"2"'),)]


def test_only_the_values_that_pass_are_bound() -> None:
    """A comparison or an IN selects among the values of one property."""
    number = "^^<http://www.w3.org/2001/XMLSchema#integer>"
    triples = tuple(("<urn:e:1>", "<urn:p>", f'"{value}"{number}') for value in range(6))
    event = EventRow(
        "urn:e:1", 0, 0, (*triples, ("<urn:e:1>", "<urn:p>", "<urn:a>"), ("<urn:e:1>", "<urn:p>", "<urn:b>"))
    )
    found = match("e { ?e <urn:p> ?x FILTER(?x > 1 && ?x <= 3) } WHEN e SELECT ?x", event)
    assert sorted(found) == [(("x", f'"{value}"{number}'),) for value in (2, 3)]
    assert match("e { ?e <urn:p> ?x FILTER(?x IN (<urn:b>, <urn:c>)) } WHEN e SELECT ?x", event) == [
        (("x", "<urn:b>"),)
    ]


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ('STRSTARTS(?x, "ab")', ['"ab"', '"abc"@en']),
        ('STRSTARTS(STR(?x), "ab")', ['"ab"', '"abc"@en', '"abcd"^^<urn:t>', "<ab:x>"]),
        ('STRSTARTS(STR(?x), "ab:x")', ["<ab:x>"]),
        ('STRSTARTS(STR(?x), "ab:x>")', []),
        (r'STRSTARTS(STR(?x), "a\"")', [r'"a\"b"']),
        ('STRSTARTS(STR(?x), "é")', ['"éa"']),
        ('STRSTARTS(?x, "a") && STRSTARTS(?x, "ab")', ['"ab"', '"abc"@en']),
    ],
)
def test_prefixes(test: str, expected: list[str]) -> None:
    """Of strings alone or, through STR, of every value; language tags and datatypes do not count."""
    terms = ('"ab"', '"abc"@en', '"abcd"^^<urn:t>', "<ab:x>", r'"a\"b"', '"éa"', '"b"', '""')
    event = EventRow("urn:e:1", 0, 0, tuple(("<urn:e:1>", "<urn:p>", term) for term in terms))
    found = match(f"e {{ ?e <urn:p> ?x FILTER({test}) }} WHEN e SELECT ?x", event)
    assert sorted(bindings[0][1] for bindings in found) == sorted(expected)
