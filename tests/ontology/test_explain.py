"""Which axioms are blamed, and which are never asked about."""

from __future__ import annotations

from collections.abc import Iterable

from motet.model.terms import RDFS
from motet.ontology import vocabulary as v
from motet.ontology.explain import explain
from motet.ontology.vocabulary import Triple

CHAIN = [(f"<urn:c{n}>", v.SUBCLASS, f"<urn:c{n + 1}>") for n in range(3)]
NOISE: list[Triple] = [
    *((f"<urn:c{n}>", v.LABEL, f'"class {n}"@en') for n in range(100)),
    *((f"<urn:c{n}>", f"<{RDFS}isDefinedBy>", "<urn:book>") for n in range(100)),
    *((f"<urn:c{n}>", "<urn:source>", "<urn:book>") for n in range(100)),
    *((f"<urn:other{n}>", v.SUBCLASS, "<urn:book>") for n in range(100)),
]


def test_what_says_nothing_is_not_asked_about() -> None:
    """Labels and sources connect everything with everything; the search passes them by and finds the smallest part."""
    largest = 0

    def holds(triples: Iterable[Triple]) -> bool:
        nonlocal largest
        given = set(triples)
        largest = max(largest, len(given))
        return given.issuperset(CHAIN)

    assert explain([*NOISE, *CHAIN], holds, ["<urn:c0>"]) == tuple(
        f"<urn:c{n}> rdfs:subClassOf <urn:c{n + 1}>" for n in range(3)
    )
    assert largest == 3


def test_a_property_that_axioms_speak_of_is_asked_about() -> None:
    """An assertion counts as soon as any axiom mentions its property, and so does what only a literal connects."""
    stated = [
        ("<urn:p>", v.TYPE, v.INVERSE_FUNCTIONAL),
        ("<urn:a>", "<urn:p>", '"1"'),
        ("<urn:b>", "<urn:p>", '"1"'),
        ("<urn:a>", "<urn:q>", '"1"'),
    ]
    found = explain(stated, lambda triples: set(triples).issuperset(stated[:3]), ["<urn:b>"])
    assert found == ('<urn:a> <urn:p> "1"', '<urn:b> <urn:p> "1"', "<urn:p> rdf:type owl:InverseFunctionalProperty")


def test_what_does_not_hold_has_no_explanation() -> None:
    """Nothing is blamed for what does not follow."""
    assert explain(CHAIN, lambda _: False, ["<urn:c0>"]) == ()
