"""Answers queries with DuckDB: compiles them, registers the functions they call, reads the solutions."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from motet.model.errors import EngineError
from motet.query.limits import QueryLimits
from motet.query.quad_tables import TABLES, TableDataset, table_columns
from motet.query.sql_engine import SqlEngine
from motet.sparql.algebra import Query
from motet.sparql.dataset import Dataset
from motet.sparql.query import Answer
from motet.sparql.sql.compile import CompiledQuery
from motet.sparql.sql.evaluation import FUNCTIONS
from motet.sparql.sql.paths import recursive_closure

if TYPE_CHECKING:
    import duckdb

DEFAULT_MEMORY = 2 << 30  # bytes
_SIGNATURES: dict[str, tuple[list[str] | None, str]] = {  # parameters, None for any number; result
    "sparql_term": (None, "VARCHAR"),
    "sparql_truth": (None, "BOOLEAN"),
    "sparql_aggregate": (["VARCHAR", "VARCHAR[]"], "VARCHAR"),
    "sparql_order": (["VARCHAR"], "VARCHAR"),
    "sparql_extreme": (["VARCHAR", "VARCHAR[]"], "VARCHAR"),
    "sparql_total": (["VARCHAR", "BIGINT", "BIGINT", "VARCHAR[]", "VARCHAR[]"], "VARCHAR"),
}


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
    closure = staticmethod(recursive_closure)

    def __init__(self, connection: duckdb.DuckDBPyConnection, limits: QueryLimits | None = None) -> None:
        """With limits, more solutions than they allow are refused before they are read."""
        super().__init__()
        self.connection = connection
        self._limits = limits

    def fetch(self, query: CompiledQuery) -> list[tuple[str | None, ...]]:
        import duckdb

        try:
            result = self.connection.execute(query.sql("duckdb"))
            if self._limits is None:
                return result.fetchall()
            rows = result.fetchmany(self._limits.rows + 1)
        except duckdb.InterruptException:
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
    for name, types, columns in zip(names, TABLES, table_columns(dataset), strict=True):
        items = ", ".join(f"unnest(CAST(? AS {kind}[])) AS {column}" for column, kind in types.items())
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT {items}", list(columns.values()))
    return TableDataset(*names)


def answer_with_duckdb(query: Query, dataset: Dataset) -> Answer:
    """The answer of a query over a dataset in memory."""
    with connect() as connection:
        engine = DuckDbEngine(connection)
        return engine.answer(query, load_tables(connection, dataset), now=dataset.now)
