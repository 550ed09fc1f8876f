"""DataFrames of values appended to the log."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from motet.codec.events import Decoded
from motet.connectors import sorted_load
from motet.connectors.ingestion import IngestResult
from motet.lake import Lake, system_clock
from motet.model.batches import EventRow, event_batch, record_rows
from motet.model.errors import DecodeError, UsageError
from motet.spark import ingestion as staging
from motet.spark.ingestion import (
    BatchIngestResult,
    IngestTarget,
    StagedFiles,
    Stager,
    append_staged,
    delete_staged,
    ingest,
    ingest_batch,
)

SCHEMA = "value string, content_type string, timestamp timestamp, id string"
TURTLE = "text/turtle"


def quad(n: int) -> str:
    return f'<urn:e:{n}> <urn:p> "x" <urn:e:{n}> .'


def at(second: int) -> datetime:
    return datetime(2026, 11, 15, 10, 0, second, tzinfo=UTC)


def rows(lake: Path) -> list[tuple[Any, ...]]:
    found = Lake.open(lake).snapshot().records(columns=["kind", "id", "end", "late"])
    events = [row for batch in found for row in batch.to_pylist() if row["kind"] == "event"]
    return [(row["id"], row["end"].second, row["late"]) for row in events]


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
    version = Lake.open(tmp_path / "lake").snapshot().version
    assert ingest_batch(frame, tmp_path / "lake") == BatchIngestResult(accepted=3, repeated=1, rejected=3)
    assert rows(tmp_path / "lake") == [("urn:e:3", 1, False), ("urn:e:2", 3, False), ("urn:e:1", 5, False)]
    assert Lake.open(tmp_path / "lake").snapshot().version == version + 1
    kept = letters(tmp_path / "lake" / "dead-letter")
    assert sorted(content for _, content in kept) == ["<> <urn:p> 1 .", "<> <urn:p> 1 .", "junk"]
    assert list((tmp_path / "lake" / "tmp").iterdir()) == []
    assert ingest_batch(frame, tmp_path / "lake") == BatchIngestResult(repeated=4, rejected=3)


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
    first, second = BatchIngestResult(accepted=2, stamped=2, rejected=1), BatchIngestResult(accepted=1, stamped=1)
    assert told == [first, second]
    (checkpoint / "commits" / "1").unlink()  # as if it had died between its commit to the lake and Spark's own
    for trace in (checkpoint / "commits").glob(".1.*"):
        trace.unlink()
    run(checkpoint)
    assert told[2:] == [BatchIngestResult(repeated=1)]
    run(tmp_path / "another")
    assert sum(one.accepted for one in told) == 3
    assert sorted(id_ for id_, _, _ in rows(lake)) == ["urn:e:1", "urn:e:2", "urn:e:3"]
    assert len(letters(tmp_path / "letters")) == 2, "one for each query, although batches were repeated"


def test_events_without_an_iri_get_one_from_their_batch(spark: SparkSession, tmp_path: Path) -> None:
    """ "rows without: the batch, by query and number; outside a stream none": equal rows are several events."""
    folder, lake, checkpoint = tmp_path / "in", tmp_path / "lake", tmp_path / "checkpoint"
    told: list[BatchIngestResult] = []

    def run() -> None:
        query = ingest(
            stream(spark, folder),
            lake,
            checkpoint=checkpoint,
            content_type=TURTLE,
            trigger={"availableNow": True},
            on_batch=told.append,
        )
        assert query.awaitTermination(120)

    put(folder, 1, "[] <urn:p> 1 .", "[] <urn:p> 1 .", "[] <urn:p> 2 .")
    run()
    put(folder, 2, "[] <urn:p> 1 .")
    run()
    assert [result.accepted for result in told] == [3, 1], "another batch has other events"
    (checkpoint / "commits" / "1").unlink()
    for trace in (checkpoint / "commits").glob(".1.*"):
        trace.unlink()
    run()
    assert told[2:] == [BatchIngestResult(repeated=1)]
    frame = spark.createDataFrame([("[] <urn:p> 1 .",)] * 3, "value string").repartition(3)
    for partitions, expected in ((3, BatchIngestResult(accepted=3, stamped=3)), (1, BatchIngestResult(repeated=3))):
        assert ingest_batch(frame.repartition(partitions), lake, content_type=TURTLE) == expected


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
    rows = [EventRow(f"urn:e:{end}", end, end, ()) for end in ends]
    return Decoded(event_batch(rows), [DecodeError(reason) for reason in rejected])


def stage(lake: Path, partitions: list[list[Decoded]]) -> list[StagedFiles]:
    """The files of tasks that decode these batches."""
    found = []
    for number, batches in enumerate(partitions):
        stager = Stager(str(lake), number)
        rows = [row for batch in batches for row in stager.add(batch)]
        found += [StagedFiles(**row) for batch in [*rows, *stager.finish()] for row in batch.to_pylist()]
    return found


def test_partitions_are_one_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ "one batch of Spark … is committed in the order of its events' ends": over partitions, files and commits."""
    monkeypatch.setattr(staging, "FILE_EVENTS", 2)
    monkeypatch.setattr(sorted_load, "COMMIT_EVENTS", 3)
    root = Lake.open(tmp_path / "lake").store.root
    partitions = [[decoded([end]) for end in ends] for ends in ([9, 2, 5], [], [8, 1, 7, 3], [5, 6, 4])]
    staged = stage(root, partitions)
    target = IngestTarget(str(root), str(tmp_path / "letters.jsonl"), system_clock)
    results = sum(append_staged(staged, target), start=IngestResult())
    assert (results.accepted, results.repeated, results.late) == (9, 1, 0)
    assert [id_ for id_, _, _ in rows(root)] == [f"urn:e:{end}" for end in range(1, 10)]
    delete_staged(str(root), staged)
    assert list((root / "tmp").iterdir()) == []
    assert not (tmp_path / "letters.jsonl").exists()


