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
    command = f"motet simulate --seeds 1 --scenario {tmp_path}/split.json --set loss=0.1 --set latency=uniform"
    assert main(command.split()[1:]) == 1
    assert f"run it again: {command}\n" in capsys.readouterr().out


@pytest.mark.parametrize("seeds", ["x", "5-", "-5", "9-1"])
def test_wrong_seeds_are_refused(seeds: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A range that is none or empty is an error of use."""
    assert main(["simulate", f"--seeds={seeds}"]) == 2
    assert "--seeds" in capsys.readouterr().err


def test_a_sweep_runs_every_combination(capsys: pytest.CaptureFixture[str]) -> None:
    """Each combination of settings has a line with its violations and lookups."""
    arguments = ["simulate", "--seeds", "1-2", "--nodes", "8", "--set", "loss=0,0.1", "--set", "latency=uniform"]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert [line.split()[:4] for line in printed.splitlines() if line.startswith("loss=")] == [
        ["loss=0", "latency=uniform", "2", "0"],
        ["loss=0.1", "latency=uniform", "2", "0"],
    ]


def test_a_can_is_simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The schedule of a seed is a file for the same protocol, and its page shows the zones step by step."""
    arguments = ["simulate", "--seeds", "2", "--protocol", "can", "--nodes", "8"]
    assert main([*arguments, "--show"]) == 0
    (tmp_path / "can.json").write_text(capsys.readouterr().out)
    assert main([*arguments, "--json"]) == 0
    first = capsys.readouterr().out
    page, picture = tmp_path / "run.html", tmp_path / "zones.svg"
    drawn = ["--page", str(page), "--picture", str(picture), "--axes", "2,1"]
    assert main(["simulate", "--scenario", str(tmp_path / "can.json"), "--seeds", "2", "--json", *drawn]) == 0
    assert capsys.readouterr().out == first
    assert page.read_text().count("zones of") > 10
    assert "dimension 2 →" in picture.read_text().splitlines()[-3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "loss"], "sets no setting"),
        (["--set", "loss=0", "--set", "loss=1"], "sets no setting"),
        (["--set", "loss=2"], "--set: loss is 2"),
        (["--set", "leaf_size=8", "--protocol", "can"], "'leaf_size' is unknown"),
        (["--scenario", "x.yaml", "--nodes", "8"], "--nodes is for random scenarios"),
        (["--engine", "spark", "--jobs", "2"], "--jobs is for the local engine"),
        (["--axes", "1,2"], "--axes is for pictures of a CAN"),
        (["--protocol", "can", "--axes", "1,2"], "--axes is for pictures of a CAN"),
        (["--protocol", "can", "--picture", "z.svg", "--axes", "1,1"], "--axes 1,1 are not two dimensions"),
        (["--picture", "z.gif"], "z.gif is no name of a picture"),
        (["--page", "nowhere/run.html"], "nowhere is no directory"),
    ],
)
def test_options_that_would_be_ignored_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names the option; nothing runs."""
    assert main(["simulate", *arguments]) == 2
    assert message in capsys.readouterr().err
