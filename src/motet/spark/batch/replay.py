"""`motet replay` on Spark: the log of a lake in, sorted notifications out.

Tasks read the log through the lake's data source, drop the records that are not visible to a replay, and match the
others with the background that is current at their offset. Routed events are detected as in a run over files, after one
shuffle by bucket; background changes reach every processor at their offset. Subscriptions with different
SINCE are replayed one after the other.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa

from motet.engine.runtime.partitions import PartitionedRun
from motet.jobs.replay import Replay, ReplayGroup, ReplayView
from motet.lake import Snapshot
from motet.model.batches import RECORDS
from motet.spark.batch.run import cached, compute_notifications, engine_errors, write_lines
from motet.spark.batch.tasks import BUCKETS_PER_CORE, MATCH_COLUMNS, match_columns
from motet.spark.encoding import Batches
from motet.spark.session import parallelism, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TASKS_PER_CORE = 8  # at most: a lake that was never compacted has a segment for every commit

ACCEPTED = pa.schema([*(RECORDS.field(name) for name in ("id", "offset", "frontier")), *MATCH_COLUMNS])


def replay_spark(replay: Replay, sink: BinaryIO, *, scratch: str | Path | None = None) -> int:
    """Write the notifications as sorted lines and return their count. ``scratch`` is as for `run_batch`."""
    spark = session()
    with engine_errors("the replay"), ExitStack() as stack:
        notifications = [_replay_group(spark, replay.snapshot, group, stack) for group in replay.groups]
        return write_lines(reduce(lambda left, right: left.union(right), notifications), sink, scratch)


def _replay_group(spark: SparkSession, snapshot: Snapshot, group: ReplayGroup, stack: ExitStack) -> DataFrame:
    """The notifications of subscriptions with one SINCE, in rows of NOTIFICATION_LINES."""
    from pyspark.cloudpickle import dumps
    from pyspark.sql.pandas.types import from_arrow_schema

    from motet.spark.tables import read_lake

    view = group.view
    buckets = BUCKETS_PER_CORE * parallelism(spark)
    run = PartitionedRun.plan(group.subscriptions, view.background, view.entailment, buckets)
    match = MatchVisible(dumps((run, view)))  # type: ignore[no-untyped-call]  # vendored, without types
    tasks = TASKS_PER_CORE * parallelism(spark)
    records = read_lake(spark, snapshot.store.root, 0, snapshot.next_offset).coalesce(tasks)
    accepted = stack.enter_context(cached(records.mapInArrow(match, from_arrow_schema(ACCEPTED))))
    return stack.enter_context(compute_notifications(spark, accepted, run, view.controls))


@dataclass(frozen=True)
class MatchVisible:
    """Rows of RECORDS to rows of ACCEPTED, for the events that are visible to a replay."""

    pickled: bytes  # the run with the first background, and the replay view

    def __call__(self, batches: Batches) -> Batches:
        _, view = _load(self.pickled)
        for records in batches:
            for background, events in view.split_by_background(view.visible(records)):
                matched = match_columns(events, _run(self.pickled, background))
                columns = [*map(events.column, ("id", "offset", "frontier")), *matched]
                yield pa.RecordBatch.from_arrays(columns, schema=ACCEPTED)


@lru_cache(maxsize=8)
def _run(pickled: bytes, background: int) -> PartitionedRun:
    """The run with the background of an index; cached, because a worker process runs many tasks."""
    run, view = _load(pickled)
    graph, entailment = view.backgrounds[background]
    return replace(run, background=graph, entailment=entailment) if background else run


@lru_cache(maxsize=2)
def _load(pickled: bytes) -> tuple[PartitionedRun, ReplayView]:
    from pyspark.cloudpickle import loads

    run, view = loads(pickled)
    return run, view
