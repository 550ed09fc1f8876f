"""Finds the topics of a described individual: the classes it belongs to, each of which can be subscribed to.

A user describes an individual ("a film whose genre is an action genre"); the reasoner infers its classes, and these are
listed from the most specific to the most general.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from motet.model.terms import iri_value, is_iri
from motet.ontology import owl_names as v
from motet.ontology.entailment import Reasoner
from motet.ontology.hierarchy import Hierarchy
from motet.ontology.owl_names import TYPE, Triple


def find_topics(
    reasoner: Reasoner, hierarchy: Hierarchy, description: Iterable[Triple], individual: str
) -> tuple[str, ...]:
    """The named classes of an individual, each after its subclasses.

    >>> from motet.ontology.hierarchy import classify
    >>> from motet.ontology.load import Ontology
    >>> films = Ontology((("<urn:Film>", v.SUBCLASS, "<urn:Video>"),))
    >>> find_topics(Reasoner(films.triples), classify(films), [("<urn:x>", TYPE, "<urn:Film>")], "<urn:x>")
    ('<urn:Film>', '<urn:Video>')
    """
    closure = reasoner.close_layered(description)
    classes = {c for c in closure.objects(individual, TYPE) if is_iri(c)}
    depth = {c: len(hierarchy.ancestors[hierarchy.node_of[c]]) if c in hierarchy.node_of else 0 for c in classes}
    return tuple(sorted(classes, key=lambda c: (c == v.THING, -depth[c], c)))


def most_specific(hierarchy: Hierarchy, classes: Iterable[str]) -> tuple[str, ...]:
    """The classes without a proper subclass among them; one of each group of equivalent classes."""
    names: dict[int, str] = {}
    for name in sorted(classes):
        if name in hierarchy.node_of:
            names.setdefault(hierarchy.node_of[name], name)
    above = frozenset().union(*(hierarchy.ancestors[node] for node in names))
    return tuple(sorted(name for node, name in names.items() if node not in above))


def described_individuals(description: Iterable[Triple]) -> tuple[str, ...]:
    """The individuals of a description: subjects that are not objects of other triples, or else all subjects."""
    stated = list(description)
    subjects = {s for s, _, _ in stated}
    roots = subjects - {o for s, _, o in stated if s != o}
    return tuple(sorted(roots or subjects))


def subscription_for(*topics: str) -> str:
    """A subscription to the individuals that belong to all of the topics.

    >>> print(subscription_for("<http://example.org/film#Action>", "<http://example.org/film#English>"))
    SUBSCRIPTION topic-Action-English
      EVENT item : <http://example.org/film#Action> { ?item a <http://example.org/film#English> }
      WHEN item
    """
    name = "-".join(["topic", *(name for topic in topics if (name := _local_name(topic)))])
    conditions = " . ".join(f"?item a {topic}" for topic in topics[1:])
    body = f" {{ {conditions} }}" if conditions else ""
    return f"SUBSCRIPTION {name}\n  EVENT item : {topics[0]}{body}\n  WHEN item"


def event_for(description: Iterable[Triple], individual: str) -> str:
    """The event that publishes a described individual, as N-Quads in the graph of the individual.

    >>> event_for([("<urn:x>", "<urn:p>", "<urn:y>")], "<urn:x>")
    '<urn:x> <urn:p> <urn:y> <urn:x> .'
    """
    return "\n".join(f"{s} {p} {o} {individual} ." for s, p, o in sorted(set(description)))


def _local_name(topic: str) -> str:
    """The last segment of an IRI, without characters that the name of a subscription must not contain."""
    last = re.split(r"[#/:]", iri_value(topic).rstrip("#/:"))[-1]
    return re.sub(r"[^A-Za-z0-9_]+", "-", last).strip("-")
