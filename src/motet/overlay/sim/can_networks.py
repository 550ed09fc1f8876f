"""CANs in the simulator: peers, commands, and checks of what must hold.

The checks are of zones and neighbours, of what multicasts reach, and of which values a search finds. The views of peers
come from the simulator or from processes; random points and regions are what the checks ask for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import combinations
from random import Random
from typing import NamedTuple

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
from motet.overlay.protocol.coordinates import CanPoint, CoordinateRange
from motet.overlay.protocol.node import MILLISECOND, SECOND, Outcome
from motet.overlay.protocol.zones import Region, Space, Zone, region_of
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


# Checks


COMMAND_LIMIT = 150 * SECOND  # after which a command without an answer has no effect any more


class PeerView(NamedTuple):
    """The state of a peer, its zones, and those that it takes for its neighbours'."""

    state: str
    zones: tuple[Zone, ...]
    neighbours: Mapping[str, tuple[Zone, ...]]


def view_of(can: Can) -> PeerView:
    """The view of a peer."""
    neighbours = {a: tuple([claim.zone for claim in n.claims]) for a, n in can.members.neighbours.items()}
    return PeerView(can.state, tuple(can.members.zones()), neighbours)


def can_violations(space: Space, peers: Mapping[str, PeerView]) -> list[str]:
    """What is wrong with the zones and neighbours once a CAN has settled.

    >>> space = Space(2)
    >>> can_violations(space, {"a": PeerView(MEMBER, (space.whole,), {})})
    []
    """
    return [*_tiling_violations(space, peers), *_neighbour_violations(peers), *_assignment_violations(peers)]


def _tiling_violations(space: Space, peers: Mapping[str, PeerView]) -> list[str]:
    """Each point has one owner."""
    claims = [(zone, address) for address, peer in peers.items() for zone in peer.zones]
    overlaps = [
        f"{address} and {second} both hold a part of {zone}"
        for (zone, address), (next_zone, second) in combinations(claims, 2)
        if zone.overlaps(next_zone)
    ]
    free = 1 - sum((space.volume(zone) for zone, _ in claims), Fraction())
    return overlaps or ([f"{float(free):.6f} of the space has no owner"] if free else [])


def _neighbour_violations(peers: Mapping[str, PeerView]) -> Iterator[str]:
    """Neighbours are exactly the peers with adjacent zones, and their zones are right."""
    for address, peer in peers.items():
        expected = {
            second: set(near.zones)
            for second, near in peers.items()
            if second != address and any(zone.side_of(next_zone) for zone in peer.zones for next_zone in near.zones)
        }
        actual = {second: set(zones) for second, zones in peer.neighbours.items() if zones}
        for second in sorted(expected.keys() | actual.keys()):
            if expected.get(second) != actual.get(second):
                yield f"{address} is wrong about its neighbour {second}"


def _assignment_violations(peers: Mapping[str, PeerView]) -> list[str]:
    """Each peer is a member with one zone."""
    return [
        f"{address} is {peer.state} with {len(peer.zones)} zones"
        for address, peer in peers.items()
        if peer.state != MEMBER or len(peer.zones) != 1
    ]


def delivery_violations(expected: Counter[str], actual: Counter[str]) -> list[str]:
    """Which peers a multicast reached more or less often than they have zones in its region."""
    return [
        f"a multicast reached {address} {actual[address]} times instead of {expected[address]}"
        for address in sorted(expected.keys() | actual.keys())
        if expected[address] != actual[address]
    ]


def random_point(space: Space, random: Random) -> CanPoint:
    """A point, uniform over the space."""
    return tuple(space.alphabet.text_at(random.getrandbits(40), 2**40) for _ in range(space.dimensions))


def random_region(space: Space, random: Random) -> Region:
    """Fixed, bounded and free coordinates in any mixture."""
    intervals = []
    for low, high in zip(random_point(space, random), random_point(space, random), strict=True):
        bounds = CoordinateRange(min(low, high), max(low, high))
        intervals.append(random.choice([CoordinateRange(low, low), bounds, CoordinateRange()]))
    return region_of(*intervals)


class ValueLedger:
    """Which values must be there, and which must not, by the commands that were given and answered.

    The last command on a value counts, once it is answered. Of commands at the same time either may have been the
    last: then nothing is promised, until a later one is answered.

    >>> ledger = ValueLedger()
    >>> ledger.completed(ledger.issued(("a",), b"x", is_present=True, now=0))
    >>> ledger.violations(set())
    ["b'x' at ('a',) is lost"]
    """

    def __init__(self) -> None:
        self.tags: dict[str, tuple[tuple[CanPoint, bytes], bool, int]] = {}
        self._open: set[str] = set()
        self._last: dict[tuple[CanPoint, bytes], str] = {}
        self._promised: dict[tuple[CanPoint, bytes], bool] = {}

    def issued(self, point: CanPoint, value: bytes, *, is_present: bool, now: int) -> str:
        """Note a command that stores or removes a value; its tag."""
        tag, key = f"command {len(self.tags)}", (point, value)
        self._promised.pop(key, None)
        is_alone = not any(
            self.tags[earlier][0] == key and now - self.tags[earlier][2] < COMMAND_LIMIT for earlier in self._open
        )
        self.tags[tag] = key, is_present, now
        self._open.add(tag)
        self._last[key] = tag if is_alone else ""
        return tag

    def completed(self, tag: str) -> None:
        """Note that a command was answered."""
        if tag in self._open:
            self._open.remove(tag)
            key, is_present, _ = self.tags[tag]
            if self._last[key] == tag:
                self._promised[key] = is_present

    def lose(self, retained: Collection[tuple[CanPoint, bytes | None]]) -> list[str]:
        """Promise nothing more of values of which there is no copy left; these values."""
        lost = [key for key, is_present in self._promised.items() if is_present and key not in retained]
        for key in lost:
            del self._promised[key]
        return [f"{value!r} at {point}" for point, value in lost]

    def violations(self, values: Collection[tuple[CanPoint, bytes]]) -> list[str]:
        """Which of the promises the values that were found break."""
        return [
            f"{key[1]!r} at {key[0]} is {'lost' if is_present else 'there after its removal'}"
            for key, is_present in self._promised.items()
            if (key in values) != is_present
        ]
