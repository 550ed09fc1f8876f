"""Arguments that several commands share, and the values that users write for them.

For a file `-` stands for standard input: it is copied to a scratch file that is read like any other. `motet ingest -`,
`motet publish -` and `motet query --file -` read standard input themselves.
"""

from __future__ import annotations

import argparse
import atexit
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from motet.language.parse import SYNTAXES
from motet.model.errors import UsageError
from motet.model.times import END_OF_TIME, parse_datetime

if TYPE_CHECKING:
    from motet.codec.row_mapping import RowMapping
    from motet.jobs.run import BatchJob
    from motet.lake import Lake
    from motet.ontology.load import Ontology


STRICT_STATUS = 3  # with --strict: events were late, rejected or in conflict


def add_syntax_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--syntax", choices=SYNTAXES, default="motet", help="the syntax of the subscription files (default: motet)"
    )


def add_ontology_arguments(parser: argparse.ArgumentParser) -> None:
    """--ontology with its imports, and --entailment."""
    add_ontology_files(parser, "OWL or RDFS files, which may contain individuals")
    parser.add_argument(
        "--entailment", choices=["none", "rdfs", "owl-rl"], help="default: owl-rl with an ontology, none without"
    )


def add_ontology_files(parser: argparse.ArgumentParser, help_: str) -> None:
    """--ontology with its imports; `load_ontology` loads it."""
    parser.add_argument("--ontology", nargs="+", metavar="FILE", default=[], help=help_)
    add_import_arguments(parser)


def add_import_arguments(parser: argparse.ArgumentParser) -> None:
    """How the imports of an ontology are found, and what a missing one is."""
    parser.add_argument("--catalogue", metavar="FILE", help="JSON object that maps imported IRIs to paths")
    parser.add_argument(
        "--imports", choices=["warn", "strict"], default="warn",
        help="what an import is that is neither given nor in the catalogue: a warning (default) or an error",
    )  # fmt: skip


def load_ontology(args: argparse.Namespace, paths: Sequence[str] | None = None) -> Ontology:
    """The ontology of `add_ontology_files`, or of other paths; nothing is in it when no file is named."""
    from motet.jobs.subscription_files import existing_file
    from motet.ontology.load import load, read_catalogue

    files = [existing_file(path, "ontology file") for path in (args.ontology if paths is None else paths)]
    return load(files, catalogue=read_catalogue(args.catalogue) if args.catalogue else None, imports=args.imports)


def add_background_argument(parser: argparse.ArgumentParser) -> None:
    """--ontology with its imports, for commands that write to a lake; `add_ontology` adds it."""
    add_ontology_files(parser, "OWL or RDFS files that are added to the background of the lake first, if it lacks them")


def add_ontology(args: argparse.Namespace, lake: Lake) -> None:
    """Add what the background of a lake lacks of the ontology that the arguments name."""
    if args.ontology:
        from motet.jobs.background import add_to_background

        add_to_background(lake, load_ontology(args).triples)


def add_document_arguments(parser: argparse.ArgumentParser) -> None:
    """--base, --rest and --map, which say how documents and rows become events."""
    parser.add_argument("--base", metavar="IRI", help="the base of relative IRIs in the event files")
    parser.add_argument(
        "--rest", choices=["refuse", "drop", "share"], default="refuse",
        help="what happens to triples outside named graphs that belong to no event: refuse (default), drop them, or "
        "share them among all events of the document",
    )  # fmt: skip
    add_map_argument(parser)


def add_content_type_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--content-type", metavar="TYPE", help="the format of standard input (default: guessed)")


def add_strict_argument(parser: argparse.ArgumentParser) -> None:
    """--strict, for `exit_status`."""
    parser.add_argument(
        "--strict", action="store_true", help="exit with status 3 if events were late, rejected or in conflict"
    )


def exit_status(args: argparse.Namespace, *, rejected: int, late: int = 0) -> int:
    """The exit status of a command that has done its work with these counts; conflicts are among the rejected."""
    if args.strict and (rejected or late):
        return STRICT_STATUS
    return 1 if rejected else 0


def add_arrival_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--arrival", metavar="TIME", help="the time of events that carry none (default: now)")


def add_prefix_argument(
    parser: argparse.ArgumentParser, help_: str = "shorten IRIs, as the prefixes that the files declare do; repeatable"
) -> None:
    parser.add_argument("--prefix", action="append", default=[], metavar="NAME=IRI", help=help_)


def prefixes_of(args: argparse.Namespace) -> dict[str, str]:
    return _pairs("--prefix", args.prefix, "NAME=IRI", "ex=http://example.org/#")


def add_spark_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--conf", metavar="NAME=VALUE", action="append", default=[], help="a Spark setting; repeatable")


def spark_settings(args: argparse.Namespace) -> dict[str, str]:
    return _pairs("--conf", args.conf, "NAME=VALUE", "spark.executor.memory=2g")


def _pairs(option: str, texts: Sequence[str], form: str, example: str) -> dict[str, str]:
    """The values of a repeatable option.

    >>> _pairs("--conf", ["spark.executor.memory=2g"], "NAME=VALUE", "")
    {'spark.executor.memory': '2g'}
    """
    malformed = next((text for text in texts if "=" not in text), None)
    if malformed is not None:
        raise UsageError(f"{option} {malformed!r} is not {form}", advice=f"Write for example {example}")
    return dict(text.split("=", 1) for text in texts)


