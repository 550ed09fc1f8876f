"""The reasoner compared with examples of each rule and with a naive closure."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ontology import naive_closure as naive
from tests.ontology import random_ontologies

from motet.model.errors import LimitError
from motet.ontology.entailment import Entailment, Reasoner
from motet.ontology.owl_names import Triple

triples, owl_axiom, merging = random_ontologies.triples, random_ontologies.owl_axiom, random_ontologies.merging


def derived(ontology: str, event: str, mode: Entailment = Entailment.OWL_RL) -> set[Triple]:
    """The triples that the reasoner infers from an event."""
    own = triples(event)
    return Reasoner(triples(ontology), mode).close(own) - set(own)


RULES = {
    "cax-sco": (":A rdfs:subClassOf :B . :B rdfs:subClassOf :C .", ":e a :A .", ":e a :B, :C ."),
    "prp-spo1": (":p rdfs:subPropertyOf :q . :q rdfs:subPropertyOf :r .", ":e :p 1 .", ":e :q 1 ; :r 1 ."),
    "prp-dom": (":p rdfs:domain :A . :A rdfs:subClassOf :B .", ":e :p 1 .", ":e a :A, :B ."),
    "prp-rng": (":p rdfs:range :A .", ":e :p :y .", ":y a :A ."),
    "prp-rng of a literal": (":p rdfs:range :A .", ":e :p 1 .", ""),
    "scm-dom2": (":p rdfs:subPropertyOf :q . :q rdfs:domain :A .", ":e :p 1 .", ":e :q 1 ; a :A ."),
    "cax-eqc": (":A owl:equivalentClass :B .", ":e a :A . :f a :B .", ":e a :B . :f a :A ."),
    "prp-eqp": (":p owl:equivalentProperty :q .", ":e :p 1 . :f :q 2 .", ":e :q 1 . :f :p 2 ."),
    "prp-inv1": (":p owl:inverseOf :q .", ":e :p :f .", ":f :q :e ."),
    "prp-inv2": (":p owl:inverseOf :q .", ":e :q :f .", ":f :p :e ."),
    "inverse of a literal": (":p owl:inverseOf :q .", ":e :p 1 .", ""),
    "prp-symp": (":p a owl:SymmetricProperty .", ":e :p :f .", ":f :p :e ."),
    "prp-trp": (
        ":p a owl:TransitiveProperty . :room :p :floor . :floor :p :house .",
        ":e :p :room .",
        ":e :p :floor, :house .",
    ),
    "prp-trp into the background": (
        ":p a owl:TransitiveProperty . :room :p :floor .",
        ":floor :p :house .",
        ":room :p :house .",
    ),
    "prp-fp": (
        ":p a owl:FunctionalProperty . :e :p :a .",
        ":e :p :b .",
        ":a owl:sameAs :b, :a . :b owl:sameAs :a, :b .",
    ),
    "prp-fp of literals": (":p a owl:FunctionalProperty .", ":e :p 1, 2 .", ""),
    "prp-ifp": (
        ":p a owl:InverseFunctionalProperty . :a :p 1 .",
        ":b :p 1 .",
        ":a owl:sameAs :b, :a . :b owl:sameAs :a, :b .",
    ),
    "prp-spo2": (
        ":uncle owl:propertyChainAxiom ( :parent :parent :sibling ) . :b :parent :c .",
        ":a :parent :b . :c :sibling :d .",
        ":a :uncle :d .",
    ),
    "prp-key": (
        ":A owl:hasKey ( :p :q ) . :a a :A ; :p 1 ; :q 2 .",
        ":b a :A ; :p 1 ; :q 2 .",
        ":a owl:sameAs :b, :a . :b owl:sameAs :a, :b .",
    ),
    "cls-int1": (":A owl:intersectionOf ( :B :C ) .", ":e a :B, :C . :f a :B .", ":e a :A ."),
    "cls-int2": (":A owl:intersectionOf ( :B :C ) .", ":e a :A .", ":e a :B, :C ."),
    "cls-uni": (":A owl:unionOf ( :B :C ) .", ":e a :B .", ":e a :A ."),
    "cls-svf1": (
        ":A owl:equivalentClass [ owl:onProperty :p ; owl:someValuesFrom :B ] . :b a :B .",
        ":e :p :b . :f :p :c . :c a :B .",
        ":e a :A . :f a :A .",
    ),
    "cls-svf1 of a datatype": (
        ":A owl:equivalentClass [ owl:onProperty :p ; owl:someValuesFrom xsd:decimal ] .",
        ':e :p 1 . :f :p "one" .',
        ":e a :A .",
    ),
    "cls-svf2": (
        ":A owl:equivalentClass [ owl:onProperty :p ; owl:someValuesFrom owl:Thing ] .",
        ":e :p :b .",
        ":e a :A .",
    ),
    "at least one is some": (
        ":A owl:equivalentClass [ owl:onProperty :p ; owl:minQualifiedCardinality 1 ; owl:onClass :B ] .",
        ":e :p :b . :b a :B .",
        ":e a :A .",
    ),
    "cls-avf": (
        ":A rdfs:subClassOf [ owl:onProperty :p ; owl:allValuesFrom :B ] .",
        ":e a :A ; :p :b, 1 .",
        ":b a :B .",
    ),
    "cls-hv1": (":A rdfs:subClassOf [ owl:onProperty :p ; owl:hasValue 5 ] .", ":e a :A .", ":e :p 5 ."),
    "cls-hv2": (":A owl:equivalentClass [ owl:onProperty :p ; owl:hasValue 5 ] .", ":e :p 5 .", ":e a :A ."),
    "cls-oo": (
        ":A owl:oneOf ( :a :b ) . :A rdfs:subClassOf :B . :q a owl:SymmetricProperty .",
        ":e :q :a .",
        ":a :q :e .",
    ),
    "cls-maxc2": (
        ':A rdfs:subClassOf [ owl:onProperty :p ; owl:maxCardinality "1"^^xsd:nonNegativeInteger ] .',
        ":e a :A ; :p :a, :b .",
        ":a owl:sameAs :b, :a . :b owl:sameAs :a, :b .",
    ),
    "cls-maxqc3": (
        ":A rdfs:subClassOf [ owl:onProperty :p ; owl:maxQualifiedCardinality 1 ; owl:onClass :B ] .",
        ":e a :A ; :p :a, :b, :c . :a a :B . :b a :B .",
        ":a owl:sameAs :b, :a . :b owl:sameAs :a, :b .",
    ),
    "eq-rep": (":a owl:sameAs :b . :b :p 1 . :q rdfs:domain :A .", ":e :q :a .", ":e a :A ; :q :b ."),
    "eq-rep-p": (":p owl:sameAs :q .", ":e :p 1 .", ":e :q 1 ."),
    "scm-svf1": (
        """:A rdfs:subClassOf [ owl:onProperty :p ; owl:someValuesFrom :B ] . :B rdfs:subClassOf :C .
           :D owl:equivalentClass [ owl:onProperty :p ; owl:someValuesFrom :C ] .""",
        ":e a :A .",
        ":e a :D .",
    ),
    "scm-avf2": (
        """:q rdfs:subPropertyOf :p . :A rdfs:subClassOf [ owl:onProperty :p ; owl:allValuesFrom :B ] .
           :D owl:equivalentClass [ owl:onProperty :q ; owl:allValuesFrom :B ] .""",
        ":e a :A .",
        ":e a :D .",
    ),
    "scm-hv": (
        """:p rdfs:subPropertyOf :q . :D owl:equivalentClass [ owl:onProperty :q ; owl:hasValue :v ] .
           :A rdfs:subClassOf [ owl:onProperty :p ; owl:hasValue :v ] .""",
        ":e a :A .",
        ":e a :D ; :p :v ; :q :v .",
    ),
    "scm-cls": (":A a owl:Class .", ":e a :A .", ":e a owl:Thing ."),
    "a property of rdf:type": (
        ":kind rdfs:subPropertyOf rdf:type . :A rdfs:subClassOf :B .",
        ":e :kind :A .",
        ":e a :A, :B .",
    ),
    "an inverse expression": (
        ":A owl:equivalentClass [ owl:onProperty [ owl:inverseOf :p ] ; owl:someValuesFrom owl:Thing ] .",
        ":e :p :f .",
        ":f a :A .",
    ),
    "a defined topic class": (
        """:Action owl:equivalentClass [ owl:intersectionOf
             ( :Film [ owl:onProperty :genre ; owl:someValuesFrom :ActionGenre ] ) ] .
           :heist a :Chase . :Chase rdfs:subClassOf :ActionGenre .""",
        ":e a :Film ; :genre :heist .",
        ":e a :Action .",
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_each_rule_infers_what_the_profile_defines(name: str) -> None:
    """Each OWL 2 RL rule that can fire on one event infers exactly what the tables of the profile define."""
    ontology, event, expected = RULES[name]
    assert derived(ontology, event) == set(triples(expected))


#: The textbook has neither datatypes nor minimum cardinalities.
TEXTBOOK = [name for name in RULES if "datatype" not in name and "at least" not in name]


@pytest.mark.parametrize("name", TEXTBOOK)
def test_the_naive_closure_agrees_on_each_rule(name: str) -> None:
    """The naive closure, used as the oracle below, infers the triples of the named examples."""
    ontology, event, _ = RULES[name]
    reasoner = Reasoner(triples(ontology))
    assert reasoner.background | reasoner.close(triples(event)) == naive.owl_rl(triples(ontology), triples(event))


def test_rdfs_uses_four_kinds_of_axioms() -> None:
    """In mode rdfs, equivalence, inverses and owl:sameAs have no effect; subclass, subproperty, domain and range do."""
    ontology = """:A rdfs:subClassOf :B . :B owl:equivalentClass :C . :p rdfs:subPropertyOf :q ; owl:inverseOf :r .
                  :q rdfs:domain :D ; rdfs:range :E . :f owl:sameAs :g ."""
    found = derived(ontology, ":e a :A ; :p :f .", Entailment.RDFS)
    assert found == set(triples(":e a :B, :D ; :q :f . :f a :E ."))


def test_mode_none_infers_nothing() -> None:
    """In mode none, the closures of event and background are their stated triples."""
    reasoner = Reasoner(triples(":A rdfs:subClassOf :B . :b a :A ."), Entailment.NONE)
    assert reasoner.close(triples(":e a :A .")) == set(triples(":e a :A ."))
    assert reasoner.background == set(triples(":A rdfs:subClassOf :B . :b a :A ."))


def test_an_event_does_not_add_axioms() -> None:
    """An axiom in an event is an ordinary triple: a publisher cannot change the meaning of classes."""
    assert derived(":A rdfs:subClassOf :B .", ":B rdfs:subClassOf :C . :e a :A .") == set(triples(":e a :B ."))


def test_triples_of_the_background_are_not_inferred_again() -> None:
    """The closure of an event does not contain triples of the closed background."""
    assert derived(":p rdfs:range :A . :b a :A .", ":e :p :b .") == set()


def test_results_have_no_class_expressions() -> None:
    """No result contains a blank node of a class expression."""
    reasoner = Reasoner(triples(":A rdfs:subClassOf [ owl:onProperty :p ; owl:someValuesFrom :B ] . :b a :A ."))
    found = reasoner.background | reasoner.close(triples(":e a :A ."))
    assert [t for t in found if any(term.startswith("_") for term in t)] == []


def test_a_hierarchy_needs_no_rules() -> None:
    """An ontology of subclasses, subproperties, domains and ranges only is closed without the rules."""
    plain = Reasoner(triples(":A rdfs:subClassOf :B . :p rdfs:domain :A . :a :p 1 ."))
    rich = Reasoner(triples(":p a owl:TransitiveProperty ."))
    assert (plain.is_hierarchy_only, rich.is_hierarchy_only) == (True, False)


def test_an_event_may_state_same_as() -> None:
    """owl:sameAs in an event merges its individuals, even if the ontology is only a hierarchy."""
    found = derived(":A rdfs:subClassOf :B .", ":a owl:sameAs :b . :a a :A .")
    assert found == set(triples(":a a :B ; owl:sameAs :a . :b a :A, :B ; owl:sameAs :a, :b ."))


def test_too_many_consequences_are_refused() -> None:
    """An event whose closure exceeds the limit raises LimitError."""
    reasoner = Reasoner(triples(":p a owl:TransitiveProperty ."), limit=100)
    chain = "".join(f":n{i} :p :n{i + 1} ." for i in range(50))
    with pytest.raises(LimitError, match="more than 650 triples are inferred"):
        reasoner.close(triples(chain))


def test_a_reasoner_can_be_pickled() -> None:
    """A pickled reasoner, as workers use it, gives the same closures."""
    reasoner = Reasoner(triples(RULES["a defined topic class"][0]))
    event = triples(RULES["a defined topic class"][1])
    assert pickle.loads(pickle.dumps(reasoner)).close(event) == reasoner.close(event)  # noqa: S301  (our own bytes)


@settings(max_examples=500, deadline=None)
@given(st.lists(owl_axiom, max_size=6), st.lists(merging, max_size=3), st.lists(merging, min_size=1, max_size=4))
def test_owl_rl_agrees_with_the_naive_closure(axioms: list[str], background: list[str], event: list[str]) -> None:
    """Background and event closure together are the full materialisation of both, for any ontology and event."""
    ontology, own = triples("".join(axioms + background)), triples("".join(event))
    reasoner = Reasoner(ontology)
    assert reasoner.background | reasoner.close(own) == naive.owl_rl(ontology, own)


@settings(max_examples=100, deadline=None)
@given(st.lists(owl_axiom, max_size=6), st.lists(merging, max_size=3), st.lists(merging, min_size=1, max_size=4))
def test_rdfs_agrees_with_the_naive_closure(axioms: list[str], background: list[str], event: list[str]) -> None:
    """In mode rdfs too, background and event closure together are the full materialisation of both."""
    ontology, own = triples("".join(axioms + background)), triples("".join(event))
    reasoner = Reasoner(ontology, Entailment.RDFS)
    assert reasoner.background | reasoner.close(own) == naive.rdfs(ontology, own)
