"""Closures are computed only for events where a leaf could match otherwise; the result is the same."""

from __future__ import annotations

from random import Random
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import matched
from tests.engine.match.random_leaves import batch_of, leaves_of, random_batch, random_leaf
from tests.ontology.random_ontologies import defined, fact, merging, owl_axiom, triples

from motet.engine.match.closure import ClosedBackground, ReferencedTerms, events_needing_closure
from motet.engine.match.index import LeafIndex
from motet.engine.match.matcher import Matcher
from motet.engine.runtime.active_plan import single_event_matcher
from motet.language.parse import parse
from motet.model.batches import Records, Triple
from motet.model.notifications import Notification
from motet.ontology.entailment import Reasoner

#: From the names of the random ontologies to those of the random leaves.
NAMES = {
    **{f"<urn:x:C{n}>": f"<urn:{c}>" for n, c in enumerate("ABCDA")},
    **{f"<urn:x:p{n}>": f"<urn:{p}>" for n, p in enumerate("pqrp")},
    **{f"<urn:x:i{n}>": f"<urn:{i}>" for n, i in enumerate(("x", "y", "room", "e:0"))},
}


def renamed(turtle: list[str]) -> list[Triple]:
    return [(NAMES.get(s, s), NAMES.get(p, p), NAMES.get(o, o)) for s, p, o in triples(" ".join(turtle))]


def told(matcher: Matcher, events: pa.RecordBatch) -> list[tuple[Notification, int]]:
    """The notifications; those of one event in a fixed order, which the matcher does not promise."""
    return sorted(
        matched(matcher, Records(columns=events)).rows,
        key=lambda pair: (pair[1], pair[0].sort_key),
    )


CLOSING = "motet.engine.match.closure.events_needing_closure"
PER_TRIPLE = ("motet.engine.match.closure.INFERRED_PER_TRIPLE", "motet.ontology.entailment.INFERRED_PER_TRIPLE")


@settings(max_examples=250, deadline=None)
@given(
    st.lists(st.one_of(defined, owl_axiom), min_size=1, max_size=5),
    st.lists(st.one_of(fact, fact, merging), max_size=3),
    st.integers(0, 10**9),
    st.sampled_from([5000, 0, 5, 20]),
)
def test_leaves_match_as_if_every_event_were_closed(axioms: list[str], facts: list[str], seed: int, limit: int) -> None:
    """Random leaves over random ontologies have the same solutions as when every event is closed, up to any limit."""
    random = Random(seed)
    subscriptions = tuple(random_leaf(random, f"s{number}") for number in range(random.randint(1, 5)))
    matcher = Matcher(subscriptions, frozenset(renamed([*axioms, *facts])), "owl-rl")
    matcher._reasoning.closed.reasoner.limit = limit
    events = random_batch(random, 8)
    with patch(PER_TRIPLE[0], 0), patch(PER_TRIPLE[1], 0):
        with patch(CLOSING, lambda events, *_: np.ones(len(events), np.bool_)):
            everything = told(matcher, events)
        assert told(matcher, events) == everything


def closed(ontology: str, leaf: str, *events: str) -> list[bool]:
    """Which of some events one leaf needs closed."""
    asked = ReferencedTerms(LeafIndex().with_leaves(leaves_of(f"SUBSCRIPTION s EVENT e {leaf} WHEN e")).segments)
    batch = batch_of([(f"urn:e:{number}", triples(event)) for number, event in enumerate(events)])
    found: list[bool] = events_needing_closure(batch, Reasoner(triples(ontology)), asked).tolist()
    return found


