"""Figures of simulated overlays: hops, delays, dependability and recovery of Pastry; hops and broadcasts of CANs.

The nodes run the whole protocols. In CANs reports between peers are rare, because nobody fails here. Hops over ideal
tables are computed with NumPy, for up to 100 000 nodes and many lookups at once. Identifiers have 64 bits there, which
changes no hop below a billion nodes; an entry of a routing table is the closest of some random candidates, as in a
network whose tables had time to improve.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from motet.overlay.protocol.can_messages import FindInRegion, MulticastToRegion
from motet.overlay.protocol.can_neighbourhood import CanSettings
from motet.overlay.protocol.identifiers import Contact
from motet.overlay.protocol.node import MILLISECOND, SECOND
from motet.overlay.protocol.zones import Space, Zone, region_of
from motet.overlay.sim.can_networks import SimulatedCan
from motet.overlay.sim.network import GeographicLatency, Network
from motet.overlay.sim.rings import SimulatedRing

IDEAL_HOPS = {100: 1.70, 1_000: 2.47, 10_000: 3.24, 50_000: 3.78}
"""Mean hops over ideal tables, b=4 and L=16, by a Monte Carlo study."""
LOOKUPS = 20_000
MAX_PROTOCOL_NODES = 10_000  # larger networks are studied over tables alone
LONG_SESSION = 1_200  # seconds; from such a median on, one lookup in 10 000 may fail, and control messages are limited
MAX_CONTROL = 0.5
MAX_BAD = 1.0
MIN_SUCCESS = 0.95
CAN_HOPS = {128: 3.69, 1024: 6.43, 4096: 8.96}
"""Mean hops of greedy routing in four dimensions without wrap-around, by a Monte Carlo study of zones alone."""
WRAPPED_NEIGHBOURS = 9.8
"""Mean neighbours of these zones if opposite edges of the space are joined, by the same study: 9.0 to 9.9."""
THESIS_DUPLICATES = {100: 750}  # EventCloud, section 3.2.2

REPORT_PERIOD = 60 * SECOND


class RingHops(NamedTuple):
    """Lookups of random keys from random nodes. `mode` is protocol (simulated nodes) or static (tables alone)."""

    nodes: int
    mode: str
    mean_hops: float
    ideal_hops: float | None
    lookups: int
    answered: int
    stretch: float

    @property
    def is_expected(self) -> bool:
        """Whether the hops are within a tenth of the ideal ones, and the stretch below two."""
        is_near = self.ideal_hops is None or abs(self.mean_hops / self.ideal_hops - 1) <= 0.1
        return is_near and self.answered == self.lookups and (self.ideal_hops is None or self.stretch < 2)


class ChurnFigures(NamedTuple):
    """Lookups while nodes crash and join. Control messages are all but lookups, their acknowledgements and answers."""

    nodes: int
    median_session: float
    loss: float
    lookups: int
    failed: int
    misdelivered: int
    bad_per_10_000: float
    control_per_second: float
    trace: str

    @property
    def success(self) -> float:
        """The share of lookups that the closest live node answered for within a minute."""
        return 1 - self.bad_per_10_000 / 10_000

    @property
    def is_expected(self) -> bool:
        """Whether nearly all lookups succeed at few control messages or, with short sessions, most of them."""
        if self.median_session < LONG_SESSION:
            return self.success >= MIN_SUCCESS
        return self.bad_per_10_000 <= MAX_BAD and self.control_per_second < MAX_CONTROL


class RecoveryFigures(NamedTuple):
    """The crash of half of the nodes. `empty_sides`: nodes without a live contact on one side of their leaf set."""

    nodes: int
    seed: int
    empty_sides: int
    healed_after: int | None
    messages: int

    @property
    def is_expected(self) -> bool:
        """Whether the ring healed."""
        return self.healed_after is not None


def static_hops(nodes: int, *, seed: int = 1) -> RingHops:
    """Hops over ideal tables, without running the protocol."""
    study = study_hops(nodes, lookups=LOOKUPS, seed=seed)
    return RingHops(nodes, "static", study.mean_hops, IDEAL_HOPS.get(nodes), LOOKUPS, LOOKUPS, study.stretch)


def protocol_hops(nodes: int, *, lookups: int = 3_000, seed: int = 1) -> RingHops:
    """Hops of the protocol's own lookups in a simulated network."""
    ring = SimulatedRing(seed=seed)
    ring.build(nodes)
    ring.lookups(rate=lookups / 60, until=60 * SECOND)
    ring.simulator.run(until=65 * SECOND)
    figures = ring.figures
    stretch = sum(figures.routed) / max(1, sum(figures.direct))
    return RingHops(
        nodes, "protocol", figures.mean_hops, IDEAL_HOPS.get(nodes), figures.started, len(figures.hops), stretch
    )


