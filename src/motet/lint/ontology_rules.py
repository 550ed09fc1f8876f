"""Leaves that use unknown classes or properties, or that contradict the ontology.

Only an event that itself contradicts the ontology can match a leaf that does. Such events are not refused, so these
diagnostics are about events that no consistent publisher sends.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from functools import cached_property, lru_cache

from motet.language.syntax import Event
from motet.lint.diagnostics import Found, Severity
from motet.model.terms import OWL, RDF, RDF_TYPE, RDFS, XSD, iri, iri_value, is_iri
from motet.ontology.drawing import short_name
from motet.ontology.entailment import Reasoner
from motet.ontology.inconsistencies import InconsistencyChecker
from motet.ontology.load import Ontology
from motet.sparql.algebra import (
    Alternative,
    Bgp,
    Inverse,
    Join,
    Link,
    OneOrMore,
    Path,
    Sequence,
    Triple,
    ZeroOrMore,
    ZeroOrOne,
)
from motet.sparql.rewrite import elements, peeled, required

_NAMESPACES = tuple(
    f"<{namespace}"
    for namespace in (
        RDF, RDFS, OWL, XSD, "http://www.w3.org/ns/prov#", "http://www.w3.org/ns/sosa/", "http://purl.org/dc/terms/",
    )
)  # fmt: skip
_SOMETHING = "urn:motet:lint:"  # what a variable stands for


class Vocabulary:
    """An ontology, asked about leaves."""

    def __init__(self, ontology: Ontology) -> None:
        self._ontology = ontology
        self._clashes = InconsistencyChecker(Reasoner(ontology.triples))

    def found(self, event: Event, text: str) -> Iterator[Found]:
        """
        >>> from motet.ontology import owl_names as v
        >>> pets = Vocabulary(Ontology((("<urn:Cat>", v.SUBCLASS, "<urn:Pet>"),)))
        >>> [found.message for found in pets.found(Event("e", "urn:Catt"), "")]
        ['the ontology knows no class Catt']
        """
        triples = required_triples(event)
        unknown = list(self._unknown(event, triples, text))
        yield from unknown
        clashes = () if unknown else self._clashes.check_event(_instance(triples))
        if clashes:
            message = f"no event that agrees with the ontology matches '{event.name}': {_spoken(str(clashes[0]))}"
            advice = "ask for one of them only, or correct the ontology; `motet ontology check` explains its own errors"
            yield Found("contradicts-ontology", Severity.ERROR, event.position, message, advice)

    def _unknown(self, event: Event, triples: Iterable[Triple], text: str) -> Iterator[Found]:
        classes = {t.object for t in triples if t.predicate == RDF_TYPE and is_iri(t.object)}
        properties = {name for triple in triples for name in _links(triple.predicate)}
        for what, names in (("class", classes), ("property", properties)):
            for name in sorted(names - self._known):
                if name.startswith(_NAMESPACES):
                    continue
                close = get_close_matches(name, self._names, n=1, cutoff=0.8)
                advice = (
                    f"did you mean {short_name(close[0])}, {close[0]}?" if close else "check its spelling and prefix"
                )
                message = f"the ontology knows no {what} {short_name(name)}"
                yield Found(f"unknown-{what}", Severity.WARNING, _place(event, name, text), message, advice)

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(term for triple in self._ontology.triples for term in triple if is_iri(term))

    @cached_property
    def _names(self) -> list[str]:
        return sorted(name for name in self._known if not name.startswith(_NAMESPACES))


@lru_cache(maxsize=4096)
def required_triples(event: Event) -> tuple[Triple, ...]:
    """The triples every match needs, the one of the class first."""
    typed = (Triple(f"?{event.name}", RDF_TYPE, iri(event.class_iri)),) if event.class_iri else ()
    if event.body is None:
        return typed
    triples, rest = required(elements(peeled(event.body.algebra)[1]))
    paths = [element.right for element in elements(rest) if isinstance(element, Join)]
    return (*typed, *triples, *(triple for path in paths if isinstance(path, Bgp) for triple in path.triples))


def _links(predicate: str | Path) -> Iterator[str]:
    """The properties in a predicate or path."""
    match predicate:
        case str():
            yield from [predicate] if is_iri(predicate) and predicate != RDF_TYPE else []
        case Link(name):
            yield from _links(name)
        case Inverse(path) | ZeroOrMore(path) | OneOrMore(path) | ZeroOrOne(path):
            yield from _links(path)
        case Sequence(parts) | Alternative(parts):
            for part in parts:
                yield from _links(part)


def _instance(triples: Iterable[Triple]) -> list[tuple[str, str, str]]:
    """An event that just fulfils the triples: each variable is something of its own."""
    plain = [(t.subject, t.predicate, t.object) for t in triples if isinstance(t.predicate, str)]
    return [(_something(s), p, _something(o)) for s, p, o in plain if is_iri(p)]


def _something(place: str) -> str:
    return iri(_SOMETHING + place[1:]) if place.startswith("?") else place


def _spoken(clash: str) -> str:
    """Without the rule's name, and with variables for the individuals made up for them."""
    return re.sub(rf"<{re.escape(_SOMETHING)}([^>]*)>", r"?\1", re.sub(r" \([a-z0-9-]*\)$", "", clash))


def _place(event: Event, name: str, text: str) -> int:
    """Where the name is written, by its last part; else the event's place."""
    local = re.search(r"[\w-]*$", iri_value(name).rstrip("/#"))
    match = re.compile(rf"{re.escape(local[0])}(?![\w-])").search(text, event.position) if local and local[0] else None
    return match.start() if match else event.position
