"""Scenarios: seeds are reproducible, the protocols survive them, and planted mistakes are found and shrunk."""

import subprocess
import sys
from pathlib import Path

import pytest

from motet.model.errors import UsageError
from motet.overlay.protocol.membership import Membership
from motet.overlay.protocol.scribe import Scribe, TopicState
from motet.overlay.protocol.value_messages import Replicate, ReplicateReply
from motet.overlay.protocol.values import ValueStore
from motet.overlay.sim.random_scenario import random_scenario
from motet.overlay.sim.rings import SimulatedRing
from motet.overlay.sim.scenario import CAN, Scenario, ScenarioStep, parse_scenario
from motet.overlay.sim.scenario_run import make_run, run_seed


@pytest.mark.parametrize("seed", range(1, 7))
def test_seeds_hold_and_are_reproducible(seed: int) -> None:
    """Two runs of a seed have the same trace, and no invariant is violated."""
    first, second = run_seed(seed), run_seed(seed)
    assert (first.result.violations, first.result.trace) == ((), second.result.trace)


def test_traces_do_not_depend_on_hashes() -> None:
    """A seed of each protocol has the same trace, contents included, in a process with another PYTHONHASHSEED."""
    lines = subprocess.run(
        [sys.executable, "-c", "from tests.overlay.sim.test_scenario import traces; print(*traces())"],
        env={"PYTHONHASHSEED": "77"},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
    )
    assert lines.stdout.split() == traces()


def traces() -> list[str]:
    scenarios = [random_scenario(11, protocol=protocol) for protocol in ("pastry", CAN)]
    return [make_run(scenario, seed=11, is_detailed=True).run().trace for scenario in scenarios]


def test_a_run_ends_when_nothing_is_wrong_any_more() -> None:
    """The time to settle is a limit: a network that is right is checked two minutes after the last step."""
    result = make_run(Scenario(nodes=8, settle=900, steps=(ScenarioStep(5, "crash", {"node": "n3"}),)), seed=1).run()
    assert (result.violations, result.at) == ((), 220)


def never_probe_lost(_self: Membership) -> None:
    """A ring that was partitioned stays so."""


def acknowledge_only(self: ValueStore, sender: str, message: Replicate) -> None:
    """A replica does not hold what it acknowledges."""
    self.node.send(sender, ReplicateReply(request=message.request))


def never_compare(_self: ValueStore) -> None:
    """Replicas that fail are not made again."""


def stay_root(_self: Scribe, _key: int, _topic: TopicState) -> None:
    """A root stays one when another node becomes responsible."""


def stay_detached(_self: Scribe, _key: int, _topic: TopicState, _reason: str) -> None:
    """A child never looks for another parent."""


@pytest.mark.parametrize(
    ("protocol", "method", "mistake", "seeds"),
    [
        (Membership, "_probe_lost", never_probe_lost, [77]),
        (ValueStore, "_receive_replicate", acknowledge_only, [1, 2]),
        (ValueStore, "_compare", never_compare, [2, 3]),
        (Scribe, "_detach", stay_detached, [7]),
        (Scribe, "_check_root", stay_root, [7, 11]),
    ],
)
def test_planted_mistakes_are_found(
    protocol: type, method: str, mistake: object, seeds: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mistake in each protocol violates an invariant within a few seeds."""
    monkeypatch.setattr(protocol, method, mistake)
    assert any(make_run(random_scenario(seed), seed=seed).run().violations for seed in seeds)


def test_misdelivered_lookups_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """During a run they are violations, unless nodes are separated; afterwards they always are."""
    monkeypatch.setattr(SimulatedRing, "responsible", lambda ring, _key: ring.active[0])  # all others are wrong
    lookups = ScenarioStep(5, "lookups", {"rate": 2, "seconds": 20})
    paused = ScenarioStep(1, "pause", {"node": "n1", "seconds": 2})
    runs = [make_run(Scenario(nodes=8, steps=steps), seed=1).run() for steps in ((lookups,), (paused, lookups))]
    assert all("lookups" in run.violations[0] for run in runs)
    assert [run.violations[0].startswith("after settling") for run in runs] == [False, True]


def test_schedules_are_shrunk_to_what_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many steps those remain without which nothing is violated."""
    monkeypatch.setattr(Membership, "_probe_lost", never_probe_lost)
    half = [f"n{index}" for index in range(6)]
    idle = [ScenarioStep(at, "lookups", {"rate": 1, "seconds": 1}) for at in (1, 2, 3, 4)]
    split = (ScenarioStep(10, "partition", {"nodes": half}), ScenarioStep(200, "heal"))
    report = run_seed(1, Scenario(nodes=12, settle=300, steps=(*idle, *split)))
    assert report.shrunk is not None
    assert report.shrunk.steps == split


def test_a_scenario_survives_its_file() -> None:
    """What a scenario is written as is read as the same scenario."""
    for scenario in (random_scenario(3), random_scenario(3, protocol=CAN)):
        assert parse_scenario(scenario.to_dict()) == scenario


def test_small_networks_keep_enough_nodes_for_further_steps() -> None:
    for seed in range(200):
        assert len(random_scenario(seed, nodes=8).steps) > 12


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "no mapping"),
        ({"node": 3}, "'node' is unknown"),
        ({"nodes": "many"}, "nodes is 'many'"),
        ({"nodes": 0}, "nodes is 0"),
        ({"latency": "slow"}, "latency is 'slow'"),
        ({"steps": [{"do": "crash"}]}, "step 1 has no time"),
        ({"steps": [{"at": 1, "do": "explode"}]}, "'explode' is no action"),
        ({"steps": [{"at": 1, "do": "crash"}]}, "node is missing"),
        ({"steps": [{"at": 1, "do": "heal", "node": "n1"}]}, "'node' is unknown"),
        ({"steps": [{"at": 1, "do": "crash", "node": "x"}]}, "node is 'x'"),
        ({"steps": [{"at": 1, "do": "crash", "node": "n1", "lose_disk": 1}]}, "lose_disk is 1"),
        ({"steps": [{"at": 1, "do": "partition", "nodes": "n1"}]}, "nodes is 'n1'"),
        ({"steps": [{"at": 1, "do": "pause", "node": "n1", "seconds": 0}]}, "seconds is 0"),
        ({"steps": [{"at": 1, "do": "publish", "node": "n1", "topic": 7, "value": "x"}]}, "topic is 7"),
        ({"steps": {"at": 1}}, "steps is no list"),
        ({"protocol": "chord"}, "protocol is 'chord'"),
        ({"protocol": "can", "leaf_size": 8}, "'leaf_size' is unknown"),
        ({"protocol": "can", "greedy": 3}, "greedy is 3"),
        (
            {"protocol": "can", "steps": [{"at": 1, "do": "store", "node": "n1", "key": "a", "value": "b"}]},
            "is no action",
        ),
        (
            {"protocol": "can", "steps": [{"at": 1, "do": "put", "node": "n1", "point": ["a"], "value": "b"}]},
            "point is",
        ),
        (
            {
                "protocol": "can",
                "steps": [{"at": 1, "do": "multicast", "node": "n1", "region": ["a", ["c", "b"]], "value": ""}],
            },
            "region is",
        ),
    ],
)
def test_wrong_scenarios_are_refused(value: object, message: str) -> None:
    """Nothing in a scenario file is ignored."""
    with pytest.raises(UsageError, match=message):
        parse_scenario(value)
