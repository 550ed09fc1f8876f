"""N-Quads bytes to Arrow batches of quads: the same lines accepted, and the same terms, as by pyoxigraph.

Almost every line goes through the kernel of ``nquads_kernel``. A line the kernel is not certain about is parsed by
pyoxigraph itself, which decides. Events are assembled from quads elsewhere; here blank nodes are still ``_:label``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from motet.model.errors import LimitError
from motet.model.schemas import QUADS

if TYPE_CHECKING:
    import pyoxigraph

    from motet.codec.nquads_kernel import Scan

LONGEST_LINE = 16 * 2**20
LONGEST_FEED = 2**30  # a column holds at most 2 GiB of text

_SHOWN = 1000  # characters of a bad line that are kept
_BLOCK = 64  # hard lines parsed at once: enough to spread the cost of a call, few enough to repeat when one is bad
_UNSUPPORTED = "RDF 1.2 terms are not supported: a triple term or a language tag with a direction"

_TAIL = 16 * 1024  # bytes kept of the end of a line that is too long

_WHERE = re.compile(r"Parser error at .*?: ")
_WORDS = re.compile(rb'"(?:[^"\\]|\\.)*+"?|<[^<>]*+>|#.*', re.DOTALL)
_GRAPH = re.compile(
    r"""\s*+(?:<[^<>]*+>|_:[^\s<]++)\s*+<[^>]*+>\s*+  # subject and predicate
    (?:<[^>]*+>|_:[^\s<]++|<<\(.*\)>>|".*"(?:@[\w-]++|\^\^<[^<>]*+>)?)\s++  # whatever stands for the object
    <([^<>"\s]++)>\s*+(?:\.\s*+)?(?:\#.*)?""",
    re.VERBOSE | re.DOTALL,
)
_AFTER_LITERAL = re.compile(r'"(?:@[\w-]+|\^\^<[^<>]*>)?\s+<([^<>"\s]+)>\s*\.\s*$')

_EMPTY = pa.RecordBatch.from_pylist([], QUADS)

Row = tuple[int, str | None, str, str, str]  # line, graph, subject, predicate, object


@dataclass(frozen=True)
class BadLine:
    """A line that is not N-Quads, and the event it belongs to if that can still be seen."""

    line: int
    column: int | None
    reason: str
    content: str
    graph: str | None


class NQuadsDecoder:
    """Decodes a stream that arrives in pieces, cut anywhere, in memory bounded by a piece and a line.

    >>> decoder = NQuadsDecoder()
    >>> quads, bad = decoder.feed(b'<urn:s> <urn:p> "5" <urn:e:1> .\\n<urn:s> <urn:p> "5 <urn:e:2> .\\n<urn')
    >>> quads.to_pylist()
    [{'graph': '<urn:e:1>', 'subject': '<urn:s>', 'predicate': '<urn:p>', 'object': '"5"', 'line': 1}]
    >>> bad[0].line, bad[0].reason
    (2, 'Unexpected end of file')
    >>> decoder.finish()[1][0].line
    3
    """

    def __init__(self, *, max_line_bytes: int = LONGEST_LINE) -> None:
        self._max_line_bytes = max_line_bytes
        self._line = 1
        self._partial = bytearray()
        self._after_return = False

    def feed(self, data: bytes) -> tuple[pa.RecordBatch, list[BadLine]]:
        """The quads and the bad lines among the lines that this piece completes."""
        if len(data) > LONGEST_FEED:
            raise LimitError(f"a piece of {len(data)} bytes was fed at once", advice=f"Feed at most {LONGEST_FEED}.")
        if not data:
            return _EMPTY, []
        ends_in_return = data.endswith(b"\r")
        data = data.removeprefix(b"\n") if self._after_return else data
        self._after_return = ends_in_return
        cut = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if cut:
            text = b"".join((self._partial, memoryview(data)[:cut]))
            self._partial.clear()
        self._partial += memoryview(data)[cut:]
        # Of a line that is too long its beginning shows that it is, and its end says which event it belongs to.
        del self._partial[self._max_line_bytes + 1 : -_TAIL]
        return self._decode(text) if cut else (_EMPTY, [])

    def finish(self) -> tuple[pa.RecordBatch, list[BadLine]]:
        """The last line, if no line end follows it."""
        return self.feed(b"\n") if self._partial else (_EMPTY, [])

    def _decode(self, text: bytes) -> tuple[pa.RecordBatch, list[BadLine]]:
        from motet.codec.nquads_kernel import scan

        found = scan(np.frombuffer(text, np.uint8), first_line=self._line, longest=self._max_line_bytes)
        self._line += found.lines_seen
        quads = _certain_quads(found)
        if not len(found.hard):
            return quads, []
        hard = [(line, text[start:end]) for start, end, line in found.hard.tolist()]
        rows, bad = self._decide(hard)
        return _merge(quads, rows), bad

    def _decide(self, hard: list[tuple[int, bytes]]) -> tuple[list[Row], list[BadLine]]:
        """Sort hard lines into quads and bad lines."""
        bad = [reason for line, content in hard if (reason := self._refusal(line, content))]
        refused = {refusal.line for refusal in bad}
        open_lines = [(line, content) for line, content in hard if line not in refused]
        rows: list[Row] = []
        for first in range(0, len(open_lines), _BLOCK):
            for outcome in _parse_block(open_lines[first : first + _BLOCK]):
                if isinstance(outcome, BadLine):
                    bad.append(outcome)
                else:
                    rows.append(outcome)
        return rows, sorted(bad, key=lambda bad_line: bad_line.line)

    def _refusal(self, line: int, content: bytes) -> BadLine | None:
        """What is refused without asking pyoxigraph: deeply nested triple terms would overflow its stack."""
        if len(content) > self._max_line_bytes:
            reason = f"the line is longer than the limit of {self._max_line_bytes} bytes"
            return BadLine(line, self._max_line_bytes + 1, reason, _shown(content), _last_graph(content))
        if b"<<(" in content and b"<<(" in _WORDS.sub(b"", content):
            return BadLine(line, None, _UNSUPPORTED, _shown(content), _scavenged_graph(content))
        return None


def _certain_quads(found: Scan) -> pa.RecordBatch:
    """The kernel's buffers as a batch, without copying."""
    rows = found.rows
    columns: list[pa.Array] = []
    for text, offsets in zip(found.text, found.offsets, strict=True):
        validity = pa.py_buffer(found.graph_validity) if not columns else None
        buffers = pa.py_buffer(offsets[: rows + 1]), pa.py_buffer(text[: offsets[rows]]), validity
        columns.append(pa.StringArray.from_buffers(rows, *buffers))
    return pa.RecordBatch.from_arrays([*columns, pa.array(found.lines[:rows])], schema=QUADS)


def _merge(quads: pa.RecordBatch, rows: list[Row]) -> pa.RecordBatch:
    """Put rows where their lines belong."""
    if not rows:
        return quads
    line, *terms = zip(*rows, strict=True)
    others = pa.RecordBatch.from_arrays(
        [*(pa.array(term, pa.string()) for term in terms), pa.array(line)], schema=QUADS
    )
    both = pa.Table.from_batches([quads, others]).combine_chunks().to_batches()[0]
    return both.take(pa.array(np.argsort(both.column("line").to_numpy(), kind="stable")))


def _parse_block(lines: list[tuple[int, bytes]]) -> Iterator[Row | BadLine]:
    """Parse lines together; if that does not give exactly one quad for each, one by one."""
    try:
        quads = _parse(b"\n".join(content for _, content in lines))
    except (SyntaxError, MemoryError):
        quads = []
    if len(quads) == len(lines):
        return (_outcome(line, content, quad) for (line, content), quad in zip(lines, quads, strict=True))
    return (outcome for line, content in lines for outcome in _parse_line(line, content))


def _parse_line(line: int, content: bytes) -> Iterator[Row | BadLine]:
    try:
        quads = _parse(content)
    except SyntaxError as error:
        reason = _WHERE.sub("", error.msg, count=1)
        yield BadLine(line, error.offset, reason, _shown(content), _scavenged_graph(content))
    except MemoryError as error:  # pyoxigraph's way to say that a token outgrew its buffer
        yield BadLine(line, None, str(error), _shown(content), None)
    else:
        yield from (_outcome(line, content, quad) for quad in quads)


def _parse(text: bytes) -> list[pyoxigraph.Quad]:
    import pyoxigraph

    return list(pyoxigraph.parse(text, pyoxigraph.RdfFormat.N_QUADS))


def _outcome(line: int, content: bytes, quad: pyoxigraph.Quad) -> Row | BadLine:
    import pyoxigraph

    value, graph = quad.object, quad.graph_name
    directed = isinstance(value, pyoxigraph.Literal) and value.direction is not None
    if directed or isinstance(value, pyoxigraph.Triple):
        return BadLine(line, None, _UNSUPPORTED, _shown(content), _scavenged_graph(content))
    graph_name = None if isinstance(graph, pyoxigraph.DefaultGraph) else str(graph)
    return line, graph_name, str(quad.subject), str(quad.predicate), str(value)


def _shown(content: bytes) -> str:
    return content[: 4 * _SHOWN].decode("utf-8", "replace")[:_SHOWN]


def _last_graph(content: bytes) -> str | None:
    """The bare IRI that ends a line too long to be read, when a literal stands before it: then it is no object."""
    match = _AFTER_LITERAL.search(content[-_TAIL:].decode("utf-8", "replace"))
    return match[1] if match else None


def _scavenged_graph(content: bytes) -> str | None:
    """The bare IRI that stands fourth in a broken line, when it can be told from the object."""
    match = _GRAPH.fullmatch(content.decode("utf-8", "replace")) if len(content) <= 10 * _SHOWN else None
    return match[1] if match else None
