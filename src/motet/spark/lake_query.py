"""Queries over a lake on Spark: zone files and tables in memory as temporary views of a session."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from motet.lake import Lake
from motet.lake.zone_rows import EVENT_ROWS, QUAD_ROWS
from motet.model.times import format_datetime
from motet.query.bindings import substituted, to_terms
from motet.query.history import warnings_of
from motet.query.lake_query import (
    AnswerWithWarnings,
    Complete,
    OnPercentage,
    QueryOptions,
    Span,
    answer_size,
    open_history,
)
from motet.query.lake_tables import LakeTables
from motet.query.limits import time_limit
from motet.spark.query_engine import SparkQueryEngine, new_view_name
from motet.sparql.algebra import SelectQuery
from motet.sparql.parse import read_query

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from motet.query.history import AsOf

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
