"""The examples of ingestion and notifications on Spark run and print their documented output."""

import re
import runpy
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("name", "prints"),
    [("from_kafka", "5 events in the log, and rejected:\n{"), ("notifications_to_parquet", "stale-air|")],
)
def test_an_example_runs(
    name: str, prints: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An example in the documentation is a program that works."""
    monkeypatch.setattr(sys, "argv", [name])
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
    assert prints in capsys.readouterr().out


def test_the_page_about_sources_runs(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The Python of docs/sources.md, copied line by line, takes a file into a lake and shows its notifications."""
    (tmp_path / "inbox").mkdir()
    (tmp_path / "inbox" / "alarm.ttl").write_text("<> a <urn:Alarm> .")
    names: dict[str, object] = {}
    page = (ROOT / "docs" / "sources.md").read_text(encoding="utf-8")
    here = page.replace('"inbox', f'"{tmp_path}/inbox').replace('"building', f'"{tmp_path}/building')
    for program in re.findall(r"```python\n(.*?)```", here, re.DOTALL):
        exec(compile(program, "sources.md", "exec"), names)  # noqa: S102
    said = capsys.readouterr().out
    assert "BatchIngestResult(accepted=1, repeated=0, stamped=0, late=0, rejected=0, left_out=0)" in said
    assert "subscription" in said
