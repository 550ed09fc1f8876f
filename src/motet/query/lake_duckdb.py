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

_idle = threading.local()  # ``connection``: that of the newest query of this thread, for the next one


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

    def __init__(self, history: History, memory: int) -> None:
        self.memory = memory
        self.connection = connect(memory)
        self.tables = LakeTables(history, DuckDbHost(self.connection))

    def answer(self, query: algebra.Query, limits: QueryLimits, *, now: str) -> Answer:
        """The answer of a query, whose FROM chooses from the history."""
        return DuckDbEngine(self.connection, limits).answer(query, self.tables, now=now)

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
        lake = found or LakeConnection(history, limits.memory)
        lake.tables.report.scans.clear()
        with time_limit(limits.seconds, lake.connection.interrupt), _reported(lake.connection, on_progress):
            yield lake
        if is_reusable:
            _idle.connection = lake
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
