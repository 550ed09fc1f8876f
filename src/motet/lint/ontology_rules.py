"""Leaves that use unknown classes or properties, or that contradict the ontology.

Only an event that itself contradicts the ontology can match a leaf that does. Such events are not refused, so these
diagnostics are about events that no consistent publisher sends.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property

from motet.language.syntax import Event
from motet.lint.diagnostics import Diagnostic, Severity
from motet.lint.unknown_names import similar_name
from motet.lint.value_types import RangeTypes, path_properties, required_triples
from motet.model.terms import OWL, RDF, RDF_TYPE, RDFS, XSD, iri, iri_value, is_iri
from motet.ontology.drawing import short_name
from motet.ontology.entailment import Reasoner
from motet.ontology.inconsistencies import InconsistencyChecker
from motet.ontology.load import Ontology
from motet.sparql import algebra

_NAMESPACES = tuple(
    f"<{namespace}"
    for namespace in (
        RDF, RDFS, OWL, XSD, "http://www.w3.org/ns/prov#", "http://www.w3.org/ns/sosa/", "http://purl.org/dc/terms/",
    )
)  # fmt: skip
_INDIVIDUAL = "urn:motet:lint:"  # prefix of the individual that stands for a variable


class OntologyRules:
    """Checks leaves against an ontology."""

    def __init__(self, ontology: Ontology, reasoner: Reasoner | None = None) -> None:
        self._ontology = ontology
        self.ranges = RangeTypes(ontology)
        self._inconsistencies = InconsistencyChecker(reasoner or Reasoner(ontology.triples))

    def diagnostics(self, event: Event, text: str) -> Iterator[Diagnostic]:
        """The diagnostics about unknown names and contradictions of an event.

        >>> from motet.ontology import owl_names as v
        >>> pets = OntologyRules(Ontology((("<urn:Cat>", v.SUBCLASS, "<urn:Pet>"),)))
        >>> [diagnostic.message for diagnostic in pets.diagnostics(Event("e", "urn:Catt"), "")]
        ['the ontology has no class Catt']
        """
        triples = required_triples(event)
        unknown = list(self._unknown(event, triples, text))
        yield from unknown
        inconsistencies = () if unknown else self._inconsistencies.check_event(_instance(triples))
        if inconsistencies:
            reason = _inconsistency_text(str(inconsistencies[0]))
            message = f"no event that agrees with the ontology matches '{event.name}': {reason}"
            advice = (
                "require only one of them, or correct the ontology; `motet ontology check` explains its inconsistencies"
            )
            yield Diagnostic("contradicts-ontology", Severity.ERROR, event.position, message, advice)

    def _unknown(self, event: Event, triples: Iterable[algebra.Triple], text: str) -> Iterator[Diagnostic]:
        classes = {t.object for t in triples if t.predicate == RDF_TYPE and is_iri(t.object)}
        properties = {name for triple in triples for name in path_properties(triple.predicate)}
        for what, names, known in (("class", classes, self._classes), ("property", properties, self._properties)):
            for name in sorted(names - known):
                if name.startswith(_NAMESPACES):
                    continue
                close = similar_name(name, known - {name})
                advice = f"did you mean {short_name(close)}, {close}?" if close else "check its spelling and prefix"
                message = f"the ontology has no {what} {short_name(name)}"
                if name in self._terms:
                    message += ": that is the name of something else"
                yield Diagnostic(
                    f"unknown-{what}", Severity.WARNING, _name_position(event, name, text), message, advice
                )

    @cached_property
    def _terms(self) -> frozenset[str]:
        return frozenset(term for triple in self._ontology.triples for term in triple if is_iri(term))

    @cached_property
    def _properties(self) -> frozenset[str]:
        """The names that the ontology uses as properties; an individual is none."""
        return frozenset(filter(_is_own, self._ontology.properties()))

    @cached_property
    def _classes(self) -> frozenset[str]:
        """The names that the ontology may use as classes: all but its properties and individuals."""
        individuals = {s for s, p, o in self._ontology.triples if p == RDF_TYPE and _is_own(o)}
        others = (individuals | self._properties) - set(self._ontology.classes())
        return frozenset(filter(_is_own, self._terms - others))


def _is_own(name: str) -> bool:
    """Whether a name is an IRI of the ontology itself, not of a general vocabulary."""
    return is_iri(name) and not name.startswith(_NAMESPACES)


def _instance(triples: Iterable[algebra.Triple]) -> list[tuple[str, str, str]]:
    """A minimal event with these triples: each variable is an individual of its own."""
    links = [(t.subject, t.predicate, t.object) for t in triples if isinstance(t.predicate, str)]
    return [(_individual(s), p, _individual(o)) for s, p, o in links if is_iri(p)]


def _individual(term: str) -> str:
    return iri(_INDIVIDUAL + term[1:]) if term.startswith("?") else term


def _inconsistency_text(inconsistency: str) -> str:
    """The text of an inconsistency without the rule's name, with variables for their individuals."""
    return re.sub(rf"<{re.escape(_INDIVIDUAL)}([^>]*)>", r"?\1", re.sub(r" \([a-z0-9-]*\)$", "", inconsistency))


def _name_position(event: Event, name: str, text: str) -> int:
    """The position of a name, by its last part; else of the event."""
    local = re.search(r"[\w-]*$", iri_value(name).rstrip("/#"))
    match = re.compile(rf"{re.escape(local[0])}(?![\w-])").search(text, event.position) if local and local[0] else None
    return match.start() if match else event.position
