"""Minimal explanations, and the triples that the search ignores."""

from __future__ import annotations

from collections.abc import Iterable

from motet.model.terms import RDFS
from motet.ontology import owl_names as v
from motet.ontology.explain import explain
from motet.ontology.owl_names import Triple

CHAIN = [(f"<urn:c{n}>", v.SUBCLASS, f"<urn:c{n + 1}>") for n in range(3)]
NOISE: list[Triple] = [
    *((f"<urn:c{n}>", v.LABEL, f'"class {n}"@en') for n in range(100)),
    *((f"<urn:c{n}>", f"<{RDFS}isDefinedBy>", "<urn:book>") for n in range(100)),
    *((f"<urn:c{n}>", "<urn:source>", "<urn:book>") for n in range(100)),
    *((f"<urn:other{n}>", v.SUBCLASS, "<urn:book>") for n in range(100)),
]


def test_annotations_are_not_tested() -> None:
    """The search ignores labels and sources, which connect all axioms, and finds a minimal set."""
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


def test_assertions_of_properties_in_axioms_are_tested() -> None:
    """An assertion is tested if an axiom mentions its property, even if only a literal connects it."""
    stated = [
        ("<urn:p>", v.TYPE, v.INVERSE_FUNCTIONAL),
        ("<urn:a>", "<urn:p>", '"1"'),
        ("<urn:b>", "<urn:p>", '"1"'),
        ("<urn:a>", "<urn:q>", '"1"'),
    ]
    found = explain(stated, lambda triples: set(triples).issuperset(stated[:3]), ["<urn:b>"])
    assert found == ('<urn:a> <urn:p> "1"', '<urn:b> <urn:p> "1"', "<urn:p> rdf:type owl:InverseFunctionalProperty")


def test_what_does_not_hold_has_no_explanation() -> None:
    """The explanation of a consequence that does not hold is empty."""
    assert explain(CHAIN, lambda _: False, ["<urn:c0>"]) == ()
