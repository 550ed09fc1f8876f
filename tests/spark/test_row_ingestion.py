"""Rows of a DataFrame as events by a mapping: the same events as from files and calls."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from tests.row_carriers import MAPPING, NDJSON, ROWS, WITHOUT_ID, events_of, ingested

import motet
from motet.model.errors import UsageError
from motet.spark.ingestion import BatchIngestResult, ingest, ingest_batch

TYPES = "n int, kind string, time timestamp, room string, celsius double"


def typed(spark: SparkSession) -> DataFrame:
    texts = spark.createDataFrame([tuple(map(str, row.values())) for row in ROWS], list(ROWS[0]))
    numbers = f.expr("try_cast(celsius as double)")
    return texts.select(
        f.col("n").cast("int"), "kind", f.col("time").cast("timestamp"), "room", numbers.alias("celsius")
    )


def test_one_mapping_gives_the_same_events_everywhere(spark: SparkSession, tmp_path: Path) -> None:
    """Files, calls, typed rows of Spark, values of Spark and a stream: equal IRIs, times and triples."""
    expected = ingested(tmp_path)
    assert len(expected) == 3
    with motet.open(tmp_path / "called") as cloud:
        cloud.publish_rows(ROWS, MAPPING)
    assert events_of(tmp_path / "called") == expected
    assert ingest_batch(typed(spark), tmp_path / "batch", mapping=MAPPING) == BatchIngestResult(accepted=3)
    assert events_of(tmp_path / "batch") == expected
    values = spark.createDataFrame([(line,) for line in NDJSON.splitlines()], "value string")
    ingest_batch(values, tmp_path / "values", mapping=MAPPING, content_type="application/json")
    assert events_of(tmp_path / "values") == expected
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows.json").write_text(NDJSON)
    query = ingest(
        spark.readStream.schema(TYPES).json(str(tmp_path / "in")),
        tmp_path / "streamed",
        checkpoint=tmp_path / "checkpoint",
        mapping=MAPPING,
        trigger={"availableNow": True},
    )
    assert query.awaitTermination(120)
    assert events_of(tmp_path / "streamed") == expected


def test_rows_without_ids_are_named_by_their_content(spark: SparkSession, tmp_path: Path) -> None:
    """A batch outside a stream has no id, as a file has none: the IRIs are those of the file."""
    ingest_batch(typed(spark).repartition(2), tmp_path / "batch", mapping=WITHOUT_ID)
    assert events_of(tmp_path / "batch") == ingested(tmp_path, WITHOUT_ID)


def test_bad_rows_of_a_frame_are_dead_letters(spark: SparkSession, tmp_path: Path) -> None:
    """The letter has the partition, the row and the column; other rows are accepted."""
    frame = typed(spark).coalesce(1).withColumn("time", f.expr("if(n = 2, null, time)"))
    result = ingest_batch(frame, tmp_path / "lake", mapping=MAPPING, dead_letter=tmp_path / "letters")
    assert result == BatchIngestResult(accepted=2, rejected=1)
    (path,) = (tmp_path / "letters").iterdir()
    letter = json.loads(path.read_text())
    assert (letter["source"], letter["line"]) == ("partition 0", 2)
    assert letter["reason"] == "column 'time' is empty: an event needs its time"


def test_a_mapping_that_does_not_fit_a_frame_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Before anything runs: missing columns with those there are, and types that are no simple values."""
    with pytest.raises(UsageError, match=r"(?s)the DataFrame: there is no column 'celsius'.*columns are: n, kind"):
        ingest_batch(typed(spark).drop("celsius"), tmp_path / "lake", mapping=MAPPING)
    nested = typed(spark).withColumn("celsius", f.struct(f.lit(1).alias("v")))
    with pytest.raises(UsageError, match=r"column 'celsius': struct<v.*is no simple value"):
        ingest_batch(nested, tmp_path / "lake", mapping=MAPPING)
    assert not (tmp_path / "lake").exists()
