"""Pastry rings for tests: made by joins, and compared with what they should be."""

from motet.overlay.protocol.node import SECOND
from motet.overlay.sim.network import Network
from motet.overlay.sim.rings import SimulatedRing


def joined_ring(count: int, *, seed: int, network: Network | None = None) -> SimulatedRing:
    ring = SimulatedRing(seed=seed, network=network)
    for _ in range(count):
        ring.join()
        ring.simulator.run(until=ring.simulator.now + 12 * SECOND)
    assert len(ring.active) == count
    return ring


def assert_ring_is_right(ring: SimulatedRing) -> None:
    """Every active node has its true neighbours on both sides."""
    assert ring.misplaced() == []
