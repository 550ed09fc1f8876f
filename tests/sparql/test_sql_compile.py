"""Tests of `motet.sparql.sql`: joins of solutions that leave variables unbound, and the size of the SQL."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import pytest

from motet.query.duckdb_engine import answer_with_duckdb
from motet.query.quad_tables import TableDataset
from motet.sparql.dataset import Dataset
from motet.sparql.evaluate import SolutionSequence, answer
from motet.sparql.parse import read_query
from motet.sparql.sql.compile import compile_query
from motet.sparql.sql.paths import recursive_closure

EMPTY = Dataset([])
TERMS = ("<urn:a>", "<urn:b>", "UNDEF")


def values(variables: str, rows: list[tuple[str, ...]]) -> str:
    written = " ".join(f"({' '.join(row)})" for row in rows)
    return f"VALUES ({' '.join(f'?{name}' for name in variables)}) {{ {written} }}"


def solutions(answer_query: Any, text: str) -> Counter[Any]:
    found = answer_query(read_query(text), EMPTY)
    assert isinstance(found, SolutionSequence)
    return Counter(tuple(sorted(row.items())) for row in found.rows)


@pytest.mark.parametrize("shared", ["x", "xy", "xyz"])
@pytest.mark.parametrize("unbound", ["", "left", "right", "both"])
@pytest.mark.parametrize(
    "pattern",
    [
        "{{ {left} }} {{ {right} }}",
        "{{ {left} }} OPTIONAL {{ {right} }}",
        "{{ {left} }} OPTIONAL {{ {right} FILTER(?l != ?r) }}",
        "{{ {left} }} OPTIONAL {{ {right} FILTER(?r != 2) }}",
        "{{ {left} }} OPTIONAL {{ {right} FILTER(BOUND(?x) && ?l != ?r) }}",
        "{{ {left} }} OPTIONAL {{ {right} FILTER EXISTS {{ VALUES (?x ?l) {{ (<urn:a> 1) }} }} }}",
    ],
)
def test_joins_of_solutions_with_unbound_variables(pattern: str, unbound: str, shared: str) -> None:
    """However many variables two sides share, and whichever side leaves them unbound."""

    def side(name: str) -> str:
        terms = TERMS if unbound in (name, "both") else TERMS[:2]
        rows = list(product(*[terms[:2] if len(shared) == 3 and i == 2 else terms for i in range(len(shared))]))
        rows += rows[:1]  # a repeated solution
        return values(shared + name[0], [(*row, str(number % 3)) for number, row in enumerate(rows)])

    text = f"SELECT * {{ {pattern.format(left=side('left'), right=side('right'))} }}"
    assert solutions(answer_with_duckdb, text) == solutions(answer, text)


LONG_QUERIES = {
    "triples": lambda n: " . ".join(f"?s <urn:p{i}> ?o{i}" for i in range(n)),
    "OPTIONAL": lambda n: "?s <urn:p> ?o " + " ".join(f"OPTIONAL {{ ?s <urn:p{i}> ?o{i} }}" for i in range(n)),
    "OPTIONAL alone": lambda n: " ".join(f"OPTIONAL {{ ?s <urn:p{i}> ?o{i} }}" for i in range(n)),
    "OPTIONAL and FILTER": lambda n: (
        "?s <urn:p> ?o " + " ".join(f"OPTIONAL {{ ?s <urn:p{i}> ?o{i} FILTER(?o{i} > ?o) }}" for i in range(n))
    ),
    "groups": lambda n: " ".join(f"{{ OPTIONAL {{ ?s <urn:p{i}> ?o{i} }} }}" for i in range(n)),
    "MINUS": lambda n: "?s <urn:p> ?o " + " ".join(f"MINUS {{ ?s <urn:p{i}> ?o{i} }}" for i in range(n)),
    "EXISTS": lambda n: "?s <urn:p> ?o " + " ".join(f"FILTER EXISTS {{ ?s <urn:p{i}> ?o{i} }}" for i in range(n)),
    "BIND": lambda n: "?s <urn:p> ?v0 " + " ".join(f"BIND(STR(?v{i}) AS ?v{i + 1})" for i in range(n)),
    "UNION": lambda n: " UNION ".join(f"{{ ?s <urn:p{i}> ?o }}" for i in range(n)),
    "GRAPH": lambda n: " ".join(f"GRAPH ?g{i} {{ ?s <urn:p{i}> ?o{i} }}" for i in range(n)),
    "sequence": lambda n: "?s " + "/".join(f"<urn:p{i}>" for i in range(n)) + " ?o",
    "paths": lambda n: " . ".join(f"?s{i} <urn:p{i}>+ ?s{i + 1}" for i in range(n)),
}


@pytest.mark.parametrize("kind", LONG_QUERIES)
def test_the_size_of_the_sql_is_linear(kind: str) -> None:
    """Twice as many patterns make about twice as much SQL."""
    dataset = TableDataset("quads", "graphs", "intervals")

    def size(number: int) -> int:
        query = read_query(f"SELECT * {{ {LONG_QUERIES[kind](number)} }}")
        return len(compile_query(query, dataset, recursive_closure, now="").sql("duckdb"))

    assert size(80) < 2.3 * size(40)
