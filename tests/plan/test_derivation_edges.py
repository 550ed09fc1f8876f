"""The edges from CONSTRUCT clauses to leaves: of a plan, and as subscriptions are added and removed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.language.parse import parse
from motet.language.syntax import with_mappings
from motet.model.errors import UsageError
from motet.model.terms import RDF_TYPE
from motet.model.times import END_OF_TIME
from motet.ontology.entailment import Reasoner
from motet.plan.builder import build_plan
from motet.plan.derivation_edges import (
    DerivationEdge,
    DerivationGraph,
    derivation_edges,
    required_triples,
    template_triples,
)
from motet.plan.drawing import as_dot
from motet.plan.explain import explain_json, explain_text
from motet.plan.leaves import normalise
from motet.reference import EventRecord, Record, SubscribeRecord, TickRecord, evaluate

MAKER = "SUBSCRIPTION maker EVENT a : <urn:A> {{ ?a <urn:room> ?r }} WHEN a CONSTRUCT {{ {0} }} "
TAKER = "SUBSCRIPTION taker EVENT b {0} WHEN b"
SUBCLASS = ("<urn:B>", "<http://www.w3.org/2000/01/rdf-schema#subClassOf>", "<urn:C>")


def fed(template: str, leaf: str, reasoner: Reasoner | None = None) -> bool:
    found = derivation_edges(build_plan(parse(MAKER.format(template) + TAKER.format(leaf))), reasoner)
    assert found in ((), (DerivationEdge("maker", 1, "taker", 1),))
    return bool(found)


@pytest.mark.parametrize(
    ("template", "leaf", "expected"),
    [
        ("?this a <urn:B>", ": <urn:B>", True),
        ("?this a <urn:B>", ": <urn:C>", False),
        ("?this a <urn:B>", "", True),
        ("?a a <urn:B>", ": <urn:B>", False),
        ("?this a <urn:B> ; <urn:in> ?r", ": <urn:B> { ?b <urn:in> <urn:kitchen> }", True),
        ("?this a <urn:B> ; <urn:in> <urn:attic>", ": <urn:B> { ?b <urn:in> <urn:kitchen> }", False),
        ("?this a <urn:B>", ": <urn:B> { ?b <urn:in> ?x }", False),
        ("?this a <urn:B>", ": <urn:B> { OPTIONAL { ?b <urn:in> ?x } }", True),
        ("?this <urn:in> [ a <urn:Room> ]", "{ ?b <urn:in> ?x . ?x a <urn:Room> }", True),
        ("?this a <urn:B>", "{ { ?b <urn:p> 1 } UNION { ?b <urn:p> 2 } }", True),
    ],
)
def test_a_template_must_have_the_required_triples(template: str, leaf: str, expected: bool) -> None:
    """Each required triple of the leaf may be one of the template's, with the leaf's own name for the new event."""
    assert fed(template, leaf) is expected


@pytest.mark.parametrize(
    ("template", "leaf", "expected"),
    [
        ("<r><o>$v</o></r>", "XML { <o>$w</o> }", True),
        ("<r><o>$v</o></r>", "XML { <p|r/> }", True),
        ("<r><o>$v</o></r>", "XML { <p>$w</p> }", False),
        ("<r><o>$v</o></r>", "XML { <$t/> }", True),
        ("<r><o>$v</o></r>", "XML { /<o>$w</o> }", False),
        ("<r><o>$v</o></r>", "XML { /<r/> }", True),
        ("<r>$v</r>", "XML { <p/> }", False),
        ("<r>$x</r>", "XML { <p/> }", True),
        ("<r>$x</r>", "XML { /<p/> }", False),
        ("<$v><o/></$v>", "XML { /<p/> }", True),
        ("<r/>", ": <urn:B> XML { <r/> }", False),
        ("<r/>", "", True),
        ("<r/>", ": <urn:B>", False),
    ],
)
def test_a_template_must_have_the_outermost_element(template: str, leaf: str, expected: bool) -> None:
    """Of a document any element may match a block, of one that begins with / the root; variables may insert others."""
    maker = f"SUBSCRIPTION maker EVENT a XML {{ <a>$v</a> ELEMENT_AS $x }} WHEN a CONSTRUCT XML {{ {template} }} "
    found = derivation_edges(build_plan(parse(maker + TAKER.format(leaf))))
    assert bool(found) is expected


def test_inferred_triples_count() -> None:
    """With an ontology, the superclasses of a template's class count, and the triples of the background."""
    assert fed("?this a <urn:B>", ": <urn:C>", Reasoner([SUBCLASS]))
    known = Reasoner([("<urn:kitchen>", RDF_TYPE, "<urn:Room>")])
    assert fed("?this <urn:in> <urn:kitchen>", "{ ?b <urn:in> ?x . ?x a <urn:Room> }", known)


