"""Splits large N-Quads files between events into pieces that can be decoded in parallel.

A split knows the number of its first line, so that events and errors have the same line numbers as when the file is
read whole. Quads of an event that are in a later split than its first ones look like a second publication of the event.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from motet.codec.compression import CHUNK_BYTES, file_chunks, is_compressed, without_byte_order_mark
from motet.codec.decode import decode_stream
from motet.codec.events import NO_EVENTS, Decoded
from motet.codec.formats import Format, find_format, unknown_format
from motet.codec.nquads import NQuadsDecoder, decode_runs
from motet.codec.options import DecodeOptions, Limits, Rest
from motet.codec.row_mapping import RowMapping
from motet.model.settings import TIME_PROPERTIES, TimeProperties

_WINDOW_BYTES = 256 * 1024  # first read in the search for a boundary


@dataclass(frozen=True)
class FileSplit:
    """The byte range ``[start, stop)`` of a file (stop None: to the end); ``line`` is the number of its first line."""

    path: str
    format: Format | None  # None: the name stands for no format
    start: int = 0
    stop: int | None = None
    line: int = 1


def split_file(path: str, *, target_bytes: int, limits: Limits | None = None) -> list[FileSplit]:
    """Split a large uncompressed N-Quads file into ranges of about ``target_bytes``; any other file is one split."""
    syntax = find_format(path)
    max_whole_bytes = (limits or Limits()).max_document_bytes
    if syntax is not Format.N_QUADS or is_compressed(path) or Path(path).stat().st_size <= max_whole_bytes:
        return [FileSplit(path, syntax)]
    size = Path(path).stat().st_size
    starts = [0]
    while starts[-1] + target_bytes < size:
        starts.append(_boundary(path, starts[-1] + target_bytes, size))
    starts = [start for start in starts if start < size]
    stops = [*starts[1:], size]
    lines = _first_lines(path, starts)
    return [FileSplit(path, syntax, start, stop, line) for start, stop, line in zip(starts, stops, lines, strict=True)]


def decode_split(
    split: FileSplit,
    *,
    folder: str = "",
    limits: Limits | None = None,
    time_properties: TimeProperties = TIME_PROPERTIES,
    base: str | None = None,
    rest: Rest = "refuse",
    mapping: RowMapping | None = None,
) -> Iterator[Decoded]:
    """The events of one split; its path is relative to ``folder``, or to the working directory."""
    options = DecodeOptions(split.path, limits or Limits(), time_properties, base=base, rest=rest, mapping=mapping)
    path = str(Path(folder, split.path))
    if split.format is None:
        return iter([Decoded(NO_EVENTS, [unknown_format(split.path)])])
    if split.stop is None:
        return decode_stream(file_chunks(path), split.format, options)
    chunks = _range_chunks(path, split.start, split.stop)
    return decode_runs(chunks if split.start else without_byte_order_mark(chunks), options, first_line=split.line)


def _range_chunks(path: str, start: int, stop: int) -> Iterator[bytes]:
    with Path(path).open("rb") as file:
        file.seek(start)
        while start < stop and (chunk := file.read(min(CHUNK_BYTES, stop - start))):
            start += len(chunk)
            yield chunk


def _boundary(path: str, near: int, size: int) -> int:
    """The position of the first event that starts after ``near``: between valid lines of different graphs."""
    window = _WINDOW_BYTES
    while True:
        text = b"".join(_range_chunks(path, near, min(near + window, size)))
        boundary = _boundary_in(text)
        if boundary is not None:
            return near + boundary
        if near + window >= size:
            return size
        window *= 4


def _boundary_in(text: bytes) -> int | None:
    first = text.find(b"\n") + 1  # the first line is incomplete
    if not first:
        return None
    quads, bad = NQuadsDecoder().feed(text[first:])
    if quads.num_rows < 2:
        return None
    graph, line = quads.column("graph"), quads.column("line").to_numpy()
    differs = pc.fill_null(pc.not_equal(graph[1:], graph[:-1]), False).to_numpy(zero_copy_only=False)
    bad_before = np.searchsorted([bad_line.line for bad_line in bad], line)  # a bad line may belong to both neighbours
    boundaries = np.flatnonzero(differs & (np.diff(bad_before) == 0))
    return first + _offset_of_line(text[first:], int(line[boundaries[0] + 1])) if len(boundaries) else None


def _offset_of_line(text: bytes, line: int) -> int:
    """The byte offset of a line, counted from 1; a line ends with \\n, \\r or both."""
    return 0 if line == 1 else int(_line_ends(np.frombuffer(text, np.uint8))[line - 2]) + 1


def _line_ends(data: np.ndarray) -> np.ndarray:
    """The positions of the last bytes of line ends."""
    returns = data == ord("\r")
    returns[:-1] &= data[1:] != ord("\n")
    return np.flatnonzero((data == ord("\n")) | returns)


def _first_lines(path: str, starts: list[int]) -> list[int]:
    """The line number at each start, counting the line ends before it in one pass."""
    lines, line, position = [], 1, 0
    for start in starts:
        for chunk in _range_chunks(path, position, start):
            line += len(_line_ends(np.frombuffer(chunk, np.uint8)))
        position = start
        lines.append(line)
    return lines
