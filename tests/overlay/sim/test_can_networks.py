"""CANs in the simulator: schedules of churn, loss and splits leave nothing wrong, and planted bugs are found."""

import os
from collections.abc import Iterable
from random import Random

import pytest

from motet.overlay.protocol import can_requests
from motet.overlay.protocol.can import Can
from motet.overlay.protocol.can_neighbourhood import CanSettings
from motet.overlay.protocol.can_storage import CanStorage
from motet.overlay.protocol.coordinates import CanPoint
from motet.overlay.protocol.node import SECOND
from motet.overlay.protocol.zones import Space, region_of
from motet.overlay.sim.can_networks import (
    ScheduleStep,
    SimulatedCan,
    check_schedule,
    random_schedule,
    shrink_schedule,
)

FIRST_SEED = int(os.environ.get("MOTET_CAN_FIRST_SEED", "0"))
SEEDS = range(FIRST_SEED, FIRST_SEED + int(os.environ.get("MOTET_CAN_SEEDS", "4")))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_schedule_leaves_nothing_wrong(seed: int) -> None:
    """After churn, loss and splits: one owner per point, right neighbours, all values, multicasts exactly once."""
    schedule = random_schedule(seed)
    report = check_schedule(seed, schedule)
    if report.violations:
        schedule = shrink_schedule(schedule, lambda shorter: bool(check_schedule(seed, shorter).violations))
    assert report.violations == [], f"seed {seed}, shrunk schedule: {schedule}"


def test_a_seed_has_one_trace() -> None:
    """The same seed gives the same trace, another one a different trace."""
    schedule = random_schedule(1, steps=3)
    traces = [check_schedule(seed, schedule, peers=6).trace_hash for seed in (1, 1, 2)]
    assert traces[0] == traces[1] != traces[2]


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


def healed_split() -> SimulatedCan:
    """A CAN that was in two parts for three minutes, with values put on both sides."""
    network = SimulatedCan(seed=3, space=Space(2))
    network.grow(16)
    random = Random(3)
    sides = network.addresses()[:6], network.addresses()[6:]
    network.simulator.network.partition(sides)
    network.wait(180 * SECOND)
    for side in sides:
        volume = sum(network.space.volume(zone) for address in side for zone in network.can(address).members.zones())
        assert volume == 1
        for _ in range(5):
            network.put(random.choice(side), random)
    network.wait(30 * SECOND)
    assert all(result.is_complete for result in network.results.values()) and len(network.results) == 10
    network.simulator.network.heal()
    assert network.settle() == []
    network.wait(60 * SECOND)
    return network


def test_a_network_split_heals() -> None:
    """Both sides cover the space while separated; afterwards each point has one owner and all values are found."""
    assert healed_split().value_violations() == []


# Planted bugs: each is found by a schedule that is fine without it

SPLIT = [ScheduleStep("split", 4, 5), ScheduleStep("put", 1, 60)]
CRASHES = [ScheduleStep("crash", 8, 5), ScheduleStep("crash", 9, 5), ScheduleStep("crash", 10, 5)]


def violations_of(schedule: list[ScheduleStep], *, seed: int = 2) -> list[str]:
    return check_schedule(seed, schedule, peers=12, space=Space(2)).violations


def test_the_schedules_of_planted_bugs_are_fine() -> None:
    """Without a planted bug they leave nothing wrong."""
    assert (violations_of(SPLIT), violations_of(CRASHES)) == ([], [])


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
    assert check_schedule(2, CRASHES, peers=12, space=Space(2)).wiped == 0

    def acknowledge(self: CanStorage, points: Iterable[CanPoint], **_: object) -> None:
        for point in points:
            self._forget_replication(point)

    monkeypatch.setattr(CanStorage, "_replicate", acknowledge)
    assert check_schedule(2, CRASHES, peers=12, space=Space(2)).wiped > 0


def test_copies_that_are_not_returned_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a peer that lost a zone in a dispute does not send its values to the new owner."""
    monkeypatch.setattr(CanStorage, "_return_foreign", lambda *_: None)
    assert any("is lost" in violation for violation in healed_split().value_violations())


def test_a_broadcast_without_the_spatial_constraint_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the optimal broadcast sends to every neighbour in the region."""
    monkeypatch.setattr(
        can_requests, "broadcast_children", lambda _zone, zones, region, _root: [z for z in zones if z.meets(region)]
    )
    assert any("duplicates" in violation for violation in violations_of([]))


def test_a_schedule_is_shrunk_to_what_fails() -> None:
    """Steps that are not needed for a failure are left out."""
    schedule = random_schedule(7, steps=8)
    needed = [schedule[2], schedule[5]]
    assert shrink_schedule(schedule, lambda steps: set(needed) <= set(steps)) == needed


def test_greedy_routing_with_proximity_and_shortcuts_finds_values() -> None:
    """Options of routing change the way, not the answer; a shortcut makes the second way one hop."""
    settings = CanSettings(is_greedy=True, is_proximity_aware=True, max_shortcuts=8)
    network = SimulatedCan(seed=9, space=Space(2), settings=settings)
    network.grow(30)
    random = Random(9)
    origin = network.addresses()[7]
    point = ("zz", "zz")
    for tag in ("first", "second"):
        network.simulator.command(origin, can_requests.StoreAtPoint(tag=tag, point=point, value=tag.encode()))
        network.wait(10 * SECOND)
    network.put(random.choice(network.addresses()), random)
    region = region_of(*point)
    network.simulator.command(origin, can_requests.FindInRegion(tag="found", region=region))
    network.wait(10 * SECOND)
    assert [value.value for value in network.results["found"].values] == [b"first", b"second"]
    assert network.results["second"].hops == network.results["found"].hops <= 1
