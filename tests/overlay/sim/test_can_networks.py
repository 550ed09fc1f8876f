"""CANs in the simulator: random scenarios leave nothing wrong, and planted bugs are found."""

import dataclasses
from collections.abc import Iterable, Mapping
from random import Random

import pytest

from motet.overlay.protocol import can_requests
from motet.overlay.protocol.can import Can
from motet.overlay.protocol.can_messages import FindInRegion, PointEntry, StoreAtPoint, ValueTransfer
from motet.overlay.protocol.can_neighbourhood import CanSettings
from motet.overlay.protocol.can_storage import CanStorage
from motet.overlay.protocol.node import SECOND
from motet.overlay.protocol.zones import Space, region_of
from motet.overlay.sim.can_networks import SimulatedCan, ValueLedger
from motet.overlay.sim.scenario import CAN, Scenario, ScenarioStep
from motet.overlay.sim.scenario_run import make_run, run_seed


@pytest.mark.parametrize("seed", range(1, 5))
def test_a_random_scenario_leaves_nothing_wrong(seed: int) -> None:
    """One owner per point, right neighbours, all values, exact multicasts; two runs of a seed have the same trace."""
    first, second = run_seed(seed, protocol=CAN), run_seed(seed, protocol=CAN)
    assert (first.result.violations, first.result.trace) == ((), second.result.trace)


def test_half_of_the_peers_crash_at_once() -> None:
    """The others take over all zones; values of which a copy is left are found again."""
    network = SimulatedCan(seed=5, space=Space(3))
    network.grow(40)
    random = Random(5)
    for _ in range(20):
        network.put(random.choice(network.members()), random)
    network.wait(20 * SECOND)
    network.crash(random.sample(network.addresses(), 20))
    assert network.settle() == []
    network.wait(60 * SECOND)
    assert (len(network.members()), network.value_violations()) == (20, [])


