"""The tasks of the pipeline without Spark: a state store in memory, and rows that are grouped by a dict."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle
from tests.spark import doors

from motet.jobs.lake_view import lake_view
from motet.lake import Lake
from motet.spark.encoding import unpack
from motet.spark.stream import rescale
from motet.spark.stream.checkpoint import FirstStates, committed_offsets, first_states, open_checkpoint, stored_metadata
from motet.spark.stream.source import RANGES, RangeRows, RangesReader
from motet.spark.stream.state_store import StateHeader, StateStore, take_cached
from motet.spark.stream.tasks import DetectStage, MatchStage

Row = tuple[Any, ...]


class Handle:
    """The state of one key; values are lists of rows."""

    def __init__(self) -> None:
        self.values: dict[str, list[Row]] = {}

    def getValueState(self, name: str, schema: str) -> SimpleNamespace:  # noqa: N802  (Spark's names)
        values = self.values

        def update(row: Row) -> None:
            values[name] = [row]

        return SimpleNamespace(get=lambda: values[name][0] if values.get(name) else None, update=update)

    def getListState(self, name: str, schema: str) -> SimpleNamespace:  # noqa: N802
        values = self.values
        rows = values.setdefault(name, [])
        return SimpleNamespace(get=lambda: iter(rows), clear=rows.clear, appendValue=rows.append)


class Query:
    """A query over one lake: reads up to the end of the log, a batch at a time."""

    def __init__(self, root: str, buckets: int, first: FirstStates) -> None:
        self.handles = {bucket: Handle() for bucket in range(buckets)}
        self._root, self._first = root, first
        starts = {lake: start.offset for lake, start in first.starts.items()}
        self.reader = RangesReader([root], starts, buckets, None, 2)
        self.offsets = self.reader.initialOffset()

    def read(self, stop: int) -> list[pa.RecordBatch]:
        """The notifications of the next batch."""
        partitions = list(self.reader.partitions(self.offsets, {self._root: stop}))
        self.offsets = {self._root: stop}
        rows = [row for part in partitions for row in cast(RangeRows, part).rows]
        ranges = pa.RecordBatch.from_pylist(rows, RANGES)
        routed = [row for batch in MatchStage(len(self.handles))(iter([ranges])) for row in batch.to_pylist()]
        return [batch for bucket in self.handles for batch in self._detect(bucket, routed)]

    def _detect(self, bucket: int, routed: list[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
        stage = DetectStage(len(self.handles), 2, self._first)
        stage.init(cast(StatefulProcessorHandle, self.handles[bucket]))
        frame = pd.DataFrame([row for row in routed if row["bucket"] == bucket]).astype(object)
        frame = frame.where(frame.notna(), None)
        for slices in stage.handleInputRows((self._root, bucket), iter([frame]), None):
            yield from (unpack(data) for data in slices["notifications"] if data is not None)

    def stored(self) -> rescale.StoredStates:
        """What Spark's reader of its state would return."""
        states = {}
        for bucket, handle in self.handles.items():
            store = StateStore(cast(StatefulProcessorHandle, handle))
            if (header := store.header()).base_bytes:
                states[self._root, bucket] = header, store.read_snapshot(header)
        return states


@pytest.mark.parametrize("is_cached", [True, False])
def test_rescaled_tasks_continue_as_if_the_number_had_never_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_cached: bool
) -> None:
    """Before and after two changes of the number of buckets, tasks have the notifications of one processor."""
    lake = Lake.open(tmp_path / "lake", durable=False)
    doors.fill(lake)
    root, checkpoint = str(lake.store.root.absolute()), tmp_path / "checkpoint"
    metadata = open_checkpoint(checkpoint, [root], 2, "local[2]")
    query = Query(root, 2, first_states(checkpoint, metadata))
    found: list[pa.RecordBatch] = []
    for stop, buckets in ((30, 5), (50, 1), (doors.RECORDS, 3)):
        found += query.read(stop)
        stored, offsets = query.stored(), dict(query.offsets)
        monkeypatch.setattr(rescale, "_read_states", lambda *_, stored=stored: stored)
        monkeypatch.setattr(rescale, "committed_offsets", lambda *_, offsets=offsets: (0, offsets))
        said = rescale.rescale_checkpoint(cast(Any, None), checkpoint, metadata, buckets)
        assert (said.buckets, said.offsets) == (buckets, offsets)
        metadata = stored_metadata(checkpoint, [root])
        assert committed_offsets(checkpoint, metadata) == (None, offsets)
        for bucket in range(6) if not is_cached else ():
            take_cached((root, bucket))
            lake_view.cache_clear()
        query = Query(root, buckets, first_states(checkpoint, metadata))
        assert query.offsets == offsets
    doors.append(lake, range(2000, 2010))
    lake.tick(5_000 * doors.SECOND)
    found += query.read(lake.snapshot().next_offset)
    assert doors.lines(found) == doors.expected(lake)
    assert query.stored().keys() <= {(root, bucket) for bucket in range(3)}
    assert StateHeader() != next(iter(query.stored().values()))[0]
