"""Repetition: requests are sent again until they are answered, numbered messages until they are acknowledged.

The timeout is the mean round trip plus four mean deviations (Jacobson), doubled with each attempt. Round trips are
measured on messages that were sent once.

Protocols that send messages without an answer use `ReliableLink.send` and register their receivers in
`ReliableLink.handlers`: a message is handled once, or reported as failed. A handler that returns False refuses a
message: it is not acknowledged. Order is not guaranteed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from motet.overlay.protocol.node import MILLISECOND, SECOND, NodeProtocol, PeerMessage, Timer, peer_message

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


# Acknowledged messages


MAX_NUMBERS = 1024  # of one sender, for finding repetitions
MAX_SENDERS = 4096
FIRST_WAIT = 400 * MILLISECOND  # doubled for every attempt


@peer_message
class NumberedMessage(PeerMessage):
    """A message that is to be acknowledged."""

    sequence: int
    body: PeerMessage


@peer_message
class NumberedReceived(PeerMessage):
    """The acknowledgement: the message was handled, now or before."""

    sequence: int


@dataclass(slots=True)
class _Outgoing:
    to: str
    body: PeerMessage
    attempts: int
    sent_at: int
    attempt: int
    acknowledged: Callable[[], None] | None
    failed: Callable[[], None] | None


class ReliableLink(NodeProtocol):
    """Sends messages of other protocols until they are acknowledged."""

    name = "link"

    def __init__(self) -> None:
        super().__init__()
        self.receivers = {NumberedMessage: self._numbered, NumberedReceived: self._received}
        self.handlers: dict[type[PeerMessage], Callable[[str, Any], bool | None]] = {}
        self.round_trips: OrderedDict[str, int] = OrderedDict()
        self._outgoing: dict[int, _Outgoing] = {}
        self._handled: OrderedDict[str, OrderedDict[int, None]] = OrderedDict()
        self._sequence = 0

    def send(
        self,
        to: str,
        body: PeerMessage,
        *,
        attempts: int = 5,
        acknowledged: Callable[[], None] | None = None,
        failed: Callable[[], None] | None = None,
    ) -> None:
        """Send a message; call `acknowledged` when it was handled, or `failed` when no attempt was acknowledged."""
        self._sequence = max(self._sequence + 1, self.node.now)  # grows across restarts, too
        outgoing = _Outgoing(to, body, attempts, self.node.now, 0, acknowledged, failed)
        self._outgoing[self._sequence] = outgoing
        self._send(self._sequence, outgoing)

    def expired(self, timer: Timer) -> None:
        outgoing = self._outgoing.get(timer[1])
        if outgoing is None:
            return
        outgoing.attempt += 1
        if outgoing.attempt < outgoing.attempts:
            self._send(timer[1], outgoing)
            return
        del self._outgoing[timer[1]]
        self.node.counts["link.failed"] += 1
        if outgoing.failed is not None:
            outgoing.failed()

    def statistics(self) -> dict[str, int]:
        return {"unacknowledged": len(self._outgoing), "senders": len(self._handled)}

    def _send(self, sequence: int, outgoing: _Outgoing) -> None:
        self.node.send(outgoing.to, NumberedMessage(sequence=sequence, body=outgoing.body))
        self.node.set_timer((self.name, sequence), self.node.now + (FIRST_WAIT << outgoing.attempt))

    def _numbered(self, sender: str, message: NumberedMessage) -> None:
        handler = self.handlers.get(type(message.body))
        if handler is None:
            self.node.counts["unexpected"] += 1
            return
        handled = self._handled.setdefault(sender, OrderedDict())
        self._handled.move_to_end(sender)
        if message.sequence in handled:
            self.node.counts["link.repeated"] += 1
            self.node.send(sender, NumberedReceived(sequence=message.sequence))
            return
        if handler(sender, message.body) is False:
            return
        self.node.send(sender, NumberedReceived(sequence=message.sequence))
        handled[message.sequence] = None
        if len(handled) > MAX_NUMBERS:
            handled.popitem(last=False)
        if len(self._handled) > MAX_SENDERS:
            self._handled.popitem(last=False)

    def _received(self, sender: str, message: NumberedReceived) -> None:
        outgoing = self._outgoing.get(message.sequence)
        if outgoing is None or outgoing.to != sender:
            return
        del self._outgoing[message.sequence]
        self.node.cancel_timer((self.name, message.sequence))
        if outgoing.attempt == 0:
            measured = self.node.now - outgoing.sent_at
            earlier = self.round_trips.get(sender, measured)
            self.round_trips[sender] = (7 * earlier + measured) // 8
            if len(self.round_trips) > MAX_SENDERS:
                self.round_trips.popitem(last=False)
        if outgoing.acknowledged is not None:
            outgoing.acknowledged()