def add_replay_range(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--since",
        metavar="TIME",
        help="replay events from this time on; replaces the SINCE of every subscription (default: their SINCE, or all)",
    )
    parser.add_argument(
        "--until", metavar="TIME", help="replay the log as known at this time: no event that ends later (default: all)"
    )


class ReplayRange(TypedDict):
    """The arguments of `add_replay_range` as instants."""

    since: int | None
    until: int | None


def replay_range(args: argparse.Namespace) -> ReplayRange:
    """The arguments of `add_replay_range` as instants."""
    return {
        "since": parse_instant(args.since) if args.since else None,
        "until": parse_instant(args.until) if args.until else None,
    }


def load_job(args: argparse.Namespace) -> BatchJob:
    """The subscriptions, events and ontology that the arguments name."""
    from motet.jobs import run

    return run.load_job(
        args.subscriptions,
        args.events,
        ontology=load_ontology(args),
        syntax=args.syntax,
        entailment=args.entailment,
        arrival=parse_instant(args.arrival or "now"),
        base=args.base,
        rest=args.rest,
        mapping=read_mapping(args),
    )


def add_map_argument(parser: argparse.ArgumentParser) -> None:
    """--map."""
    parser.add_argument(
        "--map",
        metavar="MAPPING",
        help="a YAML file that says which events the rows of CSV and JSON are, and which triples XML documents have; "
        "'generic' lifts every document",
    )


def read_mapping(args: argparse.Namespace) -> RowMapping | None:
    """The mapping of --map, if there is one."""
    if args.map is None:
        return None
    from motet.codec.row_mapping import GENERIC, RowMapping

    return RowMapping.of(GENERIC) if args.map == GENERIC else RowMapping.read(args.map)


def declared_prefixes(args: argparse.Namespace) -> dict[str, str]:
    """The prefixes that the subscription files declare."""
    from motet.jobs import subscription_files

    documents = subscription_files.load_documents(args.subscriptions, syntax=args.syntax)
    return subscription_files.declared_prefixes(documents)


def parse_instant(text: str) -> int:
    """An instant as users write it: an xsd:dateTime, ``now`` or ``end``."""
    if text in ("now", "end"):
        return END_OF_TIME if text == "end" else time.time_ns() // 1000
    try:
        return parse_datetime(text)
    except ValueError as error:
        raise UsageError(str(error), advice="Write 2026-11-15T10:00:00Z, now, or end.") from None


# Standard input


STANDARD = "-"  # in place of the name of a file
STREAMED = {"ingest", "publish"}  # commands that read their files themselves
SAMPLE_BYTES = 1 << 20  # from which a format is guessed
_TEXT, _EVENTS, _RDF = "a subscription", "events", "RDF"
_INPUTS = {  # attributes of the parsed arguments that name input files: what is in them
    "subscriptions": _TEXT, "old": _TEXT, "new": _TEXT, "files": _TEXT, "events": _EVENTS, "data": _EVENTS,
    "ontology": _RDF, "description": _RDF,
}  # fmt: skip


def copy_standard_input(args: argparse.Namespace) -> None:
    """Replace `-` among the input files of a command by the path of a copy; several of them are refused."""
    uses = [name for name in _INPUTS for path in _paths(args, name) if path == STANDARD]
    uses += ["file"] if getattr(args, "file", None) == STANDARD else []
    if len(uses) > 1:
        raise UsageError("standard input can be read only once", advice="Give `-` for one file, and paths for others.")
    if "events" not in uses and "events" in vars(args) and getattr(args, "content_type", None) is not None:
        raise UsageError("--content-type is the format of standard input", advice="Leave it out, or give --events -.")
    if not uses or uses == ["file"] or (args.command in STREAMED and uses == ["files"]):
        return
    (name,) = uses
    path = _copy(_kind(args, name), getattr(args, "content_type", None))
    value = getattr(args, name)
    setattr(args, name, [path if each == STANDARD else each for each in value] if isinstance(value, list) else path)


def _paths(args: argparse.Namespace, name: str) -> list[str]:
    value = getattr(args, name, None)
    return value if isinstance(value, list) else [str(value)]


def _kind(args: argparse.Namespace, name: str) -> str:
    is_rdf = args.command in ("ontology", "background") or getattr(args, "source", None) == "rdf"
    return _RDF if name == "files" and is_rdf else _INPUTS[name]


def _copy(kind: str, content_type: str | None) -> str:
    """The path of a file with the content of standard input, deleted when the process ends."""
    if sys.stdin.isatty():
        print(f"reading {kind} from the terminal; end with Ctrl-D", file=sys.stderr)
    folder = tempfile.mkdtemp(prefix="motet-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder, "standard-input")
    with path.open("wb") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
    if kind == _TEXT:
        return str(path)
    with path.open("rb") as copy:
        head = copy.read(SAMPLE_BYTES)
    suffix = _event_suffix(head, content_type) if kind == _EVENTS else _rdf_suffix(head)
    return str(path.rename(path.with_suffix(suffix)))


def _event_suffix(head: bytes, content_type: str | None) -> str:
    from motet.codec.formats import SUFFIXES, Format, format_of_content_type, guess_format

    syntax = format_of_content_type(content_type) if content_type else guess_format(head)
    syntax = Format.CLOUDEVENT if syntax.is_cloudevents else syntax
    return next(suffix for suffix, each in SUFFIXES.items() if each is syntax)


def _rdf_suffix(head: bytes) -> str:
    """The suffix of JSON-LD, or that of RDF/XML and Turtle, which the reader distinguishes."""
    return ".jsonld" if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")) else ".owl"
