"""The bound on consequences includes everything the reasoner infers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ontology.random_ontologies import defined, fact, merging, owl_axiom, triples
from tests.ontology.test_entailment import RULES

from motet.ontology.consequences import NO_CONSEQUENCES, ConsequenceBound, Consequences
from motet.ontology.entailment import Reasoner
from motet.ontology.owl_names import TYPE, Triple, is_literal


def bound_of(ontology: str) -> ConsequenceBound:
    bound = Reasoner(triples(ontology)).consequence_bound
    assert bound is not None
    return bound


def consequences(bound: ConsequenceBound, triple: Triple) -> Consequences:
    _, p, o = triple
    return bound.of_class(o) if p == TYPE else bound.of_property(p, literal=is_literal(o))


def by_hierarchy(reasoner: Reasoner, event: set[Triple]) -> set[Triple]:
    """The triples that the hierarchy infers from single triples."""
    return {fact for fact in reasoner._expanded(event) if not any(term.startswith("_") for term in fact)}


def assert_covers(ontology: tuple[Triple, ...], event: set[Triple]) -> None:
    """Assert that the bounds of an event's triples include all inferred triples, and their number."""
    reasoner = Reasoner(ontology)
    bound = reasoner.consequence_bound
    if bound is None:
        return
    found = [consequences(bound, triple) for triple in event]
    if any(one.may_merge for one in found):
        return
    layer = reasoner.close_layered(event).triples
    derived = {t for t in reasoner.close(event) - by_hierarchy(reasoner, event) if t not in reasoner.background}
    classes = {o for _, p, o in derived if p == TYPE}
    properties = {p for _, p, _ in derived if p != TYPE}
    assert classes <= {name for one in found for name in one.classes}
    assert properties <= {name for one in found for name in one.properties}
    on_other_nodes = bound.max_on_other_nodes(len(event)) if any(one.affects_others for one in found) else 0
    assert len(layer) <= sum(one.size for one in found) + on_other_nodes


@pytest.mark.parametrize("name", RULES)
def test_the_bound_covers_each_rule(name: str) -> None:
    """The inference of the example of each rule is in the bound of a triple of its event."""
    ontology, event, _ = RULES[name]
    assert_covers(triples(ontology), set(triples(event)))


@settings(max_examples=400, deadline=None)
@given(st.lists(st.one_of(defined, owl_axiom), max_size=7), st.lists(fact, max_size=4), st.lists(merging, max_size=8))
def test_the_bound_covers_random_ontologies(axioms: list[str], background: list[str], event: list[str]) -> None:
    """For random ontologies of all kinds of axioms, the bound includes all inferred triples, and their number."""
    assert_covers(triples(" ".join([*axioms, *background])), set(triples(" ".join(event))))


def test_an_inverse_does_not_imply_the_property_again() -> None:
    """A property implies its inverse; the bound does not include the property itself."""
    found = bound_of(":room owl:inverseOf :holds . :holds rdfs:domain :Room .").of_property(
        "<urn:x:room>", literal=False
    )
    assert found == Consequences(frozenset({"<urn:x:Room>"}), frozenset({"<urn:x:holds>"}), 3)


def test_a_definition_does_not_imply_its_operands_again() -> None:
    """The bound of a defined class does not include the operands and values from which it was inferred."""
    ontology = """:Loud owl:equivalentClass [ owl:intersectionOf
                    ( :Alarm [ owl:onProperty :level ; owl:hasValue 5 ] ) ] . :Alarm rdfs:subClassOf :Event ."""
    found = bound_of(ontology).of_property("<urn:x:level>", literal=True)
    assert found.classes == {"<urn:x:Loud>"}
    assert not found.properties


def test_rules_trigger_rules() -> None:
    """An inferred triple triggers further rules, also through the hierarchy."""
    ontology = """:p owl:inverseOf :q . :q rdfs:domain :A . :B owl:intersectionOf ( :A :C ) .
                  :B rdfs:subClassOf [ owl:onProperty :r ; owl:hasValue 5 ] ."""
    found = bound_of(ontology).of_property("<urn:x:p>", literal=False)
    assert found.classes == {"<urn:x:A>", "<urn:x:B>"}
    assert found.properties == {"<urn:x:q>", "<urn:x:r>"}
    assert (found.affects_others, found.may_merge) == (True, False)


def test_a_literal_is_neither_subject_nor_merged() -> None:
    """A functional property with a literal triggers no rule; with an individual it may merge."""
    bound = bound_of(":p a owl:FunctionalProperty ; owl:inverseOf :q .")
    assert bound.of_property("<urn:x:p>", literal=True) == NO_CONSEQUENCES
    assert bound.of_property("<urn:x:p>", literal=False).may_merge


def test_names_outside_the_ontology_have_no_consequences() -> None:
    """Names that are not in the ontology trigger no rule and are not cached."""
    bound = bound_of(":p a owl:SymmetricProperty .")
    assert (bound.of_class("<urn:x:A>"), bound.of_property("<urn:x:r>", literal=False)) == (
        NO_CONSEQUENCES,
        NO_CONSEQUENCES,
    )
    assert not bound._cache


@pytest.mark.parametrize(
    "ontology",
    [
        ":a owl:sameAs :b .",
        ":kind rdfs:subPropertyOf rdf:type .",
        ":kind owl:inverseOf rdf:type .",
        ":A rdfs:subClassOf [ owl:onProperty rdf:type ; owl:hasValue :B ] .",
    ],
)
def test_there_is_no_bound_if_type_is_a_property_or_individuals_merge(ontology: str) -> None:
    """There is no bound if axioms use rdf:type as a property, or the background has owl:sameAs."""
    assert Reasoner(triples(ontology)).consequence_bound is None


def test_the_background_may_have_the_other_premises() -> None:
    """A rule fires if one premise is in the event and the others are in the background."""
    ontology = ":A rdfs:subClassOf [ owl:onProperty :p ; owl:allValuesFrom :B ] . :a a :A ."
    assert bound_of(ontology).of_property("<urn:x:p>", literal=False).classes == {"<urn:x:B>"}
    assert_covers(triples(ontology), set(triples(":a :p :e .")))
