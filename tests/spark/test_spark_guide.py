"""The guide for rows in Spark does what it says."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.transcripts import run_page


def test_the_guide_runs(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each program prints what the page shows; the session is the active one."""
    monkeypatch.chdir(tmp_path)
    assert run_page("guide-spark.md", tmp_path) == 5
