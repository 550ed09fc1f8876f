"""Decodes files, requests, streams and messages of any format to batches of events.

Every function yields ``Decoded`` batches: the accepted events, and a DecodeError for each rejected one. A bad event
does not affect the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.codec.cloudevents import decode_envelopes, envelope_from_headers, has_cloudevent_headers, parse_envelopes
from motet.codec.compression import OnRead, bytes_chunks, file_chunks, read_whole
from motet.codec.document_events import ParsedDocument, decode_document
from motet.codec.events import NO_EVENTS, Decoded, build_events, join_batches
from motet.codec.formats import Format, find_format, format_of_content_type, unknown_format
from motet.codec.grouping import group_all, run_starts
from motet.codec.identity import BatchInput
from motet.codec.input_guards import refuse_deep_json
from motet.codec.nquads import NQuadsDecoder, decode_nquads, decode_small_nquads, parse_lines
from motet.codec.options import DecodeOptions, Limits, Rest
from motet.codec.rejections import truncate
from motet.codec.row_mapping import RowMapping
from motet.model.batches import EVENTS, TIME
from motet.model.errors import DecodeError, MotetError, UsageError
from motet.model.settings import TIME_PROPERTIES, TimeProperties

__all__ = ["BatchInput", "Decoded", "Limits", "Message", "decode_bytes", "decode_file", "decode_stream"]


def decode_file(  # noqa: PLR0913  (independent options)
    path: str,
    *,
    content_type: str | None = None,
    id: str | None = None,  # noqa: A002  (the language page's name)
    base: str | None = None,
    rest: Rest = "refuse",
    mapping: RowMapping | None = None,
    limits: Limits | None = None,
    time_properties: TimeProperties = TIME_PROPERTIES,
    xml_mappings: tuple[RowMapping, ...] = (),
    on_read: OnRead | None = None,
) -> Iterator[Decoded]:
    """The events of a file, compressed or not; the suffix of its name selects the format if no content type is given.

    A file whose name stands for no format is rejected. With ``id`` the whole file is one event. ``base`` resolves
    relative IRIs, ``rest`` says what happens to triples that belong to no event, ``mapping`` which events the rows of
    CSV and JSON are, and which triples documents of XML have; ``xml_mappings`` are tried after it. ``on_read`` is
    called with the numbers of bytes read, for progress bars.
    """
    syntax = format_of_content_type(content_type) if content_type else find_format(path)
    if syntax is None:
        return iter([Decoded(NO_EVENTS, [unknown_format(path)])])
    options = DecodeOptions(
        path, limits or Limits(), time_properties, id, base, rest, mapping=mapping, xml_mappings=xml_mappings
    )
    return decode_stream(file_chunks(path, on_read=on_read), syntax, options)


def decode_bytes(  # noqa: PLR0913  (independent options)
    data: bytes,
    content_type: str,
    *,
    headers: Mapping[str, str] | None = None,
    id: str | None = None,  # noqa: A002  (the language page's name)
    base: str | None = None,
    rest: Rest = "refuse",
    input_id: str | None = None,
    name: str = "input",
    limits: Limits | None = None,
    time_properties: TimeProperties = TIME_PROPERTIES,
    interval: tuple[int, int] | None = None,
    mapping: RowMapping | None = None,
    xml_mappings: tuple[RowMapping, ...] = (),
) -> Iterator[Decoded]:
    """The events of a request; one with ``ce-`` headers is a CloudEvent in binary mode.

    With ``id`` the whole request is one event; ``input_id`` is the id of the request, from which events without an IRI
    have theirs.

    >>> [decoded] = decode_bytes(b"<> a <urn:Alarm> .", "text/turtle", id="urn:e:1")
    >>> decoded.events.column("id").to_pylist()
    ['urn:e:1']
    """
    options = DecodeOptions(
        name,
        limits or Limits(),
        time_properties,
        id,
        base,
        rest,
        input_id,
        mapping=mapping,
        interval=interval,
        xml_mappings=xml_mappings,
    )
    return _decode_request(data, content_type, headers, options)


def _decode_request(
    data: bytes, content_type: str, headers: Mapping[str, str] | None, options: DecodeOptions
) -> Iterator[Decoded]:
    is_plain = not headers and options.id is None and options.interval is None
    if is_plain and content_type == Format.N_QUADS.value and (small := decode_small_nquads(data, options)) is not None:
        return iter([Decoded(small, [])])
    chunks = bytes_chunks(data, options.name)
    if headers and has_cloudevent_headers(headers):
        if options.interval is not None:
            raise UsageError("a time is given for a CloudEvent", advice="state it in the header ce-time")
        return _decode_binary_cloudevent(chunks, content_type, headers, options)
    return decode_stream(chunks, format_of_content_type(content_type), options)


def decode_stream(chunks: Iterator[bytes], syntax: Format, options: DecodeOptions) -> Iterator[Decoded]:
    """The events of uncompressed bytes in a known format."""
    if options.interval is not None and syntax is not Format.XML:
        advice = "state the time of RDF in its triples, of rows by the mapping, of a CloudEvent in its envelope"
        raise UsageError(f"a time is given, and the data is {syntax.value}, not XML", advice=advice)
    if syntax is Format.N_QUADS:
        yield from decode_nquads(chunks, options)
        return
    if syntax.is_rows:
        from motet.codec.row_formats import decode_row_chunks

        yield from decode_row_chunks(chunks, syntax, options)
        return
    try:
        data, damage = _read(chunks, options)
        if syntax.is_cloudevents:
            yield from _decode_cloudevents(data, damage, options)
            return
    except MotetError as error:
        yield Decoded(NO_EVENTS, [_as_rejection(error, options)])
        return
    if syntax is Format.XML:
        from motet.codec.xml import decode_xml

        yield Decoded(NO_EVENTS, [damage]) if damage else decode_xml(data, options)
        return
    yield from decode_document(_parse(data, syntax, damage, options), options)


def _parse(data: bytes, syntax: Format, damage: DecodeError | None, options: DecodeOptions) -> ParsedDocument:
    if syntax is Format.N_TRIPLES:
        return parse_lines(data, syntax, options, damage)
    # pyoxigraph is slow to import and not needed for N-Quads and N-Triples
    from motet.codec.documents import parse_document

    return parse_document(data, syntax, options, damage)


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
    """One message of a queue, row of a table or small file: a document in one format, with metadata."""

    data: bytes
    content_type: str
    name: str  # for errors
    time: int | None = None  # its own, in microseconds: the time of events that state none
    headers: Mapping[str, str] | None = None  # ``ce-`` headers mark a CloudEvent in binary mode
    input_id: str | None = None  # its own id: an IRI from which events without one have theirs

    @property
    def is_nquads(self) -> bool:
        return self.content_type == Format.N_QUADS.value and not self.headers


@dataclass(frozen=True)
class _MessageOptions:
    """What the messages of one call have in common."""

    limits: Limits
    time_properties: TimeProperties
    base: str | None
    rest: Rest
    batch: BatchInput | None
    mapping: RowMapping | None
    xml_mappings: tuple[RowMapping, ...]

    def of(self, message: Message) -> DecodeOptions:
        batch = self.batch if message.input_id is None else None
        return DecodeOptions(
            message.name,
            self.limits,
            self.time_properties,
            base=self.base,
            rest=self.rest,
            input_id=message.input_id,
            batch=batch,
            mapping=self.mapping,
            xml_mappings=self.xml_mappings,
        )


def decode_messages(
    messages: Iterable[Message],
    limits: Limits | None = None,
    *,
    time_properties: TimeProperties = TIME_PROPERTIES,
    base: str | None = None,
    rest: Rest = "refuse",
    batch: BatchInput | None = None,
    mapping: RowMapping | None = None,
    xml_mappings: tuple[RowMapping, ...] = (),
) -> Decoded:
    """The events of all messages, in order; not for input of unknown size.

    A message is an input of its own; those without an id belong to ``batch``, if it is given. Events that state no time
    have that of their message. A rejection holds the whole message.

    Decoding a small message costs less than setting up the decoder; consecutive N-Quads messages are therefore decoded
    as one text. If that text has a bad line or an event in two messages, it is halved, so that the result is that of
    decoding each message separately.

    >>> sent = Message(b"<> a <urn:Alarm> .", "text/turtle", name="queue 1", time=0, input_id="urn:e:1")
    >>> decode_messages([sent]).events.column("id").to_pylist()
    ['urn:e:1']
    """
    options = _MessageOptions(limits or Limits(), time_properties, base, rest, batch, mapping, xml_mappings)
    batches = [decoded for run in _message_runs(messages) for decoded in _decode_run(run, options)]
    return join_batches(batches) if batches else Decoded(NO_EVENTS, [])


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


def _decode_run(run: Sequence[Message], options: _MessageOptions) -> Iterator[Decoded]:
    decoded = _decode_joined(run, options) if len(run) > 1 else _decode_single(run[0], options)
    if decoded is not None:
        yield decoded
        return
    middle = len(run) // 2
    yield from _decode_run(run[:middle], options)
    yield from _decode_run(run[middle:], options)


def _decode_joined(run: Sequence[Message], options: _MessageOptions) -> Decoded | None:
    """The events of several N-Quads messages as one text; None if that differs from decoding each separately."""
    data = b"".join(message.data if message.data.endswith(b"\n") else message.data + b"\n" for message in run)
    quads, bad = NQuadsDecoder(max_line_bytes=options.limits.max_line_bytes).feed(data)
    grouped = group_all([quads], []) if quads.num_rows and not bad and b"\r" not in data else None
    if grouped is None:
        return None
    graphs, starts = quads.column("graph"), run_starts(quads)
    lines = np.cumsum([message.data.count(b"\n") + (not message.data.endswith(b"\n")) for message in run])
    message_index = np.searchsorted(lines, quads.column("line").to_numpy())  # of each quad
    ends = np.append(starts[1:], len(message_index)) - 1
    if (message_index[starts] != message_index[ends]).any() or pc.count_distinct(graphs).as_py() < len(starts):
        return None
    decoded = join_batches(list(build_events(grouped, options.of(run[0]))))
    if decoded.rejected or decoded.derived:
        return None
    return replace(decoded, events=_with_times(decoded.events, [run[i].time for i in message_index[starts]]))


def _decode_single(message: Message, options: _MessageOptions) -> Decoded:
    try:
        decoded = join_batches(
            [
                Decoded(NO_EVENTS, []),
                *_decode_request(message.data, message.content_type, message.headers, options.of(message)),
            ]
        )
    except MotetError as error:  # an unknown content type, an id that is no IRI
        reason = error.message.removeprefix(f"{message.name}: ")
        decoded = Decoded(NO_EVENTS, [DecodeError(reason, source=message.name, advice=error.advice)])
    rejected = [_with_content(error, message) for error in decoded.rejected]
    return replace(
        decoded, events=_with_times(decoded.events, [message.time] * decoded.events.num_rows), rejected=rejected
    )


def _with_content(error: DecodeError, message: Message) -> DecodeError:
    """The rejection, with the content of its message if it has none."""
    if error.content is None:
        error.content = truncate(message.data.decode("utf-8", "replace"))
    return error


def _with_times(events: pa.RecordBatch, times: Sequence[int | None]) -> pa.RecordBatch:
    """The events with these times, where they state none."""
    own = pa.array(times, pa.int64()).cast(TIME)
    columns = [
        pc.coalesce(events[name], own) if name in ("start", "end") else events.column(name) for name in EVENTS.names
    ]
    return pa.RecordBatch.from_arrays(columns, schema=EVENTS)
