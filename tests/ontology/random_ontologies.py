"""Small random ontologies and facts in Turtle, for comparing reasoners."""

from __future__ import annotations

from hypothesis import strategies as st

from motet.ontology.load import parse_ontology
from motet.ontology.owl_names import Triple

PREFIXES = """
@prefix : <urn:x:> . @prefix owl: <http://www.w3.org/2002/07/owl#> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
"""


def triples(turtle: str) -> tuple[Triple, ...]:
    return parse_ontology((PREFIXES + turtle).encode()).triples


CLASSES = [f":C{i}" for i in range(5)]
PROPERTIES = [f":p{i}" for i in range(4)]
INDIVIDUALS = [f":i{i}" for i in range(4)]
one_class, one_property, one_individual = (st.sampled_from(names) for names in (CLASSES, PROPERTIES, INDIVIDUALS))

restriction = st.one_of(
    st.builds("[ owl:onProperty {} ; owl:someValuesFrom {} ]".format, one_property, one_class),
    st.builds("[ owl:onProperty {} ; owl:someValuesFrom owl:Thing ]".format, one_property),
    st.builds("[ owl:onProperty {} ; owl:allValuesFrom {} ]".format, one_property, one_class),
    st.builds("[ owl:onProperty {} ; owl:hasValue {} ]".format, one_property, one_individual),
    st.builds("[ owl:onProperty {} ; owl:maxCardinality 1 ]".format, one_property),
    st.builds("[ owl:onProperty {} ; owl:maxQualifiedCardinality 1 ; owl:onClass {} ]".format, one_property, one_class),
    st.builds("[ owl:intersectionOf ( {} {} ) ]".format, one_class, one_class),
    st.builds("[ owl:unionOf ( {} {} ) ]".format, one_class, one_class),
    st.builds("[ owl:oneOf ( {} {} ) ]".format, one_individual, one_individual),
)
rdfs_axiom = st.one_of(
    st.builds("{} rdfs:subClassOf {} .".format, one_class, one_class),
    st.builds("{} rdfs:subPropertyOf {} .".format, one_property, one_property),
    st.builds("{} rdfs:domain {} .".format, one_property, one_class),
    st.builds("{} rdfs:range {} .".format, one_property, one_class),
)
defined = st.builds("{} owl:equivalentClass {} .".format, one_class, restriction)
owl_axiom = st.one_of(
    rdfs_axiom,
    st.builds("{} a owl:Class .".format, one_class),
    st.builds("{} rdfs:subClassOf {} .".format, one_class, restriction),
    st.builds("{} rdfs:subClassOf {} .".format, restriction, one_class),
    defined,
    st.builds("{} owl:equivalentProperty {} .".format, one_property, one_property),
    st.builds("{} owl:inverseOf {} .".format, one_property, one_property),
    st.builds("{} owl:propertyChainAxiom ( {} {} ) .".format, one_property, one_property, one_property),
    st.builds("{} owl:hasKey ( {} {} ) .".format, one_class, one_property, one_property),
    st.builds(
        "{} a owl:{}Property .".format,
        one_property,
        st.sampled_from(["Symmetric", "Transitive", "Functional", "InverseFunctional"]),
    ),
)
relation = st.one_of(
    st.builds("{} a {} .".format, one_individual, one_class),
    st.builds("{} {} {} .".format, one_individual, one_property, one_individual),
)
fact = st.one_of(relation, st.builds("{} {} {} .".format, one_individual, one_property, st.sampled_from(["1", "2"])))
merging = st.one_of(fact, fact, fact, st.builds("{} owl:sameAs {} .".format, one_individual, one_individual))
