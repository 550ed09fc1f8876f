"""Pastry: a ring of nodes in which a message to a key reaches the node closest to it in O(log n) hops.

This file has the life cycle of a node, routing and queries; `membership.py` has the exchange of leaf sets and routing
tables that keeps both correct while nodes join, leave and fail.

After Rowstron and Druschel (2001), with what makes it dependable under churn: acknowledged hops with measured timeouts,
no delivery before all neighbours have answered, and repair that is periodic (Castro et al. 2004, Rhea et al. 2004).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from motet.overlay.protocol.identifiers import Contact, closeness, common_digits, format_identifier
from motet.overlay.protocol.membership import Membership
from motet.overlay.protocol.node import SECOND, PeerMessage, Timer
from motet.overlay.protocol.pastry_messages import (
    Acknowledgement,
    Delivered,
    Forward,
    Joined,
    JoinReply,
    JoinRequest,
    JoinRing,
    LeaveRing,
    Left,
    Lookup,
    LookupAnswered,
    LookupFailed,
    PastryInput,
    PastryState,
    Resumed,
    RingAnswer,
    RingQuery,
    Suspended,
)
from motet.overlay.protocol.requests import PendingRequest

JOIN_TIMEOUT = 6 * SECOND
QUERY_TIMEOUT = 5 * SECOND
QUERY_LIMIT = 60 * SECOND
LAST_HOP_ATTEMPTS = 5
MAX_HOPS = 64
MAX_RECENT = 256
MAX_HELD = 1024


HOLDING = (PastryState.CONFIRMING, PastryState.PREPARING, PastryState.SUSPENDED)
"""States in which messages for the node itself are held until it is active."""


class RingApplication:
    """What a protocol above Pastry may override; it registers with `Pastry.register`."""

    def answer(self, key: int, body: PeerMessage, origin: Contact, number: int) -> None:
        """RingAnswer a query for a key of this node, now or later, with `Pastry.reply`."""

    def deliver(self, key: int, payload: PeerMessage, origin: Contact) -> None:
        """Handle a routed message for a key of this node."""

    def forward(self, key: int, payload: PeerMessage, origin: Contact, next_hop: Contact) -> bool:
        """Handle a routed message on its way; False ends the way here."""
        return True

    def neighbours_changed(self) -> None:
        """The leaf set has changed, and with it perhaps the keys of this node."""

    def prepare(self, ready: Callable[[], None]) -> None:
        """Get what a new node needs before it is active, then call `ready`."""
        ready()

    def hand_over(self, ready: Callable[[], None]) -> None:
        """Give away what a leaving node has, then call `ready`."""
        ready()


@dataclass(slots=True)
class PendingQuery:
    """A query of this node without an answer so far."""

    key: int
    query: RingQuery
    started: int
    answered: Callable[[RingAnswer, int], None]
    failed: Callable[[], None]
    attempt: int = 0


class Pastry(Membership):
    """The Pastry protocol of one node.

    >>> from motet.overlay.protocol.node import PeerNode, Started
    >>> node = PeerNode("a", [Pastry(7)])
    >>> _ = node.handle(0, Started())
    >>> Joined() in node.handle(1, JoinRing())
    True
    """

    def __init__(self, identifier: int, *, leaf_size: int = 16) -> None:
        super().__init__(identifier, leaf_size)
        self.queries: dict[int, PendingQuery] = {}
        self.commands = {JoinRing: self._join_ring, LeaveRing: self._leave_ring, Lookup: self._look_up}
        self.receivers |= {
            Forward: self._receive_forward,
            Acknowledgement: self._receive_acknowledgement,
            RingAnswer: self._receive_answer,
            JoinReply: self._receive_join_reply,
        }
        self._applications: dict[type[PeerMessage], RingApplication] = {}
        self._layers: list[RingApplication] = []
        self._via: tuple[str, ...] = ()
        self._join_attempt = 0
        self._held: list[Forward] = []
        self._recent: dict[tuple[str, int], None] = {}

    # For the protocols above

    def register(self, application: RingApplication, payloads: Iterable[type[PeerMessage]]) -> None:
        """Pass queries and routed messages of these types to an application."""
        self._layers.append(application)
        self._applications |= dict.fromkeys(payloads, application)

    def route(self, key: int, payload: PeerMessage) -> None:
        """Send a message to the node responsible for a key. It may be lost if nodes fail on its way."""
        self._pass_on(Forward(request=0, key=key, hops=0, origin=self.own, payload=payload))

    def ask(
        self,
        key: int,
        body: PeerMessage | None,
        answered: Callable[[RingAnswer, int], None],
        failed: Callable[[], None],
    ) -> int:
        """Ask the node responsible for a key, again and again for a minute; return the number of the query."""
        number = self.requests.next_number()
        self.queries[number] = PendingQuery(key, RingQuery(number=number, body=body), self.node.now, answered, failed)
        self._send_query(number)
        return number

    def reply(self, origin: Contact, number: int, body: PeerMessage | None, *, hops: int = 0) -> None:
        """RingAnswer a query."""
        answer = RingAnswer(number=number, root=self.own, hops=hops, body=body)
        if origin == self.own:
            self._receive_answer(self.own.address, answer)
        else:
            self.node.send(origin.address, answer)

    def is_responsible(self, key: int) -> bool:
        """Whether no other contact of the leaf set is closer to a key."""
        return self.leaves.closest(key, self.own) is self.own

    # The life cycle

    def _join_ring(self, command: JoinRing) -> None:
        self._via = tuple([address for address in command.via if address != self.node.address])
        self.change(PastryInput.JOIN if self._via or self._persisted else PastryInput.BEGIN)

    def _leave_ring(self, _command: LeaveRing) -> None:
        self.change(PastryInput.LEAVE)

    def _request_join(self) -> None:
        via = self._via or self.persisted_addresses()
        if not via or (not self._via and self._join_attempt >= 2 * len(via)):
            self.change(PastryInput.BEGIN)  # no neighbour of an earlier run answers: they may all have restarted
            return
        address = via[self._join_attempt % len(via)]
        self._join_attempt += 1
        payload = JoinRequest(newcomer=self.own, depth=0, contacts=())
        number = self.requests.next_number()
        forward = Forward(request=number, key=self.identifier, hops=0, origin=self.own, payload=payload)
        self.requests.send(number, address, forward, attempts=2)
        self.node.set_timer(("pastry", "join"), self.node.now + JOIN_TIMEOUT)

    def _retry_join(self) -> None:
        self.node.set_timer(("pastry", "join"), self.node.now + JOIN_TIMEOUT)

    def _receive_join_reply(self, _sender: str, message: JoinReply) -> None:
        if self.state is PastryState.JOINING:
            self.node.cancel_timer(("pastry", "join"))
            self.begin_join(message.contacts, message.leaves)
            self.change(PastryInput.WELCOMED)

    def _confirm(self) -> None:
        self.confirm_neighbours()

    def _suspend(self) -> None:
        self.node.report(Suspended())
        self.confirm_neighbours()

    def _prepare(self) -> None:
        self._all_layers("prepare", PastryInput.PREPARED)

    def _depart(self) -> None:
        self.announce_departure(lambda: self._all_layers("hand_over", PastryInput.DEPARTED))

    def _all_layers(self, method: str, after: PastryInput) -> None:
        pending = set(range(len(self._layers)))

        def finish(index: int) -> None:
            if index in pending:
                pending.remove(index)
                if not pending:
                    self.change(after)

        if not pending:
            self.change(after)
        for index, layer in enumerate(self._layers):
            getattr(layer, method)(lambda index=index: finish(index))

    def _activate(self) -> None:
        self.settle()
        self.node.report(Joined())
        self._release()

    def _resume(self) -> None:
        self.node.report(Resumed())
        self._release()

    def _stop(self) -> None:
        for number in list(self.requests.pending):
            self.requests.cancel(number)
        self.stop_ticks()
        self.node.report(Left())

    def _release(self) -> None:
        held, self._held = self._held, []
        for forward in held:
            self._pass_on(forward)

    def neighbours_changed(self) -> None:
        """Tell the protocols above of another leaf set."""
        for layer in self._layers:
            layer.neighbours_changed()

    def expired(self, timer: Timer) -> None:
        if timer[1] == "request":
            self.requests.expired(timer)
        elif timer[1] == "tick":
            self.tick()
        elif timer[1] == "query":
            self._send_query(timer[2])
        elif timer[1] == "join":
            self.change(PastryInput.JOIN)

    # Queries

    def _look_up(self, command: Lookup) -> None:
        node = self.node

        def answered(answer: RingAnswer, duration: int) -> None:
            node.report(
                LookupAnswered(tag=command.tag, key=command.key, root=answer.root, hops=answer.hops, duration=duration)
            )

        self.ask(command.key, None, answered, lambda: node.report(LookupFailed(tag=command.tag, key=command.key)))

    def _send_query(self, number: int) -> None:
        pending = self.queries.get(number)
        if pending is None:
            return
        elapsed = self.node.now - pending.started
        if elapsed >= QUERY_LIMIT:
            del self.queries[number]
            pending.failed()
            return
        delay = min(QUERY_TIMEOUT << pending.attempt, QUERY_LIMIT - elapsed)
        pending.attempt += 1
        self.node.set_timer(("pastry", "query", number), self.node.now + delay)
        self.route(pending.key, pending.query)

    def _receive_answer(self, _sender: str, message: RingAnswer) -> None:
        pending = self.queries.pop(message.number, None)
        if pending is not None:
            self.node.cancel_timer(("pastry", "query", message.number))
            pending.answered(message, self.node.now - pending.started)

    # Routing

    def _receive_forward(self, sender: str, message: Forward) -> None:
        if self.state in (PastryState.IDLE, PastryState.JOINING, PastryState.LEFT):
            return
        self.node.send(sender, Acknowledgement(request=message.request))
        mark = (sender, message.request)
        if mark in self._recent:
            return
        self._recent[mark] = None
        if len(self._recent) > MAX_RECENT:
            del self._recent[next(iter(self._recent))]
        if message.hops > MAX_HOPS:
            self.node.counts["pastry.dropped after too many hops"] += 1
            return
        if type(message.payload) is JoinRequest:
            message = self._add_rows(message, message.payload)
        self._pass_on(message)

    def _pass_on(self, forward: Forward) -> None:
        """Deliver a message here or send it to the next hop."""
        hop, is_last = self.next_hop(forward.key, self._excluded(forward.payload))
        if hop is self.own:
            self._deliver(forward)
            return
        application = self._applications.get(type(forward.payload))
        if application is not None and not application.forward(forward.key, forward.payload, forward.origin, hop):
            return
        number = self.requests.next_number()
        message = Forward(
            request=number,
            key=forward.key,
            hops=forward.hops + 1,
            origin=forward.origin,
            payload=forward.payload,
        )
        self.requests.send(
            number,
            hop.address,
            message,
            attempts=LAST_HOP_ATTEMPTS,
            timed_out=self._hop_timed_out,
            failed=self._hop_failed,
            context=(hop, is_last, forward),
        )

    def next_hop(self, key: int, excluded: int | None = None) -> tuple[Contact, bool]:
        """The contact to which a message for a key goes next, and whether it is the one responsible for the key.

        A contact that did not acknowledge lately is avoided on the way, but not at its end: delivering to the second
        closest node would be wrong while the closest is alive.
        """
        own = self.own
        leaves = self.leaves
        if excluded is None and self.state is not PastryState.LEAVING:
            if leaves.covers(key):
                return leaves.closest(key, own), True
            contact = self.table.get(key)
            if contact is not None and contact.address not in self.suspects:
                return contact, False
        return self._next_hop_among_all(key, excluded)

    def _next_hop_among_all(self, key: int, excluded: int | None) -> tuple[Contact, bool]:
        is_leaving = self.state is PastryState.LEAVING
        contacts = [contact for contact in (*self.leaves, *self.table) if contact.identifier != excluded]
        if not is_leaving or not contacts:
            contacts.append(self.own)
        best = min(contacts, key=lambda contact: closeness(contact.identifier, key))
        if best is self.own or (best in self.leaves and self.leaves.covers(key)):
            return best, True
        prefix = common_digits(self.identifier, key)
        limit = closeness(self.identifier, key)
        suspects = self.suspects
        usable = [
            contact
            for contact in contacts
            if contact.address not in suspects
            and (closeness(contact.identifier, key) < limit or is_leaving)
            and common_digits(contact.identifier, key) >= prefix
        ]
        if usable:
            return max(
                usable, key=lambda c: (common_digits(c.identifier, key), -closeness(c.identifier, key)[0])
            ), False
        return best, True

    def _excluded(self, payload: PeerMessage) -> int | None:
        return payload.newcomer.identifier if type(payload) is JoinRequest else None

    def _add_rows(self, message: Forward, payload: JoinRequest) -> Forward:
        depth = common_digits(self.identifier, payload.newcomer.identifier) + 1
        contacts = [c for row in range(max(0, payload.depth), depth) for c in self.table.row(row)]
        request = JoinRequest(
            newcomer=payload.newcomer,
            depth=max(depth, payload.depth),
            contacts=(*payload.contacts, self.own, *[c for c in contacts if c.address != payload.newcomer.address]),
        )
        return Forward(
            request=message.request, key=message.key, hops=message.hops, origin=message.origin, payload=request
        )

    def _hop_timed_out(self, pending: PendingRequest) -> bool:
        hop, is_last, forward = pending.context
        self.suspect(hop, is_probed=not is_last)
        if is_last and self.next_hop(forward.key, self._excluded(forward.payload))[0] == hop:
            return True
        self._pass_on(forward)
        return False

    def _hop_failed(self, pending: PendingRequest) -> None:
        hop, _, forward = pending.context
        self.fail(hop)
        self._pass_on(forward)

    def _receive_acknowledgement(self, sender: str, message: Acknowledgement) -> None:
        if self.requests.answered(message.request, sender) is not None:
            self.note_message_from(sender)

    def _deliver(self, forward: Forward) -> None:
        self.check_schedule()
        if self.state in HOLDING:
            if len(self._held) < MAX_HELD:
                self._held.append(forward)
            return
        payload = forward.payload
        if type(payload) is RingQuery:
            self.node.report(
                Delivered(key=forward.key, origin=forward.origin, number=payload.number, hops=forward.hops)
            )
            if payload.body is None:
                self.reply(forward.origin, payload.number, None, hops=forward.hops)
            elif (application := self._applications.get(type(payload.body))) is not None:
                application.answer(forward.key, payload.body, forward.origin, payload.number)
            else:
                self.node.counts["pastry.unexpected"] += 1
        elif type(payload) is JoinRequest:
            reply = JoinReply(contacts=payload.contacts, leaves=(*self.leaves.contacts, self.own))
            self.node.send(payload.newcomer.address, reply)
        elif (application := self._applications.get(type(payload))) is not None:
            application.deliver(forward.key, payload, forward.origin)
        else:
            self.node.counts["pastry.unexpected"] += 1

    # For people

    def statistics(self) -> dict[str, int]:
        """Sizes of the leaf set and the routing table, and what is pending."""
        return {
            "leaves": len(self.leaves),
            "table": len(self.table),
            "suspects": len(self.suspects),
            "requests": len(self.requests.pending),
            "queries": len(self.queries),
            "held": len(self._held),
        }

    def describe(self) -> dict[str, Any]:
        """The node's identifier, state and leaf set, as text."""
        return {
            "identifier": format_identifier(self.identifier),
            "state": self.state.value,
            "leaves": [format_identifier(contact.identifier) for contact in self.leaves],
        }
