"""Appends the values of any DataFrame to the log of a lake, as a batch or as a stream: from Kafka, files or elsewhere.

Tasks decode the values and stage the events in scratch files of the lake, sorted by time. One more task merges and
appends them: appended one partition after the other, the events of all partitions but the first would be late. The
driver sees only counts and file names. A batch that is run again after a failure adds nothing, because its events have
the IRIs of existing ones. Rejected events are in the dead-letter directory, one file for each batch.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from secrets import token_hex
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import BinaryType, StringType, TimestampType

from motet.codec.decode import Message, decode_messages
from motet.codec.events import Decoded
from motet.codec.formats import Format, format_of_content_type
from motet.lake import Lake, Store
from motet.lake.store import SCRATCH
from motet.model.batches import EVENTS, TIME
from motet.model.errors import DecodeError, UsageError

RECEIPT_COUNTS = pa.schema([pa.field(name, pa.int64()) for name in ("accepted", "repeated", "late")])
COLUMNS = {"value": BinaryType(), "content_type": StringType(), "timestamp": TimestampType(), "id": StringType()}
FILE_EVENTS = 131_072  # in a staged file
FILE_REJECTIONS = 1_024  # in a staged file; rejections may be large
ROW_GROUP_EVENTS = 16_384  # in a row group; a time range reads only some row groups
COMMIT_EVENTS = 524_288  # in a commit, which the appending task holds in memory

STAGED_FILES = pa.schema(
    [
        pa.field("partition", pa.int64()),
        pa.field("index", pa.int64()),
        pa.field("events", pa.string()),
        pa.field("letters", pa.string()),
        pa.field("rows", pa.int64()),
        pa.field("rejected", pa.int64()),
    ]
)

OnBatch = Callable[["BatchIngestResult"], object]


@dataclass(frozen=True)
class BatchIngestResult:
    """The counts of an ingested batch."""

    accepted: int = 0
    repeated: int = 0
    late: int = 0
    rejected: int = 0


@dataclass(frozen=True)
class IngestTarget:
    """The lake and the dead-letter directory of a batch, and the name of its dead-letter file."""

    lake: str
    dead_letter: str
    name: str


def ingest(
    df: DataFrame,
    lake: str | Path,
    *,
    checkpoint: str | Path,
    content_type: str = Format.N_QUADS.value,
    trigger: Mapping[str, Any] | None = None,
    dead_letter: str | Path | None = None,
    on_batch: OnBatch | None = None,
) -> StreamingQuery:
    """Start a query that appends the events of a streaming DataFrame to a lake, each exactly once.

    ``value`` holds whole events as text or bytes. Optional columns: ``content_type`` is the format of a value,
    ``timestamp`` the time of events without one, and ``id`` the IRI of an event that its value does not name.
    ``trigger`` is Spark's, such as ``{"availableNow": True}``; ``on_batch`` is called with the counts of every batch.
    """
    if not df.isStreaming:
        raise UsageError("this DataFrame is not a stream", advice="Use ingest_batch(df, lake).")
    rows = _select_columns(df, content_type)
    root = _open_lake(lake)
    query = blake2b(str(checkpoint).encode(), digest_size=6).hexdigest()

    def ingest_micro_batch(batch: DataFrame, batch_id: int) -> None:
        target = IngestTarget(root, _dead_letter(root, dead_letter), f"{query}-{batch_id:012}")
        result = _ingest(batch, target)
        if on_batch is not None:
            on_batch(result)

    writer = rows.writeStream.foreachBatch(ingest_micro_batch).option("checkpointLocation", str(checkpoint))
    return (writer.trigger(**trigger) if trigger else writer).start()


def ingest_batch(
    df: DataFrame, lake: str | Path, *, content_type: str = Format.N_QUADS.value, dead_letter: str | Path | None = None
) -> BatchIngestResult:
    """Append the events of a batch DataFrame to a lake; events that the log already holds are repeated."""
    if df.isStreaming:
        raise UsageError("this DataFrame is a stream", advice="Use ingest(df, lake, checkpoint=...).")
    rows = _select_columns(df, content_type)
    root = _open_lake(lake)
    return _ingest(rows, IngestTarget(root, _dead_letter(root, dead_letter), f"batch-{uuid4().hex}"))


def _select_columns(df: DataFrame, content_type: str) -> DataFrame:
    """The columns of COLUMNS, with types and defaults."""
    format_of_content_type(content_type)
    types = {field.name: field.dataType for field in df.schema.fields}
    if not isinstance(types.get("value"), BinaryType | StringType):
        raise UsageError(
            f"the DataFrame has no column value of text or bytes: its columns are {', '.join(types) or 'none'}",
            advice="Select the column that holds the events as value.",
        )
    columns = {name: f.col(name) if name in types else f.lit(None) for name in COLUMNS}
    columns["content_type"] = f.coalesce(columns["content_type"], f.lit(content_type))
    return df.select([column.cast(COLUMNS[name]).alias(name) for name, column in columns.items()])


def _open_lake(lake: str | Path) -> str:
    """Open or create a lake; returns its absolute path."""
    return str(Lake.open(lake).store.root.absolute())


def _dead_letter(lake: str, directory: str | Path | None) -> str:
    return str(Path(directory).absolute() if directory is not None else Path(lake) / "dead-letter")


def _ingest(batch: DataFrame, target: IngestTarget) -> BatchIngestResult:
    """Run two jobs: decode and stage, then append."""
    rows = batch.mapInArrow(_stage_events(target.lake), from_arrow_schema(STAGED_FILES)).collect()  # names and counts
    staged = sorted((StagedFiles(**row.asDict()) for row in rows), key=lambda files: (files.partition, files.index))
    try:
        return _append(batch.sparkSession, staged, target) if staged else BatchIngestResult()
    finally:
        delete_staged(target.lake, staged)


def _stage_events(lake: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        stager = Stager(lake, partition)
        row = 0
        for batch in batches:
            yield from stager.add(decode_messages(_messages(batch, partition, row)))
            row += batch.num_rows
        yield from stager.finish()

    return stage


def _messages(batch: pa.RecordBatch, partition: int, first: int) -> Iterator[Message]:
    now = time.time_ns() // 1000
    timestamps = batch.column("timestamp").cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()
    columns = [batch.column(name).to_pylist() for name in ("value", "content_type", "id")]
    for row, (value, content_type, id_, timestamp) in enumerate(zip(*columns, timestamps, strict=True), first):
        if value is not None:  # null is Kafka's tombstone of a key
            name = id_ or f"partition {partition}, row {row}"
            yield Message(value, content_type, name, now if timestamp is None else timestamp, input_id=id_)


def _append(spark: SparkSession, staged: list[StagedFiles], target: IngestTarget) -> BatchIngestResult:
    def append(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            lake = Lake.open(target.lake, create=False)
            write_dead_letters(target.lake, staged, Path(target.dead_letter, f"{target.name}.jsonl"))
            for events in read_by_end(target.lake, staged):
                receipt = lake.append(events, partial=True)
                counts = [pa.array([getattr(receipt, name)]) for name in RECEIPT_COUNTS.names]
                yield pa.RecordBatch.from_arrays(counts, schema=RECEIPT_COUNTS)

    counts = spark.range(0, 1, 1, 1).mapInArrow(append, from_arrow_schema(RECEIPT_COUNTS)).collect()
    totals = {name: sum(row[name] for row in counts) for name in RECEIPT_COUNTS.names}
    return BatchIngestResult(**totals, rejected=sum(files.rejected for files in staged))


@dataclass(frozen=True)
class StagedFiles:
    """The files that a task has staged: of events, of rejections, or both."""

    partition: int
    index: int  # among those of its partition
    events: str | None
    letters: str | None
    rows: int
    rejected: int


class Stager:
    """Writes the events that one task decodes; the files of an attempt that is retried stay unused."""

    def __init__(self, lake: str, partition: int) -> None:
        self._store = Store(Path(lake), durable=False)
        self._partition = partition
        self._index = 0
        self._events: list[pa.RecordBatch] = []
        self._rejected: list[DecodeError] = []

    def add(self, decoded: Decoded) -> Iterator[pa.RecordBatch]:
        """Add events; yields rows of STAGED_FILES for the files that are full."""
        self._events.append(decoded.events)
        self._rejected += decoded.rejected
        if sum(batch.num_rows for batch in self._events) >= FILE_EVENTS or len(self._rejected) >= FILE_REJECTIONS:
            yield from self.finish()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Write the events that are not in a file yet; yields their row of STAGED_FILES."""
        events = pa.Table.from_batches(self._events, EVENTS)
        if events.num_rows or self._rejected:
            paths = self._write_events(events), self._write_letters()
            row = StagedFiles(self._partition, self._index, *paths, events.num_rows, len(self._rejected))
            yield pa.RecordBatch.from_pylist([vars(row)], schema=STAGED_FILES)
            self._index += 1
        self._events, self._rejected = [], []

    def _write_events(self, events: pa.Table) -> str | None:
        if not events.num_rows:
            return None
        name = f"{SCRATCH}/{token_hex(8)}.parquet"
        with self._store.create(name) as sink:
            pq.write_table(_sort_by_end(events), sink, compression="lz4", row_group_size=ROW_GROUP_EVENTS)
        return name

    def _write_letters(self) -> str | None:
        if not self._rejected:
            return None
        name = f"{SCRATCH}/{token_hex(8)}.jsonl"
        with self._store.create(name) as sink:
            for error in self._rejected:
                sink.write(json.dumps(error.to_json(), ensure_ascii=False).encode() + b"\n")
        return name


