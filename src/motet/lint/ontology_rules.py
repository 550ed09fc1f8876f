"""Leaves that use unknown classes or properties, or that contradict the ontology.

A name is unknown if neither the ontology nor an event has it: it is probably misspelt. Events are given batch by batch;
as soon as every name is known, looking at a batch costs nothing.

Only an event that itself contradicts the ontology can match a leaf that does. Such events are not refused, so these
diagnostics are about events that no consistent publisher sends.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from motet.codec.options import stored_mapping
from motet.codec.row_mapping import PropertyColumn
from motet.language.syntax import Construct, Event, Subscription, Template
from motet.lint.diagnostics import Diagnostic, Severity
from motet.lint.value_types import RangeTypes, path_properties, required_triples
from motet.model.batches import Triple
from motet.model.terms import OWL, RDF, RDF_TYPE, RDFS, XSD, iri, iri_value, is_iri
from motet.ontology.drawing import short_name
from motet.ontology.entailment import Reasoner
from motet.ontology.inconsistencies import InconsistencyChecker
from motet.ontology.load import Ontology
from motet.sparql import algebra

# Unknown names


MAX_SEEN = 10_000  # names of events that are kept to be offered instead
_GENERAL = tuple(f"<{namespace}" for namespace in (RDF, RDFS, OWL))


@dataclass(frozen=True, slots=True)
class UnknownName:
    """A name that nothing has; ``similar`` is the nearest name that something has."""

    kind: str  # "class" or "property"
    name: str
    subscriptions: tuple[str, ...]
    similar: str | None = None

    def __str__(self) -> str:
        users = ", ".join(f"'{name}'" for name in self.subscriptions)
        advice = f"; did you mean {self.similar}?" if self.similar else "; check its spelling and prefix"
        return f"no event and no ontology has the {self.kind} {self.name}, which {users} requires{advice}"


class UnknownNames:
    """The names of subscriptions that are not known yet.

    >>> from motet.language.parse import parse
    >>> names = UnknownNames(parse("SUBSCRIPTION s EVENT e : <urn:Smoke> { ?e <urn:room> ?r } WHEN e"))
    >>> names.observe_names(classes=["<urn:Smokes>"], properties=["<urn:room>"])
    >>> print(*names.found())
    no event and no ontology has the class <urn:Smoke>, which 's' requires; did you mean <urn:Smokes>?
    """

    def __init__(self, subscriptions: Iterable[Subscription], background: Iterable[Triple] = ()) -> None:
        subscriptions = tuple(subscriptions)
        known = {term for triple in background for term in triple}
        known.update(name for subscription in subscriptions for _, name in _derived_names(subscription))
        self._users: dict[tuple[str, str], list[str]] = {}
        for subscription in subscriptions:
            for kind, name in dict.fromkeys(_required_names(subscription)):
                if name not in known and not name.startswith(_GENERAL):
                    self._users.setdefault((kind, name), []).append(subscription.name)
        self._seen: dict[str, set[str]] = {"class": set(), "property": set()}
        self._observed = False

    @property
    def is_open(self) -> bool:
        """Whether there are names that are not known yet."""
        return bool(self._users)

    def observe(self, events: pa.RecordBatch) -> None:
        """Note the names of a batch of EVENTS or RECORDS; only its column ``triples`` is read."""
        if not self._users or not len(events):
            return
        triples = events.column("triples").flatten()
        predicates, objects = triples.field("predicate"), triples.field("object")
        is_type = pc.equal(predicates, RDF_TYPE)
        self.observe_names(
            classes=pc.unique(objects.filter(is_type)).to_pylist(), properties=pc.unique(predicates).to_pylist()
        )

    def observe_names(self, *, classes: Iterable[str], properties: Iterable[str]) -> None:
        """Note names of events, as terms."""
        self._observed = True
        for kind, names in (("class", classes), ("property", properties)):
            for name in names:
                self._users.pop((kind, name), None)
                if len(self._seen[kind]) < MAX_SEEN:
                    self._seen[kind].add(name)

    def found(self) -> tuple[UnknownName, ...]:
        """The names that nothing has, sorted; none before an event was observed."""
        if not self._observed:
            return ()
        return tuple(
            UnknownName(kind, name, tuple(users), similar_name(name, self._seen[kind]))
            for (kind, name), users in sorted(self._users.items())
        )


def _required_names(subscription: Subscription) -> Iterator[tuple[str, str]]:
    for event in subscription.events:
        for triple in _triples(event.algebra):
            yield from _names(triple)


def _derived_names(subscription: Subscription) -> Iterator[tuple[str, str]]:
    """The names of the events that a subscription derives."""
    if isinstance(subscription.delivery, Construct):
        for template in subscription.delivery.templates:
            if isinstance(template, Template):
                for triple in template.triples:
                    yield from _names(triple)
            else:
                for mapping in map(stored_mapping, template.mappings):
                    yield from (("class", iri(each.text)) for each in mapping.classes)
                    yield from _lifted_names(mapping.properties)


def _lifted_names(properties: Iterable[PropertyColumn]) -> Iterator[tuple[str, str]]:
    """The names of triples that a mapping lifts from documents."""
    for each in properties:
        yield "property", iri(each.property)
        if each.node is not None:
            yield from (("class", iri(class_.text)) for class_ in each.node.classes)
            yield from _lifted_names(each.node.properties)


def _names(triple: algebra.Triple) -> Iterator[tuple[str, str]]:
    if triple.predicate == RDF_TYPE:
        yield from [("class", triple.object)] if is_iri(triple.object) else []
    yield from (("property", name) for name in path_properties(triple.predicate))


def _triples(pattern: algebra.Algebra) -> Iterator[algebra.Triple]:
    """The triples of a pattern, those of OPTIONAL and UNION included; conditions are not looked into."""
    stack = [pattern]
    while stack:
        match stack.pop():
            case algebra.Bgp(triples):
                yield from triples
            case algebra.Join(left, right) | algebra.LeftJoin(left, right) | algebra.Union(left, right):
                stack += [right, left]
            case algebra.Minus(left, right):
                stack += [right, left]
            case algebra.Filter(operand, _) | algebra.Extend(operand, _, _):
                stack.append(operand)


def similar_name(name: str, known: Iterable[str]) -> str | None:
    """The known name whose last part is most like that of a name; names of the same namespace first.

    >>> similar_name("<urn:x:Smok>", ["<urn:x:Smoke>", "<urn:y:Smoke>", "<urn:x:Fire>"])
    '<urn:x:Smoke>'
    """
    namespace = name[: name.rfind(short_name(name))]
    ordered = sorted(known, key=lambda other: (other.startswith(namespace), other))
    by_part = {short_name(other): other for other in ordered if is_iri(other)}
    close = get_close_matches(short_name(name), by_part, n=1, cutoff=0.75)
    return by_part[close[0]] if close else None


# Rules


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
