"""Answers queries with DuckDB, over a lake or a dataset in memory.

Compiled queries call functions that each database registers once. A lake is zone files and tables in memory on one
connection, which the next query of a thread uses again if it sees the same history.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from glob import escape
from itertools import count
from typing import TYPE_CHECKING, Any

from motet.model.errors import EngineError, LimitError
from motet.query.history import History
from motet.query.lake_tables import LakeTables
from motet.query.limits import QueryLimits, time_limit
from motet.query.quad_tables import TABLES, TableDataset, object_kinds, table_columns
from motet.query.sql_engine import SqlEngine
from motet.sparql import algebra
from motet.sparql.algebra import Query
from motet.sparql.dataset import Dataset
from motet.sparql.evaluate import Answer
from motet.sparql.sql.compile import CompiledQuery
from motet.sparql.sql.evaluation import FUNCTIONS
from motet.sparql.sql.paths import recursive_closure
from motet.sparql.sql.scan import SqlDataset

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

DEFAULT_MEMORY = 2 << 30  # bytes
REPORT_SECONDS = 0.5  # between two reports of progress
_MAX_COMPILED = 256  # queries of a connection that are compiled once
_SIGNATURES: dict[str, tuple[list[str] | None, str]] = {  # parameters, None for any number; result
    "sparql_term": (None, "VARCHAR"),
    "sparql_truth": (None, "BOOLEAN"),
    "sparql_aggregate": (["VARCHAR", "VARCHAR[]"], "VARCHAR"),
    "sparql_order": (["VARCHAR"], "VARCHAR"),
    "sparql_extreme": (["VARCHAR", "VARCHAR[]"], "VARCHAR"),
    "sparql_total": (["VARCHAR", "BIGINT", "BIGINT", "VARCHAR[]", "VARCHAR[]"], "VARCHAR"),
}

_idle = threading.local()  # ``connection``: that of the newest query of this thread, for the next one


def connect(memory: int = DEFAULT_MEMORY) -> duckdb.DuckDBPyConnection:
    """A connection to DuckDB with temporary tables of its own and the functions that compiled queries call.

    ``memory`` is the number of bytes that all queries of this process with this limit may use together.
    """
    return _database(memory).cursor()


@cache
def _database(memory: int) -> duckdb.DuckDBPyConnection:
    """A database in memory, of which connections are made: making one takes 30 ms, a connection less than 1 ms."""
    import duckdb

    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": f"{memory}B",
        "autoinstall_known_extensions": False,  # nothing is fetched
        "autoload_known_extensions": False,
    }
    database = duckdb.connect(config=settings)
    database.execute("SET GLOBAL parquet_metadata_cache = true")
    special: Any = "special"  # NULL is an argument like others
    for name, (parameters, result) in _SIGNATURES.items():
        function = FUNCTIONS[name] if parameters else _of_any_number(FUNCTIONS[name])
        database.create_function(name, function, parameters, result, null_handling=special)  # type: ignore[arg-type]
    atexit.register(database.close)
    return database


class DuckDbEngine(SqlEngine):
    """A connection made by `connect` that answers SPARQL queries."""

    dialect = "duckdb"
    joins_call_python = True
    closure = staticmethod(recursive_closure)

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        limits: QueryLimits | None = None,
        compiled: dict[Query, CompiledQuery] | None = None,
    ) -> None:
        """With limits, more solutions than they allow are refused before they are read. ``compiled`` has earlier
        queries, of which nothing but the current time may have changed.
        """
        super().__init__()
        self.connection = connection
        self._limits = limits
        self._compiled = compiled

    def compile(self, query: Query, dataset: SqlDataset, *, now: str) -> CompiledQuery:
        """With a store of compiled queries, one is compiled once, unless it has the current time."""
        if self._compiled is None:
            return super().compile(query, dataset, now=now)
        if query not in self._compiled:
            compiled = super().compile(query, dataset, now=now)
            if now in compiled.sql("duckdb") or len(self._compiled) >= _MAX_COMPILED:
                return compiled
            self._compiled[query] = compiled
        return self._compiled[query]

    def fetch(self, query: CompiledQuery) -> list[tuple[str | None, ...]]:
        import duckdb

        try:
            result = self.connection.execute(query.sql("duckdb"))
            if self._limits is None:
                return result.fetchall()
            rows = result.fetchmany(self._limits.rows + 1)
        except (duckdb.InterruptException, duckdb.OutOfMemoryException):
            raise
        except duckdb.Error as error:
            raise EngineError(f"DuckDB could not run the query: {error}") from error
        self._limits.check_rows(len(rows))
        return rows


def _of_any_number(function: Callable[..., Any]) -> Callable[..., Any]:
    """DuckDB reads the number of arguments from the signature."""
    return lambda *arguments: function(*arguments)  # noqa: PLW0108


def load_tables(connection: duckdb.DuckDBPyConnection, dataset: Dataset) -> TableDataset:
    """The tables of a dataset in memory."""
    names = ("quads", "graphs", "intervals")
    tables = table_columns(dataset)
    for name, types, columns in zip(names, TABLES, tables, strict=True):
        items = ", ".join(f"unnest(CAST(? AS {kind}[])) AS {column}" for column, kind in types.items())
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT {items}", list(columns.values()))
    return TableDataset(*names, object_kinds=object_kinds(tables[0]))


def answer_with_duckdb(query: Query, dataset: Dataset) -> Answer:
    """The answer of a query over a dataset in memory."""
    with connect() as connection:
        engine = DuckDbEngine(connection)
        return engine.answer(query, load_tables(connection, dataset), now=dataset.now)


class DuckDbHost:
    """The tables of a DuckDB connection."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._views: dict[tuple[str, ...], str] = {}
        self._tables = count()

    def register(self, table: pa.Table) -> str:
        name = f"motet_table_{next(self._tables)}"
        self._connection.register(name, table)
        return name

    def view(self, paths: Sequence[str]) -> str:
        key = tuple(paths)
        if key not in self._views:
            name = f"motet_files_{len(self._views)}"
            files = ", ".join("'" + escape(path).replace("'", "''") + "'" for path in paths)
            sql = f"CREATE TEMP VIEW {name} AS SELECT * FROM read_parquet([{files}])"  # noqa: S608  (they are quoted)
            self._connection.execute(sql)
            self._views[key] = name
        return self._views[key]


