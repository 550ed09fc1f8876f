"""The simulator: one seed, one trace."""

import pytest
from tests.overlay.ring import start_ring

from motet.model.errors import UsageError
from motet.overlay.protocol.node import PeerNode
from motet.overlay.sim.network import GeographicLatency, Network
from motet.overlay.sim.simulator import Simulator


def test_a_seed_has_one_trace() -> None:
    """Two runs of a seed are equal in every input, two seeds are not."""
    assert start_ring(5).trace_hash() == start_ring(5).trace_hash() != start_ring(6).trace_hash()


def test_crashed_nodes_receive_nothing_and_restart_with_their_disk() -> None:
    """A crash ends timers and messages; a restart has what was persisted, unless the disk was lost."""
    simulator = start_ring(5)
    count = simulator.disks["n0"]["passes"]
    simulator.crash("n0")
    simulator.run(until=20_000_000)
    assert simulator.disks["n0"]["passes"] == count
    assert simulator.start("n0").counts["restored"] == int(count)
    simulator.crash("n0", lose_disk=True)
    assert simulator.start("n0").counts["restored"] == 0


def test_paused_nodes_handle_their_inputs_later() -> None:
    """Inputs of a paused node are delayed until its end, in their order."""
    simulator = start_ring(5)
    before = simulator.node("n1").now
    simulator.pause("n1", 5_000_000)
    simulator.run(until=simulator.now + 4_999_999)
    assert simulator.node("n1").now == before
    simulator.run(until=simulator.now + 1)
    assert simulator.node("n1").now == simulator.now


def test_a_partition_separates_and_heals() -> None:
    """Messages between groups are lost until the partition is healed."""
    network = Network()
    network.partition([["a", "b"], ["c"]])
    assert [network.is_connected(*pair) for pair in ("ab", "ac", "cd", "de")] == [True, False, False, True]
    network.heal()
    network.break_link("a", "b")
    assert [network.is_connected(*pair) for pair in ("ab", "ba", "ac")] == [False, False, True]


def test_losses_and_duplicates_have_their_frequency() -> None:
    """Of many messages the given share is lost or arrives twice."""
    network = Network(latency=GeographicLatency(), loss=0.1, duplication=0.2)
    random = Simulator(seed=1).random
    copies = [len(network.delays(random, "a", "b")) for _ in range(10_000)]
    assert copies.count(0) == pytest.approx(1000, abs=100)
    assert copies.count(2) == pytest.approx(1800, abs=150)


def test_an_address_runs_once() -> None:
    """A second start at an address is refused."""
    simulator = Simulator(seed=1)
    simulator.start("a", lambda address: PeerNode(address, []))
    with pytest.raises(UsageError, match="a already runs"):
        simulator.start("a")
