"""Topics of described individuals, with the example of the paper."""

from __future__ import annotations

from motet.ontology.entailment import Reasoner
from motet.ontology.hierarchy import classify
from motet.ontology.load import Ontology, parse_ontology
from motet.ontology.topics import described_individuals, find_topics, most_specific, subscription_for

PREFIXES = """
@prefix : <urn:x:> . @prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
"""
FILMS = Ontology(
    parse_ontology(
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
DESCRIPTION = parse_ontology(
    (PREFIXES + ':it a :Film ; :genre :chase ; :language "en" . :chase :by :me .').encode()
).triples


def test_topics_of_a_description() -> None:
    """A film with an action genre in English is an action film, a film, a video and something English."""
    found = find_topics(Reasoner(FILMS.triples), classify(FILMS), DESCRIPTION, "<urn:x:it>")
    assert found == ("<urn:x:Action>", "<urn:x:Film>", "<urn:x:English>", "<urn:x:Fast>", "<urn:x:Video>")


def test_the_most_specific_topics_have_no_subclass_among_them() -> None:
    """Film and Video are omitted because Action is their subclass."""
    hierarchy = classify(FILMS)
    found = find_topics(Reasoner(FILMS.triples), hierarchy, DESCRIPTION, "<urn:x:it>")
    assert most_specific(hierarchy, found) == ("<urn:x:Action>", "<urn:x:English>")


def test_described_individuals_are_not_objects() -> None:
    """The described individuals are the subjects that are not objects; in a cycle, all subjects are."""
    assert described_individuals(DESCRIPTION) == ("<urn:x:it>",)
    assert described_individuals([("<a>", "<p>", "<b>"), ("<b>", "<p>", "<a>")]) == ("<a>", "<b>")


def test_a_subscription_is_named_after_its_topic() -> None:
    """The name of the subscription is that of the topic, with invalid characters replaced."""
    assert subscription_for("<urn:x:été/>").splitlines() == [
        "SUBSCRIPTION topic-t",
        "  EVENT item : <urn:x:été/>",
        "  WHEN item",
    ]
