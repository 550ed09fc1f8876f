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

from motet.engine.buckets import Buckets
from motet.engine.kernel import Kernel
from motet.engine.reading import Course, Extract
from motet.language.syntax import Subscription
from motet.model.schemas import RECORDS


class BucketBackfill:
    """Of one subscription, spread like this; ``history`` are all records before it."""

    def __init__(
        self,
        subscription: Subscription,
        buckets: Buckets,
        history: Iterable[pa.RecordBatch],
        lateness: int | None,
    ) -> None:
        self.buckets = buckets
        self._scratch = tempfile.TemporaryDirectory(prefix="motet-past-")
        self._courses: list[Course] = []
        router = Kernel(lateness=lateness, buckets=buckets)
        router.begin([replace(subscription, since=None)])
        self._spread(router, history, lateness)

    def read_bucket(self, bucket: int) -> Iterator[Extract]:
        """What concerns a bucket."""
        with pa.OSFile(str(self._path(bucket)), "rb") as file, pa.ipc.open_stream(file) as reader:
            for course, records in zip(self._courses, reader, strict=True):
                yield Extract(records, course)

    def _spread(self, router: Kernel, history: Iterable[pa.RecordBatch], lateness: int | None) -> None:
        with ExitStack() as stack:
            writers = [
                stack.enter_context(pa.ipc.new_stream(str(self._path(bucket)), RECORDS))
                for bucket in range(self.buckets.count)
            ]
            for records in history:
                course = Course.of(records, lateness)
                self._courses.append(course)
                kinds = pc.is_in(records.column("kind"), pa.array(["event", "background"]))
                _, places = router.spread(records.filter(kinds))
                for bucket, writer in enumerate(writers):
                    mine = np.isin(course.offsets, places[places[:, 0] == bucket, 1]) | course.is_control
                    writer.write_batch(records.filter(pa.array(mine)).cast(RECORDS))

    def _path(self, bucket: int) -> Path:
        return Path(self._scratch.name) / str(bucket)
