"""Event files as rows of a DataFrame: the driver lists splits of the files, tasks decode them.

A row is an event or a rejection, which has its dead letter as JSON in ``rejected``. Files of dead letters written by
tasks would be duplicated when a task is retried; rows are counted once.

A large N-Quads file is split between events. A split knows the number of its first line, so that events and errors have
the same line numbers as when the file is read whole. Quads of an event that are in a later split than its first ones
look like a second publication of the event.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.codec.compression import CHUNK_BYTES, file_chunks, is_compressed, without_byte_order_mark
from motet.codec.decode import decode_stream
from motet.codec.events import COUNTS, NO_EVENTS, Decoded
from motet.codec.formats import Format, find_format, unknown_format
from motet.codec.nquads import NQuadsDecoder, decode_runs
from motet.codec.options import DecodeOptions, Limits, Rest
from motet.codec.row_mapping import RowMapping
from motet.model.batches import EVENTS, content_digests
from motet.model.settings import TIME_PROPERTIES, TimeProperties
from motet.spark.encoding import Batches
from motet.spark.session import parallelism

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


MIN_SPLIT_BYTES, MAX_SPLIT_BYTES = 2**20, 2**26
SPLITS_PER_CORE = 4

ORIGIN = [
    pa.field("file", pa.int32(), nullable=False),  # index of the file
    pa.field("split", pa.int32(), nullable=False),  # index of the split among all splits of all files
    pa.field("position", pa.int64(), nullable=False),  # in the split: with it, the order in which one reader reads
    pa.field("rejected", pa.string()),  # the dead letter of a rejection, which has no triples; "" in a row of counts
    pa.field("digest", pa.binary()),  # of an event's content
    *(pa.field(name, pa.int64()) for name in COUNTS),
]
EVENT_ROWS = pa.schema([field.with_nullable(True) if field.name == "id" else field for field in EVENTS] + ORIGIN)


@dataclass(frozen=True)
class FileSplits:
    """The splits of a list of files, and the options to decode them."""

    splits: tuple[tuple[int, FileSplit], ...]  # with the index of the file
    limits: Limits
    folder: str  # the base of relative paths, on every machine
    base: str | None = None  # of relative IRIs
    rest: Rest = "refuse"
    mapping: RowMapping | None = None  # of rows and documents

    def decode(self, split: int) -> Batches:
        """The rows of one split, in the order of the file."""
        file, file_split = self.splits[split]
        position = 0
        for decoded in decode_split(
            file_split, folder=self.folder, limits=self.limits, base=self.base, rest=self.rest, mapping=self.mapping
        ):
            if decoded.events.num_rows:
                yield _event_rows(decoded.events, file, split, position)
                position += decoded.events.num_rows
            if decoded.rejected or decoded.has_counts:
                rows = _other_rows(decoded, file, split, position)
                yield rows
                position += rows.num_rows


def split_files(
    paths: Sequence[str | Path], parallelism: int, *, target_bytes: int | None = None, limits: Limits | None = None
) -> FileSplits:
    """Split files so that every core has several splits, each large enough that starting its task does not dominate."""
    limits = limits or Limits()
    total = sum(Path(path).stat().st_size for path in paths)
    size = target_bytes or min(max(total // (SPLITS_PER_CORE * parallelism), MIN_SPLIT_BYTES), MAX_SPLIT_BYTES)
    splits = tuple(
        (file, split)
        for file, path in enumerate(paths)
        for split in split_file(str(path), target_bytes=size, limits=limits)
    )
    return FileSplits(splits, limits, str(Path.cwd()))


def read_splits(
    spark: SparkSession,
    splits: FileSplits,
    schema: pa.Schema,
    transform: Callable[[Batches], Batches] = lambda rows: rows,
) -> DataFrame:
    """The rows of the splits after ``transform``, one task for each split."""
    from pyspark.sql.pandas.types import from_arrow_schema

    def read(batches: Batches) -> Batches:
        indices = (index for batch in batches for index in batch.column(0).to_pylist())
        return transform(rows for index in indices for rows in splits.decode(index))

    indices = spark.range(0, len(splits.splits), 1, max(len(splits.splits), 1))
    return indices.mapInArrow(read, from_arrow_schema(schema))


def read_events(
    spark: SparkSession, paths: Sequence[str | Path], *, target_bytes: int | None = None, limits: Limits | None = None
) -> DataFrame:
    """The events of the files, in rows of EVENT_ROWS; :func:`add_outcome` decides which of them are accepted."""
    splits = split_files(paths, parallelism(spark), target_bytes=target_bytes, limits=limits)
    return read_splits(spark, splits, EVENT_ROWS)


def add_outcome(rows: DataFrame) -> DataFrame:
    """Add the column ``outcome``, which has for each row what one reader of all files would do with it.

    It is ``accepted``, ``rejected``, ``repeated`` (an event with that IRI and content is accepted already),
    ``conflict`` (one with that IRI and other content is), ``counts`` (no event) or ``returned``: an earlier split of
    the same file has begun or rejected the event, so these are later quads of it.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    identity = f.coalesce("id", f.concat_ws(":", "split", "position"))  # no IRI begins with a digit
    earlier = Window.partitionBy(identity).orderBy("split", "position")
    returned = (f.lag("file").over(earlier) == f.col("file")) & (f.lag("split").over(earlier) != f.col("split"))
    outcome = (
        f.when(f.col("rejected") == "", "counts")
        .when(f.col("rejected").isNotNull(), "rejected")
        .when(returned, "returned")
        .otherwise("accepted")
    )
    is_accepted = f.col("outcome") == "accepted"
    is_second = is_accepted & (f.count_if(is_accepted).over(earlier) > 1)
    first_digest = f.first(f.when(is_accepted, f.col("digest")), ignorenulls=True).over(earlier)
    second = f.when(f.col("digest") == first_digest, "repeated").otherwise("conflict")
    decided = rows.withColumn("outcome", outcome)
    return decided.withColumn("outcome", f.when(is_second, second).otherwise(f.col("outcome")))


def _event_rows(events: pa.RecordBatch, file: int, split: int, position: int) -> pa.RecordBatch:
    count = events.num_rows
    origin = [
        pa.array(np.full(count, file, np.int32)),
        pa.array(np.full(count, split, np.int32)),
        pa.array(np.arange(position, position + count)),
        pa.nulls(count, pa.string()),
        pa.array(content_digests(events), pa.binary()),
        *(pa.nulls(count, pa.int64()) for _ in COUNTS),
    ]
    return pa.RecordBatch.from_arrays([*events.columns, *origin], schema=EVENT_ROWS)


def _other_rows(decoded: Decoded, file: int, split: int, position: int) -> pa.RecordBatch:
    rows: list[dict[str, object]] = [
        {
            "id": error.event,
            "triples": [],
            "line": error.line or 0,
            "file": file,
            "split": split,
            "position": position + index,
            "rejected": json.dumps(error.to_json(), ensure_ascii=False),
        }
        for index, error in enumerate(decoded.rejected)
    ]
    if decoded.has_counts:
        origin = {"file": file, "split": split, "position": position + len(rows)}
        counts = {name: getattr(decoded, name) for name in COUNTS}
        rows.append({"triples": [], "line": 0, "rejected": "", **origin, **counts})
    return pa.RecordBatch.from_pylist(rows, schema=EVENT_ROWS)


# Splits of a file


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
