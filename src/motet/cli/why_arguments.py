"""What `motet why`, `why-not` and `diff` share: arguments, the prefixes of IRIs, and the printed tree."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

from motet.cli import output
from motet.cli.tick import instant_of
from motet.language.parse import SYNTAXES
from motet.model.errors import UsageError

if TYPE_CHECKING:
    from motet.jobs.investigate import WhyInput
    from motet.language.syntax import Subscription


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lake", metavar="DIR", help="explain a lake, or files as `motet run` takes them:")
    parser.add_argument("--subscriptions", nargs="+", metavar="FILE", default=[])
    parser.add_argument("--events", nargs="+", metavar="FILE", default=[])
    parser.add_argument("--ontology", nargs="+", metavar="FILE", default=[])
    parser.add_argument("--catalogue", metavar="FILE", help="JSON object from IRIs the ontology imports to paths")
    parser.add_argument("--syntax", choices=SYNTAXES, default="motet", help="the language of the subscriptions")
    parser.add_argument("--entailment", choices=["none", "rdfs", "owl-rl"], help="default: as for `motet run`")
    parser.add_argument("--arrival", metavar="TIME", help="time of events that carry none; default: now")
    add_prefix_argument(parser)
    parser.add_argument("--json", action="store_true")


def add_prefix_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--prefix",
        action="append",
        default=[],
        metavar="NAME=IRI",
        help="shorten IRIs, in addition to the prefixes that the subscription files declare",
    )


def check(args: argparse.Namespace) -> None:
    """Require a lake or files, not both."""
    has_files = bool(args.subscriptions) and bool(args.events)
    if bool(args.lake) == has_files or (args.lake and (args.subscriptions or args.events)):
        raise UsageError("a lake or files are required", advice="Give --lake DIR, or --subscriptions and --events.")


def show(lines: Iterable[tuple[str, str, str]], note: str) -> None:
    """Print a tree, in colour on a terminal."""
    from rich.console import Console
    from rich.text import Text

    styles = {"head": "bold", "operator": "bold yellow", "leaf": "bold cyan", "fact": ""}
    console = Console(highlight=False, soft_wrap=True)
    for branch, text, kind in lines:
        console.print(Text.assemble((branch, "dim"), (text, styles[kind])))
    if note:
        output.complain(note)


def prefixes_of(args: argparse.Namespace) -> dict[str, str]:
    wrong = next((pair for pair in args.prefix if "=" not in pair), None)
    if wrong is not None:
        raise UsageError(f"--prefix {wrong!r} is not NAME=IRI", advice="Write for example ex=http://example.org/#")
    return dict(pair.split("=", 1) for pair in args.prefix)


def declared_prefixes(documents: Iterable[tuple[str, tuple[Subscription, ...], str]]) -> dict[str, str]:
    """The prefixes that subscription files declare."""
    from motet.sparql.prologue import read_prologue
    from motet.sparql.tokens import Document

    prefixes: dict[str, str] = {}
    for text, _, path in documents:
        prefixes |= read_prologue(Document(text, path))[0].prefixes
    return prefixes


def input_from_files(args: argparse.Namespace, required: tuple[str, ...] = ()) -> WhyInput:
    """What the files of the command line give to explain."""
    from motet.jobs.investigate import from_files
    from motet.jobs.run import load_job
    from motet.jobs.subscription_files import load_documents

    job = load_job(
        args.subscriptions,
        args.events,
        ontology=args.ontology,
        catalogue=args.catalogue,
        syntax=args.syntax,
        entailment=args.entailment,
        arrival=instant_of(args.arrival or "now"),
    )
    prefixes = declared_prefixes(load_documents(args.subscriptions, syntax=args.syntax)) | prefixes_of(args)
    return from_files(job, prefixes, output.Rejections(None), required)