def test_dead_letters_of_a_batch_are_one_file(tmp_path: Path) -> None:
    """Rejected values and conflicts are in one file; a batch that is run again writes it again."""
    root = Lake.open(tmp_path / "lake").store.root
    conflict = Decoded(event_batch([EventRow("urn:e:1", 1, 1, (("<urn:s>", "<urn:p>", "<urn:o>"),))]), [])
    target = IngestTarget(str(root), str(tmp_path / "letters" / "1.jsonl"), system_clock)
    for _ in range(2):
        staged = stage(root, [[decoded([1], "reason 0")], [decoded([], "reason 1"), conflict]])
        assert sum(result.rejected for result in append_staged(staged, target)) == 1
        delete_staged(str(root), staged)
    (kept,) = (tmp_path / "letters").iterdir()
    letters = [json.loads(line) for line in kept.read_text().splitlines()]
    assert [(letter["event"], letter["reason"][:8]) for letter in letters] == [
        (None, "reason 0"),
        (None, "reason 1"),
        ("urn:e:1", "it was a"),
    ]


def test_values_with_xml(spark: SparkSession, tmp_path: Path) -> None:
    """Documents are kept byte for byte and lifted by the mapping of the lake; the row gives time and id."""
    lake = Lake.open(tmp_path / "lake", mappings=('event: {root: order}\nproperties: {"@n": urn:n}',))
    values = [
        ("<order  n='1'/>", None, at(1), "urn:o:1"),
        ("<other/>", None, at(2), "urn:o:2"),
        ("<order", None, at(3), None),
    ]
    frame = spark.createDataFrame(values, SCHEMA)
    result = ingest_batch(frame, tmp_path / "lake", content_type="application/xml")
    assert result == BatchIngestResult(accepted=2, rejected=1)
    records = [row for batch in lake.snapshot().records(1) for row in record_rows(batch)]
    assert [(row.id, row.payload, len(row.triples)) for row in records] == [
        ("urn:o:1", b"<order  n='1'/>", 1),
        ("urn:o:2", b"<other/>", 0),
    ]
