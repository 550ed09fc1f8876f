"""What a triple can lead to is never less than what the reasoner derives."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ontology.random_ontologies import defined, fact, merging, owl_axiom, triples
from tests.ontology.test_entailment import RULES

from motet.ontology.entailment import Reasoner
from motet.ontology.reach import NOTHING, Consequences, Reach
from motet.ontology.vocabulary import TYPE, Triple, is_literal


def reach_of(ontology: str) -> Reach:
    reach = Reasoner(triples(ontology)).reach
    assert reach is not None
    return reach


def consequences(reach: Reach, triple: Triple) -> Consequences:
    _, p, o = triple
    return reach.of_class(o) if p == TYPE else reach.of_property(p, literal=is_literal(o))


def by_hierarchy(reasoner: Reasoner, event: set[Triple]) -> set[Triple]:
    """What follows without looking at a second triple."""
    return {fact for fact in reasoner._expanded(event) if not any(term.startswith("_") for term in fact)}


def assert_covers(ontology: tuple[Triple, ...], event: set[Triple]) -> None:
    """Everything that rules derive from the event is foreseen for one of its triples, and so is how much it is."""
    reasoner = Reasoner(ontology)
    reach = reasoner.reach
    if reach is None:
        return
    found = [consequences(reach, triple) for triple in event]
    if any(one.merges for one in found):
        return
    layer = reasoner.layer(event).triples
    derived = {t for t in reasoner.close(event) - by_hierarchy(reasoner, event) if t not in reasoner.background}
    classes = {o for _, p, o in derived if p == TYPE}
    properties = {p for _, p, _ in derived if p != TYPE}
    assert classes <= {name for one in found for name in one.classes}
    assert properties <= {name for one in found for name in one.properties}
    elsewhere = reach.most_elsewhere(len(event)) if any(one.is_far for one in found) else 0
    assert len(layer) <= sum(one.size for one in found) + elsewhere


@pytest.mark.parametrize("name", RULES)
def test_each_rule_is_foreseen(name: str) -> None:
    """What the example of each rule derives is foreseen for a triple of its event."""
    ontology, event, _ = RULES[name]
    assert_covers(triples(ontology), set(triples(event)))


@settings(max_examples=400, deadline=None)
@given(st.lists(st.one_of(defined, owl_axiom), max_size=7), st.lists(fact, max_size=4), st.lists(merging, max_size=8))
def test_everything_derived_is_foreseen(axioms: list[str], background: list[str], event: list[str]) -> None:
    """For random ontologies of all kinds of axioms, nothing is derived that was not foreseen, and not more of it."""
    assert_covers(triples(" ".join([*axioms, *background])), set(triples(" ".join(event))))


def test_an_inverse_leads_there_and_not_back() -> None:
    """From a property follows its inverse; that from the inverse follows the property says nothing new."""
    found = reach_of(":room owl:inverseOf :holds . :holds rdfs:domain :Room .").of_property(
        "<urn:x:room>", literal=False
    )
    assert found == Consequences(frozenset({"<urn:x:Room>"}), frozenset({"<urn:x:holds>"}), 3)


def test_a_definition_leads_to_the_class_and_not_back() -> None:
    """Whatever makes a member of a defined class was true of it before: its parts, and its value."""
    ontology = """:Loud owl:equivalentClass [ owl:intersectionOf
                    ( :Alarm [ owl:onProperty :level ; owl:hasValue 5 ] ) ] . :Alarm rdfs:subClassOf :Event ."""
    found = reach_of(ontology).of_property("<urn:x:level>", literal=True)
    assert found.classes == {"<urn:x:Loud>"}
    assert not found.properties


def test_rules_feed_rules() -> None:
    """What a rule derives sets off the next one, through the hierarchy too."""
    ontology = """:p owl:inverseOf :q . :q rdfs:domain :A . :B owl:intersectionOf ( :A :C ) .
                  :B rdfs:subClassOf [ owl:onProperty :r ; owl:hasValue 5 ] ."""
    found = reach_of(ontology).of_property("<urn:x:p>", literal=False)
    assert found.classes == {"<urn:x:A>", "<urn:x:B>"}
    assert found.properties == {"<urn:x:q>", "<urn:x:r>"}
    assert (found.is_far, found.merges) == (True, False)


def test_a_literal_is_neither_subject_nor_merged() -> None:
    """A functional property with a literal sets nothing off; with an individual it may merge."""
    reach = reach_of(":p a owl:FunctionalProperty ; owl:inverseOf :q .")
    assert reach.of_property("<urn:x:p>", literal=True) == NOTHING
    assert reach.of_property("<urn:x:p>", literal=False).merges


def test_names_the_ontology_does_not_know_lead_nowhere() -> None:
    """An event's own names set nothing off, and are not remembered."""
    reach = reach_of(":p a owl:SymmetricProperty .")
    assert (reach.of_class("<urn:x:A>"), reach.of_property("<urn:x:r>", literal=False)) == (NOTHING, NOTHING)
    assert not reach._known


@pytest.mark.parametrize(
    "ontology",
    [
        ":a owl:sameAs :b .",
        ":kind rdfs:subPropertyOf rdf:type .",
        ":kind owl:inverseOf rdf:type .",
        ":A rdfs:subClassOf [ owl:onProperty rdf:type ; owl:hasValue :B ] .",
    ],
)
def test_anything_may_follow_when_types_are_properties_or_individuals_are_one(ontology: str) -> None:
    """Where rdf:type is a property like others, or the background merges, nothing can be said in advance."""
    assert Reasoner(triples(ontology)).reach is None


def test_the_background_may_have_the_other_half() -> None:
    """A rule needs several triples; those the event does not bring may be in the background."""
    ontology = ":A rdfs:subClassOf [ owl:onProperty :p ; owl:allValuesFrom :B ] . :a a :A ."
    assert reach_of(ontology).of_property("<urn:x:p>", literal=False).classes == {"<urn:x:B>"}
    assert_covers(triples(ontology), set(triples(":a :p :e .")))
