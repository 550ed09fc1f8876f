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

from motet.engine.detect.output import merge_notifications
from motet.engine.runtime.processor import Processor
from motet.engine.runtime.routing import BucketLayout
from motet.spark.encoding import pack, unpack
from motet.spark.stream.lake_view import LakeView, concat_records, lake_view
from motet.spark.stream.state_store import CachedProcessor, StateHeader, StateStore, cache, take_cached

if TYPE_CHECKING:
    import pandas as pd

NOTIFICATION_SLICES = pa.schema(
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
class BucketInput:
    """What a batch has for a bucket."""

    first: int
    stop: int
    events: list[pa.RecordBatch] = field(default_factory=list)
    told: list[pa.RecordBatch] = field(default_factory=list)

    @classmethod
    def of(cls, frames: Iterator[pd.DataFrame]) -> BucketInput:
        rows = [row for frame in frames for row in frame.itertuples(index=False)]
        events = [unpack(row.events) for row in rows if row.events is not None]
        told = [unpack(row.told) for row in rows if row.told is not None]
        return cls(int(rows[0].first), int(rows[0].stop), events, told)


class DetectStage(StatefulProcessor):
    """Rows of ROUTED to rows of TOLD."""

    def __init__(self, count: int, slices: int) -> None:
        self._count = count  # of buckets
        self._slices_at_most = slices

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._keeping = StateStore(handle)

    def handleInputRows(  # noqa: N802  (Spark's name)
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: object,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        import pandas as pd

        begun, lake, news = process_time_ns(), str(key[0]), BucketInput.of(rows)
        running, found = self._advanced((lake, int(key[1])), news)
        told = merge_notifications([*news.told, found])
        counts: tuple[int, ...] = (len(told), *_size(running), (process_time_ns() - begun) // 1000)
        parts = []
        for part in self._slices(news, told):
            parts.append((lake, news.first, news.stop, *part, *counts))
            counts = (0,) * len(counts)
        yield pd.DataFrame(parts, columns=NOTIFICATION_SLICES.names)

    def _slices(self, news: BucketInput, told: pa.RecordBatch) -> Iterator[tuple[int, bytes | None]]:
        """The notifications of equal parts of the batch; at least one, since a batch that says nothing is one, too."""
        size = max(SLICE, -(-(news.stop - news.first) // self._slices_at_most))
        numbers = (told.column("offset").to_numpy() - news.first) // size
        for number in np.unique(numbers).tolist() or [0]:
            begin, end = np.searchsorted(numbers, [number, number + 1])
            yield number, pack(told.slice(begin, end - begin)) if end > begin else None

    def _advanced(self, key: Key, news: BucketInput) -> tuple[CachedProcessor, pa.RecordBatch]:
        """The kernel of a bucket, and what it makes of a batch; the state follows it."""
        view = lake_view(key[0])
        running = self._current(key, view, view.buckets(self._count, news.stop))
        reached = running.header.processed_to
        controls = view.controls(reached, news.stop)
        if not news.events and not len(controls) and running.kernel.is_idle:
            cache(key, running)
            return running, merge_notifications([])
        own = concat_records([controls, *news.events])
        told = running.kernel.advance(own, view.timeline(reached, news.stop))
        running = self._keeping.persist(running, news.stop, _mark(running.kernel))
        cache(key, running)
        return running, told

    def _current(self, key: Key, view: LakeView, buckets: BucketLayout) -> CachedProcessor:
        """The bucket's kernel as the state says, ready for subscriptions that are spread like this."""
        place = self._keeping.header()
        running = take_cached(key)
        if running is None or running.header != place:
            running = self._loaded(key, view, place, running)
        before = _fed(place)
        if before != buckets.derivation_linked:
            if (buckets.derivation_linked - before) & view.subscribed(place.processed_to):
                running.kernel = _anew(key, view, buckets, place.processed_to)
            running.kernel.set_layout(buckets)
        return running

    def _loaded(self, key: Key, view: LakeView, place: StateHeader, before: CachedProcessor | None) -> CachedProcessor:
        buckets = BucketLayout(self._count, _fed(place))
        if not place.base_bytes:
            kernel = _anew(key, view, buckets, 0)
            return CachedProcessor(place, kernel, kernel.snapshot())
        saved = self._keeping.saved(place)
        kernel = Processor.restore(
            saved,
            earlier_records=partial(view.past, key[1]),
            layout=buckets,
            bucket=key[1],
            prototype=before.kernel if before else None,
        )
        return CachedProcessor(place, kernel, saved)


def _size(running: CachedProcessor) -> tuple[int, int]:
    """How many rows are remembered, and in how many bytes."""
    return running.kernel.statistics()["rows"], running.header.base_bytes + running.header.delta_bytes


def _mark(kernel: Processor) -> str:
    """As JSON: the subscriptions that are taken for feeding each other."""
    return json.dumps(sorted(kernel.layout.derivation_linked if kernel.layout else ()))


def _fed(place: StateHeader) -> frozenset[str]:
    return frozenset(json.loads(place.mark or "[]"))


def _anew(key: Key, view: LakeView, buckets: BucketLayout, stop: int) -> Processor:
    """A kernel that has read the log up to an offset by itself: what it would have told, others have."""
    kernel = Processor(
        lateness=view.lateness, earlier_records=partial(view.past, key[1]), layout=buckets, bucket=key[1]
    )
    for batch in view.history(stop):
        kernel.advance(batch)
    return kernel
