"""What the tasks of a run do: match events as soon as they are decoded.

Rows of events become rows that hold only ids and notifications, so that what goes through Spark's shuffles is small.
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
import pyarrow as pa

from motet.model.schemas import NOTIFICATIONS
from motet.model.tables import notification_rows, stamp
from motet.spark.events import ORIGIN, Batches, Parts, over_parts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PACKED_EVENTS = 512
TASKS_PER_CORE = 2

ORDER = ("end", "start", "subscription", "events", "bindings")
SORTABLE = pa.struct([*(NOTIFICATIONS.field(name) for name in ORDER), pa.field("text", pa.string(), nullable=False)])

PACKED = pa.schema([pa.field("packed", pa.binary(), nullable=False)])
MATCHED = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("line", pa.int64(), nullable=False),
        *ORIGIN,
        pa.field("notifications", pa.list_(pa.field("item", SORTABLE, nullable=False)), nullable=False),
        pa.field("worker", pa.string(), nullable=False),  # host, process and task that made the row
    ]
)


class Kernel(Protocol):
    """What matches. It is sent to the workers, so it can be pickled."""

    def notify(self, events: pa.RecordBatch) -> pa.RecordBatch:
        """The NOTIFICATIONS of EVENTS that carry an ``offset`` each; those of one event do not depend on others."""


@dataclass(frozen=True)
class Match:
    """Rows of EVENT_ROWS to rows of MATCHED."""

    pickled: bytes  # the kernel
    arrival: int  # the time of events that carry none

    def __call__(self, batches: Batches) -> Batches:
        kernel = _unpickle(self.pickled)
        for rows in batches:
            told = self._notify(kernel, rows) if rows.column("rejected").null_count else _nothing(rows.num_rows)
            own = [rows.column(name) for name in MATCHED.names[:-2]]
            yield pa.RecordBatch.from_arrays([*own, told, pa.array([_worker()] * rows.num_rows)], schema=MATCHED)

    def _notify(self, kernel: Kernel, rows: pa.RecordBatch) -> pa.ListArray:
        """The notifications of each row, with their lines."""
        offsets = pa.array(np.arange(rows.num_rows))
        told = kernel.notify(stamp(rows, self.arrival).append_column("offset", offsets))
        order = told.column("offset").to_numpy()
        told = told.take(pa.array(np.argsort(order, kind="stable")))
        lines = pa.array([notification.to_line() for notification, _ in notification_rows(told)], pa.string())
        values = pa.StructArray.from_arrays([*(told.column(name) for name in ORDER), lines], fields=list(SORTABLE))
        return _lists(np.bincount(order, minlength=rows.num_rows), values)


def match_events(spark: SparkSession, parts: Parts, kernel: Kernel, arrival: int) -> DataFrame:
    """What the kernel says of every event of the parts, in rows of MATCHED; rejections pass through."""
    from pyspark.cloudpickle import dumps  # noqa: PLC0415  (heavy)
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415

    match = Match(dumps(kernel), arrival)  # type: ignore[no-untyped-call]  # a vendored module without types
    tasks = TASKS_PER_CORE * spark.sparkContext.defaultParallelism
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
def _unpickle(pickled: bytes) -> Kernel:
    """A worker process runs many tasks: what a kernel compiles for itself is kept from one to the next."""
    from pyspark.cloudpickle import loads  # noqa: PLC0415

    kernel: Kernel = loads(pickled)
    return kernel


def _nothing(count: int) -> pa.ListArray:
    return _lists(np.zeros(count, np.int64), pa.array([], SORTABLE))


def _lists(lengths: np.ndarray[tuple[int], np.dtype[np.int64]], values: pa.StructArray) -> pa.ListArray:
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    return pa.ListArray.from_arrays(offsets, values, type=MATCHED.field("notifications").type)


def _worker() -> str:
    from pyspark import TaskContext  # noqa: PLC0415

    task = TaskContext.get()
    assert task is not None, "runs inside a task"
    return f"{platform.node()} {os.getpid()} {task.taskAttemptId()}"
