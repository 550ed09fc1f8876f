"""N-Quads bytes to events: a source of moderate size as a whole, a larger one run by run."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby

import numpy as np
import pyarrow as pa

from motet.codec.assemble import RunAssembler, group_whole
from motet.codec.events import Decoded, build
from motet.codec.limits import Limits, Source
from motet.codec.nquads import BadLine, NQuadsDecoder
from motet.codec.rejections import Problem, cut
from motet.model.errors import DecodeError

_FIRST_PIECE_BYTES = 64 * 1024
_HOPELESS_LINES = 10_000

QuadChunk = tuple[pa.RecordBatch, list[BadLine]]


class _QuadChunks:
    """Batches of quads with their bad lines; iteration ends at damage, which is then in ``damage``."""

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
        """Small pieces until a quad was seen: what is no N-Quads at all is slow to refuse line by line."""
        position = 0
        while position < len(chunk):
            stop = len(chunk) if self._quads_seen else position + _FIRST_PIECE_BYTES
            yield chunk[position:stop]
            position = stop

    def _checked(self, quads: pa.RecordBatch, bad: list[BadLine]) -> QuadChunk:
        self._quads_seen += quads.num_rows
        self._bad_seen += len(bad)
        if not self._quads_seen and self._bad_seen > _HOPELESS_LINES:
            raise DecodeError(
                f"the first {self._bad_seen} lines are not N-Quads, the rest was not read: {bad[-1].reason}",
                advice="check that the file is N-Quads",
            )
        return self._numbered(quads, merge_bad_lines(quads, bad))

    def _numbered(self, quads: pa.RecordBatch, bad: list[BadLine]) -> QuadChunk:
        if not self._lines_before:
            return quads, bad
        lines = pa.array(quads.column("line").to_numpy() + self._lines_before)
        bad = [replace(line, line=line.line + self._lines_before) for line in bad]
        return quads.set_column(4, quads.schema.field("line"), lines), bad


def merge_bad_lines(quads: pa.RecordBatch, bad: list[BadLine]) -> list[BadLine]:
    """Bad lines of unknown graphs that follow each other as one, so that garbage costs no more than its bytes."""
    merged: list[BadLine] = []
    places = np.searchsorted(quads.column("line").to_numpy(), [line.line for line in bad])
    for (_, graph), group in groupby(zip(places.tolist(), bad, strict=True), key=lambda pair: (pair[0], pair[1].graph)):
        lines = [line for _, line in group]
        if graph is not None or len(lines) == 1:
            merged += lines
            continue
        reason = f"{lines[0].reason} (and {len(lines) - 1} more bad lines after it)"
        merged.append(replace(lines[0], reason=reason, content=cut("\n".join(line.content for line in lines))))
    return merged


def decode_nquads(chunks: Iterator[bytes], source: Source) -> Iterator[Decoded]:
    """The events of N-Quads; up to ``max_document_bytes`` their quads may stand anywhere."""
    stream = _QuadChunks(chunks, source.limits)
    held: deque[QuadChunk] = deque()
    rest = iter(stream)
    for chunk in rest:
        held.append(chunk)
        if stream.bytes_read > source.limits.max_document_bytes:
            yield from _decode_runs(stream, _emptying(held, rest), source)
            return
    yield from _decode_whole(list(held), stream.damage, source)


def decode_runs(chunks: Iterator[bytes], source: Source, *, first_line: int = 1) -> Iterator[Decoded]:
    """The events of N-Quads in which each event's quads stand together, in bounded memory."""
    stream = _QuadChunks(chunks, source.limits, first_line)
    return _decode_runs(stream, stream, source)


def _emptying(held: deque[QuadChunk], rest: Iterator[QuadChunk]) -> Iterator[QuadChunk]:
    while held:
        yield held.popleft()
    yield from rest


def _decode_whole(held: list[QuadChunk], damage: DecodeError | None, source: Source) -> Iterator[Decoded]:
    batches = [quads for quads, _ in held]
    last = next((quads.column("graph")[-1].as_py() for quads in reversed(batches) if quads.num_rows), None)
    grouped = group_whole(batches, (line for _, bad in held for line in bad))
    if damage is not None:
        if last is not None:
            grouped.spoiled.setdefault(last, []).append(_cut_off())
        grouped.loose.append(Problem(damage.reason, damage.advice))
    yield from build(grouped, source)


def _decode_runs(stream: _QuadChunks, chunks: Iterable[QuadChunk], source: Source) -> Iterator[Decoded]:
    assembler = RunAssembler(source.limits.max_event_bytes)
    for quads, bad in chunks:
        yield from build(assembler.feed(quads, bad), source)
    if stream.damage is not None:
        assembler.spoil_open(_cut_off())
    grouped = assembler.finish()
    if stream.damage is not None:
        grouped.loose.append(Problem(stream.damage.reason, stream.damage.advice))
    yield from build(grouped, source)


def _cut_off() -> Problem:
    return Problem("the stream broke off while it was read, so it may be incomplete", advice="publish it again")
