"""Requests and their repetition: a request is sent again until it is answered, with timeouts from measured round trips.

The timeout is the mean round trip plus four mean deviations (Jacobson), doubled with each attempt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from motet.overlay.protocol.messages import PeerMessage
from motet.overlay.protocol.node import MILLISECOND, SECOND, NodeProtocol, Timer

FIRST_TIMEOUT = 500 * MILLISECOND
MIN_TIMEOUT = 30 * MILLISECOND
MAX_TIMEOUT = 3 * SECOND
MAX_MEASURED = 1024


class RoundTrips:
    """Measured round trips by address: mean and mean deviation.

    >>> trips = RoundTrips()
    >>> trips.measure("b", 100_000)
    >>> trips.mean("b"), trips.timeout("b")
    (100000, 300000)
    """

    def __init__(self) -> None:
        self._measured: dict[str, tuple[int, int]] = {}

    def measure(self, address: str, duration: int) -> None:
        """Add one measurement; the oldest address is dropped beyond 1 024."""
        earlier = self._measured.pop(address, None)
        if earlier is None:
            self._measured[address] = (duration, duration // 2)
            if len(self._measured) > MAX_MEASURED:
                del self._measured[next(iter(self._measured))]
        else:
            mean, deviation = earlier
            difference = duration - mean
            self._measured[address] = (mean + difference // 8, deviation + (abs(difference) - deviation) // 4)

    def mean(self, address: str) -> int | None:
        """The mean round trip, or None if it was never measured."""
        measured = self._measured.get(address)
        return None if measured is None else measured[0]

    def timeout(self, address: str, attempt: int = 0) -> int:
        """How long to wait for an answer before the next attempt."""
        measured = self._measured.get(address)
        base = FIRST_TIMEOUT if measured is None else max(MIN_TIMEOUT, measured[0] + 4 * measured[1])
        return min(MAX_TIMEOUT, base << attempt)


class PendingRequest:
    """A request without an answer so far."""

    __slots__ = ("attempt", "attempts", "context", "failed", "first_sent", "message", "sent_at", "timed_out", "to")

    def __init__(self, to: str, message: PeerMessage, attempts: int, context: Any) -> None:
        self.to = to
        self.message = message
        self.attempts = attempts
        self.attempt = 0
        self.context = context
        self.sent_at = 0
        self.first_sent = 0
        self.failed: Callable[[PendingRequest], None] | None = None
        self.timed_out: Callable[[PendingRequest], bool] | None = None


class Requests:
    """The pending requests of one protocol. Their messages have a field `request`, which the answer repeats.

    A protocol passes its timers with a second element of "request" to `expired`.
    """

    def __init__(self, protocol: NodeProtocol, trips: RoundTrips) -> None:
        self._protocol = protocol
        self._counter = 0
        self.trips = trips
        self.pending: dict[int, PendingRequest] = {}

    def restart(self, now: int) -> None:
        """Number requests from the current time: answers to an earlier run of the node have lower numbers."""
        self._counter = max(now, self._counter)

    def next_number(self) -> int:
        """The number of the next request."""
        self._counter += 1
        return self._counter

    def send(
        self,
        number: int,
        to: str,
        message: PeerMessage,
        *,
        attempts: int,
        failed: Callable[[PendingRequest], None] | None = None,
        timed_out: Callable[[PendingRequest], bool] | None = None,
        context: Any = None,
    ) -> None:
        """Send a request up to `attempts` times; then call `failed`.

        `timed_out` is called after each attempt without an answer; if it returns False, the request is given up.
        """
        pending = PendingRequest(to, message, attempts, context)
        pending.failed = failed
        pending.timed_out = timed_out
        pending.first_sent = self._protocol.node.now
        self.pending[number] = pending
        self._attempt(number, pending)

    def answered(self, number: int, sender: str) -> PendingRequest | None:
        """Take a request from the pending ones because its answer has arrived; None if it is not pending."""
        pending = self.pending.get(number)
        if pending is None or pending.to != sender:
            return None
        del self.pending[number]
        node = self._protocol.node
        node.cancel_timer((self._protocol.name, "request", number))
        if pending.attempt == 1:  # the answer to a repeated request could belong to any attempt (Karn)
            self.trips.measure(sender, node.now - pending.sent_at)
        return pending

    def cancel(self, number: int) -> None:
        """Give up a request without calling `failed`."""
        if self.pending.pop(number, None) is not None:
            self._protocol.node.cancel_timer((self._protocol.name, "request", number))

    def expired(self, timer: Timer) -> None:
        """Repeat the request of a timer, or give it up."""
        number = timer[2]
        pending = self.pending.get(number)
        if pending is None:
            return
        if pending.timed_out is not None and not pending.timed_out(pending):
            self.pending.pop(number, None)
        elif pending.attempt < pending.attempts:
            self._attempt(number, pending)
        else:
            self.pending.pop(number, None)
            if pending.failed is not None:
                pending.failed(pending)

    def _attempt(self, number: int, pending: PendingRequest) -> None:
        node = self._protocol.node
        pending.sent_at = node.now
        node.send(pending.to, pending.message)
        node.set_timer(
            (self._protocol.name, "request", number), node.now + self.trips.timeout(pending.to, pending.attempt)
        )
        pending.attempt += 1
