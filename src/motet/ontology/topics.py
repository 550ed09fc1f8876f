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
    """Those topics that have no other of them strictly below."""
    nodes = {c: hierarchy.node_of[c] for c in found if c in hierarchy.node_of}
    above = frozenset().union(*(hierarchy.ancestors[node] for node in nodes.values()))
    return tuple(sorted(c for c, node in nodes.items() if node not in above))


def described(description: Iterable[Triple]) -> tuple[str, ...]:
    """The individuals a description is about: subjects that no other triple of it refers to, or else all subjects."""
    stated = list(description)
    subjects = {s for s, _, _ in stated}
    roots = subjects - {o for s, _, o in stated if s != o}
    return tuple(sorted(roots or subjects))


def subscription_for(topic: str) -> str:
    """The subscription for one topic.

    >>> print(subscription_for("<http://example.org/film#Action>"))
    SUBSCRIPTION topic-Action
      EVENT item : <http://example.org/film#Action>
      WHEN item
    """
    words = re.sub(r"[^A-Za-z0-9_]+", "-", re.split(r"[#/:]", iri_value(topic).rstrip("#/:"))[-1]).strip("-")
    return f"SUBSCRIPTION topic-{words or 'all'}\n  EVENT item : {topic}\n  WHEN item"
