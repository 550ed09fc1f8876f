"""What the tasks of a run do: match events as soon as they are decoded.

Rows of events become rows that hold ids and notifications; only events that take part in detection keep their triples,
so that what goes through Spark's shuffles is small.
When there are fewer parts than tasks could run, decoded events are first dealt out to more tasks, packed: Spark moves
them as bytes and does not look inside.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from motet.engine.kernel import Kernel
from motet.jobs.replay import Setting
from motet.model.batches import (
    EVENTS,
    NOTIFICATIONS,
    RECORDS,
    event_records,
    notification_batch,
    notification_rows,
    stamp,
)
from motet.spark.batch.events import ORIGIN, Batches, FileSplits, read_splits
from motet.spark.batch.job_plan import JobPlan, Spread
from motet.spark.batch.routing import ROUTES, BucketFilter, RoutedEvents
from motet.spark.encoding import list_offsets, pack, triples_from_text, triples_to_text, unpack
from motet.spark.session import parallelism

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PACKED_EVENTS = 512
TASKS_PER_CORE = 2

ORDER = ("end", "start", "subscription", "events", "bindings")
SORTABLE_NOTIFICATION = pa.struct(
    [*(NOTIFICATIONS.field(name) for name in ORDER), pa.field("text", pa.string(), nullable=False)]
)

GROUP = pa.struct([ROUTES.field(name) for name in ("component", "bucket")])

PACKED = pa.schema([pa.field("packed", pa.binary(), nullable=False)])
MATCH_COLUMNS = [
    pa.field("notifications", pa.list_(pa.field("item", SORTABLE_NOTIFICATION, nullable=False)), nullable=False),
    pa.field("groups", pa.list_(pa.field("item", GROUP, nullable=False)), nullable=False),
    *(EVENTS.field(name) for name in ("start", "end")),
    pa.field("triples", pa.string()),  # as text; null without a group
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

_OWN = MATCHED_ROWS.names[: 2 + len(ORIGIN)]  # what rows have from the beginning
_NOTHING = RoutedEvents(notification_batch(()))


class BatchMatcher(Protocol):
    """What matches. It is sent to the workers, so it can be pickled."""

    def match(self, events: pa.RecordBatch) -> RoutedEvents:
        """What is found in EVENTS that carry an ``offset`` each; what is said of one does not depend on others."""


@dataclass(frozen=True)
class MatchEvents:
    """Rows of EVENT_ROWS to rows of MATCHED."""

    pickled: bytes  # what matches
    arrival: int  # the time of events that carry none

    def __call__(self, batches: Batches) -> Batches:
        matching = _unpickle(self.pickled)
        for rows in batches:
            found = match_columns(stamp(rows, self.arrival), matching if rows.column("rejected").null_count else None)
            made = [*found, pa.array([_worker()] * rows.num_rows)]
            yield pa.RecordBatch.from_arrays([*map(rows.column, _OWN), *made], schema=MATCHED_ROWS)


def match_columns(rows: pa.RecordBatch, matching: BatchMatcher | None) -> list[pa.Array]:
    """The columns of FOUND for rows with id, start, end and triples; None finds nothing."""
    count = rows.num_rows
    events = pa.RecordBatch.from_pydict(
        {name: rows.column(name) for name in ("id", "start", "end", "triples")} | {"offset": np.arange(count)}
    )
    found = matching.match(events) if matching else _NOTHING
    groups, kept = _grouped(found.routes, events)
    return [_told(found.notifications, count), groups, *kept]


def sortable_notifications(told: pa.RecordBatch) -> pa.StructArray:
    """NOTIFICATIONS with what they are sorted by and their lines."""
    lines = pa.array([notification.to_line() for notification, _ in notification_rows(told)], pa.string())
    return pa.StructArray.from_arrays(
        [*(told.column(name) for name in ORDER), lines], fields=list(SORTABLE_NOTIFICATION)
    )


def _told(told: pa.RecordBatch, count: int) -> pa.ListArray:
    """The notifications of each row."""
    order = told.column("offset").to_numpy()
    told = told.take(pa.array(np.argsort(order, kind="stable")))
    return _lists(np.bincount(order, minlength=count), sortable_notifications(told), "notifications")


def _grouped(groups: pa.RecordBatch, events: pa.RecordBatch) -> tuple[pa.ListArray, list[pa.Array]]:
    """The groups of each row, and start, end and triples of those that have some."""
    sizes = np.bincount(np.asarray(groups.column("event")), minlength=len(events))
    values = pa.StructArray.from_arrays([groups.column(field.name) for field in GROUP], fields=list(GROUP))
    kept = sizes > 0
    chosen = events.filter(pa.array(kept))
    columns = [chosen.column("start"), chosen.column("end"), triples_to_text(chosen.column("triples"))]
    places = pa.array(np.cumsum(kept) - 1, mask=~kept)
    return _lists(sizes, values, "groups"), [column.take(places) for column in columns]


def match_events(spark: SparkSession, parts: FileSplits, matching: BatchMatcher, arrival: int) -> DataFrame:
    """What is found in every event of the parts, in rows of MATCHED; rejections pass through."""
    from pyspark.cloudpickle import dumps
    from pyspark.sql.pandas.types import from_arrow_schema

    match = MatchEvents(dumps(matching), arrival)  # type: ignore[no-untyped-call]  # a vendored module without types
    tasks = TASKS_PER_CORE * parallelism(spark)
    if len(parts.splits) >= tasks:
        return read_splits(spark, parts, MATCHED_ROWS, match)

    def match_packed(batches: Batches) -> Batches:
        return match(unpack_events(batches))

    dealt = read_splits(spark, parts, PACKED, pack_events).repartition(tasks)
    return dealt.mapInArrow(match_packed, from_arrow_schema(MATCHED_ROWS))


def pack_events(batches: Batches) -> Batches:
    """Rows of EVENT_ROWS to rows of PACKED, a few events in each."""
    for rows in batches:
        for start in range(0, rows.num_rows, PACKED_EVENTS):
            data = pack(rows.slice(start, PACKED_EVENTS))
            yield pa.RecordBatch.from_arrays([pa.array([data], pa.binary())], schema=PACKED)


def unpack_events(batches: Batches) -> Batches:
    """The inverse of :func:`pack_events`."""
    return (unpack(data.as_buffer()) for batch in batches for data in batch.column(0))


@lru_cache(maxsize=4)
def _unpickle(pickled: bytes) -> BatchMatcher:
    """A worker process runs many tasks: what is compiled for matching is kept from one to the next."""
    from pyspark.cloudpickle import loads

    matching: BatchMatcher = loads(pickled)
    return matching


def _lists(lengths: npt.NDArray[np.int64], values: pa.StructArray, column: str) -> pa.ListArray:
    (type_,) = (field.type for field in MATCH_COLUMNS if field.name == column)
    return pa.ListArray.from_arrays(list_offsets(lengths), values, type=type_)


def _worker() -> str:
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None, "runs inside a task"
    return f"{platform.node()} {os.getpid()} {task.taskAttemptId()}"


ROUTED_EVENTS = pa.schema(
    [
        pa.field("component", pa.int32(), nullable=False),
        pa.field("bucket", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        RECORDS.field("frontier"),
        *(EVENTS.field(name).with_nullable(True) for name in ("id", "start", "end")),  # null: no event, only the group
        pa.field("triples", pa.string()),  # as text
    ]
)
NOTIFICATION_LINES = pa.schema(list(SORTABLE_NOTIFICATION))


@dataclass
class GroupProcessors:
    """The kernels of a division, begun when they are needed."""

    division: JobPlan
    _begun: dict[int, Kernel] = field(default_factory=dict)

    def kernel(self, number: int, bucket: int) -> Kernel:
        """One that has read nothing."""
        component = self.division.groups[number]
        if number not in self._begun:
            self._begun[number] = self.division.prototype.anew(component.subscriptions)
        first = self._begun[number]
        keep = BucketFilter(component, first.plan(), bucket) if component.route_kind is Spread.KEY else None
        return first.anew(component.subscriptions, keep)


@dataclass(frozen=True)
class DetectGroups:
    """Sorted rows of GROUPED to rows of TOLD."""

    pickled: bytes  # the division
    setting: Setting

    def __call__(self, batches: Batches) -> Batches:
        detection = _detection(self.pickled)
        parts = (part for rows in batches for part in _group_slices(rows))
        for (component, bucket), group in groupby(parts, key=_group):
            kernel = detection.kernel(component, bucket)
            for records in self.setting.along(map(_events, group)):
                yield notification_lines(kernel.advance(records))


def notification_lines(notifications: pa.RecordBatch) -> pa.RecordBatch:
    """NOTIFICATIONS as rows that can be sorted and written."""
    return pa.RecordBatch.from_arrays(sortable_notifications(notifications).flatten(), schema=NOTIFICATION_LINES)


def detect_groups(spark: SparkSession, accepted: DataFrame, division: JobPlan, setting: Setting) -> DataFrame:
    """What the components of a division find in accepted events, in rows of TOLD.

    Accepted events have the columns of GROUPED behind the group, and their ``groups``; offsets only say the order.
    """
    from pyspark.cloudpickle import dumps
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.types import from_arrow_schema

    rows = accepted.where(f.size("groups") > 0).select("*", f.inline("groups")).select(*ROUTED_EVENTS.names)
    if silent := [number for number, one in enumerate(division.groups) if one.may_occur_without_events]:
        alone = [(number, 0, -1, *[None] * (len(ROUTED_EVENTS) - 3)) for number in silent]
        rows = spark.createDataFrame(alone, rows.schema).union(rows)
    tasks = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    sorted_ = rows.repartition(tasks, "component", "bucket").sortWithinPartitions("component", "bucket", "offset")
    work = DetectGroups(dumps(division), setting)  # type: ignore[no-untyped-call]  # a vendored module without types
    found = sorted_.mapInArrow(work, from_arrow_schema(NOTIFICATION_LINES))
    return found.dropDuplicates(["text"]) if any(one.may_duplicate for one in division.groups) else found


def _group_slices(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Rows of one group at a time."""
    numbers = np.stack([np.asarray(rows.column(name)) for name in ("component", "bucket")])
    cuts = np.flatnonzero((np.diff(numbers) != 0).any(axis=0)) + 1
    for begin, end in pairwise([0, *cuts.tolist(), len(rows)]):
        if begin < end:
            yield rows.slice(begin, end - begin)


def _events(part: pa.RecordBatch) -> pa.RecordBatch:
    """The events of a group as RECORDS, as they were before the shuffle."""
    events = part.filter(part.column("id").is_valid())
    index = events.schema.get_field_index("triples")
    whole = events.set_column(index, EVENTS.field("triples"), triples_from_text(events.column("triples")))
    return event_records(whole, whole.column("offset"), whole.column("frontier"))


def _group(part: pa.RecordBatch) -> tuple[int, int]:
    return part.column("component")[0].as_py(), part.column("bucket")[0].as_py()


@lru_cache(maxsize=4)
def _detection(pickled: bytes) -> GroupProcessors:
    """A worker process runs many tasks: what is compiled is kept from one to the next."""
    from pyspark.cloudpickle import loads

    return GroupProcessors(loads(pickled))
