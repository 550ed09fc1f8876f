"""The generic mapping of XML documents: an element is a node, its attributes and simple elements are properties.

A property is the namespace and the name of an element, or of an attribute after ``@``. Values have the datatypes that
texts of rows have. ``rdf:resource``, ``rdf:datatype``, ``xml:lang`` and ``motet:id`` say what else an object is, so
that every event with names of XML can be rendered and lifted again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import NoReturn
from urllib.parse import quote

from lxml import etree

from motet.codec.identity import is_reserved
from motet.codec.options import ABSOLUTE_IRI
from motet.codec.row_mapping import LANGUAGE
from motet.codec.row_values import TEXT, literal_of
from motet.codec.xml_mapping import MAX_NODES, XML_NAME, node_iri
from motet.codec.xml_rendering import Rendered, is_xml_text
from motet.model import terms
from motet.model.batches import Triple
from motet.model.errors import DecodeError
from motet.model.terms import RDF_TYPE
from motet.model.xml_document import MOTET_NAMESPACE

_MAX_DEPTH = 100  # of a rendered document
GENERIC_NAMESPACE = "urn:xml:"  # of elements and attributes in no namespace

_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_RESOURCE, _DATATYPE = f"{{{_RDF}}}resource", f"{{{_RDF}}}datatype"
_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_ID = f"{{{MOTET_NAMESPACE}}}id"
_TEXT_PROPERTY = f"{GENERIC_NAMESPACE}text()"
_TAG = re.compile(rf"@?{XML_NAME}")
_string = etree.XPath("string()", smart_strings=False)


def lift_generic(root: etree._Element, iri: str) -> list[Triple]:
    """The triples of a document without a mapping; the order of its elements is not stated.

    >>> lift_generic(etree.fromstring("<order n='7'><pay>finished</pay></order>"), "urn:e:1")[1:]
    [('<urn:e:1>', '<urn:xml:@n>', '"7"^^<http://www.w3.org/2001/XMLSchema#integer>'), \
('<urn:e:1>', '<urn:xml:pay>', '"finished"')]
    """
    lifting = _GenericLifting(iri)
    if sum(1 for _ in islice(root.iter(), MAX_NODES + 1)) > MAX_NODES:
        lifting.refuse()
    lifting.state(terms.iri(iri), RDF_TYPE, terms.iri(_name_iri(root.tag)))
    lifting.content(root, terms.iri(iri))
    return list(lifting.triples)


class _GenericLifting:
    def __init__(self, iri: str) -> None:
        self._iri = iri
        self._nodes = 0
        self.triples: dict[Triple, None] = {}

    def state(self, subject: str, predicate: str, object_: str) -> None:
        self.triples.setdefault((subject, predicate, object_))
        if len(self.triples) > MAX_NODES:
            self.refuse()

    def refuse(self) -> NoReturn:
        advice = "map the parts that subscriptions need, or store it without a mapping"
        raise DecodeError(f"the document has more than {MAX_NODES} triples by the generic mapping", advice=advice)

    def content(self, element: etree._Element, subject: str) -> None:
        for name, value in element.attrib.items():
            if not str(name).startswith(f"{{{MOTET_NAMESPACE}}}"):
                self.state(subject, terms.iri(_name_iri(str(name), is_attribute=True)), literal_of(str(value), TEXT))
        for text in (element.text, *(child.tail for child in element)):
            if text and text.strip():
                self.state(subject, terms.iri(_TEXT_PROPERTY), literal_of(text.strip(), TEXT))
        for child in element.iterchildren(etree.Element):
            self.state(subject, terms.iri(_name_iri(child.tag)), self._object(child))

    def _object(self, element: etree._Element) -> str:
        names = element.keys()
        has_children = next(element.iterchildren(etree.Element), None) is not None
        if names == [_RESOURCE] and ABSOLUTE_IRI.fullmatch(element.get(_RESOURCE, "")):
            return terms.iri(element.get(_RESOURCE, ""))
        if not has_children and names in ([], [_DATATYPE], [_LANG]):
            return self._literal(element)
        self._nodes += 1
        stated = element.get(_ID, "")
        is_own = stated.startswith(self._iri)  # a node of an event whose IRI was made of its content
        is_named = ABSOLUTE_IRI.fullmatch(stated) is not None and (is_own or not is_reserved(stated))
        node = terms.iri(stated if is_named else node_iri(self._iri, self._nodes))
        self.content(element, node)
        return node

    def _literal(self, element: etree._Element) -> str:
        text, datatype, language = str(_string(element)), element.get(_DATATYPE), element.get(_LANG)
        if datatype is not None and ABSOLUTE_IRI.fullmatch(datatype):
            return terms.literal(text, datatype=datatype)
        if language is not None and LANGUAGE.fullmatch(language):
            return terms.literal(text, language=language)
        return literal_of(text.strip(), TEXT)


def _name_iri(tag: str, *, is_attribute: bool = False) -> str:
    name = etree.QName(tag)
    local = "@" * is_attribute + name.localname
    if not name.namespace:
        return GENERIC_NAMESPACE + local
    namespace = name.namespace
    has_fragment = "#" in namespace[:-1]  # an IRI has one # at most
    if has_fragment or not ABSOLUTE_IRI.fullmatch(namespace) or is_reserved(namespace):
        namespace = f"{GENERIC_NAMESPACE}{quote(namespace, safe='')}"
    return namespace + local if namespace.endswith(("#", "/", ":")) else f"{namespace}#{local}"


def render_generic(iri: str, triples: Sequence[Triple]) -> Rendered:
    """A document from which `lift_generic` gets the triples of an event; those without a name in XML are left out."""
    return _GenericRendering(iri, triples).run()


class _GenericRendering:
    def __init__(self, iri: str, triples: Sequence[Triple]) -> None:
        self._iri = iri
        self._by_subject: dict[str, dict[Triple, None]] = {}
        self._unwritable = [triple for triple in triples if not is_xml_text(triple[2])]
        for triple in triples:
            if is_xml_text(triple[2]):
                self._by_subject.setdefault(triple[0], {})[triple] = None

    def run(self) -> Rendered:
        subject = terms.iri(self._iri)
        classes = [triple for triple in self._by_subject.get(subject, ()) if triple[1] == RDF_TYPE]
        tags = [(tag, triple) for triple in classes if (tag := _tag(triple[2])) is not None and tag[0] != "@"]
        root = etree.Element(tags[0][0] if tags else "event", nsmap={"motet": MOTET_NAMESPACE, "rdf": _RDF})
        root.set(_ID, self._iri)
        if tags:
            del self._by_subject[subject][tags[0][1]]
        self._fill(root, subject)
        left_out = self._unwritable + [triple for triples in self._by_subject.values() for triple in triples]
        return Rendered(etree.tostring(root, xml_declaration=True, encoding="UTF-8", pretty_print=True), left_out)

    def _fill(self, element: etree._Element, subject: str, depth: int = 1) -> None:
        triples = list(self._by_subject.get(subject, ()))
        for triple in triples:
            _, predicate, object_ = triple
            tag = _tag(predicate)
            if tag is None or triple not in self._by_subject[subject]:  # in a cycle, it is stated further in
                continue
            if tag.startswith("@"):
                if not terms.is_iri(object_) and element.get(tag[1:]) is None:
                    element.set(tag[1:], terms.literal_parts(object_)[0])
                    del self._by_subject[subject][triple]
                continue
            del self._by_subject[subject][triple]
            self._object(etree.SubElement(element, tag), object_, depth)
        self._texts(element, [triple for triple in triples if triple[1] == terms.iri(_TEXT_PROPERTY)])

    def _texts(self, element: etree._Element, triples: Sequence[Triple]) -> None:
        """Place the first text before the children of an element, and one more after each child."""
        places = [None, *element]
        for place, triple in zip(places, triples, strict=False):
            text = terms.literal_parts(triple[2])[0]
            if place is None:
                element.text = text
            else:
                place.tail = text
            del self._by_subject[triple[0]][triple]

    def _object(self, child: etree._Element, object_: str, depth: int) -> None:
        if not terms.is_iri(object_):
            text, datatype, language = terms.literal_parts(object_)
            child.text = text
            if language:
                child.set(_LANG, language)
            elif literal_of(text.strip(), TEXT) != object_:
                child.set(_DATATYPE, datatype)
        elif self._by_subject.get(object_) and object_ != terms.iri(self._iri) and depth < _MAX_DEPTH:
            child.set(_ID, terms.iri_value(object_))
            self._fill(child, object_, depth + 1)
        else:
            child.set(_RESOURCE, terms.iri_value(object_))


def _tag(term: str) -> str | None:
    """The name of an element or, with @, of an attribute that stands for an IRI; None if there is none."""
    if not terms.is_iri(term):
        return None
    iri = terms.iri_value(term)
    split = max(iri.rfind(mark) for mark in "#/:") + 1
    namespace, local = iri[:split], iri[split:]
    if not _TAG.fullmatch(local) or iri == _TEXT_PROPERTY or "#" in namespace[:-1]:
        return None
    mark = "@" * local.startswith("@")
    name = local.removeprefix("@")
    return mark + (name if namespace == GENERIC_NAMESPACE else f"{{{namespace}}}{name}")
