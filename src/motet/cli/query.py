"""`motet query`: answer a SPARQL 1.1 query over the history of a lake or over RDF files, and print the answer."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from motet.cli import output
from motet.model.errors import MotetError, UsageError

if TYPE_CHECKING:
    from motet.lake import Lake
    from motet.query.lake_query import AnswerWithWarnings, LakeQueryEngine, OnPercentage, QueryOptions
    from motet.query.limits import QueryLimits
    from motet.sparql.algebra import Query
    from motet.sparql.dataset import Dataset
    from motet.sparql.evaluate import Answer, SolutionSequence


HELP = "answer a SPARQL query over the history of a lake, or over RDF files"
EXAMPLES = """\
  motet query 'SELECT ?class (COUNT(?e) AS ?n) { ?e a ?class } GROUP BY ?class' --lake building
  motet query --file fires.rq --lake building --as-of 2026-11-15T12:00:00Z --from 2026-11-14T00:00:00Z
  motet query 'SELECT * FROM <urn:motet:notifications> { ?n <urn:motet:ns#subscription> ?s }' --lake building
  motet query --lake building                  # a shell: type queries, complete names with the tab key
  motet query --file fires.rq --data events.trig --format csv --output fires.csv
  motet query 'CONSTRUCT { ?r a <urn:Room> } { ?e <urn:room> ?r }' --data events.ttl --format nt
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("query", nargs="?", metavar="QUERY", help="SELECT, ASK, CONSTRUCT or DESCRIBE")
    add("--file", metavar="FILE", help="read the query from a file; - is standard input")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--lake", metavar="DIR", help="the lake whose events to query")
    source.add_argument("--data", nargs="+", metavar="FILE", help="files with the default and named graphs to query")
    add_history_arguments(parser)
    add(
        "--format",
        choices=["table", "json", "xml", "csv", "tsv", "nt", "ttl"],
        default="table",
        help="default: table, and ttl for a graph",
    )
    add(
        "--engine",
        choices=["duckdb", "memory", "spark"],
        help="what answers the query (default: duckdb for a lake, memory for files)",
    )
    add("--output", metavar="FILE", help="default: standard output")
    add("--max-rows", type=_positive, default=1_000_000, metavar="N", help="refuse longer answers; default: 1000000")
    add("--memory", type=_positive, default=2048, metavar="MB", help="most memory of DuckDB; default: 2048")
    add("--timeout", type=_positive, default=300, metavar="SECONDS", help="give up after this time; default: 300")


def add_history_arguments(parser: argparse._ActionsContainer) -> None:
    """What a query of a lake sees."""
    add = parser.add_argument
    add(
        "--as-of",
        metavar="OFFSET|TIME",
        help="read the log up to this offset, or as it was at this time",
    )
    add("--from", dest="span_from", metavar="TIME", help="only events and notifications that end at this time or later")
    add("--to", dest="span_to", metavar="TIME", help="only events and notifications that start at this time or earlier")
    add(
        "--entailment",
        choices=["none", "rdfs", "owl-rl"],
        help="default: the setting of the lake; none for files",
    )


def run(args: argparse.Namespace) -> int:
    from motet.query.limits import QueryLimits

    if args.output not in (None, "-") and args.format == "table":
        raise UsageError("a table is for the terminal", advice="choose the format of the file with --format")
    limits = QueryLimits(seconds=args.timeout, rows=args.max_rows, memory=args.memory << 20)
    if args.lake and args.query is None and args.file is None and sys.stdin.isatty():
        return _shell(args, limits)
    text, source = _query_text(args)
    if args.lake:
        from motet.lake import Lake

        found, warnings = _query_lake(args, Lake.open(args.lake, create=False), text, source, limits)
    else:
        found, warnings = _query_files(args, text, source, limits)
    for warning in warnings:
        output.warn(warning)
    _write(found, args.format, args.output)
    return 0


def _shell(args: argparse.Namespace, limits: QueryLimits) -> int:
    """Answer the queries that a person types."""
    from motet.lake import Lake

    lake = Lake.open(args.lake, create=False)

    def answer(text: str) -> None:
        found, warnings = _query_lake(args, lake, text, None, limits)
        for warning in warnings:
            output.warn(warning)
        _write(found, args.format, args.output)

    start(lake, answer)
    return 0


def _query_lake(
    args: argparse.Namespace, lake: Lake, text: str, source: str | None, limits: QueryLimits
) -> AnswerWithWarnings:
    if args.engine == "spark":
        with output.status_line("answering"):
            return _answer(args, lake, text, source, limits)
    with output.percentage_bar("answering") as show:
        return _answer(args, lake, text, source, limits, show)


