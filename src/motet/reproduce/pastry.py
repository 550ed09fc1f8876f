"""Figures of Pastry in the simulator: hops and delays, dependability under churn, and recovery after a mass failure."""

from __future__ import annotations

import math
from typing import NamedTuple

from motet.overlay.protocol.identifiers import Contact
from motet.overlay.protocol.node import SECOND
from motet.overlay.sim.network import GeographicLatency, Network
from motet.overlay.sim.rings import SimulatedRing
from motet.overlay.sim.static_hops import study_hops

IDEAL_HOPS = {100: 1.70, 1_000: 2.47, 10_000: 3.24, 50_000: 3.78}
"""Mean hops over ideal tables, b=4 and L=16, by a Monte Carlo study."""
LOOKUPS = 20_000
MAX_PROTOCOL_NODES = 10_000  # larger networks are studied over tables alone
LONG_SESSION = 1_200  # seconds; from such a median on, one lookup in 10 000 may fail, and control messages are limited
MAX_CONTROL = 0.5
MAX_BAD = 1.0
MIN_SUCCESS = 0.95


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


def hop_figures(nodes: int, *, seed: int = 1) -> list[RingHops]:
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
