"""Answers queries over a lake with DuckDB: zone files and tables in memory on one connection."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from glob import escape
from itertools import count
from typing import TYPE_CHECKING

from motet.model.errors import EngineError, LimitError
from motet.query.duckdb_engine import DuckDbEngine, connect
from motet.query.history import History
from motet.query.lake_tables import LakeTables
from motet.query.limits import QueryLimits, time_limit
from motet.sparql import algebra
from motet.sparql.query import Answer

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

REPORT_SECONDS = 0.5  # between two reports of progress


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

    def __init__(self, history: History, connection: duckdb.DuckDBPyConnection, limits: QueryLimits) -> None:
        self.connection = connection
        self._limits = limits
        self.tables = LakeTables(history, DuckDbHost(connection))

    def answer(self, query: algebra.Query, *, now: str) -> Answer:
        """The answer of a query, whose FROM chooses from the history."""
        return DuckDbEngine(self.connection, self._limits).answer(query, self.tables, now=now)

    def sql(self, query: algebra.Query, *, now: str) -> str:
        """The SQL of a query."""
        engine = DuckDbEngine(self.connection)
        return engine.compile(query, self.tables, now=now).sql("duckdb", pretty=True)


@contextmanager
def lake_connection(
    history: History, limits: QueryLimits, on_progress: Callable[[float], None] | None = None
) -> Iterator[LakeConnection]:
    """An engine whose connection is closed after the block; the block has a limit of time."""
    import duckdb

    try:
        with (
            connect(limits.memory) as connection,
            time_limit(limits.seconds, connection.interrupt),
            _reported(connection, on_progress),
        ):
            yield LakeConnection(history, connection, limits)
    except duckdb.OutOfMemoryException as error:
        raise LimitError(
            f"the query needs more than {limits.memory >> 20} MB of memory",
            advice="make the query more selective, or give more memory (--memory, in Python memory=)",
        ) from error
    except EngineError as error:
        if "KeyboardInterrupt" in error.message:  # inside a function that DuckDB calls
            raise KeyboardInterrupt from None
        raise
    except duckdb.Error as error:
        raise EngineError(
            f"DuckDB could not answer the query: {error}", advice="Report it; --engine memory may answer it."
        ) from error


@contextmanager
def _reported(connection: duckdb.DuckDBPyConnection, on_progress: Callable[[float], None] | None) -> Iterator[None]:
    """Passes on how far DuckDB has got, in percent, while the block runs."""
    if on_progress is None:
        yield
        return
    is_over = threading.Event()

    def report() -> None:
        while not is_over.wait(REPORT_SECONDS):
            percentage = connection.query_progress()
            if percentage >= 0:
                on_progress(percentage)

    connection.execute("SET enable_progress_bar = true")
    connection.execute("SET enable_progress_bar_print = false")
    thread = threading.Thread(target=report, name="motet-query-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
