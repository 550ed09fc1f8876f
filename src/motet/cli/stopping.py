"""How a command that goes on for ever is asked to stop: it finishes what it has begun, then reports."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def until_asked_to_stop() -> Iterator[threading.Event]:
    """An event that Ctrl-C or a SIGTERM sets; a second Ctrl-C interrupts at once."""
    asked = threading.Event()

    def ask(number: int, frame: FrameType | None) -> None:
        asked.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
