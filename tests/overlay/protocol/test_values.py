"""Stored values move with the responsibility for their keys and survive what leaves one replica."""

import pytest
from tests.overlay.rings import assert_ring_is_right

from motet.model.errors import UsageError
from motet.overlay.net.frames import NetworkLimits, encode_message
from motet.overlay.protocol.identifiers import Contact, closeness, closest, identifier_of
from motet.overlay.protocol.node import SECOND, Outcome, Send
from motet.overlay.protocol.value_messages import FetchValue, StoreValue, ValueFetched, ValueStored
from motet.overlay.protocol.values import MAX_VALUE, ValueStore
from motet.overlay.sim.invariants import value_violations
from motet.overlay.sim.network import GeographicLatency, Network
from motet.overlay.sim.rings import SimulatedRing
from motet.overlay.sim.simulator import Simulator

KEYS = [identifier_of(f"key {index}") for index in range(150)]


def ring_with_values(seed: int, *, nodes: int = 30, loss: float = 0.0, leaf_size: int = 16) -> SimulatedRing:
    network = Network(latency=GeographicLatency(), loss=loss)
    ring = SimulatedRing(seed=seed, network=network, leaf_size=leaf_size, layers=lambda pastry: [ValueStore(pastry)])
    ring.build(nodes)
    stored: list[Outcome] = []
    ring.simulator.outcome_listeners.append(lambda _, outcome: stored.append(outcome))
    for tag, key in enumerate(KEYS):
        ring.simulator.command(ring.active[tag % nodes].address, StoreValue(tag=tag, key=key, value=b"%d" % tag))
    ring.simulator.run(until=60 * SECOND)
    assert {outcome.tag for outcome in stored if isinstance(outcome, ValueStored)} == set(range(len(KEYS)))
    return ring


def fetched(ring: SimulatedRing) -> dict[int, bytes | None]:
    outcomes: list[Outcome] = []
    ring.simulator.outcome_listeners.append(lambda _, outcome: outcomes.append(outcome))
    for tag, key in enumerate(KEYS):
        ring.simulator.command(ring.active[tag % len(ring.active)].address, FetchValue(tag=tag, key=key))
    ring.simulator.run(until=ring.simulator.now + 61 * SECOND)
    return {outcome.tag: outcome.value for outcome in outcomes if isinstance(outcome, ValueFetched)}


def assert_values_are_in_place(ring: SimulatedRing) -> None:
    """Each value is fetched as it was stored, and held by exactly the four closest nodes."""
    assert fetched(ring) == {tag: b"%d" % tag for tag in range(len(KEYS))}
    holders: dict[int, set[Contact]] = {key: set() for key in KEYS}
    for contact in ring.active:
        store = ring.simulator.node(contact.address).protocols["values"]
        assert isinstance(store, ValueStore)
        for key in store.values:
            holders[key].add(contact)
    for key in KEYS:
        rest, closest_four = list(ring.active), set()
        for _ in range(4):
            closest_four.add(closest(rest, key))
            rest.remove(closest(rest, key))
        assert holders[key] == closest_four


def test_values_move_to_newcomers() -> None:
    """A newcomer has the values of its keys when it becomes active; those farther away drop them."""
    ring = ring_with_values(1, nodes=10)
    for _ in range(15):
        ring.join()
        ring.simulator.run(until=ring.simulator.now + 10 * SECOND)
    ring.simulator.run(until=ring.simulator.now + 120 * SECOND)
    assert len(ring.active) == 25
    assert_values_are_in_place(ring)


