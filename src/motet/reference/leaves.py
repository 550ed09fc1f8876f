"""The solutions of a leaf in one event (language page, sections 2 and 3).

> A leaf pattern is evaluated over the event's own graph together with the background graph […], closed under the
> ontology. […] A solution that also arises from the background graph alone does not count. An EVENT without class and
> body matches every event once.

> In the body of an EVENT, `?name` (the event's own name) is bound to the event IRI, and `EVENT e : C` adds `?e a C`.

So the body is read as if it began with ``VALUES ?name { <event> } ?name a C .`` and SPARQL's own rules of scope hold
from there. A solution is the value of every variable the body can bind, before projection; it “arises from the
background alone” when the same group, ``?name`` bound to the same event, has it over the closed background graph.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from motet.language.syntax import Event, XmlBlock
from motet.model.errors import LimitError
from motet.model.terms import RDF_TYPE, XSD, iri, literal
from motet.model.times import format_datetime
from motet.model.xml_document import parse_stored_xml
from motet.ontology.entailment import Entailment, Reasoner
from motet.reference.occurrences import SortedBindings, union
from motet.reference.sparql import Triple, solutions
from motet.reference.visibility import body_variables
from motet.xmlql.evaluate import solutions as solutions_of_block


@dataclass(frozen=True)
class BackgroundGraph:
    """The ontology with its individuals as of an offset of the log, and the entailment."""

    triples: frozenset[Triple]
    entailment: Entailment

    def closure(self) -> frozenset[Triple]:
        return frozenset(_reasoner(self).background)

    def closure_with(self, graph: frozenset[Triple]) -> frozenset[Triple]:
        """An event's graph together with the background graph, closed under the ontology."""
        return _closure_with(self, graph)


def leaf_solutions(
    event: Event, event_iri: str, graph: frozenset[Triple], background: BackgroundGraph, payload: bytes | None = None
) -> frozenset[SortedBindings]:
    """The solutions of a leaf that count, over all variables of its body or block."""
    if event.xml is not None:
        of_class = leaf_solutions(replace(event, xml=None), event_iri, graph, background)
        return frozenset(union(one, two) for one in of_class for two in _block_solutions(event.xml, payload))
    typed = f"?{event.name} {RDF_TYPE} <{event.class_iri}> ." if event.class_iri else ""
    body = event.body.text if event.body else ""
    if not typed and not body.strip():
        return frozenset({((event.name, iri(event_iri)),)})
    group = f"VALUES ?{event.name} {{ <{event_iri}> }} {typed} {body}"
    variables = body_variables(event)
    try:
        closed = background.closure_with(graph)
    except LimitError:  # the event would entail more than the limits allow: only an EVENT without a pattern matches it
        return frozenset()
    candidates = solutions(closed, group, variables)
    return candidates - solutions(background.closure(), group, variables) if candidates else candidates


@lru_cache(maxsize=4096)
def _block_solutions(block: XmlBlock, payload: bytes | None) -> frozenset[SortedBindings]:
    """“each match is a solution”; an event without a document has none, and a block with too many has none, either."""
    try:
        rows = solutions_of_block(block.tree, parse_stored_xml(payload)) if payload is not None else []
    except LimitError:
        return frozenset()
    return frozenset(tuple(sorted(row.items())) for row in rows)


def interval_bindings(event: Event, start: int, end: int) -> SortedBindings:
    """“`EVENT a : ex:A DURING ?s ?e` binds `?s` and `?e` to the event's start and end as xsd:dateTime literals”"""
    instants = (literal(format_datetime(instant), datatype=XSD + "dateTime") for instant in (start, end))
    return tuple(sorted(zip(event.times, instants, strict=True))) if event.times else ()


@lru_cache(maxsize=64)
def _reasoner(background: BackgroundGraph) -> Reasoner:
    return Reasoner(background.triples, background.entailment)


@lru_cache(maxsize=4096)
def _closure_with(background: BackgroundGraph, graph: frozenset[Triple]) -> frozenset[Triple]:
    return frozenset(_reasoner(background).close(graph)) | background.closure() | graph
