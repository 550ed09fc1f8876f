"""`motet replay` on Spark: a lake's history in, sorted notifications out.

Tasks read the log through the lake's data source, leave out what a replay does not see, and match what is left where it
was read, with the background of its place. What may combine with others goes on as in a run over files: one shuffle by
component and bucket, a kernel for each group. Changes of the background reach every kernel at their places. So all of
it is parallel but what is not in a run either: a component without a key, or one whose subscriptions feed each other.
Subscriptions that look back differently far are replayed one after the other.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa

from motet.jobs.replay import History, Part, Replay
from motet.lake import Snapshot
from motet.model.batches import RECORDS
from motet.spark.batch.events import Batches
from motet.spark.batch.job_plan import plan_job
from motet.spark.batch.routing import EventRouter
from motet.spark.batch.run import cached, compute_notifications, plain_errors, write_lines
from motet.spark.batch.tasks import MATCH_COLUMNS, match_columns
from motet.spark.session import parallelism, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TASKS_PER_CORE = 8  # at most: a lake that was never compacted has a segment for every commit

ACCEPTED = pa.schema([*(RECORDS.field(name) for name in ("id", "offset", "frontier")), *MATCH_COLUMNS])


def replay_spark(replay: Replay, sink: BinaryIO, *, scratch: str | Path | None = None) -> int:
    """Write the notifications as sorted lines; how many there are. ``scratch`` is as for `run_batch`."""
    spark = session()
    with plain_errors("the replay"), ExitStack() as opened:
        told = [_told(spark, replay.snapshot, part, opened) for part in replay.parts]
        return write_lines(reduce(lambda one, other: one.union(other), told), sink, scratch)


def _told(spark: SparkSession, snapshot: Snapshot, part: Part, opened: ExitStack) -> DataFrame:
    from pyspark.cloudpickle import dumps
    from pyspark.sql.pandas.types import from_arrow_schema

    from motet.spark.tables import read_lake

    history = part.history
    division = plan_job(part.subscriptions, history.background, None)
    work = MatchVisible(dumps((EventRouter(division), history)))  # type: ignore[no-untyped-call]  # vendored, without types
    tasks = TASKS_PER_CORE * parallelism(spark)
    records = read_lake(spark, snapshot.store.root, 0, snapshot.next_offset).coalesce(tasks)
    accepted = opened.enter_context(cached(records.mapInArrow(work, from_arrow_schema(ACCEPTED))))
    return opened.enter_context(compute_notifications(spark, accepted, division, history.setting))


@dataclass(frozen=True)
class MatchVisible:
    """Rows of RECORDS to rows of ACCEPTED, those that a replay sees and that matter to somebody."""

    pickled: bytes  # what matches with the first background, and the history

    def __call__(self, batches: Batches) -> Batches:
        history = _unpickle(self.pickled)[1]
        for records in batches:
            for number, events in history.stretches(history.seen(records)):
                found = match_columns(events, _spreading(self.pickled, number))
                rows = [*map(events.column, ("id", "offset", "frontier")), *found]
                yield pa.RecordBatch.from_arrays(rows, schema=ACCEPTED)


@lru_cache(maxsize=8)
def _spreading(pickled: bytes, number: int) -> EventRouter:
    """What matches with the background of a number: a worker process runs many tasks with it."""
    first, history = _unpickle(pickled)
    return EventRouter(replace(first.plan, background=history.backgrounds[number])) if number else first


@lru_cache(maxsize=2)
def _unpickle(pickled: bytes) -> tuple[EventRouter, History]:
    from pyspark.cloudpickle import loads

    found: tuple[EventRouter, History] = loads(pickled)
    return found
