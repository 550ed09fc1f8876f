"""`motet simulate` runs seeds and scenario files and prints what was violated."""

import json
from pathlib import Path

import pytest

from motet.cli.main import main


def test_seeds_are_reported_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Each seed has its trace; a repeated run prints the same."""
    assert main(["simulate", "--seeds", "3-4", "--nodes", "8", "--json"]) == 0
    first = capsys.readouterr().out
    assert main(["simulate", "--seeds", "3-4", "--nodes", "8", "--json"]) == 0
    assert capsys.readouterr().out == first
    assert first.count('"trace"') == 2


def test_the_schedule_of_a_seed_is_a_scenario_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What --show prints can be edited and run with --scenario; a violated scenario has status 1."""
    assert main(["simulate", "--seeds", "3", "--nodes", "8", "--show"]) == 0
    scenario = json.loads(capsys.readouterr().out)
    scenario |= {"steps": [{"at": 5, "do": "partition", "nodes": ["n1", "n2", "n3"]}], "settle": 100}
    (tmp_path / "split.json").write_text(json.dumps(scenario))
    assert main(["simulate", "--scenario", str(tmp_path / "split.json"), "--seeds", "1"]) == 1
    printed = capsys.readouterr().out
    assert "seed 1: violated at" in printed
    assert "5 s: partition nodes=" in printed


@pytest.mark.parametrize("seeds", ["x", "5-", "-5", "9-1"])
def test_wrong_seeds_are_refused(seeds: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A range that is none or empty is an error of use."""
    assert main(["simulate", f"--seeds={seeds}"]) == 2
    assert "--seeds" in capsys.readouterr().err
