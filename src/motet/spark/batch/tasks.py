"""The tasks of a batch job: match events where they are decoded, and detect groups after the shuffle.

Matching turns rows of events into rows of ids, notifications and routes; only routed events keep their triples, so that
little crosses the shuffle. If there are fewer splits than tasks could run, decoded events are first distributed over
more tasks. After the shuffle each (group, bucket) has a processor of its own: Spark sorts the rows of a group by their
position in the files or the log, and a task reads one group after the other.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, groupby, pairwise
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from motet.engine.runtime.processor import Processor
from motet.jobs.replay import ReplayControls
from motet.model.batches import (
    EVENTS,
    NOTIFICATIONS,
    RECORDS,
    event_records,
    micros,
    notification_batch,
    stamp,
)
from motet.model.notification_lines import json_lines
from motet.plan.graph import RouteKind
from motet.spark.batch.events import ORIGIN, FileSplits, read_splits
from motet.spark.batch.job_plan import JobPlan
from motet.spark.batch.routing import ROUTES, BucketFilter, RoutedEvents
from motet.spark.encoding import Batches, list_offsets, pack, triples_from_text, triples_to_text, unpack
from motet.spark.session import parallelism

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PACKED_EVENTS = 512
TASKS_PER_CORE = 2

ORDER = ("end", "start", "subscription", "events", "bindings")
SORTABLE_NOTIFICATION = pa.struct(
    [*(NOTIFICATIONS.field(name) for name in ORDER), pa.field("text", pa.string(), nullable=False)]
)
NOTIFICATION_LINES = pa.schema(list(SORTABLE_NOTIFICATION))
ROUTE = pa.struct([ROUTES.field(name) for name in ("group", "bucket")])
PACKED = pa.schema([pa.field("packed", pa.binary(), nullable=False)])
MATCH_COLUMNS = [
    pa.field("notifications", pa.list_(pa.field("item", SORTABLE_NOTIFICATION, nullable=False)), nullable=False),
    pa.field("routes", pa.list_(pa.field("item", ROUTE, nullable=False)), nullable=False),
    *(EVENTS.field(name) for name in ("start", "end")),
    pa.field("triples", pa.string()),  # as text; null without a route
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
        *ROUTE,
        pa.field("offset", pa.int64(), nullable=False),
        RECORDS.field("frontier"),
        *(EVENTS.field(name).with_nullable(True) for name in ("id", "start", "end")),  # of a group with NO also a row
        # without id: its end is the least of all events
        pa.field("triples", pa.string()),  # as text
    ]
)

_EVENT_COLUMNS = MATCHED_ROWS.names[: 2 + len(ORIGIN)]  # copied from rows of EVENT_ROWS
_NO_MATCHES = RoutedEvents(notification_batch(()))


class BatchMatcher(Protocol):
    """Matches events one by one. Picklable: it is sent to the workers."""

    def match(self, events: pa.RecordBatch) -> RoutedEvents:
        """The notifications and routes of EVENTS whose ``offset`` is their index."""


@dataclass(frozen=True)
class MatchEvents:
    """Rows of EVENT_ROWS to rows of MATCHED_ROWS."""

    pickled: bytes  # the matcher
    arrival: int  # the time of events without one

    def __call__(self, batches: Batches) -> Batches:
        matcher = _load_matcher(self.pickled)
        for rows in batches:
            has_events = rows.column("rejected").null_count
            matched = match_columns(stamp(rows, self.arrival), matcher if has_events else None)
            columns = [*map(rows.column, _EVENT_COLUMNS), *matched, pa.array([_worker()] * rows.num_rows)]
            yield pa.RecordBatch.from_arrays(columns, schema=MATCHED_ROWS)


def match_columns(rows: pa.RecordBatch, matcher: BatchMatcher | None) -> list[pa.Array]:
    """The columns of MATCH_COLUMNS for rows with id, start, end and triples; without a matcher nothing matches."""
    count = rows.num_rows
    events = pa.RecordBatch.from_pydict(
        {name: rows.column(name) for name in ("id", "start", "end", "triples")} | {"offset": np.arange(count)}
    )
    matched = matcher.match(events) if matcher else _NO_MATCHES
    return [_notification_lists(matched.notifications, count), *_route_columns(matched.routes, events)]


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


def _route_columns(routes: pa.RecordBatch, events: pa.RecordBatch) -> list[pa.Array]:
    """The routes, start and end of each row, and the triples of the rows that have routes."""
    lengths = np.bincount(np.asarray(routes.column("event")), minlength=len(events))
    values = pa.StructArray.from_arrays([routes.column(field.name) for field in ROUTE], fields=list(ROUTE))
    is_routed = lengths > 0
    texts = triples_to_text(events.filter(pa.array(is_routed)).column("triples"))
    indices = pa.array(np.cumsum(is_routed) - 1, mask=~is_routed)
    times = (events.column(name) for name in ("start", "end"))
    return [_lists(lengths, values, "routes"), *times, texts.take(indices)]


def _lists(lengths: npt.NDArray[np.int64], values: pa.StructArray, column: str) -> pa.ListArray:
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


@dataclass
class GroupProcessors:
    """Makes the processors of a job plan; the first one of a group is the prototype of its buckets."""

    plan: JobPlan
    _prototypes: dict[int, Processor] = field(default_factory=dict)

    def processor(self, index: int, bucket: int, beginning: int | None = None) -> Processor:
        """A processor for a bucket of a group, in its initial state; ``beginning`` is the least end of all events."""
        group = self.plan.groups[index]
        if index not in self._prototypes:
            self._prototypes[index] = self.plan.prototype.spawn(group.subscriptions)
        prototype = self._prototypes[index]
        leaf_filter = BucketFilter(group, prototype.plan(), bucket) if group.route_kind is RouteKind.KEY else None
        return prototype.spawn(group.subscriptions, leaf_filter, beginning)


@dataclass(frozen=True)
class DetectGroups:
    """Sorted rows of ROUTED_EVENTS to rows of NOTIFICATION_LINES."""

    pickled: bytes  # the job plan
    controls: ReplayControls

    def __call__(self, batches: Batches) -> Batches:
        processors = _load_processors(self.pickled)
        slices = (slice_ for rows in batches for slice_ in _group_slices(rows))
        for (group, bucket), group_slices in groupby(slices, key=_route):
            first = next(group_slices)
            processor = processors.processor(group, bucket, _least_end(first))
            for records, frontier in self.controls.interleave(map(_records, chain([first], group_slices))):
                yield notification_lines(processor.advance(records, frontier))


def detect_groups(spark: SparkSession, accepted: DataFrame, plan: JobPlan, controls: ReplayControls) -> DataFrame:
    """The notifications of the detection groups of a job plan, in rows of NOTIFICATION_LINES.

    Accepted events have the columns of ROUTED_EVENTS after the route, and their ``routes``; offsets are their order.
    """
    from pyspark.cloudpickle import dumps
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.types import from_arrow_schema

    rows = accepted.where(f.size("routes") > 0).select("*", f.inline("routes")).select(*ROUTED_EVENTS.names)
    if with_no := [(index,) for index, group in enumerate(plan.groups) if group.has_no]:
        group_rows = spark.createDataFrame(with_no, "group int").crossJoin(accepted.agg(f.min("end").alias("end")))
        constants = {"bucket": f.lit(0), "offset": f.lit(-1)}
        present = {"group": f.col("group"), "end": f.col("end"), **constants}
        columns = (
            present.get(column.name, f.lit(None)).cast(column.dataType).alias(column.name) for column in rows.schema
        )
        rows = group_rows.select(*columns).union(rows)
    tasks = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    sorted_rows = rows.repartition(tasks, "group", "bucket").sortWithinPartitions("group", "bucket", "offset")
    detect = DetectGroups(dumps(plan), controls)  # type: ignore[no-untyped-call]  # a vendored module without types
    lines = sorted_rows.mapInArrow(detect, from_arrow_schema(NOTIFICATION_LINES))
    return lines.dropDuplicates(["text"]) if any(group.may_duplicate for group in plan.groups) else lines


def _group_slices(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Slices of rows with equal group and bucket."""
    routes = np.stack([np.asarray(rows.column(name)) for name in ("group", "bucket")])
    cuts = np.flatnonzero((np.diff(routes) != 0).any(axis=0)) + 1
    for begin, end in pairwise([0, *cuts.tolist(), len(rows)]):
        if begin < end:
            yield rows.slice(begin, end - begin)


def _least_end(slice_: pa.RecordBatch) -> int | None:
    """The least end of all events of the job, which the first row of a group with NO has."""
    return micros(slice_.column("end").slice(0, 1))[0] if slice_.column("id")[0].as_py() is None else None


def _records(slice_: pa.RecordBatch) -> pa.RecordBatch:
    """The events of a slice as RECORDS."""
    events = slice_.filter(slice_.column("id").is_valid())
    index = events.schema.get_field_index("triples")
    decoded = events.set_column(index, EVENTS.field("triples"), triples_from_text(events.column("triples")))
    return event_records(decoded, decoded.column("offset"), decoded.column("frontier"))


def _route(slice_: pa.RecordBatch) -> tuple[int, int]:
    return slice_.column("group")[0].as_py(), slice_.column("bucket")[0].as_py()


@lru_cache(maxsize=4)
def _load_processors(pickled: bytes) -> GroupProcessors:
    """A worker process runs many tasks: compiled processors are cached between them."""
    from pyspark.cloudpickle import loads

    return GroupProcessors(loads(pickled))
