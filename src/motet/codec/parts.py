"""Stretches of files that can be decoded on their own, by whoever has time: large N-Quads files cut between events.

A part knows the number of its first line, so that errors and events tell the same lines as when the file is read whole.
An event that comes back in another part than the one its run ended in looks like the same event published twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from motet.codec.compression import CHUNK_BYTES, file_chunks, is_compressed
from motet.codec.decode import decode_stream
from motet.codec.event_times import TIME_PROPERTIES, TimeProperties
from motet.codec.events import Decoded
from motet.codec.formats import Format, format_of_path
from motet.codec.limits import Limits, Source
from motet.codec.nquads import NQuadsDecoder
from motet.codec.nquads_stream import decode_runs

_WINDOW_BYTES = 256 * 1024  # read first in search of a border


@dataclass(frozen=True)
class Part:
    """The bytes from ``start`` up to ``stop`` (None: to the end) of a file; ``line`` numbers its first line."""

    path: str
    format: Format
    start: int = 0
    stop: int | None = None
    line: int = 1


def split(path: str, *, target_bytes: int, limits: Limits | None = None) -> list[Part]:
    """Cut a large uncompressed N-Quads file into parts of about ``target_bytes``; any other file is one part."""
    syntax = format_of_path(path)
    small = (limits or Limits()).max_document_bytes
    if syntax is not Format.N_QUADS or is_compressed(path) or Path(path).stat().st_size <= small:
        return [Part(path, syntax)]
    size = Path(path).stat().st_size
    cuts = [0]
    while cuts[-1] + target_bytes < size:
        cuts.append(_border(path, cuts[-1] + target_bytes, size))
    cuts = [cut for cut in cuts if cut < size]
    stops = [*cuts[1:], size]
    lines = _first_lines(path, cuts)
    return [Part(path, syntax, start, stop, line) for start, stop, line in zip(cuts, stops, lines, strict=True)]


def decode_part(
    part: Part, *, folder: str = "", limits: Limits | None = None, time_properties: TimeProperties = TIME_PROPERTIES
) -> Iterator[Decoded]:
    """The events of one part; ``folder`` is where its path begins, if that is not the working directory."""
    source = Source(part.path, limits or Limits(), time_properties)
    path = str(Path(folder, part.path))
    if part.stop is None:
        return decode_stream(file_chunks(path), part.format, source)
    return decode_runs(_range_chunks(path, part.start, part.stop), source, first_line=part.line)


def _range_chunks(path: str, start: int, stop: int) -> Iterator[bytes]:
    with Path(path).open("rb") as file:
        file.seek(start)
        while start < stop and (chunk := file.read(min(CHUNK_BYTES, stop - start))):
            start += len(chunk)
            yield chunk


def _border(path: str, near: int, size: int) -> int:
    """Where the first event after a place begins: between two good neighbouring lines of different graphs."""
    window = _WINDOW_BYTES
    while True:
        text = b"".join(_range_chunks(path, near, min(near + window, size)))
        found = _border_in(text)
        if found is not None:
            return near + found
        if near + window >= size:
            return size
        window *= 4


def _border_in(text: bytes) -> int | None:
    first = text.find(b"\n") + 1  # the line the place falls into is not whole
    if not first:
        return None
    quads, bad = NQuadsDecoder().feed(text[first:])
    if quads.num_rows < 2:
        return None
    graph, line = quads.column("graph"), quads.column("line").to_numpy()
    differs = pc.fill_null(pc.not_equal(graph[1:], graph[:-1]), False).to_numpy(zero_copy_only=False)
    bad_before = np.searchsorted([bad_line.line for bad_line in bad], line)  # a bad line belongs to its neighbours
    borders = np.flatnonzero(differs & (np.diff(bad_before) == 0))
    return first + _offset_of_line(text[first:], int(line[borders[0] + 1])) if len(borders) else None


def _offset_of_line(text: bytes, line: int) -> int:
    """The place of a line, counted from 1; a line ends with \\n, \\r or both."""
    return 0 if line == 1 else int(_line_ends(np.frombuffer(text, np.uint8))[line - 2]) + 1


def _line_ends(data: np.ndarray) -> np.ndarray:
    """The last byte of each line end."""
    returns = data == ord("\r")
    returns[:-1] &= data[1:] != ord("\n")
    return np.flatnonzero((data == ord("\n")) | returns)


def _first_lines(path: str, cuts: list[int]) -> list[int]:
    """The line number at each cut, counting the line ends before it in one pass."""
    lines, line, position = [], 1, 0
    for cut in cuts:
        for chunk in _range_chunks(path, position, cut):
            line += len(_line_ends(np.frombuffer(chunk, np.uint8)))
        position = cut
        lines.append(line)
    return lines
