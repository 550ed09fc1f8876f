"""Answers of queries for Python programs and notebooks: rows of values, and graphs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from html import escape
from typing import TYPE_CHECKING, Any, overload

from motet.model.errors import MissingExtraError
from motet.model.terms import to_oxigraph
from motet.model.values import python_value
from motet.query.results import plain_text, write_answer
from motet.sparql.basic_patterns import Row
from motet.sparql.dataset import Graph, Triple
from motet.sparql.evaluate import Answer, SolutionSequence

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    import pyspark.sql

MAX_PRINTED = 50  # rows in a notebook and in `str`


def _value(term: str) -> Any:
    """The Python value of a term; of a blank node its label."""
    return term if term.startswith("_:") else python_value(term)


class QueryRow(Mapping[str, Any]):
    """One solution: the values of its bound variables; ``terms`` has them as RDF terms.

    >>> row = QueryRow({"room": "<urn:r:1>"})
    >>> row["room"], row.terms["room"]
    (IRI('urn:r:1'), '<urn:r:1>')
    """

    __slots__ = ("terms",)

    def __init__(self, terms: Row) -> None:
        self.terms: Mapping[str, str] = terms

    def __getitem__(self, name: str) -> Any:
        return _value(self.terms[name.removeprefix("?")])

    def __iter__(self) -> Iterator[str]:
        return iter(self.terms)

    def __len__(self) -> int:
        return len(self.terms)

    def __repr__(self) -> str:
        return repr(dict(self))


class QueryRows(Sequence[QueryRow]):
    """The answer of a SELECT query, in the order of the query.

    >>> rows = QueryRows(SolutionSequence(("n",), [{"n": '"5"^^<http://www.w3.org/2001/XMLSchema#integer>'}]))
    >>> rows[0]["n"], rows.to_arrow().to_pydict()
    (5, {'n': [5]})
    """

    def __init__(self, solutions: SolutionSequence, warnings: Sequence[str] = ()) -> None:
        self.solutions = solutions
        #: What the query names that is not in its dataset, and other advice; it is logged, too.
        self.warnings = tuple(warnings)

    @property
    def variables(self) -> tuple[str, ...]:
        return self.solutions.variables

    def __len__(self) -> int:
        return len(self.solutions.rows)

    @overload
    def __getitem__(self, index: int) -> QueryRow: ...

    @overload
    def __getitem__(self, index: slice) -> list[QueryRow]: ...

    def __getitem__(self, index: int | slice) -> QueryRow | list[QueryRow]:
        rows = self.solutions.rows[index]
        return [QueryRow(row) for row in rows] if isinstance(rows, list) else QueryRow(rows)

    def to_arrow(self, *, terms: bool = False) -> pa.Table:
        """A column for each variable: of numbers, truth values or times if all its values are, otherwise of text.

        With ``terms`` the columns have RDF terms in N-Triples, which lose nothing.
        """
        import pyarrow as pa

        columns = [[row.get(name) for row in self.solutions.rows] for name in self.variables]
        arrays = [pa.array(column, pa.string()) if terms else _column(column) for column in columns]
        return pa.table(arrays, names=list(self.variables))

    def to_pandas(self, *, terms: bool = False) -> pd.DataFrame:
        _require("pandas")
        return self.to_arrow(terms=terms).to_pandas()

    def to_polars(self, *, terms: bool = False) -> Any:
        """A Polars DataFrame, if Polars is installed."""
        polars = _require("polars")
        return polars.from_arrow(self.to_arrow(terms=terms))

    def to_spark(self, spark: pyspark.sql.SparkSession, *, terms: bool = False) -> pyspark.sql.DataFrame:
        """A Spark DataFrame of the rows, made in a session."""
        return spark.createDataFrame(self.to_arrow(terms=terms))

    def to_text(self, syntax: str = "json") -> str:
        """The answer in a W3C format: ``json``, ``xml``, ``csv`` or ``tsv``."""
        return write_answer(self.solutions, syntax)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>?{escape(name)}</th>" for name in self.variables)
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>" for cells in self._printed())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{self._count()}</p>"

    def __repr__(self) -> str:
        lines = [
            "\t".join(f"?{name}" for name in self.variables),
            *("\t".join(cells) for cells in self._printed()),
        ]
        return "\n".join([*lines, self._count()])

    def _printed(self) -> list[list[str]]:
        rows = self.solutions.rows[:MAX_PRINTED]
        return [[plain_text(row[name]) if name in row else "" for name in self.variables] for row in rows]

    def _count(self) -> str:
        limit = f", the first {MAX_PRINTED} shown" if len(self) > MAX_PRINTED else ""
        return f"{len(self)} row{'' if len(self) == 1 else 's'}{limit}"


class QueryGraph(Sequence[Triple]):
    """The answer of a CONSTRUCT or DESCRIBE query: triples of RDF terms in N-Triples."""

    def __init__(self, graph: Graph, warnings: Sequence[str] = ()) -> None:
        self.graph = graph
        #: What the query names that is not in its dataset, and other advice; it is logged, too.
        self.warnings = tuple(warnings)
        self._triples = list(graph)

    def __len__(self) -> int:
        return len(self._triples)

    @overload
    def __getitem__(self, index: int) -> Triple: ...

    @overload
    def __getitem__(self, index: slice) -> list[Triple]: ...

    def __getitem__(self, index: int | slice) -> Triple | list[Triple]:
        return self._triples[index]

    def to_text(self, syntax: str = "ttl") -> str:
        """The graph as Turtle (``ttl``) or N-Triples (``nt``)."""
        return write_answer(self.graph, syntax)

    def to_oxigraph(self) -> list[Any]:
        """The triples as those of pyoxigraph."""
        import pyoxigraph

        def node(term: str) -> Any:
            return pyoxigraph.BlankNode(term[2:]) if term.startswith("_:") else to_oxigraph(term)

        return [pyoxigraph.Triple(*map(node, triple)) for triple in self._triples]

    def to_rdflib(self) -> Any:
        """An rdflib Graph."""
        rdflib = _require("rdflib")
        return rdflib.Graph().parse(data=self.to_text("nt"), format="nt")

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.to_text())}</pre>"

    def __repr__(self) -> str:
        return self.to_text()


QueryResult = QueryRows | QueryGraph | bool


def to_result(found: Answer, warnings: Sequence[str] = ()) -> QueryResult:
    """An answer as a program gets it."""
    if isinstance(found, bool):
        return found
    return QueryRows(found, warnings) if isinstance(found, SolutionSequence) else QueryGraph(found, warnings)


def _column(terms: Sequence[str | None]) -> pa.Array:
    import pyarrow as pa

    values = [None if term is None else _value(term) for term in terms]
    kinds = {type(value) for value in values if value is not None}
    try:
        if kinds in ({bool}, {int}, {float}, {Decimal}):
            return pa.array(values)
        if kinds == {int, Decimal}:
            return pa.array([None if value is None else Decimal(value) for value in values])
        if kinds and kinds <= {int, float, Decimal}:
            return pa.array([None if value is None else float(value) for value in values], pa.float64())
        if kinds == {datetime} and len({value.tzinfo is None for value in values if value is not None}) == 1:
            return pa.array([_in_utc(value) for value in values])
    except (pa.ArrowInvalid, OverflowError):
        pass  # outside the range of a column: text keeps it
    return pa.array([None if term is None else plain_text(term) for term in terms], pa.string())


def _in_utc(value: datetime | None) -> datetime | None:
    return value if value is None or value.tzinfo is None else value.astimezone(UTC)


def _require(library: str) -> Any:
    from importlib import import_module

    try:
        return import_module(library)
    except ImportError:
        raise MissingExtraError(
            f"{library} is not installed", extra=library, advice=f"Install it: pip install {library}"
        ) from None
