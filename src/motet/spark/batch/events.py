"""How files of events become rows in Spark: tasks decode parts of the files; the driver only lists the parts.

A row is an event or a rejection. A rejection is a row too, with the dead letter as JSON in ``rejected``: files written
by tasks on the side would stand there twice when a task is tried again, rows are counted once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from motet.codec.events import Decoded
from motet.codec.options import Limits
from motet.codec.splits import FileSplit, decode_split, split_file
from motet.model.batches import EVENTS
from motet.spark.session import parallelism

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MIN_SPLIT_BYTES, MAX_SPLIT_BYTES = 2**20, 2**26  # bytes
SPLITS_PER_CORE = 4

ORIGIN = [
    pa.field("source", pa.int32(), nullable=False),  # the file's place in the given order
    pa.field("part", pa.int32(), nullable=False),  # its part's place among all parts of all files
    pa.field("place", pa.int64(), nullable=False),  # its own place in the part: with part, the order of a single reader
    pa.field("rejected", pa.string()),  # the dead letter of what cannot be taken; it has no triples
]
EVENT_ROWS = pa.schema([field.with_nullable(True) if field.name == "id" else field for field in EVENTS] + ORIGIN)

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class FileSplits:
    """The parts of a list of files, and how to decode them."""

    splits: tuple[tuple[int, FileSplit], ...]  # with the place of the file
    limits: Limits
    folder: str  # where relative paths begin, wherever a task runs

    def decode(self, number: int) -> Batches:
        """The rows of one part, in the order of the file."""
        source, part = self.splits[number]
        place = 0
        for decoded in decode_split(part, folder=self.folder, limits=self.limits):
            if decoded.events.num_rows:
                yield _event_rows(decoded.events, source, number, place)
                place += decoded.events.num_rows
            if decoded.rejected:
                yield _rejected_rows(decoded, source, number, place)
                place += len(decoded.rejected)


def split_files(
    paths: Sequence[str | Path], parallelism: int, *, target_bytes: int | None = None, limits: Limits | None = None
) -> FileSplits:
    """Cut files so that every core has several parts, none so small that its task costs more to start than to run."""
    limits = limits or Limits()
    total = sum(Path(path).stat().st_size for path in paths)
    size = target_bytes or min(max(total // (SPLITS_PER_CORE * parallelism), MIN_SPLIT_BYTES), MAX_SPLIT_BYTES)
    numbered = enumerate(split_file(str(path), target_bytes=size, limits=limits) for path in paths)
    return FileSplits(tuple((source, part) for source, parts in numbered for part in parts), limits, str(Path.cwd()))


def read_splits(
    spark: SparkSession, parts: FileSplits, schema: pa.Schema, then: Callable[[Batches], Batches] = lambda rows: rows
) -> DataFrame:
    """The rows of the parts, one task for each part; ``then`` makes something of them in the same task."""
    from pyspark.sql.pandas.types import from_arrow_schema

    def read(batches: Batches) -> Batches:
        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        return then(rows for number in numbers for rows in parts.decode(number))

    numbers = spark.range(0, len(parts.splits), 1, max(len(parts.splits), 1))
    return numbers.mapInArrow(read, from_arrow_schema(schema))


def read_events(
    spark: SparkSession,
    paths: Sequence[str | Path],
    *,
    target_bytes: int | None = None,
    limits: Limits | None = None,
) -> DataFrame:
    """The events of the files, in rows of EVENT_ROWS; :func:`decide` tells which of them count."""
    return read_splits(
        spark, split_files(paths, parallelism(spark), target_bytes=target_bytes, limits=limits), EVENT_ROWS
    )


def add_outcome(rows: DataFrame) -> DataFrame:
    """Add ``fate``, what a single reader of all files would do with each row: accept it, or say why not.

    accepted, rejected; ``duplicate``: an event of that IRI is accepted already; ``returned``: an event that an earlier
    part of the same file has begun or rejected, so that these are later quads of it.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    identity = f.coalesce("id", f.concat_ws(":", "part", "place"))  # no IRI begins with a digit
    before = Window.partitionBy(identity).orderBy("part", "place")
    returned = (f.lag("source").over(before) == f.col("source")) & (f.lag("part").over(before) != f.col("part"))
    fate = f.when(f.col("rejected").isNotNull(), "rejected").when(returned, "returned").otherwise("accepted")
    accepted = f.count_if(f.col("fate") == "accepted").over(before)
    repeated = (f.col("fate") == "accepted") & (accepted > 1)
    return rows.withColumn("fate", fate).withColumn("fate", f.when(repeated, "duplicate").otherwise(f.col("fate")))


def _event_rows(events: pa.RecordBatch, source: int, number: int, place: int) -> pa.RecordBatch:
    count = events.num_rows
    origin = [
        pa.array(np.full(count, source, np.int32)),
        pa.array(np.full(count, number, np.int32)),
        pa.array(np.arange(place, place + count)),
        pa.nulls(count, pa.string()),
    ]
    return pa.RecordBatch.from_arrays([*events.columns, *origin], schema=EVENT_ROWS)


def _rejected_rows(decoded: Decoded, source: int, number: int, place: int) -> pa.RecordBatch:
    rows: list[dict[str, object]] = [
        {
            "id": error.event,
            "triples": [],
            "line": error.line or 0,
            "source": source,
            "part": number,
            "place": place + count,
            "rejected": json.dumps(error.to_json(), ensure_ascii=False),
        }
        for count, error in enumerate(decoded.rejected)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=EVENT_ROWS)
