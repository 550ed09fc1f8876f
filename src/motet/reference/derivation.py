"""Derived events: the events that CONSTRUCT clauses make of a notification, and the leaves they feed (language page,
section 8).

> Each CONSTRUCT clause of a notification yields one new event […]. In cumulative and iterations a template is
> instantiated for every member and the results are merged (many-to-one). […] a CONSTRUCT that feeds a leaf is an edge
> of the plan, not a second publication. Cycles are refused.

In a template ``?this`` is the derived event itself, unless a leaf has a variable of that name. As in SPARQL, a triple
with an unbound variable or a literal where none may stand is left out, and a blank node is a new one for every
member; blank nodes are then named as those of a published event. A clause that yields no triple yields no event.

A clause **feeds** a leaf when every triple that all matches of the leaf require (its class, and the triple patterns of
its body outside OPTIONAL, UNION and FILTER) may be one of the template's triples or of their consequences, or of the
background's. The template's variables stand for anything; the leaf's own name stands for the derived event.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from motet.codec.options import stored_mapping
from motet.codec.xml_mapping import document_mapping
from motet.language.syntax import Event, Subscription, Template, XmlTemplate
from motet.model.terms import RDF_TYPE, iri
from motet.reference.leaves import BackgroundGraph
from motet.reference.occurrences import SortedBindings
from motet.reference.sparql import Triple, as_term
from motet.xmlql.blocks import TemplateVariable

if TYPE_CHECKING:
    from rdflib.plugins.sparql.parserutils import CompValue

THIS = "this"

_PLACEHOLDER = "<urn:motet:variable:"
_PATH_NODE = "?"  # the node between two steps of a path
_VARIABLE = re.compile(r"(\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|<[^<>\s]*>)|[?$](\w+)", re.DOTALL)


def derived_iri(notification_id: str, position: int) -> str:
    """“Its IRI derives from the notification id and the clause's position” (from 1).

    >>> derived_iri("ab12", 1)
    'urn:motet:derived:ab12:1'
    """
    return f"urn:motet:derived:{notification_id}:{position}"


def instantiate(template: Template, members: Iterable[SortedBindings], event: str) -> frozenset[Triple]:
    """The graph of a derived event.

    >>> hot = Template("?this <urn:in> ?room", frozenset({"this", "room"}))
    >>> instantiate(hot, [(("room", "<urn:r:1>"),), ()], "urn:e:1")
    frozenset({('<urn:e:1>', '<urn:in>', '<urn:r:1>')})
    """
    patterns = _template_triples(template)
    triples = set()
    for index, member in enumerate(sorted(members)):
        values = {THIS: iri(event)} | dict(member)
        for pattern in patterns:
            subject, predicate, value = (_instantiate_term(term, values, index) for term in pattern)
            if subject and predicate and value and not subject.startswith('"') and predicate.startswith("<"):
                triples.add((subject, predicate, value))
    return _skolemize(triples, event)


@lru_cache(maxsize=4096)
def feeds(
    template: Template | XmlTemplate, event: Event, background: BackgroundGraph, xml: frozenset[str] = frozenset()
) -> bool:
    """Whether the events of a template may match a leaf.

    “An XML clause feeds an XML block when the block's outermost name occurs in its template or may be inserted by a
    variable”: one of ``xml``; an RDF leaf when a mapping for its root may lift the required triples. An anchored block
    must have the name of the template's root.
    """
    if isinstance(template, XmlTemplate):
        return _may_be_lifted(template, event, background) and _document_feeds(template, event, xml)
    if event.xml is not None:
        return False
    available = background.closure_with(frozenset(_template_triples(template)))
    return all(
        any(_may_match(required, triple, event.name) for triple in available) for required in _required_triples(event)
    )


def _document_feeds(template: XmlTemplate, event: Event, xml: frozenset[str]) -> bool:
    if event.xml is None:
        return True
    outermost = event.xml.tree.element.names
    if event.xml.tree.is_anchored and outermost:
        root = template.tree.name
        return isinstance(root, TemplateVariable) or root in outermost
    inserts_elements = any(
        isinstance(element.name, TemplateVariable)
        or any(isinstance(item, TemplateVariable) and item.variable in xml for item in element.content)
        for element in template.tree.walk()
    )
    has_name = any(element.name in outermost for element in template.tree.walk())
    return inserts_elements or not outermost or has_name


def _may_be_lifted(template: XmlTemplate, event: Event, background: BackgroundGraph) -> bool:
    """Whether a mapping may lift the triples that a leaf requires: of a block those of its class."""
    required = _required_triples(event)
    if not required:
        return True
    root = template.tree.name
    for mapping in map(stored_mapping, template.mappings):
        if mapping.is_generic:
            return True
        if isinstance(root, TemplateVariable) or document_mapping(mapping).root in (None, root):
            triples = [(_as_placeholder(s), p, _as_placeholder(o)) for s, p, o in mapping.possible_triples()]
            available = background.closure_with(frozenset(triples))
            if all(any(_may_match(triple, each, event.name) for each in available) for triple in required):
                return True
    return False


def _as_placeholder(term: str) -> str:
    return f"{_PLACEHOLDER}{term[1:]}>" if term.startswith("?") else term


def inserted_as_xml(subscription: Subscription) -> frozenset[str]:
    """“a variable bound by ELEMENT_AS or CONTENT_AS is inserted as XML”, and one of RDF that is an rdf:XMLLiteral."""
    blocks = [event.xml.tree.element for event in subscription.events if event.xml]
    bound = {name for block in blocks for each in block.walk() for name in (*each.element_as, *each.content_as)}
    bodies = {name for event in subscription.events if event.body for name in event.body.variables - {event.name}}
    return frozenset(bound | bodies)


@lru_cache(maxsize=4096)
def _template_triples(template: Template) -> list[Triple]:
    """The template's triples, with an IRI standing in for each variable. Turtle loses no lexical form."""
    import pyoxigraph

    text = _VARIABLE.sub(lambda match: match[1] or f"{_PLACEHOLDER}{match[2]}>", template.text).strip()
    turtle = text if not text or text.endswith(".") else f"{text} ."
    parsed = pyoxigraph.parse(turtle, format=pyoxigraph.RdfFormat.TURTLE)
    return [(str(quad.subject), str(quad.predicate), str(quad.object)) for quad in parsed]


