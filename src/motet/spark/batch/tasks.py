"""The tasks of a batch job: route events where they are decoded, and detect in buckets after the shuffle.

Routing turns rows of events into rows of ids, notifications and buckets; only routed events keep their triples, so that
little crosses the shuffle. If there are fewer splits than tasks could run, decoded events are first distributed over
more tasks. After the shuffle Spark sorts the rows of a bucket by their position in the files or the log, and a task
reads one bucket after the other, each with a worker of its own.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, groupby, pairwise
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.runtime.partitions import PartitionedRun, RoutedRecords
from motet.jobs.replay import ReplayControls
from motet.model.batches import EVENTS, NOTIFICATIONS, RECORDS, event_records, micros, payload_column, stamp
from motet.model.notification_lines import json_lines
from motet.spark.batch.events import ORIGIN, FileSplits, read_splits
from motet.spark.encoding import Batches, list_offsets, pack, triples_from_text, triples_to_text, unpack
from motet.spark.session import parallelism

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PACKED_EVENTS = 512
TASKS_PER_CORE = 2
BUCKETS_PER_CORE = 4  # more than run at once, to balance the load

ORDER = ("end", "start", "subscription", "events", "bindings")
SORTABLE_NOTIFICATION = pa.struct(
    [*(NOTIFICATIONS.field(name) for name in ORDER), pa.field("text", pa.string(), nullable=False)]
)
NOTIFICATION_LINES = pa.schema(list(SORTABLE_NOTIFICATION))
PACKED = pa.schema([pa.field("packed", pa.binary(), nullable=False)])
MATCH_COLUMNS = [
    pa.field("notifications", pa.list_(pa.field("item", SORTABLE_NOTIFICATION, nullable=False)), nullable=False),
    pa.field("buckets", pa.list_(pa.field("item", pa.int32(), nullable=False)), nullable=False),
    *(EVENTS.field(name) for name in ("start", "end")),
    pa.field("triples", pa.string()),  # as text; null without a bucket
    EVENTS.field("payload"),  # the same
]
MATCHED_ROWS = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("line", pa.int64(), nullable=False),
        *ORIGIN,
        *MATCH_COLUMNS,
        pa.field("worker", pa.string(), nullable=False),  # host, process and task that made the row
    ]
)
ROUTED_EVENTS = pa.schema(
    [
        pa.field("bucket", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        RECORDS.field("frontier"),
        *(EVENTS.field(name).with_nullable(True) for name in ("id", "start", "end")),  # of a bucket with NO also a row
        # without id: its end is the least of all events
        pa.field("triples", pa.string()),  # as text
        EVENTS.field("payload"),
    ]
)

_EVENT_COLUMNS = MATCHED_ROWS.names[: 2 + len(ORIGIN)]  # copied from rows of EVENT_ROWS


class BatchMatcher(Protocol):
    """Matches events one by one. Picklable: it is sent to the workers."""

    def route(self, records: pa.RecordBatch) -> RoutedRecords:
        """The notifications and routes of event records."""


@dataclass(frozen=True)
class MatchEvents:
    """Rows of EVENT_ROWS to rows of MATCHED_ROWS."""

    pickled: bytes  # the matcher
    arrival: int  # the time of events without one

    def __call__(self, batches: Batches) -> Batches:
        matcher = _load_matcher(self.pickled)
        for rows in batches:
            matched = match_columns(stamp(rows, self.arrival), matcher)
            columns = [*map(rows.column, _EVENT_COLUMNS), *matched, pa.array([_worker()] * rows.num_rows)]
            yield pa.RecordBatch.from_arrays(columns, schema=MATCHED_ROWS)


def match_columns(rows: pa.RecordBatch, matcher: BatchMatcher) -> list[pa.Array]:
    """The columns of MATCH_COLUMNS for rows with id, start, end and triples; rows without id are no events."""
    count, is_event = rows.num_rows, rows.column("id").is_valid()
    events = rows.filter(is_event) if rows.column("id").null_count else rows
    indices = pa.array(np.flatnonzero(np.asarray(is_event)))
    routed = matcher.route(event_records(events, indices)) if len(events) else RoutedRecords(events)
    return [_notification_lists(routed.notifications, count), *_bucket_columns(routed, rows)]


def sortable_notifications(notifications: pa.RecordBatch) -> pa.StructArray:
    """NOTIFICATIONS as the columns they are sorted by and their lines of text."""
    lines = json_lines(notifications).cast(pa.string())
    columns = [*map(notifications.column, ORDER), lines]
    return pa.StructArray.from_arrays(columns, fields=list(SORTABLE_NOTIFICATION))


def notification_lines(notifications: pa.RecordBatch) -> pa.RecordBatch:
    """NOTIFICATIONS as rows of NOTIFICATION_LINES."""
    return pa.RecordBatch.from_arrays(sortable_notifications(notifications).flatten(), schema=NOTIFICATION_LINES)


def _notification_lists(notifications: pa.RecordBatch, count: int) -> pa.ListArray:
    """The notifications of each row."""
    rows = notifications.column("offset").to_numpy()
    by_row = notifications.take(pa.array(np.argsort(rows, kind="stable")))
    return _lists(np.bincount(rows, minlength=count), sortable_notifications(by_row), "notifications")


def _bucket_columns(routed: RoutedRecords, rows: pa.RecordBatch) -> list[pa.Array]:
    """The buckets, start and end of each row, and the triples and document of the rows that are in a bucket."""
    buckets, indices = routed.routes.T
    lengths = np.bincount(indices, minlength=len(rows))
    values = pa.array(buckets[np.argsort(indices, kind="stable")], pa.int32())
    is_routed = lengths > 0
    texts = triples_to_text(rows.filter(pa.array(is_routed)).column("triples"))
    text_indices = pa.array(np.cumsum(is_routed) - 1, mask=~is_routed)
    times = (rows.column(name) for name in ("start", "end"))
    payloads = payload_column(rows)
    if payloads.null_count < len(rows):
        payloads = pc.if_else(pa.array(is_routed), payloads, pa.scalar(None, pa.binary()))
    return [_lists(lengths, values, "buckets"), *times, texts.take(text_indices), payloads]


def _lists(lengths: npt.NDArray[np.int64], values: pa.Array, column: str) -> pa.ListArray:
    (type_,) = (field.type for field in MATCH_COLUMNS if field.name == column)
    return pa.ListArray.from_arrays(list_offsets(lengths), values, type=type_)


def match_events(spark: SparkSession, splits: FileSplits, matcher: BatchMatcher, arrival: int) -> DataFrame:
    """The matches of all events of the splits, in rows of MATCHED_ROWS; rejections are passed through."""
    from pyspark.cloudpickle import dumps
    from pyspark.sql.pandas.types import from_arrow_schema

    match = MatchEvents(dumps(matcher), arrival)  # type: ignore[no-untyped-call]  # a vendored module without types
    tasks = TASKS_PER_CORE * parallelism(spark)
    if len(splits.splits) >= tasks:
        return read_splits(spark, splits, MATCHED_ROWS, match)

    def match_packed(batches: Batches) -> Batches:
        return match(unpack_events(batches))

    distributed = read_splits(spark, splits, PACKED, pack_events).repartition(tasks)
    return distributed.mapInArrow(match_packed, from_arrow_schema(MATCHED_ROWS))


def pack_events(batches: Batches) -> Batches:
    """Rows of EVENT_ROWS to rows of PACKED, PACKED_EVENTS in each."""
    for rows in batches:
        for start in range(0, rows.num_rows, PACKED_EVENTS):
            data = pack(rows.slice(start, PACKED_EVENTS))
            yield pa.RecordBatch.from_arrays([pa.array([data], pa.binary())], schema=PACKED)


def unpack_events(batches: Batches) -> Batches:
    """The inverse of :func:`pack_events`."""
    return (unpack(data.as_buffer()) for batch in batches for data in batch.column(0))


@lru_cache(maxsize=4)
def _load_matcher(pickled: bytes) -> BatchMatcher:
    """A worker process runs many tasks: the compiled matcher is cached between them."""
    from pyspark.cloudpickle import loads

    matcher: BatchMatcher = loads(pickled)
    return matcher


def _worker() -> str:
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None, "runs inside a task"
    return f"{platform.node()} {os.getpid()} {task.taskAttemptId()}"


@dataclass(frozen=True)
class DetectBuckets:
    """Sorted rows of ROUTED_EVENTS to rows of NOTIFICATION_LINES."""

    pickled: bytes  # the run
    controls: ReplayControls

    def __call__(self, batches: Batches) -> Batches:
        run = _load_run(self.pickled)
        slices = (slice_ for rows in batches for slice_ in _bucket_slices(rows))
        for bucket, bucket_slices in groupby(slices, key=lambda slice_: slice_.column("bucket")[0].as_py()):
            first = next(bucket_slices)
            worker = run.worker(bucket, _least_end(first))
            for records, frontier in self.controls.interleave(map(_records, chain([first], bucket_slices))):
                yield notification_lines(worker.advance([records], frontier))


def detect_buckets(
    spark: SparkSession, accepted: DataFrame, run: PartitionedRun, controls: ReplayControls
) -> DataFrame:
    """The notifications of the composite subscriptions of a run, in rows of NOTIFICATION_LINES.

    Accepted events have the columns of ROUTED_EVENTS after the bucket, and their ``buckets``; offsets are their order.
    """
    from pyspark.cloudpickle import dumps
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.types import from_arrow_schema

    rows = accepted.where(f.size("buckets") > 0).withColumn("bucket", f.explode("buckets")).select(*ROUTED_EVENTS.names)
    if with_no := [(bucket,) for bucket in run.no_buckets]:
        least = spark.createDataFrame(with_no, "bucket int").crossJoin(accepted.agg(f.min("end").alias("end")))
        present = {"bucket": f.col("bucket"), "end": f.col("end"), "offset": f.lit(-1)}
        columns = (
            present.get(column.name, f.lit(None)).cast(column.dataType).alias(column.name) for column in rows.schema
        )
        rows = least.select(*columns).union(rows)
    tasks = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    sorted_rows = rows.repartitionById(tasks, "bucket").sortWithinPartitions("bucket", "offset")
    detect = DetectBuckets(dumps(run), controls)  # type: ignore[no-untyped-call]  # a vendored module without types
    lines = sorted_rows.mapInArrow(detect, from_arrow_schema(NOTIFICATION_LINES))
    return lines.dropDuplicates(["text"]) if run.may_repeat else lines


def _bucket_slices(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Slices of rows with equal bucket."""
    cuts = np.flatnonzero(np.diff(np.asarray(rows.column("bucket")))) + 1
    for begin, end in pairwise([0, *cuts.tolist(), len(rows)]):
        if begin < end:
            yield rows.slice(begin, end - begin)


def _least_end(slice_: pa.RecordBatch) -> int | None:
    """The least end of all events of the job, which the first row of a bucket with NO has."""
    return micros(slice_.column("end").slice(0, 1))[0] if slice_.column("id")[0].as_py() is None else None


def _records(slice_: pa.RecordBatch) -> pa.RecordBatch:
    """The events of a slice as RECORDS."""
    events = slice_.filter(slice_.column("id").is_valid())
    index = events.schema.get_field_index("triples")
    decoded = events.set_column(index, EVENTS.field("triples"), triples_from_text(events.column("triples")))
    return event_records(decoded, decoded.column("offset"), decoded.column("frontier"))


@lru_cache(maxsize=4)
def _load_run(pickled: bytes) -> PartitionedRun:
    """A worker process runs many tasks: what is compiled is cached between them."""
    from pyspark.cloudpickle import loads

    run: PartitionedRun = loads(pickled)
    return run
