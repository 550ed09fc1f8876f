"""Answers queries with Spark SQL: compiles them, registers the functions they call once per session, closes paths.

Spark's recursion cannot remove duplicates, so a path is closed before its query runs: on the driver when the edges
are few, otherwise by a loop that extends all pairs by one edge at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from motet.model.errors import EngineError
from motet.model.extras import require_extra
from motet.query.quad_tables import TABLES, TableDataset, object_kinds, table_columns
from motet.query.sql_engine import SqlEngine
from motet.sparql.dataset import Dataset
from motet.sparql.sql import nodes
from motet.sparql.sql.compile import CompiledQuery
from motet.sparql.sql.dialects import write_sql
from motet.sparql.sql.evaluation import FUNCTIONS
from motet.sparql.sql.relation import RelationCompiler

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

MAX_DRIVER_EDGES = 1_000_000
_view_numbers = count()
_SPARK_TYPES = {"VARCHAR": "STRING"}


def new_view_name() -> str:
    return f"motet_query_{next(_view_numbers)}"


class SparkQueryEngine(SqlEngine):
    """A Spark session that answers SPARQL queries."""

    dialect = "spark"
    joins_call_python = False

    def __init__(self, spark: SparkSession) -> None:
        super().__init__()
        self.spark = spark
        self._views: list[str] = []
        _register_functions(spark)

    def frame(self, query: CompiledQuery) -> DataFrame:
        """The solutions as a DataFrame: one column for each variable, terms in N-Triples."""
        if not query.variables:
            return self.spark.sql(query.sql("spark")).select()
        if query.tree.args.get("order"):  # its keys would be looked for among the new names
            return self.spark.sql(query.sql("spark")).toDF(*query.variables)
        return self.spark.sql(query.with_names().sql("spark"))

    def fetch(self, query: CompiledQuery) -> list[tuple[str | None, ...]]:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        try:
            return [tuple(row) for row in self.spark.sql(query.sql("spark")).collect()]
        except (PySparkException, Py4JError) as error:
            raise EngineError(f"Spark could not run the query: {str(error)[:2000]}") from error

    def create_view(self, frame: DataFrame) -> str:
        """A name for a DataFrame, until `drop_views`."""
        name = new_view_name()
        frame.createOrReplaceTempView(name)
        self._views.append(name)
        return name

    def drop_views(self) -> None:
        for name in self._views:
            self.spark.catalog.dropTempView(name)
        self._views.clear()

    # Paths.

    def closure(
        self, relations: RelationCompiler, edges: exp.Query, seeds: exp.Query | None, graph_key: str | None
    ) -> exp.Query:
        """The pairs joined by one or more edges, computed now."""
        frame = self._run(relations, edges).select(*([graph_key] if graph_key else []), "a", "b").distinct()
        starts = None if seeds is None else self._run(relations, seeds).select("a").distinct()
        few = frame.limit(MAX_DRIVER_EDGES + 1).toArrow()
        closed = (
            self._walked(few, starts, graph_key)
            if few.num_rows <= MAX_DRIVER_EDGES
            else _extended_to_the_end(frame, starts, [graph_key] if graph_key else [])
        )
        return nodes.select([exp.Star()], nodes.table(self.create_view(closed)))

    def _run(self, relations: RelationCompiler, query: exp.Query) -> DataFrame:
        """The rows of a part of a query that is being compiled."""
        whole = query.copy()
        if relations.shared:
            whole.set("with_", exp.With(expressions=[shared.copy() for shared in relations.shared]))
        return self.spark.sql(write_sql(whole, "spark"))

    def _walked(self, edges: pa.Table, seeds: DataFrame | None, graph_key: str | None) -> DataFrame:
        starts = None if seeds is None else {row[0] for row in seeds.collect()}
        graphs = edges.column(graph_key).to_pylist() if graph_key else [0] * edges.num_rows
        targets: dict[tuple[int, str], list[str]] = {}
        for graph, a, b in zip(graphs, edges.column("a").to_pylist(), edges.column("b").to_pylist(), strict=True):
            targets.setdefault((graph, a), []).append(b)
        rows = [
            (graph, a, b)
            for graph, a in targets
            if starts is None or a in starts
            for b in _reachable(targets, graph, a)
        ]
        frame = self.spark.createDataFrame(rows, f"{graph_key or 'graph'} BIGINT, a STRING, b STRING")
        return frame if graph_key else frame.select("a", "b")


def _reachable(targets: dict[tuple[int, str], list[str]], graph: int, start: str) -> Iterable[str]:
    """The nodes after a start, in one graph; the start itself only if a cycle leads back to it."""
    visited: dict[str, None] = {}
    pending = [start]
    while pending:
        for node in targets.get((graph, pending.pop()), ()):
            if node not in visited:
                visited[node] = None
                pending.append(node)
    return visited


def _extended_to_the_end(edges: DataFrame, seeds: DataFrame | None, graph: list[str]) -> DataFrame:
    """A closure by a loop: the newest pairs are extended by one edge until nothing is new."""
    edges = edges.localCheckpoint()
    pairs = edges if seeds is None else edges.join(seeds, "a", "left_semi")
    steps = edges.withColumnsRenamed({"a": "middle", "b": "end"})
    newest = pairs = pairs.localCheckpoint()
    while not newest.isEmpty():
        longer = newest.withColumnRenamed("b", "middle").join(steps, [*graph, "middle"])
        extended = longer.select(*graph, "a", longer["end"].alias("b")).distinct()
        newest = extended.join(pairs, [*graph, "a", "b"], "left_anti").localCheckpoint()
        pairs = pairs.unionByName(newest).localCheckpoint()
    return pairs


# Functions.


def _register_functions(spark: SparkSession) -> None:
    """Register the functions of compiled queries, once per session."""
    from pyspark.sql.functions import udf

    if spark.conf.get("motet.query.functions", None) == "registered":
        return
    for name, (function, result) in _SPARK_FUNCTIONS.items():
        spark.udf.register(name, udf(function, result, useArrow=True))
    spark.conf.set("motet.query.functions", "registered")


def _of_array(name: str) -> Callable[[str, list[str | None]], Any]:
    """A function of any number of terms, which Spark passes as an array; without a text the row needs no value."""
    function = FUNCTIONS[name]
    return lambda text, terms: None if text is None else function(text, *terms)


_SPARK_FUNCTIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "sparql_term": (_of_array("sparql_term"), "string"),
    "sparql_truth": (_of_array("sparql_truth"), "boolean"),
    "sparql_aggregate": (FUNCTIONS["sparql_aggregate"], "string"),
    "sparql_order": (FUNCTIONS["sparql_order"], "string"),
    "sparql_extreme": (FUNCTIONS["sparql_extreme"], "string"),
    "sparql_total": (FUNCTIONS["sparql_total"], "string"),
}


# Datasets in memory.


@contextmanager
def spark_tables(engine: SparkQueryEngine, dataset: Dataset) -> Iterator[TableDataset]:
    """The tables of a dataset in memory as temporary views."""
    names = []
    tables = table_columns(dataset)
    for types, columns in zip(TABLES, tables, strict=True):
        schema = ", ".join(f"{name} {_SPARK_TYPES.get(kind, kind)}" for name, kind in types.items())
        rows = list(zip(*columns.values(), strict=True))
        names.append(engine.create_view(engine.spark.createDataFrame(rows, schema)))
    try:
        yield TableDataset(names[0], names[1], names[2], object_kinds=object_kinds(tables[0]))
    finally:
        engine.drop_views()


def answer_with_spark(spark: SparkSession, query: Any, dataset: Dataset) -> Any:
    """The answer of a query over a dataset in memory."""
    require_extra("spark", "a query on Spark")
    engine = SparkQueryEngine(spark)
    with spark_tables(engine, dataset) as tables:
        return engine.answer(query, tables, now=dataset.now)
