"""Compares engines and oracles on random SPARQL queries over random data, with the evaluator in the middle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from motet.fuzz.query_oracles import QUERY_ORACLES, Bag, QueryGraphs, nquads
from motet.fuzz.random_queries import RandomQuery, random_graphs
from motet.model.errors import MotetError
from motet.sparql.algebra import Query
from motet.sparql.dataset import Dataset
from motet.sparql.parse import read_query
from motet.sparql.query import Answer, SolutionSequence, answer

FuzzedEngine = Callable[[Query, Dataset], Answer]


@dataclass(frozen=True)
class QueryDifference:
    """``other`` is the engine or oracle whose solutions differ from those of the evaluator."""

    query: str
    graphs: QueryGraphs
    other: str
    expected: Bag
    actual: Bag
    error: str | None = None

    def files(self) -> dict[str, str]:
        """The case as files by name."""
        return {
            "query.rq": self.query + "\n",
            "data.nq": nquads(self.graphs),
            "evaluator.txt": _lines(self.expected),
            f"{self.other}.txt": self.error or _lines(self.actual),
        }

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in self.files().items():
            (folder / name).write_text(text)


@dataclass
class QueryFuzzReport:
    """``compared`` counts the comparisons with each engine and oracle, ``excepted`` the known defects."""

    runs: int = 0
    compared: Counter[str] = field(default_factory=Counter)
    excepted: Counter[str] = field(default_factory=Counter)
    differences: list[QueryDifference] = field(default_factory=list)

    def fields(self) -> dict[str, object]:
        return {
            "runs": self.runs,
            "compared": dict(self.compared),
            "excepted": dict(self.excepted),
            "differences": len(self.differences),
        }


def fuzz_queries(
    engine: str, runs: int, seed: int, *, keep_going: bool = False, on_progress: Callable[[int], object] = id
) -> QueryFuzzReport:
    """Compare an engine, the evaluator, pyoxigraph and rdflib; the same seed gives the same queries and data."""
    report = QueryFuzzReport()
    engines = {"duckdb": _duckdb_engine()} | ({"spark": _spark_engine()} if engine == "spark" else {})
    for number in range(runs):
        random = Random(f"{seed} {number}")  # noqa: S311  (seeded test data)
        computes = random.random() < 0.7
        _compare(report, engines, random_graphs(random), RandomQuery(random, computes=computes).text(), computes)
        report.runs += 1
        on_progress(1)
        if report.differences and not keep_going:
            break
    return report


def _compare(
    report: QueryFuzzReport, engines: dict[str, FuzzedEngine], graphs: QueryGraphs, text: str, computes: bool
) -> None:
    query = read_query(text)
    dataset = Dataset(graphs[None], {name: triples for name, triples in graphs.items() if name is not None})
    expected = _bag(answer(query, dataset))

    def note(other: str, actual: Bag, wanted: Bag) -> None:
        report.compared[other] += 1
        if actual != wanted:
            report.differences.append(QueryDifference(text, graphs, other, wanted, actual))

    for name, run in engines.items():
        try:
            note(name, _bag(run(query, dataset)), expected)
        except MotetError as error:
            report.differences.append(QueryDifference(text, graphs, name, expected, Counter(), str(error)))
    bound = Counter({solution: times for solution, times in expected.items() if solution})
    for name, oracle in QUERY_ORACLES.items():
        if (defect := oracle.excepts(text, computes)) is not None:
            report.excepted[f"{name}: {defect}"] += 1
        else:
            note(name, oracle.solutions(text, graphs), bound if name == "rdflib" else expected)


def _bag(found: Answer) -> Bag:
    assert isinstance(found, SolutionSequence)
    return Counter(tuple(sorted(row.items())) for row in found.rows)


def _lines(bag: Bag) -> str:
    lines = sorted(f"{times} × {' '.join(f'?{name}={term}' for name, term in row)}" for row, times in bag.items())
    return "".join(f"{line}\n" for line in lines)


def _duckdb_engine() -> FuzzedEngine:
    """One connection for all queries."""
    from motet.query.duckdb_engine import DuckDbEngine, connect, load_tables

    connection = connect()
    engine = DuckDbEngine(connection)
    return lambda query, dataset: engine.answer(query, load_tables(connection, dataset), now=dataset.now)


def _spark_engine() -> FuzzedEngine:
    """One session for all queries."""
    from motet.spark.query_engine import answer_with_spark
    from motet.spark.session import session

    spark = session(config={"spark.sql.shuffle.partitions": "1"})
    return lambda query, dataset: answer_with_spark(spark, query, dataset)
