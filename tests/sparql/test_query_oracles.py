"""Random queries over random data: our answers are those of pyoxigraph and of rdflib, but for their known defects."""

from __future__ import annotations

import os
from collections import Counter
from random import Random

import pyoxigraph
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from motet.fuzz.queries import (
    Bag,
    QueryGraphs,
    RandomQuery,
    defect_of_pyoxigraph,
    defect_of_rdflib,
    random_graphs,
    solutions_of_pyoxigraph,
    solutions_of_rdflib,
)
from motet.sparql.dataset import Dataset
from motet.sparql.evaluate import SolutionSequence, answer
from motet.sparql.parse import read_query

EXAMPLES = int(os.environ.get("MOTET_QUERIES", "200"))


def ours(query: str, graphs: QueryGraphs) -> Bag:
    named = {name: triples for name, triples in graphs.items() if name is not None}
    found = answer(read_query(query), Dataset(graphs[None], named))
    assert isinstance(found, SolutionSequence)
    return Counter(tuple(sorted(row.items())) for row in found.rows)


@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_answers_are_those_of_pyoxigraph(seed: int) -> None:
    """Computed values included."""
    random = Random(seed)
    graphs, query = random_graphs(random), RandomQuery(random, computes=True).text()
    assume(defect_of_pyoxigraph(query, True) is None)
    assert ours(query, graphs) == solutions_of_pyoxigraph(query, graphs), query


@settings(max_examples=EXAMPLES // 4, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_answers_are_those_of_rdflib(seed: int) -> None:
    """Without computed values, which it writes in other ways, and solutions that bind nothing, which it drops."""
    random = Random(seed)
    graphs, query = random_graphs(random), RandomQuery(random, computes=False).text()
    assume(defect_of_rdflib(query, False) is None)
    actual = ours(query, graphs)
    del actual[()]
    assert actual == solutions_of_rdflib(query, graphs), query


def typed(name: str, *texts: str) -> list[str]:
    return [f'"{text}"^^<http://www.w3.org/2001/XMLSchema#{name}>' for text in texts]


NUMBERS = [
    *typed("integer", "-1", "0", "1", "2", "10"),
    *typed("decimal", "0.5", "1", "-1.25"),
    *typed("double", "0.5", "-INF", "INF", "100000"),
]
ORDERED = (  # each is a set of literals that SPARQL orders
    NUMBERS,
    ['""', '"a"', '"B"', '"b"', '"é"', '"aa"'],
    typed("dateTime", "2026-01-01T00:00:00Z", "2025-12-31T23:30:00-01:00", "1999-01-01T00:00:00Z"),
    typed("boolean", "true", "false"),
)


@settings(max_examples=EXAMPLES // 2, deadline=None)
@given(data=st.data(), descending=st.booleans(), offset=st.integers(0, 3), limit=st.integers(0, 6))
def test_the_order_is_that_of_pyoxigraph(data: st.DataObject, descending: bool, offset: int, limit: int) -> None:
    """Unbound, IRIs, then literals that SPARQL orders; equal ones as they were."""
    terms = [*data.draw(st.sampled_from(ORDERED)), "<urn:a>", "<urn:B>", "UNDEF"]
    rows = " ".join(f"({term} {n})" for n, term in enumerate(data.draw(st.lists(st.sampled_from(terms), max_size=8))))
    order = "DESC(?x)" if descending else "?x"
    query = f"SELECT ?x {{ VALUES (?x ?n) {{ {rows} }} }} ORDER BY {order} ?n OFFSET {offset} LIMIT {limit}"
    found = answer(read_query(query), Dataset([]))
    expected = pyoxigraph.Store().query(query)
    assert isinstance(found, SolutionSequence)
    assert isinstance(expected, pyoxigraph.QuerySolutions)
    assert [row.get("x", "None") for row in found.rows] == [str(row["x"]) for row in expected], query
