"""Any DataFrame with a column ``value`` into the log, live or at once: Kafka's, a directory's, or one of your own.

Tasks decode the values and stage the events; one more task appends what is staged, in the order of time, and commits
it. The driver sees counts and file names only. A batch that is run again after a crash adds nothing, because its
events are known by their IRIs. What cannot be decoded is in the dead-letter directory, one file for each batch.
PySpark is imported here: import this module where Spark is used.
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

COUNTS = pa.schema([pa.field(name, pa.int64()) for name in ("accepted", "duplicates", "late")])
COLUMNS = {"value": BinaryType(), "content_type": StringType(), "timestamp": TimestampType(), "id": StringType()}

OnBatch = Callable[["IngestResult"], object]


@dataclass(frozen=True)
class IngestResult:
    """What became of a batch."""

    accepted: int = 0
    duplicates: int = 0
    late: int = 0
    rejected: int = 0


@dataclass(frozen=True)
class IngestTarget:
    """Where a batch goes, and under which name what it rejects is kept."""

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
    """Start a query that takes the rows of a streaming DataFrame into a lake, each exactly once.

    ``value`` holds whole events as text or bytes. If there are columns of these names, ``content_type`` tells its
    format, ``timestamp`` is the time of events that have none, and ``id`` the IRI of an event its value does not name.
    ``trigger`` is Spark's, such as ``{"availableNow": True}``; ``told`` is called with the counts of every batch.
    """
    if not df.isStreaming:
        raise UsageError("this DataFrame is not a stream", advice="Use ingest_batch(df, lake).")
    rows = _checked(df, content_type)
    place = _made(lake)
    query = blake2b(str(checkpoint).encode(), digest_size=6).hexdigest()

    def take(batch: DataFrame, number: int) -> None:
        destination = IngestTarget(place, _dead_letter(place, dead_letter), f"{query}-{number:012}")
        ingested = _take(batch, destination)
        if on_batch is not None:
            on_batch(ingested)

    writer = rows.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
    return (writer.trigger(**trigger) if trigger else writer).start()


def ingest_batch(
    df: DataFrame,
    lake: str | Path,
    *,
    content_type: str = Format.N_QUADS.value,
    dead_letter: str | Path | None = None,
) -> IngestResult:
    """Take the rows of a DataFrame that is no stream into a lake; what the log holds already is left out."""
    if df.isStreaming:
        raise UsageError("this DataFrame is a stream", advice="Use ingest(df, lake, checkpoint=...).")
    rows = _checked(df, content_type)
    place = _made(lake)
    return _take(rows, IngestTarget(place, _dead_letter(place, dead_letter), f"batch-{uuid4().hex}"))


def _checked(df: DataFrame, content_type: str) -> DataFrame:
    """The columns that are read, with types and defaults."""
    format_of_content_type(content_type)
    found = {field.name: field.dataType for field in df.schema.fields}
    if not isinstance(found.get("value"), BinaryType | StringType):
        raise UsageError(
            f"there is no column value of text or bytes among {', '.join(found) or 'no columns'}",
            advice="Select the one that holds the events as value.",
        )
    columns = {name: f.col(name) if name in found else f.lit(None) for name in COLUMNS}
    columns["content_type"] = f.coalesce(columns["content_type"], f.lit(content_type))
    return df.select([column.cast(COLUMNS[name]).alias(name) for name, column in columns.items()])


def _made(lake: str | Path) -> str:
    return str(Lake.open(lake).store.root.absolute())


def _dead_letter(lake: str, wanted: str | Path | None) -> str:
    return str(Path(wanted).absolute() if wanted is not None else Path(lake) / "dead-letter")


def _take(batch: DataFrame, destination: IngestTarget) -> IngestResult:
    """Two jobs: decode and stage, then append."""
    rows = batch.mapInArrow(_staging(destination.lake), from_arrow_schema(STAGED)).collect()  # of names and counts
    staged = sorted((StagedFiles(**row.asDict()) for row in rows), key=lambda one: (one.part, one.number))
    try:
        return _append(batch.sparkSession, staged, destination) if staged else IngestResult()
    finally:
        delete_staged(destination.lake, staged)


def _staging(lake: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        part = 0 if context is None else context.partitionId()
        stager = Stager(lake, part)
        row = 0
        for batch in batches:
            yield from stager.add(decode_messages(_messages(batch, part, row)))
            row += batch.num_rows
        yield from stager.finish()

    return stage


def _messages(batch: pa.RecordBatch, part: int, first: int) -> Iterator[Message]:
    now = time.time_ns() // 1000
    stamps = batch.column("timestamp").cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()
    columns = [batch.column(name).to_pylist() for name in ("value", "content_type", "id")]
    for row, (value, content_type, id_, stamp) in enumerate(zip(*columns, stamps, strict=True), first):
        if value is not None:  # Kafka's way to say that a key is gone
            name = id_ or f"partition {part}, row {row}"
            yield Message(value, content_type, name, now if stamp is None else stamp, event_id=id_)


def _append(spark: SparkSession, staged: list[StagedFiles], destination: IngestTarget) -> IngestResult:
    def append(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            lake = Lake.open(destination.lake, create=False)
            write_dead_letters(destination.lake, staged, Path(destination.dead_letter, f"{destination.name}.jsonl"))
            for events in read_by_end(destination.lake, staged):
                appended = lake.append(events, now=time.time_ns() // 1000)
                counts = [pa.array([getattr(appended, name)]) for name in COUNTS.names]
                yield pa.RecordBatch.from_arrays(counts, schema=COUNTS)

    counts = spark.range(0, 1, 1, 1).mapInArrow(append, from_arrow_schema(COUNTS)).collect()
    totals = {name: sum(row[name] for row in counts) for name in COUNTS.names}
    return IngestResult(**totals, rejected=sum(one.rejected for one in staged))


FILE_EVENTS = 131_072  # of a staged file
FILE_REJECTIONS = 1_024  # of rejections, which may be large
ROW_GROUP_EVENTS = 16_384  # of a row group, of which a stretch of time needs only some
COMMIT_EVENTS = 524_288  # of a commit: what the appending task holds in memory

STAGED = pa.schema(
    [
        pa.field("part", pa.int64()),
        pa.field("number", pa.int64()),
        pa.field("events", pa.string()),
        pa.field("letters", pa.string()),
        pa.field("rows", pa.int64()),
        pa.field("rejected", pa.int64()),
    ]
)


@dataclass(frozen=True)
class StagedFiles:
    """What a task has left behind: a file of events, a file of rejections, or one of them."""

    part: int
    number: int  # among those of its part
    events: str | None
    letters: str | None
    rows: int
    rejected: int


class Stager:
    """Writes what one task decodes; a task that is tried again writes other files, and the first ones are forgotten."""

    def __init__(self, lake: str, part: int) -> None:
        self._store = Store(Path(lake), durable=False)
        self._part = part
        self._number = 0
        self._events: list[pa.RecordBatch] = []
        self._rejected: list[DecodeError] = []

    def add(self, decoded: Decoded) -> Iterator[pa.RecordBatch]:
        """Rows of STAGED for the files that are full now."""
        self._events.append(decoded.events)
        self._rejected += decoded.rejected
        if sum(batch.num_rows for batch in self._events) >= FILE_EVENTS or len(self._rejected) >= FILE_REJECTIONS:
            yield from self.finish()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """A row of STAGED for what is not in a file yet."""
        events = pa.Table.from_batches(self._events, EVENTS)
        if events.num_rows or self._rejected:
            names = self._write_events(events), self._write_letters()
            row = StagedFiles(self._part, self._number, *names, events.num_rows, len(self._rejected))
            yield pa.RecordBatch.from_pylist([vars(row)], schema=STAGED)
            self._number += 1
        self._events, self._rejected = [], []

    def _write_events(self, events: pa.Table) -> str | None:
        if not events.num_rows:
            return None
        name = f"{SCRATCH}/{token_hex(8)}.parquet"
        with self._store.create(name) as sink:
            pq.write_table(_sorted_by_end(events), sink, compression="lz4", row_group_size=ROW_GROUP_EVENTS)
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
    """All staged events by their ends, in tables of bounded size."""
    paths = [str(Path(lake, one.events)) for one in staged if one.events is not None]
    if sum(one.rows for one in staged) <= COMMIT_EVENTS:
        if paths:
            yield _sorted_by_end(pa.concat_tables([pq.read_table(path) for path in paths]))
        return
    for low, high in _end_ranges(paths):
        inside = [("end", ">=", low), ("end", "<", high)]
        yield _sorted_by_end(pa.concat_tables([pq.read_table(path, filters=inside) for path in paths]))


def write_dead_letters(lake: str, staged: Sequence[StagedFiles], path: Path) -> None:
    """Put the rejections of a batch into one file; when the batch is run again it is written again, not doubled."""
    letters = [Path(lake, one.letters) for one in staged if one.letters is not None]
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
    """Remove staged files; what a killed process leaves is removed by a vacuum, like all scratch files."""
    store = Store(Path(lake), durable=False)
    for name in (name for one in staged for name in (one.events, one.letters) if name is not None):
        store.delete(name)


def _sorted_by_end(events: pa.Table) -> pa.Table:
    return events.take(pc.sort_indices(events, [("end", "ascending")]))


def _end_ranges(paths: Sequence[str]) -> list[tuple[pa.Scalar, pa.Scalar]]:
    """Stretches of time with about as many events as one commit takes; more when that many end at one instant."""
    columns = [pq.read_table(path, columns=["end"])["end"].cast(pa.int64()).to_numpy() for path in paths]
    ends = np.sort(np.concatenate(columns))
    bounds = [*np.unique(ends[::COMMIT_EVENTS]).tolist(), int(ends[-1]) + 1]
    scalars = [pa.scalar(bound, pa.int64()).cast(TIME) for bound in bounds]
    return list(pairwise(scalars))
