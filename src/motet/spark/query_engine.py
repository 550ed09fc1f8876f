"""Answers queries with Spark SQL, over a lake or a dataset in memory: both become temporary views of a session.

A query is compiled; the functions it calls are registered once per session. Spark's recursion cannot remove duplicates,
so a path is closed before its query runs: on the driver when the edges are few, otherwise by a loop that extends all
pairs by one edge at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from sqlglot import exp

from motet.lake import Lake
from motet.lake.zone_rows import EVENT_ROWS, QUAD_ROWS
from motet.model.errors import EngineError, require_extra
from motet.model.times import format_datetime
from motet.query.history import warnings_of
from motet.query.lake_query import (
    AnswerWithWarnings,
    Complete,
    OnPercentage,
    QueryOptions,
    Span,
    answer_size,
    open_history,
    substituted,
    to_terms,
)
from motet.query.lake_tables import LakeTables
from motet.query.limits import time_limit
from motet.query.quad_tables import TABLES, TableDataset, object_kinds, table_columns
from motet.query.sql_engine import SqlEngine
from motet.sparql.algebra import SelectQuery
from motet.sparql.dataset import Dataset
from motet.sparql.parse import read_query
from motet.sparql.sql import nodes
from motet.sparql.sql.compile import CompiledQuery
from motet.sparql.sql.dialects import write_sql
from motet.sparql.sql.evaluation import FUNCTIONS
from motet.sparql.sql.relation import RelationCompiler

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from motet.query.history import AsOf


# Lakes


_TYPES = {"int64": "BIGINT", "int8": "TINYINT", "double": "DOUBLE", "string": "STRING", "bool": "BOOLEAN"}

_PROGRESS_SECONDS = 0.5
_MAX_FILE_VIEWS = 64
_file_views: WeakKeyDictionary[SparkSession, dict[tuple[str, ...], str]] = WeakKeyDictionary()
"""By session: views of lists of files for the next queries, the latest last. Spark lists the files of each once."""


class SparkHost:
    """The temporary views of a query on Spark. Those of files, which never change, are left to later queries."""

    def __init__(self, engine: SparkQueryEngine) -> None:
        self._engine = engine
        self._file_views = _file_views.setdefault(engine.spark, {})
        while len(self._file_views) > _MAX_FILE_VIEWS:
            engine.spark.catalog.dropTempView(self._file_views.pop(next(iter(self._file_views))))

    def register(self, table: pa.Table) -> str:
        schema = _schema(table.schema)
        if not table.num_rows:
            return self._engine.create_view(self._engine.spark.createDataFrame([], schema))
        return self._engine.create_view(self._engine.spark.createDataFrame(table, schema))

    def view(self, paths: Sequence[str]) -> str:
        key = tuple(Path(path).absolute().as_uri() for path in paths)
        name = self._file_views.pop(key, None)
        if name is None:
            schema = EVENT_SCHEMA if self._is_of_events(paths[0]) else QUAD_SCHEMA
            name = new_view_name()
            self._engine.spark.read.schema(schema).parquet(*key).createOrReplaceTempView(name)
        self._file_views[key] = name
        return name

    def _is_of_events(self, path: str) -> bool:
        import pyarrow.parquet as pq

        return "g" in pq.read_schema(path).names


def query(
    spark: SparkSession,
    lake: str | Path | Lake,
    text: str,
    *,
    bindings: Mapping[str, object] | None = None,
    as_of: AsOf | None = None,
    span: Span | None = None,
    entailment: str | None = None,
) -> DataFrame:
    """The answer of a SPARQL query over a lake, as a DataFrame of RDF terms in N-Triples.

    It has a column for each variable of SELECT, the columns subject, predicate and object for CONSTRUCT and DESCRIBE,
    and the column answer for ASK. What the notification table lacks is computed in this process first.
    """
    opened = lake if isinstance(lake, Lake) else Lake.open(lake, create=False)
    options = QueryOptions(bindings or {}, as_of, span, entailment)
    parsed = substituted(read_query(text), to_terms(options.bindings))
    history = open_history(opened, parsed, options, lambda: _complete(opened))
    engine = SparkQueryEngine(spark)
    tables = LakeTables(history, SparkHost(engine))
    now = format_datetime(opened.clock())
    try:
        if isinstance(parsed, SelectQuery):
            return engine.frame(engine.compile(parsed, tables, now=now))
        found = engine.answer(parsed, tables, now=now)
        if isinstance(found, bool):
            return spark.createDataFrame([(found,)], "answer BOOLEAN")
        return spark.createDataFrame(list(found), "subject STRING, predicate STRING, object STRING")  # type: ignore[arg-type]
    finally:
        engine.drop_views()


def answer_on_spark(
    start: Callable[[], SparkSession],
    lake: Lake,
    text: str,
    options: QueryOptions,
    complete: Complete,
    source: str | None = None,
) -> AnswerWithWarnings:
    """As `motet.query.lake_query.query_lake`, on Spark. A session is started for a query that can be answered.

    The progress is the share of tasks that have ended in the stages that run: each stage begins anew.
    """
    parsed = substituted(read_query(text, source=source), to_terms(options.bindings))
    history = open_history(lake, parsed, options, complete)
    spark = start()
    engine = SparkQueryEngine(spark)
    tables = LakeTables(history, SparkHost(engine))
    try:
        with time_limit(options.limits.seconds, spark.interruptAll), _reported(spark, options.on_progress):
            found = engine.answer(parsed, tables, now=format_datetime(lake.clock()))
    finally:
        engine.drop_views()
    options.limits.check_rows(answer_size(found))
    return AnswerWithWarnings(found, warnings_of(parsed, tables.has_event))


@contextmanager
def _reported(spark: SparkSession, on_progress: OnPercentage | None) -> Iterator[None]:
    """Reports the progress now and then; not over Spark Connect, which does not tell it."""
    from pyspark.sql.utils import is_remote

    if on_progress is None or is_remote():
        yield
        return
    is_done = threading.Event()
    tracker = spark.sparkContext.statusTracker()

    def report() -> None:
        while not is_done.wait(_PROGRESS_SECONDS):
            stages = [stage for number in tracker.getActiveStageIds() if (stage := tracker.getStageInfo(number))]
            if tasks := sum(stage.numTasks for stage in stages):
                on_progress(100 * sum(stage.numCompletedTasks for stage in stages) / tasks)

    thread = threading.Thread(target=report, daemon=True, name="motet-query-progress")
    thread.start()
    try:
        yield
    finally:
        is_done.set()
        thread.join()


def _complete(lake: Lake) -> None:
    from motet.embedded.cloud import Cloud

    with Cloud(lake) as cloud:
        cloud.flush()


def _schema(schema: pa.Schema) -> str:
    return ", ".join(f"{entry.name} {_TYPES[str(entry.type)]}" for entry in schema)


QUAD_SCHEMA, EVENT_SCHEMA = _schema(QUAD_ROWS), _schema(EVENT_ROWS)


# The engine


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
        first_edges = frame.limit(MAX_DRIVER_EDGES + 1).toArrow()
        closed = (
            self._walked(first_edges, starts, graph_key)
            if first_edges.num_rows <= MAX_DRIVER_EDGES
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
