"""DataFrames of values appended to the log."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from motet.codec.events import Decoded
from motet.lake import Lake
from motet.model.batches import EVENTS
from motet.model.errors import DecodeError, UsageError
from motet.spark import ingestion as staging
from motet.spark.ingestion import (
    BatchIngestResult,
    StagedFiles,
    Stager,
    delete_staged,
    ingest,
    ingest_batch,
    read_by_end,
    write_dead_letters,
)

SCHEMA = "value string, content_type string, timestamp timestamp, id string"
TURTLE = "text/turtle"


def quad(n: int) -> str:
    return f'<urn:e:{n}> <urn:p> "x" <urn:e:{n}> .'


def at(second: int) -> datetime:
    return datetime(2026, 11, 15, 10, 0, second, tzinfo=UTC)


def rows(lake: Path) -> list[tuple[Any, ...]]:
    found = Lake.open(lake).snapshot().records(columns=["id", "end", "late"])
    return [(row["id"], row["end"].second, row["late"]) for batch in found for row in batch.to_pylist()]


def letters(folder: Path) -> list[tuple[str, str]]:
    found = [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]
    return [(letter["source"], letter["content"]) for letter in found]


def test_a_batch_is_one_commit_in_the_order_of_time(spark: SparkSession, tmp_path: Path) -> None:
    """Columns give format, time and id; partitions are merged by time; rejected values are stored with the reason."""
    values = [
        (quad(1), None, at(5), None),
        ("<> <urn:p> 1 .", TURTLE, at(3), "urn:e:2"),
        ("junk", None, at(1), None),
        (None, None, at(1), None),
        (quad(3), None, at(1), None),
        ("<> <urn:p> 1 .", "no/type", at(1), None),
        (quad(1), None, at(5), None),
        ("<> <urn:p> 1 .", TURTLE, at(3), "no iri"),
    ]
    frame = spark.createDataFrame(values, SCHEMA).repartition(3)
    assert ingest_batch(frame, tmp_path / "lake") == BatchIngestResult(3, 1, 0, 3)
    assert rows(tmp_path / "lake") == [("urn:e:3", 1, False), ("urn:e:2", 3, False), ("urn:e:1", 5, False)]
    assert Lake.open(tmp_path / "lake").snapshot().version == 1
    kept = letters(tmp_path / "lake" / "dead-letter")
    assert sorted(content for _, content in kept) == ["<> <urn:p> 1 .", "<> <urn:p> 1 .", "junk"]
    assert list((tmp_path / "lake" / "tmp").iterdir()) == []
    assert ingest_batch(frame, tmp_path / "lake") == BatchIngestResult(0, 4, 0, 3)


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema("value string").option("maxFilesPerTrigger", 1).json(str(folder))


def put(folder: Path, number: int, *values: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{number}.json").write_text("".join(json.dumps({"value": value}) + "\n" for value in values))


def test_a_batch_that_is_run_again_adds_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """Whether a query continues, repeats a batch or starts without a checkpoint: every event is stored once."""
    folder, lake, checkpoint = tmp_path / "in", tmp_path / "lake", tmp_path / "checkpoint"
    told: list[BatchIngestResult] = []

    def run(checkpoint: Path) -> None:
        query = ingest(
            stream(spark, folder),
            lake,
            checkpoint=checkpoint,
            trigger={"availableNow": True},
            dead_letter=tmp_path / "letters",
            on_batch=told.append,
        )
        assert query.awaitTermination(120)

    put(folder, 1, quad(1), quad(2), "junk")
    run(checkpoint)
    put(folder, 2, quad(3))
    run(checkpoint)
    assert told == [BatchIngestResult(2, 0, 0, 1), BatchIngestResult(1, 0, 0, 0)]
    (checkpoint / "commits" / "1").unlink()  # as if it had died between its commit to the lake and Spark's own
    for trace in (checkpoint / "commits").glob(".1.*"):
        trace.unlink()
    run(checkpoint)
    assert told[2:] == [BatchIngestResult(0, 1, 0, 0)]
    run(tmp_path / "another")
    assert sum(one.accepted for one in told) == 3
    assert sorted(id_ for id_, _, _ in rows(lake)) == ["urn:e:1", "urn:e:2", "urn:e:3"]
    assert len(letters(tmp_path / "letters")) == 2, "one for each query, although batches were repeated"


def test_a_frame_that_does_not_fit_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Without a column of values, or as a stream where a batch is needed, no query starts."""
    numbers = spark.range(1)
    with pytest.raises(UsageError, match="no column value of text or bytes: its columns are id"):
        ingest_batch(numbers, tmp_path / "lake")
    with pytest.raises(UsageError, match="is not a stream"):
        ingest(numbers, tmp_path / "lake", checkpoint=tmp_path / "checkpoint")
    with pytest.raises(UsageError, match="is not known"):
        ingest_batch(numbers, tmp_path / "lake", content_type="no/type")
    assert not (tmp_path / "lake").exists()


def decoded(ends: list[int], *rejected: str) -> Decoded:
    rows = [{"id": f"urn:e:{end}", "start": end, "end": end, "triples": [], "line": 1} for end in ends]
    return Decoded(pa.RecordBatch.from_pylist(rows, EVENTS), [DecodeError(reason) for reason in rejected])


def stage(lake: Path, parts: list[list[int]]) -> list[StagedFiles]:
    found = []
    for number, ends in enumerate(parts):
        stager = Stager(str(lake), number)
        batches = [batch for end in ends for batch in stager.add(decoded([end]))]
        found += [StagedFiles(**row) for batch in [*batches, *stager.finish()] for row in batch.to_pylist()]
    return found


@given(parts=st.lists(st.lists(st.integers(0, 20), max_size=12), max_size=3), commit=st.integers(1, 30))
def test_staged_events_are_read_by_time(
    parts: list[list[int]], commit: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever part an event was in, and however many commits it takes, all events come, sorted by their ends."""
    lake = Lake.open(tmp_path_factory.mktemp("lake")).store.root
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(staging, "FILE_EVENTS", 4)
        patched.setattr(staging, "COMMIT_EVENTS", commit)
        staged = stage(lake, parts)
        tables = list(read_by_end(str(lake), staged))
    ends = [table["end"].cast(pa.int64()).to_pylist() for table in tables]
    assert [end for table in ends for end in table] == sorted(end for part in parts for end in part)
    assert all(len(table) - max(Counter(table).values()) < 2 * commit for table in ends)
    delete_staged(str(lake), staged)
    assert list((lake / "tmp").glob("*")) == []


def test_dead_letters_of_a_batch_are_one_file(tmp_path: Path) -> None:
    """A batch that is run again writes its rejections again, into the same file."""
    lake = str(Lake.open(tmp_path / "lake").store.root)
    for _ in range(2):
        staged = []
        for part in range(2):
            stager = Stager(lake, part)
            batches = [*stager.add(decoded([], f"reason {part}")), *stager.finish()]
            staged += [StagedFiles(**row) for batch in batches for row in batch.to_pylist()]
        write_dead_letters(lake, staged, tmp_path / "letters" / "1.jsonl")
        delete_staged(lake, staged)
    (kept,) = (tmp_path / "letters").iterdir()
    assert [line.partition('"reason": ')[2][:10] for line in kept.read_text().splitlines()] == [
        '"reason 0"',
        '"reason 1"',
    ]