def ring_hops(nodes: int, *, seed: int = 1) -> list[RingHops]:
    """Hops over ideal tables and, up to 10 000 nodes, by the protocol."""
    figures = [static_hops(nodes, seed=seed)]
    return [*figures, protocol_hops(nodes, seed=seed)] if nodes <= MAX_PROTOCOL_NODES else figures


def churn(
    nodes: int = 1_000,
    *,
    mean_session: float = 1_800,
    loss: float = 0.05,
    lookups: int = 100_000,
    seconds: int = 1_000,
    seed: int = 1,
) -> ChurnFigures:
    """Nodes crash after exponential sessions and new ones join in their place, while random keys are looked up."""
    ring = SimulatedRing(seed=seed, network=Network(latency=GeographicLatency(), loss=loss))
    ring.build(nodes)
    until = seconds * SECOND
    ring.churn(lambda: ring.random.expovariate(1 / mean_session), until=until)
    ring.lookups(rate=1.02 * lookups / seconds, until=until)  # a Poisson process: a little more than asked for
    ring.simulator.run(until=until)
    control = ring.messages("control") / nodes / seconds
    ring.simulator.run(until=until + 61 * SECOND)
    figures = ring.figures
    return ChurnFigures(
        nodes,
        mean_session * math.log(2),
        loss,
        figures.started - figures.abandoned,
        figures.failed,
        figures.misdelivered,
        figures.bad_per_10_000,
        control,
        ring.simulator.trace_hash(),
    )