def test_all_peers_lose_power_at_once() -> None:
    """Started again, each has its own zone and finds its neighbours within seconds; all values are there."""
    network = SimulatedCan(seed=6, space=Space(2))
    network.grow(12)
    random = Random(6)
    for _ in range(10):
        network.put(random.choice(network.members()), random)
    network.wait(20 * SECOND)
    addresses = network.addresses()
    zones = {address: network.can(address).members.zones() for address in addresses}
    for attempt in range(2):
        network.crash(addresses, lose_disk=False)
        for address in addresses:
            network.simulator.start(address)
            network.wait(SECOND // 2)  # the first ones find nobody, and may lose power again before they do
        network.wait(6 * SECOND * attempt)
    assert network.violations() == []
    assert {address: network.can(address).members.zones() for address in addresses} == zones
    assert network.value_violations() == []


def healed_split() -> SimulatedCan:
    """A CAN that was in two parts for three minutes, with values put and removed on both sides."""
    network = SimulatedCan(seed=3, space=Space(2))
    network.grow(16)
    random = Random(3)
    sides = network.addresses()[:6], network.addresses()[6:]
    early = [(network.random_point(random), b"early %d" % number) for number in range(4)]
    for point, value in early:
        network.store("n0", point, value)
    network.wait(20 * SECOND)
    network.simulator.network.partition(sides)
    network.wait(180 * SECOND)
    for index, side in enumerate(sides):
        volume = sum(network.space.volume(zone) for address in side for zone in network.can(address).members.zones())
        assert volume == 1
        for _ in range(10):
            network.put(random.choice(side), random)
        for point, value in early[2 * index : 2 * index + 2]:
            network.remove(random.choice(side), point, value)
    network.wait(30 * SECOND)
    assert all(result.is_complete for result in network.results.values()) and len(network.results) == 28
    network.simulator.network.heal()
    assert network.settle() == []
    network.wait(60 * SECOND)
    return network


@pytest.mark.parametrize("seconds", [6, 60])
def test_values_of_a_restarted_peer_are_replicated_again(seconds: int) -> None:
    """A peer that was away for a moment and fails soon after its return loses nothing (seeds 12 and 332)."""
    network = SimulatedCan(seed=5, space=Space(2))
    network.grow(14)
    random = Random(5)
    for _ in range(40):
        network.put(random.choice(network.addresses()), random)
    network.wait(20 * SECOND)
    for address in network.addresses()[:4]:
        network.crash([address], lose_disk=False)
        network.wait(10 * SECOND)
        network.restart(address)
        network.wait(seconds * SECOND)
        network.crash([address])
        network.wait(90 * SECOND)
    assert (network.wiped, network.settle(), network.value_violations()) == ([], [], [])


def test_a_network_split_heals() -> None:
    """Both sides cover the space while separated; then each point has one owner, and no removed value is back."""
    assert healed_split().value_violations() == []


# Planted bugs: each is found by a scenario that is fine without it


def scenario(*steps: tuple[float, str, Mapping[str, object]]) -> Scenario:
    made = tuple(ScenarioStep(at, action, arguments) for at, action, arguments in steps)
    return Scenario(protocol=CAN, nodes=12, settle=300, steps=made)


SPLIT = scenario((5, "partition", {"nodes": ["n0", "n1", "n2", "n3", "n4"]}), (125, "heal", {}))
POINTS = [[chr(90_000 * n), chr(90_000 * (5 * n % 12))] for n in range(12)]
STORED = [(1.0 + n / 10, "put", {"node": "n0", "point": POINTS[n], "value": str(n)}) for n in range(12)]
CRASHES = scenario(*STORED, *[(30.0 + 100 * (n // 2), "crash", {"node": f"n{n}"}) for n in range(6)])


def violations_of(planned: Scenario, *, seed: int = 2) -> tuple[str, ...]:
    return make_run(planned, seed=seed).run().violations


def test_the_scenarios_of_planted_bugs_are_fine() -> None:
    """Without a planted bug they leave nothing wrong."""
    assert (violations_of(SPLIT), violations_of(CRASHES), violations_of(scenario())) == ((), (), ())


def test_a_missing_takeover_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: vacant zones are never taken."""
    monkeypatch.setattr(Can, "_take", lambda *_: None)
    assert any("has no owner" in violation for violation in violations_of(CRASHES))


def test_an_unresolved_dispute_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: overlapping claims are not resolved after a split."""
    monkeypatch.setattr(Can, "_resolve", lambda *_: False)
    assert any("both hold" in violation for violation in violations_of(SPLIT))


def test_missing_reassignment_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a peer that took over a zone retains both."""
    monkeypatch.setattr(Can, "_reassign", lambda *_: None)
    assert any("with 2 zones" in violation for violation in violations_of(CRASHES))


def test_missing_replication_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: values are acknowledged without copies. With copies, two peers that fail together lose nothing."""

    def acknowledge(self: CanStorage, keys: Iterable[object], **_: object) -> None:
        for key in keys:
            self._end_replication(key)  # type: ignore[arg-type]

    monkeypatch.setattr(CanStorage, "_replicate", acknowledge)
    assert any("was lost with fewer peers" in violation for violation in violations_of(CRASHES))


def test_copies_that_are_not_returned_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a peer that lost a zone in a dispute does not send its values to the new owner."""
    monkeypatch.setattr(CanStorage, "_return_foreign", lambda *_: None)
    assert any("is lost" in violation for violation in healed_split().value_violations())


def test_a_resurrection_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a removal leaves no mark, so that a copy from the other side of a split brings the value back."""
    received = CanStorage._transfer_received

    def forget_marks(self: CanStorage, sender: str, transfer: ValueTransfer) -> bool:
        values = tuple(entry for entry in transfer.values if entry.value is not None)
        is_handled = received(self, sender, dataclasses.replace(transfer, values=values))
        for entries in self.entries.values():
            for digest in [digest for digest, entry in entries.items() if entry.value is None]:
                del entries[digest]
        return is_handled

    monkeypatch.setattr(CanStorage, "_transfer_received", forget_marks)
    assert any("is there after its removal" in violation for violation in healed_split().value_violations())


def test_a_broadcast_without_the_spatial_constraint_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the optimal broadcast sends to every neighbour in the region."""
    monkeypatch.setattr(
        can_requests, "broadcast_children", lambda _zone, zones, region, _root: [z for z in zones if z.meets(region)]
    )
    assert any("duplicates" in violation for violation in violations_of(scenario()))


def test_greedy_routing_with_proximity_and_shortcuts_finds_values() -> None:
    """Options of routing change the way, not the answer; a shortcut makes the second way one hop."""
    settings = CanSettings(is_greedy=True, is_proximity_aware=True, max_shortcuts=8)
    network = SimulatedCan(seed=9, space=Space(2), settings=settings)
    network.grow(30)
    random = Random(9)
    origin = network.addresses()[7]
    point = ("zz", "zz")
    for tag in ("first", "second"):
        network.simulator.command(origin, StoreAtPoint(tag=tag, point=point, value=tag.encode()))
        network.wait(10 * SECOND)
    network.put(random.choice(network.addresses()), random)
    region = region_of(*point)
    network.simulator.command(origin, FindInRegion(tag="all", region=region))
    network.wait(10 * SECOND)
    assert [value.value for value in network.values["all"]] == [b"first", b"second"]
    assert network.results["second"].hops == network.results["all"].hops <= 1


# Values that are removed


def one_value(seed: int = 4) -> SimulatedCan:
    """A CAN with one value at a point that n0 does not own."""
    network = SimulatedCan(seed=seed, space=Space(2))
    network.grow(8)
    network.store("n0", ("x", "y"), b"value")
    network.wait(10 * SECOND)
    return network


def values_at(network: SimulatedCan, origin: str, tag: str) -> list[bytes]:
    network.simulator.command(origin, FindInRegion(tag=tag, region=region_of("x", "y")))
    network.wait(5 * SECOND)
    assert network.results[tag].is_complete
    return [value.value for value in network.values.get(tag, [])]


def test_a_removed_value_is_gone_and_can_be_stored_again() -> None:
    """Its content is held by nobody; storing it again brings it back."""
    network = one_value()
    assert values_at(network, "n1", "before") == [b"value"]
    network.remove("n2", ("x", "y"), b"value")
    network.wait(10 * SECOND)
    assert values_at(network, "n1", "after") == []
    held = [network.storage(a).statistics() for a in network.addresses()]
    assert sum(figures["own"] + figures["copies"] for figures in held) == 0
    assert sum(figures["removed"] for figures in held) == 1 + network.settings.replicas
    network.store("n3", ("x", "y"), b"value")
    network.wait(10 * SECOND)
    assert values_at(network, "n1", "again") == [b"value"]


def test_a_peer_alone_stores_and_removes() -> None:
    """Without replicas a command is complete at its first attempt."""
    network = SimulatedCan(seed=1, space=Space(2))
    network.grow(1)
    network.store("n0", ("x", "y"), b"value")
    network.wait(SECOND)
    assert values_at(network, "n0", "before") == [b"value"]
    network.remove("n0", ("x", "y"), b"value")
    network.wait(SECOND)
    assert values_at(network, "n0", "after") == []
    assert {result.attempts for result in network.results.values()} == {1}


def test_a_late_copy_of_a_removed_value_changes_nothing() -> None:
    """Neither at its owner nor at a replica; the sender gets the mark instead."""
    network = one_value()
    (entry,) = network.storage(network.owner(("x", "y")) or "").entries["x", "y"].values()
    network.remove("n2", ("x", "y"), b"value")
    network.wait(10 * SECOND)
    stale = next(address for address in network.addresses() if ("x", "y") not in network.storage(address).entries)
    network.storage(stale)._add([entry])
    network.wait(60 * SECOND)
    assert values_at(network, "n1", "after") == []
    assert all(
        stored.value is None
        for address in network.addresses()
        for stored in network.storage(address).entries.get(("x", "y"), {}).values()
    )


def test_a_removal_by_a_peer_whose_clock_is_late_counts() -> None:
    """The owner's version is newer than that of the command, which is repeated with one that follows it."""
    network = one_value()
    owner = network.owner(("x", "y")) or ""
    storage = network.storage(owner)
    (entry,) = storage.entries["x", "y"].values()
    storage._add([entry._replace(version=entry.version + 3600 * SECOND)])  # as if it came from a clock that is ahead
    tag = network.ledger.issued(("x", "y"), b"value", is_present=False, now=network.simulator.now)
    network.remove("n2", ("x", "y"), b"value")
    network.wait(20 * SECOND)
    assert values_at(network, "n1", "after") == []
    assert tag != "" and all(result.is_complete for result in network.results.values())


def test_the_newer_of_two_entries_holds_whatever_their_order() -> None:
    """Of equal versions the removal holds, on every peer alike."""
    stored = PointEntry.of(("x",), b"value", 7)
    removed = stored._replace(value=None)
    assert sorted([removed, stored, stored._replace(version=8)], key=lambda e: e.rank)[-2:] == [
        removed,
        stored._replace(version=8),
    ]


def test_commands_at_the_same_time_promise_nothing() -> None:
    """A ledger knows the outcome of the last command only if no other one was still open."""
    ledger = ValueLedger()
    first = ledger.issued(("x",), b"v", is_present=True, now=0)
    second = ledger.issued(("x",), b"v", is_present=False, now=1)
    ledger.completed(first)
    ledger.completed(second)
    assert ledger.violations(set()) == ledger.violations({(("x",), b"v")}) == []
    ledger.completed(ledger.issued(("x",), b"v", is_present=False, now=2))
    assert ledger.violations({(("x",), b"v")}) == ["b'v' at ('x',) is there after its removal"]
