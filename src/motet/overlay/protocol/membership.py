"""How a Pastry node learns who is there: exchange of leaf sets and rows, detection of failures, and repair.

Repair is periodic: a node exchanges leaf sets with one member, and probes one entry of its routing table; it does so
more often for some rounds after a change. A contact enters the leaf set only after a message of its own, and is
removed after a request without any answer. Removed members are probed from time to time: after a partition this joins
the rings again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from motet.overlay.protocol.identifiers import MASK, Contact, common_digits, jitter
from motet.overlay.protocol.neighbours import LeafSet, RoutingTable
from motet.overlay.protocol.node import SECOND, NodeProtocol, PeerMessage
from motet.overlay.protocol.pastry_messages import (
    TRANSITIONS,
    Departure,
    DepartureReply,
    LeafProbe,
    LeafReply,
    PastryInput,
    PastryState,
    TableProbe,
    TableReply,
)
from motet.overlay.protocol.requests import PendingRequest, Requests, RoundTrips

TICK = 4 * SECOND
STALL = 3 * SECOND  # a tick that is late by this shows that the node had no processor
LEAF_PERIOD = 20 * SECOND
TABLE_PERIOD = 15 * SECOND
LOST_PERIOD = 60 * SECOND
MAX_LOST_PERIOD = 600 * SECOND
PERSIST_PERIOD = 120 * SECOND
FRESH = 60 * SECOND  # an entry of the routing table that answered since then is not probed
HEARSAY_PERIOD = 120 * SECOND  # how long a failed contact is not taken from others again
GOSSIP_PERIOD = 60 * SECOND
FAST_ROUNDS = 1
LEAF_ATTEMPTS = 5
HEARSAY_ATTEMPTS = 2
TABLE_ATTEMPTS = 3
MAX_FAILED = 64
MAX_LOST = 32
MAX_PEERS_NOTED = 1024
MAX_GOSSIP = 8
MAX_CONTACTS = 512


class Membership(NodeProtocol):
    """The leaf set and routing table of a node and their upkeep."""

    name = "pastry"

    def __init__(self, identifier: int, leaf_size: int) -> None:
        super().__init__()
        self.identifier = identifier
        self.own = Contact(identifier, "")
        self.state = PastryState.IDLE
        self.trips = RoundTrips()
        self.requests = Requests(self, self.trips)
        self.leaves = LeafSet(identifier, leaf_size)
        self.table = RoutingTable(identifier)
        self.suspects: dict[str, None] = {}
        self.receivers: dict[type[PeerMessage], Callable[[str, Any], None]] = {
            LeafProbe: self._receive_leaf_probe,
            LeafReply: self._receive_leaf_reply,
            TableProbe: self._receive_table_probe,
            TableReply: self._receive_table_reply,
            Departure: self._receive_departure,
            DepartureReply: self._receive_departure_reply,
        }
        self._last_message_at: dict[str, int] = {}
        self._failed: dict[str, tuple[Contact, int]] = {}
        self._lost: dict[str, tuple[Contact, int, int]] = {}
        self._probed: dict[str, int] = {}
        self._candidates: deque[Contact] = deque(maxlen=32)
        self._merged: dict[str, tuple[tuple[Contact, ...], tuple[Contact, ...]]] = {}
        self._persisted: tuple[Contact, ...] = ()
        self._fast = 0
        self._round = 0
        self._tick_due = 0
        self._next_exchange = 0
        self._next_table = 0
        self._next_lost = 0
        self._next_persist = 0
        self._after_departure: Callable[[], None] | None = None

    # For Pastry

    @property
    def is_active(self) -> bool:
        """Whether the node answers for its keys."""
        return self.state is PastryState.ACTIVE

    @property
    def is_departing(self) -> bool:
        """Whether the node gives its keys away."""
        return self.state in (PastryState.LEAVING, PastryState.LEFT)

    def change(self, change: PastryInput) -> bool:
        """Go to the next state by the table of transitions; False if the input has no effect in this state."""
        transition = TRANSITIONS.get((self.state, change))
        if transition is None:
            return False
        action, self.state = transition
        self.node.record("state", "%s: %s", change.value, self.state.value)
        getattr(self, action)()
        return True

    def neighbours_changed(self) -> None:
        """The leaf set has changed."""

    def started(self, disk: Mapping[str, bytes]) -> None:
        """Restore the addresses of earlier neighbours and start ticking."""
        self.own = Contact(self.identifier, self.node.address)
        self.requests.restart(self.node.now)
        now = self.node.now
        for line in disk.get("pastry.peers", b"").decode().splitlines():
            identifier, _, address = line.partition(" ")
            contact = Contact(int(identifier, 16), address)
            self._persisted += (contact,)
            self._lost[address] = (contact, now + LOST_PERIOD, LOST_PERIOD)
        spread = jitter(self.identifier, 0, TICK)
        self._next_table = now + spread + jitter(self.identifier, 1, TABLE_PERIOD)
        self._next_exchange = now + spread + jitter(self.identifier, 2, LEAF_PERIOD)
        self._set_tick(now + spread)

    def persisted_addresses(self) -> tuple[str, ...]:
        """The addresses of neighbours: those of now, or those of an earlier run."""
        return tuple([contact.address for contact in self.leaves or self._persisted])

    def install(self, leaves: list[Contact], table: list[Contact]) -> None:
        """Begin with contacts that are correct already, for studies of large networks."""
        for contact in leaves:
            self.leaves.add(contact)
        for contact in table:
            self.table.set(contact)

    def begin_join(self, contacts: tuple[Contact, ...], leaves: tuple[Contact, ...]) -> None:
        """Take over what the nodes on the way to the node's identifier sent. Nobody is confirmed yet."""
        self._failed.clear()
        for contact in (*contacts, *leaves)[:MAX_CONTACTS]:
            if contact.address != self.own.address and self.table.get(contact.identifier) is None:
                self._set_entry(contact)
        self._consider(leaves)

    def confirm_neighbours(self) -> None:
        """Probe the whole leaf set; the node goes on when no probe is pending."""
        for contact in self.leaves.contacts:
            self._probe_leaf(contact)
        self._check_confirmed()

    def settle(self) -> None:
        """Exchange leaf sets and rows often for some rounds."""
        self._fast = max(self._fast, FAST_ROUNDS)

    def stop_ticks(self) -> None:
        """Cancel the tick."""
        self.node.cancel_timer(("pastry", "tick"))

    def check_schedule(self) -> None:
        """Suspend the node if its tick is late: it may have been declared failed in the meantime."""
        if self.node.now > self._tick_due + STALL:
            self._stalled()

    def suspect(self, contact: Contact, *, is_probed: bool) -> None:
        """Avoid a contact that did not acknowledge until a message from it arrives.

        With `is_probed` also find out whether it failed.
        """
        self.suspects[contact.address] = None
        if is_probed and contact.address not in self._probed:
            if contact in self.leaves:
                self._probe_leaf(contact)
            else:
                self._probe_table(contact, TABLE_ATTEMPTS)

    def note_message_from(self, address: str) -> None:
        """Note a sign of life."""
        self.suspects.pop(address, None)
        self._last_message_at.pop(address, None)
        self._last_message_at[address] = self.node.now
        if len(self._last_message_at) > MAX_PEERS_NOTED:
            del self._last_message_at[next(iter(self._last_message_at))]

    def fail(self, contact: Contact) -> None:
        """Remove a contact that did not answer."""
        node = self.node
        node.record(contact.address, "removed: no answer")
        self._failed[contact.address] = (contact, node.now)
        if len(self._failed) > MAX_FAILED:
            del self._failed[next(iter(self._failed))]
        is_next = contact in (self.leaves.left, self.leaves.right)
        if contact in self.leaves:
            period = TICK if is_next else LOST_PERIOD
            self._lost[contact.address] = (contact, node.now + period, period)
            if len(self._lost) > MAX_LOST:
                del self._lost[next(iter(self._lost))]
        self._remove(contact)
        if is_next:  # without it lookups reach the wrong node: if only answers were lost, it must be back soon
            self._probe_leaf(contact, attempts=1)

    def _remove(self, contact: Contact) -> None:
        self.suspects.pop(contact.address, None)
        self._merged.pop(contact.address, None)
        if self.table.remove(contact):
            self._next_table = self.node.now
        if self.leaves.remove(contact):
            self._changed()
            self._refill()

    # Ticks

    def _set_tick(self, at: int) -> None:
        self._tick_due = at
        self.node.set_timer(("pastry", "tick"), at)

    def tick(self) -> None:
        """Do what is due: check the schedule, exchange leaf sets, probe entries and lost contacts."""
        now = self.node.now
        if now > self._tick_due + STALL:
            self._stalled()
        self._set_tick(now + TICK)
        self._round += 1
        if not self.is_active:
            self._check_confirmed()
            return
        if self._fast or now >= self._next_exchange:
            self._fast = max(0, self._fast - 1)
            self._next_exchange = now + LEAF_PERIOD
            self._exchange_leaves()
        if now >= self._next_table:
            self._next_table = now + TABLE_PERIOD
            self._maintain_table()
        if self._lost:
            self._probe_lost()
        if now >= self._next_persist:
            self._next_persist = now + PERSIST_PERIOD
            self._persist_peers()

    def _stalled(self) -> None:
        self._tick_due = self.node.now
        self.change(PastryInput.STALLED)

    def _exchange_leaves(self) -> None:
        """Probe a neighbour or, every other round, the next member in turn; both while the leaf set changes."""
        count = len(self.leaves)
        if not count:
            return
        turn = self._round
        if self._fast or turn % 2:
            self._probe_leaf(self.leaves[0 if turn // 2 % 2 else -1])
        if self._fast or not turn % 2:
            self._probe_leaf(self.leaves[turn // 2 % count])

    def _maintain_table(self) -> None:
        if self._candidates and self._round % 2:
            contact = self._candidates.popleft()
            if self._is_candidate(contact):
                self._probe_table(contact, 1)
            return
        last_message_at = self._last_message_at
        stalest = min(self.table, key=lambda contact: last_message_at.get(contact.address, 0), default=None)
        if stalest is not None and last_message_at.get(stalest.address, 0) < self.node.now - FRESH:
            self._probe_table(stalest, TABLE_ATTEMPTS)

    def _probe_lost(self) -> None:
        """Probe the lost contact that is due first, ever more rarely; long lost ones one in a period."""
        now = self.node.now
        address, (contact, due, period) = min(self._lost.items(), key=lambda item: item[1][1])
        if due > now or (period >= LOST_PERIOD and now < self._next_lost):
            return
        if period >= LOST_PERIOD:
            self._next_lost = now + LOST_PERIOD
        doubled = min(2 * period, MAX_LOST_PERIOD)
        self._lost[address] = (contact, now + doubled, doubled)
        self._probe_leaf(contact, attempts=1)

    def _persist_peers(self) -> None:
        contacts = self.leaves.contacts
        if contacts and contacts != self._persisted:
            self._persisted = contacts
            lines = [f"{contact.identifier:x} {contact.address}" for contact in contacts]
            self.node.persist("pastry.peers", "\n".join(lines).encode())

    # Leaf sets

    def _probe_leaf(self, contact: Contact, attempts: int = LEAF_ATTEMPTS) -> None:
        if contact.address in self._probed or contact.address == self.own.address:
            return
        requests = self.requests
        number = requests.next_number()
        self._probed[contact.address] = number
        message = LeafProbe(request=number, contact=self.own, leaves=self.leaves.contacts, failed=self._gossip())
        requests.send(number, contact.address, message, attempts=attempts, failed=self._probe_failed, context=contact)

    def _receive_leaf_probe(self, sender: str, message: LeafProbe) -> None:
        if self.state in (PastryState.IDLE, PastryState.JOINING, PastryState.LEFT):
            return
        if self.state is not PastryState.LEAVING:
            self._hear(message.contact)
            self._merge(message.contact, message.leaves, message.failed)
            self.node.send(
                sender,
                LeafReply(
                    request=message.request,
                    contact=self.own,
                    leaves=self.leaves.contacts,
                    failed=self._gossip(),
                ),
            )

    def _receive_leaf_reply(self, sender: str, message: LeafReply) -> None:
        pending = self._answered(message.request, sender)
        if pending is None:
            return
        if pending.context != message.contact:  # the address has another node now
            self.fail(pending.context)
        self._hear(message.contact)
        self._merge(message.contact, message.leaves, message.failed)
        self._check_confirmed()

    def _hear(self, contact: Contact, *, is_neighbour: bool = True) -> None:
        """Take a contact that sent a message itself into the leaf set and, if there is none, the routing table.

        Only senders of leaf sets fill gaps at the ends of an incomplete leaf set: others are rarely the next ones.
        """
        self.note_message_from(contact.address)
        self._failed.pop(contact.address, None)
        self._lost.pop(contact.address, None)
        leaves = self.leaves
        if (is_neighbour or leaves.is_full or len(leaves) < leaves.size // 4) and leaves.add(contact):
            self._changed()
        self._adopt(contact)

    def _merge(self, contact: Contact, leaves: tuple[Contact, ...], failed: tuple[Contact, ...]) -> None:
        """Probe contacts that belong into the leaf set, and members that others found failed."""
        if self._merged.get(contact.address) != (leaves, self.leaves.contacts):
            if self._consider(leaves):
                self._merged[contact.address] = (leaves, self.leaves.contacts)
            if len(self._merged) > 2 * self.leaves.size:
                del self._merged[next(iter(self._merged))]
        recently = self.node.now - LEAF_PERIOD
        for leaf in failed[:MAX_GOSSIP]:
            if leaf in self.leaves and self._last_message_at.get(leaf.address, 0) < recently:
                self._probe_leaf(leaf)

    def _consider(self, contacts: tuple[Contact, ...]) -> bool:
        """Probe contacts known from others that belong into the leaf set; False if some are left out as failed."""
        candidates = self.leaves.candidates(contacts[:MAX_CONTACTS])
        usable = [contact for contact in candidates if not self._is_failed(contact)]
        for contact in self.leaves.members_among(usable):
            self._probe_leaf(contact, HEARSAY_ATTEMPTS if self.is_active else LEAF_ATTEMPTS)
        return len(usable) == len(candidates)

    def _is_failed(self, contact: Contact) -> bool:
        failed = self._failed.get(contact.address)
        return failed is not None and failed[0] == contact and failed[1] > self.node.now - HEARSAY_PERIOD

    def _gossip(self) -> tuple[Contact, ...]:
        if not self._failed:
            return ()
        since = self.node.now - GOSSIP_PERIOD
        recent = (contact for contact, at in reversed(self._failed.values()) if at > since)
        return tuple(islice(recent, MAX_GOSSIP))[::-1]

    def _changed(self) -> None:
        self._fast = FAST_ROUNDS
        self.neighbours_changed()

    def _refill(self) -> None:
        """After many removals, probe the closest contact of the routing table on each side that became short."""
        own = self.identifier
        usable = [c for c in self.table if self.leaves.has_room_for(c.identifier) and not self._is_failed(c)]
        right, left = self.leaves.sides()
        if usable and right < self.leaves.size // 4:
            self._probe_leaf(min(usable, key=lambda contact: (contact.identifier - own) & MASK))
        if usable and left < self.leaves.size // 4:
            self._probe_leaf(max(usable, key=lambda contact: (contact.identifier - own) & MASK))

    def _check_confirmed(self) -> None:
        if self.state in (PastryState.CONFIRMING, PastryState.SUSPENDED) and not self._probed:
            self.change(PastryInput.CONFIRMED if len(self.leaves) else PastryInput.ISOLATED)

    def _probe_failed(self, pending: PendingRequest) -> None:
        contact = pending.context
        self._probed.pop(contact.address, None)
        self.fail(contact)
        self._check_confirmed()

    def _answered(self, number: int, sender: str) -> PendingRequest | None:
        pending = self.requests.answered(number, sender)
        if pending is not None:
            self._probed.pop(sender, None)
        return pending

    # The routing table

    def _probe_table(self, contact: Contact, attempts: int) -> None:
        if contact.address in self._probed:
            return
        requests = self.requests
        number = requests.next_number()
        self._probed[contact.address] = number
        shared = common_digits(self.identifier, contact.identifier)
        message = TableProbe(request=number, contact=self.own, row=jitter(number, self._round, shared + 1))
        requests.send(number, contact.address, message, attempts=attempts, failed=self._probe_failed, context=contact)

    def _receive_table_probe(self, sender: str, message: TableProbe) -> None:
        if not self.is_active:
            return
        self._hear(message.contact, is_neighbour=False)
        self.node.send(
            sender,
            TableReply(request=message.request, contact=self.own, contacts=self.table.row(message.row)),
        )

    def _receive_table_reply(self, sender: str, message: TableReply) -> None:
        pending = self._answered(message.request, sender)
        if pending is None:
            return
        if pending.context != message.contact:
            self.fail(pending.context)
        self._hear(message.contact, is_neighbour=False)
        for contact in message.contacts[:16]:
            if self._is_candidate(contact):
                self._candidates.append(contact)
        self._check_confirmed()

    def _is_candidate(self, contact: Contact) -> bool:
        """Whether a contact could improve the routing table: it fills a gap or was never measured."""
        if contact.identifier == self.identifier or self._is_failed(contact):
            return False
        return self.table.get(contact.identifier) is None or self.trips.mean(contact.address) is None

    def _adopt(self, contact: Contact) -> None:
        """Put a contact into the routing table if its position is empty or its contact clearly farther away."""
        if contact.identifier == self.identifier:
            return
        present = self.table.get(contact.identifier)
        if present == contact:
            return
        trips = self.trips
        if present is None or present.identifier == contact.identifier:
            self._set_entry(contact)
        else:
            new, old = trips.mean(contact.address), trips.mean(present.address)
            if new is not None and old is not None and 10 * new < 9 * old:
                self._set_entry(contact)

    def _set_entry(self, contact: Contact) -> None:
        if contact.identifier != self.identifier:
            self.table.set(contact)

    # Leaving

    def announce_departure(self, then: Callable[[], None]) -> None:
        """Tell the leaf set that the node leaves; call `then` when all have answered or failed."""
        self._after_departure = then
        requests = self.requests
        for contact in self.leaves.contacts:
            number = requests.next_number()
            message = Departure(request=number, contact=self.own)
            requests.send(
                number,
                contact.address,
                message,
                attempts=TABLE_ATTEMPTS,
                failed=lambda _: self._check_departed(),
                context=message,
            )
        self._check_departed()

    def _receive_departure(self, sender: str, message: Departure) -> None:
        self._failed[sender] = (message.contact, self.node.now)
        self._remove(message.contact)
        self.node.send(sender, DepartureReply(request=message.request))

    def _receive_departure_reply(self, sender: str, message: DepartureReply) -> None:
        if self.requests.answered(message.request, sender) is not None:
            self._check_departed()

    def _check_departed(self) -> None:
        pending = self.requests.pending.values()
        if self._after_departure is not None and not any(type(p.context) is Departure for p in pending):
            then, self._after_departure = self._after_departure, None
            then()
