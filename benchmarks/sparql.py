"""SPARQL over history: a lake queried with DuckDB and with Spark, with and without zones, against pyoxigraph on disk.

The clock of a query starts with its text and ends when all its rows are there as terms. Sessions are open and each
query has run once before; loading and building zones are not part of it. pyoxigraph's union of named graphs repeats a
triple that several events state, so its queries say DISTINCT where that changes the rows.

    python benchmarks/sparql.py --quads 1000000
    python benchmarks/sparql.py --quads 10000000 --engines duckdb pyoxigraph --json
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyoxigraph

sys.path.insert(0, str(Path(__file__).parents[1]))  # for running it by path

from benchmarks.measurement.figures import machine_load, print_clock
from benchmarks.measurement.quads import EX, TRIPLES_PER_EVENT, background, batches, nquads, observations

from motet.lake import Lake
from motet.query.lake_query import QueryOptions, answer_size, query_lake
from motet.query.limits import QueryLimits

PREFIX = f"PREFIX : <{EX}>\nPREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n"


class BenchmarkQuery(NamedTuple):
    """A query, its kind (each kind has a goal), and whether pyoxigraph must remove repeated triples."""

    name: str
    kind: str
    text: str
    distinct: bool = False


QUERIES = [
    BenchmarkQuery(name, kind, PREFIX + text.replace("<EX", f"<{EX}"), distinct)
    for name, kind, text, distinct in (
        ("subject", "point", "SELECT ?p ?o { <EXobs/5007> ?p ?o }", False),
        ("subject and predicate", "point", "SELECT ?o { <EXobs/5007> :value ?o }", False),
        ("object", "point", "SELECT ?s ?p { ?s ?p <EXsensor/700> }", False),
        ("predicate and object", "point", "SELECT ?s { ?s :sensor <EXsensor/700> }", False),
        (
            "star, a class", "star",
            "SELECT ?e ?s ?v ?t { ?e a :C37 ; :sensor ?s ; :value ?v ; :at ?t }", False,
        ),
        (
            "star, one sensor", "selective star",
            "SELECT ?e ?c ?v ?t { ?e :sensor <EXsensor/700> ; a ?c ; :value ?v ; :at ?t }", False,
        ),
        (
            "two hops", "join",
            "SELECT ?e ?v { ?s :inRoom <EXroom/190> . ?e :sensor ?s ; :value ?v }", True,
        ),
        (
            "group and average", "aggregate",
            "SELECT ?s (AVG(?v) AS ?mean) { ?e :sensor ?s ; :value ?v } GROUP BY ?s", False,
        ),
        ("average", "aggregate", "SELECT (AVG(?v) AS ?mean) { ?e :value ?v }", False),
        (
            "range of times", "scan",
            'SELECT ?e ?t { ?e :at ?t FILTER(?t >= "2026-01-01T06:00:00Z"^^xsd:dateTime && '
            '?t < "2026-01-01T06:30:00Z"^^xsd:dateTime) }', False,
        ),
        (
            "OPTIONAL and REGEX", "scan",
            'SELECT ?e ?l { ?e a :C37 OPTIONAL { ?e :label ?l FILTER REGEX(?l, "pump|fan") } }', False,
        ),
        ("REGEX over labels", "scan", 'SELECT ?e { ?e :label ?l FILTER REGEX(?l, "^cold .*pump$") }', False),
        ("COUNT DISTINCT", "aggregate", "SELECT (COUNT(DISTINCT ?s) AS ?n) { ?e :sensor ?s }", False),
        ("path", "path", "SELECT ?x { <EXobs/496> :follows+ ?x }", False),
        ("path to a constant", "path", "SELECT ?s { ?s :inRoom/:partOf+ <EXfloor/2> }", True),
    )
]  # fmt: skip

Run = Callable[[str], int]  # answers a query and returns the number of its rows


def load_lake(directory: Path, events: int) -> Lake:
    """A lake with the events and the rooms in its background, without zones."""
    lake = Lake.open(directory, durable=False, lateness=None, ahead=None, entailment="none")
    lake.background(added=background())
    for batch in batches(observations(events)):
        lake.append(batch)
    return lake


def load_pyoxigraph(directory: Path, events: int) -> pyoxigraph.Store:
    """The same triples in a store on disk; the rooms are in a graph of their own."""
    store = pyoxigraph.Store(str(directory))
    path = directory.parent / "events.nq"
    with path.open("w", encoding="utf-8") as file:
        file.writelines(nquads(observations(events)))
        file.writelines(f"{s} {p} {o} <{EX}rooms> .\n" for s, p, o in background())
    store.bulk_load(path=str(path), format=pyoxigraph.RdfFormat.N_QUADS)
    store.optimize()
    path.unlink()
    return store


def run_duckdb(lake: Lake) -> Run:
    options = QueryOptions(engine="duckdb", limits=QueryLimits(rows=10_000_000))
    return lambda text: answer_size(query_lake(lake, text, options, lambda: None).answer)


def run_pyoxigraph(store: pyoxigraph.Store) -> Run:
    def run(text: str) -> int:
        found = store.query(text, use_default_graph_as_union=True)
        assert isinstance(found, pyoxigraph.QuerySolutions)
        return len([[str(term) for term in row] for row in found])

    return run


def distinct(query: BenchmarkQuery) -> str:
    """The text for a store that repeats triples of several graphs."""
    return query.text.replace("SELECT ", "SELECT DISTINCT ", 1) if query.distinct else query.text


class Figure(NamedTuple):
    rows: int
    milliseconds: float  # the best of the rounds


def measure(run: Run, text: str, rounds: int) -> Figure:
    rows, runs = run(text), []
    for _ in range(rounds):
        started = time.perf_counter()
        run(text)
        runs.append(1000 * (time.perf_counter() - started))
    return Figure(rows, min(runs))


def engines(names: Sequence[str], folder: Path, events: int) -> Iterator[tuple[str, Run]]:
    """The engines, loaded when their turn comes."""
    if "pyoxigraph" in names:
        yield "pyoxigraph", run_pyoxigraph(load_pyoxigraph(folder / "oxigraph", events))
    lake = load_lake(folder / "lake", events)
    if "duckdb-log" in names:
        yield "duckdb-log", run_duckdb(lake)
    lake.build_zones()
    if "duckdb" in names:
        yield "duckdb", run_duckdb(lake)
    if "spark" in names:
        from motet.spark.lake_query import query
        from motet.spark.session import session

        spark = session()
        yield "spark", lambda text: len(query(spark, lake.store.root, text).collect())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quads", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engines", nargs="+", default=["pyoxigraph", "duckdb-log", "duckdb"])
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    figures: dict[str, dict[str, Figure]] = {query.name: {} for query in QUERIES}
    with tempfile.TemporaryDirectory() as folder:
        for name, run in engines(args.engines, Path(folder), args.quads // TRIPLES_PER_EVENT):
            for query in QUERIES:
                text = distinct(query) if name == "pyoxigraph" else query.text
                figures[query.name][name] = measure(run, text, args.rounds)
    if args.json:
        rows = {query: {engine: figure._asdict() for engine, figure in of.items()} for query, of in figures.items()}
        print(json.dumps({"quads": args.quads, "queries": rows}, indent=2))
    else:
        print_clock("a query", "its text", "the last row as terms", "wall time, the best of the rounds, milliseconds")
        show(figures, args.engines)
        print(machine_load())


def show(figures: dict[str, dict[str, Figure]], names: Sequence[str]) -> None:
    print(f"{'query':<24}{'kind':<16}{'rows':>9}" + "".join(f"{name:>14}" for name in names) + f"{'times faster':>14}")
    for query in QUERIES:
        row = figures[query.name]
        counts = {figure.rows for figure in row.values()}
        ratio = row["pyoxigraph"].milliseconds / row["duckdb"].milliseconds if {"pyoxigraph", "duckdb"} <= {*row} else 0
        times = "".join(f"{row[name].milliseconds:>14.1f}" if name in row else f"{'':>14}" for name in names)
        print(f"{query.name:<24}{query.kind:<16}{'/'.join(map(str, sorted(counts))):>9}{times}{ratio:>14.2f}")


if __name__ == "__main__":
    main()
