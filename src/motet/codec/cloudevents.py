"""Decodes CloudEvents 1.0 in JSON (structured, batched) and in HTTP headers (binary): envelopes around RDF or XML data.

The context attributes become triples about the event, so that subscriptions can use them. An envelope of type
``urn:motet:event`` is only a wrapper, and its attributes are not stated. The data is a document; without any event node
in it, the CloudEvent is the event.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from urllib.parse import quote, unquote

from motet.codec.blank_nodes import Triple
from motet.codec.document_events import DocumentEvent, decode_document, group_events
from motet.codec.events import BATCH_BYTES, NO_EVENTS, Decoded, UniqueEvents, build_events, join_batches
from motet.codec.formats import Format, format_of_content_type
from motet.codec.identity import is_reserved
from motet.codec.nquads import parse_lines
from motet.codec.options import ABSOLUTE_IRI, DecodeOptions
from motet.codec.rejections import Problem, rejection, truncate
from motet.model import terms
from motet.model.batches import ATTRIBUTE
from motet.model.errors import MotetError, UsageError
from motet.model.times import parse_datetime

WRAPPER_TYPE = "urn:motet:event"
_REQUIRED_ATTRIBUTES = ("id", "source", "type")
_NAME = re.compile(r"[a-z0-9]+")
_UNSTATED_ATTRIBUTES = ("specversion", "datacontenttype")


@dataclass(frozen=True)
class Envelope:
    """One CloudEvent: its attributes, and its data with their RDF format (None without data)."""

    attributes: Mapping[str, str]
    format: Format | None
    data: bytes

    @property
    def event(self) -> str:
        """The IRI of the only event that the data does not name."""
        return event_iri(self.attributes)

    @property
    def document_iri(self) -> str:
        """The IRI of the XML event that the data is; the id of a wrapper is the IRI."""
        id_, source = self.attributes["id"], self.attributes["source"]
        is_wrapper = self.attributes["type"] == WRAPPER_TYPE == source
        return id_ if is_wrapper and ABSOLUTE_IRI.fullmatch(id_) and not is_reserved(id_) else self.event

    def triples(self, event: str) -> list[Triple]:
        """The attributes as triples about an event."""
        if self.attributes["type"] == WRAPPER_TYPE:
            return []
        stated = ((name, value) for name, value in self.attributes.items() if name not in _UNSTATED_ATTRIBUTES)
        return [(terms.iri(event), terms.iri(ATTRIBUTE + name), _literal(name, value)) for name, value in stated]


def event_iri(attributes: Mapping[str, str]) -> str:
    """The IRI of a CloudEvent, made of its source and id.

    >>> event_iri({"source": "/rooms", "id": "1"})
    'urn:cloudevents:%2Frooms:1'
    """
    source, identity = (quote(attributes[name], safe="") for name in ("source", "id"))
    return f"urn:cloudevents:{source}:{identity}"


def interval_of(attributes: Mapping[str, str]) -> tuple[int, int] | None:
    """The interval of the XML event in a CloudEvent: its time, or the start and end of a wrapper."""
    if attributes["type"] == WRAPPER_TYPE and "start" in attributes and "end" in attributes:
        return parse_datetime(attributes["start"]), parse_datetime(attributes["end"])
    if "time" not in attributes:
        return None
    instant = parse_datetime(attributes["time"].upper())
    return instant, instant


def parse_envelopes(data: bytes) -> Iterator[Envelope | Problem]:
    """The CloudEvents of a JSON object or array; an invalid one yields a Problem in its place."""
    try:
        parsed = json.loads(data.decode(), parse_constant=_refuse_constant)
    except ValueError as error:
        raise MotetError(f"not JSON: {error}", advice="send one CloudEvent or an array of them") from None
    for item in parsed if isinstance(parsed, list) else [parsed]:
        try:
            yield _from_json(item)
        except MotetError as error:
            yield Problem(error.message, error.advice, content=truncate(json.dumps(item, ensure_ascii=False)))


def has_cloudevent_headers(headers: Mapping[str, str]) -> bool:
    """Whether the headers of a request mark it as a CloudEvent in binary mode."""
    return any(name.lower().startswith("ce-") for name in headers)


def envelope_from_headers(headers: Mapping[str, str], content_type: str, data: bytes) -> Envelope:
    """The CloudEvent of a request in binary mode.

    >>> ce = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/rooms", "ce-type": "alarm"}
    >>> envelope_from_headers(ce, "text/turtle", b"<> a <urn:Alarm> .").event
    'urn:cloudevents:%2Frooms:1'
    """
    attributes = {
        name.lower().removeprefix("ce-"): unquote(value)
        for name, value in headers.items()
        if name.lower().startswith("ce-")
    }
    _check(attributes)
    return Envelope(attributes, _data_format(content_type, attributes) if data else None, data)


def _from_json(item: object) -> Envelope:
    if not isinstance(item, dict):
        raise MotetError("a CloudEvent is a JSON object", advice="send one object, or an array of objects")
    attributes = {name: _attribute(name, value) for name, value in item.items() if _is_attribute(name, value)}
    _check(attributes)
    if item.get("data") is None and item.get("data_base64") is None:
        return Envelope(attributes, None, b"")
    syntax = _data_format(attributes.get("datacontenttype"), attributes)
    if syntax is Format.XML and isinstance(item.get("data"), str):
        from motet.model.xml_document import encode_document

        _utf8("data", item["data"])
        return Envelope(attributes, syntax, encode_document(item["data"]))
    return Envelope(attributes, syntax, _data(item))


def _is_attribute(name: str, value: object) -> bool:
    return value is not None and name not in ("data", "data_base64")


def _attribute(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int):
        raise MotetError(f"the CloudEvents attribute {name!r} is {json.dumps(value)[:100]}", advice="use a string")
    return str(value)


def _utf8(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise MotetError(f"{name!r} is not Unicode: {error}", advice="send whole characters") from None


def _check(attributes: Mapping[str, str]) -> None:
    for name, value in attributes.items():
        _utf8(name, value)
    if attributes.get("specversion") != "1.0":
        version = attributes.get("specversion")
        raise MotetError(f"specversion is {version!r}, not '1.0'", advice='send CloudEvents with "specversion": "1.0"')
    missing = [name for name in _REQUIRED_ATTRIBUTES if not attributes.get(name)]
    if missing:
        raise MotetError(f"the CloudEvent lacks {', '.join(missing)}", advice="id, source and type are required")
    invalid = next((name for name in attributes if not _NAME.fullmatch(name)), None)
    if invalid is not None:
        raise MotetError(f"{invalid!r} is not the name of a CloudEvents attribute", advice="use a-z and 0-9 only")
    names = ["time", "start", "end"] if attributes["type"] == WRAPPER_TYPE else ["time"]
    for name in names:
        if name in attributes:
            _check_time(attributes[name])


def _check_time(lexical: str) -> None:
    try:
        parse_datetime(lexical.upper())
    except ValueError as error:
        raise MotetError(f"the CloudEvents time is wrong: {error}", advice="use RFC 3339") from None


def _data_format(content_type: str | None, attributes: Mapping[str, str]) -> Format:
    advice = "set datacontenttype to an RDF format such as text/turtle or application/ld+json, or to application/xml"
    try:
        syntax = format_of_content_type(content_type or "application/json")
    except UsageError as error:
        raise MotetError(f"the CloudEvent {attributes['id']!r}: {error.message}", advice=advice) from None
    if syntax.is_cloudevents:
        raise MotetError(f"the CloudEvent {attributes['id']!r} contains CloudEvents", advice=advice)
    if syntax.is_rows:
        raise MotetError(
            f"the CloudEvent {attributes['id']!r} has data in {syntax.value}, neither RDF nor XML", advice=advice
        )
    return syntax


def _data(item: Mapping[str, object]) -> bytes:
    data, encoded = item.get("data"), item.get("data_base64")
    if encoded is not None:
        try:
            return base64.b64decode(str(encoded), validate=True)
        except (binascii.Error, ValueError) as error:
            raise MotetError(f"data_base64 is not base64: {error}", advice="encode the data again") from None
    try:
        return _utf8("data", data if isinstance(data, str) else json.dumps(data, allow_nan=False))
    except ValueError as error:
        raise MotetError(f"data has a number that JSON cannot express: {error}", advice="send finite numbers") from None


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _literal(name: str, value: str) -> str:
    if name == "time":
        return terms.literal(value.upper(), datatype=terms.XSD + "dateTime")
    return terms.literal(value)


def decode_envelopes(items: Iterable[Envelope | Problem], options: DecodeOptions) -> Iterator[Decoded]:
    """The events in envelopes; of several with one IRI the first."""
    unique = UniqueEvents()
    for batch in _merged(_decode_envelope(item, options) for item in items):
        yield unique.filter(batch, options.name)


def _decode_envelope(item: Envelope | Problem, options: DecodeOptions) -> Iterator[Decoded]:
    """The events of the data of a CloudEvent, or of the CloudEvent alone if it has no data."""
    from motet.codec.documents import parse_document
    from motet.codec.xml import decode_xml

    if isinstance(item, Problem):
        yield Decoded(NO_EVENTS, [rejection(options.name, None, [item])])
        return
    options = replace(options, input_id=item.event, batch=None)
    event = options.id or item.event
    if item.format is None:
        yield from build_events(group_events([DocumentEvent(event, item.triples(event), 1)]), options)
    elif item.format in (Format.N_QUADS, Format.N_TRIPLES):
        yield from decode_document(parse_lines(item.data, item.format, options), options, stated=item.triples)
    elif item.format is Format.XML:
        event = options.id or item.document_iri
        interval = interval_of(item.attributes)
        yield decode_xml(item.data, replace(options, id=event), stated=item.triples, interval=interval)
    else:
        yield from decode_document(parse_document(item.data, item.format, options), options, stated=item.triples)


def _merged(envelopes: Iterable[Iterator[Decoded]]) -> Iterator[Decoded]:
    """The batches of envelopes, joined up to ``BATCH_BYTES``."""
    batches: list[Decoded] = []
    size = 0
    for decoded in chain.from_iterable(envelopes):
        batches.append(decoded)
        size += decoded.events.nbytes
        if size > BATCH_BYTES:
            yield join_batches(batches)
            batches, size = [], 0
    if batches:
        yield join_batches(batches)