def read_by_end(lake: str, staged: Sequence[StagedFiles]) -> Iterator[pa.Table]:
    """All staged events sorted by their end, in tables of bounded size."""
    paths = [str(Path(lake, files.events)) for files in staged if files.events is not None]
    if sum(files.rows for files in staged) <= COMMIT_EVENTS:
        if paths:
            yield _sort_by_end(pa.concat_tables([pq.read_table(path) for path in paths]))
        return
    for low, high in _end_ranges(paths):
        in_range = [("end", ">=", low), ("end", "<", high)]
        yield _sort_by_end(pa.concat_tables([pq.read_table(path, filters=in_range) for path in paths]))


def write_dead_letters(lake: str, staged: Sequence[StagedFiles], path: Path) -> None:
    """Write the rejections of a batch to one file; a batch that is run again replaces the file."""
    letters = [Path(lake, files.letters) for files in staged if files.letters is not None]
    if not letters:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{token_hex(4)}")
    with unfinished.open("wb") as file:
        for letter in letters:
            with letter.open("rb") as source:
                shutil.copyfileobj(source, file)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def delete_staged(lake: str, staged: Sequence[StagedFiles]) -> None:
    """Delete staged files; a vacuum deletes those of a killed process, as all scratch files."""
    store = Store(Path(lake), durable=False)
    for name in (name for files in staged for name in (files.events, files.letters) if name is not None):
        store.delete(name)


def _sort_by_end(events: pa.Table) -> pa.Table:
    return events.take(pc.sort_indices(events, [("end", "ascending")]))


def _end_ranges(paths: Sequence[str]) -> list[tuple[pa.Scalar, pa.Scalar]]:
    """Time ranges with about COMMIT_EVENTS events each; more if that many end at one instant."""
    columns = [pq.read_table(path, columns=["end"])["end"].cast(pa.int64()).to_numpy() for path in paths]
    ends = np.sort(np.concatenate(columns))
    bounds = [*np.unique(ends[::COMMIT_EVENTS]).tolist(), int(ends[-1]) + 1]
    scalars = [pa.scalar(bound, pa.int64()).cast(TIME) for bound in bounds]
    return list(pairwise(scalars))
