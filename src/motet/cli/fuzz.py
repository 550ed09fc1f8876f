"""`motet fuzz`: compare an engine with the reference engine on random cases."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from motet.cli import output
from motet.model.errors import UsageError

if TYPE_CHECKING:
    from motet.fuzz.compare import Difference, Report

HELP = "compare an engine with the reference engine on random subscriptions, logs and ontologies"
EXAMPLES = """\
  motet fuzz --engine embedded --runs 2000
  motet fuzz --engine kernel --runs 100000 --jobs 8 --coverage
  motet fuzz --engine spark --runs 500 --seed 7 --save found/
  motet fuzz --engine spark-stream --runs 500   (many cases in one streaming query)
  motet fuzz --engine reference --runs 300      (against itself: other arrival orders, read piece by piece)
"""


ENGINES = ["embedded", "kernel", "buckets", "spark", "spark-stream", "reference"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--engine", choices=ENGINES, default="embedded")
    parser.add_argument("--runs", type=int, default=1000, metavar="N", help="subscriptions to try; default: 1000")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="the same seed gives the same cases")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes to share the work; default: 1")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first difference")
    parser.add_argument("--save", metavar="DIR", help="where to leave the smallest case of each difference")
    parser.add_argument("--coverage", action="store_true", help="show how often each operator had something to do")
    parser.add_argument("--json", action="store_true", help="report as JSON, coverage included")


def run(args: argparse.Namespace) -> int:
    from motet.fuzz.compare import fuzz
    from motet.fuzz.engines import find_engine

    _check(args)
    engine = find_engine(args.engine)
    with _bar(args.runs) as advance:
        report = fuzz(engine, args.runs, args.seed, jobs=args.jobs, keep_going=args.keep_going, advance=advance)
    smallest = _shrunk(args.engine, report)
    facts = report.facts() | {"engine": args.engine, "seed": args.seed}
    if args.json:
        output.print_json(facts | {"coverage": report.coverage.rows(), "found": [_texts(found) for found in smallest]})
    else:
        _show(facts, report, smallest, coverage=args.coverage)
    if args.save:
        for number, found in enumerate(smallest, 1):
            _save(Path(args.save) / f"{args.engine}-{args.seed}-{number}", found)
    return 1 if smallest else 0


def _check(args: argparse.Namespace) -> None:
    if args.runs < 1:
        raise UsageError(f"--runs {args.runs}: there is nothing to try", advice="Ask for at least one run.")
    if args.jobs < 1:
        raise UsageError(f"--jobs {args.jobs}: nobody would do the work", advice="Ask for at least one process.")
    if args.engine == "spark" and args.jobs > 1:
        raise UsageError("--engine spark --jobs: each process would start a JVM", advice="Spark uses all cores itself.")


def _shrunk(engine: str, report: Report) -> list[Difference]:
    from motet.fuzz.engines import find_engine
    from motet.fuzz.shrink import shrink

    if not report.differences:
        return []
    output.complain(f"{len(report.differences)} cases differ; looking for the smallest that still do")
    smallest = []
    with _bar(len(report.differences)) as advance:
        for found in report.differences:
            smallest.append(shrink(find_engine(engine), found))
            advance(1)
    return smallest


def _show(facts: dict[str, object], report: Report, smallest: list[Difference], *, coverage: bool) -> None:
    output.print_facts(facts)
    if coverage:
        print("\nruns in which all operands of an operator produced something: over logs of points / of intervals too")
        output.print_table(_table(report), headers=["operator", *_contexts()])
    for found in smallest:
        print("\n" + "".join(f"--- {name}\n{text}" for name, text in _texts(found).items()), end="")


def _contexts() -> list[str]:
    from motet.language.syntax import Context

    return [context.value for context in Context]


def _table(report: Report) -> Iterator[list[object]]:
    """One line per operator that occurred, one column per context."""
    cells = report.coverage.exercised
    for operator in dict.fromkeys(row["operator"] for row in report.coverage.rows()):
        found = [[cells[str(operator), context, kind] for kind in ("points", "intervals")] for context in _contexts()]
        if any(map(any, found)):
            yield [operator, *(f"{points} / {intervals}" for points, intervals in found)]


def _texts(found: Difference) -> dict[str, str]:
    """A case as one would read it, each file under its name."""
    from motet.fuzz.files import case_files

    return case_files(found.case, _lines(found))


def _lines(found: Difference) -> dict[str, list[str]]:
    """What was expected and what came; with offsets only where nothing else differs."""
    from motet.fuzz.oracle import without_offsets

    lines = {"expected.jsonl": without_offsets(found.expected), "actual.jsonl": without_offsets(found.actual)}
    if lines["expected.jsonl"] == lines["actual.jsonl"]:
        lines |= {"expected-offsets.jsonl": found.expected, "actual-offsets.jsonl": found.actual}
    return lines


def _save(folder: Path, found: Difference) -> None:
    from motet.fuzz.files import write_case

    write_case(folder, found.case, _lines(found))
    events = " ".join(str(path) for path in sorted(folder.glob("events*")))
    if not events:
        output.complain(f"{folder}: a log, for tests/conformance")
        return
    ontology = f" --ontology {folder / 'ontology.ttl'}" if found.case.ontology else ""
    output.complain(f"motet run --subscriptions {folder / 'subscriptions.motet'} --events {events}{ontology}")


@contextmanager
def _bar(total: int) -> Iterator[Callable[[int], object]]:
    """A bar for what is done, on standard error; silent when that is not a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task("fuzz", total=total)
        yield lambda done: progress.advance(task, done)
