"""A mapping of XML documents: compiles its paths, and lifts triples from a document.

The columns of the mapping are paths, a bounded part of XPath 1.0 from the root, or from the element of a nested node:
``cap:info/cap:severity``, ``@id``, ``.``, ``item[@kind='x']/price``; ``//note`` only in the properties of the document.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, NoReturn, cast
from urllib.parse import quote

from lxml import etree

from motet.codec.identity import is_reserved
from motet.codec.options import ABSOLUTE_IRI
from motet.codec.row_mapping import IriTemplate, PropertyColumn, RowMapping, TimeColumn
from motet.codec.row_values import TEXT, instant, literal_of
from motet.model import terms
from motet.model.batches import Triple
from motet.model.errors import DecodeError, UsageError
from motet.model.terms import RDF_TYPE
from motet.model.times import parse_datetime

MAX_STEPS = 16
MAX_DEEP_PATHS = 50  # paths with // of a mapping
MAX_PROPERTIES = 1_000
MAX_NODES = 100_000  # that the paths of a mapping select in one document

XML_NAME = r"[A-Za-z_\u00b7-\uffff][\w.\u00b7-\uffff-]*"
_STEP = re.compile(
    rf"(?P<attribute>@)?(?P<name>(?:{XML_NAME}:)?{XML_NAME}|\*|\.)"
    rf"(?P<condition>\[(?:(?P<index>[1-9][0-9]{{0,3}})|(?P<key>@?(?:{XML_NAME}:)?{XML_NAME})\s*=\s*"
    rf"(?P<value>'[^'\[\]/]*'|\"[^\"\[\]/]*\"))\])?"
)
_UNSAFE = re.compile(r"[^\w.~-]")  # in a value that becomes a part of an IRI


class DocumentStep(NamedTuple):
    """One step of a path: an element, an attribute (``@``), ``.`` or ``*``, with a condition."""

    name: str  # expanded: {namespace}local
    is_attribute: bool = False
    is_deep: bool = False  # after //
    position: int | None = None
    key: str | None = None  # of the condition [key='value'], with @ for an attribute
    value: str = ""


@dataclass(frozen=True)
class DocumentPath:
    """A path, checked and compiled."""

    text: str
    steps: tuple[DocumentStep, ...]
    is_absolute: bool
    select: etree.XPath = field(compare=False, repr=False)

    def values(self, element: etree._Element, limit: NodeLimit) -> list[str] | None:
        """The texts of what the path selects, trimmed; None if it selects nothing."""
        nodes = self.nodes(element, limit)
        return [_text(node).strip() for node in nodes] if nodes else None

    def nodes(self, element: etree._Element, limit: NodeLimit) -> list[etree._Element | str]:
        start = element.getroottree().getroot() if self.is_absolute else element
        nodes = cast(list[etree._Element | str], self.select(start))
        limit.count(len(nodes))
        return nodes


class NodeLimit:
    """The number of nodes that paths have selected in one document."""

    def __init__(self) -> None:
        self._nodes = 0

    def count(self, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise DecodeError(
                f"the paths of the mapping select more than {MAX_NODES} nodes of the document",
                advice="make them more specific",
            )


class Lifted(NamedTuple):
    """What a mapping finds in a document."""

    triples: list[Triple]
    start: int | None = None
    end: int | None = None


class DocumentMapping:
    """A mapping, compiled for XML documents.

    >>> mapping = DocumentMapping(RowMapping.parse('''
    ... event: {root: order, id: "urn:order:{@n}"}
    ... properties: {pay: urn:pay}
    ... '''))
    >>> root = etree.fromstring("<order n='7'><pay>finished</pay></order>")
    >>> mapping.iri(root), mapping.lift(root, "urn:order:7").triples
    ('urn:order:7', [('<urn:order:7>', '<urn:pay>', '"finished"')])
    """

    def __init__(self, mapping: RowMapping) -> None:
        self.mapping = mapping
        self._prefixes = dict(mapping.prefixes)
        self._paths: dict[str, DocumentPath] = {}
        self.root = self._expand(mapping.root, "event, root") if mapping.root else None
        count = deep = 0
        for each, is_nested in _all_properties(mapping.properties):
            count += 1
            self._refuse_reserved(each.property)
            deep += self._path(each.column, is_nested=is_nested).text.count("//")
            for column in each.iri.columns if each.iri else ():
                self._path(column, is_nested=is_nested)
            for template in each.node.classes if each.node else ():
                for column in template.columns:
                    self._path(column, is_nested=True)
        for column in self._event_columns():
            deep += self._path(column, is_nested=False).text.count("//")
        for time in mapping.times:
            self._refuse_reserved(time.property)
        if count > MAX_PROPERTIES or deep > MAX_DEEP_PATHS:
            what = f"{MAX_PROPERTIES} properties" if count > MAX_PROPERTIES else f"{MAX_DEEP_PATHS} paths with //"
            raise UsageError(f"{mapping.source}: it has more than {what}", advice="Divide it, or name the elements.")

    def _event_columns(self) -> Iterator[str]:
        mapping = self.mapping
        for template in (*filter(None, [mapping.id]), *mapping.classes):
            yield from template.columns
        yield from (time.column for time in mapping.times)

    def matches(self, root: etree._Element) -> bool:
        """Whether the mapping is for documents with this root element."""
        return self.root is None or root.tag == self.root

    def iri(self, root: etree._Element) -> str | None:
        """The IRI of the event that a document is, by the mapping's template; None if it has none."""
        if self.mapping.id is None:
            return None
        iri = _Lifting(self, root, "").template(self.mapping.id, root)
        if iri is None:
            column = self.mapping.id.columns[0]
            raise DecodeError(f"{column} selects nothing, and the event's id needs it", advice=_ABSENT_ADVICE)
        return terms.iri_value(iri)

    def lift(self, root: etree._Element, iri: str) -> Lifted:
        """The triples of a document as an event with an IRI, and its interval if the mapping states it."""
        return _Lifting(self, root, iri).run()

    def path(self, column: str) -> DocumentPath:
        return self._paths[column]

    def _path(self, column: str, *, is_nested: bool) -> DocumentPath:
        if column not in self._paths:
            self._paths[column] = self._compile(column)
        path = self._paths[column]
        if is_nested and "//" in path.text:
            self._refuse(f"{column!r}: // is for properties of the document", "Name the elements between them.")
        return path

    def _compile(self, column: str) -> DocumentPath:
        text, is_absolute = column.strip(), False
        if text.startswith("/") and not text.startswith("//"):
            text, is_absolute = text[1:], True
        steps: list[DocumentStep] = []
        position, is_deep = 0, False
        if text.startswith("//"):
            position, is_deep = 2, True
        while position < len(text) or not steps:
            match = _STEP.match(text, position)
            if match is None or len(steps) == MAX_STEPS:
                self._refuse_path(column)
            steps.append(self._step(match, column, is_deep=is_deep))
            position = match.end()
            if position < len(text):
                separator = "//" if text.startswith("//", position) else "/"
                is_deep = separator == "//"
                if (
                    not text.startswith(separator, position)
                    or steps[-1].is_attribute
                    or position + len(separator) >= len(text)
                ):
                    self._refuse_path(column)
                position += len(separator)
        if column.count("//") > 1 or (is_absolute and not self._is_root_step(steps[0])):
            self._refuse_path(column)
        select = self._xpath(steps, is_absolute=is_absolute)  # from the root, if absolute, which is its first step
        return DocumentPath(column, tuple(steps[1:] if is_absolute else steps), is_absolute, select)

    def _is_root_step(self, step: DocumentStep) -> bool:
        return (
            step.name != "." and not (step.is_attribute or step.is_deep) and step.position is None and step.key is None
        )

    def _step(self, match: re.Match[str], column: str, *, is_deep: bool) -> DocumentStep:
        name = match["name"]
        is_attribute = match["attribute"] is not None
        if name in (".", "*"):
            if is_attribute or match["condition"] or (is_deep and name == "."):
                self._refuse_path(column)
            return DocumentStep(name, is_deep=is_deep)
        key = match["key"]
        if key is not None:
            key = "@" * key.startswith("@") + self._expand(key.removeprefix("@"), column)
        expanded = self._expand(name, column)
        position = int(match["index"]) if match["index"] else None
        return DocumentStep(expanded, is_attribute, is_deep, position, key, (match["value"] or "''")[1:-1])

    def _xpath(self, steps: Sequence[DocumentStep], *, is_absolute: bool) -> etree.XPath:
        namespaces: dict[str, str] = {}

        def written(name: str) -> str:
            if not name.startswith("{"):
                return name
            namespace, _, local = name[1:].partition("}")
            prefix = next((p for p, n in namespaces.items() if n == namespace), f"n{len(namespaces)}")
            namespaces[prefix] = namespace
            return f"{prefix}:{local}"

        text = ""
        for number, step in enumerate(steps):
            separator = "//" if step.is_deep else "/"
            text += separator if number else ".//" if step.is_deep else "self::" * is_absolute
            text += "@" * step.is_attribute + written(step.name)
            if step.position is not None:
                text += f"[{step.position}]"
            if step.key is not None:
                quoted = f"'{step.value}'" if "'" not in step.value else f'"{step.value}"'
                key = "@" + written(step.key[1:]) if step.key.startswith("@") else written(step.key)
                text += f"[{key}={quoted}]"
        return etree.XPath(text, namespaces=namespaces or None, smart_strings=False)

    def _expand(self, name: str, where: str) -> str:
        prefix, colon, local = name.partition(":")
        if not colon:
            return name
        if prefix not in self._prefixes:
            advice = f"Add it to prefixes; declared: {', '.join(self._prefixes)}."
            self._refuse(f"{where}: the prefix of {name!r} is not declared", advice)
        return f"{{{self._prefixes[prefix]}}}{local}"

    def _refuse_reserved(self, iri: str) -> None:
        if is_reserved(iri):
            self._refuse(f"the property <{iri}> is reserved", "Use another property.")

    def _refuse_path(self, column: str) -> NoReturn:
        advice = (
            "Write steps such as info/area, @id, item[@kind='x'] or //note, at most one // and "
            f"{MAX_STEPS} steps; functions and other axes are not read."
        )
        self._refuse(f"{column!r} is no path that a mapping may have", advice)

    def _refuse(self, reason: str, advice: str) -> NoReturn:
        raise UsageError(f"{self.mapping.source}: {reason}", advice=advice)


