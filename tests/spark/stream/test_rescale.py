"""`motet rescale`: another number of buckets for a stopped pipeline."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark import doors

from motet.cli.main import main
from motet.lake import Lake
from motet.spark.stream.checkpoint import METADATA_FILE, hold_checkpoint, open_checkpoint


def test_a_rescaled_pipeline_continues_as_if_the_number_had_never_changed(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Stopped, rescaled up, resumed, rescaled down twice and resumed, it has the notifications of one processor."""
    lake = Lake.open(tmp_path / "lake", durable=False)
    doors.fill(lake)
    root = str(lake.store.root)
    stream = ["stream", "--lake", root, "--once", "--json"]
    assert main([*stream, "--buckets", "2"]) == 0
    files = set((lake.store.root / "checkpoint").iterdir())
    capsys.readouterr()
    assert main(["rescale", "--lake", root, "--buckets", "5", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["before"], said["buckets"], said["offsets"]) == (2, 5, {root: doors.RECORDS})
    assert said["bytes"] > 0
    remaining = {path.name for path in files if path.exists()}
    assert remaining <= {METADATA_FILE, "motet.lock", "motet.lock.guard"}

    doors.append(lake, range(2000, 2010))
    capsys.readouterr()
    assert main(stream) == 0
    batch = json.loads(capsys.readouterr().out.splitlines()[0])
    assert batch["records"] == 10
    assert doors.lines(lake.notifications()) == doors.expected(lake)

    for buckets in ("1", "3"):  # the second one finds only first states, which no batch has changed
        assert main(["rescale", "--lake", root, "--buckets", buckets]) == 0
    doors.append(lake, range(2010, 2020))
    lake.tick(5_000 * doors.SECOND)
    assert main(stream) == 0
    assert doors.lines(lake.notifications()) == doors.expected(lake)
    assert lake.check() == []


def test_what_cannot_be_rescaled_is_refused_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No lake, no checkpoint, the same number, a number below one, another lake's checkpoint, a running pipeline."""
    lake = Lake.open(tmp_path / "lake", durable=False)
    other = Lake.open(tmp_path / "other", durable=False)
    root, checkpoint = str(lake.store.root), tmp_path / "lake" / "checkpoint"

    def refusal(*arguments: str) -> str:
        assert main(["rescale", *arguments]) in (1, 2)
        return capsys.readouterr().err

    assert "is not a lake" in refusal("--lake", str(tmp_path / "none"), "--buckets", "4")
    assert f"there is no checkpoint {checkpoint}" in refusal("--lake", root, "--buckets", "4")
    open_checkpoint(checkpoint, [root], 4, "local[2]")
    assert f"the checkpoint {checkpoint} has 4 buckets already" in refusal("--lake", root, "--buckets", "4")
    assert "--buckets must be at least 1, not 0" in refusal("--lake", root, "--buckets", "0")
    arguments = ("--lake", str(other.store.root), "--checkpoint", str(checkpoint), "--buckets", "5")
    assert f"belongs to {root}, not to {other.store.root}" in refusal(*arguments)
    with hold_checkpoint(checkpoint):
        assert f"the checkpoint {checkpoint} is in use by" in refusal("--lake", root, "--buckets", "5")
    assert json.loads((checkpoint / METADATA_FILE).read_text())["buckets"] == 4
