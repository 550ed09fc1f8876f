"""The metadata that a checkpoint fixes, and the errors for requests that differ."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from motet.engine.state.format import VERSION
from motet.model.errors import EngineError, MotetError, UsageError
from motet.spark.stream.checkpoint import (
    BUCKETS,
    METADATA_FILE,
    CheckpointMetadata,
    default_checkpoint,
    open_checkpoint,
)


def _written_by_spark(checkpoint: Path) -> None:
    """As after two batches."""
    for log, line in (("offsets", '{"batchWatermarkMs":0}\n{"/lake":20}'), ("commits", '{"nextBatchWatermarkMs":0}')):
        (checkpoint / log).mkdir()
        for number in range(2):
            (checkpoint / log / str(number)).write_text(f"v1\n{line}")
            (checkpoint / log / f".{number}.crc").write_bytes(b"crc")
    (checkpoint / "metadata").write_text('{"id":"c8688e5f"}')


def test_the_first_start_fixes_the_metadata(tmp_path: Path) -> None:
    """Without --buckets the number is that of the first start."""
    checkpoint = tmp_path / "checkpoint"
    first = open_checkpoint(checkpoint, ["/lake"], 8, "local[2]")
    _written_by_spark(checkpoint)
    assert (
        first
        == open_checkpoint(checkpoint, ["/lake"], None, "spark://head:7077")
        == CheckpointMetadata(("/lake",), 8, VERSION)
    )
    assert open_checkpoint(tmp_path / "other", ["/lake"], None, "spark://head:7077").buckets == BUCKETS
    assert sorted(path.name for path in checkpoint.iterdir()) == ["commits", "metadata", METADATA_FILE, "offsets"]


@pytest.mark.parametrize(
    ("lakes", "buckets", "said"),
    [
        (["/lake"], 9, "has 8 buckets, not 9"),
        (["/moved"], None, "belongs to /lake, not to /moved"),
        (["/lake", "/more"], None, "belongs to /lake, not to /lake and /more"),
        (["/lake"], 0, "--buckets must be at least 1, not 0"),
    ],
)
def test_a_start_that_differs_from_the_checkpoint_is_refused(
    tmp_path: Path, lakes: list[str], buckets: int | None, said: str
) -> None:
    """The refusal says what the checkpoint has."""
    open_checkpoint(tmp_path / "checkpoint", ["/lake"], 8, "local[2]")
    with pytest.raises(UsageError, match=said):
        open_checkpoint(tmp_path / "checkpoint", lakes, buckets, "local[2]")


@pytest.mark.parametrize("version", ["state", "format"])
def test_another_version_is_refused_with_advice(tmp_path: Path, version: str) -> None:
    """After an upgrade that changed the state, the advice is to rebuild it from the log."""
    open_checkpoint(tmp_path, ["/lake"], 8, "local[2]")
    note = json.loads((tmp_path / METADATA_FILE).read_text())
    (tmp_path / METADATA_FILE).write_text(json.dumps(note | {version: 99}))
    with pytest.raises(EngineError, match="another version") as refusal:
        open_checkpoint(tmp_path, ["/lake"], 8, "local[2]")
    assert "rebuilds its state from the log" in str(refusal.value)


@pytest.mark.parametrize("file", [METADATA_FILE, "offsets/1", "commits/1", "offsets/0", "metadata"])
@pytest.mark.parametrize("content", [b"", b"\x00\xff\x00", b'v1\n{"batch'])
def test_a_truncated_file_is_refused_before_spark_starts(tmp_path: Path, file: str, content: bytes) -> None:
    """The refusal names the checkpoint and the file, and says that nothing is lost."""
    open_checkpoint(tmp_path, ["/lake"], 8, "local[2]")
    _written_by_spark(tmp_path)
    (tmp_path / file).write_bytes(content)
    with pytest.raises(EngineError) as refusal:
        open_checkpoint(tmp_path, ["/lake"], 8, "local[2]")
    assert f"the checkpoint {tmp_path} cannot be read: {file} is " in str(refusal.value)
    assert "Nothing is lost" in str(refusal.value)


def test_a_directory_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    """Only an empty directory, or none, becomes a checkpoint."""
    (tmp_path / "letters").touch()
    with pytest.raises(UsageError, match="is not empty, and not a checkpoint"):
        open_checkpoint(tmp_path, ["/lake"], 8, "local[2]")
    assert [path.name for path in tmp_path.iterdir()] == ["letters"]


def test_a_checkpoint_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    """The reason is the operating system's."""
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be used: Not a directory"):
        open_checkpoint(tmp_path / "file" / "checkpoint", ["/lake"], 8, "local[2]")


def test_only_one_lake_has_a_default_checkpoint() -> None:
    """Several lakes need --checkpoint."""
    assert default_checkpoint(["/lake"]) == Path("/lake/checkpoint")
    with pytest.raises(MotetError, match="several lakes"):
        default_checkpoint(["/one", "/two"])
