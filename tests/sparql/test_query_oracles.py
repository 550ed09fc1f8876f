"""Random queries over random data: our answers are those of pyoxigraph and of rdflib, but for their known defects."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from random import Random

import pyoxigraph
import pytest
import rdflib
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.sparql.random_queries import LITERALS, NODES, RandomQuery, random_graphs

from motet.model.terms import literal
from motet.sparql.dataset import Dataset
from motet.sparql.graph import Triple
from motet.sparql.parse import read_query
from motet.sparql.query import SolutionSequence, answer

EXAMPLES = int(os.environ.get("MOTET_QUERIES", "200"))
Graphs = dict[str | None, list[Triple]]
Bag = Counter[tuple[tuple[str, str], ...]]


def ours(query: str, graphs: Graphs) -> Bag:
    named = {name: triples for name, triples in graphs.items() if name is not None}
    found = answer(read_query(query), Dataset(graphs[None], named))
    assert isinstance(found, SolutionSequence)
    return Counter(tuple(sorted(row.items())) for row in found.rows)


def nquads(graphs: Graphs) -> str:
    return "".join(f"{s} {p} {o} {name or ''} .\n" for name, triples in graphs.items() for s, p, o in triples)


def pyoxigraphs(query: str, graphs: Graphs) -> Bag:
    store = pyoxigraph.Store()
    store.load(nquads(graphs).encode(), pyoxigraph.RdfFormat.N_QUADS)
    found = store.query(query)
    assert isinstance(found, pyoxigraph.QuerySolutions)
    names = [variable.value for variable in found.variables]
    return Counter(tuple(sorted((name, str(row[name])) for name in names if row[name] is not None)) for row in found)


def rdflibs(query: str, graphs: Graphs) -> Bag:
    dataset = rdflib.Dataset(default_union=False)
    dataset.parse(data=nquads(graphs), format="nquads")
    found = dataset.query(query)
    names = [str(variable) for variable in found.vars or []]
    return Counter(
        tuple(sorted((name, _term(term)) for name, term in zip(names, row, strict=True) if term is not None))
        for row in found
    )


def _term(term: rdflib.term.Node) -> str:
    if isinstance(term, rdflib.Literal):
        return literal(str(term), datatype=str(term.datatype) if term.datatype else None, language=term.language)
    return f"<{term}>"


def paths(query: str) -> Iterator[tuple[str, str, str]]:
    """The paths of a query that may have length zero, between their ends."""
    words = query.split(" ")
    yield from (
        (words[index - 1], word, words[index + 1]) for index, word in enumerate(words) if re.search(r"\)[*?]", word)
    )


def is_defect_of_pyoxigraph(query: str) -> bool:
    """A path of length zero at a constant that is not in the data; two alternatives between the same nodes, which it
    counts once.
    """
    at_constant = any(end in NODES + LITERALS for left, _, right in paths(query) for end in (left, right))
    return at_constant or re.search(r"\|<?(?:urn|\()", re.sub(r"!\([^)]*\)", "", query)) is not None


def is_defect_of_rdflib(query: str) -> bool:
    """Duplicates from ``?`` and from ``*`` of or inside another path; EXISTS with the bindings of other groups."""
    return any(not re.fullmatch(r"\(<urn:p\d>\)\*", path) for _, path, _ in paths(query)) or "EXISTS" in query


@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_answers_are_those_of_pyoxigraph(seed: int) -> None:
    """Computed values included."""
    random = Random(seed)
    graphs, query = random_graphs(random), RandomQuery(random, computes=True).text()
    assume(not is_defect_of_pyoxigraph(query))
    assert ours(query, graphs) == pyoxigraphs(query, graphs), query


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # rdflib uses what it has deprecated
@settings(max_examples=EXAMPLES // 4, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_answers_are_those_of_rdflib(seed: int) -> None:
    """Without computed values, which it writes in other ways, and solutions that bind nothing, which it drops."""
    random = Random(seed)
    graphs, query = random_graphs(random), RandomQuery(random, computes=False).text()
    assume(not is_defect_of_rdflib(query))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rdflib, "NORMALIZE_LITERALS", False)
        expected = rdflibs(query, graphs)
    actual = ours(query, graphs)
    del actual[()], expected[()]
    assert actual == expected, query


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
