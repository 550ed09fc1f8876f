"""The matcher agrees with the verifier, which is the definition; its registry follows the leaves."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest
from tests.builders import matched
from tests.engine.match.random_leaves import (
    CONSTANTS,
    LITERALS,
    batch_of,
    leaves_of,
    random_background,
    random_batch,
    random_leaf,
)

from motet.engine.match.closure import ClosedBackground
from motet.engine.match.leaf import LeafBindings, LeafQuery
from motet.engine.match.matcher import Matcher, MatcherRegistry
from motet.engine.match.verifier import Verifier
from motet.engine.runtime.active_plan import single_event_matcher
from motet.language.parse import parse
from motet.model.batches import EventRow, Records, Triple, event_rows
from motet.model.notifications import Notification
from motet.model.terms import RDF_TYPE

Emitted = list[tuple[Notification, int]]


def plainly(matcher: Matcher, events: pa.RecordBatch) -> Emitted:
    """Every subscription on every event."""
    background = ClosedBackground(matcher.background, matcher.entailment)
    verifiers = [(leaf, Verifier(leaf)) for leaf in matcher.leaves]
    found = [
        (notification(leaf, row, bindings), offset)
        for offset, row in enumerate(event_rows(events))
        for leaf, verifier in verifiers
        for bindings in verifier.solutions(row, background.over(row), background.graph)
    ]
    return ordered(found)


def notification(leaf: LeafQuery, row: EventRow, bindings: LeafBindings) -> Notification:
    assert row.start is not None and row.end is not None
    graphs = {f"{s} {p} {o} <{row.id}> ." for s, p, o in row.triples}
    shown = tuple(sorted(graphs)) if leaf.with_triples else None
    return Notification(leaf.name, row.start, row.end, (row.id,), bindings, shown)


def ordered(found: Emitted) -> Emitted:
    return sorted(found, key=lambda pair: (pair[1], pair[0].sort_key))


def random_case(seed: int) -> tuple[Matcher, pa.RecordBatch]:
    random = Random(seed)
    background = random_background(random)
    subscriptions = tuple(random_leaf(random, f"s{number}") for number in range(random.randint(1, 12)))
    entailment = random.choice(("none", "rdfs", "owl-rl", "owl-rl"))
    return Matcher(subscriptions, background, entailment), random_batch(random, 6, ("urn:x", "urn:room"))


@pytest.mark.parametrize("first", range(0, 100, 5))
def test_the_matcher_agrees_with_the_verifier(first: int) -> None:
    """Random leaves, events and ontologies give the same notifications."""
    for seed in range(first, first + 5):
        matcher, events = random_case(seed)
        assert ordered(matched(matcher, Records(columns=events)).rows) == plainly(matcher, events), seed


def test_comparisons_are_those_of_sparql() -> None:
    """Every kind of number and dateTime against every constant, also where they are equal as float64."""
    operators = ("<", "<=", "=", ">=", ">")
    tests = [f"?x {operator} {constant}" for operator in operators for constant in CONSTANTS]
    texts = (f"SUBSCRIPTION s{n} EVENT e {{ ?e <urn:p> ?x FILTER({test}) }} WHEN e" for n, test in enumerate(tests))
    matcher = Matcher(tuple(leaf for text in texts for leaf in leaves_of(text)))
    events = [(f"urn:e:{number}", [(f"<urn:e:{number}>", "<urn:p>", term)]) for number, term in enumerate(LITERALS)]
    batch = batch_of(events)
    assert ordered(matched(matcher, Records(columns=batch)).rows) == plainly(matcher, batch)


def test_many_values_are_searched_from_either_side() -> None:
    """An event with more values than there are constants, and vice versa."""
    subscriptions = tuple(
        subscription
        for n in range(3)
        for subscription in parse(f"SUBSCRIPTION s{n} EVENT e : <urn:C{n}> {{ ?e <urn:p> <urn:{n}>, <urn:x> }} WHEN e")
    )
    triples = [("<urn:e:0>", RDF_TYPE, f"<urn:C{n}>") for n in range(9)]
    triples += [("<urn:e:0>", "<urn:p>", f"<urn:{n}>") for n in (*range(1, 80), "x")]
    events = batch_of([("urn:e:0", triples), ("urn:e:1", [])])
    found = ordered(matched(single_event_matcher(subscriptions), Records(columns=events)).rows)
    assert [notification.subscription for notification, _ in found] == ["s1", "s2"]


def test_a_slice_of_a_batch_is_a_batch() -> None:
    """A slice gives the notifications of its own events."""
    matcher, events = random_case(4)
    whole = [(found, offset - 2) for found, offset in matched(matcher, Records(columns=events)).rows if 2 <= offset < 5]
    assert ordered(matched(matcher, Records(columns=events.slice(2, 3))).rows) == ordered(whole)


def test_a_changed_matcher_is_equal_to_a_new_one() -> None:
    """Whatever leaves were added and removed, it matches like one built for the remaining leaves."""
    random = Random(7)
    pool = [random_leaf(random, f"s{number}") for number in range(40)]
    matcher = Matcher((), random_background(random))
    for _ in range(30):
        chosen = set(matcher.leaves) ^ set(random.sample(pool, random.choice((1, 1, 2, 9))))
        matcher = matcher.changed(tuple(subscription for subscription in pool if subscription in chosen))
        events = random_batch(random, 4)
        fresh = Matcher(matcher.leaves, matcher.background)
        assert ordered(matched(matcher, Records(columns=events)).rows) == ordered(
            matched(fresh, Records(columns=events)).rows
        )


NOTHING: frozenset[Triple] = frozenset()


def on(class_iri: str, name: str) -> LeafQuery:
    (found,) = leaves_of(f"SUBSCRIPTION {name} EVENT e : <urn:{class_iri}> WHEN e")
    return found


def test_a_name_can_be_used_again() -> None:
    """The name of a removed leaf can be used at once."""
    registered = MatcherRegistry(NOTHING, "none")
    registered.change([on("A", "one"), on("A", "two")], (), NOTHING, "none")
    registered.change([on("B", "one")], {"one"}, NOTHING, "none")
    assert (len(registered), registered.matcher.leaves) == (2, (on("A", "two"), on("B", "one")))


def test_a_reused_index_serves_the_added_leaves_only() -> None:
    """Of a reused index only the leaves added here are matched; the other registry is not changed."""
    other, registered = MatcherRegistry(NOTHING, "none"), MatcherRegistry(NOTHING, "none")
    other.change([on("A", "one"), on("A", "two")], (), NOTHING, "none")
    registered.reuse(other)
    registered.change([on("A", "two"), on("B", "three")], (), NOTHING, "none")
    assert registered.matcher.leaves == (on("A", "two"), on("B", "three"))
    assert other.matcher.leaves == (on("A", "one"), on("A", "two"))


def test_a_new_background_applies_to_all_leaves() -> None:
    """All leaves are matched over the current graph."""
    registered, background = MatcherRegistry(NOTHING, "none"), frozenset({("<urn:s>", "<urn:p>", "<urn:o>")})
    registered.change([on("A", "one")], (), NOTHING, "none")
    registered.change([on("B", "two")], (), background, "owl-rl")
    matcher = registered.matcher
    assert (matcher.leaves, matcher.background) == ((on("A", "one"), on("B", "two")), background)
