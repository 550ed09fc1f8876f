"""Builds zones in a process that runs for long, so that queries of its lake stay quick without `motet compact`."""

from __future__ import annotations

import logging
import threading

from motet.lake import Lake
from motet.model.errors import MotetError

ZONE_RECORDS = 50_000  # that are in no zone when zones are built
LIVE_ZONE_ROWS = 1_000_000  # triples that are merged at once; `motet compact` merges more

log = logging.getLogger("motet")


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
