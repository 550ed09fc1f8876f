"""Graceful shutdown on a signal: a command finishes the work in progress, then prints its summary."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def graceful_shutdown() -> Iterator[threading.Event]:
    """An event that Ctrl-C or SIGTERM sets; a second Ctrl-C interrupts at once."""
    stop_requested = threading.Event()

    def request_stop(signal_number: int, frame: FrameType | None) -> None:
        stop_requested.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    previous = {name: signal.signal(name, request_stop) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop_requested
    finally:
        for name, handler in previous.items():
            signal.signal(name, handler)
