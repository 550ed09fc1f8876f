"""Decodes N-Quads: bytes to quads, and quads to events, for whole sources, streams and small requests.

``NQuadsDecoder`` accepts the same lines as pyoxigraph and gives the same terms. The compiled scanner of
``nquads_kernels`` reads almost every line; pyoxigraph parses those about which it is uncertain. For a few lines the
set-up of the columnar decoder costs ten times the work: ``parse_small`` reads them with a regular expression.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from motet.codec.document_events import Defect, ParsedDocument, Quad, decode_document
from motet.codec.event_times import CLOUDEVENT_TIME, CREATED, parse_time
from motet.codec.events import NO_EVENTS, Decoded, build_events
from motet.codec.formats import Format
from motet.codec.grouping import StreamGrouper, group_all
from motet.codec.identity import RESERVED
from motet.codec.options import DecodeOptions, Limits
from motet.codec.rejections import BadLine, Problem, rejection, truncate
from motet.model import terms
from motet.model.batches import QUADS, EventRow, Triple, event_batch
from motet.model.errors import DecodeError, LimitError
from motet.model.settings import TimeProperties

if TYPE_CHECKING:
    import pyoxigraph

    from motet.codec.nquads_kernels import Scan

MAX_LINE_BYTES = 16 * 2**20
MAX_FEED_BYTES = 2**30  # a column holds at most 2 GiB of text

_EXCERPT_CHARACTERS = 1000  # of a bad line, in its error
_BLOCK = 64  # uncertain lines parsed in one call; a block with a bad line is parsed again line by line
_UNSUPPORTED = "RDF 1.2 terms are not supported: a triple term or a language tag with a direction"

_TAIL = 16 * 1024  # bytes of the end of a line that is too long; they may name its graph

_POSITION = re.compile(r"Parser error at .*?: ")
_QUOTED = re.compile(rb'"(?:[^"\\]|\\.)*+"?|<[^<>]*+>|#.*', re.DOTALL)
_GRAPH = re.compile(
    r"""\s*+(?:<[^<>]*+>|_:[^\s<]++)\s*+<[^>]*+>\s*+  # subject and predicate
    (?:<[^>]*+>|[^\s<>"]++|<<\(.*\)>>|".*"(?:@[\w-]++|\^\^<[^<>]*+>)?)\s++  # anything in the position of the object
    <([^<>"\s]++)>\s*+(?:\.\s*+)?(?:\#.*)?""",
    re.VERBOSE | re.DOTALL,
)
_AFTER_LITERAL = re.compile(r'"(?:@[\w-]+|\^\^<[^<>]*>)?\s+<([^<>"\s]+)>\s*\.\s*$')

_EMPTY = pa.RecordBatch.from_pylist([], QUADS)

QuadRow = tuple[int, str | None, str, str, str]  # line, graph, subject, predicate, object


class NQuadsDecoder:
    """Decodes a stream of byte pieces, cut anywhere, to quads; memory is bounded by one piece and one line.

    >>> decoder = NQuadsDecoder()
    >>> quads, bad = decoder.feed(b'<urn:s> <urn:p> "5" <urn:e:1> .\\n<urn:s> <urn:p> "5 <urn:e:2> .\\n<urn')
    >>> quads.to_pylist()
    [{'graph': '<urn:e:1>', 'subject': '<urn:s>', 'predicate': '<urn:p>', 'object': '"5"', 'line': 1}]
    >>> bad[0].line, bad[0].reason
    (2, 'Unexpected end of file')
    >>> decoder.finish()[1][0].line
    3
    """

    def __init__(self, *, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_line_bytes = max_line_bytes
        self._line = 1
        self._partial = bytearray()
        self._after_return = False

    def feed(self, data: bytes) -> tuple[pa.RecordBatch, list[BadLine]]:
        """The quads and the bad lines among the lines that end in this piece."""
        if len(data) > MAX_FEED_BYTES:
            raise LimitError(
                f"a piece of {len(data)} bytes is too large", advice=f"feed at most {MAX_FEED_BYTES} bytes at once"
            )
        if not data:
            return _EMPTY, []
        ends_in_return = data.endswith(b"\r")
        data = data.removeprefix(b"\n") if self._after_return else data
        self._after_return = ends_in_return
        line_end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if line_end:
            text = b"".join((self._partial, memoryview(data)[:line_end]))
            self._partial.clear()
        self._partial += memoryview(data)[line_end:]
        # Of a line that is too long, the beginning proves its length and the end may name its graph.
        del self._partial[self._max_line_bytes + 1 : -_TAIL]
        return self._decode(text) if line_end else (_EMPTY, [])

    def finish(self) -> tuple[pa.RecordBatch, list[BadLine]]:
        """Decode the last line if it has no line end."""
        return self.feed(b"\n") if self._partial else (_EMPTY, [])

    def _decode(self, text: bytes) -> tuple[pa.RecordBatch, list[BadLine]]:
        from motet.codec.nquads_kernels import scan

        scanned = scan(np.frombuffer(text, np.uint8), first_line=self._line, max_line_bytes=self._max_line_bytes)
        self._line += scanned.lines_seen
        quads = _certain_quads(scanned)
        if not len(scanned.uncertain):
            return quads, []
        uncertain = [(line, text[start:end]) for start, end, line in scanned.uncertain.tolist()]
        rows, bad = self._parse_uncertain(uncertain)
        return _merge(quads, rows), bad

    def _parse_uncertain(self, uncertain: list[tuple[int, bytes]]) -> tuple[list[QuadRow], list[BadLine]]:
        """Parse uncertain lines into quads and bad lines."""
        bad = [refusal for line, content in uncertain if (refusal := self._refusal(line, content))]
        refused = {refusal.line for refusal in bad}
        parsable = [(line, content) for line, content in uncertain if line not in refused]
        rows: list[QuadRow] = []
        for first in range(0, len(parsable), _BLOCK):
            for row in _parse_block(parsable[first : first + _BLOCK]):
                if isinstance(row, BadLine):
                    bad.append(row)
                else:
                    rows.append(row)
        return rows, sorted(bad, key=lambda bad_line: bad_line.line)

    def _refusal(self, line: int, content: bytes) -> BadLine | None:
        """The error of a line that must not reach pyoxigraph: nested triple terms would overflow its stack."""
        if len(content) > self._max_line_bytes:
            reason = f"the line is longer than the limit of {self._max_line_bytes} bytes"
            return BadLine(line, self._max_line_bytes + 1, reason, _excerpt(content), _last_graph(content))
        if b"<<(" in content and b"<<(" in _QUOTED.sub(b"", content):
            return BadLine(line, None, _UNSUPPORTED, _excerpt(content), _recover_graph(content))
        return None


def _certain_quads(scanned: Scan) -> pa.RecordBatch:
    """The scanner's buffers as a batch, without copying."""
    rows = scanned.rows
    columns: list[pa.Array] = []
    for text, offsets in zip(scanned.text, scanned.offsets, strict=True):
        validity = pa.py_buffer(scanned.graph_validity) if not columns else None
        buffers = pa.py_buffer(offsets[: rows + 1]), pa.py_buffer(text[: offsets[rows]]), validity
        columns.append(pa.StringArray.from_buffers(rows, *buffers))
    return pa.RecordBatch.from_arrays([*columns, pa.array(scanned.lines[:rows])], schema=QUADS)


def _merge(quads: pa.RecordBatch, rows: list[QuadRow]) -> pa.RecordBatch:
    """Insert rows into a batch by line number."""
    if not rows:
        return quads
    line, *terms = zip(*rows, strict=True)
    inserted = pa.RecordBatch.from_arrays(
        [*(pa.array(term, pa.string()) for term in terms), pa.array(line)], schema=QUADS
    )
    both = pa.Table.from_batches([quads, inserted]).combine_chunks().to_batches()[0]
    return both.take(pa.array(np.argsort(both.column("line").to_numpy(), kind="stable")))


def _parse_block(lines: list[tuple[int, bytes]]) -> Iterator[QuadRow | BadLine]:
    """Parse lines in one call; if that does not give exactly one quad per line, parse them one by one."""
    try:
        quads = _parse(b"\n".join(content for _, content in lines))
    except (SyntaxError, MemoryError):
        quads = []
    if len(quads) == len(lines):
        return (_to_row(line, content, quad) for (line, content), quad in zip(lines, quads, strict=True))
    return (row for line, content in lines for row in _parse_line(line, content))


def _parse_line(line: int, content: bytes) -> Iterator[QuadRow | BadLine]:
    try:
        quads = _parse(content)
    except SyntaxError as error:
        reason = _POSITION.sub("", error.msg, count=1)
        yield BadLine(line, error.offset, reason, _excerpt(content), _recover_graph(content))
    except MemoryError as error:  # pyoxigraph raises it when a token is longer than its buffer
        yield BadLine(line, None, str(error), _excerpt(content), None)
    else:
        yield from (_to_row(line, content, quad) for quad in quads)


def _parse(text: bytes) -> list[pyoxigraph.Quad]:
    import pyoxigraph

    return list(pyoxigraph.parse(text, pyoxigraph.RdfFormat.N_QUADS))


def _to_row(line: int, content: bytes, quad: pyoxigraph.Quad) -> QuadRow | BadLine:
    import pyoxigraph

    value, graph = quad.object, quad.graph_name
    has_direction = isinstance(value, pyoxigraph.Literal) and value.direction is not None
    if has_direction or isinstance(value, pyoxigraph.Triple):
        return BadLine(line, None, _UNSUPPORTED, _excerpt(content), _recover_graph(content))
    graph_name = None if isinstance(graph, pyoxigraph.DefaultGraph) else str(graph)
    return line, graph_name, str(quad.subject), str(quad.predicate), str(value)


def _excerpt(content: bytes) -> str:
    return content[: 4 * _EXCERPT_CHARACTERS].decode("utf-8", "replace")[:_EXCERPT_CHARACTERS]


def _last_graph(content: bytes) -> str | None:
    """The graph at the end of a line that is too long, if a literal precedes it, so that it is not the object."""
    match = _AFTER_LITERAL.search(content[-_TAIL:].decode("utf-8", "replace"))
    return match[1] if match else None


def _recover_graph(content: bytes) -> str | None:
    """The IRI of the fourth term of a bad line, if it can be distinguished from the object."""
    match = _GRAPH.fullmatch(content.decode("utf-8", "replace")) if len(content) <= 10 * _EXCERPT_CHARACTERS else None
    return match[1] if match else None


_FIRST_PIECE_BYTES = 64 * 1024
_MAX_LEADING_BAD_LINES = 10_000

QuadChunk = tuple[pa.RecordBatch, list[BadLine]]


class _QuadChunks:
    """Batches of quads with their bad lines; iteration ends where the stream is damaged, and sets ``damage``."""

    def __init__(self, chunks: Iterator[bytes], limits: Limits, first_line: int = 1) -> None:
        self._chunks = chunks
        self._decoder = NQuadsDecoder(max_line_bytes=limits.max_line_bytes)
        self._lines_before = first_line - 1
        self._quads_seen = 0
        self._bad_seen = 0
        self.bytes_read = 0
        self.damage: DecodeError | None = None

    def __iter__(self) -> Iterator[QuadChunk]:
        try:
            for chunk in self._chunks:
                for piece in self._pieces(chunk):
                    self.bytes_read += len(piece)
                    yield self._checked(*self._decoder.feed(piece))
        except DecodeError as damage:
            self.damage = damage
        else:
            yield self._checked(*self._decoder.finish())

    def _pieces(self, chunk: bytes) -> Iterator[bytes]:
        """Small pieces until the first quad: input in another format is slow to refuse line by line."""
        position = 0
        while position < len(chunk):
            stop = len(chunk) if self._quads_seen else position + _FIRST_PIECE_BYTES
            yield chunk[position:stop]
            position = stop

    def _checked(self, quads: pa.RecordBatch, bad: list[BadLine]) -> QuadChunk:
        self._quads_seen += quads.num_rows
        self._bad_seen += len(bad)
        if not self._quads_seen and self._bad_seen > _MAX_LEADING_BAD_LINES:
            raise DecodeError(
                f"the first {self._bad_seen} lines are not N-Quads, the rest was not read: {bad[-1].reason}",
                advice="check that the file is N-Quads",
            )
        return self._with_line_offset(quads, merge_bad_lines(quads, bad))

    def _with_line_offset(self, quads: pa.RecordBatch, bad: list[BadLine]) -> QuadChunk:
        if not self._lines_before:
            return quads, bad
        lines = pa.array(quads.column("line").to_numpy() + self._lines_before)
        bad = [replace(line, line=line.line + self._lines_before) for line in bad]
        return quads.set_column(4, quads.schema.field("line"), lines), bad


def merge_bad_lines(quads: pa.RecordBatch, bad: list[BadLine]) -> list[BadLine]:
    """Merge consecutive bad lines of unknown graphs into one, so that errors take no more memory than the lines."""
    merged: list[BadLine] = []
    indexes = np.searchsorted(quads.column("line").to_numpy(), [line.line for line in bad])
    for (_, graph), group in groupby(
        zip(indexes.tolist(), bad, strict=True), key=lambda pair: (pair[0], pair[1].graph)
    ):
        lines = [line for _, line in group]
        if graph is not None or len(lines) == 1:
            merged += lines
            continue
        reason = f"{lines[0].reason} (and {len(lines) - 1} more bad lines after it)"
        merged.append(replace(lines[0], reason=reason, content=truncate("\n".join(line.content for line in lines))))
    return merged


def decode_nquads(chunks: Iterator[bytes], options: DecodeOptions) -> Iterator[Decoded]:
    """The events of N-Quads.

    Input up to ``max_document_bytes`` is a document. In larger input, which is read as a stream, every quad must be in
    a graph that is named by an IRI, and the quads of a graph must be consecutive.
    """
    stream = _QuadChunks(chunks, options.limits)
    buffered: deque[QuadChunk] = deque()
    remaining = iter(stream)
    for chunk in remaining:
        buffered.append(chunk)
        if stream.bytes_read > options.limits.max_document_bytes:
            if options.id is not None:
                yield Decoded(NO_EVENTS, [rejection(options.name, options.id, [_too_large_for_id(options)])])
                return
            yield from _decode_runs(stream, _drain(buffered, remaining), options)
            return
    yield from _decode_whole(list(buffered), stream.damage, options)


def decode_runs(chunks: Iterator[bytes], options: DecodeOptions, *, first_line: int = 1) -> Iterator[Decoded]:
    """The events of N-Quads in which the quads of each event are consecutive, in bounded memory."""
    stream = _QuadChunks(chunks, options.limits, first_line)
    return _decode_runs(stream, stream, options)


def _drain(buffered: deque[QuadChunk], remaining: Iterator[QuadChunk]) -> Iterator[QuadChunk]:
    """Yield buffered chunks, releasing each, then the remaining ones."""
    while buffered:
        yield buffered.popleft()
    yield from remaining


def parse_lines(
    data: bytes, syntax: Format, options: DecodeOptions, damage: DecodeError | None = None
) -> ParsedDocument:
    """N-Quads or N-Triples as a document, whose lines are decided one by one."""
    stream = _QuadChunks(iter([data]), options.limits)
    document = _document(list(stream), damage, has_graphs=syntax is Format.N_QUADS)
    if stream.damage is not None:  # it is another format
        document.defects.append(Defect(Problem(stream.damage.reason, stream.damage.advice)))
    if not document.quads and not document.defects:
        document.defects.append(Defect(Problem("the document holds no triples", "an event has at least one triple")))
    return document


def _decode_whole(chunks: list[QuadChunk], damage: DecodeError | None, options: DecodeOptions) -> Iterator[Decoded]:
    batches = [quads for quads, _ in chunks]
    last_graph = next((quads.column("graph")[-1].as_py() for quads in reversed(batches) if quads.num_rows), None)
    grouped = group_all(batches, (line for _, bad in chunks for line in bad)) if options.id is None else None
    if grouped is None:
        yield from decode_document(_document(chunks, damage), options)
        return
    if damage is not None:
        if last_graph is not None:
            grouped.rejected.setdefault(last_graph, []).append(_incomplete_problem())
        grouped.unattributed.append(Problem(damage.reason, damage.advice))
    yield from build_events(grouped, options)


def _document(chunks: list[QuadChunk], damage: DecodeError | None, *, has_graphs: bool = True) -> ParsedDocument:
    """Quads and bad lines as a document; without graphs, a line with four terms is a bad line."""
    document = ParsedDocument(base="")
    for quads, bad in chunks:
        columns = (quads.column(name).to_pylist() for name in ("graph", "subject", "predicate", "object", "line"))
        document.quads += map(Quad._make, zip(*columns, strict=True))
        document.defects += map(_defect, bad)
    if not has_graphs:
        document.defects += [_fourth_term(quad) for quad in document.quads if quad.graph is not None]
        document.quads = [quad for quad in document.quads if quad.graph is None]
    if damage is not None:
        if document.quads:
            last = document.quads[-1]
            document.defects.append(Defect(_incomplete_problem(), last.graph, None if last.graph else last.subject))
        document.defects.append(Defect(Problem(damage.reason, damage.advice)))
    return document


def _defect(bad: BadLine) -> Defect:
    """A bad line in its graph, or about its subject in the default graph."""
    if bad.graph is not None:
        return Defect(bad.problem, terms.iri(bad.graph))
    return Defect(bad.problem, None, bad.subject)


def _fourth_term(quad: Quad) -> Defect:
    line = f"{quad.subject} {quad.predicate} {quad.object} {quad.graph} ."
    advice = "publish the document as N-Quads: name it .nq, or use application/n-quads"
    return Defect(Problem("a line of N-Triples has three terms", advice, quad.line, content=line), None, quad.subject)


def _decode_runs(stream: _QuadChunks, chunks: Iterable[QuadChunk], options: DecodeOptions) -> Iterator[Decoded]:
    grouper = StreamGrouper(options.limits.max_event_bytes)
    for quads, bad in chunks:
        yield from build_events(grouper.feed(quads, bad), options)
    if stream.damage is not None:
        grouper.reject_open(_incomplete_problem())
    grouped = grouper.finish()
    if stream.damage is not None:
        grouped.unattributed.append(Problem(stream.damage.reason, stream.damage.advice))
    yield from build_events(grouped, options)


def _too_large_for_id(options: DecodeOptions) -> Problem:
    reason = f"the document is larger than {options.limits.max_document_bytes} bytes"
    return Problem(reason, "an event of this size is not accepted; leave the id out if each graph is an event")


def _incomplete_problem() -> Problem:
    return Problem("the stream broke off, and the event may be incomplete", advice="publish it again")


SMALL_BYTES = 4_096

_HOST = r"[0-9A-Za-z\-._~!$&'()*+,;=]"
_PATH_CHARACTERS = r"[0-9A-Za-z\-._~!$&'()*+,;=:@/?]*+"
_PATH = rf"{_PATH_CHARACTERS}(?:%[0-9A-Fa-f]{{2}}{_PATH_CHARACTERS})*+"
_IRI = rf"<[A-Za-z][0-9A-Za-z+\-.]*+:(?://{_HOST}*+(?::[0-9]*+)?+(?=[/?#>])|(?!//)){_PATH}(?:\#{_PATH})?+>"
_RESERVED = r"(?!<http://www\.w3\.org/(?:1999/02/22-rdf-syntax-ns\#|2001/XMLSchema\#string))"  # not handled here
_LITERAL = rf'"[ !#-\[\]-~]*+"(?:@[a-z]{{2,8}}(?=[ \t])|\^\^{_RESERVED}{_IRI})?+'
_QUAD = re.compile(
    rf"^[ \t]*+({_IRI})[ \t]*+({_IRI})[ \t]*+({_IRI}|{_LITERAL})[ \t]*+({_IRI})[ \t]*+\.[ \t]*+\n",
    re.ASCII | re.MULTILINE,
)


_RESERVED_IRI = f"<{RESERVED}"
_OWN_PREDICATES = (f"<{CREATED}>", f"<{CLOUDEVENT_TIME}>")  # of another node than the event's they state no time


class SmallEvents(NamedTuple):
    """Events with the numbers of their first lines."""

    events: list[EventRow]
    lines: list[int]


def parse_small(data: bytes, time_properties: TimeProperties, max_bytes: int = SMALL_BYTES) -> SmallEvents | None:
    """The events of a small text; None for a text that only the columnar decoder can decide.

    It gives the same events as the columnar decoder, and rejects nothing.

    >>> parse_small(b'<urn:s> <urn:p> "o" <urn:e> .', ()).events
    [EventRow(id='urn:e', start=None, end=None, triples=(('<urn:s>', '<urn:p>', '"o"'),), payload=None)]
    """
    if not data.isascii() or not 0 < len(data) <= max_bytes:
        return None
    text = data.decode("ascii")
    if _RESERVED_IRI in text:
        return None
    fields = _QUAD.split(text if text.endswith("\n") else text + "\n")
    if any(fields[::5]):  # text between quads
        return None
    events: dict[str, dict[Triple, int]] = {}
    for line, triple in enumerate(zip(fields[1::5], fields[2::5], fields[3::5], strict=True), 1):
        events.setdefault(fields[5 * line - 1], {}).setdefault(triple, line)
    small = SmallEvents([], [])
    for graph, triples in events.items():
        times = _times(graph, triples, time_properties)
        if times is None:
            return None
        small.events.append(EventRow(graph[1:-1], *times, tuple(triples)))
        small.lines.append(next(iter(triples.values())))
    return small


def decode_small_nquads(data: bytes, options: DecodeOptions) -> pa.RecordBatch | None:
    """The result of `parse_small` as a batch of EVENTS."""
    limits = options.limits
    max_bytes = min(SMALL_BYTES, limits.max_event_bytes, limits.max_line_bytes)
    small = parse_small(data, options.time_properties, max_bytes)
    return None if small is None else event_batch(*small)


def _times(graph: str, triples: dict[Triple, int], properties: TimeProperties) -> tuple[int | None, int | None] | None:
    """Start and end of an event, both None without a time; None for an invalid or ambiguous time."""
    positions = _time_positions(properties)
    by_subject: dict[str, dict[tuple[int, bool], str]] = {}
    for subject, predicate, value in triples:
        if predicate in positions and (subject == graph or predicate not in _OWN_PREDICATES):
            values = by_subject.setdefault(subject, {})
            if positions[predicate] in values:
                return None
            values[positions[predicate]] = value
    if not by_subject:
        return None, None
    if graph not in by_subject and len(by_subject) > 1:
        return None
    values = by_subject.get(graph) or next(iter(by_subject.values()))
    group = min(values)[0]
    if group == len(properties) and len(by_subject) > 1:  # only a CloudEvents attribute
        return None
    try:
        times = [parse_time(values[position]) for position in ((group, False), (group, True)) if position in values]
    except ValueError:
        return None
    return (times[0], times[-1]) if times[0] <= times[-1] else None


@lru_cache(16)
def _time_positions(properties: TimeProperties) -> dict[str, tuple[int, bool]]:
    """By predicate: the index of its property group, and whether it is an end."""
    groups = enumerate((*properties, (CLOUDEVENT_TIME,)))
    return {f"<{name}>": (group, index > 0) for group, names in groups for index, name in enumerate(names)}
