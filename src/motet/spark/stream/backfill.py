"""The past of a subscription with SINCE, for every bucket its part.

The first bucket of a process that asks has the log read and matched once, for all buckets; what each of them needs
waits in a scratch file, however long the past is.
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
    """Of one subscription, spread like this; ``history`` are all records before it."""

    def __init__(
        self,
        subscription: Subscription,
        buckets: BucketLayout,
        history: Iterable[pa.RecordBatch],
        lateness: int | None,
    ) -> None:
        self.buckets = buckets
        self._scratch = tempfile.TemporaryDirectory(prefix="motet-past-")
        self._timelines: list[FrontierTimeline] = []
        router = Processor(lateness=lateness, layout=buckets)
        router.activate([replace(subscription, since=None)])
        self._spread(router, history, lateness)

    def read_bucket(self, bucket: int) -> Iterator[FilteredRecords]:
        """What concerns a bucket."""
        with pa.OSFile(str(self._path(bucket)), "rb") as file, pa.ipc.open_stream(file) as reader:
            for timeline, records in zip(self._timelines, reader, strict=True):
                yield FilteredRecords(records, timeline)

    def _spread(self, router: Processor, history: Iterable[pa.RecordBatch], lateness: int | None) -> None:
        with ExitStack() as stack:
            writers = [
                stack.enter_context(pa.ipc.new_stream(str(self._path(bucket)), RECORDS))
                for bucket in range(self.buckets.count)
            ]
            for records in history:
                timeline = FrontierTimeline.from_records(records, lateness)
                self._timelines.append(timeline)
                kinds = pc.is_in(records.column("kind"), pa.array([EVENT, BackgroundChange.kind]))
                _, places = router.route(records.filter(kinds))
                for bucket, writer in enumerate(writers):
                    mine = np.isin(timeline.offsets, places[places[:, 0] == bucket, 1]) | timeline.is_boundary
                    writer.write_batch(records.filter(pa.array(mine)).cast(RECORDS))

    def _path(self, bucket: int) -> Path:
        return Path(self._scratch.name) / str(bucket)
