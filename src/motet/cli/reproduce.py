"""`motet reproduce`: repeat an experiment of a published system and print its figures beside the published ones."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from motet.cli import output
from motet.model.errors import UsageError

if TYPE_CHECKING:
    from motet.reproduce.bsbm import QueryFigures

HELP = "repeat an experiment of a published system"
EXAMPLES = """\
  motet reproduce bsbm                     # EventCloud's queries over 666 products: results and zones visited
  motet reproduce bsbm --zones 64 --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("experiment", choices=["bsbm"], help="bsbm: EventCloud, section 3.3.2: four queries, their results and zones")
    add("--zones", type=int, default=300, metavar="N", help="about so many zones; the thesis has 300 peers")
    add("--seed", type=int, default=1, help="seed of the dataset (default: 1)")
    add("--directory", metavar="DIR", help="keep the lake in a new directory (default: a temporary one)")
    add("--json", action="store_true", help="print the figures as JSON")


def run(args: argparse.Namespace) -> int:
    from motet.reproduce import bsbm

    if args.zones < 1:
        raise UsageError(f"--zones must be at least 1, not {args.zones}", advice="Omit it for the thesis' 300.")
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(args.directory or Path(folder, "lake"))
        if directory.exists() and any(directory.iterdir()):
            raise UsageError(f"{directory} is not empty", advice="Name a new directory.")
        with output.status_line("BSBM") as update:
            update("making the dataset and its zones")
            lake = bsbm.load(directory, seed=args.seed, zones=args.zones)
            update("answering the queries")
            figures = bsbm.ask(lake)
    _report(figures, as_json=args.json)
    return 0 if all(figure.triples == figure.query.triples for figure in figures) else 1


def _report(figures: list[QueryFigures], *, as_json: bool) -> None:
    headers = ["query", "triples", "thesis_triples", "zones", "of_zones", "thesis_peers_of_300", "milliseconds"]
    rows = [
        [f.query.name, f.triples, f.query.triples, f.visited, f.zones, f.query.peers, round(1000 * f.seconds, 1)]
        for f in figures
    ]
    if as_json:
        output.print_json([dict(zip(headers, row, strict=True)) for row in rows])
    else:
        output.print_table(rows, headers=[header.replace("_", " ") for header in headers])
