"""Events as documents in random forms: N-Quads, TriG, Turtle and JSON-LD, with and without named graphs and IRIs; XML
events as their documents, and in CloudEvents.

A slow transcription of section 14 of the language page decides which of the forms mean the given events; the codecs are
compared with it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from random import Random

from lxml import etree

from motet.codec.cloudevents import WRAPPER_TYPE
from motet.fuzz.case import TIME_PROPERTIES
from motet.model.batches import Triple
from motet.model.terms import XSD, iri, literal_parts
from motet.model.times import format_datetime
from motet.model.xml_document import MOTET_NAMESPACE, canonical_document
from motet.reference import EventRecord

THIS = "<urn:motet:this>"
MINTED = "urn:motet:event:"
DOCUMENT = "<>"  # the node of the document itself


@dataclass(frozen=True)
class EventDocument:
    """A document, and the arguments with which it is read."""

    text: str
    content_type: str
    id: str | None = None
    input_id: str | None = None

    @property
    def suffix(self) -> str:
        return SUFFIXES[self.content_type]


SUFFIXES = {
    "application/n-quads": ".nq",
    "application/trig": ".trig",
    "text/turtle": ".ttl",
    "application/ld+json": ".jsonld",
    "application/xml": ".xml",
    "application/cloudevents+json": ".ce.json",
}


def minted_id(triples: Iterable[Triple], node: str, number: int = 0) -> str:
    """“Otherwise the IRI is `urn:motet:event:` and the SHA-256 of these lines: the id or nothing; the number of events
    of equal content before it in the input; its content. **Content** is the sorted N-Triples of the event, with
    `<urn:motet:this>` for its node”

    >>> minted_id([("_:r", "<urn:p>", '"1"')], "_:r")[:24]
    'urn:motet:event:072a01aa'
    """
    lines = sorted({f"{s} {p} {o} ." for s, p, o in _with_node(triples, node, THIS)})
    return MINTED + sha256("\n".join(["", str(number), *lines]).encode()).hexdigest()


def minted_document_id(payload: bytes) -> str:
    """The IRI of an XML event without one: its content is the canonical form of its document."""
    return MINTED + sha256("\n".join(["", "0", canonical_document(payload).decode()]).encode()).hexdigest()


def documents(events: Sequence[EventRecord], random: Random, *, arguments: bool = True) -> Iterator[EventDocument]:
    """Documents that together have these events, in this order; without ``arguments`` they need none."""
    group: list[EventRecord] = []
    for event in events:
        if event.payload is not None:
            if group:
                yield _document(group, random, arguments)
            group = []
            yield random.choice(list(xml_documents(event, arguments=arguments)))
            continue
        if group and (event.id in {other.id for other in group} or random.random() < 0.6):
            yield _document(group, random, arguments)
            group = []
        group.append(event)
    if group:
        yield _document(group, random, arguments)


def xml_documents(event: EventRecord, *, arguments: bool = True) -> Iterator[EventDocument]:
    """The document of an XML event, alone if it states what it must, with arguments, and in a CloudEvent."""
    assert event.payload is not None, "it is an XML event"
    text, root = event.payload.decode(), etree.fromstring(event.payload)
    is_minted = event.id.startswith(MINTED)
    states_id = root.get(f"{{{MOTET_NAMESPACE}}}id") == event.id
    states_time = event.stamped or root.get(f"{{{MOTET_NAMESPACE}}}start") is not None
    if states_time:
        plain = EventDocument(text, "application/xml")
        if states_id or is_minted:
            yield plain
        if arguments and not is_minted:
            yield replace(plain, id=event.id)
            if not states_id:
                yield replace(plain, input_id=event.id)
    if not is_minted:
        yield EventDocument(json.dumps(cloudevent(event), ensure_ascii=False), "application/cloudevents+json")


def cloudevent(event: EventRecord) -> dict[str, str]:
    """An XML event as a CloudEvent that is only a wrapper, as `motet export` writes it."""
    assert event.payload is not None, "it is an XML event"
    times = {} if event.stamped else {"start": format_datetime(event.start), "end": format_datetime(event.end)}
    wrapper = {"specversion": "1.0", "id": event.id, "source": WRAPPER_TYPE, "type": WRAPPER_TYPE}
    return wrapper | times | {"datacontenttype": "application/xml", "data": event.payload.decode()}


def _document(events: Sequence[EventRecord], random: Random, arguments: bool) -> EventDocument:
    forms = [*_named_graphs(events), *_default_graphs(events)]
    if len(events) == 1:
        forms += _blank_graph(events[0])
        forms += _with_arguments(events[0]) if arguments and not events[0].id.startswith(MINTED) else ()
    return random.choice(forms)


def _named_graphs(events: Sequence[EventRecord]) -> Iterator[EventDocument]:
    """Each event as a graph with its name."""
    quads = "".join(f"{s} {p} {o} {iri(event.id)} .\n" for event in events for s, p, o in sorted(event.triples))
    yield EventDocument(quads, "application/n-quads")
    blocks = (f"{iri(event.id)} {{\n{_text(event.triples)}}}\n" for event in events)
    yield EventDocument("".join(blocks), "application/trig")
    graphs = [{"@id": event.id, "@graph": list(_node_objects(event.triples))} for event in events]
    yield EventDocument(json.dumps(graphs), "application/ld+json")


def _default_graphs(events: Sequence[EventRecord]) -> Iterator[EventDocument]:
    """The events in one default graph, those without an IRI of their own as blank nodes, or the only one as ``<>``."""
    minted = [event for event in events if event.id.startswith(MINTED)]
    for single in (DOCUMENT, "_:event") if len(minted) == 1 else ("_:event",):
        nodes = {
            event.id: iri(event.id) if event not in minted else single if len(minted) == 1 else f"_:event{number}"
            for number, event in enumerate(events)
        }
        triples = [triple for event in events for triple in _with_node(event.triples, iri(event.id), nodes[event.id])]
        if _meaning(triples, nodes.values()) == {event.id: event.triples for event in events}:
            yield from _serialised(triples)


def _blank_graph(event: EventRecord) -> Iterator[EventDocument]:
    """An event without an IRI of its own as a graph named by a blank node."""
    if event.id.startswith(MINTED) and minted_id(event.triples, iri(event.id)) == event.id:
        triples = list(_with_node(event.triples, iri(event.id), "_:event"))
        yield EventDocument(f"_:event {{\n{_text(triples)}}}\n", "application/trig")
        yield EventDocument("".join(f"{s} {p} {o} _:event .\n" for s, p, o in triples), "application/n-quads")


def _with_arguments(event: EventRecord) -> Iterator[EventDocument]:
    """A document that is one event by its argument ``id``, and one without an IRI whose input has an id."""
    for document in _serialised(sorted(event.triples)):
        yield replace(document, id=event.id)
    for node in (DOCUMENT, "_:event"):
        triples = list(_with_node(event.triples, iri(event.id), node))
        if len(_meaning(triples, [node]) or ()) == 1:
            for document in _serialised(triples):
                yield replace(document, input_id=event.id)


def _meaning(triples: Iterable[Triple], order: Iterable[str]) -> dict[str, frozenset[Triple]] | None:
    """The events of a default graph by id, or None if it is refused; ``order`` has the event nodes.

    “The *event nodes* […] in the default graph: `<>`, if it is a subject; the IRIs that state a time […]; the blank
    nodes that are subjects and not objects. Each is one event. It has […] the triples of the default graph that can be
    reached from its node, from subject to object, without going through another event node”
    """
    graph = set(triples)
    nodes = {s for s, p, _ in graph if s == DOCUMENT or (not _is_blank(s) and p in TIME_PROPERTIES)}
    nodes |= {s for s, _, _ in graph if _is_blank(s)} - {o for _, _, o in graph}
    reached = {node: frozenset(_reached(graph, node, nodes)) for node in nodes}
    if nodes != set(order) or graph != set().union(*reached.values()):
        return None
    events: dict[str, frozenset[Triple]] = {}
    counts: Counter[str] = Counter()
    for node in dict.fromkeys(order):
        id_ = node[1:-1]
        if node == DOCUMENT or _is_blank(node):
            first = minted_id(reached[node], node)
            id_ = minted_id(reached[node], node, counts[first])
            counts[first] += 1
        events[id_] = frozenset(_with_node(reached[node], node, iri(id_)))
    return events


def _reached(graph: set[Triple], node: str, nodes: set[str]) -> set[Triple]:
    reached: set[Triple] = set()
    subjects = {node}
    while True:
        more = {triple for triple in graph - reached if triple[0] in subjects}
        if not more:
            return reached
        reached |= more
        subjects |= {o for _, _, o in more} - nodes


def _with_node(triples: Iterable[Triple], old: str, new: str) -> Iterator[Triple]:
    return ((new if s == old else s, p, new if o == old else o) for s, p, o in triples)


def _is_blank(term: str) -> bool:
    return term.startswith("_:")


def _serialised(triples: Sequence[Triple]) -> Iterator[EventDocument]:
    """A default graph in the formats that can have ``<>`` and blank nodes."""
    yield EventDocument(_text(triples), "text/turtle")
    yield EventDocument(_text(triples), "application/trig")
    yield EventDocument(json.dumps(list(_node_objects(triples))), "application/ld+json")


def _text(triples: Iterable[Triple]) -> str:
    return "".join(f"{s} {p} {o} .\n" for s, p, o in triples)


def _node_objects(triples: Iterable[Triple]) -> Iterator[dict[str, object]]:
    """Node objects of expanded JSON-LD, in the order of their subjects; a blank node that is no object has no @id."""
    several = list(triples)
    objects = {o for _, _, o in several}
    for subject in dict.fromkeys(s for s, _, _ in several):
        node: dict[str, object] = {} if _is_blank(subject) and subject not in objects else {"@id": _json_id(subject)}
        properties: dict[str, list[object]] = {}
        for s, p, o in several:
            if s == subject:
                properties.setdefault(p[1:-1], []).append(_json_value(o))
        yield node | properties


def _json_id(term: str) -> str:
    return term if _is_blank(term) else term[1:-1]


def _json_value(term: str) -> dict[str, str]:
    if not term.startswith('"'):
        return {"@id": _json_id(term)}
    text, datatype, language = literal_parts(term)
    if language is not None:
        return {"@value": text, "@language": language}
    return {"@value": text} if datatype == XSD + "string" else {"@value": text, "@type": datatype}