INVERSE = ":room owl:inverseOf :holds ."
DEFINED = ":Hot owl:equivalentClass [ owl:onProperty :in ; owl:someValuesFrom :Lab ] . :lab a :Lab ."
EVENTS = (":e a :A ; :room :r .", ":r :holds :e .", ":e :in :lab .", ":e :level 5 .")
CASES: dict[str, tuple[str, str, list[bool]]] = {
    "nobody asks for what rules derive": (INVERSE, ": <urn:x:A> { ?e <urn:x:level> ?l }", [False] * 4),
    "the inverse of an inverse is nothing new": (INVERSE, "{ ?e <urn:x:room> ?r }", [False, True, False, False]),
    "a defined class": (DEFINED, ": <urn:x:Hot>", [False, False, True, False]),
    "another class": (DEFINED, ": <urn:x:A>", [False] * 4),
    "any class": (DEFINED, "{ ?e a ?c }", [False, False, True, False]),
    "a class by its letters": (DEFINED, '{ ?e a ?c FILTER(STRSTARTS(STR(?c), "urn")) }', [False, False, True, False]),
    "what is verified is closed when it is verified": (INVERSE, "{ OPTIONAL { ?e <urn:x:holds> ?r } }", [False] * 4),
    "individuals that may be one": (":room a owl:FunctionalProperty .", ": <urn:x:B>", [True, False, False, False]),
    "literals are never one": (":level a owl:FunctionalProperty .", ": <urn:x:B>", [False] * 4),
    "the background merges": (":a owl:sameAs :b .", ": <urn:x:B>", [True] * 4),
    "a plain hierarchy": (":A rdfs:subClassOf :B .", ": <urn:x:B>", [False] * 4),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_only_events_that_can_imply_a_referenced_term_are_closed(name: str) -> None:
    """An event is closed when a term that a leaf refers to can follow from one of its triples."""
    ontology, leaf, expected = CASES[name]
    assert closed(ontology, leaf, *EVENTS) == expected


def test_an_event_with_same_as_is_closed() -> None:
    """Anything can follow from equal individuals, also when a property only implies that they are equal."""
    ontology = ":alias rdfs:subPropertyOf owl:sameAs ."
    assert closed(ontology, ": <urn:x:A>", ":e owl:sameAs :f .", ":e :alias :f .", ":e a :B .") == [True, True, False]


def test_removed_leaves_refer_to_no_terms() -> None:
    """Only live leaves count, also while the segment still holds the others."""
    index = LeafIndex().with_leaves(
        leaves_of("SUBSCRIPTION a EVENT e : <urn:A> WHEN e SUBSCRIPTION b EVENT e : <urn:B> WHEN e")
    )
    assert ReferencedTerms(index.segments).classes == {"<urn:A>", "<urn:B>"}
    assert ReferencedTerms(index.without({"a"}).segments).classes == {"<urn:B>"}


def test_an_event_that_may_pass_the_limit_is_closed() -> None:
    """Even if no leaf refers to what follows: an event from which too much follows matches nothing."""
    chain = " . ".join(f":n{n} :near :n{n + 1}" for n in range(150))
    ontology = ":near a owl:TransitiveProperty ."
    assert closed(ontology, ": <urn:x:A>", f":e a :A . {chain} .", ":e a :A ; :near :n1 .") == [True, False]
    subscriptions = parse("SUBSCRIPTION s EVENT e : <urn:x:A> WHEN e")
    matcher = single_event_matcher(subscriptions, frozenset(triples(ontology)), "owl-rl")
    events = batch_of([("urn:x:e", triples(f":e a :A . {chain} .")), ("urn:x:f", triples(":f a :A ."))])
    found = matched(matcher, Records(columns=events)).rows
    assert [notification.events for notification, _ in found] == [("urn:x:f",)]


def test_graphs_for_the_verifier_are_always_closed() -> None:
    """The verifier's graph has the inferred triples, whether or not the index needs them."""
    background = ClosedBackground(frozenset(triples(INVERSE)), "owl-rl")
    matcher = single_event_matcher(
        tuple(parse("SUBSCRIPTION s EVENT e { ?r <urn:x:holds> ?e } WHEN e SELECT ?r")), frozenset(triples(INVERSE))
    )
    events = batch_of([("urn:x:e", triples(":e :room :r ."))])
    assert len(background.reasoner.close(triples(":e :room :r ."))) == 2
    assert matched(matcher, Records(columns=events)).columns.column("bindings").to_pylist() == [
        [{"variable": "r", "term": "<urn:x:r>"}]
    ]
