"""Event files as rows of a DataFrame: the driver lists splits of the files, tasks decode them.

A row is an event or a rejection, which has its dead letter as JSON in ``rejected``. Files of dead letters written by
tasks would be duplicated when a task is retried; rows are counted once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from motet.codec.events import COUNTS, Decoded
from motet.codec.options import Limits, Rest
from motet.codec.row_mapping import RowMapping
from motet.codec.splits import FileSplit, decode_split, split_file
from motet.model.batches import EVENTS
from motet.model.content import content_digests
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
