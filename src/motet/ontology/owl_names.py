"""The RDFS and OWL names that reasoning uses, as canonical N-Triples terms."""

from __future__ import annotations

from motet.model.terms import OWL, RDF, RDF_TYPE, RDFS, XSD

Triple = tuple[str, str, str]

#: Namespaces that are abbreviated in messages.
PREFIXES = {RDF: "rdf:", RDFS: "rdfs:", OWL: "owl:", XSD: "xsd:"}

TYPE = RDF_TYPE
FIRST, REST, NIL = f"<{RDF}first>", f"<{RDF}rest>", f"<{RDF}nil>"
SUBCLASS, SUBPROPERTY = f"<{RDFS}subClassOf>", f"<{RDFS}subPropertyOf>"
DOMAIN, RANGE, RDFS_CLASS, ANY_LITERAL = f"<{RDFS}domain>", f"<{RDFS}range>", f"<{RDFS}Class>", f"<{RDFS}Literal>"
LABEL, DATATYPE = f"<{RDFS}label>", f"<{RDFS}Datatype>"

THING, NOTHING, OWL_CLASS, RESTRICTION = (f"<{OWL}{name}>" for name in ("Thing", "Nothing", "Class", "Restriction"))
ONTOLOGY, IMPORTS, VERSION = f"<{OWL}Ontology>", f"<{OWL}imports>", f"<{OWL}versionIRI>"
SAME, DIFFERENT = f"<{OWL}sameAs>", f"<{OWL}differentFrom>"
EQUIVALENT_CLASS, EQUIVALENT_PROPERTY = f"<{OWL}equivalentClass>", f"<{OWL}equivalentProperty>"
INVERSE, CHAIN, KEY = f"<{OWL}inverseOf>", f"<{OWL}propertyChainAxiom>", f"<{OWL}hasKey>"
SYMMETRIC, TRANSITIVE = f"<{OWL}SymmetricProperty>", f"<{OWL}TransitiveProperty>"
FUNCTIONAL, INVERSE_FUNCTIONAL = f"<{OWL}FunctionalProperty>", f"<{OWL}InverseFunctionalProperty>"
ASYMMETRIC, IRREFLEXIVE = f"<{OWL}AsymmetricProperty>", f"<{OWL}IrreflexiveProperty>"
INTERSECTION, UNION, DISJOINT_UNION = f"<{OWL}intersectionOf>", f"<{OWL}unionOf>", f"<{OWL}disjointUnionOf>"
ONE_OF, COMPLEMENT = f"<{OWL}oneOf>", f"<{OWL}complementOf>"
ON_PROPERTY, ON_CLASS, ON_DATA_RANGE = f"<{OWL}onProperty>", f"<{OWL}onClass>", f"<{OWL}onDataRange>"
SOME, ONLY, VALUE = f"<{OWL}someValuesFrom>", f"<{OWL}allValuesFrom>", f"<{OWL}hasValue>"
MIN, MAX, EXACTLY = f"<{OWL}minCardinality>", f"<{OWL}maxCardinality>", f"<{OWL}cardinality>"
MIN_QUALIFIED, MAX_QUALIFIED = f"<{OWL}minQualifiedCardinality>", f"<{OWL}maxQualifiedCardinality>"
EXACTLY_QUALIFIED = f"<{OWL}qualifiedCardinality>"
DISJOINT, PROPERTY_DISJOINT = f"<{OWL}disjointWith>", f"<{OWL}propertyDisjointWith>"
ALL_DISJOINT, ALL_DISJOINT_PROPERTIES = f"<{OWL}AllDisjointClasses>", f"<{OWL}AllDisjointProperties>"
ALL_DIFFERENT, MEMBERS, DISTINCT_MEMBERS = f"<{OWL}AllDifferent>", f"<{OWL}members>", f"<{OWL}distinctMembers>"
NEGATIVE = f"<{OWL}NegativePropertyAssertion>"
SOURCE, ASSERTION, TARGET, TARGET_VALUE = (
    f"<{OWL}{name}>" for name in ("sourceIndividual", "assertionProperty", "targetIndividual", "targetValue")
)

_OTHER_STRUCTURAL = ("onDatatype", "withRestrictions", "datatypeComplementOf", "annotatedSource")
_FACETS = (
    "minInclusive",
    "minExclusive",
    "maxInclusive",
    "maxExclusive",
    "minLength",
    "maxLength",
    "length",
    "pattern",
)

#: Predicates whose subject, when it is a blank node, is part of an axiom and not an individual.
STRUCTURAL_PREDICATES = frozenset(
    [
        *(FIRST, REST, SUBCLASS, SUBPROPERTY, DOMAIN, RANGE, EQUIVALENT_CLASS, EQUIVALENT_PROPERTY, INVERSE),
        *(CHAIN, KEY, INTERSECTION, UNION, DISJOINT_UNION, ONE_OF, COMPLEMENT, ON_PROPERTY, SOME, ONLY, VALUE),
        *(DISJOINT, PROPERTY_DISJOINT, MEMBERS, DISTINCT_MEMBERS, SOURCE, IMPORTS),
        *(f"<{OWL}{name}>" for name in _OTHER_STRUCTURAL),
        *(f"<{XSD}{facet}>" for facet in _FACETS),
    ]
)
#: Predicates whose object, when it is a blank node, is part of an axiom and not an individual.
STRUCTURAL_OBJECTS = STRUCTURAL_PREDICATES - {FIRST, VALUE, SOURCE, f"<{OWL}annotatedSource>"}
#: Types that make a blank node part of an axiom.
STRUCTURAL_TYPES = frozenset(
    [
        *(OWL_CLASS, RDFS_CLASS, RESTRICTION, DATATYPE, ALL_DISJOINT, ALL_DISJOINT_PROPERTIES, ALL_DIFFERENT),
        *(NEGATIVE, ONTOLOGY, f"<{RDF}List>", f"<{RDF}Property>"),
        *(f"<{OWL}{name}>" for name in ("Axiom", "Annotation", "DataRange", "ObjectProperty", "DatatypeProperty")),
    ]
)


def is_blank(term: str) -> bool:
    return term.startswith("_")


def is_literal(term: str) -> bool:
    return term.startswith('"')


def abbreviate(term: str) -> str:
    """A term with the prefix rdf:, rdfs:, owl: or xsd: in place of its namespace."""
    for namespace, prefix in PREFIXES.items():
        if term.startswith(f"<{namespace}"):
            return prefix + term[len(namespace) + 1 : -1]
    return term