def recovery(nodes: int = 10_000, *, leaf_size: int = 32, seed: int = 1, limit: int = 600) -> RecoveryFigures:
    """Half of the nodes crash at once; the ring is healed when all live nodes have their true neighbours."""
    ring = SimulatedRing(seed=seed, leaf_size=leaf_size)
    ring.build(nodes, has_proximity=False)
    simulator = ring.simulator
    start = 10 * SECOND
    simulator.run(until=start)
    for contact in ring.random.sample(ring.active, nodes // 2):
        ring.crash(contact.address)
    alive = set(ring.active)
    empty_sides = sum(_has_empty_side(ring, contact.address, alive) for contact in ring.active)
    for after in range(10, limit + 1, 10):
        simulator.run(until=start + after * SECOND)
        if not ring.misplaced():
            return RecoveryFigures(nodes, seed, empty_sides, after, sum(simulator.sent.values()))
    return RecoveryFigures(nodes, seed, empty_sides, None, sum(simulator.sent.values()))


def _has_empty_side(ring: SimulatedRing, address: str, alive: set[Contact]) -> bool:
    leaves = ring.pastry(address).leaves
    right, left = leaves.sides()
    contacts = leaves.contacts
    return not alive.intersection(contacts[:right]) or not alive.intersection(contacts[-left:] if left else ())


# CANs


class CanHops(NamedTuple):
    """Unicasts between random peers and points."""

    peers: int
    routing: str
    mean_hops: float
    expected_hops: float | None
    mean_neighbours: float
    wrapped_neighbours: float
    """If opposite edges of the space were joined: the zones at its edges would have as many as those inside."""
    lookups: int
    answered: int

    @property
    def is_expected(self) -> bool:
        """Whether hops and neighbours are within a tenth of what is expected, and every lookup was answered."""
        is_near = self.expected_hops is None or abs(self.mean_hops / self.expected_hops - 1) <= 0.1
        is_usual = self.peers not in CAN_HOPS or abs(self.wrapped_neighbours / WRAPPED_NEIGHBOURS - 1) <= 0.1
        return is_near and is_usual and self.answered == self.lookups


class BroadcastFigures(NamedTuple):
    """A broadcast to the whole space, by the optimal algorithm and by naive flooding."""

    peers: int
    joins: str
    mean_neighbours: float
    optimal_messages: int
    optimal_duplicates: int
    flooding_duplicates: int
    printed_duplicates: int
    """With the message back to the sender, as Algorithm 3.2 is printed."""
    thesis_duplicates: int | None


def quiet_network(peers: int, seed: int, *, by_peer: bool = False) -> SimulatedCan:
    """A CAN of four dimensions: each peer joins at a random point, or splits the zone of a random peer."""
    settings = CanSettings(period=REPORT_PERIOD, failure_after=4 * REPORT_PERIOD)
    network = SimulatedCan(seed=seed, space=Space(4), settings=settings)
    random = network.simulator.random
    network.start()
    while len(network.addresses()) < peers:
        contact = random.choice(network.members())
        key = random.choice(network.can(contact).members.zones()).lower if by_peer else None
        network.start([contact], key)
        network.wait(100 * MILLISECOND)
    while len(network.members()) < peers:
        network.wait(REPORT_PERIOD)
    network.wait(3 * REPORT_PERIOD)
    while any(network.can(address).statistics()["open faces"] for address in network.addresses()):
        network.wait(REPORT_PERIOD)  # a neighbour is still to be found
    covered = sum((network.space.volume(zone) for zone in _zones(network)), Fraction())
    assert covered == 1, "the zones tile the space"
    return network


def can_hops(peers: int, *, seed: int, lookups: int = 2000) -> list[CanHops]:
    """Hops by Algorithm 3.1 and by greedy routing in the same network."""
    network = quiet_network(peers, seed)
    figures = []
    for routing in ("greedy", "Algorithm 3.1"):
        for address in network.addresses():
            members = network.can(address).members
            members.settings = replace(members.settings, is_greedy=routing == "greedy")
        network.results.clear()
        random = network.simulator.random
        for lookup in range(lookups):
            region = region_of(*network.random_point(random))
            command = FindInRegion(tag=f"{routing} {lookup}", region=region)
            network.simulator.command(random.choice(network.addresses()), command)
            if lookup % 100 == 99:
                network.wait(SECOND)
        network.wait(120 * SECOND)
        results = [result for result in network.results.values() if result.is_complete]
        hops = sum(result.hops for result in results) / max(1, len(results))
        expected = CAN_HOPS.get(peers) if routing == "greedy" else None
        means = round(_mean_neighbours(network), 2), round(_wrapped_neighbours(network), 2)
        figures.append(CanHops(peers, routing, round(hops, 2), expected, *means, lookups, len(results)))
    return figures


def broadcast_figures(peers: int, *, seed: int) -> Iterator[BroadcastFigures]:
    """Messages of a broadcast for both ways to choose the zone that a new peer splits."""
    for by_peer in (False, True):
        network = quiet_network(peers, seed, by_peer=by_peer)
        optimal, optimal_duplicates = _broadcast(network, is_flooded=False)
        _, duplicates = _broadcast(network, is_flooded=True)
        yield BroadcastFigures(
            peers,
            "random peer" if by_peer else "random point",
            round(_mean_neighbours(network), 2),
            optimal,
            optimal_duplicates,
            duplicates,
            duplicates + peers - 1,
            THESIS_DUPLICATES.get(peers),
        )


def _broadcast(network: SimulatedCan, *, is_flooded: bool) -> tuple[int, int]:
    """The messages of a broadcast from a random peer, and how many of them came to a peer that had it."""
    before = _count(network, "requests.multicast"), _count(network, "requests.duplicates")
    whole = region_of(*[None] * network.space.dimensions)
    payload = b"flooded" if is_flooded else b"optimal"
    command = MulticastToRegion(tag=payload.decode(), region=whole, payload=payload, is_flooded=is_flooded)
    network.simulator.command(network.simulator.random.choice(network.addresses()), command)
    network.wait(60 * SECOND)
    assert sorted(network.deliveries[payload]) == network.matching(whole), "each peer is reached once"
    return _count(network, "requests.multicast") - before[0], _count(network, "requests.duplicates") - before[1]


def _count(network: SimulatedCan, name: str) -> int:
    return sum(network.simulator.node(address).counts[name] for address in network.addresses())


def _zones(network: SimulatedCan) -> Iterator[Zone]:
    return (zone for address in network.addresses() for zone in network.can(address).members.zones())


def _mean_neighbours(network: SimulatedCan) -> float:
    counts = [len(network.can(address).members.neighbours) for address in network.addresses()]
    return sum(counts) / len(counts)


def _wrapped_neighbours(network: SimulatedCan) -> float:
    """The mean number of neighbours of these zones in a space that wraps around."""
    zones = list(_zones(network))
    value = network.space.alphabet.value
    lower, upper = (
        np.array([[float(value(bound)) for bound in bounds] for bounds in side])
        for side in ([zone.lower for zone in zones], [zone.upper for zone in zones])
    )  # middles of middles: exact in floats
    neighbours = 0
    for low, high in zip(lower, upper, strict=True):
        overlap = (lower < high) & (low < upper)
        abut = (lower == high) | (upper == low) | ((lower == 0) & (high == 1)) | ((upper == 1) & (low == 0))
        neighbours += int((((abut & ~overlap).sum(1) == 1) & (abut | overlap).all(1)).sum())
    return neighbours / len(zones)


# Hops over ideal tables


DIGITS = 16
MAX_HOPS = 64
BASE_DELAY = 0.05  # a hop within one place, as a share of the way across the square; the simulator's default


@dataclass(frozen=True, slots=True)
class HopStudy:
    """Hops of many lookups, and the delays of their routes and of the direct ways."""

    nodes: int
    hops: np.ndarray[Any, np.dtype[np.int64]]
    routed: np.ndarray[Any, np.dtype[np.float64]]
    direct: np.ndarray[Any, np.dtype[np.float64]]

    @property
    def mean_hops(self) -> float:
        return float(self.hops.mean())

    @property
    def stretch(self) -> float:
        """The mean delay of the routes relative to the mean direct delay."""
        return float(self.routed.mean() / self.direct.mean())

    def histogram(self) -> dict[int, int]:
        """How many lookups took how many hops."""
        values, counts = np.unique(self.hops, return_counts=True)
        return {int(value): int(count) for value, count in zip(values, counts, strict=True)}


def study_hops(
    nodes: int, *, lookups: int = 20_000, leaf_size: int = 16, seed: int = 1, candidates: int = 16
) -> HopStudy:
    """Route random keys from random nodes.

    >>> study = study_hops(100, lookups=2_000)
    >>> 1.5 < study.mean_hops < 1.9
    True
    """
    random = np.random.default_rng(seed)
    identifiers = np.unique(random.integers(0, 2**64, nodes, dtype=np.uint64))
    points = random.random((len(identifiers), 2))
    keys = random.integers(0, 2**64, lookups, dtype=np.uint64)
    origins = random.integers(0, len(identifiers), lookups)
    roots = _closest(identifiers, keys)
    hops = np.zeros(lookups, dtype=np.int64)
    delays = np.zeros(lookups)
    current = origins.copy()
    moving = np.flatnonzero(current != roots)
    for _ in range(MAX_HOPS):
        if not len(moving):
            break
        following = _next_hops(
            identifiers, points, current[moving], keys[moving], roots[moving], leaf_size, random, candidates
        )
        delays[moving] += _delay(points, current[moving], following)
        hops[moving] += 1
        current[moving] = following
        moving = moving[following != roots[moving]]
    away = origins != roots
    direct = _delay(points, origins[away], roots[away])
    return HopStudy(nodes, hops, delays[away], direct)


def _closest(identifiers: Any, keys: Any) -> Any:
    after = np.searchsorted(identifiers, keys) % len(identifiers)
    before = (after - 1) % len(identifiers)
    to_after, to_before = identifiers[after] - keys, keys - identifiers[before]  # modulo 2**64
    return np.where(to_after < to_before, after, before)


def _next_hops(
    identifiers: Any, points: Any, current: Any, keys: Any, roots: Any, leaf_size: int, random: Any, candidates: int
) -> Any:
    count, half = len(identifiers), leaf_size // 2
    offset = (roots - current) % count
    is_leaf = (offset <= half) | (offset >= count - half)
    entries, is_filled = _table_entries(identifiers, points, current, keys, random, candidates)
    towards = np.where(offset < count // 2, current + half, current - half) % count  # the last leaf on the way
    return np.where(is_leaf, roots, np.where(is_filled, entries, towards))


def _table_entries(
    identifiers: Any, points: Any, current: Any, keys: Any, random: Any, candidates: int
) -> tuple[Any, Any]:
    """The entry for the key's next digit: the closest of some nodes that share one more digit with the key."""
    different = identifiers[current] ^ keys
    shared = sum(((different >> np.uint64(60 - 4 * row)) == 0).astype(np.int64) for row in range(DIGITS))
    width = (60 - 4 * np.minimum(shared, DIGITS - 1)).astype(np.uint64)
    low = keys >> width << width
    high = low | ((np.uint64(1) << width) - np.uint64(1))
    first = np.searchsorted(identifiers, low, side="left")
    stop = np.searchsorted(identifiers, high, side="right")
    size = np.maximum(stop - first, 1)
    sample = first[:, None] + (random.random((len(keys), candidates)) * size[:, None]).astype(np.int64)
    sample = np.minimum(sample, len(identifiers) - 1)
    away = points[sample] - points[current][:, None, :]
    nearest = np.argmin((away**2).sum(axis=2), axis=1)
    return sample[np.arange(len(keys)), nearest], stop > first


def _delay(points: Any, left: Any, right: Any) -> Any:
    return BASE_DELAY + np.sqrt(((points[left] - points[right]) ** 2).sum(axis=1))
