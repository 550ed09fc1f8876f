"""Rescaling a stopped pipeline: its checkpoint gets another number of buckets.

The state of every bucket is read from Spark's store and advanced to the end of the last batch. The states are
distributed over the new buckets and written beside a new query, which continues at that offset. The new query replaces
the old one in one step: a command that is interrupted leaves the old one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from motet.engine.runtime.rescale import rescale
from motet.engine.state.snapshot import StateSnapshot, apply_deltas
from motet.jobs.lake_view import lake_view
from motet.model.errors import UsageError
from motet.plan.partitioning import BucketLayout
from motet.spark.stream.checkpoint import (
    RESCALED_FORMAT,
    CheckpointMetadata,
    FirstStates,
    LakeStart,
    committed_offsets,
    first_states,
    replace_query,
)
from motet.spark.stream.state_store import StateHeader
from motet.spark.stream.tasks import linked_at, start_header

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

StoredStates = Mapping[tuple[str, int], tuple[StateHeader, StateSnapshot]]  # by lake and bucket


@dataclass(frozen=True)
class Rescaled:
    """What rescaling has done."""

    checkpoint: str
    before: int  # buckets
    buckets: int
    offsets: Mapping[str, int]  # by lake: where the pipeline continues
    rows: int  # of state
    bytes: int


def check_buckets(checkpoint: Path, metadata: CheckpointMetadata, buckets: int) -> None:
    """Refuse a number of buckets that a checkpoint cannot get."""
    if buckets < 1:
        raise UsageError(f"--buckets must be at least 1, not {buckets}")
    if buckets == metadata.buckets:
        raise UsageError(f"the checkpoint {checkpoint} has {buckets} buckets already", advice="Give another number.")


def rescale_checkpoint(spark: SparkSession, checkpoint: Path, metadata: CheckpointMetadata, buckets: int) -> Rescaled:
    """Give a checkpoint, which no pipeline uses, another number of buckets."""
    check_buckets(checkpoint, metadata, buckets)
    batch, offsets = committed_offsets(checkpoint, metadata)
    stored = {} if batch is None else _read_states(spark, checkpoint / metadata.folder, batch)
    folder = f"query-{int(metadata.folder.rpartition('-')[2] or 0) + 1}"
    (checkpoint / folder).mkdir(exist_ok=True)
    starts: dict[str, LakeStart] = {}
    rows = size = 0
    for lake, offset in offsets.items():
        layout = BucketLayout(buckets, lake_view(lake).layout(buckets, offset).derivation_linked)
        starts[lake] = LakeStart(offset, tuple(sorted(layout.derivation_linked)))
        states = list(_states(lake, offset, metadata, stored, first_states(checkpoint, metadata)))
        for bucket, state in enumerate(rescale(states, layout)):
            FirstStates(checkpoint / folder, starts).path(lake, bucket).write_bytes(state.data)
            rows, size = rows + sum(map(len, state.rows.tables.values())), size + len(state.data)
    after = CheckpointMetadata(metadata.lakes, buckets, metadata.state, RESCALED_FORMAT, folder, starts)
    replace_query(checkpoint, metadata, after)
    return Rescaled(str(checkpoint), metadata.buckets, buckets, dict(offsets), rows, size)


def _states(
    lake: str, offset: int, metadata: CheckpointMetadata, stored: StoredStates, first: FirstStates
) -> Iterator[StateSnapshot]:
    """The states of all buckets of a lake at an offset; the stored state of one without records can be older."""
    view, start = lake_view(lake), first.starts.get(lake)
    layout = view.layout(metadata.buckets, offset)
    for bucket in range(metadata.buckets):
        header, snapshot = stored.get((lake, bucket), (StateHeader(), None))
        if snapshot is None and start is not None:
            header, snapshot = start_header(start), first.read(lake, bucket)
        worker = view.worker(bucket, BucketLayout(metadata.buckets, linked_at(header)), snapshot)
        worker = view.follow(worker, bucket, layout, header.processed_to)
        if header.processed_to < offset:
            timeline = view.timeline(header.processed_to, offset)
            worker.advance([view.controls(header.processed_to, offset)], timeline)
        yield worker.processor.snapshot()


def _read_states(spark: SparkSession, query: Path, batch: int) -> StoredStates:
    """The stored states of all buckets that have one."""

    def read(variable: str, **options: str) -> DataFrame:
        reader = spark.read.format("statestore").option("batchId", batch).option("stateVarName", variable)
        return reader.options(**options).load(f"file://{query}").drop("partition_id")

    headers = {_key(row): StateHeader(*row.value) for row in read("place").toLocalIterator()}
    deltas = {
        _key(row): [bytes(delta.data) for delta in row.list_value]
        for row in read("deltas", flattenCollectionTypes="false").toLocalIterator()
    }
    states: dict[tuple[str, int], tuple[StateHeader, StateSnapshot]] = {}
    for row in read("base").toLocalIterator():
        key, header = _key(row), headers[_key(row)]
        applied: Sequence[bytes] = deltas[key] if header.deltas else []
        states[key] = header, apply_deltas(bytes(row.value.data), applied)
    return states


def _key(row: object) -> tuple[str, int]:
    lake, bucket = row.key  # type: ignore[attr-defined]
    return str(lake), int(bucket)
