"""Computes the notifications of a lake in this process and stores them, without listeners.

It is the embedded engine of `motet stream`, and what `motet notifications` runs before it reads the table.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Self

from motet.embedded.backend import InProcessBackend
from motet.embedded.delivery_loop import DeliveryLoop
from motet.jobs.heartbeat import Heartbeat
from motet.lake import Lake

log = logging.getLogger("motet")


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
