"""Matches in a DataFrame without an end: each bucket has a kernel as state, whose frontier is Spark's watermark.

Spark drops late rows; those it lets through are ahead of the watermark that the bucket saw last. The watermark of a
batch comes after its rows. A bucket that waits for something asks to be woken when the watermark moves.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from motet.engine.kernel import Kernel
from motet.model.errors import EngineError
from motet.model.tables import tick_record
from motet.spark.frames.events import MATCHED, Work
from motet.spark.frames.rows import BUCKET
from motet.spark.stream.keeping import Keeping, Place, Running, put, take

if TYPE_CHECKING:
    import pandas as pd

MILLISECOND = 1000  # microseconds


class DetectArriving(StatefulProcessor):
    """Rows of buckets, as they come, to rows of MATCHED."""

    def __init__(self, work: Work, buckets: int) -> None:
        self._work = work
        self._asked = blake2b(f"{work.text}\n{buckets}".encode(), digest_size=8).hexdigest()

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._keeping = Keeping(handle)

    def handleInputRows(  # noqa: N802  (Spark's name)
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        batches = [pa.RecordBatch.from_pandas(frame, preserve_index=False) for frame in rows]
        yield from self._advanced(int(key[0]), batches, timerValues.getCurrentWatermarkInMs())

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: object,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        yield from self._advanced(int(key[0]), [], timerValues.getCurrentWatermarkInMs())

    def _advanced(self, bucket: int, batches: list[pa.RecordBatch], watermark: int) -> Iterator[pd.DataFrame]:
        running = self._current(bucket)
        kernel, offset = running.kernel, running.place.reached
        for rows in batches:
            yield from self._told(kernel.advance(self._work.records(rows, offset)))
            offset += len(rows)
        yield from self._told(kernel.advance(tick_record(watermark * MILLISECOND, offset)))
        put((self._asked, bucket), self._keeping.keep(running, offset + 1, f"{self._asked} {uuid4().hex}"))
        if not kernel.is_idle:
            self._handle.registerTimer(watermark + 1)

    def _told(self, notifications: pa.RecordBatch) -> Iterator[pd.DataFrame]:
        if len(notifications):
            yield self._work.matches(notifications).to_pandas()

    def _current(self, bucket: int) -> Running:
        """The bucket's kernel as the state says. Every state has a mark of its own, so that none is mistaken."""
        place = self._keeping.place()
        if not place.base:
            kernel = self._work.kernel(lateness=None)
            return Running(place, kernel, kernel.saved())
        if place.mark.split()[0] != self._asked:
            raise EngineError(
                "the checkpoint of this query belongs to another pattern, other columns or other buckets",
                advice="start the changed query with a new checkpointLocation",
            )
        running = take((self._asked, bucket))
        return running if running and running.place == place else self._loaded(place)

    def _loaded(self, place: Place) -> Running:
        saved = self._keeping.saved(place)
        return Running(place, Kernel.resumed(saved), saved)


def detect_arriving(rows: DataFrame, work: Work, buckets: int) -> DataFrame:
    """What rows mean, in rows of MATCHED; their time has a watermark."""
    processor = DetectArriving(work, buckets)
    return rows.groupBy(BUCKET).transformWithStateInPandas(processor, from_arrow_schema(MATCHED), "Append", "EventTime")
