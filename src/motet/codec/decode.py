"""Decodes files, requests, streams and messages of any format to batches of events.

Every function yields ``Decoded`` batches: the accepted events, and a DecodeError for each rejected one. A bad event
does not affect the others.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.codec.cloudevents import decode_envelopes, envelope_from_headers, has_cloudevent_headers, parse_envelopes
from motet.codec.compression import OnRead, bytes_chunks, file_chunks, read_whole
from motet.codec.events import NO_EVENTS, Decoded, build_events
from motet.codec.formats import Format, format_of_content_type, format_of_path
from motet.codec.grouping import group_all, run_starts
from motet.codec.input_guards import refuse_deep_json
from motet.codec.nquads import NQuadsDecoder, decode_nquads, decode_small_nquads, parse_small
from motet.codec.options import DecodeOptions, Limits
from motet.codec.rejections import truncate
from motet.model.batches import EVENTS, TIME, EventRow
from motet.model.errors import DecodeError, MotetError, UsageError
from motet.model.settings import TIME_PROPERTIES, TimeProperties

__all__ = ["Decoded", "Limits", "decode_bytes", "decode_file", "decode_small", "decode_stream"]

_DEFAULT_OPTIONS = DecodeOptions("input")
_ABSOLUTE_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\]*")


def decode_file(
    path: str,
    *,
    content_type: str | None = None,
    limits: Limits | None = None,
    time_properties: TimeProperties = TIME_PROPERTIES,
    on_read: OnRead | None = None,
) -> Iterator[Decoded]:
    """The events of a file, compressed or not; the suffix of its name selects the format if no content type is given.

    ``on_read`` is called with the numbers of bytes read, for progress bars.
    """
    syntax = format_of_content_type(content_type) if content_type else format_of_path(path)
    options = DecodeOptions(path, limits or Limits(), time_properties)
    return decode_stream(file_chunks(path, on_read=on_read), syntax, options)


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
    """The events of a request; one with ``ce-`` headers is a CloudEvent in binary mode.

    >>> [decoded] = decode_bytes(b"<> a <urn:Alarm> .", "text/turtle", event_id="urn:e:1")
    >>> decoded.events.column("id").to_pylist()
    ['urn:e:1']
    """
    if event_id is not None and not _ABSOLUTE_IRI.fullmatch(event_id):
        raise UsageError(f"the event id {event_id!r} is not an absolute IRI", advice="use one such as urn:uuid:…")
    options = DecodeOptions(name, limits or Limits(), time_properties)
    if (
        content_type == Format.N_QUADS.value
        and not headers
        and (small := decode_small_nquads(data, options)) is not None
    ):
        return iter([Decoded(small, [])])
    chunks = bytes_chunks(data, name)
    if headers and has_cloudevent_headers(headers):
        return _decode_binary_cloudevent(chunks, content_type, headers, options)
    return decode_stream(chunks, format_of_content_type(content_type), options, event_id=event_id)


def decode_small(data: bytes, content_type: str) -> list[EventRow] | None:
    """The events of a few N-Quads lines as Python rows; None for input that needs `decode_bytes`."""
    small = parse_small(data, _DEFAULT_OPTIONS) if content_type == Format.N_QUADS.value else None
    return None if small is None else small.events


def decode_stream(
    chunks: Iterator[bytes], syntax: Format, options: DecodeOptions, *, event_id: str | None = None
) -> Iterator[Decoded]:
    """The events of uncompressed bytes in a known format."""
    if syntax is Format.N_QUADS:
        yield from decode_nquads(chunks, options)
        return
    # pyoxigraph is slow to import and not needed for N-Quads
    from motet.codec.documents import group_documents, read_document

    try:
        data, damage = _read(chunks, options)
        if syntax.is_cloudevents:
            yield from _decode_cloudevents(data, damage, options)
            return
    except MotetError as error:
        yield Decoded(NO_EVENTS, [_as_rejection(error, options)])
        return
    event = event_id or f"urn:motet:event:{hashlib.sha256(data).hexdigest()}"
    document = read_document(data, syntax, event=event, limits=options.limits, damage=damage)
    yield from build_events(group_documents([document]), options)


def _decode_cloudevents(data: bytes, damage: DecodeError | None, options: DecodeOptions) -> Iterator[Decoded]:
    if damage is not None:
        raise damage
    refuse_deep_json(data, options.limits.max_depth)
    yield from decode_envelopes(parse_envelopes(data), options)


def _decode_binary_cloudevent(
    chunks: Iterator[bytes], content_type: str, headers: Mapping[str, str], options: DecodeOptions
) -> Iterator[Decoded]:
    try:
        data, damage = _read(chunks, options)
        if damage is not None:
            raise damage
        envelope = envelope_from_headers(headers, content_type, data)
    except MotetError as error:
        yield Decoded(NO_EVENTS, [_as_rejection(error, options)])
        return
    yield from decode_envelopes([envelope], options)


def _read(chunks: Iterator[bytes], options: DecodeOptions) -> tuple[bytes, DecodeError | None]:
    """The readable content of a document, and the error where it is damaged."""
    damage: list[DecodeError] = []
    data = read_whole(_until_damage(chunks, damage), options.limits.max_document_bytes)
    return data, damage[0] if damage else None


def _until_damage(chunks: Iterator[bytes], damage: list[DecodeError]) -> Iterator[bytes]:
    try:
        yield from chunks
    except DecodeError as error:
        damage.append(error)


def _as_rejection(error: MotetError, options: DecodeOptions) -> DecodeError:
    return DecodeError(error.message, source=options.name, advice=error.advice)


MAX_RUN_BYTES = 4 << 20


@dataclass(frozen=True)
class Message:
    """One message of a queue or row of a table: complete events in one format, with metadata."""

    data: bytes
    content_type: str
    name: str  # for errors
    arrival_time: int  # microseconds: the time of events without one
    headers: Mapping[str, str] | None = None  # ``ce-`` headers mark a CloudEvent in binary mode
    event_id: str | None = None  # the IRI of an event that the data does not name

    @property
    def is_nquads(self) -> bool:
        return self.content_type == Format.N_QUADS.value and not self.headers


def decode_messages(messages: Iterable[Message], limits: Limits | None = None) -> Decoded:
    """The events of all messages, in order, each with a time; not for input of unknown size.

    A rejection holds the whole message. Decoding a small message costs less than setting up the decoder; consecutive
    N-Quads messages are therefore decoded as one text. If that text has a bad line or an event in two messages, it is
    halved, so that the result is that of decoding each message separately.

    >>> sent = Message(b"<> a <urn:Alarm> .", "text/turtle", name="queue 1", arrival_time=0, event_id="urn:e:1")
    >>> decode_messages([sent]).events.column("id").to_pylist()
    ['urn:e:1']
    """
    batches = [decoded for run in _message_runs(messages) for decoded in _decode_run(run, limits or Limits())]
    events = pa.Table.from_batches([decoded.events for decoded in batches], EVENTS)
    (batch,) = events.combine_chunks().to_batches() if events.num_rows else (NO_EVENTS,)
    return Decoded(batch, [error for decoded in batches for error in decoded.rejected])


def _message_runs(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """Lists of consecutive N-Quads messages up to ``MAX_RUN_BYTES``; any other message is a list of its own."""
    run: list[Message] = []
    size = 0
    for message in messages:
        size += len(message.data)
        if run and not (message.is_nquads and run[-1].is_nquads and size <= MAX_RUN_BYTES):
            yield run
            run, size = [], len(message.data)
        run.append(message)
    if run:
        yield run


def _decode_run(run: Sequence[Message], limits: Limits) -> Iterator[Decoded]:
    decoded = _decode_joined(run, limits) if len(run) > 1 else _decode_single(run[0], limits)
    if decoded is not None:
        yield decoded
        return
    middle = len(run) // 2
    yield from _decode_run(run[:middle], limits)
    yield from _decode_run(run[middle:], limits)


def _decode_joined(run: Sequence[Message], limits: Limits) -> Decoded | None:
    """The events of several N-Quads messages as one text; None if that differs from decoding each separately."""
    data = b"".join(message.data if message.data.endswith(b"\n") else message.data + b"\n" for message in run)
    quads, bad = NQuadsDecoder(max_line_bytes=limits.max_line_bytes).feed(data)
    graphs, starts = quads.column("graph"), run_starts(quads)
    if bad or graphs.null_count or not len(starts) or b"\r" in data:
        return None
    lines = np.cumsum([message.data.count(b"\n") + (not message.data.endswith(b"\n")) for message in run])
    message_index = np.searchsorted(lines, quads.column("line").to_numpy())  # of each quad
    ends = np.append(starts[1:], len(message_index)) - 1
    if (message_index[starts] != message_index[ends]).any() or pc.count_distinct(graphs).as_py() < len(starts):
        return None
    batches = list(build_events(group_all([quads], []), DecodeOptions(run[0].name, limits)))
    if any(decoded.rejected for decoded in batches):
        return None
    events = pa.Table.from_batches([decoded.events for decoded in batches], EVENTS)
    arrival_times = np.array([message.arrival_time for message in run])[message_index[starts]]
    return Decoded(_stamp(events, arrival_times), [])


def _decode_single(message: Message, limits: Limits) -> Decoded:
    try:
        batches = list(
            decode_bytes(
                message.data,
                message.content_type,
                headers=message.headers,
                event_id=None if message.is_nquads else message.event_id,  # graphs name the events of N-Quads
                name=message.name,
                limits=limits,
            )
        )
    except MotetError as error:  # an unknown content type, an id that is no IRI
        batches = [Decoded(NO_EVENTS, [DecodeError(error.message, source=message.name, advice=error.advice)])]
    events = pa.Table.from_batches([decoded.events for decoded in batches], EVENTS)
    rejected = [_with_content(error, message) for decoded in batches for error in decoded.rejected]
    return Decoded(_stamp(events, np.full(events.num_rows, message.arrival_time)), rejected)


def _with_content(error: DecodeError, message: Message) -> DecodeError:
    """The rejection, with the content of its message if it has none."""
    if error.content is None:
        error.content = truncate(message.data.decode("utf-8", "replace"))
    return error


def _stamp(events: pa.Table, arrival_times: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.RecordBatch:
    """The events as one batch, with arrival times for those without a time."""
    stamps = pa.array(arrival_times, pa.int64()).cast(TIME)
    times = {name: pc.coalesce(events[name], stamps) for name in ("start", "end")}
    columns = [(times[name] if name in times else events[name]).combine_chunks() for name in EVENTS.names]
    return pa.RecordBatch.from_arrays(columns, schema=EVENTS)
