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
  motet reproduce overlay-hops             # hops and neighbours in a simulated CAN
  motet reproduce exmlql                   # 1 000 blocks of EXML-QL over 100 to 500 XML events
  motet reproduce broadcast --peers 100    # messages of the optimal broadcast and of flooding
"""
PEERS = {"overlay-hops": [128, 1024], "broadcast": [100]}
MAX_PEERS = 20_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "experiment",
        choices=["bsbm", "exmlql", *PEERS],
        help="bsbm: EventCloud, section 3.3.2: four queries, their results and zones; exmlql: "
        "EXML-QL, table 1: the time of 1 000 blocks over XML events; overlay-hops: hops of unicasts; "
        "broadcast: EventCloud, section 3.2.2: duplicates of broadcasts",
    )
    add("--zones", type=int, metavar="N", help="bsbm: about so many zones; the thesis has 300 peers (default: 300)")
    add("--peers", type=int, nargs="+", metavar="N", help="overlay-hops, broadcast: the sizes of the networks")
    add("--seed", type=int, default=1, help="seed of the dataset or of the network (default: 1)")
    add("--directory", metavar="DIR", help="bsbm: keep the lake in a new directory (default: a temporary one)")
    add("--json", action="store_true", help="print the figures as JSON")


def run(args: argparse.Namespace) -> int:
    if args.experiment == "bsbm":
        if args.peers is not None:
            raise UsageError("--peers is not an option of bsbm", advice="Use --zones.")
        return _bsbm(args)
    if args.experiment == "exmlql":
        if args.peers is not None or args.zones is not None or args.directory is not None:
            raise UsageError("exmlql has no option but --seed and --json", advice="Omit the others.")
        return _exmlql(args)
    if args.zones is not None or args.directory is not None:
        option = "--zones" if args.zones is not None else "--directory"
        raise UsageError(f"{option} is an option of bsbm only", advice="Use --peers for the size of the network.")
    sizes = args.peers or PEERS[args.experiment]
    if not all(2 <= size <= MAX_PEERS for size in sizes):
        raise UsageError(f"--peers must be from 2 to {MAX_PEERS}", advice="Omit it for the published sizes.")
    return _hops(sizes, args) if args.experiment == "overlay-hops" else _broadcast(sizes, args)


def _exmlql(args: argparse.Namespace) -> int:
    from motet.reproduce import exmlql

    with output.status_line("EXML-QL") as update:
        update("matching and composing")
        figures = exmlql.reproduce(args.seed)
    headers = ["events", "milliseconds", "milliseconds_per_event", "notifications", "paper_time", "steps", "step_bound"]
    rows = [
        [f.events, round(1000 * f.seconds, 1), round(1000 * f.seconds / f.events, 3), f.notifications, f.published,
         f.max_steps, f.step_bound]
        for f in figures
    ]  # fmt: skip
    if args.json:
        output.print_json([dict(zip(headers, row, strict=True)) for row in rows])
    else:
        output.print_table(rows, headers=[header.replace("_", " ") for header in headers])
    is_bounded = all(f.max_steps <= f.step_bound and f.notifications <= f.composition_bound for f in figures)
    return 0 if is_bounded else 1


def _bsbm(args: argparse.Namespace) -> int:
    from motet.reproduce import bsbm

    zones = 300 if args.zones is None else args.zones
    if zones < 1:
        raise UsageError(f"--zones must be at least 1, not {zones}", advice="Omit it for the thesis' 300.")
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(args.directory or Path(folder, "lake"))
        if directory.exists() and any(directory.iterdir()):
            raise UsageError(f"{directory} is not empty", advice="Name a new directory.")
        with output.status_line("BSBM") as update:
            update("making the dataset and its zones")
            lake = bsbm.load(directory, seed=args.seed, zones=zones)
            update("answering the queries")
            figures = bsbm.ask(lake)
    _print_queries(figures, as_json=args.json)
    return 0 if all(figure.triples == figure.query.triples for figure in figures) else 1


def _hops(sizes: list[int], args: argparse.Namespace) -> int:
    from motet.reproduce import can

    figures: list[can.HopFigures] = []
    with output.status_line("CAN") as update:
        for size in sizes:
            update(f"joining {size} peers and looking up 2 000 points")
            figures += can.hop_figures(size, seed=args.seed)
    headers = ["overlay", "peers", "routing", "mean_hops", "expected_hops", "mean_neighbours", "lookups", "answered"]
    _print([["CAN, 4 dimensions", *figure] for figure in figures], headers, as_json=args.json)
    return 0 if all(figure.is_expected for figure in figures) else 1


def _broadcast(sizes: list[int], args: argparse.Namespace) -> int:
    from motet.reproduce import can

    figures: list[can.BroadcastFigures] = []
    with output.status_line("CAN") as update:
        for size in sizes:
            update(f"joining {size} peers and broadcasting")
            figures += can.broadcast_figures(size, seed=args.seed)
    _print([list(figure) for figure in figures], list(can.BroadcastFigures._fields), as_json=args.json)
    return 0 if all(figure.optimal_duplicates == 0 for figure in figures) else 1


def _print_queries(figures: list[QueryFigures], *, as_json: bool) -> None:
    headers = ["query", "triples", "thesis_triples", "zones", "of_zones", "thesis_peers_of_300", "milliseconds"]
    rows = [
        [f.query.name, f.triples, f.query.triples, f.visited, f.zones, f.query.peers, round(1000 * f.seconds, 1)]
        for f in figures
    ]
    _print(rows, headers, as_json=as_json)


def _print(rows: list[list[object]], headers: list[str], *, as_json: bool) -> None:
    if as_json:
        output.print_json([dict(zip(headers, row, strict=True)) for row in rows])
    else:
        table = [["" if value is None else value for value in row] for row in rows]
        output.print_table(table, headers=[header.replace("_", " ") for header in headers])
