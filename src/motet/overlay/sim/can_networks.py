"""CANs in the simulator: peers, commands, and the checks of `can_invariants` applied to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from random import Random

from motet.overlay.protocol.can import Can
from motet.overlay.protocol.can_membership import LEFT, MEMBER
from motet.overlay.protocol.can_messages import (
    CanDelivered,
    CanResult,
    CanValues,
    CreateCan,
    FindInRegion,
    JoinCan,
    MulticastToRegion,
    PointValue,
    RemoveAtPoint,
    StoreAtPoint,
)
from motet.overlay.protocol.can_neighbourhood import CanSettings
from motet.overlay.protocol.can_requests import can_node
from motet.overlay.protocol.can_storage import CanStorage
from motet.overlay.protocol.coordinates import CanPoint
from motet.overlay.protocol.node import MILLISECOND, SECOND, Outcome
from motet.overlay.protocol.zones import Region, Space, region_of
from motet.overlay.sim.can_invariants import (
    ValueLedger,
    can_violations,
    delivery_violations,
    random_point,
    random_region,
    view_of,
)
from motet.overlay.sim.network import Network
from motet.overlay.sim.simulator import Simulator


class SimulatedCan:
    """A CAN in the simulator: its peers, the results of their commands, and what must hold.

    >>> network = SimulatedCan(seed=1, space=Space(2))
    >>> network.grow(8)
    >>> network.violations()
    []
    """

    def __init__(
        self,
        *,
        seed: int,
        space: Space | None = None,
        settings: CanSettings | None = None,
        network: Network | None = None,
        is_detailed: bool = False,
    ) -> None:
        self.simulator = Simulator(seed=seed, network=network, is_detailed=is_detailed)
        self.simulator.outcome_listeners.append(self._listen)
        self.space = space or Space()
        self.settings = settings or CanSettings()
        self.results: dict[str, CanResult] = {}
        self.values: dict[str, list[PointValue]] = {}
        """What commands found, by tag."""
        self.deliveries: dict[bytes, list[str]] = {}
        self.ledger = ValueLedger()
        self.wiped: list[str] = []
        """Values whose last copy was lost with peers that failed together."""
        self._started = 0
        self._lookups = 0

    def _listen(self, address: str, outcome: Outcome) -> None:
        if isinstance(outcome, CanResult):
            self.results[outcome.tag] = outcome
            if outcome.is_complete:
                self.ledger.completed(outcome.tag)
        elif isinstance(outcome, CanValues):
            self.values.setdefault(outcome.tag, []).extend(outcome.values)
        elif isinstance(outcome, CanDelivered):
            self.deliveries.setdefault(outcome.payload, []).append(address)

    # Peers

    def can(self, address: str) -> Can:
        protocol = self.simulator.node(address).protocols["can"]
        assert isinstance(protocol, Can)
        return protocol

    def storage(self, address: str) -> CanStorage:
        protocol = self.simulator.node(address).protocols["storage"]
        assert isinstance(protocol, CanStorage)
        return protocol

    def addresses(self) -> list[str]:
        return list(self.simulator.hosts)

    def members(self) -> list[str]:
        return [address for address in self.simulator.hosts if self.can(address).state == MEMBER]

    def start(self, contacts: Iterable[str] = (), key: CanPoint | None = None, *, address: str = "") -> str:
        """Start another peer, which joins at a point; without contacts it creates the overlay."""
        address = address or f"n{self._started}"
        self._started += 1
        self.simulator.start(address, lambda address: can_node(address, self.space, self.settings))
        contacts = tuple(contacts)
        self.simulator.command(address, JoinCan(contacts=contacts, key=key) if contacts else CreateCan())
        return address

    def restart(self, address: str) -> None:
        """Start a crashed peer again: with its zones, or by joining again if its disk is lost."""
        contacts = tuple(self.addresses())
        self.simulator.start(address)
        if contacts and not self.can(address).members.claims:
            self.simulator.command(address, JoinCan(contacts=contacts))

    def grow(self, peers: int, *, interval: int = 300 * MILLISECOND) -> None:
        """Start peers until there are so many, each by a random member; then wait until nothing is violated."""
        while len(self.simulator.hosts) < peers:
            members = self.members()
            self.start([self.simulator.random.choice(members)] if members else [])
            self.wait(interval)
        self.settle()

    def crash(self, addresses: Iterable[str], *, lose_disk: bool = True) -> None:
        """Crash peers together, and note the values that no other peer has."""
        for address in addresses:
            self.simulator.crash(address, lose_disk=lose_disk)
        if lose_disk:
            retained = {
                (point, entry.value)
                for address in self.addresses()
                for point, entries in self.storage(address).entries.items()
                for entry in entries.values()
            }
            self.wiped += self.ledger.lose(retained)

    def stop_left(self) -> None:
        """Stop the peers that have left."""
        for address in self.addresses():
            if self.can(address).state == LEFT:
                self.simulator.crash(address)

    def wait(self, duration: int) -> None:
        self.simulator.run(until=self.simulator.now + duration)

    def settle(self, *, limit: int = 1200 * SECOND) -> list[str]:
        """Run until nothing is violated; the violations that remain after the limit."""
        deadline = self.simulator.now + limit
        while (violations := self.violations()) and self.simulator.now < deadline:
            self.wait(self.settings.period)
            self.stop_left()
        return violations

    def _wait_for(self, tags: Collection[str], *, limit: int) -> None:
        """Run until these commands have a result, or up to a limit."""
        deadline = self.simulator.now + limit
        while self.simulator.now < deadline and any(tag not in self.results for tag in tags):
            self.wait(SECOND)

    # Commands

    def random_point(self, random: Random) -> CanPoint:
        return random_point(self.space, random)

    def random_region(self, random: Random) -> Region:
        return random_region(self.space, random)

    def put(self, address: str, random: Random) -> None:
        """Put a new value at a random point."""
        self.store(address, self.random_point(random), f"value {len(self.ledger.tags)}".encode())

    def store(self, address: str, point: CanPoint, value: bytes) -> None:
        """Have a peer store a value."""
        tag = self.ledger.issued(point, value, is_present=True, now=self.simulator.now)
        self.simulator.command(address, StoreAtPoint(tag=tag, point=point, value=value))

    def remove(self, address: str, point: CanPoint, value: bytes) -> None:
        """Have a peer remove a value."""
        tag = self.ledger.issued(point, value, is_present=False, now=self.simulator.now)
        self.simulator.command(address, RemoveAtPoint(tag=tag, point=point, value=value))

    def look_up(self, random: Random) -> str:
        """Look up a random point from a random member; the tag of the result."""
        tag = f"lookup {self._lookups}"
        self._lookups += 1
        region = region_of(*self.random_point(random))
        self.simulator.command(random.choice(self.members()), FindInRegion(tag=tag, region=region))
        return tag

    def matching(self, region: Region) -> list[str]:
        """The peers that a multicast to a region must reach, once for each zone."""
        return sorted(
            address
            for address in self.addresses()
            for claim in self.can(address).members.claims
            if claim.zone.meets(region)
        )

    # What must hold

    def violations(self) -> list[str]:
        """What is wrong with the zones and neighbours."""
        return can_violations(self.space, {address: view_of(self.can(address)) for address in self.addresses()})

    def value_violations(self) -> list[str]:
        """A search of the whole space finds every stored value and no removed one, once the zones have settled."""
        tag = f"all at {self.simulator.now}"
        whole = region_of(*[None] * self.space.dimensions)
        self.simulator.command(self.addresses()[0], FindInRegion(tag=tag, region=whole))
        self._wait_for([tag], limit=self.settings.request_timeout * self.settings.attempts)
        result = self.results.get(tag)
        if result is None or not result.is_complete:
            return ["a search of the whole space is not answered"]
        return self.ledger.violations({(value.point, value.value) for value in self.values.get(tag, ())})

    def lookup_violations(self, random: Random, count: int = 20) -> list[str]:
        """Lookups of random points are answered by their owners; to be called when the zones have settled."""
        points = {f"lookup {self.simulator.now} {index}": self.random_point(random) for index in range(count)}
        for tag, point in points.items():
            self.simulator.command(random.choice(self.addresses()), FindInRegion(tag=tag, region=region_of(*point)))
        self._wait_for(points, limit=self.settings.request_timeout)
        wrong = [
            tag
            for tag, point in points.items()
            if (result := self.results.get(tag)) is None or not result.is_complete or result.owner != self.owner(point)
        ]
        return [f"{len(wrong)} of {count} lookups did not reach the owner of their point"] if wrong else []

    def owner(self, point: CanPoint) -> str | None:
        """The peer whose zone contains a point."""
        return next((a for a in self.addresses() if self.can(a).members.owned_claim(point) is not None), None)

    def multicast_violations(self, random: Random, *, is_flooded: bool = False) -> list[str]:
        """A multicast to a random region reaches each matching zone once; to be called when the zones have settled."""
        region = self.random_region(random)
        tag = f"multicast {self.simulator.now} {random.getrandbits(30)}"
        command = MulticastToRegion(tag=tag, region=region, payload=tag.encode(), is_flooded=is_flooded)
        duplicates = self._duplicates()
        self.simulator.command(random.choice(self.addresses()), command)
        self.wait(self.settings.request_timeout)
        expected, actual = Counter(self.matching(region)), Counter(self.deliveries.get(tag.encode(), []))
        violations = delivery_violations(expected, actual)
        if not is_flooded and self._duplicates() != duplicates:
            violations.append(f"the optimal broadcast sent {self._duplicates() - duplicates} duplicates")
        return violations

    def _duplicates(self) -> int:
        return sum(self.simulator.node(address).counts["requests.duplicates"] for address in self.addresses())
