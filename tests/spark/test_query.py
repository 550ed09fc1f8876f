"""Queries on Spark: expressions, aggregates, patterns and paths have the answers of the evaluator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession
from tests.query.expression_cases import AGGREGATES, DATA, GROUPS, OF_ONE, OF_TWO, TERMS, expressions_query
from tests.query.test_lake_engines import RandomLake

from motet.cli.main import main
from motet.fuzz.queries import RandomQuery, random_graphs
from motet.model.errors import EngineError
from motet.query.lake_query import QueryOptions
from motet.spark import query
from motet.spark import query_engine as spark_query
from motet.spark.query_engine import SparkQueryEngine, answer_on_spark, answer_with_spark, spark_tables
from motet.sparql.dataset import Dataset, Graph
from motet.sparql.evaluate import SolutionSequence, answer
from motet.sparql.parse import read_query
from motet.sparql.values import order_key

Rows = Counter[tuple[tuple[str, str], ...]]
CHAIN = Dataset(
    [(f"<urn:n{n}>", "<urn:next>", f"<urn:n{(n + 1) % 5}>") for n in range(5)]
    + [("<urn:a>", "<urn:next>", "<urn:n0>")],
    {"<urn:g>": [("<urn:x>", "<urn:next>", "<urn:y>")], "<urn:h>": [("<urn:y>", "<urn:next>", "<urn:z>")]},
)


@pytest.fixture(scope="module")
def engine(spark: SparkSession) -> Iterator[SparkQueryEngine]:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    yield SparkQueryEngine(spark)
    spark.conf.set("spark.sql.shuffle.partitions", before or "200")


def rows(found: object) -> Rows:
    assert isinstance(found, SolutionSequence)
    return Counter(tuple(sorted(row.items())) for row in found.rows)


def check(engine: SparkQueryEngine, text: str, dataset: Dataset = DATA) -> None:
    query = read_query(text)
    found = rows(answer_with_spark(engine.spark, query, dataset))
    expected = rows(answer(query, dataset))
    assert found - expected == expected - found, text


def test_expressions_have_the_values_of_the_evaluator(engine: SparkQueryEngine) -> None:
    """For every pair of terms of a table, in two queries; an error is an unbound variable."""
    check(engine, expressions_query(OF_ONE).replace("?a, ?b }", "?a }"))
    check(engine, expressions_query(OF_TWO))


def test_aggregates_have_the_values_of_the_evaluator(engine: SparkQueryEngine) -> None:
    """For every group of a table, in one query; SAMPLE and GROUP_CONCAT may take any order."""
    dataset = Dataset(
        (f"<urn:{group.replace(' ', '-')}>", "<urn:p>", term) for group, terms in GROUPS.items() for term in terms
    )
    exact = [aggregate for aggregate in AGGREGATES if not aggregate.startswith(("SAMPLE", "GROUP_CONCAT"))]
    columns = " ".join(f"({aggregate} AS ?x{index})" for index, aggregate in enumerate(exact))
    query = read_query(f"SELECT ?g {columns} {{ ?g <urn:p> ?a }} GROUP BY ?g")
    found, expected = answer_with_spark(engine.spark, query, dataset), answer(query, dataset)
    assert isinstance(expected, SolutionSequence)
    assert by_value(found) == by_value(expected)


def by_value(solutions: SolutionSequence) -> list[list[tuple[str, object]]]:
    """Solutions with values in the place of terms: of terms with equal values MIN and MAX may take any."""
    return sorted([(name, order_key(term)) for name, term in sorted(row.items())] for row in solutions.rows)


def test_the_order_is_that_of_the_evaluator(engine: SparkQueryEngine) -> None:
    """Terms of equal rank may be in any order."""
    found = answer_with_spark(engine.spark, read_query("SELECT ?a { <urn:s> <urn:p> ?a } ORDER BY DESC(?a)"), DATA)
    assert [order_key(row["a"]) for row in found.rows] == sorted(map(order_key, TERMS), reverse=True)


@pytest.mark.parametrize(
    "pattern",
    [
        "<urn:a> <urn:next>* ?y",
        "GRAPH ?g { ?x <urn:next>+ ?y }",
        "?x <urn:next> <urn:n1> . ?x (<urn:next>/<urn:next>)+ ?y",
        "?x <urn:next> ?y FILTER NOT EXISTS { ?y <urn:next>+ <urn:a> }",
        "?x <urn:next> ?y OPTIONAL { ?y <urn:next> ?z FILTER(STR(?z) > STR(?x) && STRLEN(STR(?x)) > 3) }",
    ],
)
def test_patterns_have_the_solutions_of_the_evaluator(engine: SparkQueryEngine, pattern: str) -> None:
    """Paths end on cycles, in each graph by itself."""
    check(engine, f"SELECT * {{ {pattern} }}", CHAIN)


def test_many_edges_are_closed_by_a_loop(engine: SparkQueryEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same pairs as on the driver."""
    monkeypatch.setattr(spark_query, "MAX_DRIVER_EDGES", 1)
    check(engine, "SELECT * { GRAPH ?g { ?x <urn:next>+ ?y } }", CHAIN)


def test_random_queries_have_the_solutions_of_the_evaluator(engine: SparkQueryEngine) -> None:
    """A few in every run; `motet fuzz --sparql --engine spark` takes many."""
    for seed in range(2):
        random = Random(seed)
        graphs = random_graphs(random)
        named = {name: triples for name, triples in graphs.items() if name is not None}
        check(engine, RandomQuery(random, computes=True).text(), Dataset(graphs[None], named))


def test_a_graph_is_constructed(engine: SparkQueryEngine) -> None:
    """From the solutions of its pattern."""
    query = read_query("CONSTRUCT { ?y <urn:before> ?x } { ?x <urn:next> ?y }")
    found = answer_with_spark(engine.spark, query, CHAIN)
    assert isinstance(found, Graph)
    assert set(found) == set(answer(query, CHAIN))  # type: ignore[arg-type]


def test_files_are_queried_from_the_shell(
    engine: SparkQueryEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the same options and formats as on other engines."""
    path = tmp_path / "data.ttl"
    path.write_text("<urn:a> <urn:next> <urn:b> . <urn:b> <urn:next> <urn:c> .")
    query = "SELECT ?y { <urn:a> <urn:next>+ ?y } ORDER BY ?y"
    assert main(["query", query, "--data", str(path), "--engine", "spark", "--format", "csv"]) == 0
    assert capsys.readouterr().out == "y\r\nurn:b\r\nurn:c\r\n"


def test_a_query_that_spark_cannot_run_is_an_engine_error(engine: SparkQueryEngine) -> None:
    """With Spark's own words."""
    with spark_tables(engine, CHAIN) as tables:
        compiled = engine.compile(read_query("SELECT * { ?x ?p ?y }"), tables, now=CHAIN.now)
    with pytest.raises(EngineError, match="Spark could not run the query"):
        engine.rows(compiled)


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
