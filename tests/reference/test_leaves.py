"""What a leaf matches (language page, sections 2 and 3)."""

from __future__ import annotations

from typing import Any

import pytest

from motet.language.parse import parse
from motet.model.terms import RDF_TYPE, RDFS, XSD, iri, literal
from motet.model.times import END_OF_TIME
from motet.reference import evaluate


def matched(story: Any, event: str, events: str, ontology: Any = (), entailment: str = "owl-rl") -> list[str]:
    (subscription,) = parse(f"PREFIX ex: <{story.ex}> SUBSCRIPTION s EVENT {event} WHEN e SELECT *")
    found = story.run([subscription], events, ontology=ontology, entailment=entailment)
    return [story.show(notification) for notification in found]


def test_an_event_without_class_and_body_matches_every_event_once(story: Any) -> None:
    """An EVENT without class and body matches every event once."""
    assert matched(story, "e", "a1@1 k=1|2; b1@2") == ["a1 e=a1", "b1 e=b1"]


def test_a_class_adds_a_type_pattern(story: Any) -> None:
    """`EVENT e : C` adds `?e a C`."""
    assert matched(story, "e : ex:A", "a1@1 k=1|2; b1@2; ab1@3") == ["a1 e=a1", "ab1 e=ab1"]


def test_each_distinct_solution_is_an_occurrence(story: Any) -> None:
    """A leaf yields, for each event and each distinct solution, one occurrence."""
    assert matched(story, "e { ?e ex:k ?x }", "a1@1 k=1|2") == ["a1 e=a1 x=1", "a1 e=a1 x=2"]


def test_the_own_name_is_bound_in_filters(story: Any) -> None:
    """`?name` is bound to the event IRI in the whole body."""
    assert matched(story, "e { ?x a ex:A FILTER(?e = <urn:a2>) }", "a1@1; a2@2") == ["a2 e=a2 x=a2"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("?e ex:k ?x OPTIONAL { ?e ex:m ?y }", ["a1 e=a1 x=1", "a2 e=a2 x=2 y=5"]),
        ("{ ?e ex:k ?x } UNION { ?e ex:m ?x }", ["a1 e=a1 x=1", "a2 e=a2 x=2", "a2 e=a2 x=5"]),
        ("?e ex:k ?x MINUS { ?e ex:m 5 }", ["a1 e=a1 x=1"]),
        ("?e ex:k ?x FILTER NOT EXISTS { ?e ex:m ?y }", ["a1 e=a1 x=1"]),
        ("?e ex:k ?x BIND(?x + 1 AS ?y)", ["a1 e=a1 x=1 y=2", "a2 e=a2 x=2 y=3"]),
        ("?e ex:k|ex:m ?x VALUES ?x { 1 5 }", ["a1 e=a1 x=1", "a2 e=a2 x=5"]),
    ],
)
def test_the_body_is_sparql(story: Any, body: str, expected: list[str]) -> None:
    """The body is any SPARQL 1.1 group graph pattern without GRAPH, SERVICE or subqueries."""
    assert matched(story, f"e {{ {body} }}", "a1@1 k=1; a2@2 k=2 m=5") == expected


@pytest.mark.parametrize(
    ("entailment", "expected"), [("owl-rl", ["a1", "b1"]), ("rdfs", ["a1", "b1"]), ("none", ["b1"])]
)
def test_a_class_matches_every_subclass(story: Any, entailment: str, expected: list[str]) -> None:
    """A leaf is evaluated over the event's graph closed under the ontology, according to the entailment."""
    ontology = [(iri(story.ex + "A"), f"<{RDFS}subClassOf>", iri(story.ex + "B"))]
    found = matched(story, "e : ex:B", "a1@1; b1@2; c1@3", ontology, entailment)
    assert found == [f"{name} e={name}" for name in expected]


def test_during_binds_the_interval(story: Any) -> None:
    """`EVENT a DURING ?s ?e` binds `?s` and `?e` to the event's start and end, so that a FILTER can compare times."""
    text = "SUBSCRIPTION s EVENT e DURING ?s ?t EVENT f DURING ?u ?v WHEN (e BEFORE f) FILTER(?v > ?t) SELECT ?s ?t"
    (subscription,) = parse(text)
    found = [story.show(notification) for notification in story.run([subscription], "a1@1-3; b1@4")]
    assert found == ["a1 b1 s=1970-01-01T00:00:00.000001Z t=1970-01-01T00:00:00.000003Z"]


def test_the_background_graph_is_there(story: Any) -> None:
    """A leaf is evaluated over the event's own graph together with the background graph."""
    ontology = [(iri(story.ex + "hall"), iri(story.ex + "floor"), story.term("2"))]
    assert matched(story, "e { ?e ex:room ?r . ?r ex:floor ?f }", "a1@1 room=hall; a2@2 room=attic", ontology) == [
        "a1 e=a1 f=2 r=hall"
    ]


def test_a_solution_of_the_background_alone_does_not_count(story: Any) -> None:
    """A solution that also arises from the background graph alone does not count."""
    ontology = [(iri(story.ex + "hall"), RDF_TYPE, iri(story.ex + "Room"))]
    body = "e { ?x a ex:Room OPTIONAL { ?e ex:room ?x . ?e ex:k ?k } }"
    assert matched(story, body, "a1@1; a2@2 room=hall; a3@3 room=hall k=1", ontology) == ["a3 e=a3 k=1 x=hall"]


def test_the_lexical_form_is_kept(story: Any) -> None:
    """A literal that is not in canonical form is delivered as it was published, and constants match terms."""
    assert matched(story, "e { ?e ex:k ?x }", "a1@1 k=007") == ["a1 e=a1 x=007"]
    assert matched(story, "e { ?e ex:k 7 }", "a1@1 k=007; a2@2 k=7") == ["a2 e=a2"]
    assert matched(story, "e { ?e ex:k 007 }", "a1@1 k=007; a2@2 k=7") == ["a1 e=a1"]
    assert matched(story, "e { ?e ex:k ?x FILTER(?x = 7) }", "a1@1 k=007; a2@2 k=8") == ["a1 e=a1 x=007"]


def test_plain_strings_match_with_odd_numbers_beside_them(story: Any) -> None:
    """Strings with and without xsd:string are one term, with both evaluators."""
    event = story.event("a1@1 k=007", 2)
    named = (iri("urn:a1"), iri(story.ex + "name"), literal("x y"))
    event = type(event)(**{**vars(event), "triples": event.triples | {named}})
    for written in ('"x y"', f'"x y"^^<{XSD}string>'):
        (subscription,) = parse(f"PREFIX ex: <{story.ex}> SUBSCRIPTION s EVENT e {{ ?e ex:name {written} }} WHEN e")
        found = evaluate(story.log(subscription, event, END_OF_TIME), lateness=None)
        assert [story.show(notification) for notification in found] == ["a1 e=a1"]
