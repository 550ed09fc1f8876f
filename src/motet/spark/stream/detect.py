"""Behind the shuffle: each bucket of a lake has a kernel, which outlives the batches as state of the query.

A process keeps its kernels, and goes on with one only if it stands where the state says; else it reads the state.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from time import process_time_ns
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from motet.engine.buckets import Buckets
from motet.engine.detect.output import merge_notifications
from motet.engine.kernel import Kernel
from motet.spark.encoding import pack, unpack
from motet.spark.stream.lake_view import View, concat_records, view_of
from motet.spark.stream.state_store import Keeping, Place, Running, put, take

if TYPE_CHECKING:
    import pandas as pd

TOLD = pa.schema(
    [
        pa.field("lake", pa.string(), nullable=False),
        pa.field("first", pa.int64(), nullable=False),
        pa.field("stop", pa.int64(), nullable=False),
        pa.field("slice", pa.int64(), nullable=False),  # of the batch, by offset
        pa.field("told", pa.binary()),  # NOTIFICATIONS, packed; none: nothing
        pa.field("count", pa.int64()),  # of all notifications of the bucket, in one of its rows; there also:
        pa.field("rows", pa.int64()),  # that are remembered
        pa.field("bytes", pa.int64()),  # of the state
        pa.field("micros", pa.int64()),  # of a processor
    ]
)
COUNTED = ("count", "rows", "bytes", "micros")
SLICE = 10_000  # records at least

Key = tuple[str, int]  # lake and bucket


@dataclass
class News:
    """What a batch has for a bucket."""

    first: int
    stop: int
    events: list[pa.RecordBatch] = field(default_factory=list)
    told: list[pa.RecordBatch] = field(default_factory=list)

    @classmethod
    def of(cls, frames: Iterator[pd.DataFrame]) -> News:
        rows = [row for frame in frames for row in frame.itertuples(index=False)]
        events = [unpack(row.events) for row in rows if row.events is not None]
        told = [unpack(row.told) for row in rows if row.told is not None]
        return cls(int(rows[0].first), int(rows[0].stop), events, told)


class Detecting(StatefulProcessor):
    """Rows of ROUTED to rows of TOLD."""

    def __init__(self, count: int, slices: int) -> None:
        self._count = count  # of buckets
        self._slices_at_most = slices

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._keeping = Keeping(handle)

    def handleInputRows(  # noqa: N802  (Spark's name)
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: object,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        import pandas as pd

        begun, lake, news = process_time_ns(), str(key[0]), News.of(rows)
        running, found = self._advanced((lake, int(key[1])), news)
        told = merge_notifications([*news.told, found])
        counts: tuple[int, ...] = (len(told), *_size(running), (process_time_ns() - begun) // 1000)
        parts = []
        for part in self._slices(news, told):
            parts.append((lake, news.first, news.stop, *part, *counts))
            counts = (0,) * len(counts)
        yield pd.DataFrame(parts, columns=TOLD.names)

    def _slices(self, news: News, told: pa.RecordBatch) -> Iterator[tuple[int, bytes | None]]:
        """The notifications of equal parts of the batch; at least one, since a batch that says nothing is one, too."""
        size = max(SLICE, -(-(news.stop - news.first) // self._slices_at_most))
        numbers = (told.column("offset").to_numpy() - news.first) // size
        for number in np.unique(numbers).tolist() or [0]:
            begin, end = np.searchsorted(numbers, [number, number + 1])
            yield number, pack(told.slice(begin, end - begin)) if end > begin else None

    def _advanced(self, key: Key, news: News) -> tuple[Running, pa.RecordBatch]:
        """The kernel of a bucket, and what it makes of a batch; the state follows it."""
        view = view_of(key[0])
        running = self._current(key, view, view.buckets(self._count, news.stop))
        reached = running.place.reached
        controls = view.controls(reached, news.stop)
        if not news.events and not len(controls) and running.kernel.is_idle:
            put(key, running)
            return running, merge_notifications([])
        own = concat_records([controls, *news.events])
        told = running.kernel.advance(own, view.course(reached, news.stop))
        running = self._keeping.keep(running, news.stop, _mark(running.kernel))
        put(key, running)
        return running, told

    def _current(self, key: Key, view: View, buckets: Buckets) -> Running:
        """The bucket's kernel as the state says, ready for subscriptions that are spread like this."""
        place = self._keeping.place()
        running = take(key)
        if running is None or running.place != place:
            running = self._loaded(key, view, place, running)
        before = _fed(place)
        if before != buckets.fed:
            if (buckets.fed - before) & view.subscribed(place.reached):
                running.kernel = _anew(key, view, buckets, place.reached)
            running.kernel.reroute(buckets)
        return running

    def _loaded(self, key: Key, view: View, place: Place, before: Running | None) -> Running:
        buckets = Buckets(self._count, _fed(place))
        if not place.base:
            kernel = _anew(key, view, buckets, 0)
            return Running(place, kernel, kernel.saved())
        saved = self._keeping.saved(place)
        kernel = Kernel.resumed(
            saved,
            history=partial(view.past, key[1]),
            buckets=buckets,
            bucket=key[1],
            like=before.kernel if before else None,
        )
        return Running(place, kernel, saved)


def _size(running: Running) -> tuple[int, int]:
    """How many rows are remembered, and in how many bytes."""
    return running.kernel.statistics()["rows"], running.place.base + running.place.changed


def _mark(kernel: Kernel) -> str:
    """As JSON: the subscriptions that are taken for feeding each other."""
    return json.dumps(sorted(kernel.buckets.fed if kernel.buckets else ()))


def _fed(place: Place) -> frozenset[str]:
    return frozenset(json.loads(place.mark or "[]"))


def _anew(key: Key, view: View, buckets: Buckets, stop: int) -> Kernel:
    """A kernel that has read the log up to an offset by itself: what it would have told, others have."""
    kernel = Kernel(lateness=view.lateness, history=partial(view.past, key[1]), buckets=buckets, bucket=key[1])
    for batch in view.history(stop):
        kernel.advance(batch)
    return kernel
