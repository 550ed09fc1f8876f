"""Who feeds whom, as subscriptions come and go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.language.parse import parse
from motet.model.errors import UsageError
from motet.ontology.entailment import Reasoner
from motet.plan.builder import build_plan
from motet.plan.derivation_edges import DerivationGraph, derivation_edges, required_triples, template_triples
from motet.plan.leaves import normalise

SUBCLASS = ("<urn:C>", "<http://www.w3.org/2000/01/rdf-schema#subClassOf>", "<urn:B>")
REASONER = Reasoner([SUBCLASS, ("<urn:kitchen>", "<urn:kind>", "<urn:Room>")])
TEXTS = (
    "EVENT a : <urn:A> WHEN a CONSTRUCT { ?this a <urn:B> } CONSTRUCT { ?this a <urn:C> ; <urn:in> <urn:kitchen> }",
    "EVENT b : <urn:B> EVENT c : <urn:C> WHEN b BEFORE c WITHIN 5 s CONSTRUCT { ?this a <urn:D> }",
    "EVENT c : <urn:C> { ?c <urn:in> ?r . ?r <urn:kind> <urn:Room> } WHEN c",
    "EVENT d : <urn:D> EVENT e : <urn:E> WHEN d OR e SIGNAL",
    "EVENT e : <urn:E> WHEN e CONSTRUCT { ?this <urn:p> 1 }",
    "EVENT x { ?x <urn:p> ?y } WHEN x",
)
SUBSCRIPTIONS = [parse(f"SUBSCRIPTION s{number} {text}")[0] for number, text in enumerate(TEXTS)]


def add(edges: DerivationGraph, number: int) -> bool:
    one = SUBSCRIPTIONS[number]
    own = {place: required_triples(normalise(event)[0]) for place, event in enumerate(one.events)}
    return edges.add(one.name, template_triples(one, REASONER), own)


@given(st.lists(st.integers(0, len(TEXTS) - 1), max_size=20))
def test_the_edges_are_those_of_the_active_subscriptions(changes: list[int]) -> None:
    """After additions and removals the edges are those of a plan of the active ones, and changes are reported."""
    edges, there = DerivationGraph(), dict[int, None]()
    for number in changes:
        before = edges.copy()
        if number in there:
            del there[number]
            is_changed = edges.remove(f"s{number}")
        else:
            there[number] = None
            is_changed = add(edges, number)
        found = derivation_edges(build_plan([SUBSCRIPTIONS[one] for one in there]), REASONER)
        assert edges.pairs() == {(feed.producer, feed.consumer) for feed in found}
        assert {
            (producer, clause, consumer) for (producer, clause), fed in edges.edges.items() for consumer in fed
        } == {(feed.producer, feed.clause, feed.consumer) for feed in found}
        assert is_changed == (edges.pairs() != before.pairs())


def test_a_cycle_is_refused() -> None:
    """The subscriptions on it are named, no others; without one of them there is no cycle."""
    ring = "SUBSCRIPTION {0} EVENT e : <urn:{0}> WHEN e CONSTRUCT {{ ?this a <urn:{1}> }} "
    edges = DerivationGraph()
    for one in parse(ring.format("a", "b") + ring.format("x", "a") + ring.format("b", "a")):
        edges.refuse_cycles()
        edges.add(one.name, template_triples(one, REASONER), {0: required_triples(normalise(one.events[0])[0])})
    with pytest.raises(UsageError, match="clauses of a, b feed each other"):
        edges.refuse_cycles()
    edges.remove("b")
    edges.refuse_cycles()
