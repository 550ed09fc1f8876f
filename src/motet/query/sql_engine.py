"""What every SQL engine does with a query: compile it, fetch its rows, make the answer of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import count
from typing import ClassVar

from sqlglot import exp

from motet.sparql import algebra
from motet.sparql.basic_patterns import Row
from motet.sparql.dataset import Triple
from motet.sparql.evaluate import Answer, answer_from_rows
from motet.sparql.sql.compile import CompiledQuery, compile_query
from motet.sparql.sql.dialects import DialectName
from motet.sparql.sql.relation import RelationCompiler
from motet.sparql.sql.scan import SqlDataset

_MAX_DESCRIBED = 1_000  # subjects in one query


class SqlEngine(ABC):
    """Answers SPARQL queries by SQL."""

    dialect: ClassVar[DialectName]
    joins_call_python: ClassVar[bool]  # whether outer joins may call Python in their conditions

    def __init__(self) -> None:
        self._blank_nodes = count()

    @abstractmethod
    def fetch(self, query: CompiledQuery) -> list[tuple[str | None, ...]]:
        """The rows of a compiled query, in order."""

    @abstractmethod
    def closure(
        self, relations: RelationCompiler, edges: exp.Query, seeds: exp.Query | None, graph_key: str | None
    ) -> exp.Query:
        """As `motet.sparql.sql.paths.Closure`."""

    def compile(self, query: algebra.Query, dataset: SqlDataset, *, now: str) -> CompiledQuery:
        return compile_query(query, dataset, self.closure, now=now, joins_call_python=self.joins_call_python)

    def rows(self, query: CompiledQuery) -> list[Row]:
        """The solutions; a variable that is not in a row is unbound."""
        names = query.variables
        return [
            {name: term for name, term in zip(names, row, strict=False) if term is not None}
            for row in self.fetch(query)
        ]

    def answer(self, query: algebra.Query, dataset: SqlDataset, *, now: str) -> Answer:
        """The answer of a query; ``now`` is the xsd:dateTime of NOW()."""
        rows = self.rows(self.compile(query, dataset, now=now))
        chosen = dataset.selected(query.dataset)
        return answer_from_rows(
            query, rows, lambda: f"_:q{next(self._blank_nodes)}", lambda nodes: self._triples_of(nodes, chosen, now)
        )

    def _triples_of(self, nodes: list[str], dataset: SqlDataset, now: str) -> list[Triple]:
        """The triples of the default graph with some subjects."""
        found = []
        triple = algebra.Bgp((algebra.Triple("?s", "?p", "?o"),))
        for start in range(0, len(nodes), _MAX_DESCRIBED):
            values = algebra.Values(("s",), tuple((node,) for node in nodes[start : start + _MAX_DESCRIBED]))
            query = algebra.SelectQuery(algebra.Join(values, triple), ("s", "p", "o"))
            rows = self.rows(self.compile(query, dataset, now=now))
            found += [(row["s"], row["p"], row["o"]) for row in rows]
        return found
