"""CANs in the simulator: their invariants, and random schedules of churn, loss and network splits from one seed.

`check_schedule` runs a schedule and says what is wrong afterwards; `shrink_schedule` makes a failing one shorter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from random import Random
from typing import NamedTuple

from motet.overlay.protocol.can import LEFT, MEMBER, Can, CreateCan, JoinCan, LeaveCan
from motet.overlay.protocol.can_neighbourhood import CanSettings
from motet.overlay.protocol.can_requests import (
    CanDelivered,
    CanResult,
    FindInRegion,
    MulticastToRegion,
    StoreAtPoint,
    can_node,
)
from motet.overlay.protocol.can_storage import CanStorage
from motet.overlay.protocol.coordinates import CanPoint, CoordinateRange
from motet.overlay.protocol.node import MILLISECOND, SECOND, Outcome
from motet.overlay.protocol.zones import Region, Space, region_of
from motet.overlay.sim.network import Network
from motet.overlay.sim.simulator import Simulator

STEPS = ("crash", "restart", "join", "leave", "pause", "split", "put", "multicast")


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
        self.deliveries: dict[bytes, list[str]] = {}
        self.stored: dict[str, tuple[CanPoint, bytes]] = {}
        """What was put, by tag; it counts as stored when its result is complete."""
        self.wiped: set[str] = set()
        """Tags of values whose last copy was lost with the peers that failed together."""
        self._started = 0

    def _listen(self, address: str, outcome: Outcome) -> None:
        if isinstance(outcome, CanResult):
            self.results[outcome.tag] = outcome
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

    def start(self, contacts: Iterable[str] = (), key: CanPoint | None = None) -> str:
        """Start another peer, which joins at a point; without contacts it creates the overlay."""
        address = f"p{self._started:05}"
        self._started += 1
        self.simulator.start(address, lambda address: can_node(address, self.space, self.settings))
        contacts = tuple(contacts)
        self.simulator.command(address, JoinCan(contacts=contacts, key=key) if contacts else CreateCan())
        return address

    def grow(self, peers: int, *, interval: int = 300 * MILLISECOND) -> None:
        """Start peers until there are so many, each by a random member; then wait until nothing is violated."""
        while len(self.simulator.hosts) < peers:
            members = self.members()
            self.start([self.simulator.random.choice(members)] if members else [])
            self.wait(interval)
        self.settle()

    def crash(self, addresses: Iterable[str], *, lose_disk: bool = True) -> None:
        """Crash peers together, and note the values that no other peer has."""
        addresses = list(addresses)
        for address in addresses:
            self.simulator.crash(address, lose_disk=lose_disk)
        if lose_disk:
            retained = {
                (point, value)
                for address in self.addresses()
                for point, values in self.storage(address).values.items()
                for value in values
            }
            self.wiped |= {tag for tag, entry in self.stored.items() if entry not in retained}

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

    # Commands

    def random_point(self, random: Random) -> CanPoint:
        return tuple(self.space.alphabet.text_at(random.getrandbits(40), 2**40) for _ in range(self.space.dimensions))

    def random_region(self, random: Random) -> Region:
        """Fixed, bounded and free coordinates in any mixture."""
        intervals = []
        for low, high in zip(self.random_point(random), self.random_point(random), strict=True):
            bounds = CoordinateRange(min(low, high), max(low, high))
            intervals.append(random.choice([CoordinateRange(low, low), bounds, CoordinateRange()]))
        return region_of(*intervals)

    def put(self, address: str, random: Random) -> None:
        """Put a new value at a random point."""
        point, value = self.random_point(random), f"value {len(self.stored)}".encode()
        tag = f"put {len(self.stored)}"
        self.stored[tag] = point, value
        self.simulator.command(address, StoreAtPoint(tag=tag, point=point, value=value))

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
        return [*self._tiling_violations(), *self._neighbour_violations(), *self._assignment_violations()]

    def _tiling_violations(self) -> list[str]:
        """Each point has one owner."""
        claims = [(claim.zone, address) for address in self.addresses() for claim in self.can(address).members.claims]
        overlaps = [
            f"{address} and {second} both hold a part of {zone}"
            for index, (zone, address) in enumerate(claims)
            for next_zone, second in claims[index + 1 :]
            if zone.overlaps(next_zone)
        ]
        free = 1 - sum((self.space.volume(zone) for zone, _ in claims), Fraction())
        return overlaps or ([f"{float(free):.6f} of the space has no owner"] if free else [])

    def _neighbour_violations(self) -> list[str]:
        """Neighbours are exactly the peers with adjacent zones, and their zones are right."""
        claims = {address: self.can(address).members.zones() for address in self.addresses()}
        wrong = []
        for address, zones in claims.items():
            expected = {
                second: set(near)
                for second, near in claims.items()
                if second != address and any(zone.side_of(next_zone) for zone in zones for next_zone in near)
            }
            actual: dict[str, set[object]] = {}
            for zone, second in self.can(address).members.neighbour_zones():
                actual.setdefault(second, set()).add(zone)
            wrong += [
                f"{address} is wrong about its neighbour {second}"
                for second in sorted(expected.keys() | actual.keys())
                if expected.get(second) != actual.get(second)
            ]
        return wrong

    def _assignment_violations(self) -> list[str]:
        """Each peer is a member with one zone."""
        return [
            f"{address} is {self.can(address).state} with {len(self.can(address).members.claims)} zones"
            for address in self.addresses()
            if self.can(address).state != MEMBER or len(self.can(address).members.claims) != 1
        ]

    def value_violations(self) -> list[str]:
        """A search of the whole space finds every stored value; to be called when the zones have settled."""
        tag = f"all at {self.simulator.now}"
        whole = region_of(*[None] * self.space.dimensions)
        self.simulator.command(self.addresses()[0], FindInRegion(tag=tag, region=whole))
        self.wait(self.settings.request_timeout * self.settings.attempts)
        result = self.results.get(tag)
        if result is None or not result.is_complete:
            return ["a search of the whole space is not answered"]
        values = {(value.point, value.value) for value in result.values}
        return [
            f"{tag} is lost"
            for tag, entry in self.stored.items()
            if tag in self.results and self.results[tag].is_complete and tag not in self.wiped and entry not in values
        ]

    def multicast_violations(self, random: Random, *, is_flooded: bool = False) -> list[str]:
        """A multicast to a random region reaches each matching zone once; to be called when the zones have settled."""
        region = self.random_region(random)
        tag = f"multicast {self.simulator.now} {random.getrandbits(30)}"
        command = MulticastToRegion(tag=tag, region=region, payload=tag.encode(), is_flooded=is_flooded)
        duplicates = self._duplicates()
        self.simulator.command(random.choice(self.addresses()), command)
        self.wait(self.settings.request_timeout)
        expected, actual = Counter(self.matching(region)), Counter(self.deliveries.get(tag.encode(), []))
        violations = [
            f"a multicast reached {address} {actual[address]} times instead of {expected[address]}"
            for address in sorted(expected.keys() | actual.keys())
            if expected[address] != actual[address]
        ]
        if not is_flooded and self._duplicates() != duplicates:
            violations.append(f"the optimal broadcast sent {self._duplicates() - duplicates} duplicates")
        return violations

    def _duplicates(self) -> int:
        return sum(self.simulator.node(address).counts["requests.duplicates"] for address in self.addresses())


class ScheduleStep(NamedTuple):
    """One event of a schedule, the seed of its choices, and the seconds until the next one."""

    kind: str
    seed: int
    seconds: int


class ScheduleReport(NamedTuple):
    """What was wrong after a schedule, and the hash of everything that happened."""

    violations: list[str]
    trace_hash: str
    peers: int
    values: int
    wiped: int
    """Values whose last copy was on peers that failed together."""


def random_schedule(seed: int, steps: int = 10) -> list[ScheduleStep]:
    """A schedule of random events; equal seeds give equal schedules."""
    random = Random(seed)  # noqa: S311  a simulation, not a secret
    kinds = random.choices(STEPS, weights=(3, 2, 2, 2, 2, 2, 3, 1), k=steps)
    return [ScheduleStep(kind, random.getrandbits(32), random.choice((1, 5, 20, 60))) for kind in kinds]


def check_schedule(
    seed: int, schedule: Sequence[ScheduleStep], *, peers: int = 14, space: Space | None = None
) -> ScheduleReport:
    """Run a schedule under loss, duplication and reordering; then heal, settle, and check everything."""
    random = Random(seed)  # noqa: S311
    settings = CanSettings(is_greedy=random.random() < 0.5)
    network = SimulatedCan(seed=seed, space=space or Space(random.choice((2, 3, 4))), settings=settings)
    network.grow(peers)
    for _ in range(10):
        network.put(random.choice(network.members()), random)
    network.wait(20 * SECOND)
    conditions = network.simulator.network
    conditions.loss, conditions.duplication, conditions.reordering = random.choice((0, 0.05, 0.1)), 0.05, 0.1
    for step in schedule:
        _run_step(network, step)
        network.wait(step.seconds * SECOND)
        network.stop_left()
    conditions.heal()
    conditions.loss = conditions.duplication = conditions.reordering = 0
    violations = network.settle()
    if not violations:
        network.wait(60 * SECOND)  # the last copies reach their owners
        violations += network.value_violations()
        for is_flooded in (False, False, False, True):
            violations += network.multicast_violations(random, is_flooded=is_flooded)
    return ScheduleReport(
        violations, network.simulator.trace_hash(), len(network.addresses()), len(network.stored), len(network.wiped)
    )


def _run_step(network: SimulatedCan, step: ScheduleStep) -> None:
    random = Random(step.seed)  # noqa: S311
    simulator = network.simulator
    addresses = network.addresses()
    members = network.members() or addresses
    spare = max(0, len(addresses) - 4)
    if step.kind == "crash":  # fewer than the replicas of a value
        network.crash(random.sample(addresses, min(2, spare)))
        network.wait(90 * SECOND)
    elif step.kind == "restart":
        address = random.choice(addresses)
        network.crash([address], lose_disk=False)
        network.wait(random.choice((1, 10, 60)) * SECOND)
        simulator.start(address)
        if network.can(address).state != MEMBER and not network.can(address).members.claims:
            simulator.command(address, JoinCan(contacts=tuple(a for a in addresses if a != address)))
    elif step.kind == "join":
        network.start([random.choice(addresses)])
    elif step.kind == "leave" and spare:
        address = random.choice(members)
        if network.can(address).state == MEMBER:
            simulator.command(address, LeaveCan())
    elif step.kind == "pause":
        simulator.pause(random.choice(addresses), random.choice((5, 30, 60)) * SECOND)
    elif step.kind == "split":
        shuffled = random.sample(addresses, len(addresses))
        cut = random.randrange(1, len(addresses))
        simulator.network.partition([shuffled[:cut], shuffled[cut:]])
        network.wait(random.choice((10, 60, 120)) * SECOND)
        network.put(random.choice(members), random)
        network.wait(random.choice((10, 60, 120)) * SECOND)
        simulator.network.heal()
    elif step.kind == "put":
        network.put(random.choice(members), random)
    elif step.kind == "multicast":
        command = MulticastToRegion(tag=str(step.seed), region=network.random_region(random), payload=b"during churn")
        simulator.command(random.choice(members), command)


def shrink_schedule(
    schedule: Sequence[ScheduleStep], has_failed: Callable[[Sequence[ScheduleStep]], bool]
) -> list[ScheduleStep]:
    """Leave out steps as long as the schedule still fails."""
    shortest = list(schedule)
    index = 0
    while index < len(shortest):
        shorter = shortest[:index] + shortest[index + 1 :]
        if has_failed(shorter):
            shortest = shorter
        else:
            index += 1
    return shortest
