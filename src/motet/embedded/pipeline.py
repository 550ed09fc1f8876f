"""The pipeline of `motet stream --engine embedded`: computes the notifications of lakes without Spark."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import Self

import pyarrow.compute as pc

from motet.embedded.backend import InProcessBackend
from motet.embedded.delivery_loop import DeliveryLoop
from motet.jobs.stream_progress import BatchProgress, LakeStatus, NotificationCounts, ProgressObserver, lake_status
from motet.jobs.upkeep import Heartbeat
from motet.lake import Lake, Snapshot
from motet.lake.store import hold_lock

POLL_SECONDS = 0.2
PENDING_SECONDS = 1.0  # between two counts of what is pending, which cost as much as a batch
LOCK = "pipeline/embedded.lock"
TOTALS = ("batches", "records", "events", "late", "stamped", "notifications")


# One lake; it is also what `motet notifications` runs before it reads the table


log = logging.getLogger("motet")


class EmbeddedPipeline:
    """Processes the records of some lakes as they are appended; a batch is what one look at a lake finds."""

    def __init__(
        self,
        lakes: Sequence[Lake],
        *,
        observers: Sequence[ProgressObserver] = (),
        report: Callable[[str], object] = log.warning,
    ) -> None:
        self.totals: dict[str, int] = dict.fromkeys(TOTALS, 0)
        self.status: list[LakeStatus] = []  # of the lakes, at the last look
        self._lakes = lakes
        self._observers = observers
        self._report = report

    def run(self, stop_requested: threading.Event, *, once: bool = False) -> None:
        """Run until a stop is requested; with ``once``, until the records appended so far are processed."""
        with self._streams() as streams:
            counts = [NotificationCounts(lake) for lake in self._lakes]
            looked_at, pending = -math.inf, list[tuple[int, int | None]]()
            while True:
                batches = [batch for stream in streams if (batch := self._process(stream, once=once))]
                now = time.monotonic()
                if now - looked_at >= PENDING_SECONDS:
                    looked_at, pending = now, [stream.pending() for stream in streams]
                lakes = [
                    lake_status(stream.lake, pending=waiting, notifications=counted)
                    for stream, waiting, counted in zip(streams, pending, counts, strict=True)
                ]
                self._report_progress(batches, lakes)
                if once or stop_requested.wait(POLL_SECONDS):
                    return

    @contextmanager
    def _streams(self) -> Iterator[list[LakeStream]]:
        """The lakes, each of which is processed by one such pipeline at a time."""
        with ExitStack() as stack:
            for lake in self._lakes:
                stack.enter_context(
                    hold_lock(
                        lake.store,
                        LOCK,
                        f"the lake {lake.store.root}",
                        advice="Stop that one first; `motet notifications` reads what it computes.",
                    )
                )
            yield [stack.enter_context(LakeStream(lake, self._report)) for lake in self._lakes]

    def _process(self, stream: LakeStream, *, once: bool) -> BatchProgress | None:
        """The figures of one look at a lake; None if there was nothing new."""
        at, started = datetime.now(UTC), time.perf_counter()
        first = stream.processed_to
        stream.process() if once else stream.follow()
        stop = stream.processed_to
        if stop <= first:
            return None
        snapshot = stream.lake.cached_snapshot()
        events, late, stamped = _counts(snapshot, first, stop)
        self.totals["batches"] += 1
        return BatchProgress(
            number=self.totals["batches"] - 1,
            at=at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            seconds=time.perf_counter() - started,
            records=stop - first,
            events=events,
            late=late,
            stamped=stamped,
            notifications=sum(batch.num_rows for batch in snapshot.notifications(first)),
        )

    def _report_progress(self, batches: Sequence[BatchProgress], lakes: list[LakeStatus]) -> None:
        self.status = lakes
        for observer in self._observers:
            observer.set_lake_status(lakes)
        for batch in batches:
            for observer in self._observers:
                observer.add_batch(batch, lakes)
            for name in TOTALS[1:]:
                self.totals[name] += getattr(batch, name)


def _counts(snapshot: Snapshot, first: int, stop: int) -> tuple[int, int, int]:
    """The numbers of events, of late and of stamped ones among the records of a range."""
    counts = [0, 0, 0]
    for records in snapshot.records(first, stop, ["kind", "late", "stamped"]):
        counts[0] += pc.sum(pc.equal(records.column("kind"), "event")).as_py() or 0
        counts[1] += records.column("late").true_count
        counts[2] += records.column("stamped").true_count
    return counts[0], counts[1], counts[2]


class LakeStream:
    """The notifications of one lake, computed and stored as records are appended."""

    def __init__(self, lake: Lake, report: Callable[[str], object] = log.warning) -> None:
        self.lake = lake
        heartbeat = Heartbeat(lake, report=report)
        self._loop = DeliveryLoop(lake, partial(InProcessBackend, lake), heartbeat, threaded=False)

    @property
    def processed_to(self) -> int:
        """The offset up to which records are processed and their notifications stored."""
        return self._loop.current_offset(self.lake.cached_snapshot())

    def process(self) -> None:
        """Compute and store the notifications of the records appended so far."""
        self._loop.flush()

    def follow(self) -> None:
        """The same; if there are no new records, append a tick when the heartbeat of the lake is due."""
        self._loop.follow()
        self._loop.flush()

    def pending(self) -> tuple[int, int | None]:
        """The number of notifications that wait for the frontier, and the greatest instant they wait for."""
        with self._loop.lock:
            return self._loop.backend.pending()

    def close(self) -> None:
        """Store the state, so that the next process need not compute it again."""
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
