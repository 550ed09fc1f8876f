"""Renders events as XML documents by a mapping: the inverse of lifting, for paths that say where an element stands."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast
from urllib.parse import unquote

from lxml import etree

from motet.codec.row_mapping import UNITS, IriTemplate, PropertyColumn, TimeColumn
from motet.codec.row_values import TEXT, literal_of
from motet.codec.xml_mapping import DocumentMapping, DocumentStep, NodeLimit
from motet.model import terms
from motet.model.batches import Triple
from motet.model.errors import UsageError
from motet.model.terms import RDF_TYPE
from motet.model.times import parse_datetime, to_datetime
from motet.model.xml_document import MOTET_NAMESPACE


class Rendered(NamedTuple):
    """A document made of triples, and the triples that the mapping has no place for."""

    document: bytes
    left_out: list[Triple]


_NOT_XML = re.compile("[\x00-\x08\x0b-\x1f\ud800-\udfff\ufffe\uffff]")


def is_xml_text(term: str) -> bool:
    """Whether the text of a term can stand in XML."""
    text = terms.literal_parts(term)[0] if "\\" in term and not terms.is_iri(term) else term  # slow for long texts
    return _NOT_XML.search(text) is None


def render_mapped(mapping: DocumentMapping, iri: str, triples: Sequence[Triple]) -> Rendered:
    """The document from which a mapping lifts the triples of an event; those that it does not lift are left out."""
    return _Rendering(mapping, iri, triples).run()


class _Rendering:
    """Renders one event."""

    def __init__(self, compiled: DocumentMapping, iri: str, triples: Sequence[Triple]) -> None:
        self._compiled = compiled
        self._mapping = compiled.mapping
        self._iri = iri
        self._unwritable = [triple for triple in triples if not is_xml_text(triple[2])]
        self._rest = dict.fromkeys(triple for triple in triples if is_xml_text(triple[2]))
        self._prefixes = {**dict(self._mapping.prefixes), "motet": MOTET_NAMESPACE}

    def run(self) -> Rendered:
        if self._compiled.root is None:
            raise UsageError(
                f"{self._mapping.source}: without event, root no document can be made", advice="Name the root element."
            )
        root = etree.Element(self._compiled.root, nsmap=self._prefixes)
        subject = terms.iri(self._iri)
        self._classes(subject, self._mapping.classes, root)
        for time in self._mapping.times:
            for object_ in self._objects(subject, time.property):
                self._place(root, time.column, _time_text(time, terms.literal_parts(object_)[0]))
                self._use(subject, time.property, object_)
        self._properties(subject, root, self._mapping.properties)
        values = _inverted(self._mapping.id, subject) if self._mapping.id else None
        if values is None:
            root.set(f"{{{MOTET_NAMESPACE}}}id", self._iri)
        else:
            self._place_missing(root, values)
        etree.cleanup_namespaces(root)
        document = etree.tostring(root, xml_declaration=True, encoding="UTF-8", pretty_print=True)
        return Rendered(document, self._unwritable + list(self._rest))

    def _objects(self, subject: str, predicate: str) -> list[str]:
        return [o for s, p, o in self._rest if s == subject and p == terms.iri(predicate)]

    def _use(self, subject: str, predicate: str, object_: str) -> None:
        self._rest.pop((subject, terms.iri(predicate), object_), None)

    def _classes(self, subject: str, templates: Sequence[IriTemplate], element: etree._Element) -> None:
        """Place the classes; templates with columns prefer a class that no other template has."""
        type_ = terms.iri_value(RDF_TYPE)
        fixed = [terms.iri(template.text) for template in templates if not template.columns]
        classes = sorted(self._objects(subject, type_), key=fixed.__contains__)
        for template in templates:
            found = ((class_, _inverted(template, class_)) for class_ in classes)
            class_, values = next(((class_, values) for class_, values in found if values is not None), ("", {}))
            self._place_missing(element, values)
            self._use(subject, type_, class_)

    def _properties(self, subject: str, element: etree._Element, properties: Sequence[PropertyColumn]) -> None:
        for each in properties:
            objects = self._objects(subject, each.property)
            if each.node is not None:  # in the order of their numbers
                objects.sort(key=lambda term: (len(term), term))
            for object_ in objects:
                if each.node is not None:
                    self._nested(subject, element, each, object_)
                    continue
                values = self._texts(each, object_)
                if values is None:
                    continue
                own = values.pop(each.column, None)
                if own is not None:
                    self._place(element, each.column, own)
                self._place_missing(element, values)
                self._use(subject, each.property, object_)

    def _nested(self, subject: str, element: etree._Element, each: PropertyColumn, object_: str) -> None:
        values = _inverted(each.iri, object_) if each.iri else {}
        if each.node is None or values is None or not terms.is_iri(object_):
            return
        node = self._place(element, each.column, None)
        self._use(subject, each.property, object_)
        self._classes(object_, each.node.classes, node)
        self._properties(object_, node, each.node.properties)
        self._place_missing(node, values)

    def _texts(self, each: PropertyColumn, object_: str) -> dict[str, str] | None:
        """The text of each column that lifts to an object; None if the property does not."""
        if each.iri is not None:
            return _inverted(each.iri, object_)
        if terms.is_iri(object_):
            return None
        text = terms.literal_parts(object_)[0]
        try:
            is_same = literal_of(text, TEXT, each.datatype, each.language) == object_
        except ValueError:
            is_same = False
        return {each.column: text} if is_same else None

    def _place_missing(self, element: etree._Element, values: Mapping[str, str]) -> None:
        for column, value in values.items():
            if self._compiled.path(column).values(element, NodeLimit()) is None:
                self._place(element, column, value)

    def _place(self, element: etree._Element, column: str, value: str | None) -> etree._Element:
        """Add a value, or an element without one, at the end of a path."""
        path = self._compiled.path(column)
        if path.is_absolute:
            element = element.getroottree().getroot()
        steps = [step for step in path.steps if step.name != "."]
        if any(step.is_deep or step.name == "*" or (step.position or 1) > 1 for step in steps):
            raise UsageError(
                f"{self._mapping.source}: the path {column} does not say where an element stands",
                advice="Rendering needs paths of names alone.",
            )
        for number, step in enumerate(steps):
            if step.is_attribute:
                assert value is not None, "a node is an element"
                if element.get(step.name) not in (None, value) and number:
                    element = self._child(cast(etree._Element, element.getparent()), steps[number - 1])
                element.set(step.name, value)
                return element
            is_last = number == len(steps) - 1
            existing = None if is_last else _last(element, step)
            element = existing if existing is not None else self._child(element, step)
        if value is not None:
            element.text = value
        return element

    def _child(self, parent: etree._Element, step: DocumentStep) -> etree._Element:
        child = etree.SubElement(parent, step.name)
        if step.key is not None:
            if step.key.startswith("@"):
                child.set(step.key[1:], step.value)
            else:
                etree.SubElement(child, step.key).text = step.value
        return child


def _last(element: etree._Element, step: DocumentStep) -> etree._Element | None:
    for child in element.iterchildren(step.name, reversed=True):
        if step.key is None:
            return child
        found = child.get(step.key[1:]) if step.key.startswith("@") else child.findtext(step.key)
        if found == step.value:
            return child
    return None


def _inverted(template: IriTemplate, term: str) -> dict[str, str] | None:
    """The values of the columns that make an IRI; None if the template does not make it.

    >>> _inverted(IriTemplate("urn:{a}:{b}"), "<urn:x%20y:1>")
    {'a': 'x y', 'b': '1'}
    """
    if not terms.is_iri(term):
        return None
    iri = terms.iri_value(term)
    if template.is_column and len(template.columns) == 1:
        return {template.columns[0]: iri}
    pattern = r"([\w.~%-]+?)".join(map(re.escape, template.parts))
    match = re.fullmatch(pattern, iri)
    if match is None:
        return None
    return {column: unquote(text) for column, text in zip(template.columns, match.groups(), strict=True)}


def _time_text(time: TimeColumn, lexical: str) -> str:
    micros = parse_datetime(lexical)
    if time.unit is not None:
        whole, part = divmod(micros, UNITS[time.unit])
        digits = len(str(UNITS[time.unit])) - 1
        return f"{whole}.{part:0{digits}}".rstrip("0") if part else str(whole)
    if time.format is not None:
        return to_datetime(micros).strftime(time.format)
    return lexical
