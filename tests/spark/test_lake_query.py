"""Queries over a lake on Spark give what DuckDB gives."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession
from tests.query.test_lake_engines import RandomLake

from motet.query.lake_query import QueryOptions
from motet.spark import query
from motet.spark.lake_query import answer_on_spark
from motet.sparql.query import SolutionSequence

TEXTS = [
    "SELECT * { ?s ?p ?o }",
    "SELECT ?g ?s FROM NAMED <urn:g0> FROM <urn:motet:background> { GRAPH ?g { ?s ?p ?o } }",
    "SELECT ?e ?t { ?e <urn:motet:ns#start> ?t }",
    "SELECT ?s (COUNT(*) AS ?n) FROM <urn:motet:events> { ?s ?p ?o } GROUP BY ?s",
]


@pytest.mark.parametrize("seed", [2, 5])
def test_spark_answers_as_duckdb(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """With zones, a tail, retractions, a span and entailment."""
    lake = RandomLake(Random(seed), tmp_path / "lake")
    lake.lake.build_zones(least=1, most=4)
    lake._publish()
    lake.lake.retract(lake.events[0])
    for text in TEXTS:
        for options in ({}, {"as_of": 2}, {"span": ("1970-01-01T00:00:00.000003Z", None), "entailment": "owl-rl"}):
            expected, warnings = lake.answer(text, "duckdb", options)
            found = answer_on_spark(lambda: spark, lake.lake, text, QueryOptions(**options), lake.complete)
            assert isinstance(found.answer, SolutionSequence)
            assert sorted(tuple(sorted(row.items())) for row in found.answer.rows) == sorted(expected.elements())
            assert found.warnings == warnings


def test_answers_are_data_frames(spark: SparkSession, tmp_path: Path) -> None:
    lake = RandomLake(Random(2), tmp_path / "lake")
    folder = str(tmp_path / "lake")
    frame = query(spark, folder, "SELECT ?s ?t { ?s <urn:motet:ns#start> ?t }", bindings={"s": f"<{lake.events[-1]}>"})
    assert frame.columns == ["s", "t"]
    texts = ["SELECT * {}", "SELECT ?t1 ?from { ?from <urn:motet:ns#start> ?t1 } ORDER BY ?t1", "SELECT ?x ?X {}"]
    frames = [query(spark, folder, text) for text in texts]
    assert [frame.columns for frame in frames] == [[], ["t1", "from"], ["x", "X"]]
    assert [frame.count() for frame in frames] == [1, len(lake.events), 1]
    assert frame.count() == 1
    assert query(spark, folder, "ASK { ?s ?p ?o }").first()[0] is True  # type: ignore[index]
    triples = query(spark, folder, "CONSTRUCT { ?s <urn:made> ?s } { ?s <urn:motet:ns#start> ?t }")
    assert triples.columns == ["subject", "predicate", "object"]
    assert triples.count() > 0
