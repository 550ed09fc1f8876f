"""Scenarios on real processes: the files of the simulator, with the same promises. `make overlay-kills` runs more."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from motet.model.errors import UsageError
from motet.overlay.net.process_run import ProcessResult
from motet.overlay.net.scenario_processes import make_process_run
from motet.overlay.sim.scenario import Scenario, load_scenario, parse_scenario
from motet.overlay.sim.scenario_run import make_run

SCENARIOS = Path(__file__).parents[1] / "scenarios"


def run(scenario: Scenario, directory: Path, *, speed: float) -> ProcessResult:
    return asyncio.run(make_process_run(scenario, directory, speed=speed).run())


@pytest.mark.parametrize(
    ("file", "speed", "figures"), [("calm", 4, {"values stored": 1}), ("can-calm", 6, {"values changed": 3})]
)
def test_a_file_runs_in_the_simulator_and_on_processes(
    tmp_path: Path, file: str, speed: float, figures: dict[str, int]
) -> None:
    """Values, publications or multicasts, and lookups arrive in both."""
    scenario = load_scenario(SCENARIOS / f"{file}.yaml")
    assert make_run(scenario, seed=1).run().violations == ()
    result = run(scenario, tmp_path / "net", speed=speed)
    assert (result.violations, result.figures) == ((), figures | {"lookups": result.figures["lookups"]})


@pytest.mark.skipif("MOTET_OVERLAY_KILLS" not in os.environ, reason="a long run: make overlay-kills")
@pytest.mark.parametrize("file", ["churn", "can-churn"])
def test_churn_runs_in_the_simulator_and_on_processes(tmp_path: Path, file: str) -> None:
    """Both survive crashes, restarts, a pause, a partition, a departure and lost messages."""
    scenario = load_scenario(SCENARIOS / f"{file}.yaml")
    assert make_run(scenario, seed=1).run().violations == ()
    assert run(scenario, tmp_path / "net", speed=10).violations == ()


@pytest.mark.parametrize(
    ("scenario", "message"),
    [
        ({"nodes": 65}, "the scenario has 65 nodes; 64 processes are allowed"),
        ({"nodes": 2, "steps": [{"at": 1, "do": "join", "node": "n64"}]}, "the scenario has 65 nodes"),
        ({"nodes": 2, "steps": [{"at": 1, "do": "partition", "nodes": ["n64"]}]}, "the scenario has 65 nodes"),
    ],
)
def test_a_scenario_that_cannot_run_is_refused(tmp_path: Path, scenario: dict[str, object], message: str) -> None:
    """Nothing is started and nothing is written."""
    with pytest.raises(UsageError, match=message):
        make_process_run(parse_scenario(scenario), tmp_path / "net")
    assert list(tmp_path.iterdir()) == []


def test_a_network_is_not_used_for_an_experiment(tmp_path: Path) -> None:
    """A directory with a network is refused: the scenario would delete what its nodes persisted."""
    (tmp_path / "network.json").write_text("{}")
    with pytest.raises(UsageError, match="has a network already"):
        make_process_run(Scenario(nodes=2), tmp_path)
