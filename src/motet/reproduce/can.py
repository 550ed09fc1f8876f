"""Figures of CANs in the simulator: hops of unicasts, neighbours, and the messages of broadcasts.

The peers run the whole protocol. Reports between them are rare, because nobody fails here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from motet.overlay.protocol.can_neighbourhood import CanSettings
from motet.overlay.protocol.can_requests import FindInRegion, MulticastToRegion
from motet.overlay.protocol.node import MILLISECOND, SECOND
from motet.overlay.protocol.zones import Space, Zone, region_of
from motet.overlay.sim.can_networks import SimulatedCan

EXPECTED_HOPS = {128: 3.69, 1024: 6.43, 4096: 8.96}
"""Mean hops of greedy routing in four dimensions without wrap-around, by a Monte Carlo study of zones alone."""
THESIS_DUPLICATES = {100: 750}  # EventCloud, section 3.2.2

_PERIOD = 60 * SECOND


class HopFigures(NamedTuple):
    """Unicasts between random peers and points."""

    peers: int
    routing: str
    mean_hops: float
    expected_hops: float | None
    mean_neighbours: float
    lookups: int
    answered: int

    @property
    def is_expected(self) -> bool:
        """Whether the mean is within a tenth of what is expected, and every lookup was answered."""
        is_near = self.expected_hops is None or abs(self.mean_hops / self.expected_hops - 1) <= 0.1
        return is_near and self.answered == self.lookups


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
    settings = CanSettings(period=_PERIOD, failure_after=4 * _PERIOD)
    network = SimulatedCan(seed=seed, space=Space(4), settings=settings)
    random = network.simulator.random
    network.start()
    while len(network.addresses()) < peers:
        contact = random.choice(network.members())
        key = random.choice(network.can(contact).members.zones()).lower if by_peer else None
        network.start([contact], key)
        network.wait(100 * MILLISECOND)
    while len(network.members()) < peers:
        network.wait(_PERIOD)
    network.wait(3 * _PERIOD)
    covered = sum((network.space.volume(zone) for zone in _zones(network)), Fraction())
    assert covered == 1, "the zones tile the space"
    return network


def hop_figures(peers: int, *, seed: int, lookups: int = 2000) -> list[HopFigures]:
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
        expected = EXPECTED_HOPS.get(peers) if routing == "greedy" else None
        mean = round(_mean_neighbours(network), 2)
        figures.append(HopFigures(peers, routing, round(hops, 2), expected, mean, lookups, len(results)))
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
