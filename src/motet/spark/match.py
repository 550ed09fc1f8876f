"""What the tasks of a run do: match events as soon as they are decoded.

Rows of events become rows that hold ids and notifications; only events that take part in detection keep their triples,
so that what goes through Spark's shuffles is small.
When there are fewer parts than tasks could run, decoded events are first dealt out to more tasks, packed: Spark moves
them as bytes and does not look inside.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from motet.model.schemas import EVENTS, NOTIFICATIONS
from motet.model.tables import notification_batch, notification_rows, stamp
from motet.spark.events import ORIGIN, Batches, Parts, over_parts
from motet.spark.session import parallelism
from motet.spark.spread import GROUPS, Found
from motet.spark.triples import to_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PACKED_EVENTS = 512
TASKS_PER_CORE = 2

ORDER = ("end", "start", "subscription", "events", "bindings")
SORTABLE = pa.struct([*(NOTIFICATIONS.field(name) for name in ORDER), pa.field("text", pa.string(), nullable=False)])

GROUP = pa.struct([GROUPS.field(name) for name in ("component", "bucket")])

PACKED = pa.schema([pa.field("packed", pa.binary(), nullable=False)])
FOUND = [
    pa.field("notifications", pa.list_(pa.field("item", SORTABLE, nullable=False)), nullable=False),
    pa.field("groups", pa.list_(pa.field("item", GROUP, nullable=False)), nullable=False),
    *(EVENTS.field(name) for name in ("start", "end")),
    pa.field("triples", pa.string()),  # as text; null without a group
]
MATCHED = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("line", pa.int64(), nullable=False),
        *ORIGIN,
        *FOUND,
        pa.field("worker", pa.string(), nullable=False),  # host, process and task that made the row
    ]
)

_OWN = MATCHED.names[: 2 + len(ORIGIN)]  # what rows have from the beginning
_NOTHING = Found(notification_batch(()))


class Matching(Protocol):
    """What matches. It is sent to the workers, so it can be pickled."""

    def match(self, events: pa.RecordBatch) -> Found:
        """What is found in EVENTS that carry an ``offset`` each; what is said of one does not depend on others."""


@dataclass(frozen=True)
class Match:
    """Rows of EVENT_ROWS to rows of MATCHED."""

    pickled: bytes  # what matches
    arrival: int  # the time of events that carry none

    def __call__(self, batches: Batches) -> Batches:
        matching = _unpickle(self.pickled)
        for rows in batches:
            found = found_in(stamp(rows, self.arrival), matching if rows.column("rejected").null_count else None)
            made = [*found, pa.array([_worker()] * rows.num_rows)]
            yield pa.RecordBatch.from_arrays([*map(rows.column, _OWN), *made], schema=MATCHED)


def found_in(rows: pa.RecordBatch, matching: Matching | None) -> list[pa.Array]:
    """The columns of FOUND for rows with id, start, end and triples; None finds nothing."""
    count = rows.num_rows
    events = pa.RecordBatch.from_pydict(
        {name: rows.column(name) for name in ("id", "start", "end", "triples")} | {"offset": np.arange(count)}
    )
    found = matching.match(events) if matching else _NOTHING
    groups, kept = _grouped(found.groups, events)
    return [_told(found.told, count), groups, *kept]


def sortable(told: pa.RecordBatch) -> pa.StructArray:
    """NOTIFICATIONS with what they are sorted by and their lines."""
    lines = pa.array([notification.to_line() for notification, _ in notification_rows(told)], pa.string())
    return pa.StructArray.from_arrays([*(told.column(name) for name in ORDER), lines], fields=list(SORTABLE))


def _told(told: pa.RecordBatch, count: int) -> pa.ListArray:
    """The notifications of each row."""
    order = told.column("offset").to_numpy()
    told = told.take(pa.array(np.argsort(order, kind="stable")))
    return _lists(np.bincount(order, minlength=count), sortable(told), "notifications")


def _grouped(groups: pa.RecordBatch, events: pa.RecordBatch) -> tuple[pa.ListArray, list[pa.Array]]:
    """The groups of each row, and start, end and triples of those that have some."""
    sizes = np.bincount(np.asarray(groups.column("event")), minlength=len(events))
    values = pa.StructArray.from_arrays([groups.column(field.name) for field in GROUP], fields=list(GROUP))
    kept = sizes > 0
    chosen = events.filter(pa.array(kept))
    columns = [chosen.column("start"), chosen.column("end"), to_text(chosen.column("triples"))]
    places = pa.array(np.cumsum(kept) - 1, mask=~kept)
    return _lists(sizes, values, "groups"), [column.take(places) for column in columns]


def match_events(spark: SparkSession, parts: Parts, matching: Matching, arrival: int) -> DataFrame:
    """What is found in every event of the parts, in rows of MATCHED; rejections pass through."""
    from pyspark.cloudpickle import dumps
    from pyspark.sql.pandas.types import from_arrow_schema

    match = Match(dumps(matching), arrival)  # type: ignore[no-untyped-call]  # a vendored module without types
    tasks = TASKS_PER_CORE * parallelism(spark)
    if len(parts.parts) >= tasks:
        return over_parts(spark, parts, MATCHED, match)

    def match_packed(batches: Batches) -> Batches:
        return match(unpack(batches))

    dealt = over_parts(spark, parts, PACKED, pack).repartition(tasks)
    return dealt.mapInArrow(match_packed, from_arrow_schema(MATCHED))


def pack(batches: Batches) -> Batches:
    """A few events at a time as bytes."""
    for rows in batches:
        for start in range(0, rows.num_rows, PACKED_EVENTS):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rows.schema) as writer:
                writer.write_batch(rows.slice(start, PACKED_EVENTS))
            yield pa.RecordBatch.from_arrays([pa.array([sink.getvalue().to_pybytes()], pa.binary())], schema=PACKED)


def unpack(batches: Batches) -> Batches:
    """The inverse of :func:`pack`."""
    for batch in batches:
        for packed in batch.column(0):
            with pa.ipc.open_stream(packed.as_buffer()) as reader:
                yield from reader


@lru_cache(maxsize=4)
def _unpickle(pickled: bytes) -> Matching:
    """A worker process runs many tasks: what is compiled for matching is kept from one to the next."""
    from pyspark.cloudpickle import loads

    matching: Matching = loads(pickled)
    return matching


def _lists(lengths: npt.NDArray[np.int64], values: pa.StructArray, column: str) -> pa.ListArray:
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    (type_,) = (field.type for field in FOUND if field.name == column)
    return pa.ListArray.from_arrays(offsets, values, type=type_)


def _worker() -> str:
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None, "runs inside a task"
    return f"{platform.node()} {os.getpid()} {task.taskAttemptId()}"
