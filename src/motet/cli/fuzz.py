"""`motet fuzz`: compare an engine with the reference engine on random cases."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from motet.cli import output
from motet.model.errors import UsageError

if TYPE_CHECKING:
    from motet.fuzz.compare import Difference, FuzzReport

HELP = "compare an engine with the reference engine on random subscriptions and logs, queries or XML documents"
EXAMPLES = """\
  motet fuzz --engine embedded --runs 2000
  motet fuzz --engine kernel --runs 100000 --jobs 8 --coverage
  motet fuzz --engine lake --runs 600           (several writers of a lake, also compared record by record)
  motet fuzz --engine spark --runs 500 --seed 7 --save differences/
  motet fuzz --engine spark-stream --runs 500   (many cases in one streaming query)
  motet fuzz --engine reference --runs 300      (against itself: other arrival orders, read in pieces)
  motet fuzz --documents --runs 100000          (mutated XML documents: accepted or rejected, within 2 s and 500 MB)
  motet fuzz --sparql --runs 2000               (random SPARQL queries: DuckDB, the evaluator, pyoxigraph, rdflib)
  motet fuzz --sparql --engine spark --runs 50  (the same, and Spark)
"""
ENGINES = ["embedded", "kernel", "buckets", "lake", "spark", "spark-stream", "reference"]
QUERY_ENGINES = ["duckdb", "spark"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--engine", choices=[*ENGINES, "duckdb"], help="default: embedded; with --sparql duckdb or spark")
    add("--sparql", action="store_true", help="compare on random SPARQL queries over random data")
    add("--documents", action="store_true", help="decode mutated XML documents instead, compared with expat")
    add("--runs", type=int, default=1000, metavar="N", help="random cases (default: 1000)")
    add("--seed", type=int, default=0, metavar="S", help="the same seed gives the same cases (default: 0)")
    add("--jobs", type=int, default=1, metavar="N", help="worker processes (default: 1)")
    add("--keep-going", action="store_true", help="do not stop at the first difference")
    add("--save", metavar="DIR", help="where to write the smallest case of each difference")
    add("--coverage", action="store_true", help="show how often each kind of log occurred, and each operator had input")
    add("--json", action="store_true", help="print the report as JSON, with coverage")


def run(args: argparse.Namespace) -> int:
    from motet.fuzz.compare import fuzz
    from motet.fuzz.engines import find_engine

    if args.documents:
        return _run_documents(args)
    args.engine = args.engine or ("duckdb" if args.sparql else "embedded")
    _check(args)
    if args.sparql:
        return _run_queries(args)
    engine = find_engine(args.engine)
    with output.record_progress("comparing", args.runs) as advance:
        report = fuzz(engine, args.runs, args.seed, jobs=args.jobs, keep_going=args.keep_going, on_progress=advance)
    smallest = _shrink_all(args.engine, report)
    fields = report.fields() | {"engine": args.engine, "seed": args.seed}
    if args.json:
        output.print_json(
            fields
            | {"coverage": report.coverage.rows(), "kinds": report.coverage.log_rows()}
            | {"found": [_texts(difference) for difference in smallest]}
        )
    else:
        _show(fields, report, smallest, coverage=args.coverage)
    if args.save:
        for index, difference in enumerate(smallest, 1):
            _save(Path(args.save) / f"{args.engine}-{args.seed}-{index}", difference)
    return 1 if smallest else 0


def _run_queries(args: argparse.Namespace) -> int:
    from motet.fuzz.queries import fuzz_queries

    with output.record_progress("comparing", args.runs) as advance:
        report = fuzz_queries(args.engine, args.runs, args.seed, keep_going=args.keep_going, on_progress=advance)
    fields = report.fields() | {"engine": args.engine, "seed": args.seed}
    if args.json:
        output.print_json(fields | {"found": [difference.files() for difference in report.differences]})
    else:
        _show_queries(fields)
        for difference in report.differences:
            print("\n" + "".join(f"--- {name}\n{text}" for name, text in difference.files().items()), end="")
    if args.save:
        for index, difference in enumerate(report.differences, 1):
            difference.save(Path(args.save) / f"sparql-{args.seed}-{index}")
    return 1 if report.differences else 0


def _run_documents(args: argparse.Namespace) -> int:
    from motet.fuzz.hostile_xml import fuzz_documents

    if args.sparql or args.engine or args.coverage or args.jobs > 1 or args.runs < 1:
        raise UsageError(
            "--documents runs in one process, without --engine, --sparql and --coverage", advice="Omit the others."
        )
    with output.record_progress("decoding", args.runs) as advance:
        report = fuzz_documents(args.runs, args.seed, keep_going=args.keep_going, on_progress=advance)
    fields = report.fields() | {"seed": args.seed}
    if args.json:
        output.print_json(fields | {"reasons": report.rejected, "found": [problem for _, problem in report.failures]})
    else:
        output.print_fields(fields)
        for data, problem in report.failures:
            print(f"\n{problem}\n{data[:500]!r}")
    for index, (data, _) in enumerate(report.failures if args.save else (), 1):
        Path(args.save).mkdir(parents=True, exist_ok=True)
        (Path(args.save) / f"documents-{args.seed}-{index}.xml").write_bytes(data)
    return 1 if report.failures else 0


def _show_queries(fields: dict[str, object]) -> None:
    """Counts of counts are shown on lines of their own."""
    flat: dict[str, object] = {}
    for name, value in fields.items():
        flat |= {f"{name}: {key}": count for key, count in value.items()} if isinstance(value, dict) else {name: value}
    output.print_fields(flat)


def _check(args: argparse.Namespace) -> None:
    if args.sparql and (args.engine not in QUERY_ENGINES or args.coverage or args.jobs > 1):
        raise UsageError(
            "--sparql runs with --engine duckdb or spark, in one process, without --coverage",
            advice="Omit the other options.",
        )
    if args.engine == "duckdb" and not args.sparql:
        raise UsageError("DuckDB answers queries, it has no subscriptions", advice="Add --sparql.")
    if args.runs < 1:
        raise UsageError(f"--runs must be at least 1, not {args.runs}", advice="Omit it for the default.")
    if args.jobs < 1:
        raise UsageError(f"--jobs must be at least 1, not {args.jobs}", advice="Omit it for the default.")
    if args.engine == "spark" and args.jobs > 1:
        raise UsageError("--engine spark runs in one process", advice="Omit --jobs: Spark uses all cores itself.")


def _shrink_all(engine: str, report: FuzzReport) -> list[Difference]:
    from motet.fuzz.engines import find_engine
    from motet.fuzz.shrink import shrink

    if not report.differences:
        return []
    output.warn(f"{len(report.differences)} cases differ; shrinking them")
    smallest = []
    with output.record_progress("shrinking", len(report.differences)) as advance:
        for difference in report.differences:
            smallest.append(shrink(find_engine(engine), difference))
            advance(1)
    return smallest


def _show(fields: dict[str, object], report: FuzzReport, smallest: list[Difference], *, coverage: bool) -> None:
    output.print_fields(fields)
    if coverage:
        print("\nlogs by kind, and those with notifications")
        output.print_table(
            [[row["kind"], row["logs"], row["notified"]] for row in report.coverage.log_rows()],
            headers=["kind", "logs", "notified"],
        )
        print("\nruns in which all operands of an operator had occurrences: over logs of points / with intervals")
        output.print_table(_table(report), headers=["operator", *_contexts()])
    for difference in smallest:
        print("\n" + "".join(f"--- {name}\n{text}" for name, text in _texts(difference).items()), end="")


def _contexts() -> list[str]:
    from motet.language.syntax import Context

    return [context.value for context in Context]


def _table(report: FuzzReport) -> Iterator[list[object]]:
    """One line per operator that occurred, one column per context."""
    cells = report.coverage.exercised
    for operator in dict.fromkeys(row["operator"] for row in report.coverage.rows()):
        counts = [[cells[str(operator), context, kind] for kind in ("points", "intervals")] for context in _contexts()]
        if any(map(any, counts)):
            yield [operator, *(f"{points} / {intervals}" for points, intervals in counts)]


def _texts(difference: Difference) -> dict[str, str]:
    """The files of a case by name."""
    from motet.fuzz.files import case_files

    return case_files(difference.case, _lines(difference))


def _lines(difference: Difference) -> dict[str, list[str]]:
    """The expected and the actual notifications; with offsets only if nothing else differs."""
    from motet.fuzz.case import without_offsets

    lines = {"expected.jsonl": without_offsets(difference.expected), "actual.jsonl": without_offsets(difference.actual)}
    if lines["expected.jsonl"] == lines["actual.jsonl"]:
        lines |= {"expected-offsets.jsonl": difference.expected, "actual-offsets.jsonl": difference.actual}
    return lines


def _save(folder: Path, difference: Difference) -> None:
    from motet.fuzz.files import write_case

    write_case(folder, difference.case, _lines(difference))
    events = " ".join(str(path) for path in sorted(folder.glob("events*")))
    if not events:
        output.warn(f"{folder}: a case with control records, in the form of tests/conformance")
        return
    ontology = f" --ontology {folder / 'ontology.ttl'}" if difference.case.ontology else ""
    output.warn(f"motet run --subscriptions {folder / 'subscriptions.motet'} --events {events}{ontology}")
