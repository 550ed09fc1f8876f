"""`motet reproduce`: repeat an experiment of a published system and print its figures beside the published ones."""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
  motet reproduce pastry-recovery          # half of 10 000 nodes crash at once; takes minutes
  motet reproduce pastry-recovery --seed 1 --runs 100 --json
"""
PEERS = {"overlay-hops": [128, 1024, 4096], "broadcast": [100], "pastry-churn": [1_000], "pastry-recovery": [10_000]}
OPTIONS: dict[str, dict[str, Any]] = {
    "bsbm": {"zones": 300, "directory": None},
    "exmlql": {},
    "overlay-hops": {"peers": None},
    "broadcast": {"peers": None},
    "pastry-churn": {"peers": None, "session": 1_800.0, "lookups": 100_000, "seconds": 1_000},
    "pastry-recovery": {"peers": None, "runs": 1},
}
"""The options of each experiment with their defaults; all have --seed and --json."""
MAX_PEERS = 20_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "experiment",
        choices=list(OPTIONS),
        help="bsbm: EventCloud, section 3.3.2: four queries, their results and zones; exmlql: "
        "EXML-QL, table 1: the time of 1 000 blocks over XML events; overlay-hops: hops of unicasts; "
        "broadcast: EventCloud, section 3.2.2: duplicates of broadcasts; pastry-churn: lookups while "
        "nodes fail; pastry-recovery: the crash of half a network",
    )
    add("--zones", type=int, metavar="N", help="bsbm: about so many zones; the thesis has 300 peers (default: 300)")
    add("--peers", type=int, nargs="+", metavar="N", help="the sizes of the networks (default: the published ones)")
    add("--session", type=float, metavar="S", help="pastry-churn: mean session in seconds (default: 1800)")
    add("--lookups", type=int, metavar="N", help="pastry-churn: lookups (default: 100000)")
    add("--seconds", type=int, metavar="S", help="pastry-churn: virtual seconds (default: 1000)")
    add("--runs", type=int, metavar="N", help="pastry-recovery: runs, with seeds from --seed on (default: 1)")
    add("--seed", type=int, default=1, help="seed of the dataset or of the network (default: 1)")
    add("--directory", metavar="DIR", help="bsbm: keep the lake in a new directory (default: a temporary one)")
    add("--json", action="store_true", help="print the figures as JSON")


def run(args: argparse.Namespace) -> int:
    _check_options(args)
    commands = {"bsbm": _bsbm, "exmlql": _exmlql, "overlay-hops": _hops, "broadcast": _broadcast}
    return commands.get(args.experiment, _pastry)(args)


def _check_options(args: argparse.Namespace) -> None:
    """Refuse options of other experiments and wrong values; the others get their defaults."""
    options = OPTIONS[args.experiment]
    for name in sorted({name for others in OPTIONS.values() for name in others}):
        if getattr(args, name) is None:
            setattr(args, name, options.get(name))
        elif name not in options:
            known = ", ".join(f"--{option}" for option in (*options, "seed", "json"))
            raise UsageError(f"--{name} is not an option of {args.experiment}", advice=f"Its options are {known}.")
    for name in ("zones", "session", "lookups", "seconds", "runs"):
        value = getattr(args, name)
        if value is not None and not 0 < value < math.inf:
            raise UsageError(f"--{name} must be positive, not {value}", advice="Omit it for the default.")
    if not all(2 <= size <= MAX_PEERS for size in args.peers or ()):
        raise UsageError(f"--peers must be from 2 to {MAX_PEERS}", advice="Omit it for the published sizes.")


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

    with tempfile.TemporaryDirectory() as folder:
        directory = Path(args.directory or Path(folder, "lake"))
        if directory.exists() and any(directory.iterdir()):
            raise UsageError(f"{directory} is not empty", advice="Name a new directory.")
        with output.status_line("BSBM") as update:
            update("making the dataset and its zones")
            lake = bsbm.load(directory, seed=args.seed, zones=args.zones)
            update("answering the queries")
            figures = bsbm.ask(lake)
    _print_queries(figures, as_json=args.json)
    return 0 if all(figure.triples == figure.query.triples for figure in figures) else 1


def _hops(args: argparse.Namespace) -> int:
    from motet.reproduce import overlays

    cans: list[overlays.CanHops] = []
    rings: list[overlays.RingHops] = []
    with output.status_line("hops") as update:
        for size in args.peers or overlays.IDEAL_HOPS:
            update(f"routing in Pastry networks of {size} nodes")
            rings += overlays.ring_hops(size, seed=args.seed)
        for size in args.peers or PEERS["overlay-hops"]:
            update(f"joining {size} peers and looking up 2 000 points")
            cans += overlays.can_hops(size, seed=args.seed)
    if args.json:
        names = [*overlays.CanHops._fields, "stretch"]
        rows: list[list[object]] = [["CAN, 4 dimensions", *can, None] for can in cans]
        rows += [["Pastry", r.nodes, r.mode, r.mean_hops, r.ideal_hops, None, None, *r[4:]] for r in rings]
        _print(rows, ["overlay", *names], as_json=True)
    else:
        print("Pastry")
        _print(rings, overlays.RingHops._fields, as_json=False)
        print("\nCAN, 4 dimensions")
        headers = ["peers", "routing", "hops", "expected", "neighbours", "wrapped", "lookups", "answered"]
        _print(cans, headers, as_json=False)
    is_expected = all(ring.is_expected for ring in rings) and all(can.is_expected for can in cans)
    return 0 if is_expected else 1


def _broadcast(args: argparse.Namespace) -> int:
    from motet.reproduce import overlays

    figures: list[overlays.BroadcastFigures] = []
    with output.status_line("CAN") as update:
        for size in args.peers or PEERS["broadcast"]:
            update(f"joining {size} peers and broadcasting")
            figures += overlays.broadcast_figures(size, seed=args.seed)
    _print_columns(figures, overlays.BroadcastFigures._fields, as_json=args.json)
    return 0 if all(figure.optimal_duplicates == 0 for figure in figures) else 1


def _pastry(args: argparse.Namespace) -> int:
    from motet.reproduce import overlays

    figures: list[overlays.ChurnFigures | overlays.RecoveryFigures] = []
    is_churn = args.experiment == "pastry-churn"
    with output.status_line(args.experiment) as update:
        for size in args.peers or PEERS[args.experiment]:
            if is_churn:
                update(f"{size} nodes")
                options = {"lookups": args.lookups, "seconds": args.seconds, "seed": args.seed}
                figures.append(overlays.churn(size, mean_session=args.session, **options))
            for seed in range(args.seed, args.seed + (args.runs or 0)):
                update(f"{size} nodes, seed {seed}")
                figures.append(overlays.recovery(size, seed=seed))
    rows: list[list[object]] = [[*figure, figure.is_expected] for figure in figures]
    print_rows = _print_columns if is_churn else _print
    print_rows(rows, [*figures[0]._fields, "as_expected"], as_json=args.json)
    return 0 if all(figure.is_expected for figure in figures) else 1


def _print_queries(figures: list[QueryFigures], *, as_json: bool) -> None:
    headers = ["query", "triples", "thesis_triples", "zones", "of_zones", "thesis_peers_of_300", "milliseconds"]
    rows = [
        [f.query.name, f.triples, f.query.triples, f.visited, f.zones, f.query.peers, round(1000 * f.seconds, 1)]
        for f in figures
    ]
    _print(rows, headers, as_json=as_json)


def _print(rows: Sequence[Sequence[object]], headers: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        output.print_json([dict(zip(headers, row, strict=True)) for row in rows])
    else:
        output.print_table(rows, headers=[header.replace("_", " ") for header in headers])


def _print_columns(rows: Sequence[Sequence[object]], headers: Sequence[str], *, as_json: bool) -> None:
    """Print few rows with many figures: a line for each figure, a column for each row."""
    if as_json:
        _print(rows, headers, as_json=True)
    else:
        lines = zip(headers, *rows, strict=True)
        output.print_table([[name.replace("_", " "), *figures] for name, *figures in lines])
