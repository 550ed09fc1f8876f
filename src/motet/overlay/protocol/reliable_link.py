"""Acknowledged messages between two nodes: sent again until acknowledged, handled once, or reported as failed.

Protocols that need it send through `ReliableLink.send` and register their receivers in `ReliableLink.handlers`. A
handler that returns False refuses a message: it is not acknowledged. Order is not guaranteed. Round trips are measured
on messages that were sent once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from motet.overlay.protocol.messages import PeerMessage, peer_message
from motet.overlay.protocol.node import MILLISECOND, NodeProtocol, Timer

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
