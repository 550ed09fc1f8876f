"""A clock for tests, which moves only when a test sets it."""

from __future__ import annotations

from datetime import datetime, timedelta

from motet.model.errors import UsageError
from motet.model.settings import parse_setting_duration
from motet.model.times import Instant, to_datetime, to_micros


class FakeClock:
    """The ``clock`` of `motet.open` in a test.

    >>> clock = FakeClock("2026-11-15T10:00:00Z")
    >>> clock.advance("5 min")
    >>> clock().isoformat()
    '2026-11-15T10:05:00+00:00'
    """

    def __init__(self, now: Instant = "2000-01-01T00:00:00Z") -> None:
        self._micros = to_micros(now)

    def __call__(self) -> datetime:
        return to_datetime(self._micros)

    def set(self, now: Instant) -> None:
        """Set the clock to an instant, perhaps an earlier one."""
        self._micros = to_micros(now)

    def advance(self, duration: str | timedelta) -> None:
        """Move the clock by a duration: a text such as ``"10 s"``, or a `timedelta`."""
        if isinstance(duration, timedelta):
            self._micros += duration // timedelta(microseconds=1)
            return
        micros = parse_setting_duration(duration, "none") if isinstance(duration, str) else None
        if micros is None:
            raise UsageError(f"{duration!r} is not a duration", advice="Write '10 s', or give a timedelta.")
        self._micros += micros
