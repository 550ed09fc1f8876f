"""The examples about what goes into a lake and out of it on Spark run and print what they promise."""

import runpy
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("name", "prints"),
    [
        ("from_kafka", "5 events in the log, and set aside:\n{"),
        ("notifications_to_parquet", "stale-air|"),
    ],
)
def test_an_example_runs(
    name: str,
    prints: str,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An example in the documentation is a program that works."""
    monkeypatch.setattr(sys, "argv", [name])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert prints in capsys.readouterr().out