def test_transfers_are_split_into_messages_that_hosts_accept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Megabytes of values reach newcomers and the replicas of a leaving node; the TCP host takes 2 MiB a message."""
    sizes: list[int] = []
    send = Simulator._send

    def measured(simulator: Simulator, sender: str, effect: Send) -> None:
        sizes.append(len(encode_message(effect.message)))
        send(simulator, sender, effect)

    ring = SimulatedRing(seed=4, layers=lambda pastry: [ValueStore(pastry)])
    ring.build(4)
    monkeypatch.setattr(Simulator, "_send", measured)
    for tag in range(40):
        size = MAX_VALUE if tag < 3 else 150_000
        ring.simulator.command(ring.active[tag % 4].address, StoreValue(tag=tag, key=KEYS[tag], value=bytes(size)))
    ring.simulator.run(until=60 * SECOND)
    newcomer = ring.join()
    ring.simulator.run(until=ring.simulator.now + 60 * SECOND)
    for contact in ring.active[:3]:
        if contact != newcomer:
            ring.leave(contact.address)
            ring.simulator.run(until=ring.simulator.now + 60 * SECOND)
    assert sum(sizes) > 40_000_000
    assert max(sizes) < NetworkLimits().max_frame_bytes - 32
    for contact in ring.active:
        store = ring.simulator.node(contact.address).protocols["values"]
        assert isinstance(store, ValueStore)
        assert (len(store.values), store.statistics()["queued"]) == (40, 0)


def test_a_value_that_is_too_large_is_refused() -> None:
    """The error names the size and the limit."""
    ring = SimulatedRing(seed=4, layers=lambda pastry: [ValueStore(pastry)])
    ring.build(2)
    with pytest.raises(UsageError, match="a value of 1,048,577 bytes; 1,048,576 are allowed"):
        ring.simulator.command(ring.active[0].address, StoreValue(tag=1, key=1, value=bytes(MAX_VALUE + 1)))


def test_values_survive_departures_and_crashes() -> None:
    """Nodes leave in order or crash, at most three between two rounds: no value is lost."""
    ring = ring_with_values(2, loss=0.05)
    for round_number in range(6):
        for contact in ring.random.sample(ring.active, 3):
            if round_number % 2:
                ring.leave(contact.address)
            else:
                ring.crash(contact.address)
        ring.simulator.run(until=ring.simulator.now + 150 * SECOND)
    assert len(ring.active) == 12
    assert_ring_is_right(ring)
    assert_values_are_in_place(ring)


def test_a_holder_that_has_dropped_a_value_gets_it_back() -> None:
    """A node that returns without its disk and others that fail then leave no replica missing for good."""
    ring = ring_with_values(7, nodes=20, loss=0.02, leaf_size=8)
    for key in KEYS[:6]:
        returning, *others = sorted(ring.active, key=lambda contact: closeness(contact.identifier, key))[:3]
        ring.crash(returning.address)
        ring.simulator.run(until=ring.simulator.now + 3 * SECOND)
        ring.rejoin(returning)
        ring.simulator.run(until=ring.simulator.now + 10 * SECOND)
        for contact in others:
            ring.crash(contact.address)
            ring.join()
        ring.simulator.run(until=ring.simulator.now + 300 * SECOND)
    assert value_violations(ring, {key: b"%d" % tag for tag, key in enumerate(KEYS)}) == []


def test_values_survive_on_disk() -> None:
    """All nodes crash; those that restart with their disks have every value again."""
    ring = ring_with_values(3, nodes=12)
    ring.simulator.run(until=200 * SECOND)
    contacts = list(ring.active)
    for contact in contacts:
        ring.crash(contact.address, lose_disk=False)
    for contact in contacts:
        ring.join(contact=contact)
    ring.simulator.run(until=ring.simulator.now + 600 * SECOND)
    assert_ring_is_right(ring)
    assert_values_are_in_place(ring)


def test_the_two_sides_of_a_partition_agree_afterwards() -> None:
    """A value stored on both sides is one of the two, everywhere, after the partition."""
    ring = ring_with_values(4, nodes=16)
    sides = [[contact.address for contact in ring.active[side::2]] for side in (0, 1)]
    ring.network.partition(sides)
    ring.simulator.run(until=200 * SECOND)
    for side in (0, 1):
        ring.simulator.command(sides[side][0], StoreValue(tag=0, key=KEYS[0], value=b"side %d" % side))
        ring.simulator.run(until=ring.simulator.now + 5 * SECOND)
    ring.network.heal()
    ring.simulator.run(until=1200 * SECOND)
    assert_ring_is_right(ring)
    value = fetched(ring)[0]
    assert value in (b"side 0", b"side 1")
    stores = [ring.simulator.node(contact.address).protocols["values"] for contact in ring.active]
    held = [store.held().get(KEYS[0]) for store in stores if isinstance(store, ValueStore)]
    assert sorted(held, key=str) == [None] * 12 + [value] * 4
