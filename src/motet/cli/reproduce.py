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
  motet reproduce overlay-hops             # hops in simulated Pastry and CAN networks, beside the expected ones
  motet reproduce exmlql                   # 1 000 blocks of EXML-QL over 100 to 500 XML events
  motet reproduce broadcast --peers 100    # messages of the optimal broadcast and of flooding
  motet reproduce pastry-churn             # 1 000 nodes, 5 % loss, sessions of 30 minutes; takes minutes
  motet reproduce pastry-churn --session 121 --lookups 10000 --seconds 200
  motet reproduce pastry-recovery --seed 7 # half of 10 000 nodes crash at once; takes minutes
"""
PEERS = {"overlay-hops": [128, 1024], "broadcast": [100]}
PASTRY = {"pastry-churn": 1_000, "pastry-recovery": 10_000}
MAX_PEERS = 20_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "experiment",
        choices=["bsbm", "exmlql", *PEERS, *PASTRY],
        help="bsbm: EventCloud, section 3.3.2: four queries, their results and zones; exmlql: "
        "EXML-QL, table 1: the time of 1 000 blocks over XML events; overlay-hops: hops of unicasts; "
        "broadcast: EventCloud, section 3.2.2: duplicates of broadcasts; pastry-churn: lookups while "
        "nodes fail; pastry-recovery: the crash of half a network",
    )
    add("--zones", type=int, metavar="N", help="bsbm: about so many zones; the thesis has 300 peers (default: 300)")
    add("--peers", type=int, nargs="+", metavar="N", help="the sizes of the networks (default: the published ones)")
    add(
        "--session", type=float, default=1800, metavar="S", help="pastry-churn: mean session in seconds (default: 1800)"
    )
    add("--lookups", type=int, default=100_000, metavar="N", help="pastry-churn: lookups (default: 100000)")
    add("--seconds", type=int, default=1000, metavar="S", help="pastry-churn: virtual seconds (default: 1000)")
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
    if args.experiment in PASTRY:
        return _pastry(args)
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
    from motet.reproduce import overlays

    figures: list[overlays.CanHops] = []
    rings: list[overlays.RingHops] = []
    with output.status_line("hops") as update:
        for size in args.peers or overlays.IDEAL_HOPS:
            update(f"routing in Pastry networks of {size} nodes")
            rings += overlays.ring_hops(size, seed=args.seed)
        for size in sizes:
            update(f"joining {size} peers and looking up 2 000 points")
            figures += overlays.can_hops(size, seed=args.seed)
    headers = ["overlay", "peers", "routing", "mean_hops", "expected_hops", "mean_neighbours", "wrapped_neighbours"]
    rows: list[list[object]] = [["CAN, 4 dimensions", *figure, None] for figure in figures]
    rows += [
        ["Pastry", r.nodes, r.mode, r.mean_hops, r.ideal_hops, None, None, r.lookups, r.answered, r.stretch]
        for r in rings
    ]
    _print(rows, [*headers, "lookups", "answered", "stretch"], as_json=args.json)
    is_expected = all(figure.is_expected for figure in figures) and all(ring.is_expected for ring in rings)
    return 0 if is_expected else 1


def _broadcast(sizes: list[int], args: argparse.Namespace) -> int:
    from motet.reproduce import overlays

    figures: list[overlays.BroadcastFigures] = []
    with output.status_line("CAN") as update:
        for size in sizes:
            update(f"joining {size} peers and broadcasting")
            figures += overlays.broadcast_figures(size, seed=args.seed)
    _print([list(figure) for figure in figures], list(overlays.BroadcastFigures._fields), as_json=args.json)
    return 0 if all(figure.optimal_duplicates == 0 for figure in figures) else 1


def _pastry(args: argparse.Namespace) -> int:
    from motet.reproduce import overlays

    if args.session <= 0 or args.lookups < 1 or args.seconds < 1:
        raise UsageError("--session, --lookups and --seconds must be positive", advice="Omit them for the defaults.")
    sizes = args.peers or [PASTRY[args.experiment]]
    if not all(2 <= size <= MAX_PEERS for size in sizes):
        raise UsageError(f"--peers must be from 2 to {MAX_PEERS}", advice="Omit it for the published sizes.")
    figures: list[overlays.ChurnFigures | overlays.RecoveryFigures] = []
    with output.status_line(args.experiment) as update:
        for size in sizes:
            update(f"{size} nodes")
            if args.experiment == "pastry-recovery":
                figures.append(overlays.recovery(size, seed=args.seed))
            else:
                options = {"lookups": args.lookups, "seconds": args.seconds, "seed": args.seed}
                figures.append(overlays.churn(size, mean_session=args.session, **options))
    rows: list[list[object]] = [[*figure, figure.is_expected] for figure in figures]
    _print(rows, [*figures[0]._fields, "as_expected"], as_json=args.json)
    return 0 if all(figure.is_expected for figure in figures) else 1


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
