"""SPARQL over history: a lake queried with DuckDB and with Spark, with and without zones, against pyoxigraph on disk.

The clock of a query starts with its text and ends when all its rows are there as terms. Sessions are open and each
query has run once before; loading and building zones are not part of it. pyoxigraph's union of named graphs repeats a
triple that several events state, so its queries say DISTINCT where that changes the rows. Of the lake without zones
each query reads a version that no query has read before. `benchmarks/spark_sql.py` compares Spark with SQL written by
hand.

    python benchmarks/sparql.py --quads 1000000
    python benchmarks/sparql.py --quads 10000000 --directory /tmp/quads --engines pyoxigraph duckdb
    python benchmarks/sparql.py --engines duckdb spark
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
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


ENGINES = ("pyoxigraph", "duckdb-log", "duckdb", "spark")


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
            "OPTIONAL and REGEX", "optional",
            'SELECT ?e ?l { ?e a :C37 OPTIONAL { ?e :label ?l FILTER REGEX(?l, "pump|fan") } }', False,
        ),
        ("REGEX over labels", "scan", 'SELECT ?e { ?e :label ?l FILTER REGEX(?l, "^cold .*pump$") }', False),
        ("COUNT DISTINCT", "aggregate", "SELECT (COUNT(DISTINCT ?s) AS ?n) { ?e :sensor ?s }", False),
        ("path", "path", "SELECT ?x { <EXobs/496> :follows+ ?x }", False),
        ("path to a constant", "path", "SELECT ?s { ?s :inRoom/:partOf+ <EXfloor/2> }", True),
    )
]  # fmt: skip

Run = Callable[[str], int]  # answers a query and returns the number of its rows


def load_lake(directory: Path, events: int, *, has_uuids: bool = False) -> Lake:
    """A lake with the events and the rooms in its background, without zones; perhaps loaded by an earlier run."""
    if directory.exists():
        return Lake.open(directory, create=False)
    loading = directory.with_suffix(".loading")
    shutil.rmtree(loading, ignore_errors=True)
    lake = Lake.open(loading, durable=False, lateness=None, ahead=None, entailment="none")
    lake.background(added=background())
    for batch in batches(observations(events, has_uuids=has_uuids)):
        lake.append(batch)
    loading.rename(directory)
    return Lake.open(directory, create=False)


def load_pyoxigraph(directory: Path, events: int) -> pyoxigraph.Store:
    """The same triples in a store on disk; the rooms are in a graph of their own."""
    if directory.exists():
        return pyoxigraph.Store(str(directory))
    loading = directory.with_suffix(".loading")
    shutil.rmtree(loading, ignore_errors=True)
    bulk_load(loading, events)
    loading.rename(directory)
    return pyoxigraph.Store(str(directory))


def bulk_load(directory: Path, events: int) -> None:
    store = pyoxigraph.Store(str(directory))
    path = directory.parent / "events.nq"
    with path.open("w", encoding="utf-8") as file:
        file.writelines(nquads(observations(events)))
        file.writelines(f"{s} {p} {o} <{EX}rooms> .\n" for s, p, o in background())
    store.bulk_load(path=str(path), format=pyoxigraph.RdfFormat.N_QUADS)
    store.optimize()
    path.unlink()


OPTIONS = QueryOptions(engine="duckdb", limits=QueryLimits(rows=10_000_000))


def run_duckdb(lake: Lake) -> Run:
    return lambda text: answer_size(query_lake(lake, text, OPTIONS, lambda: None).answer)


def run_log(lake: Lake) -> Run:
    """The log is read for each query: a lake opened anew shares no tables with earlier queries."""
    root = lake.store.root
    return lambda text: run_duckdb(Lake.open(root, create=False))(text)  # noqa: PLW0108  (opened for each query)


def run_spark(lake: Lake) -> Run:
    from motet.spark.query_engine import query
    from motet.spark.session import session

    spark = session()
    return lambda text: len(query(spark, lake, text).collect())


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
        lake.drop_zones()
        yield "duckdb-log", run_log(lake)
    lake.build_zones()
    for name, make in (("duckdb", run_duckdb), ("spark", run_spark)):
        if name in names:
            yield name, make(lake)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quads", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=["pyoxigraph", "duckdb-log", "duckdb"])
    parser.add_argument("--queries", nargs="+", metavar="NAME", help="only these")
    parser.add_argument("--directory", type=Path, help="where loaded data is kept for the next run")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    queries = [query for query in QUERIES if args.queries is None or query.name in args.queries]
    figures: dict[str, dict[str, Figure]] = {query.name: {} for query in queries}
    with ExitStack() as stack:
        folder = args.directory or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        for name, run in engines(args.engines, folder, args.quads // TRIPLES_PER_EVENT):
            for query in queries:
                text = distinct(query) if name == "pyoxigraph" else query.text
                figures[query.name][name] = measure(run, text, args.rounds)
                print(f"{name}: {query.name}", figures[query.name][name], file=sys.stderr, flush=True)
    if args.json:
        rows = {query: {engine: figure._asdict() for engine, figure in of.items()} for query, of in figures.items()}
        print(json.dumps({"quads": args.quads, "queries": rows}, indent=2))
    else:
        print_clock("a query", "its text", "the last row as terms", "wall time, the best of the rounds, milliseconds")
        show(queries, figures, args.engines)
        print(machine_load())


def show(queries: Sequence[BenchmarkQuery], figures: dict[str, dict[str, Figure]], names: Sequence[str]) -> None:
    """A line for each query; the last figures compare the last engine with the first."""
    ratio = f"{names[0]} / {names[-1]}"
    print(f"{'query':<24}{'kind':<16}{'rows':>9}" + "".join(f"{name:>12}" for name in names) + f"{ratio:>24}")
    for query in queries:
        row = figures[query.name]
        counts = {figure.rows for figure in row.values()}
        times = "".join(f"{row[name].milliseconds:>12.1f}" if name in row else f"{'':>12}" for name in names)
        ends = [row[name].milliseconds for name in (names[0], names[-1]) if name in row]
        compared = f"{ends[0] / ends[1]:>24.2f}" if len(ends) == 2 else ""
        print(f"{query.name:<24}{query.kind:<16}{'/'.join(map(str, sorted(counts))):>9}{times}{compared}")


if __name__ == "__main__":
    main()
