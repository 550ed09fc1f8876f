"""What a host does for a live lake beside its records: the heartbeat, and zones.

The heartbeat moves the frontier by ticks when occurrences are final by the clock and no event does. A process that goes
on listening or computing has one for each lake. A tick is appended only directly after the records it was computed
from, so several processes may have a heartbeat for one lake. Zones are built so that queries stay quick without
`motet compact`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from motet.lake import Lake, Snapshot
from motet.model.errors import MotetError
from motet.model.records import Tick
from motet.model.times import format_duration

#: The greatest instant, not after a bound, at which something pending is final; None if there is none.
Waiting = Callable[[int], int | None]

log = logging.getLogger("motet")


class Heartbeat:
    """Appends ticks to one lake; on Spark the default duration is longer."""

    def __init__(self, lake: Lake, *, spark: bool = False, report: Callable[[str], object] = log.warning) -> None:
        self._lake = lake
        self._report = report
        self._is_on_spark = spark
        self._frontier: int | None = None
        self._since: int | None = None  # when the frontier was first seen, by the lake's clock
        self._next = 0  # when pending occurrences are looked up again
        self._has_warned = False

    def beat(self, processed_to: int, waiting: Waiting) -> bool:
        """Append a tick if one is due after the records below ``processed_to``; called several times a second."""
        snapshot, now = self._lake.cached_snapshot(), self._lake.clock()
        lateness, duration = snapshot.settings.lateness, snapshot.settings.heartbeat_on(spark=self._is_on_spark)
        if lateness is None or duration is None or snapshot.next_offset != processed_to:
            return False
        if not self._is_resting(snapshot, now, duration):
            return False
        if self._has_warned and not snapshot.is_live:
            return False
        instant = waiting(now - lateness)
        if instant is None or (snapshot.frontier is not None and instant <= snapshot.frontier):
            return False
        if not snapshot.is_live:
            self._has_warned = True
            self._report(not_live_text(snapshot))
            return False
        is_appended = self._lake.append_controls([Tick(instant)], at=processed_to) is not None
        if is_appended:
            self._start_rest(instant, now, duration)
        return is_appended

    def _is_resting(self, snapshot: Snapshot, now: int, duration: int) -> bool:
        """Whether the frontier has not moved for a duration; after that, true once per half the duration."""
        if self._since is None or self._since > now or snapshot.frontier != self._frontier:
            self._start_rest(snapshot.frontier, now, duration)
        if now < self._next:
            return False
        self._next = now + duration // 2
        return True

    def _start_rest(self, frontier: int | None, now: int, duration: int) -> None:
        self._frontier, self._since, self._next = frontier, now, now + duration


def not_live_text(snapshot: Snapshot) -> str:
    """Says that a log is not live, and what that means for occurrences that wait for the frontier."""
    lateness = snapshot.settings.lateness
    if lateness is None:
        return f"{snapshot.store.root} has unlimited lateness: only ticks make pending occurrences final"
    return (
        f"{snapshot.store.root} is not live: its newest events ended more than {format_duration(lateness)}, the "
        "lateness, before they were published. Pending occurrences become final by later events or by `motet tick`"
    )


ZONE_RECORDS = 50_000  # that are in no zone when zones are built
LIVE_ZONE_ROWS = 1_000_000  # triples that are merged at once; `motet compact` merges more


class ZoneBuilding:
    """Brings new events of a lake into zones, in a thread of its own."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._thread: threading.Thread | None = None

    def start_if_due(self, stop: int) -> None:
        """Start a build if enough records below ``stop`` are in no zone, unless one runs."""
        is_running = self._thread is not None and self._thread.is_alive()
        if not is_running and stop - self._lake.cached_snapshot().zones_end >= ZONE_RECORDS:
            self._thread = threading.Thread(target=self._build, name="motet-zones", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Wait for the build that runs."""
        if self._thread is not None:
            self._thread.join()

    def _build(self) -> None:
        try:
            self._lake.build_zones(most_merged=LIVE_ZONE_ROWS)
        except MotetError:  # queries read the log instead, and it is tried again after the next records
            log.exception("zones could not be built")