def test_no_subscription_feeds_itself() -> None:
    """The events a subscription derives are not visible to it."""
    assert (
        derivation_edges(build_plan(parse("SUBSCRIPTION s EVENT a : <urn:A> WHEN a CONSTRUCT { ?this a <urn:A> }")))
        == ()
    )


def test_cycles_are_refused() -> None:
    """The error names the subscriptions on the cycle and no others."""
    ring = "SUBSCRIPTION {0} EVENT e : <urn:{0}> WHEN e CONSTRUCT {{ ?this a <urn:{1}> }} "
    text = ring.format("a", "b") + ring.format("b", "c") + ring.format("c", "a") + ring.format("x", "a")
    with pytest.raises(UsageError, match="clauses of a, b, c feed each other"):
        derivation_edges(build_plan(parse(text)))


def test_the_explanation_has_the_edges() -> None:
    """In the text under the leaf, in JSON as edges, for Graphviz as dashed lines."""
    plan = build_plan(parse(MAKER.format("?this a <urn:B>") + TAKER.format(": <urn:B>")))
    assert "also matches events derived by maker (clause 1)" in explain_text(plan)
    assert explain_json(plan)["feeds"] == [{"producer": "maker", "clause": 1, "consumer": "taker", "node": 1}]
    assert "n1 -> s0 [style=dashed];" in as_dot(plan)


TERMS = ("<urn:A>", "<urn:B>", "?r")
TRIPLES = st.tuples(
    st.sampled_from(["?this", "?a"]), st.sampled_from(["a", "<urn:room>", "<urn:q>"]), st.sampled_from(TERMS)
)
NEEDS = st.tuples(
    st.sampled_from(["?b", "?x"]), st.sampled_from(["a", "<urn:room>", "<urn:q>"]), st.sampled_from(["<urn:B>", "?x"])
)


@given(st.lists(TRIPLES, min_size=1, max_size=3), st.lists(NEEDS, min_size=1, max_size=2))
def test_the_edges_cover_the_reference_engine(template: list[tuple[str, ...]], needs: list[tuple[str, ...]]) -> None:
    """When the reference engine matches a derived event in the second subscription, the plan has the edge."""
    texts = (" . ".join(" ".join(triple) for triple in triples) for triples in (template, needs))
    maker, taker = MAKER.format(next(texts)), TAKER.format("{ " + next(texts) + " }")
    subscriptions = parse(maker + taker)
    triples = frozenset({("<urn:e>", RDF_TYPE, "<urn:A>"), ("<urn:e>", "<urn:room>", "<urn:B>")})
    records: list[Record] = [SubscribeRecord(i, one) for i, one in enumerate(subscriptions)]
    records += [EventRecord(2, "urn:e", 1, 1, triples), TickRecord(3, END_OF_TIME)]
    derived = [n for n in evaluate(records, lateness=None) if n.subscription == "taker" and "urn:e" not in n.events]
    assert not derived or derivation_edges(build_plan(subscriptions))


NARROWER_CLASS = ("<urn:C>", "<http://www.w3.org/2000/01/rdf-schema#subClassOf>", "<urn:B>")
REASONER = Reasoner([NARROWER_CLASS, ("<urn:kitchen>", "<urn:kind>", "<urn:Room>")])
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


LIFTING = """
SUBSCRIPTION maker EVENT a XML { /<a/> } WHEN a CONSTRUCT XML { <d><p>1</p></d> }
SUBSCRIPTION of-rdf EVENT r : <urn:D> { ?r <urn:p> ?p } WHEN r
SUBSCRIPTION of-both EVENT r : <urn:D> XML { /<d/> } WHEN r
SUBSCRIPTION of-another-root EVENT r : <urn:D> XML { /<e/> } WHEN r
"""


@pytest.mark.parametrize(
    ("mapping", "consumers"),
    [
        ("event: {root: d, class: urn:D}\nproperties: {p: urn:p}", ["of-both", "of-rdf"]),
        ("event: {class: urn:D}\nproperties: {p: urn:p}", ["of-both", "of-rdf"]),
        ("event: {class: '{p}'}\nproperties: {p: urn:p}", ["of-both", "of-rdf"]),
        ("generic", ["of-both", "of-rdf"]),
        ("event: {root: d, class: urn:D}\nproperties: {p: urn:q}", ["of-both"]),
        ("event: {root: d}\nproperties: {p: {property: urn:q, properties: {p: urn:p}, class: urn:D}}", []),
        ("event: {root: e, class: urn:D}\nproperties: {p: urn:p}", []),
    ],
)
def test_a_clause_that_makes_documents_feeds_rdf_if_a_mapping_may_lift_them(mapping: str, consumers: list[str]) -> None:
    """The class and the properties that the leaf requires must be those of a mapping for the root element."""
    subscriptions = [with_mappings(each, (mapping,)) for each in parse(LIFTING)]
    assert [edge.consumer for edge in derivation_edges(build_plan(subscriptions))] == consumers
    assert derivation_edges(build_plan(parse(LIFTING))) == ()
