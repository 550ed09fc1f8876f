"""Pastry networks in the simulator: built from ideal tables or by joins, with churn and lookups that are judged."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable
from dataclasses import dataclass, field

from motet.overlay.protocol.identifiers import BITS, DIGIT_BITS, Contact, closeness, digit, identifier_of
from motet.overlay.protocol.node import SECOND, NodeProtocol, Outcome, PeerNode
from motet.overlay.protocol.pastry import Pastry
from motet.overlay.protocol.pastry_messages import (
    Delivered,
    Joined,
    JoinRing,
    LeaveRing,
    Left,
    Lookup,
    LookupAnswered,
    PastryState,
)
from motet.overlay.sim.network import GeographicLatency, Network
from motet.overlay.sim.simulator import Simulator

Layers = Callable[[Pastry], list[NodeProtocol]]


@dataclass(slots=True)
class LookupFigures:
    """What became of the lookups of a run."""

    started: int = 0
    delivered: int = 0
    misdelivered: int = 0
    failed: int = 0
    abandoned: int = 0
    """Lookups whose origin crashed before they were delivered."""
    hops: list[int] = field(default_factory=list)
    durations: list[int] = field(default_factory=list)
    routed: list[float] = field(default_factory=list)
    """The delay of each route, in microseconds; `direct` has that of the direct way."""
    direct: list[float] = field(default_factory=list)

    @property
    def mean_hops(self) -> float:
        return sum(self.hops) / max(1, len(self.hops))

    @property
    def bad_per_10_000(self) -> float:
        """Failed or misdelivered lookups in 10 000."""
        return 10_000 * (self.failed + self.misdelivered) / max(1, self.started - self.abandoned)


def ideal_contacts(
    contacts: list[Contact], own: Contact, leaf_size: int, proximity: Callable[[Contact, Contact], float] | None = None
) -> tuple[list[Contact], list[Contact]]:
    """The leaf set and routing table of a node in a network of these contacts, which are sorted by identifier.

    With a proximity, an entry is the closest of up to 16 candidates; without, the first from a position that depends on
    the node.
    """
    count = len(contacts)
    index = bisect_left(contacts, own)
    half = leaf_size // 2
    nearby = {(index + offset) % count for offset in range(-half, half + 1)} - {index}
    leaves = [contacts[position] for position in sorted(nearby)]
    table = []
    for row in range(BITS // DIGIT_BITS):
        shift = BITS - DIGIT_BITS * (row + 1)
        prefix = own.identifier >> (shift + DIGIT_BITS) << DIGIT_BITS
        bounds = [bisect_left(contacts, ((prefix + value) << shift,)) for value in range(17)]
        if bounds[-1] - bounds[0] <= 1:
            break
        for value in range(16):
            first, stop = bounds[value], bounds[value + 1]
            if first < stop and value != digit(own.identifier, row):
                step = max(1, (stop - first) // 16)
                start = first + own.identifier % (stop - first) % step
                candidates = contacts[start:stop:step][:16]
                if proximity is None:
                    table.append(candidates[own.identifier % len(candidates)])
                else:
                    table.append(min(candidates, key=lambda contact: proximity(own, contact)))
    return leaves, table


class SimulatedRing:
    """A network of Pastry nodes in the simulator, which knows at each instant who is responsible for which key.

    >>> ring = SimulatedRing(seed=1)
    >>> ring.build(50)
    >>> ring.lookups(rate=10, until=20_000_000)
    >>> ring.simulator.run(until=30_000_000)
    >>> ring.figures.failed, ring.figures.misdelivered, ring.figures.delivered == ring.figures.started
    (0, 0, True)
    """

    def __init__(
        self,
        *,
        seed: int,
        network: Network | None = None,
        leaf_size: int = 16,
        layers: Layers | None = None,
        is_detailed: bool = False,
    ) -> None:
        self.network = network or Network(latency=GeographicLatency())
        self.simulator = Simulator(seed=seed, network=self.network, is_detailed=is_detailed)
        self.simulator.outcome_listeners.append(self._listen)
        self.random = self.simulator.random
        self.leaf_size = leaf_size
        self.layers: Layers = layers or (lambda _: [])
        self.active: list[Contact] = []
        """The active nodes, sorted by identifier."""
        self.figures = LookupFigures()
        self.lookup_limit = 60 * SECOND
        self._contacts: dict[str, Contact] = {}
        self._next_address = 0
        self._next_tag = 0
        self._open: dict[tuple[str, int], int] = {}
        self._judged: dict[int, bool] = {}
        self._is_churning = False

    # Nodes

    def new_contact(self) -> Contact:
        """A contact with an address that was never used."""
        address = f"n{self._next_address}"
        self._next_address += 1
        return self.contact(address)

    def contact(self, address: str) -> Contact:
        """The contact of an address: that of earlier runs, or a new one."""
        if address not in self._contacts:
            self._contacts[address] = Contact(identifier_of(f"{self.simulator.seed} {address}"), address)
        return self._contacts[address]

    def pastry(self, address: str) -> Pastry:
        """The Pastry protocol of a running node."""
        protocol = self.simulator.node(address).protocols["pastry"]
        assert isinstance(protocol, Pastry)
        return protocol

    def _node(self, address: str) -> PeerNode:
        pastry = Pastry(self._contacts[address].identifier, leaf_size=self.leaf_size)
        return PeerNode(address, [pastry, *self.layers(pastry)], story_length=64)

    def build(self, count: int, *, has_proximity: bool = True) -> None:
        """Start nodes whose leaf sets and routing tables are right from the beginning."""
        contacts = sorted([self.new_contact() for _ in range(count)])
        latency = self.network.latency
        points = (
            {contact.address: latency.point(self.random, contact.address) for contact in contacts}
            if has_proximity and isinstance(latency, GeographicLatency)
            else None
        )

        def proximity(left: Contact, right: Contact) -> float:
            assert points is not None
            return math.dist(points[left.address], points[right.address])

        for own in contacts:
            self.simulator.start(own.address, self._node)
            leaves, table = ideal_contacts(contacts, own, self.leaf_size, proximity if points else None)
            pastry = self.pastry(own.address)
            pastry.install(leaves, table)
            self.simulator.command(own.address, JoinRing())

    def join(self, *, contact: Contact | None = None, via: str | None = None) -> Contact:
        """Start a node that joins the ring through a random active node, or begins it."""
        contact = contact or self.new_contact()
        if via is None and self.active:
            via = self._random_address()
        self._contacts[contact.address] = contact
        self.simulator.start(contact.address, self._node)
        self.simulator.command(contact.address, JoinRing(via=() if via is None else (via,)))
        return contact

    def rejoin(self, contact: Contact) -> None:
        """Start a crashed node again; it joins through the neighbours on its disk, or else through a random node."""
        via = () if self.simulator.disks[contact.address].get("pastry.peers") else (self._random_address(),)
        self.simulator.start(contact.address, self._node)
        self.simulator.command(contact.address, JoinRing(via=via))

    def _random_address(self) -> str:
        return self.active[int(self.random.random() * len(self.active))].address

    def crash(self, address: str, *, lose_disk: bool = True) -> None:
        """Crash a node."""
        if address in self.simulator.hosts:
            self._deactivate(address)
            self.simulator.crash(address, lose_disk=lose_disk)

    def leave(self, address: str) -> None:
        """Let a node leave the ring in order."""
        self.simulator.command(address, LeaveRing())
        if self.pastry(address).state is PastryState.LEAVING:
            self._deactivate(address)

    def _deactivate(self, address: str) -> None:
        contact = self._contacts[address]
        index = bisect_left(self.active, contact)
        if index < len(self.active) and self.active[index] == contact:
            del self.active[index]

    def responsible(self, key: int) -> Contact:
        """The active node closest to a key."""
        index = bisect_left(self.active, (key,))
        count = len(self.active)
        return min(
            (self.active[(index - 1) % count], self.active[index % count]),
            key=lambda contact: closeness(contact.identifier, key),
        )

    def misplaced(self) -> list[Contact]:
        """The active nodes whose neighbours in the ring are not the true ones."""
        active = self.active
        return [
            contact
            for index, contact in enumerate(active)
            if len(active) > 1
            and (
                self.pastry(contact.address).leaves.left != active[index - 1]
                or self.pastry(contact.address).leaves.right != active[(index + 1) % len(active)]
            )
        ]

    def route(self, origin: Contact, key: int) -> list[Contact]:
        """The way a message for a key takes from a node, by the tables as they are."""
        way = [origin]
        while (hop := self.pastry(way[-1].address).next_hop(key)[0]) not in way:
            way.append(hop)
        return way

    # Churn

    def churn(self, session: Callable[[], float], *, until: int) -> None:
        """Let every node crash after a session (seconds, drawn anew for each), and a new one join in its place."""
        for contact in list(self.active):
            self._end_session(contact.address, session, until)

    def _end_session(self, address: str, session: Callable[[], float], until: int) -> None:
        def end() -> None:
            if self.simulator.now < until and address in self.simulator.hosts:
                self.crash(address)
                self._end_session(self.join().address, session, until)

        self.simulator.schedule(self.simulator.now + int(session() * SECOND), end)

    # Lookups

    def lookups(self, *, rate: float, until: int) -> None:
        """Look up random keys from random active nodes, `rate` times a second on average."""

        def start() -> None:
            if self.simulator.now < until:
                if self.active:
                    self.look_up(self.random.getrandbits(BITS))
                self.simulator.schedule(self.simulator.now + int(self.random.expovariate(rate) * SECOND), start)

        start()

    def look_up(self, key: int, origin: str | None = None) -> int:
        """Look up a key from a node, a random one if none is given; return the lookup's tag."""
        origin = origin or self._random_address()
        tag = self._next_tag
        self._next_tag += 1
        self.figures.started += 1
        self._judged[tag] = False
        self.simulator.command(origin, Lookup(tag=tag, key=key))
        pastry = self.pastry(origin)
        if pastry.queries:
            number = next(reversed(pastry.queries))
            if pastry.queries[number].key == key:
                self._open[origin, number] = tag
        self.simulator.schedule(self.simulator.now + self.lookup_limit, lambda: self._judge(tag, origin))
        return tag

    def _judge(self, tag: int, origin: str) -> None:
        if not self._judged.pop(tag):
            if origin in self.simulator.hosts:
                self.figures.failed += 1
            else:
                self.figures.abandoned += 1

    def _listen(self, address: str, outcome: Outcome) -> None:
        kind = type(outcome)
        if kind is Delivered:
            self._delivered(address, outcome)  # type: ignore[arg-type]
        elif kind is LookupAnswered:
            self._answered(address, outcome)  # type: ignore[arg-type]
        elif kind is Joined:
            insort(self.active, self._contacts[address])
        elif kind is Left:
            self._deactivate(address)
            self.simulator.schedule(self.simulator.now, lambda: self.crash(address, lose_disk=False))

    def _delivered(self, address: str, outcome: Delivered) -> None:
        tag = self._open.pop((outcome.origin.address, outcome.number), None)
        if outcome.origin.address == address and tag is None:
            tag = self._next_tag - 1 if self._judged.get(self._next_tag - 1) is False else None
        if tag is None or self._judged.get(tag) is not False:
            return
        self._judged[tag] = True
        self.figures.delivered += 1
        if self.responsible(outcome.key).address != address:
            self.figures.misdelivered += 1

    def _answered(self, address: str, outcome: LookupAnswered) -> None:
        figures = self.figures
        figures.hops.append(outcome.hops)
        figures.durations.append(outcome.duration)
        latency = self.network.latency
        if isinstance(latency, GeographicLatency) and outcome.root.address != address:
            direct = latency.mean(address, outcome.root.address)
            figures.routed.append(outcome.duration - direct)  # the answer comes straight
            figures.direct.append(direct)

    # Figures

    def messages(self, traffic: str) -> int:
        """How many messages of a kind of traffic were sent so far."""
        return sum(count for kind, count in self.simulator.sent.items() if getattr(kind, "traffic", "") == traffic)
