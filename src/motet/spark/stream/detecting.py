"""Behind the shuffle: each bucket of a lake has a kernel, which outlives the batches as state of the query.

State is a base and the deltas since, so that a batch writes what it changed. A process keeps the kernels it has, and
goes on with one only if it stands where the state says; else it reads the state.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import astuple, dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from motet.engine.buckets import Buckets
from motet.engine.detect.saving import Saved, apply, delta
from motet.engine.kernel import Kernel
from motet.spark.stream.payload import notifications, packed, records, unpacked
from motet.spark.stream.view import View, view_of

if TYPE_CHECKING:
    import pandas as pd

TOLD = pa.schema(
    [
        pa.field("lake", pa.string(), nullable=False),
        pa.field("first", pa.int64(), nullable=False),
        pa.field("stop", pa.int64(), nullable=False),
        pa.field("told", pa.binary()),  # NOTIFICATIONS, packed; none: nothing
    ]
)

PLACE = "reached long, base long, deltas long, changed long, fed string"
DELTAS = 24  # of one base at most
KERNELS = 4096  # in one process at most

Key = tuple[str, int]  # lake and bucket


@dataclass(frozen=True)
class Place:
    """Where the state of a bucket stands."""

    reached: int = 0  # all records below are read
    base: int = 0  # bytes
    deltas: int = 0  # how many follow the base
    changed: int = 0  # bytes of all of them
    fed: str = "[]"  # as JSON: the subscriptions that are taken for feeding each other


@dataclass
class Running:
    """A kernel in this process, and what of it is in the state."""

    place: Place
    kernel: Kernel
    saved: Saved


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
        events = [unpacked(row.events) for row in rows if row.events is not None]
        told = [unpacked(row.told) for row in rows if row.told is not None]
        return cls(int(rows[0].first), int(rows[0].stop), events, told)


_running: dict[Key, Running] = {}


class Detecting(StatefulProcessor):
    """Rows of ROUTED to rows of TOLD."""

    def __init__(self, count: int) -> None:
        self._count = count  # of buckets

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._place = handle.getValueState("place", PLACE)
        self._base = handle.getValueState("base", "data binary")
        self._deltas = handle.getListState("deltas", "data binary")

    def handleInputRows(  # noqa: N802  (Spark's name)
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: object,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        import pandas as pd  # noqa: PLC0415  (heavy)

        lake, bucket = str(key[0]), int(key[1])
        news = News.of(rows)
        found = [batch for batch in [*news.told, self._advanced((lake, bucket), news)] if len(batch)]
        payload = packed(notifications(found)) if found else None
        yield pd.DataFrame({"lake": [lake], "first": [news.first], "stop": [news.stop], "told": [payload]})

    def _advanced(self, key: Key, news: News) -> pa.RecordBatch:
        """What the kernel of a bucket makes of a batch; the state follows it."""
        view = view_of(key[0])
        running = self._current(key, view, view.buckets(self._count, news.stop), news.first)
        reached = running.place.reached
        controls = view.controls(reached, news.stop)
        if not news.events and not len(controls) and running.kernel.is_idle:
            return notifications([])
        own = records([controls, *news.events])
        told = running.kernel.advance(own, view.course(reached, news.stop))
        self._keep(key, running, news.stop)
        return told

    def _current(self, key: Key, view: View, buckets: Buckets, first: int) -> Running:
        """The bucket's kernel as the state says, ready for subscriptions that are spread like this."""
        place = Place(*(self._place.get() or ()))
        running = _running.get(key)
        if running is None or running.place != place:
            running = self._loaded(key, view, place)
        before = frozenset(json.loads(place.fed))
        if before != buckets.fed:
            if (buckets.fed - before) & view.subscribed(place.reached):
                running.kernel = _anew(key, view, buckets, place.reached)
            running.kernel.reroute(buckets)
        return running

    def _loaded(self, key: Key, view: View, place: Place) -> Running:
        buckets = Buckets(self._count, frozenset(json.loads(place.fed)))
        if not place.base:
            kernel = _anew(key, view, buckets, 0)
            return Running(place, kernel, kernel.saved())
        (base,) = self._base.get() or (b"",)
        deltas = [data for (data,) in self._deltas.get()] if place.deltas else []
        saved = apply(base, deltas)
        kernel = Kernel.resumed(saved, history=view.history, buckets=buckets, bucket=key[1])
        return Running(place, kernel, saved)

    def _keep(self, key: Key, running: Running, reached: int) -> None:
        """Write what has changed; everything, when the changes have become more than what they change."""
        saved, before = running.kernel.saved(), running.place
        fed = json.dumps(sorted(running.kernel.buckets.fed if running.kernel.buckets else ()))
        change = delta(running.saved, saved) if before.base else b""
        if not before.base or before.deltas >= DELTAS or before.changed + len(change) > before.base:
            place = Place(reached, len(saved.data), 0, 0, fed)
            self._base.update((saved.data,))
            self._deltas.clear()
        else:
            place = Place(reached, before.base, before.deltas + 1, before.changed + len(change), fed)
            self._deltas.appendValue((change,))
        self._place.update(astuple(place))
        _running.pop(key, None)
        _running[key] = Running(place, running.kernel, saved)
        if len(_running) > KERNELS:
            del _running[next(iter(_running))]


def _anew(key: Key, view: View, buckets: Buckets, stop: int) -> Kernel:
    """A kernel that has read the log up to an offset by itself: what it would have told, others have."""
    kernel = Kernel(lateness=view.lateness, history=view.history, buckets=buckets, bucket=key[1])
    for batch in view.history(stop):
        kernel.advance(batch)
    return kernel
