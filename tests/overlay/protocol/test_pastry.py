"""Pastry: the node closest to a key answers for it, while nodes join, leave, fail, stand still and are separated."""

import pytest
from tests.overlay.rings import assert_ring_is_right, joined_ring

from motet.overlay.protocol.identifiers import identifier_of
from motet.overlay.protocol.node import SECOND, Outcome
from motet.overlay.protocol.pastry import Pastry
from motet.overlay.protocol.pastry_messages import (
    TRANSITIONS,
    LookupAnswered,
    PastryInput,
    PastryState,
    Resumed,
    Suspended,
)
from motet.overlay.sim.network import GeographicLatency, Network
from motet.overlay.sim.rings import SimulatedRing


def test_joins_one_by_one_make_a_ring() -> None:
    """Nodes that join with lost messages have the right neighbours, and every lookup reaches the closest node."""
    ring = joined_ring(30, seed=3, network=Network(latency=GeographicLatency(), loss=0.05))
    assert_ring_is_right(ring)
    ring.lookups(rate=20, until=ring.simulator.now + 10 * SECOND)
    ring.simulator.run(until=ring.simulator.now + 71 * SECOND)
    figures = ring.figures
    assert (figures.delivered, figures.failed, figures.misdelivered) == (figures.started, 0, 0)


def test_simultaneous_joins_make_one_ring() -> None:
    """Newcomers that know nothing of each other find each other through their neighbours."""
    ring = joined_ring(3, seed=4)
    for _ in range(20):
        ring.join()
    ring.simulator.run(until=ring.simulator.now + 60 * SECOND)
    assert len(ring.active) == 23
    assert_ring_is_right(ring)


def test_a_leaving_node_is_responsible_for_nothing() -> None:
    """After a departure in order the ring is right at once, without any timeout."""
    ring = joined_ring(20, seed=5)
    for contact in ring.active[::3]:
        ring.leave(contact.address)
    ring.simulator.run(until=ring.simulator.now + 2 * SECOND)
    assert len(ring.simulator.hosts) == 13
    assert_ring_is_right(ring)


@pytest.mark.parametrize("leaf_size", [8, 16])
def test_a_ring_heals_when_half_of_it_crashes(leaf_size: int) -> None:
    """Half of the nodes crash at once; the other half finds its new neighbours."""
    ring = SimulatedRing(seed=6, leaf_size=leaf_size)
    ring.build(80)
    ring.simulator.run(until=10 * SECOND)
    for contact in ring.random.sample(ring.active, 40):
        ring.crash(contact.address)
    ring.simulator.run(until=240 * SECOND)
    assert_ring_is_right(ring)


def test_a_ring_heals_around_an_empty_side() -> None:
    """Two nodes become neighbours when half of the ring crashes, among it all leaves between them."""
    ring = SimulatedRing(seed=2)
    ring.build(80)
    ring.simulator.run(until=10 * SECOND)
    gap, rest = ring.active[10:19], ring.active[:10] + ring.active[19:]
    left, right = ring.active[9], ring.active[19]
    others = [contact for contact in rest if contact not in (left, right)]
    for contact in gap + ring.random.sample(others, 31):
        ring.crash(contact.address)
    assert not set(ring.pastry(left.address).leaves.contacts[:8]).intersection(ring.active)
    ring.simulator.run(until=240 * SECOND)
    assert (ring.pastry(left.address).leaves.right, ring.pastry(right.address).leaves.left) == (right, left)
    assert_ring_is_right(ring)


def test_rings_join_after_a_partition() -> None:
    """Two halves that declared each other failed become one ring again."""
    ring = SimulatedRing(seed=7)
    ring.build(40)
    ring.network.partition([[contact.address for contact in ring.active[::2]]])
    ring.simulator.run(until=300 * SECOND)
    sides = {ring.pastry(contact.address).leaves.right for contact in ring.active[::2]}
    assert sides == set(ring.active[::2])
    ring.network.heal()
    ring.simulator.run(until=1200 * SECOND)
    assert_ring_is_right(ring)


def test_a_live_neighbour_that_was_removed_is_back_at_once() -> None:
    """When all answers of a neighbour were lost by chance, the next probe finds it again (seed 778)."""
    ring = SimulatedRing(seed=13)
    ring.build(20)
    left, right = (contact.address for contact in ring.active[3:5])
    ring.network.break_link(left, right)
    while not ring.misplaced():
        ring.simulator.run(until=ring.simulator.now + SECOND)
    ring.network.repair_link(left, right)
    ring.simulator.run(until=ring.simulator.now + 10 * SECOND)
    assert_ring_is_right(ring)


def test_a_node_that_was_not_scheduled_checks_its_neighbours_first() -> None:
    """A paused node answers nothing for its keys until its neighbours have answered."""
    ring = SimulatedRing(seed=8)
    ring.build(20)
    ring.simulator.run(until=10 * SECOND)
    outcomes: list[Outcome] = []
    paused = ring.active[4].address
    ring.simulator.outcome_listeners.append(lambda at, outcome: outcomes.append(outcome) if at == paused else None)
    ring.simulator.pause(paused, 60 * SECOND)
    ring.look_up(ring.active[4].identifier, origin=ring.active[11].address)
    ring.simulator.run(until=80 * SECOND)
    kinds = [type(outcome) for outcome in outcomes]
    assert kinds[:2] == [Suspended, Resumed]


def test_a_restarted_node_returns_through_the_neighbours_on_its_disk() -> None:
    """With its disk a node needs no address to join again."""
    ring = SimulatedRing(seed=9)
    ring.build(20)
    ring.simulator.run(until=200 * SECOND)
    contact = ring.active[3]
    ring.crash(contact.address, lose_disk=False)
    ring.simulator.run(until=210 * SECOND)
    ring.rejoin(contact)
    ring.simulator.run(until=240 * SECOND)
    assert contact in ring.active
    assert_ring_is_right(ring)


def test_lookups_come_back_with_their_hops() -> None:
    """An answer names the responsible node and the hops; its story is retained."""
    ring = SimulatedRing(seed=10)
    ring.build(30)
    outcomes: list[Outcome] = []
    ring.simulator.outcome_listeners.append(lambda _, outcome: outcomes.append(outcome))
    key = identifier_of("a key")
    ring.look_up(key)
    ring.simulator.run(until=5 * SECOND)
    (answer,) = [outcome for outcome in outcomes if isinstance(outcome, LookupAnswered)]
    assert (answer.key, answer.root) == (key, ring.responsible(key))
    assert answer.hops <= 3


def test_every_transition_has_its_method_and_every_state_a_way_out() -> None:
    """The table names methods that exist; only a node that has left stays as it is."""
    assert all(callable(getattr(Pastry, method)) for method, _ in TRANSITIONS.values())
    assert {state for state, _ in TRANSITIONS} == set(PastryState) - {PastryState.LEFT}
    assert {change for _, change in TRANSITIONS} == set(PastryInput)
