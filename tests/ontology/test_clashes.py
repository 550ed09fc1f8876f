"""Contradictions by named examples of each rule."""

from __future__ import annotations

import pytest

from motet.ontology.clashes import Clashes
from motet.ontology.entailment import Reasoner
from motet.ontology.read import parse
from motet.ontology.vocabulary import Triple

PREFIXES = """
@prefix : <urn:x:> . @prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
"""


def triples(turtle: str) -> tuple[Triple, ...]:
    return parse((PREFIXES + turtle).encode()).triples


CLASHES = {
    "cax-dw": (":A owl:disjointWith :B . :C rdfs:subClassOf :B .", ":e a :A, :C ."),
    "cax-dw of many": ("[] a owl:AllDisjointClasses ; owl:members ( :A :B :C ) .", ":e a :A, :C ."),
    "cax-dw of a disjoint union": (":U owl:disjointUnionOf ( :A :B ) .", ":e a :A, :B ."),
    "cls-com": (":A owl:complementOf :B .", ":e a :A, :B ."),
    "cls-nothing2": (":A rdfs:subClassOf owl:Nothing .", ":e a :A ."),
    "cls-maxc1": (":A rdfs:subClassOf [ owl:onProperty :p ; owl:maxCardinality 0 ] .", ":e a :A ; :p :f ."),
    "cls-maxc1 qualified": (
        ":A rdfs:subClassOf [ owl:onProperty :p ; owl:maxQualifiedCardinality 0 ; owl:onClass :B ] . :b a :B .",
        ":e a :A ; :p :b .",
    ),
    "prp-irp": (":p a owl:IrreflexiveProperty .", ":e :p :e ."),
    "prp-asyp": (":p a owl:AsymmetricProperty . :f :p :e .", ":e :p :f ."),
    "prp-pdw": (":p owl:propertyDisjointWith :q .", ":e :p :f ; :q :f ."),
    "prp-npa": (
        "[] a owl:NegativePropertyAssertion ; owl:sourceIndividual :e ; owl:assertionProperty :p ; owl:targetValue 5 .",
        ":e :p 5 .",
    ),
    "eq-diff": (":a owl:differentFrom :b .", ":b owl:sameAs :a ."),
    "eq-diff of many": ("[] a owl:AllDifferent ; owl:distinctMembers ( :a :b :c ) .", ":b owl:sameAs :a ."),
    "eq-diff stated by the event": (":a owl:sameAs :b .", ":a owl:differentFrom :b ."),
}


@pytest.mark.parametrize("name", CLASHES)
def test_each_contradiction_is_found_in_the_event(name: str) -> None:
    """Each rule that concludes false finds the event that breaks it, and nothing in the background before."""
    ontology, event = CLASHES[name]
    clashes = Clashes(Reasoner(triples(ontology)))
    assert clashes.in_background() == ()
    assert {clash.rule for clash in clashes.in_event(triples(event))} == {name.split(maxsplit=1)[0]}


@pytest.mark.parametrize("name", CLASHES)
def test_each_contradiction_is_found_in_the_background(name: str) -> None:
    """The same facts in the ontology itself are found there."""
    ontology, event = CLASHES[name]
    clashes = Clashes(Reasoner(triples(ontology + event)))
    assert name.split(maxsplit=1)[0] in {clash.rule for clash in clashes.in_background()}


def test_an_event_without_contradiction_has_none() -> None:
    """What the background does wrong is not the event's fault."""
    clashes = Clashes(Reasoner(triples(":A owl:disjointWith :B . :x a :A, :B .")))
    assert clashes.in_event(triples(":e a :A .")) == ()


def test_matching_goes_on() -> None:
    """An event that contradicts the ontology is closed like any other."""
    reasoner = Reasoner(triples(":A owl:disjointWith :B ; rdfs:subClassOf :C ."))
    assert reasoner.close(triples(":e a :A, :B .")) == set(triples(":e a :A, :B, :C ."))