_ABSENT_ADVICE = "correct the document or the mapping, or mark the property as optional: true"


def _all_properties(
    properties: Sequence[PropertyColumn], *, is_nested: bool = False
) -> Iterator[tuple[PropertyColumn, bool]]:
    for each in properties:
        yield each, is_nested
        if each.node:
            yield from _all_properties(each.node.properties, is_nested=True)


@lru_cache(maxsize=64)
def document_mapping(mapping: RowMapping) -> DocumentMapping:
    """A mapping, compiled once."""
    return DocumentMapping(mapping)


_string = etree.XPath("string()", smart_strings=False)


def _text(node: etree._Element | str) -> str:
    return node if isinstance(node, str) else cast(str, _string(node))


class _Lifting:
    """Lifts one document."""

    def __init__(self, compiled: DocumentMapping, root: etree._Element, iri: str) -> None:
        self._compiled = compiled
        self._mapping = compiled.mapping
        self._root = root
        self._iri = iri
        self._limit = NodeLimit()
        self._triples: dict[Triple, None] = {}
        self._nodes = 0

    def run(self) -> Lifted:
        subject = terms.iri(self._iri)
        for template in self._mapping.classes:
            self._class(subject, template, self._root)
        times = [self._time(subject, time) for time in self._mapping.times]
        start, end = (times[0], times[-1] if times[-1] is not None else times[0]) if times else (None, None)
        if start is None and end is not None:
            raise DecodeError("the document has an end and no start", advice="correct it, or the mapping")
        if start is not None and end is not None and end < start:
            raise DecodeError("the document ends before it starts", advice="correct its times")
        self._properties(subject, self._root, self._mapping.properties)
        return Lifted(list(self._triples), start, end)

    def _state(self, subject: str, predicate: str, object_: str) -> None:
        self._triples.setdefault((subject, predicate, object_))

    def _class(self, subject: str, template: IriTemplate, element: etree._Element) -> None:
        class_ = self.template(template, element)
        if class_ is None:
            raise DecodeError(f"{template.columns[0]} selects nothing, and a class needs it", advice=_ABSENT_ADVICE)
        self._state(subject, RDF_TYPE, class_)

    def _time(self, subject: str, time: TimeColumn) -> int | None:
        found = self._values(time.column, self._root)
        if not found:
            return None
        if len(set(found)) > 1:
            raise DecodeError(f"{time.column} selects several times", advice="correct the document or the mapping")
        try:
            literal = instant(found[0], TEXT, time.unit, time.format)
        except ValueError as error:
            raise DecodeError(f"{time.column}: {error}", advice="correct the time, or the mapping") from None
        self._state(subject, terms.iri(time.property), literal)
        return parse_datetime(terms.literal_parts(literal)[0])

    def _properties(self, subject: str, element: etree._Element, properties: Sequence[PropertyColumn]) -> None:
        for each in properties:
            if each.node is not None:
                self._nested(subject, element, each)
                continue
            values = self._values(each.column, element)
            if values is None and not each.optional:
                self._refuse_absent(each.column, element)
            for value in values or ():
                object_ = self._object(each, value, element)
                if object_ is not None:
                    self._state(subject, terms.iri(each.property), object_)

    def _nested(self, subject: str, element: etree._Element, each: PropertyColumn) -> None:
        assert each.node is not None
        nodes = self._compiled.path(each.column).nodes(element, self._limit)
        if not nodes and not each.optional:
            self._refuse_absent(each.column, element)
        for node in nodes:
            if isinstance(node, str):
                raise DecodeError(f"{each.column} selects no element", advice="name elements in the mapping")
            self._nodes += 1
            name = self.template(each.iri, node) if each.iri else terms.iri(node_iri(self._iri, self._nodes))
            if name is None:
                assert each.iri is not None
                raise DecodeError(f"{each.iri.columns[0]} selects nothing, and an IRI needs it", advice=_ABSENT_ADVICE)
            self._state(subject, terms.iri(each.property), name)
            for template in each.node.classes:
                self._class(name, template, node)
            self._properties(name, node, each.node.properties)

    def _object(self, each: PropertyColumn, value: str, element: etree._Element) -> str | None:
        if each.iri is not None:
            return self.template(each.iri, element, own=(each.column, value))
        try:
            return literal_of(value, TEXT, each.datatype, each.language)
        except ValueError as error:
            advice = "correct the value, or the datatype in the mapping"
            raise DecodeError(f"{each.column}: {error}", advice=advice) from None

    def template(
        self, template: IriTemplate, element: etree._Element, *, own: tuple[str, str] | None = None
    ) -> str | None:
        """The IRI of a template, as a term; None if a column has no value."""
        values: list[str] = []
        for column in template.columns:
            found = [own[1]] if own and own[0] == column else self._values(column, element)
            if not found:
                return None
            if len(set(found)) > 1:
                raise DecodeError(f"{column} selects several values, and an IRI needs one", advice=_ABSENT_ADVICE)
            values.append(found[0])
        if template.is_column:
            iri = values[0] if len(values) == 1 else "".join(values)
            if not ABSOLUTE_IRI.fullmatch(iri):
                raise DecodeError(f"{template.columns[0]}: {iri!r} is no IRI", advice="write it as an absolute IRI")
            return terms.iri(iri)
        encoded = [_UNSAFE.sub(lambda match: quote(match[0], safe=""), value) for value in values]
        return terms.iri("".join(map("".join, zip(template.parts, [*encoded, ""], strict=True))))

    def _values(self, column: str, element: etree._Element) -> list[str] | None:
        """The values that a path selects, without empty and missing ones; None if it selects nothing."""
        values = self._compiled.path(column).values(element, self._limit)
        return values and [value for value in values if value and value not in self._mapping.missing]

    def _refuse_absent(self, column: str, element: etree._Element) -> NoReturn:
        children = [local_name(child) for child in element if isinstance(child.tag, str)]
        names = dict.fromkeys([*(f"@{etree.QName(name).localname}" for name in element.attrib), *children])
        there = ", ".join(list(names)[:20]) or "nothing"
        where = local_name(element)
        raise DecodeError(
            f"the path {column} of the mapping selects nothing in <{where}>, which has {there}",
            line=cast(int | None, element.sourceline),
            advice=_ABSENT_ADVICE,
        )


def local_name(element: etree._Element) -> str:
    """The name of an element without its namespace."""
    return etree.QName(element).localname


def node_iri(iri: str, number: int) -> str:
    """The IRI of a node that is made for an element of a document, numbered in the order of the mapping.

    >>> node_iri("urn:e:1", 2)
    'urn:e:1#genid-x2'
    """
    return f"{iri}-genid-x{number}" if "#" in iri else f"{iri}#genid-x{number}"
