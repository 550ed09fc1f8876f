"""Classification: the order of classes, equivalences, unsatisfiable classes and their reasons."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from motet.ontology.entailment import Reasoner
from motet.ontology.explain import explain_inconsistency, explain_unsatisfiable
from motet.ontology.hierarchy import Hierarchy, classify, hierarchy_from_parents
from motet.ontology.inconsistencies import Inconsistency, InconsistencyChecker
from motet.ontology.load import Ontology, parse_ontology

PREFIXES = """
@prefix : <urn:x:> . @prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
"""


def ontology(turtle: str) -> Ontology:
    return Ontology(parse_ontology((PREFIXES + turtle).encode()).triples)


def inconsistencies(of: Ontology) -> tuple[Inconsistency, ...]:
    return InconsistencyChecker(Reasoner(of.triples)).check_background()


def short(hierarchy: Hierarchy) -> dict[str, set[str]]:
    """Groups and their direct parents by local name."""
    names = ["=".join(name[7:-1] for name in group) for group in hierarchy.groups]
    return {names[node]: {names[parent] for parent in parents} for node, parents in enumerate(hierarchy.parents)}


def test_only_direct_parents_are_parents() -> None:
    """A superclass that is also a superclass of a superclass is not a direct parent."""
    found = classify(ontology(":A rdfs:subClassOf :B, :C . :B rdfs:subClassOf :C ."))
    assert short(found) == {"C": set(), "B": {"C"}, "A": {"B"}}


def test_equivalent_classes_are_one_node() -> None:
    """Classes that subsume each other are one node, whichever axioms imply it."""
    found = classify(
        ontology(":A rdfs:subClassOf :B . :B rdfs:subClassOf :C . :C rdfs:subClassOf :A . :D owl:equivalentClass :A .")
    )
    assert short(found) == {"A=B=C=D": set()}


def test_defined_classes_are_classified() -> None:
    """A class whose axioms satisfy the definition of another is its subclass."""
    found = classify(
        ontology(
            """:Action owl:equivalentClass
                 [ owl:intersectionOf ( :Film [ owl:onProperty :genre ; owl:someValuesFrom :Fast ] ) ] .
               :Heist rdfs:subClassOf :Film, [ owl:onProperty :genre ; owl:someValuesFrom :Chase ] .
               :Chase rdfs:subClassOf :Fast ."""
        )
    )
    assert short(found) == {"Fast": set(), "Film": set(), "Action": {"Film"}, "Chase": {"Fast"}, "Heist": {"Action"}}


UNSATISFIABLE = """
:Cat rdfs:subClassOf :Pet . :Dog rdfs:subClassOf :Pet . :Cat owl:disjointWith :Dog .
:CatDog rdfs:subClassOf :Cat, :Hound . :Hound rdfs:subClassOf :Dog . :Bird rdfs:subClassOf :Pet .
"""


def test_unsatisfiable_classes_are_marked() -> None:
    """An unsatisfiable class is marked, and its superclasses are those of its axioms."""
    found = classify(ontology(UNSATISFIABLE))
    assert found.unsatisfiable == {"<urn:x:CatDog>"}
    assert short(found)["CatDog"] == {"Cat", "Hound"}


def test_unsatisfiable_classes_are_explained() -> None:
    """The explanation contains exactly the axioms that make the class unsatisfiable."""
    assert explain_unsatisfiable(ontology(UNSATISFIABLE), "<urn:x:CatDog>") == (
        "<urn:x:Cat> owl:disjointWith <urn:x:Dog>",
        "<urn:x:CatDog> rdfs:subClassOf <urn:x:Cat>",
        "<urn:x:CatDog> rdfs:subClassOf <urn:x:Hound>",
        "<urn:x:Hound> rdfs:subClassOf <urn:x:Dog>",
    )
    assert explain_unsatisfiable(ontology(UNSATISFIABLE), "<urn:x:Bird>") == ()


def test_an_inconsistent_ontology_is_explained_through_its_expressions() -> None:
    """Inconsistent triples and class expressions are shown completely, in one line each."""
    bad = ontology(
        """:A rdfs:subClassOf [ owl:onProperty :p ; owl:allValuesFrom :B ] . :B owl:disjointWith :C .
           :x a :A ; :p :y . :y a :C ; :q :z . :D rdfs:subClassOf :A ."""
    )
    assert explain_inconsistency(bad, inconsistencies(bad)[0]) == (
        "<urn:x:A> rdfs:subClassOf [ owl:allValuesFrom <urn:x:B> ; owl:onProperty <urn:x:p> ]",
        "<urn:x:B> owl:disjointWith <urn:x:C>",
        "<urn:x:x> <urn:x:p> <urn:x:y>",
        "<urn:x:x> rdf:type <urn:x:A>",
        "<urn:x:y> rdf:type <urn:x:C>",
    )
    assert inconsistencies(ontology(UNSATISFIABLE)) == ()


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=25))
def test_the_hierarchy_is_the_closure_of_the_axioms(pairs: list[tuple[int, int]]) -> None:
    """For any subclass axioms, cycles included, one class subsumes another iff there is a path between them."""
    parents = {f"c{i}": [f"c{b}" for a, b in pairs if a == i] for i in range(10)}
    reach = {i: {i} for i in range(10)}
    for _ in range(10):
        for a, b in pairs:
            reach[a] |= reach[b]
    found = hierarchy_from_parents(parents)
    assert all(found.subsumes(f"c{b}", f"c{a}") == (b in reach[a]) for a in range(10) for b in range(10))
    assert all(parent < node for node, above in enumerate(found.parents) for parent in above)
