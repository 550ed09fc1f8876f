"""Other SPARQL engines, pyoxigraph and rdflib, and which queries of the fuzzer they are known to answer wrongly."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from motet.fuzz.random_queries import LITERALS, NODES
from motet.model.terms import literal
from motet.sparql.graph import Triple

QueryGraphs = dict[str | None, list[Triple]]  # None is the default graph
Bag = Counter[tuple[tuple[str, str], ...]]  # solutions, each with how often it occurs


class QueryOracle(NamedTuple):
    """``excepts`` names the defect because of which a query is not compared, if there is one."""

    solutions: Callable[[str, QueryGraphs], Bag]
    excepts: Callable[[str, bool], str | None]


def nquads(graphs: QueryGraphs) -> str:
    return "".join(f"{s} {p} {o} {name or ''} .\n" for name, triples in graphs.items() for s, p, o in triples)


def solutions_of_pyoxigraph(query: str, graphs: QueryGraphs) -> Bag:
    import pyoxigraph

    store = pyoxigraph.Store()
    store.load(nquads(graphs).encode(), pyoxigraph.RdfFormat.N_QUADS)
    found = store.query(query)
    assert isinstance(found, pyoxigraph.QuerySolutions)
    names = [variable.value for variable in found.variables]
    return Counter(tuple(sorted((name, str(row[name])) for name in names if row[name] is not None)) for row in found)


def solutions_of_rdflib(query: str, graphs: QueryGraphs) -> Bag:
    """Without the solutions that bind nothing, which it drops."""
    import warnings

    import rdflib

    normalises, rdflib.NORMALIZE_LITERALS = rdflib.NORMALIZE_LITERALS, False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # it uses what it has deprecated
            dataset = rdflib.Dataset(default_union=False)
            dataset.parse(data=nquads(graphs), format="nquads")
            found = dataset.query(query)
            names = [str(variable) for variable in found.vars or []]
            bag = Counter(tuple(sorted(_bindings(names, row))) for row in found)
    finally:
        rdflib.NORMALIZE_LITERALS = normalises
    del bag[()]
    return bag


def _bindings(names: list[str], row: Any) -> Iterator[tuple[str, str]]:
    for name, term in zip(names, row, strict=True):
        if term is not None:
            yield name, _rdflib_term(term)


def _rdflib_term(term: Any) -> str:
    import rdflib

    if isinstance(term, rdflib.Literal):
        return literal(str(term), datatype=str(term.datatype) if term.datatype else None, language=term.language)
    return f"<{term}>"


def defect_of_pyoxigraph(query: str, computes: bool) -> str | None:
    if any(end in NODES + LITERALS for left, _, right in _zero_length_paths(query) for end in (left, right)):
        return "a path of length zero at a constant that is not in the data"
    if re.search(r"\|<?(?:urn|\()", re.sub(r"!\([^)]*\)", "", query)):
        return "two alternatives between the same nodes are counted once"
    return None


def defect_of_rdflib(query: str, computes: bool) -> str | None:
    if computes:
        return "computed values are written in other ways"
    if any(_zero_length_paths(query)):
        return "duplicates from ? and from *, also when a cycle leads back to the start"
    if "{ SELECT" in query:
        return "bindings of the outer group inside a subquery, of variables that it does not project"
    return "EXISTS with the bindings of other groups" if "EXISTS" in query else None


def _zero_length_paths(query: str) -> Iterator[tuple[str, str, str]]:
    """The paths of a query that may have length zero, between their ends."""
    words = query.split(" ")
    yield from (
        (words[index - 1], word, words[index + 1]) for index, word in enumerate(words) if re.search(r"\)[*?]", word)
    )


QUERY_ORACLES = {
    "pyoxigraph": QueryOracle(solutions_of_pyoxigraph, defect_of_pyoxigraph),
    "rdflib": QueryOracle(solutions_of_rdflib, defect_of_rdflib),
}
