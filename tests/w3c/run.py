"""`make w3c`: run the W3C suites of SPARQL 1.0 and 1.1 on an engine and print how many tests pass, by category.

    python -m tests.w3c.run --path w3c-sparql-tests.tar.gz [--engine duckdb] [--json] [FILTER]

Without --engine it runs DuckDB and then Spark, which takes about ten minutes. Entailment tests are run with the
product's reasoner and only reported: RIF, and OWL beyond OWL RL, are not what it claims. The suites are a directory or
a .tar.gz that has the directories sparql10 and sparql11, from --path or MOTET_W3C.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.query.engines import ENGINES, SLOW_ENGINES, Engine
from tests.w3c.compare import difference, expected_answer
from tests.w3c.manifest import Case, cases

from motet.model.errors import MotetError, UsageError
from motet.query.files import inferred_triples, read_graphs
from motet.sparql.algebra import OrderBy, Project, Query, SelectQuery, Slice
from motet.sparql.dataset import Dataset, Triple
from motet.sparql.parse import read_query

ALL_ENGINES = ENGINES | SLOW_ENGINES


def run_case(case: Case, engine: Engine) -> str | None:
    """Why a test fails; None when it passes."""
    base = case.query.absolute().as_uri()
    text = case.query.read_text()
    if case.kind == "negative syntax":
        try:
            read_query(text, base)
        except UsageError:
            return None
        return "accepted, though it is not valid"
    try:
        query = read_query(text, base)
        if case.kind == "positive syntax":
            return None
        expected, ordered = expected_answer(case.result or case.query)
        actual = engine(query, dataset_of(case, query))
    except MotetError as error:
        return f"{type(error).__name__}: {error}"
    assert case.result is not None
    ordered = ordered or has_order(query)
    return difference(actual, expected, ordered=ordered, lax=case.is_lax, plain=case.result.suffix == ".csv")


def dataset_of(case: Case, query: Query) -> Dataset:
    """The files of a case, and those its query names."""
    named = {f"<{path.absolute().as_uri()}>": _triples([path]) for path in case.graphs}
    if query.dataset is not None:
        for name in (*query.dataset.default, *query.dataset.named):
            named.setdefault(name, _triples([Path(name[1:-1].removeprefix("file://"))]))
    default = _triples(case.data)
    if case.entailment != "none":
        default += inferred_triples([default, *named.values()], case.entailment)
    return Dataset(default, named, now="2026-01-02T03:04:05Z")


def _triples(paths: Iterable[Path]) -> list[Triple]:
    return [
        triple
        for index, path in enumerate(paths)
        for triple in read_graphs(str(path), f"f{index}{path.stem.replace('-', '')}x").get(None, [])
    ]


def has_order(query: Query) -> bool:
    pattern = query.pattern if isinstance(query, SelectQuery) else None
    while isinstance(pattern, Slice | Project):
        pattern = pattern.operand
    return isinstance(pattern, OrderBy)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make w3c", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--path", default=os.environ.get("MOTET_W3C"), help="the suites; default: MOTET_W3C")
    parser.add_argument("--engine", choices=sorted(ALL_ENGINES), action="append", help="default: duckdb and spark")
    parser.add_argument("--json", action="store_true", help="print the counts and failures as JSON")
    parser.add_argument("filter", nargs="?", default="", help="run the tests whose name contains this")
    args = parser.parse_args(arguments)
    if not args.path:
        parser.error("where are the suites? give --path, or set MOTET_W3C to a directory or .tar.gz")
    with tempfile.TemporaryDirectory() as scratch:
        root = _unpacked(Path(args.path), Path(scratch))
        chosen = [case for case in cases(root) if args.filter in case.title]
        results = {
            engine: {case: run_case(case, ALL_ENGINES[engine]) for case in chosen}
            for engine in args.engine or ("duckdb", "spark")
        }
    if args.json:
        print(json.dumps([counts(found, engine) for engine, found in results.items()], indent=1))
    else:
        for engine, found in results.items():
            print_table(found, engine)
    failures = [reason for found in results.values() for case, reason in found.items() if case.kind != "entailment"]
    return 1 if any(failures) or not chosen else 0


def _unpacked(path: Path, scratch: Path) -> Path:
    if path.is_dir():
        return path
    with tarfile.open(path) as archive:
        archive.extractall(scratch, filter="data")
    return scratch


def counts(results: dict[Case, str | None], engine: str) -> dict[str, object]:
    """How many tests pass in each category, and why the others fail."""
    total = Counter((case.suite, case.kind, case.category) for case in results)
    passed = Counter((case.suite, case.kind, case.category) for case, reason in results.items() if reason is None)
    rows = [
        {"suite": suite, "kind": kind, "category": category, "passed": passed[key], "total": total[key]}
        for key in sorted(total)
        for suite, kind, category in [key]
    ]
    failures = {case.title: reason for case, reason in results.items() if reason is not None}
    return {"engine": engine, "counts": rows, "failures": failures}


def print_table(results: dict[Case, str | None], engine: str) -> None:
    total = Counter((case.suite, case.kind, case.category) for case in results)
    passed = Counter((case.suite, case.kind, case.category) for case, reason in results.items() if reason is None)
    for suite, kind in sorted({key[:2] for key in total}):
        keys = [key for key in sorted(total) if key[:2] == (suite, kind)]
        print(f"{suite} {kind}: {sum(passed[key] for key in keys)} of {sum(total[key] for key in keys)} on {engine}")
        for key in keys:
            print(f"  {key[2]:28} {passed[key]:4} of {total[key]:4}")
    for case, reason in results.items():
        if reason is not None:
            print(f"FAILED {case.title}: {reason}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
