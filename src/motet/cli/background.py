"""`motet background`: show or change the background graph of a lake: its ontology and individuals."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from motet.cli import arguments, output

if TYPE_CHECKING:
    from motet.model.batches import Triple

HELP = "show or change the background graph of a lake: the ontology and individuals that events are read with"
EXAMPLES = """\
  motet background add --lake building building.ttl
  motet background show --lake building > background.nt
  motet background remove --lake building rooms-of-last-year.ttl

a change holds for the events after it
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, help_ in (
        ("add", "add the triples of files, with their imports; creates the lake if there is none"),
        ("remove", "remove the triples of files; their imports stay"),
        ("show", "print the background as N-Triples"),
    ):
        action = actions.add_parser(name, help=help_, description=f"{help_[0].upper()}{help_[1:]}.")
        if name != "show":
            action.add_argument(
                "files", nargs="+", metavar="FILE", help="Turtle, RDF/XML, JSON-LD or N-Triples; - for standard input"
            )
        if name == "add":
            arguments.add_import_arguments(action)
        action.add_argument("--lake", metavar="DIR", required=True, help="the lake")
        action.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    return {"add": _add, "remove": _remove, "show": _show}[args.action](args)


def _add(args: argparse.Namespace) -> int:
    from motet.jobs.background import add_to_background
    from motet.lake import Lake

    triples = arguments.load_ontology(args, args.files).triples
    return _report(args, "added", add_to_background(Lake.open(args.lake), triples), len(triples))


def _remove(args: argparse.Namespace) -> int:
    from pathlib import Path

    from motet.jobs.background import remove_from_background
    from motet.jobs.subscription_files import existing_file
    from motet.lake import Lake
    from motet.ontology.load import read_ontology_file

    lake = Lake.open(args.lake, create=False)
    triples: set[Triple] = set()
    for path in args.files:
        triples.update(read_ontology_file(Path(existing_file(path, "ontology file"))).triples)
    return _report(args, "removed", remove_from_background(lake, triples), len(triples))


def _report(args: argparse.Namespace, change: str, changed: int, given: int) -> int:
    fields = {change: changed, "unchanged": given - changed, "lake": args.lake}
    output.print_json(fields) if args.json else output.print_fields(fields)
    if change == "removed" and changed < given:
        output.warn(f"{given - changed} of the triples are not in the background")
    return 0


def _show(args: argparse.Namespace) -> int:
    from motet.jobs.background import background_of
    from motet.lake import Lake

    triples = sorted(background_of(Lake.open(args.lake, create=False).snapshot()))
    if args.json:
        output.print_json({"lake": args.lake, "triples": [list(triple) for triple in triples]})
    else:
        for triple in triples:
            print(*triple, ".")
    return 0
