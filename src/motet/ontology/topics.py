"""Which topics does a described individual belong to?

Someone describes what they have or want ("a film whose genre is an action genre"); the reasoner says which classes
that makes it a member of, the most specific first, and each class is a topic to subscribe to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from motet.model.terms import iri_value, is_iri
from motet.ontology import vocabulary as v
from motet.ontology.entailment import Reasoner
from motet.ontology.hierarchy import Hierarchy
from motet.ontology.vocabulary import TYPE, Triple


def topics(reasoner: Reasoner, hierarchy: Hierarchy, description: Iterable[Triple], individual: str) -> tuple[str, ...]:
    """The named classes an individual belongs to, each after all classes below it.

    >>> from motet.ontology.hierarchy import classify
    >>> from motet.ontology.load import Ontology
    >>> films = Ontology((("<urn:Film>", v.SUBCLASS, "<urn:Video>"),))
    >>> topics(Reasoner(films.triples), classify(films), [("<urn:x>", TYPE, "<urn:Film>")], "<urn:x>")
    ('<urn:Film>', '<urn:Video>')
    """
    facts = reasoner.layer(description)
    found = {c for c in facts.objects(individual, TYPE) if is_iri(c)}
    depth = {c: len(hierarchy.ancestors[hierarchy.node_of[c]]) if c in hierarchy.node_of else 0 for c in found}
    return tuple(sorted(found, key=lambda c: (c == v.THING, -depth[c], c)))


def most_specific(hierarchy: Hierarchy, found: Iterable[str]) -> tuple[str, ...]:
    """Those topics that have no other of them strictly below; one of each group of equivalent classes."""
    names: dict[int, str] = {}
    for name in sorted(found):
        if name in hierarchy.node_of:
            names.setdefault(hierarchy.node_of[name], name)
    above = frozenset().union(*(hierarchy.ancestors[node] for node in names))
    return tuple(sorted(name for node, name in names.items() if node not in above))


def described(description: Iterable[Triple]) -> tuple[str, ...]:
    """The individuals a description is about: subjects that no other triple of it refers to, or else all subjects."""
    stated = list(description)
    subjects = {s for s, _, _ in stated}
    roots = subjects - {o for s, _, o in stated if s != o}
    return tuple(sorted(roots or subjects))


def subscription_for(*topics: str) -> str:
    """The subscription for what belongs to all of the topics.

    >>> print(subscription_for("<http://example.org/film#Action>", "<http://example.org/film#English>"))
    SUBSCRIPTION topic-Action-English
      EVENT item : <http://example.org/film#Action> { ?item a <http://example.org/film#English> }
      WHEN item
    """
    name = "-".join(["topic", *(words for topic in topics if (words := _words(topic)))])
    others = " . ".join(f"?item a {topic}" for topic in topics[1:])
    body = f" {{ {others} }}" if others else ""
    return f"SUBSCRIPTION {name}\n  EVENT item : {topics[0]}{body}\n  WHEN item"


def event_for(description: Iterable[Triple], individual: str) -> str:
    """The event that publishes a described individual, as N-Quads: the individual's own graph.

    >>> event_for([("<urn:x>", "<urn:p>", "<urn:y>")], "<urn:x>")
    '<urn:x> <urn:p> <urn:y> <urn:x> .'
    """
    return "\n".join(f"{s} {p} {o} {individual} ." for s, p, o in sorted(set(description)))


def _words(topic: str) -> str:
    """The last part of an IRI with what a subscription's name may not hold replaced."""
    last = re.split(r"[#/:]", iri_value(topic).rstrip("#/:"))[-1]
    return re.sub(r"[^A-Za-z0-9_]+", "-", last).strip("-")
