"""Appends the values of any DataFrame to the log of a lake, as a batch or as a stream: from Kafka, files or elsewhere.

A batch is one load (language page, section 14). Tasks decode the values and stage the events in scratch files of the
lake, sorted by their ends; one more task merges and appends them (``connectors.sorted_load``). The driver sees only
counts and file names. A batch that is run again after a failure adds nothing, because its events have the IRIs of
existing ones. Rejected events are in the dead-letter directory, one file for each batch.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import BinaryType, StringType, TimestampType

from motet.codec.decode import BatchInput, Message, decode_messages
from motet.codec.events import Decoded, OnRejected
from motet.codec.formats import Format, format_of_content_type
from motet.codec.options import DecodeOptions, DecodeSettings, decode_settings
from motet.codec.row_mapping import MappingInput, RowMapping
from motet.codec.rows import ArrowRows, decode_rows, mapped_columns
from motet.connectors.ingestion import IngestResult, append_sorted, left_out
from motet.connectors.sorted_load import EventBuffer, StagedEvents, write_staged
from motet.lake import Clock, Lake, Store, system_clock
from motet.lake.store import SCRATCH
from motet.model.errors import DecodeError, UsageError
from motet.spark.session import workers_with_motet

COUNTS = ("accepted", "repeated", "stamped", "late", "rejected", "left_out")
RESULTS = pa.schema([pa.field(name, pa.int64()) for name in COUNTS])
COLUMNS = {"value": BinaryType(), "content_type": StringType(), "timestamp": TimestampType(), "id": StringType()}
FILE_EVENTS = 131_072  # in a staged file
FILE_BYTES = 64 << 20
FILE_REJECTIONS = 1_024  # in a staged file; rejections may be large

STAGED_FILES = pa.schema(
    [
        pa.field("partition", pa.int64()),
        pa.field("index", pa.int64()),
        pa.field("events", pa.string()),
        pa.field("letters", pa.string()),
        pa.field("contents", pa.string()),
        pa.field("repeated", pa.int64()),
        pa.field("rejected", pa.int64()),
        pa.field("left_out", pa.int64()),
    ]
)

CONTENT_COUNTS = pa.schema([pa.field("content", pa.binary(32)), pa.field("count", pa.int64())])
NO_COUNTS: Counter[bytes] = Counter()

OnBatch = Callable[["BatchIngestResult"], object]


@dataclass(frozen=True)
class BatchIngestResult:
    """The counts of an ingested batch."""

    accepted: int = 0
    repeated: int = 0
    stamped: int = 0
    late: int = 0
    rejected: int = 0
    left_out: int = 0


@dataclass(frozen=True)
class Reading:
    """How rows become events: each has a document in its ``value``, or its columns are those of the mapping."""

    mapping: RowMapping | None = None
    has_values: bool = True


VALUES = Reading()


@dataclass(frozen=True)
class IngestTarget:
    """The lake of a batch, its clock, the dead-letter file, and the id of the batch if it is one of a stream."""

    lake: str
    dead_letter: str
    clock: Clock
    batch_id: str | None = None
    reading: Reading = VALUES


def ingest(  # noqa: PLR0913  (independent options)
    df: DataFrame,
    lake: str | Path,
    *,
    checkpoint: str | Path,
    content_type: str = Format.N_QUADS.value,
    mapping: MappingInput | None = None,
    trigger: Mapping[str, Any] | None = None,
    dead_letter: str | Path | None = None,
    on_batch: OnBatch | None = None,
    clock: Clock = system_clock,
) -> StreamingQuery:
    """Start a query that appends the events of a streaming DataFrame to a lake, each exactly once.

    ``value`` holds whole events as text or bytes. Optional columns: ``content_type`` is the format of a value,
    ``timestamp`` the time of events without one, and ``id`` the id from which events without an IRI get one; rows
    without it share the id of their batch, which is made of ``checkpoint`` and its number. ``trigger`` is Spark's, such
    as ``{"availableNow": True}``; ``on_batch`` is called with the counts of every batch; ``clock`` is that of the lake.

    With a ``mapping`` (a dict, YAML text or a path; docs/sources.md) the rows of the DataFrame are the events, by its
    columns. With a ``content_type`` of rows, such as ``application/json``, it is ``value`` that holds rows.
    """
    if not df.isStreaming:
        raise UsageError("this DataFrame is not a stream", advice="Use ingest_batch(df, lake).")
    rows, reading = _select(df, content_type, mapping)
    root = _open_lake(lake, clock)
    query = blake2b(str(checkpoint).encode(), digest_size=6).hexdigest()

    def ingest_micro_batch(batch: DataFrame, batch_number: int) -> None:
        letters = _dead_letter(root, dead_letter, f"{query}-{batch_number:012}")
        target = IngestTarget(root, letters, clock, f"urn:spark:{query}:{batch_number}", reading)
        result = _ingest(batch, target)
        if on_batch is not None:
            on_batch(result)

    writer = rows.writeStream.foreachBatch(ingest_micro_batch).option("checkpointLocation", str(checkpoint))
    return (writer.trigger(**trigger) if trigger else writer).start()


def ingest_batch(
    df: DataFrame,
    lake: str | Path,
    *,
    content_type: str = Format.N_QUADS.value,
    mapping: MappingInput | None = None,
    dead_letter: str | Path | None = None,
    clock: Clock = system_clock,
) -> BatchIngestResult:
    """Append the events of a batch DataFrame to a lake; see `ingest`."""
    if df.isStreaming:
        raise UsageError("this DataFrame is a stream", advice="Use ingest(df, lake, checkpoint=...).")
    rows, reading = _select(df, content_type, mapping)
    root = _open_lake(lake, clock)
    letters = _dead_letter(root, dead_letter, f"batch-{uuid4().hex}")
    return _ingest(rows, IngestTarget(root, letters, clock, reading=reading))


def _select(df: DataFrame, content_type: str, mapping: MappingInput | None) -> tuple[DataFrame, Reading]:
    """The columns that tasks need, and how they are read."""
    row_mapping = None if mapping is None else RowMapping.of(mapping)
    if row_mapping is None or format_of_content_type(content_type).is_rows:
        return _select_columns(df, content_type), Reading(row_mapping)
    names = mapped_columns(row_mapping, to_arrow_schema(df.schema, timezone="UTC"), "the DataFrame")
    return df.select([f"`{name.replace('`', '``')}`" for name in names]), Reading(row_mapping, has_values=False)


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


def _open_lake(lake: str | Path, clock: Clock) -> str:
    """Open or create a lake; returns its absolute path."""
    return str(Lake.open(lake, clock=clock).store.root.absolute())


def _dead_letter(lake: str, directory: str | Path | None, name: str) -> str:
    folder = Path(directory).absolute() if directory is not None else Path(lake) / "dead-letter"
    return str(folder / f"{name}.jsonl")


def _ingest(batch: DataFrame, target: IngestTarget) -> BatchIngestResult:
    """Run two jobs: decode and stage, then append."""
    settings = decode_settings(Lake.open(target.lake, create=False).snapshot().settings)
    staged = _stage(batch, target, settings, {})
    try:
        if counts := counts_before(target.lake, staged):
            delete_staged(target.lake, staged)
            staged = _stage(batch, target, settings, counts)
        return _append(batch.sparkSession, staged, target) if staged else BatchIngestResult()
    finally:
        delete_staged(target.lake, staged)


def _stage(
    batch: DataFrame, target: IngestTarget, settings: DecodeSettings, counts: Mapping[int, Counter[bytes]]
) -> list[StagedFiles]:
    """Decode the values of a batch and stage their events.

    Rows without an id are one input together, in which equal contents are numbered: ``counts`` has the numbers of
    contents in earlier partitions, by partition.
    """

    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        stager = Stager(target.lake, partition)
        batch_input = BatchInput(target.batch_id, Counter(counts.get(partition, NO_COUNTS)))
        options, row = DecodeOptions(f"partition {partition}", **settings), 0
        for rows in batches:
            yield from stager.add(_decode(rows, target.reading, options, batch_input, row))
            row += rows.num_rows
        yield from stager.finish(NO_COUNTS if counts else batch_input.counts)

    with workers_with_motet(batch.sparkSession):
        found = batch.mapInArrow(stage, from_arrow_schema(STAGED_FILES)).collect()  # names and counts
    return sorted((StagedFiles(**row.asDict()) for row in found), key=lambda files: (files.partition, files.index))


def _decode(rows: pa.RecordBatch, reading: Reading, options: DecodeOptions, batch: BatchInput, first: int) -> Decoded:
    """The events of rows of a partition, from the row ``first`` on."""
    if reading.mapping is not None and not reading.has_values:
        lines = np.arange(first + 1, first + 1 + rows.num_rows)
        arrow_rows = ArrowRows(rows, lines, missing=reading.mapping.missing)
        return decode_rows(arrow_rows, reading.mapping, options, batch)
    messages = _messages(rows, options.name, first)
    settings = DecodeSettings(time_properties=options.time_properties, xml_mappings=options.xml_mappings)
    return decode_messages(messages, batch=batch, mapping=reading.mapping, **settings)


def counts_before(lake: str, staged: Sequence[StagedFiles]) -> dict[int, Counter[bytes]]:
    """How many events of each content are in earlier partitions, by partition; only contents of several partitions."""
    tables = []
    for files in staged:
        if files.contents is not None:
            with pa.OSFile(str(Path(lake, files.contents))) as source:
                table = pa.ipc.open_file(source).read_all()
            tables.append(table.append_column("partition", pa.repeat(pa.scalar(files.partition), table.num_rows)))
    if not tables:
        return {}
    contents = pa.concat_tables(tables)
    partitions = contents.group_by("content").aggregate([("count", "count")])
    shared = partitions.filter(pc.greater(partitions["count_count"], 1))["content"]
    before: dict[int, Counter[bytes]] = defaultdict(Counter)
    totals: Counter[bytes] = Counter()
    for row in contents.filter(pc.is_in(contents["content"], shared)).sort_by("partition").to_pylist():
        before[row["partition"]][row["content"]] = totals[row["content"]]
        totals[row["content"]] += row["count"]
    return dict(before)


def _messages(batch: pa.RecordBatch, partition: str, first: int) -> Iterator[Message]:
    timestamps = batch.column("timestamp").cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()
    columns = [batch.column(name).to_pylist() for name in ("value", "content_type", "id")]
    for row, (value, content_type, id_, timestamp) in enumerate(zip(*columns, timestamps, strict=True), first):
        if value is not None:  # null is Kafka's tombstone of a key
            name = id_ or f"{partition}, row {row}"
            yield Message(value, content_type, name, timestamp, input_id=id_)


def _append(spark: SparkSession, staged: list[StagedFiles], target: IngestTarget) -> BatchIngestResult:
    def append(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            for result in append_staged(staged, target):
                yield pa.RecordBatch.from_pylist([{name: getattr(result, name) for name in COUNTS}], RESULTS)

    with workers_with_motet(spark):
        counts = spark.range(0, 1, 1, 1).mapInArrow(append, from_arrow_schema(RESULTS)).collect()
    totals = {name: sum(row[name] for row in counts) for name in COUNTS}
    for name in ("repeated", "rejected", "left_out"):
        totals[name] += sum(getattr(files, name) for files in staged)
    return BatchIngestResult(**totals)


def append_staged(staged: Sequence[StagedFiles], target: IngestTarget) -> Iterator[IngestResult]:
    """Append the staged events of a batch to the lake, and write the dead letters of all its rejected events."""
    lake = Lake.open(target.lake, create=False, clock=target.clock)
    events = StagedEvents(lake.store, [files.events for files in staged if files.events is not None])
    letters = [Path(target.lake, files.letters) for files in staged if files.letters is not None]
    try:
        with _new_dead_letter_file(Path(target.dead_letter), letters) as write:
            yield from append_sorted(lake, events, write)
    finally:
        events.close()


@dataclass(frozen=True)
class StagedFiles:
    """The files that a task has staged: of events, of rejections and of counts, each if there are any."""

    partition: int
    index: int  # among those of its partition
    events: str | None
    letters: str | None
    contents: str | None  # of the last file of a partition: how often each content of events without an IRI occurs
    repeated: int  # in one row
    rejected: int
    left_out: int


class Stager:
    """Writes the events that one task decodes; the files of an attempt that is retried stay unused."""

    def __init__(self, lake: str, partition: int) -> None:
        self._store = Store(Path(lake), durable=False)
        self._partition = partition
        self._index = 0
        self._events = EventBuffer(FILE_EVENTS, FILE_BYTES)
        self._rejected: list[DecodeError] = []
        self._repeated = self._left_out = 0

    def add(self, decoded: Decoded) -> Iterator[pa.RecordBatch]:
        """Add events; yields rows of STAGED_FILES for the files that are full."""
        self._events.add(decoded.events)
        self._rejected += decoded.rejected
        self._repeated += decoded.repeated
        self._left_out += left_out(decoded)
        if self._events.is_full or len(self._rejected) >= FILE_REJECTIONS:
            yield from self.finish()

    def finish(self, contents: Counter[bytes] = NO_COUNTS) -> Iterator[pa.RecordBatch]:
        """Write the events that are not in a file yet, and the counts of contents; yields a row of STAGED_FILES."""
        events = self._events.take()
        counts = self._repeated, len(self._rejected), self._left_out
        if events.num_rows or any(counts) or contents:
            names = self._write_events(events), self._write_letters(), self._write_contents(contents)
            row = StagedFiles(self._partition, self._index, *names, *counts)
            yield pa.RecordBatch.from_pylist([vars(row)], schema=STAGED_FILES)
            self._index += 1
        self._rejected, self._repeated, self._left_out = [], 0, 0

    def _write_events(self, events: pa.Table) -> str | None:
        return write_staged(self._store, events) if events.num_rows else None

    def _write_letters(self) -> str | None:
        if not self._rejected:
            return None
        name = f"{SCRATCH}/{token_hex(8)}.jsonl"
        with self._store.create(name) as sink:
            sink.write(_letters(self._rejected))
        return name

    def _write_contents(self, contents: Counter[bytes]) -> str | None:
        if not contents:
            return None
        name = f"{SCRATCH}/{token_hex(8)}.arrow"
        columns = [pa.array(list(contents), pa.binary(32)), pa.array(list(contents.values()), pa.int64())]
        with self._store.create(name) as sink, pa.ipc.new_file(sink, CONTENT_COUNTS) as writer:
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=CONTENT_COUNTS))
        return name


@contextmanager
def _new_dead_letter_file(path: Path, letters: Sequence[Path]) -> Iterator[OnRejected]:
    """A dead-letter file that begins with the content of others; yields a function that adds rejections.

    It appears under its name when it is complete: a batch that is run again replaces it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{token_hex(4)}")
    try:
        with unfinished.open("wb") as file:
            for letter in letters:
                with letter.open("rb") as source:
                    shutil.copyfileobj(source, file)
            yield lambda rejected: file.write(_letters(rejected))
            file.flush()
            os.fsync(file.fileno())
        if unfinished.stat().st_size:
            unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def delete_staged(lake: str, staged: Sequence[StagedFiles]) -> None:
    """Delete staged files; a vacuum deletes those of a killed process, as all scratch files."""
    store = Store(Path(lake), durable=False)
    for files in staged:
        for name in (files.events, files.letters, files.contents):
            if name is not None:
                store.delete(name)


def _letters(rejected: Sequence[DecodeError]) -> bytes:
    return b"".join(json.dumps(error.to_json(), ensure_ascii=False).encode() + b"\n" for error in rejected)
