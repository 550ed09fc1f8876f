"""The reasoner against full materialisation by owlrl, an independent implementation of the same profile."""

from __future__ import annotations

import owlrl
import rdflib
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ontology import random_ontologies as generator

from motet.ontology import owl_names as v
from motet.ontology.entailment import Reasoner
from motet.ontology.owl_names import Triple

OURS = "<urn:x:"
#: owlrl takes a name to be below itself only when it is declared, and then knows equal restrictions for what they are.
DECLARED = "".join(
    [f"{name} a owl:Class ." for name in generator.CLASSES]
    + [f"{name} a owl:ObjectProperty ." for name in generator.PROPERTIES]
)


#: owlrl compares all properties of a key but the last, and so takes different individuals for one.
without_keys = generator.owl_axiom.filter(lambda axiom: "hasKey" not in axiom)


def materialised(triples: tuple[Triple, ...]) -> set[Triple]:
    graph = rdflib.Graph().parse(data="".join(f"{s} {p} {o} .\n" for s, p, o in triples), format="nt")
    owlrl.DeductiveClosure(owlrl.OWLRL_Semantics).expand(graph)
    return {(s.n3(), p.n3(), o.n3()) for s, p, o in graph}


def about_names(found: set[Triple]) -> set[Triple]:
    """The triples of named individuals, classes and properties, without the axiomatic triples of owlrl."""
    return {
        (s, p, o)
        for s, p, o in found
        if s.startswith(OURS)
        and o.startswith(OURS)
        and (p.startswith(OURS) or p in (v.TYPE, v.SUBCLASS, v.SAME))
        and s != o
    }


@settings(max_examples=60, deadline=None)
@given(
    st.lists(without_keys, max_size=6),
    st.lists(generator.relation, max_size=3),
    st.lists(generator.relation, min_size=1, max_size=4),
)
def test_owl_rl_agrees_with_owlrl(axioms: list[str], background: list[str], event: list[str]) -> None:
    """Background and event closure together are owlrl's materialisation of both, for any ontology and event."""
    ontology, own = generator.triples("".join([DECLARED, *axioms, *background])), generator.triples("".join(event))
    reasoner = Reasoner(ontology)
    assert about_names(set(reasoner.background | reasoner.close(own))) == about_names(materialised(ontology + own))
