"""Patterns with blocks of XML over the rows of a DataFrame that has documents."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession

from motet.model.errors import UsageError
from motet.spark import detect, detect_pandas

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
PAID = """
SUBSCRIPTION paid
  EVENT p XML { <person><name>$name</name><number>$n</number></person> }
  EVENT o XML { <order><n>$n</n></order> ELEMENT_AS $order }
  WHEN p BEFORE o WITHIN 1 h SELECT ?n ?name ?order
SUBSCRIPTION asked
  EVENT o XML { <order><n>$n^^<http://www.w3.org/2001/XMLSchema#integer></n></order> }
  EVENT q { ?q :kind "question" ; :about ?n }
  WHEN o BEFORE q WITHIN 1 h SELECT ?n ?q
SUBSCRIPTION one EVENT o XML { <order><n> $n > 1 </n></order> } WHEN o SELECT ?n ?o
"""
ROWS: list[tuple[str | None, str | None, int | None]] = [
    ("<person><name>Li</name><number>1</number></person>", None, None),
    ("<person><name>Bo</name><number>2</number></person>", None, None),
    ("<order><n>1</n></order>", None, None),
    ("<order><n>2</n>", None, None),  # not well-formed
    ("<!DOCTYPE order><order><n>2</n></order>", None, None),
    ('<?xml version="1.0" encoding="iso-8859-1"?><order><n>2</n><c>\u00e9</c></order>', None, None),
    (None, "question", 2),
    (None, "question", 3),
]
SCHEMA = "n long, time timestamp, value string, kind string, about int"
EXPECTED = {
    ("paid", (0, 2), (("n", "1"), ("name", "Li"), ("order", "<order><n>1</n></order>"))),
    ("paid", (1, 5), (("n", "2"), ("name", "Bo"), ("order", "<order><n>2</n><c>\u00e9</c></order>"))),
    ("asked", (5, 6), (("n", "2"), ("q", "6"))),
    ("one", (5,), (("n", "2"), ("o", "5"))),
}


def rows() -> list[tuple[Any, ...]]:
    return [(n, NOON + timedelta(minutes=n), *row) for n, row in enumerate(ROWS)]


def found(records: list[dict[str, Any]]) -> set[tuple[str, tuple[int, ...], tuple[tuple[str, str], ...]]]:
    names = ("n", "name", "o", "order", "q")
    matches = [
        (
            row["subscription"],
            tuple(sorted(row["events"])),
            tuple((name, str(row[name]).removesuffix(".0")) for name in names if not pd.isna(row[name])),
        )
        for row in records
    ]
    assert len(set(matches)) == len(matches), "each match once"
    return set(matches)


def collected(matches: DataFrame) -> set[tuple[str, tuple[int, ...], tuple[tuple[str, str], ...]]]:
    return found([row.asDict() for row in matches.collect()])


def test_blocks_join_documents_and_columns(spark: SparkSession) -> None:
    """Strings and bytes; a row whose document is refused matches no block, and costs no other its place."""
    frame = spark.createDataFrame(rows(), SCHEMA)
    assert collected(detect(frame, PAID, start="time", id="n")) == EXPECTED
    without_declaration = frame.where("n <> 5").withColumn("bytes", frame.value.cast("binary")).drop("value")
    expected = {match for match in EXPECTED if 5 not in match[1]}
    assert collected(detect(without_declaration, PAID, start="time", id="n", xml="bytes")) == expected


def test_blocks_over_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    """The state of the query has what blocks have bound."""
    frame = spark.createDataFrame([*rows(), (99, NOON + timedelta(days=1), None, "last", None)], SCHEMA)
    frame.where("n < 3").write.parquet(str(tmp_path / "rows"))
    stream = spark.readStream.schema(frame.schema).parquet(str(tmp_path / "rows"))
    matches = detect(stream, PAID, start="time", id="n", lateness="1 min", buckets=2)
    for more in ("n < 0", "n >= 3 AND n < 99", "n = 99"):
        frame.where(more).write.mode("append").parquet(str(tmp_path / "rows"))
        writer = matches.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    assert collected(spark.read.parquet(str(tmp_path / "out"))) == EXPECTED


def test_blocks_over_pandas() -> None:
    """As on Spark."""
    frame = pd.DataFrame(rows(), columns=["n", "time", "value", "kind", "about"]).astype({"about": "Int64"})
    assert found(detect_pandas(frame, PAID, start="time", id="n").to_dict("records")) == EXPECTED
    with pytest.raises(UsageError, match="the column 'about' is int64, and blocks of XML read strings or bytes"):
        detect_pandas(frame, PAID, start="time", xml="about")
    with pytest.raises(UsageError, match="no column 'text'"):
        detect_pandas(frame, PAID, start="time", xml="text")


def test_a_column_without_documents_is_refused(spark: SparkSession) -> None:
    """The column is 'value' unless another one is named."""
    frame = spark.createDataFrame(rows(), SCHEMA)
    with pytest.raises(UsageError, match="no column 'value'"):
        detect(frame.drop("value"), PAID, start="time")
    with pytest.raises(UsageError, match="'about' is int, and blocks of XML read strings or bytes"):
        detect(frame, PAID, start="time", xml="about")
