"""Notifications as RDF, and the events that their CONSTRUCT clauses derived (language page, section 13)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from lxml import etree

from motet.codec.identity import DERIVED
from motet.codec.xml import lift_derived
from motet.engine.detect.construct import THIS, ConstructTemplates
from motet.language.rdf import term
from motet.language.syntax import Template, XmlTemplate
from motet.model.notifications import Notification
from motet.model.terms import RDF_TYPE, XSD, iri, literal
from motet.model.xml_document import parse_stored_xml
from motet.sparql.algebra import Triple as TriplePattern
from motet.sparql.algebra import is_hidden, variable_name
from motet.sparql.dataset import interval_triples
from motet.sparql.graph import Triple

NOTIFICATION = "urn:motet:notification:"


class ConstructedGraph(NamedTuple):
    """An event that a CONSTRUCT clause made."""

    id: str
    triples: tuple[Triple, ...]


def notification_triples(
    notification: Notification, offset: int, derived: Sequence[ConstructedGraph], retracted: Collection[str]
) -> Iterator[Triple]:
    """The triples of one notification; ``retracted`` are the events retracted by the end of the log."""
    subject = iri(NOTIFICATION + notification.id)
    yield subject, RDF_TYPE, term("Notification")
    yield subject, term("subscription"), literal(notification.subscription)
    yield from interval_triples(subject, notification.start_micros, notification.end_micros)
    yield subject, term("offset"), literal(str(offset), datatype=XSD + "integer")
    for event in notification.events:
        yield subject, term("event"), iri(event)
        if event in retracted:
            yield subject, term("retracted"), iri(event)
    for variable, value in notification.bindings:
        node = iri(f"{NOTIFICATION}{notification.id}:{variable}")
        yield subject, term("binding"), node
        yield node, term("variable"), literal(variable)
        yield node, term("value"), value
    for made in derived:
        yield subject, term("derived"), iri(made.id)


def derived_events(notification: Notification, templates: Sequence[Template | XmlTemplate]) -> list[ConstructedGraph]:
    """The events of a notification with CONSTRUCT clauses, from the lines it stores."""
    lines = notification.construct or ()
    if not lines:
        return []
    if len(templates) == 1 and isinstance(templates[0], Template):
        return [ConstructedGraph(_id(notification, 1), tuple(map(_triple, _triple_lines(lines))))]
    events = ConstructTemplates(templates).derive(notification.id, [dict(notification.bindings)])
    if {line for event in events for line in event.lines} == set(lines):
        return [ConstructedGraph(event.id, event.record_triples) for event in events]
    return _divided(notification, templates)


def _divided(notification: Notification, templates: Sequence[Template | XmlTemplate]) -> list[ConstructedGraph]:
    """The lines of an occurrence of many members, divided by the clauses whose triples they are instances of."""
    events = []
    lines = notification.construct or ()
    triple_lines = _triple_lines(lines)
    documents = [line for line in lines if line not in triple_lines]
    for clause, template in enumerate(templates, 1):
        id_ = _id(notification, clause)
        if isinstance(template, XmlTemplate):
            document = next((line for line in documents if _may_be_instance(line, template)), None)
            if document is not None:
                documents.remove(document)
                events.append(ConstructedGraph(id_, lift_derived(document, id_, template.mappings)))
            continue
        triples = [
            triple
            for triple in map(_triple, triple_lines)
            if any(_is_instance(triple, pattern, id_) for pattern in template.triples)
        ]
        if triples:
            events.append(ConstructedGraph(id_, tuple(triples)))
    return events


def _is_instance(triple: Triple, pattern: TriplePattern, id_: str) -> bool:
    """Whether a triple can be one that the event's template makes; the bindings of the members are not stored."""
    values = {f"?{THIS}": iri(id_)}
    for value, place in zip(triple, (pattern.subject, str(pattern.predicate), pattern.object), strict=True):
        name = variable_name(place)
        if name is None:
            if place != value:
                return False
        elif is_hidden(name):
            if not value.startswith((f"<{id_}#genid-", f"<{id_}-genid-")):
                return False
        elif values.setdefault(place, value) != value:
            return False
    return True


def _triple_lines(lines: Sequence[str]) -> list[str]:
    """The triples among what CONSTRUCT clauses made; the others are XML documents."""
    return [line for line in lines if line.endswith(" .")]


def _may_be_instance(document: str, template: XmlTemplate) -> bool:
    """Whether a canonical document has the root of the template, and all names of its elements."""
    root, template_root = parse_stored_xml(document.encode()), template.tree
    names = {element.name for element in template_root.walk() if isinstance(element.name, str)}
    has_root = template_root.name == root.tag or not isinstance(template_root.name, str)
    return has_root and names <= {str(element.tag) for element in root.iter(etree.Element)}


def _id(notification: Notification, clause: int) -> str:
    return f"{DERIVED}{notification.id}:{clause}"


def _triple(line: str) -> Triple:
    """The terms of an N-Triples line as Motet writes it: IRIs have no spaces."""
    subject, predicate, obj = line.removesuffix(" .").split(" ", 2)
    return subject, predicate, obj
