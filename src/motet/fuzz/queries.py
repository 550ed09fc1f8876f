"""Compares engines and oracles on random SPARQL queries over random data, with the evaluator in the middle.

Everything is small, so that things meet: a few names, a few values. Literals are written canonically, because
pyoxigraph's store changes them otherwise, and there are no blank nodes in the data. The oracles are other SPARQL
engines, pyoxigraph and rdflib; queries that they are known to answer wrongly are left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from motet.model.errors import MotetError
from motet.model.terms import literal
from motet.sparql.algebra import Query
from motet.sparql.dataset import Dataset, Triple
from motet.sparql.evaluate import Answer, SolutionSequence, answer
from motet.sparql.parse import read_query

# Random data and queries


NODES = [f"<urn:n{index}>" for index in range(5)]
LINKS = [f"<urn:p{index}>" for index in range(3)]
XSD = "http://www.w3.org/2001/XMLSchema#"
LITERALS = [
    f'"1"^^<{XSD}integer>',
    f'"2"^^<{XSD}integer>',
    f'"1.5"^^<{XSD}decimal>',
    '"a"',
    '"b"@en',
    f'"true"^^<{XSD}boolean>',
    f'"2026-01-02T03:04:05Z"^^<{XSD}dateTime>',
]
GRAPHS = ["<urn:g0>", "<urn:g1>"]
VARIABLES = ["?a", "?b", "?c", "?d"]


def random_graphs(random: Random) -> dict[str | None, list[Triple]]:
    """A default graph, under None, and two named ones."""
    return {
        name: list(dict.fromkeys(random_triple(random) for _ in range(random.randint(0, 8))))
        for name in (None, *GRAPHS)
    }


def random_triple(random: Random) -> Triple:
    return random.choice(NODES), random.choice(LINKS), random.choice(NODES + LITERALS)


class RandomQuery:
    """Builds one query; ``computes`` allows expressions with computed values, which evaluators write differently."""

    def __init__(self, random: Random, *, computes: bool) -> None:
        self.random = random
        self.computes = computes
        self.fresh = 0

    def text(self) -> str:
        body = self.group(2)
        if self.random.random() < 0.3:
            return self.grouped(body)
        distinct = self.random.choice(["", "", "DISTINCT "])
        return f"SELECT {distinct}{' '.join(VARIABLES)} {{ {body} }}"

    def grouped(self, body: str) -> str:
        key, other = self.random.sample(VARIABLES, 2)
        distinct = self.random.choice(["", "DISTINCT "])
        aggregates = [f"COUNT({distinct}{other})", "COUNT(*)"]
        if self.computes:
            number = f"IF(ISNUMERIC({other}), {other}, 0)"  # the order of other kinds is everybody's own
            aggregates += [f"{name}({distinct}{number})" for name in ("SUM", "AVG", "MIN", "MAX")]
            aggregates += [f"SUM({other})", f"AVG({other})"]
        aggregate = self.random.choice(aggregates)
        having = self.random.choice(["", "", " HAVING (COUNT(*) > 1)"])
        if self.random.random() < 0.3:
            return f"SELECT ({aggregate} AS ?x) {{ {body} }}{having}"
        return f"SELECT {key} ({aggregate} AS ?x) {{ {body} }} GROUP BY {key}{having}"

    def group(self, depth: int) -> str:
        elements = [self.triples()]
        for _ in range(self.random.randint(0, 2)):
            elements.append(self.element(depth))
        if self.random.random() < 0.2:
            self.random.shuffle(elements)
        return " ".join(elements)

    def triples(self) -> str:
        return " . ".join(self.triple() for _ in range(self.random.randint(1, 2))) + " ."

    def triple(self) -> str:
        predicate = self.path(2) if self.random.random() < 0.25 else self.random.choice([*LINKS, *LINKS, "?p"])
        return f"{self.node()} {predicate} {self.node(literals=True)}"

    def node(self, *, literals: bool = False) -> str:
        if self.random.random() < 0.7:
            return self.random.choice(VARIABLES)
        return self.random.choice(NODES + (LITERALS if literals else []))

    def path(self, depth: int) -> str:  # noqa: PLR0911  (one return for each kind)
        if depth == 0 or self.random.random() < 0.4:
            return self.random.choice(LINKS)
        inner = self.path(depth - 1)
        kinds = ("star", "plus", "optional", "inverse", "sequence", "alternative", "negated")
        match self.random.choice(kinds):
            case "star":
                return f"({inner})*"
            case "plus":
                return f"({inner})+"
            case "optional":
                return f"({inner})?"
            case "inverse":
                return f"^({inner})"
            case "sequence":
                return f"({inner}/{self.path(depth - 1)})"
            case "alternative":
                return f"({inner}|{self.path(depth - 1)})"
        return f"!({self.random.choice(LINKS)}|{self.random.choice(LINKS)})"

    def element(self, depth: int) -> str:  # noqa: PLR0911  (one return for each kind)
        simple = ["filter", "bind", "values", "triples"]
        nested = ["optional", "union", "minus", "graph", "exists", "subquery", "group"]
        kind = self.random.choice(simple + (nested if depth else []))
        match kind:
            case "filter":
                return f"FILTER ({self.condition()})"
            case "bind":
                self.fresh += 1
                return f"BIND ({self.expression()} AS ?v{self.fresh})"
            case "values":
                rows = " ".join(self.random.choice([*NODES, *LITERALS]) for _ in range(self.random.randint(1, 3)))
                return f"VALUES {self.random.choice(VARIABLES)} {{ {rows} {self.random.choice(['', '', 'UNDEF'])} }}"
            case "triples":
                return self.triples()
            case "optional":
                return f"OPTIONAL {{ {self.group(depth - 1)} }}"
            case "union":
                return f"{{ {self.group(depth - 1)} }} UNION {{ {self.group(depth - 1)} }}"
            case "minus":
                return f"MINUS {{ {self.group(depth - 1)} }}"
            case "graph":
                return f"GRAPH {self.random.choice([*GRAPHS, '?g'])} {{ {self.group(depth - 1)} }}"
            case "exists":
                return f"FILTER {self.random.choice(['', 'NOT '])}EXISTS {{ {self.triples()} }}"
            case "subquery":
                chosen = " ".join(self.random.sample(VARIABLES, 2))
                return f"{{ SELECT {self.random.choice(['', 'DISTINCT '])}{chosen} {{ {self.group(depth - 1)} }} }}"
        return f"{{ {self.group(depth - 1)} }}"

    def condition(self) -> str:
        left = self.random.choice(VARIABLES)
        right = self.random.choice([*VARIABLES, *NODES, *LITERALS])
        atom = self.random.choice(
            [
                f"{left} {self.random.choice(['=', '!=', '<', '>=', '='])} {right}",
                f"BOUND({left})",
                f"ISIRI({left})",
                f"ISLITERAL({left})",
                f"{left} IN ({right}, {self.random.choice(LITERALS)})",
                f"SAMETERM({left}, {right})",
                f"STR({left}) > 'b'",
                f"LANG({left}) = 'en'",
                f"DATATYPE({left}) = <{XSD}integer>",
            ]
        )
        match self.random.randint(0, 5):
            case 0:
                return f"!({atom})"
            case 1:
                return f"{atom} && {self.condition()}"
            case 2:
                return f"{atom} || {self.condition()}"
        return atom

    def expression(self) -> str:
        variable = self.random.choice(VARIABLES)
        plain = [variable, f"STR({variable})", f"COALESCE({variable}, 1)", f"IF({self.condition()}, {variable}, 'no')"]
        computed = [
            f"{variable} + 1",
            f"{variable} * 2.5",
            f"-{variable}",
            f"STRLEN(STR({variable}))",
            f"YEAR({variable})",
        ]
        return self.random.choice(plain + (computed if self.computes else []))


# Oracles


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


# Comparison


FuzzedEngine = Callable[[Query, Dataset], Answer]


@dataclass(frozen=True)
class QueryDifference:
    """``other`` is the engine or oracle whose solutions differ from those of the evaluator."""

    query: str
    graphs: QueryGraphs
    other: str
    expected: Bag
    actual: Bag
    error: str | None = None

    def files(self) -> dict[str, str]:
        """The case as files by name."""
        return {
            "query.rq": self.query + "\n",
            "data.nq": nquads(self.graphs),
            "evaluator.txt": _lines(self.expected),
            f"{self.other}.txt": self.error or _lines(self.actual),
        }

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in self.files().items():
            (folder / name).write_text(text)


@dataclass
class QueryFuzzReport:
    """``compared`` counts the comparisons with each engine and oracle, ``excepted`` the known defects."""

    runs: int = 0
    compared: Counter[str] = field(default_factory=Counter)
    excepted: Counter[str] = field(default_factory=Counter)
    differences: list[QueryDifference] = field(default_factory=list)

    def fields(self) -> dict[str, object]:
        return {
            "runs": self.runs,
            "compared": dict(self.compared),
            "excepted": dict(self.excepted),
            "differences": len(self.differences),
        }


def fuzz_queries(
    engine: str, runs: int, seed: int, *, keep_going: bool = False, on_progress: Callable[[int], object] = id
) -> QueryFuzzReport:
    """Compare an engine, the evaluator, pyoxigraph and rdflib; the same seed gives the same queries and data."""
    report = QueryFuzzReport()
    engines = {"duckdb": _duckdb_engine()} | ({"spark": _spark_engine()} if engine == "spark" else {})
    for number in range(runs):
        random = Random(f"{seed} {number}")  # noqa: S311  (seeded test data)
        computes = random.random() < 0.7
        _compare(report, engines, random_graphs(random), RandomQuery(random, computes=computes).text(), computes)
        report.runs += 1
        on_progress(1)
        if report.differences and not keep_going:
            break
    return report


def _compare(
    report: QueryFuzzReport, engines: dict[str, FuzzedEngine], graphs: QueryGraphs, text: str, computes: bool
) -> None:
    query = read_query(text)
    dataset = Dataset(graphs[None], {name: triples for name, triples in graphs.items() if name is not None})
    expected = _bag(answer(query, dataset))

    def note(other: str, actual: Bag, wanted: Bag) -> None:
        report.compared[other] += 1
        if actual != wanted:
            report.differences.append(QueryDifference(text, graphs, other, wanted, actual))

    for name, run in engines.items():
        try:
            note(name, _bag(run(query, dataset)), expected)
        except MotetError as error:
            report.differences.append(QueryDifference(text, graphs, name, expected, Counter(), str(error)))
    bound = Counter({solution: times for solution, times in expected.items() if solution})
    for name, oracle in QUERY_ORACLES.items():
        if (defect := oracle.excepts(text, computes)) is not None:
            report.excepted[f"{name}: {defect}"] += 1
        else:
            note(name, oracle.solutions(text, graphs), bound if name == "rdflib" else expected)


def _bag(found: Answer) -> Bag:
    assert isinstance(found, SolutionSequence)
    return Counter(tuple(sorted(row.items())) for row in found.rows)


def _lines(bag: Bag) -> str:
    lines = sorted(f"{times} × {' '.join(f'?{name}={term}' for name, term in row)}" for row, times in bag.items())
    return "".join(f"{line}\n" for line in lines)


def _duckdb_engine() -> FuzzedEngine:
    """One connection for all queries."""
    from motet.query.duckdb_engine import DuckDbEngine, connect, load_tables

    connection = connect()
    engine = DuckDbEngine(connection)
    return lambda query, dataset: engine.answer(query, load_tables(connection, dataset), now=dataset.now)


def _spark_engine() -> FuzzedEngine:
    """One session for all queries."""
    from motet.spark.query_engine import answer_with_spark
    from motet.spark.session import session

    spark = session(config={"spark.sql.shuffle.partitions": "1"})
    return lambda query, dataset: answer_with_spark(spark, query, dataset)