class LakeConnection:
    """A history on a DuckDB connection."""

    def __init__(self, history: History, connection: duckdb.DuckDBPyConnection, memory: int) -> None:
        self.memory = memory
        self.connection = connection
        self.tables = LakeTables(history, DuckDbHost(connection))
        self._compiled: dict[Query, CompiledQuery] = {}

    def answer(self, query: algebra.Query, limits: QueryLimits, *, now: str) -> Answer:
        """The answer of a query, whose FROM chooses from the history."""
        return DuckDbEngine(self.connection, limits, self._compiled).answer(query, self.tables, now=now)

    def sql(self, query: algebra.Query, *, now: str) -> str:
        """The SQL of a query."""
        engine = DuckDbEngine(self.connection)
        return engine.compile(query, self.tables, now=now).sql("duckdb", pretty=True)


@contextmanager
def lake_connection(
    history: History,
    limits: QueryLimits,
    on_progress: Callable[[float], None] | None = None,
    *,
    is_reusable: bool = False,
) -> Iterator[LakeConnection]:
    """An engine for a block, which has a limit of time. A reusable one is kept for the thread's next query of the same
    history: its block must not register tables, as FROM does.
    """
    import duckdb

    found = _take_idle(history, limits.memory) if is_reusable else None
    try:
        connection = found.connection if found else connect(limits.memory)
        with time_limit(limits.seconds, connection.interrupt), _reported(connection, on_progress):
            lake = found or LakeConnection(history, connection, limits.memory)  # reads the log: it counts, too
            lake.tables.report.scans.clear()
            yield lake
        if is_reusable:
            _idle.connection = lake
    except duckdb.OutOfMemoryException as error:
        raise LimitError(
            f"the query needs more than {limits.memory >> 20} MB of memory",
            advice="make the query more selective, or give more memory (--memory, in Python memory=)",
        ) from error
    except duckdb.Error as error:
        raise EngineError(
            f"DuckDB could not answer the query: {error}", advice="Report it; --engine memory may answer it."
        ) from error


def _take_idle(history: History, memory: int) -> LakeConnection | None:
    """The idle connection of this thread, if it has this history."""
    idle: LakeConnection | None = getattr(_idle, "connection", None)
    _idle.connection = None
    is_same = idle is not None and idle.memory == memory and idle.tables.is_of(history)
    return idle if is_same else None


@contextmanager
def _reported(connection: duckdb.DuckDBPyConnection, on_progress: Callable[[float], None] | None) -> Iterator[None]:
    """Passes on how far DuckDB has got, in percent, while the block runs."""
    if on_progress is None:
        yield
        return
    is_over = threading.Event()

    def report() -> None:
        while not is_over.wait(REPORT_SECONDS):
            on_progress(max(connection.query_progress(), 0))  # -1: not known yet

    connection.execute("SET enable_progress_bar = true")
    connection.execute("SET enable_progress_bar_print = false")
    thread = threading.Thread(target=report, name="motet-query-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
