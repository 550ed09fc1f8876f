"""The shell of `motet query --lake DIR`: queries are typed, with history, and completion of what the lake has."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from motet.cli import output
from motet.model.errors import MotetError

if TYPE_CHECKING:
    from motet.lake import Lake

HISTORY_FILE = Path("~/.motet_query_history")
HISTORY_LENGTH = 1_000
CANCEL = "\x03"  # a line that drops the query being typed: Ctrl-C
HELP = """\
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
            print(HELP)

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
