"""Inconsistencies, with an example of each rule."""

from __future__ import annotations

import pytest

from motet.ontology.entailment import Reasoner
from motet.ontology.inconsistencies import InconsistencyChecker
from motet.ontology.load import parse_ontology
from motet.ontology.owl_names import Triple

PREFIXES = """
@prefix : <urn:x:> . @prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
"""


def triples(turtle: str) -> tuple[Triple, ...]:
    return parse_ontology((PREFIXES + turtle).encode()).triples


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
def test_each_inconsistency_is_found_in_the_event(name: str) -> None:
    """Each rule that concludes false finds the inconsistency of its event, and none in the background."""
    ontology, event = CLASHES[name]
    clashes = InconsistencyChecker(Reasoner(triples(ontology)))
    assert clashes.check_background() == ()
    assert {clash.rule for clash in clashes.check_event(triples(event))} == {name.split(maxsplit=1)[0]}


@pytest.mark.parametrize("name", CLASHES)
def test_each_inconsistency_is_found_in_the_background(name: str) -> None:
    """The same triples in the ontology are found as inconsistencies of the background."""
    ontology, event = CLASHES[name]
    clashes = InconsistencyChecker(Reasoner(triples(ontology + event)))
    assert name.split(maxsplit=1)[0] in {clash.rule for clash in clashes.check_background()}


def test_an_event_does_not_inherit_inconsistencies() -> None:
    """An inconsistency of the background is not reported for an event."""
    clashes = InconsistencyChecker(Reasoner(triples(":A owl:disjointWith :B . :x a :A, :B .")))
    assert clashes.check_event(triples(":e a :A .")) == ()


def test_an_inconsistent_event_is_closed() -> None:
    """An event that is inconsistent with the ontology has a closure."""
    reasoner = Reasoner(triples(":A owl:disjointWith :B ; rdfs:subClassOf :C ."))
    assert reasoner.close(triples(":e a :A, :B .")) == set(triples(":e a :A, :B, :C ."))
