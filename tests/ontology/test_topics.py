"""Topics of described individuals, after the paper's own example."""

from __future__ import annotations

from motet.ontology.entailment import Reasoner
from motet.ontology.hierarchy import classify
from motet.ontology.load import Ontology
from motet.ontology.read import parse
from motet.ontology.topics import described, most_specific, subscription_for, topics

PREFIXES = """
@prefix : <urn:x:> . @prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
"""
FILMS = Ontology(
    parse(
        (
            PREFIXES
            + """
:Film rdfs:subClassOf :Video . :English owl:equivalentClass [ owl:onProperty :language ; owl:hasValue "en" ] .
:Action owl:equivalentClass [ owl:intersectionOf ( :Film :Fast ) ] .
:Fast owl:equivalentClass [ owl:onProperty :genre ; owl:someValuesFrom :ActionGenre ] .
:chase a :ActionGenre .
"""
        ).encode()
    ).triples
)
DESCRIPTION = parse((PREFIXES + ':it a :Film ; :genre :chase ; :language "en" . :chase :by :me .').encode()).triples


def test_a_description_finds_its_topics() -> None:
    """A film with an action genre in English is an action film, a film, a video and something English."""
    found = topics(Reasoner(FILMS.triples), classify(FILMS), DESCRIPTION, "<urn:x:it>")
    assert found == ("<urn:x:Action>", "<urn:x:Film>", "<urn:x:English>", "<urn:x:Fast>", "<urn:x:Video>")


def test_the_most_specific_topics_are_those_with_none_below() -> None:
    """Film and Video say nothing that Action does not say already."""
    hierarchy = classify(FILMS)
    found = topics(Reasoner(FILMS.triples), hierarchy, DESCRIPTION, "<urn:x:it>")
    assert most_specific(hierarchy, found) == ("<urn:x:Action>", "<urn:x:English>")


def test_a_description_is_about_what_it_does_not_refer_to() -> None:
    """What is described is the subject that is nobody's value; in a circle, everyone is."""
    assert described(DESCRIPTION) == ("<urn:x:it>",)
    assert described([("<a>", "<p>", "<b>"), ("<b>", "<p>", "<a>")]) == ("<a>", "<b>")


def test_a_topic_offers_its_subscription() -> None:
    """The subscription's name is made from the topic's, with what a name may not hold replaced."""
    assert subscription_for("<urn:x:été/>").splitlines() == [
        "SUBSCRIPTION topic-t",
        "  EVENT item : <urn:x:été/>",
        "  WHEN item",
    ]
