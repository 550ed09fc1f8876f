"""Bytes to events: the face of the codecs.

Every function yields ``Decoded`` batches: events that can be taken, and a DecodeError for each that cannot. One bad
event never stops the others.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping

from motet.codec.cloudevents import are_of_cloudevent, decode_envelopes, envelope_of_headers, envelopes
from motet.codec.compression import OnRead, bytes_chunks, file_chunks, read_whole
from motet.codec.event_times import TIME_PROPERTIES, TimeProperties
from motet.codec.events import NO_EVENTS, Decoded, build
from motet.codec.formats import Format, format_of_content_type, format_of_path
from motet.codec.hazards import refuse_deep_json
from motet.codec.limits import Limits, Source
from motet.codec.nquads_stream import decode_nquads
from motet.codec.small_nquads import decode_small, read_small
from motet.model.errors import DecodeError, MotetError, UsageError
from motet.model.tables import EventRow

__all__ = ["Decoded", "Limits", "decode_bytes", "decode_few", "decode_file", "decode_stream"]

_INPUT = Source("input")
_ABSOLUTE_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\]*")


def decode_file(
    path: str,
    *,
    content_type: str | None = None,
    limits: Limits | None = None,
    time_properties: TimeProperties = TIME_PROPERTIES,
    on_read: OnRead | None = None,
) -> Iterator[Decoded]:
    """The events of a file, compressed or not; its name tells the format unless a content type is given.

    ``on_read`` is told how many bytes of the file have been read, for progress bars.
    """
    syntax = format_of_content_type(content_type) if content_type else format_of_path(path)
    source = Source(path, limits or Limits(), time_properties)
    return decode_stream(file_chunks(path, on_read=on_read), syntax, source)


def decode_bytes(
    data: bytes,
    content_type: str,
    *,
    headers: Mapping[str, str] | None = None,
    event_id: str | None = None,
    name: str = "input",
    limits: Limits | None = None,
    time_properties: TimeProperties = TIME_PROPERTIES,
) -> Iterator[Decoded]:
    """The events of a request; ``ce-`` headers make it a CloudEvent in binary mode.

    >>> [decoded] = decode_bytes(b"<> a <urn:Alarm> .", "text/turtle", event_id="urn:e:1")
    >>> decoded.events.column("id").to_pylist()
    ['urn:e:1']
    """
    if event_id is not None and not _ABSOLUTE_IRI.fullmatch(event_id):
        raise UsageError(f"the event id {event_id!r} is not an absolute IRI", advice="use one such as urn:uuid:…")
    source = Source(name, limits or Limits(), time_properties)
    if content_type == Format.N_QUADS.value and not headers and (small := decode_small(data, source)) is not None:
        return iter([Decoded(small, [])])
    chunks = bytes_chunks(data, name)
    if headers and are_of_cloudevent(headers):
        return _decode_binary_cloudevent(chunks, content_type, headers, source)
    return decode_stream(chunks, format_of_content_type(content_type), source, event_id=event_id)


def decode_few(data: bytes, content_type: str) -> list[EventRow] | None:
    """The events of a few plain N-Quads as Python values; None when only `decode_bytes` can tell."""
    found = read_small(data, _INPUT) if content_type == Format.N_QUADS.value else None
    return None if found is None else found.events


def decode_stream(
    chunks: Iterator[bytes], syntax: Format, source: Source, *, event_id: str | None = None
) -> Iterator[Decoded]:
    """The events of uncompressed bytes in a known format."""
    if syntax is Format.N_QUADS:
        yield from decode_nquads(chunks, source)
        return
    # pyoxigraph is heavy and N-Quads do without it
    from motet.codec.documents import group_documents, read_document

    try:
        data, damage = _read(chunks, source)
        if syntax.is_cloudevents:
            yield from _decode_cloudevents(data, damage, source)
            return
    except MotetError as error:
        yield Decoded(NO_EVENTS, [_as_rejection(error, source)])
        return
    event = event_id or f"urn:motet:event:{hashlib.sha256(data).hexdigest()}"
    document = read_document(data, syntax, event=event, limits=source.limits, damage=damage)
    yield from build(group_documents([document]), source)


def _decode_cloudevents(data: bytes, damage: DecodeError | None, source: Source) -> Iterator[Decoded]:
    if damage is not None:
        raise damage
    refuse_deep_json(data, source.limits.max_depth)
    yield from decode_envelopes(envelopes(data), source)


def _decode_binary_cloudevent(
    chunks: Iterator[bytes], content_type: str, headers: Mapping[str, str], source: Source
) -> Iterator[Decoded]:
    try:
        data, damage = _read(chunks, source)
        if damage is not None:
            raise damage
        envelope = envelope_of_headers(headers, content_type, data)
    except MotetError as error:
        yield Decoded(NO_EVENTS, [_as_rejection(error, source)])
        return
    yield from decode_envelopes([envelope], source)


def _read(chunks: Iterator[bytes], source: Source) -> tuple[bytes, DecodeError | None]:
    """A whole document, up to where it is damaged."""
    damage: list[DecodeError] = []
    data = read_whole(_until_damage(chunks, damage), source.limits.max_document_bytes)
    return data, damage[0] if damage else None


def _until_damage(chunks: Iterator[bytes], damage: list[DecodeError]) -> Iterator[bytes]:
    try:
        yield from chunks
    except DecodeError as error:
        damage.append(error)


def _as_rejection(error: MotetError, source: Source) -> DecodeError:
    return DecodeError(error.message, source=source.name, advice=error.advice)
