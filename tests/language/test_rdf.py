"""Subscriptions survive the way to RDF and back."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from tests.language import trees

from motet.language.parse import parse
from motet.language.rdf import from_rdf, to_rdf
from motet.language.syntax import Subscription
from motet.model.errors import UsageError

M, S = "urn:motet:ns#", "urn:motet:subscription:s"
TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
(SIMPLE,) = parse("SUBSCRIPTION s EVENT a : <urn:C> WHEN a{2} EVERY 1.5 s SIGNAL")


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(subscription=trees.subscriptions(with_xml=True))
def test_round_trip(subscription: Subscription) -> None:
    """Reading the triples of a subscription in any order gives the subscription."""
    assert from_rdf(sorted(to_rdf(subscription))) == subscription


def test_triples() -> None:
    """A small subscription has exactly these triples."""
    rdf = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
    xsd = "http://www.w3.org/2001/XMLSchema#"
    assert set(to_rdf(SIMPLE)) == {
        (f"<{S}>", TYPE, f"<{M}Subscription>"),
        (f"<{S}>", f"<{M}name>", '"s"'),
        (f"<{S}>", f"<{M}context>", '"recent"'),
        (f"<{S}>", f"<{M}unbounded>", f'"false"^^<{xsd}boolean>'),
        (f"<{S}>", f"<{M}events>", f"<{S}#events-0>"),
        (f"<{S}#events-0>", f"<{rdf}first>", f"<{S}#event-a>"),
        (f"<{S}#events-0>", f"<{rdf}rest>", f"<{rdf}nil>"),
        (f"<{S}#event-a>", TYPE, f"<{M}Event>"),
        (f"<{S}#event-a>", f"<{M}name>", '"a"'),
        (f"<{S}#event-a>", f"<{M}class>", "<urn:C>"),
        (f"<{S}>", f"<{M}pattern>", f"<{S}#pattern>"),
        (f"<{S}#pattern>", TYPE, f"<{M}Times>"),
        (f"<{S}#pattern>", f"<{M}count>", f'"2"^^<{xsd}integer>'),
        (f"<{S}#pattern>", f"<{M}gap>", f'"PT1.5S"^^<{xsd}dayTimeDuration>'),
        (f"<{S}#pattern>", f"<{M}operand>", f"<{S}#pattern-operand>"),
        (f"<{S}#pattern-operand>", TYPE, f"<{M}Leaf>"),
        (f"<{S}#pattern-operand>", f"<{M}name>", '"a"'),
        (f"<{S}>", f"<{M}delivery>", f"<{S}#delivery>"),
        (f"<{S}#delivery>", TYPE, f"<{M}Signal>"),
    }


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (f"<{M}Subscription>", f"<{M}Nothing>", "there are 0 subscriptions"),
        (f"<{M}Times>", f"<{M}Twice>", "is a Twice, not a pattern"),
        (f"<{M}Signal>", f"<{M}Silence>", "is a Silence"),
        (f"<{M}count>", f"<{M}number>", "has 0 values for <urn:motet:ns#count>"),
        (f"<{S}#pattern-operand>", f"<{S}#pattern>", "has 2 values"),
        ('"PT1.5S"^^<http://www.w3.org/2001/XMLSchema#dayTimeDuration>', '"soon"', "gap: 'soon' is not"),
        ('"2"^^<http://www.w3.org/2001/XMLSchema#integer>', '"-2"', "'-2' is not a count"),
        ('"recent"', '"newest"', "'newest' is not a valid Context"),
        ('"s"', '"s t"', "'s t' cannot name a subscription"),
        ('"a"', '"a b"', "is not an event"),
        ('"a"', "<urn:a>", "is not an N-Triples literal"),
        ("<http://www.w3.org/1999/02/22-rdf-syntax-ns#nil>", f"<{S}#events-0>", "has no end"),
        ("<urn:C>", '"C"', "the IRI of a class"),
    ],
)
def test_refusals(old: str, new: str, reason: str) -> None:
    """Triples that describe no subscription are refused by the node they go wrong at."""
    triples = [tuple(new if part == old else part for part in triple) for triple in to_rdf(SIMPLE)]
    with pytest.raises(UsageError) as caught:
        from_rdf(triples)  # type: ignore[arg-type]
    assert reason in str(caught.value)


def test_shared_nodes_are_refused() -> None:
    """A pattern is a tree: a node used twice could unfold without end."""
    (pair,) = parse("SUBSCRIPTION s EVENT a EVENT b WHEN a OR b")
    triples = [(s, p, f"<{S}#pattern-left>" if p == f"<{M}right>" else o) for s, p, o in to_rdf(pair)]
    with pytest.raises(UsageError, match="is used twice"):
        from_rdf(triples)


def test_what_is_read_is_checked() -> None:
    """RDF is no way around the checks."""
    (pair,) = parse("SUBSCRIPTION s EVENT a EVENT b WHEN a OR b CONTEXT chronicle")
    triples = [(s, p, f"<{M}And>" if o == f"<{M}Or>" else o) for s, p, o in to_rdf(pair)]
    with pytest.raises(UsageError, match="AND has no bound"):
        from_rdf(triples)