def _instantiate_term(term: str, values: dict[str, str], member: int) -> str | None:
    if term.startswith("_:"):
        return f"{term}x{member}"
    return values.get(_variable_name(term)) if _is_placeholder(term) else term


def _skolemize(triples: set[Triple], event: str) -> frozenset[Triple]:
    """“Blank nodes are replaced […] by IRIs derived from the graph IRI and their RDFC-1.0 canonical labels.”"""
    import pyoxigraph

    if not any(term.startswith("_:") for triple in triples for term in triple):
        return frozenset(triples)
    text = "".join(f"{s} {p} {o} .\n" for s, p, o in sorted(triples))
    dataset = pyoxigraph.Dataset(pyoxigraph.parse(text, format=pyoxigraph.RdfFormat.N_TRIPLES))
    dataset.canonicalize(pyoxigraph.CanonicalizationAlgorithm.RDFC_1_0)
    stem = f"<{event}-genid-" if "#" in event else f"<{event}#genid-"

    def named(term: object) -> str:
        return f"{stem}{term.value}>" if isinstance(term, pyoxigraph.BlankNode) else str(term)

    return frozenset((named(quad.subject), named(quad.predicate), named(quad.object)) for quad in dataset)


def _required_triples(event: Event) -> list[Triple]:
    """The triple patterns every match of a leaf requires; a variable is written ``?name``, an open path as ``?``."""
    required = [(f"?{event.name}", RDF_TYPE, f"<{event.class_iri}>")] if event.class_iri else []
    return required + (_required_of_body(event.body.text) if event.body else [])


@lru_cache(maxsize=4096)
def _required_of_body(body: str) -> list[Triple]:
    from rdflib.plugins.sparql.algebra import translateQuery
    from rdflib.plugins.sparql.parser import parseQuery

    algebra = translateQuery(parseQuery(f"SELECT * WHERE {{ {body} }}")).algebra
    return list(_required_of_node(algebra.p))


def _required_of_node(node: CompValue) -> Iterator[Triple]:
    match node.name:
        case "BGP":
            for subject, predicate, value in node.triples:
                yield from _path_triples(as_term(subject), predicate, as_term(value))
        case "Join":
            yield from _required_of_node(node.p1)
            yield from _required_of_node(node.p2)
        case "LeftJoin" | "Minus":
            yield from _required_of_node(node.p1)
        case "Filter" | "Extend" | "Project":
            yield from _required_of_node(node.p)


def _path_triples(subject: str, predicate: object, value: str) -> Iterator[Triple]:
    """The triple patterns of a sequence or inverse; the predicate of any other path is open."""
    from rdflib.paths import InvPath, SequencePath

    if isinstance(predicate, InvPath):
        yield from _path_triples(value, predicate.arg, subject)
    elif isinstance(predicate, SequencePath):
        nodes = [subject, *[_PATH_NODE] * (len(predicate.args) - 1), value]
        for step, (begin, end) in zip(predicate.args, pairwise(nodes), strict=True):
            yield from _path_triples(begin, step, end)
    else:
        yield subject, as_term(predicate), value


def _may_match(required: Triple, available: Triple, name: str) -> bool:
    return all(
        _is_placeholder(term) and _variable_name(term) == THIS
        if want == f"?{name}"
        else want.startswith("?") or _is_placeholder(term) or term.startswith("_:") or want == term
        for want, term in zip(required, available, strict=True)
    )


def _is_placeholder(term: str) -> bool:
    return term.startswith(_PLACEHOLDER)


def _variable_name(term: str) -> str:
    return term[len(_PLACEHOLDER) : -1]