def _answer(
    args: argparse.Namespace,
    lake: Lake,
    text: str,
    source: str | None,
    limits: QueryLimits,
    on_progress: OnPercentage | None = None,
) -> AnswerWithWarnings:
    from motet.query.lake_query import query_lake

    engine: LakeQueryEngine = "memory" if args.engine == "memory" else "duckdb"
    options = replace(history_options(args), engine=engine, limits=limits, on_progress=on_progress)
    if args.engine == "spark":
        from motet.spark.query_engine import answer_on_spark
        from motet.spark.session import session

        return answer_on_spark(session, lake, text, options, lambda: complete_notifications(lake), source)
    return query_lake(lake, text, options, lambda: complete_notifications(lake), source=source)


def history_options(args: argparse.Namespace) -> QueryOptions:
    """The options of `add_history_arguments`."""
    from motet.query.lake_query import QueryOptions

    as_of = int(args.as_of) if args.as_of and args.as_of.isdigit() else args.as_of
    return QueryOptions(as_of=as_of, span=(args.span_from, args.span_to), entailment=args.entailment)


def complete_notifications(lake: Lake) -> None:
    """Compute and store the notifications that the table of a lake lacks."""
    from motet.embedded.cloud import Cloud

    output.warn("computing notifications that the lake has not stored yet")
    with Cloud(lake) as cloud:
        cloud.flush()


def _query_files(
    args: argparse.Namespace, text: str, source: str | None, limits: QueryLimits
) -> tuple[Answer, list[str]]:
    from motet.query.duckdb_engine import answer_with_duckdb
    from motet.query.files import read_dataset
    from motet.query.lake_query import AnswerWithWarnings, answer_size
    from motet.query.limits import time_limit
    from motet.sparql.evaluate import answer
    from motet.sparql.parse import read_query

    for option, value in (("--as-of", args.as_of), ("--from", args.span_from), ("--to", args.span_to)):
        if value is not None:
            raise UsageError(f"{option} is for lakes: files have no log", advice="leave it out, or query a lake")
    query = read_query(text, source=source)
    answer_on: Callable[[Query, Dataset], Answer] = answer_with_duckdb if args.engine == "duckdb" else answer
    interrupt = None
    if args.engine == "spark":
        from motet.spark.query_engine import answer_with_spark
        from motet.spark.session import session

        spark = session()
        interrupt, answer_on = spark.interruptAll, partial(answer_with_spark, spark)
    with time_limit(limits.seconds, interrupt):
        dataset = read_dataset(args.data, now=_now(), random_bits=_random_bits, entailment=args.entailment or "none")
        found = answer_on(query, dataset)
    limits.check_rows(answer_size(found))
    return AnswerWithWarnings(found, _missing_graphs(query, dataset))


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)


def _query_text(args: argparse.Namespace) -> tuple[str, str | None]:
    """The text of the query and the name of its file."""
    if (args.query is None) == (args.file is None):
        raise UsageError(
            "a query is needed, once",
            advice="write it as the first argument, or name a file with --file; on a terminal --lake opens a shell",
        )
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


def _missing_graphs(query: Query, dataset: Dataset) -> list[str]:
    names = (*query.dataset.default, *query.dataset.named) if query.dataset else ()
    return [
        f"the graph {name} is in none of the files; it is taken as empty"
        for name in dict.fromkeys(names)
        if name not in dataset.named
    ]


def _write(found: Answer, syntax: str, path: str | None) -> None:
    from motet.query.results import write_answer
    from motet.sparql.evaluate import SolutionSequence

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


# The shell: queries are typed, with history, and completion of what the lake has


HISTORY_FILE = Path("~/.motet_query_history")
HISTORY_LENGTH = 1_000
CANCEL = "\x03"  # a line that drops the query being typed: Ctrl-C
SHELL_HELP = """\
A query ends with an empty line or with ; at the end of a line. It may leave out PREFIX lines that were given before.
  .help            this text
  .prefixes        the prefixes that queries may use
  .topics          the classes of events with their properties
  .quit            leave (or Ctrl-D); Ctrl-C cancels a query"""
