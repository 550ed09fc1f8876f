"""The records of a backfill (SINCE), by bucket.

The log is read and routed once per process for all buckets; each bucket's records are spilled to a scratch file, so
that memory does not grow with the log.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.runtime.processor import Processor
from motet.engine.runtime.record_slices import FilteredRecords
from motet.engine.runtime.routing import BucketLayout
from motet.language.syntax import Subscription
from motet.model.batches import RECORDS
from motet.model.records import EVENT, BackgroundChange
from motet.model.timeline import FrontierTimeline


class BucketBackfill:
    """The records of one subscription's backfill in a bucket layout; ``records`` are all records before it."""

    def __init__(
        self,
        subscription: Subscription,
        buckets: BucketLayout,
        records: Iterable[pa.RecordBatch],
        lateness: int | None,
    ) -> None:
        self.buckets = buckets
        self._scratch = tempfile.TemporaryDirectory(prefix="motet-backfill-")
        self._timelines: list[FrontierTimeline] = []
        router = Processor(lateness=lateness, layout=buckets)
        router.activate([replace(subscription, since=None)])
        self._write_buckets(router, records, lateness)

    def read_bucket(self, bucket: int) -> Iterator[FilteredRecords]:
        """The records that concern a bucket."""
        with pa.OSFile(str(self._path(bucket)), "rb") as file, pa.ipc.open_stream(file) as reader:
            for timeline, records in zip(self._timelines, reader, strict=True):
                yield FilteredRecords(records, timeline)

    def _write_buckets(self, router: Processor, records: Iterable[pa.RecordBatch], lateness: int | None) -> None:
        with ExitStack() as stack:
            writers = [
                stack.enter_context(pa.ipc.new_stream(str(self._path(bucket)), RECORDS))
                for bucket in range(self.buckets.count)
            ]
            for batch in records:
                timeline = FrontierTimeline.from_records(batch, lateness)
                self._timelines.append(timeline)
                is_routed = pc.is_in(batch.column("kind"), pa.array([EVENT, BackgroundChange.kind]))
                _, routes = router.route(batch.filter(is_routed))
                for bucket, writer in enumerate(writers):
                    rows = np.isin(timeline.offsets, routes[routes[:, 0] == bucket, 1]) | timeline.is_boundary
                    writer.write_batch(batch.filter(pa.array(rows)).cast(RECORDS))

    def _path(self, bucket: int) -> Path:
        return Path(self._scratch.name) / str(bucket)
