"""`motet simulate --engine spark`: seeds and parameter sweeps as Spark jobs."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from motet.cli import simulate
from motet.cli.main import main


def test_a_sweep_on_spark_prints_what_it_prints_here(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every combination of settings with every seed, in order, with the same traces; a violation has its schedule."""
    monkeypatch.setattr(simulate, "ROUND", 2)  # several jobs
    split = {"nodes": 8, "settle": 40, "steps": [{"at": 5, "do": "partition", "nodes": ["n1", "n2", "n3"]}]}
    (tmp_path / "split.json").write_text(json.dumps(split))
    arguments = ["simulate", "--scenario", str(tmp_path / "split.json"), "--seeds", "1-2", "--json"]
    printed = []
    for engine in ("local", "spark"):
        assert main([*arguments, "--set", "nodes=8,9,10", "--set", "loss=0", "--engine", engine]) == 1
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert printed[0].count('"violations"') == 6
