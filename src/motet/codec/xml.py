"""Decodes an XML document as one event: its IRI, its interval, and the triples that a mapping lifts from it.

The IRI and the interval come from the call or the CloudEvents envelope; else from the mapping; else from attributes of
the root in the namespace ``urn:motet:ns#``; else the IRI from the input and the canonical form of the document, and the
interval from the message or the commit (language page, sections 8 and 14).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from lxml import etree

from motet.codec.events import NO_EVENTS, Decoded
from motet.codec.identity import is_reserved, minted_iri
from motet.codec.options import ABSOLUTE_IRI, DecodeOptions, stored_mapping
from motet.codec.rejections import Problem, rejection, truncate
from motet.codec.row_mapping import MappingInput, RowMapping
from motet.codec.xml_generic import lift_generic, render_generic
from motet.codec.xml_mapping import Lifted, document_mapping
from motet.codec.xml_rendering import Rendered, render_mapped
from motet.model.batches import EventRow, Triple, event_batch
from motet.model.errors import DecodeError, UsageError
from motet.model.times import parse_datetime
from motet.model.xml_document import MOTET_NAMESPACE, XmlLimits, canonical_form, parse_stored_xml, parse_xml

_RDF_ROOT = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}RDF"
_ATTRIBUTES = ("id", "start", "end")


def decode_xml(
    data: bytes,
    options: DecodeOptions,
    *,
    stated: Callable[[str], Sequence[Triple]] | None = None,
    interval: tuple[int, int] | None = None,
) -> Decoded:
    """The event that a document is, or its rejection; with the triples that its envelope states and its interval.

    >>> decode_xml(b"<order><pay>finished</pay></order>", DecodeOptions("a.xml", id="urn:e:1")).events["id"].to_pylist()
    ['urn:e:1']
    """
    iri = options.id
    try:
        root = _parse(data, options)
        own = () if options.mapping is None else (options.mapping,)
        mapping = find_mapping(root, (*own, *options.xml_mappings))
        attributes = _root_attributes(root)
        iri = iri or _mapped_iri(root, mapping) or attributes.get("id") or _minted_iri(root, options)
        lifted = lift(root, iri, mapping) if mapping is not None else Lifted([])
        start, end = options.interval or interval or (lifted.start, lifted.end)
        if start is None:
            start, end = _stated_interval(attributes)
        triples = tuple(dict.fromkeys([*(stated(iri) if stated else ()), *lifted.triples]))
        return Decoded(event_batch([EventRow(iri, start, end, triples, data)]), [])
    except DecodeError as error:
        problem = Problem(error.reason, error.advice, error.line, error.column, _quoted(data))
        return Decoded(NO_EVENTS, [rejection(options.name, iri, [problem])])


def _parse(data: bytes, options: DecodeOptions) -> etree._Element:
    root = parse_xml(data, XmlLimits(options.limits.max_event_bytes, options.limits.max_depth))
    if root.tag == _RDF_ROOT:
        raise DecodeError("the document is RDF/XML", advice="name it .rdf, or give it as application/rdf+xml")
    return root


def _quoted(data: bytes) -> str:
    return truncate(data.decode("utf-8", "replace"))


def find_mapping(root: etree._Element, mappings: Sequence[RowMapping]) -> RowMapping | None:
    """The first mapping for documents with this root element; the generic one is for all."""
    return next((each for each in mappings if each.is_generic or document_mapping(each).matches(root)), None)


def lift(root: etree._Element, iri: str, mapping: RowMapping) -> Lifted:
    """What a mapping finds in a document that is the event with this IRI."""
    return Lifted(lift_generic(root, iri)) if mapping.is_generic else document_mapping(mapping).lift(root, iri)


def render(event: EventRow, mapping: RowMapping) -> Rendered:
    """The document of an event: its own, if it is an XML event, else what a mapping makes of its triples."""
    if event.payload is not None:
        return Rendered(event.payload, [])
    if mapping.is_generic:
        return render_generic(event.id, event.triples)
    return render_mapped(document_mapping(mapping), event.id, event.triples)


def xml_mapping(mapping: MappingInput) -> RowMapping:
    """A mapping of documents as users give it, compiled once, so that a wrong path is an error now."""
    read = RowMapping.of(mapping)
    if not read.is_generic:
        document_mapping(read)
    return read


def mapping_text(mapping: MappingInput) -> str:
    """A mapping of documents as the text that a lake stores; raises UsageError for a wrong one.

    >>> mapping_text({"event": {"root": "order"}, "properties": {"pay": "urn:pay"}})
    '{"event": {"root": "order"}, "properties": {"pay": "urn:pay"}}'
    """
    text = xml_mapping(mapping).text
    if not text:
        raise UsageError("a mapping that is a setting is stored as text", advice="Give its dict, YAML text or path.")
    return text


def mappings_for(root: str | None, mappings: Sequence[str]) -> Iterator[RowMapping]:
    """Those of the mappings of a lake that are for documents with this root element; None stands for any name.

    >>> orders = "event: {root: order, class: urn:Order}"
    >>> [mapping.source for mapping in mappings_for("bill", [orders, "generic"])]
    ['generic']
    """
    for each in map(stored_mapping, mappings):
        if each.is_generic or root is None or document_mapping(each).root in (None, root):
            yield each


@lru_cache(maxsize=1024)
def lift_derived(document: str, iri: str, mappings: tuple[str, ...]) -> tuple[Triple, ...]:
    """The triples of a derived document, by the first of these mappings of a lake that is for it.

    Its IRI and interval are those of the notification. Without a mapping it has none, nor if the mapping would reject
    it: a derived document is stored as it is.
    """
    root = parse_stored_xml(document.encode())
    mapping = find_mapping(root, [stored_mapping(text) for text in mappings])
    try:
        return tuple(sorted(lift(root, iri, mapping).triples)) if mapping is not None else ()
    except DecodeError:
        return ()


def _mapped_iri(root: etree._Element, mapping: RowMapping | None) -> str | None:
    if mapping is None or mapping.is_generic:
        return None
    iri = document_mapping(mapping).iri(root)
    if iri is not None and is_reserved(iri):
        raise DecodeError(f"the event id <{iri}> is reserved", advice="use an IRI outside urn:motet:")
    return iri


def _root_attributes(root: etree._Element) -> dict[str, str]:
    """The attributes of the root in the namespace of Motet; others than the known ones are refused."""
    prefix = f"{{{MOTET_NAMESPACE}}}"
    found = {
        str(name).removeprefix(prefix): str(value).strip() for name, value in root.attrib.items() if prefix in name
    }
    for name in found:
        if name not in _ATTRIBUTES:
            advice = f"use {', '.join(_ATTRIBUTES)}, or another namespace"
            raise DecodeError(f"the root has an unknown attribute {name} in {MOTET_NAMESPACE}", advice=advice)
    iri = found.get("id")
    if iri is not None and (not ABSOLUTE_IRI.fullmatch(iri) or is_reserved(iri)):
        advice = "use an absolute IRI outside urn:motet:"
        raise DecodeError(f"the attribute id of the root is {iri!r}", advice=advice)
    return found


def _stated_interval(attributes: dict[str, str]) -> tuple[int | None, int | None]:
    """The interval in the attributes of the root; with a start alone a point."""
    instants: dict[str, int] = {}
    for name in ("start", "end"):
        if name in attributes:
            try:
                instants[name] = parse_datetime(attributes[name])
            except ValueError as error:
                raise DecodeError(f"the attribute {name} of the root: {error}", advice="correct it") from None
    if not instants:
        return None, None
    if "start" not in instants:
        raise DecodeError("the root has the attribute end and no start", advice="add start, or rename end")
    start, end = instants["start"], instants.get("end", instants["start"])
    if end < start:
        raise DecodeError("the document ends before it starts", advice="correct its times")
    return start, end


def _minted_iri(root: etree._Element, options: DecodeOptions) -> str:
    """The id of the input, of which the document is the only event; without one, the hash of the content."""
    if options.input_id is not None:
        return options.input_id
    counts: Counter[bytes] = options.batch.counts if options.batch else Counter()
    return minted_iri(options.batch.id if options.batch else None, [canonical_form(root).decode()], counts)
