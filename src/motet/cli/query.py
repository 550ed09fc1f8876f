"""`motet query`: answer a SPARQL 1.1 query over RDF files and print the answer."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from motet.cli import output
from motet.model.errors import LimitError, UsageError

if TYPE_CHECKING:
    from motet.sparql.algebra import Query
    from motet.sparql.dataset import Dataset
    from motet.sparql.query import Answer, SolutionSequence

HELP = "answer a SPARQL query over RDF files"
EXAMPLES = """\
  motet query 'SELECT ?s (COUNT(*) AS ?n) { GRAPH ?g { ?s ?p ?o } } GROUP BY ?s' --data monday.nq tuesday.nq.gz
  motet query --file fires.rq --data events.trig --format csv --output fires.csv
  motet query 'CONSTRUCT { ?r a <urn:Room> } { ?e <urn:room> ?r }' --data events.ttl --format nt
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("query", nargs="?", metavar="QUERY", help="SELECT, ASK, CONSTRUCT or DESCRIBE")
    add("--file", metavar="FILE", help="read the query from a file; - is standard input")
    add("--data", nargs="+", metavar="FILE", required=True, help="files with the default and named graphs to query")
    add(
        "--format",
        choices=["table", "json", "xml", "csv", "tsv", "nt", "ttl"],
        default="table",
        help="default: table, and ttl for a graph",
    )
    add("--output", metavar="FILE", help="default: standard output")
    add("--max-rows", type=_positive, default=1_000_000, metavar="N", help="refuse longer answers; default: 1000000")
    add("--timeout", type=_positive, default=300, metavar="SECONDS", help="give up after this time; default: 300")


def run(args: argparse.Namespace) -> int:
    from motet.query.files import read_dataset
    from motet.sparql.parse import read_query
    from motet.sparql.query import answer

    if args.output and args.format == "table":
        raise UsageError("a table is for the terminal", advice="choose the format of the file with --format")
    text, source = _query_text(args)
    query = read_query(text, source=source)
    with _time_limit(args.timeout):
        dataset = read_dataset(args.data, now=_now(), random_bits=_random_bits)
        _warn_of_missing_graphs(query, dataset)
        found = answer(query, dataset)
        _check_size(found, args.max_rows)
    _write(found, args.format, args.output)
    return 0


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)


def _query_text(args: argparse.Namespace) -> tuple[str, str | None]:
    """The text of the query and the name of its file."""
    if (args.query is None) == (args.file is None):
        raise UsageError("a query is needed, once", advice="write it as the first argument, or name a file with --file")
    if args.query is not None:
        return args.query, None
    if args.file == "-":
        return sys.stdin.read(), "standard input"
    try:
        return Path(args.file).read_text(encoding="utf-8"), args.file
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{args.file}: cannot be read: {error}") from None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _random_bits() -> int:
    import secrets

    return secrets.randbits(128)


@contextmanager
def _time_limit(seconds: int) -> Iterator[None]:
    def stop(_signal: int, _frame: object) -> None:
        raise LimitError(
            f"no answer after {seconds} s", advice="make the query more selective, or give more time with --timeout"
        )

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _warn_of_missing_graphs(query: Query, dataset: Dataset) -> None:
    names = (*query.dataset.default, *query.dataset.named) if query.dataset else ()
    for name in dict.fromkeys(names):
        if name not in dataset.named:
            output.warn(f"the graph {name} is in none of the files; it is taken as empty")


def _check_size(found: Answer, most: int) -> None:
    from motet.sparql.query import SolutionSequence

    size = 1 if isinstance(found, bool) else len(found.rows) if isinstance(found, SolutionSequence) else len(found)
    if size > most:
        raise LimitError(
            f"the answer has {size} rows, more than {most}", advice="add LIMIT to the query, or raise --max-rows"
        )


def _write(found: Answer, syntax: str, path: str | None) -> None:
    from motet.query.results import write_answer
    from motet.sparql.query import SolutionSequence

    if syntax == "table" and isinstance(found, SolutionSequence):
        _print_table(found)
    elif syntax == "table" and isinstance(found, bool):
        print(str(found).lower())
    else:
        text = write_answer(found, "ttl" if syntax == "table" else syntax)
        with output.open_output(path) as sink:
            sink.write(text.encode())


def _print_table(found: SolutionSequence) -> None:
    from motet.query.results import plain_text

    headers = [f"?{name}" for name in found.variables]
    rows = [[plain_text(row[name]) if name in row else "" for name in found.variables] for row in found.rows]
    if headers:
        output.print_table(rows, headers=headers)
    output.warn(f"{len(rows)} row{'' if len(rows) == 1 else 's'}")