KEYWORDS = (
    "ASK", "BIND", "CONSTRUCT", "COUNT", "DESCRIBE", "DISTINCT", "FILTER", "FROM", "GRAPH", "GROUP BY", "HAVING",
    "LIMIT", "MINUS", "NAMED", "OFFSET", "OPTIONAL", "ORDER BY", "PREFIX", "SELECT", "UNION", "VALUES", "WHERE",
)  # fmt: skip
PREFIXES = {
    "motet": "urn:motet:ns#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "prov": "http://www.w3.org/ns/prov#",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "sosa": "http://www.w3.org/ns/sosa/",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}
_DECLARED = re.compile(r"\bPREFIX\s+([^\s:]*):\s*<([^<>]*)>", re.IGNORECASE)
_USED = re.compile(r"(?<![\w<:/#-])([A-Za-z][\w-]*):")

AnswerQuery = Callable[[str], None]


class QueryShell:
    """Reads queries from lines, and prints their answers."""

    def __init__(self, lake: Lake, answer: AnswerQuery) -> None:
        self._lake = lake
        self._answer = answer
        self.prefixes = dict(PREFIXES)
        self._names: list[str] | None = None  # IRIs of classes and properties, read when first completed

    def run(self, lines: Iterable[str]) -> None:
        """AnswerQuery the queries of some lines; an error ends a query, not the shell."""
        pending: list[str] = []
        for line in lines:
            self.declare(line)
            text = line.strip()
            if line == CANCEL:
                pending = []
            elif not pending and text.startswith("."):
                if text in (".quit", ".exit"):
                    return
                self._command(text)
            elif text.endswith(";") or (not text and pending):
                self._run_query("\n".join([*pending, text.removesuffix(";")]))
                pending = []
            elif text:
                pending.append(line)
        if pending:
            self._run_query("\n".join(pending))

    def _command(self, text: str) -> None:
        if text == ".prefixes":
            output.print_table([[f"{name}:", value] for name, value in sorted(self.prefixes.items())])
        elif text == ".topics":
            from motet.cli.inspect import show_topics

            show_topics(self._lake)
        else:
            print(SHELL_HELP)

    def declare(self, text: str) -> None:
        """Make the prefixes that a text declares known to later queries and to completion."""
        self.prefixes |= dict(_DECLARED.findall(text))

    def _run_query(self, text: str) -> None:
        try:
            self._answer(self.with_prefixes(text))
        except MotetError as error:
            output.warn(str(error))
        except KeyboardInterrupt:
            output.warn("cancelled")

    def with_prefixes(self, text: str) -> str:
        """The query with the declarations of the known prefixes that it uses and does not declare."""
        declared = {name for name, _ in _DECLARED.findall(text)}
        used = dict.fromkeys(name for name in _USED.findall(text) if name in self.prefixes and name not in declared)
        return "".join(f"PREFIX {name}: <{self.prefixes[name]}> " for name in used) + text

    def completions(self, text: str) -> list[str]:
        """What may stand for the beginning of a word: keywords, prefixes, and names that the lake has."""
        words = [word for word in KEYWORDS if text and word.startswith(text.upper())]
        words += [f"{name}:" for name in sorted(self.prefixes) if f"{name}:".startswith(text)]
        return words + [name for name in self._shortened() if name.startswith(text)]

    def _shortened(self) -> Iterator[str]:
        """The classes and properties of the lake, as prefixed names and written out, after what these begin with."""
        if self._names is None:
            from motet.query.topics import find_names

            self._names = find_names(self._lake.snapshot())
        yield from sorted({f"<{_namespace(value)}>" for value in self._names})
        for value in self._names:
            for name, start in self.prefixes.items():
                if value.startswith(start):
                    yield f"{name}:{value.removeprefix(start)}"
            yield f"<{value}>"


def _namespace(value: str) -> str:
    """The beginning of an IRI, up to its last separator."""
    return value[: max(value.rfind(separator) for separator in "#/:") + 1]


def start(lake: Lake, answer: AnswerQuery) -> None:
    """Run the shell on the terminal."""
    import readline

    shell = QueryShell(lake, answer)
    path = HISTORY_FILE.expanduser()
    with suppress(OSError):
        readline.read_history_file(path)
    readline.set_history_length(HISTORY_LENGTH)
    readline.set_completer_delims(" \t\n{}()|^/;,")
    readline.set_completer(_completer(shell, readline.get_line_buffer))
    readline.parse_and_bind("tab: complete")
    print(f"{lake.store.root}: type a SPARQL query, ended by an empty line; .help shows more")
    try:
        shell.run(_typed_lines())
    finally:
        with suppress(OSError):
            readline.write_history_file(path)


def _completer(shell: QueryShell, typed: Callable[[], str]) -> Callable[[str, int], str | None]:
    """The function that readline calls for each completion of a word, counting from 0."""
    words: list[str] = []

    def complete(text: str, state: int) -> str | None:
        if state == 0:
            shell.declare(typed())
            words[:] = shell.completions(text)
        return words[state] if state < len(words) else None

    return complete


def _typed_lines() -> Iterator[str]:
    while True:
        try:
            yield input("sparql> ")
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            print()
            yield CANCEL
