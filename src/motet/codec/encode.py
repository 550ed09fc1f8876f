"""Encodes events in every format that can be decoded.

N-Quads, TriG, JSON-LD and CloudEvents hold any number of events with their IRIs; Turtle, N-Triples and RDF/XML hold one
event, whose IRI must be given as `id` when they are decoded. Only triples are written, not the time an event was
stamped with. The document of an XML event is written in CloudEvents, with its interval, and as XML, byte for byte.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.codec.blank_nodes import Triple
from motet.codec.cloudevents import WRAPPER_TYPE, event_iri, interval_of
from motet.codec.formats import Format, format_of_content_type
from motet.model import terms
from motet.model.batches import ATTRIBUTE, EventRow, event_rows
from motet.model.errors import UsageError
from motet.model.times import format_datetime, parse_datetime

_ONE_EVENT = (Format.TURTLE, Format.N_TRIPLES, Format.RDF_XML, Format.XML)
_XML_NAME_END = re.compile(r"[A-Za-z_][\w.-]*$")
_NOT_XML = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]")
_ATTRIBUTE_NAME = re.compile(r"[a-z0-9]+")
_RESERVED = ("data", "specversion", "datacontenttype")


def encode(events: pa.RecordBatch, content_type: str | Format) -> bytes:
    """Encode events (schema ``EVENTS``).

    >>> from motet.codec.decode import decode_bytes
    >>> [decoded] = decode_bytes(b"<> a <urn:Alarm> .", "text/turtle", id="urn:e:1")
    >>> encode(decoded.events, "application/n-quads")
    b'<urn:e:1> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <urn:Alarm> <urn:e:1> .\\n'
    """
    syntax = content_type if isinstance(content_type, Format) else format_of_content_type(content_type)
    if events.num_rows != 1 and syntax in (*_ONE_EVENT, Format.CLOUDEVENT):
        raise UsageError(
            f"{syntax.value} holds one event, not {events.num_rows}",
            advice="encode the events one by one, or use application/n-quads or application/cloudevents-batch+json",
        )
    if syntax.is_rows:
        raise UsageError(f"events are not written as {syntax.value}", advice="use a format of RDF")
    if syntax is Format.N_QUADS:
        return _nquads(events)
    if syntax is Format.XML:
        return _document(next(event_rows(events)))
    if syntax.is_cloudevents:
        envelopes = [_cloudevent(event) for event in event_rows(events)]
        return json.dumps(
            envelopes if syntax is Format.CLOUDEVENTS_BATCH else envelopes[0], ensure_ascii=False
        ).encode()
    return _serialize(events, syntax)


def _nquads(events: pa.RecordBatch) -> bytes:
    """The events as N-Quads: Arrow joins the columns, and the text buffer of the result is the document."""
    column = events.column("triples")
    subject, predicate, obj = column.flatten().flatten()
    graphs = pa.array(np.repeat(np.arange(len(column)), column.value_lengths().to_numpy()))
    graph = events.column("id").take(graphs)
    lines = pc.binary_join_element_wise(
        subject, predicate, obj, pc.binary_join_element_wise("<", graph, "> .\n", ""), " "
    )
    _, offsets, text = lines.buffers()
    bounds = np.frombuffer(offsets, np.int32)[[lines.offset, lines.offset + len(lines)]]
    return text[int(bounds[0]) : int(bounds[1])].to_pybytes() if len(lines) else b""


def _events(events: pa.RecordBatch) -> Iterator[tuple[str, list[Triple]]]:
    for event, triples in zip(events.column("id").to_pylist(), events.column("triples").to_pylist(), strict=True):
        yield event, [(triple["subject"], triple["predicate"], triple["object"]) for triple in triples]


def _serialize(events: pa.RecordBatch, syntax: Format) -> bytes:
    import pyoxigraph as ox

    from motet.codec.documents import PARSERS

    if syntax is Format.RDF_XML:
        _refuse_unwritable_xml(events)
    quads = ox.parse(_nquads(events), format=ox.RdfFormat.N_QUADS)
    statements = (quad.triple for quad in quads) if syntax in _ONE_EVENT else quads
    return ox.serialize(statements, format=PARSERS[syntax]) or b""


def _refuse_unwritable_xml(events: pa.RecordBatch) -> None:
    for event, triples in _events(events):
        for _, predicate, obj in triples:
            invalid_name = not _XML_NAME_END.search(terms.iri_value(predicate))
            if invalid_name or (not terms.is_iri(obj) and _NOT_XML.search(terms.literal_parts(obj)[0])):
                raise UsageError(
                    f"the event <{event}> cannot be written as RDF/XML: {predicate if invalid_name else obj}",
                    advice="write it as Turtle or N-Quads",
                )


def _document(event: EventRow) -> bytes:
    """The document of an XML event, or that of an RDF event by the generic mapping."""
    from motet.codec.row_mapping import GENERIC, RowMapping
    from motet.codec.xml import render

    rendered = render(event, RowMapping.of(GENERIC))
    if rendered.left_out:
        raise UsageError(
            f"the event <{event.id}> cannot be written as XML: {' '.join(rendered.left_out[0])}",
            advice="write it as Turtle or N-Quads",
        )
    return rendered.document


def _cloudevent(row: EventRow) -> dict[str, str]:
    """The envelope that decodes to this event: its CloudEvents attributes if they are complete, else a wrapper."""
    event, triples = row.id, list(row.triples)
    if row.payload is not None:
        return _cloudevent_of_document(row, row.payload)
    attributes = _attributes(event, triples)
    other_triples = [triple for triple in triples if not _is_attribute_triple(event, triple)]
    if attributes is None or (not other_triples and event != event_iri(attributes)):  # only data can name the event
        attributes = {"id": event, "source": WRAPPER_TYPE, "type": WRAPPER_TYPE}
    else:
        triples = other_triples
    lines = "".join(f"{s} {p} {o} {terms.iri(event)} .\n" for s, p, o in triples)
    data = {"datacontenttype": Format.N_QUADS.value, "data": lines} if lines else {}
    return {"specversion": "1.0", **attributes, **data}


def _cloudevent_of_document(row: EventRow, payload: bytes) -> dict[str, str]:
    from motet.model.xml_document import encode_document

    attributes = _attributes(row.id, list(row.triples))
    if attributes is None or row.id != event_iri(attributes) or interval_of(attributes) != (row.start, row.end):
        attributes = {"id": row.id, "source": WRAPPER_TYPE, "type": WRAPPER_TYPE}
        if row.start is not None and row.end is not None:
            attributes |= {"start": format_datetime(row.start), "end": format_datetime(row.end)}
    data = {"data_base64": b64encode(payload).decode()}
    with suppress(UnicodeDecodeError):
        if encode_document(text := payload.decode()) == payload:
            data = {"data": text}
    return {"specversion": "1.0", **attributes, "datacontenttype": Format.XML.value, **data}


def _attributes(event: str, triples: list[Triple]) -> dict[str, str] | None:
    """The CloudEvents attributes that an event states, if they are complete and decode to the same triples."""
    stated = [(p[len(ATTRIBUTE) + 1 : -1], o) for s, p, o in triples if _is_attribute_triple(event, (s, p, o))]
    attributes = {name: terms.literal_parts(value)[0] for name, value in stated if not terms.is_iri(value)}
    is_exact = len(attributes) == len(stated) and all(
        _decodes_to(name, attributes[name], value) for name, value in stated
    )
    is_complete = all(attributes.get(name) for name in ("id", "source", "type"))
    return attributes if is_exact and is_complete and attributes["type"] != WRAPPER_TYPE else None


def _is_attribute_triple(event: str, triple: Triple) -> bool:
    return triple[0] == terms.iri(event) and triple[1].startswith(f"<{ATTRIBUTE}")


def _decodes_to(name: str, text: str, value: str) -> bool:
    if name in _RESERVED or not _ATTRIBUTE_NAME.fullmatch(name):
        return False
    if name != "time":
        return value == terms.literal(text)
    try:
        parse_datetime(text)
    except ValueError:
        return False
    return value == terms.literal(text.upper(), datatype=terms.XSD + "dateTime")
