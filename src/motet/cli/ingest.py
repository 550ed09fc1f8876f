"""`motet ingest`: event files into a lake."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from motet.cli import output
from motet.model.errors import UsageError
from motet.model.times import UNITS

HELP = "append event files to a lake"
EXAMPLES = """\
  motet ingest --lake building monday.nq tuesday.nq.gz
  motet ingest --lake building --lateness '10 min' --json *.trig
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="event files, in the order to append")
    parser.add_argument("--lake", metavar="DIR", required=True, help="made when there is none")
    parser.add_argument(
        "--lateness",
        metavar="DURATION",
        help="for a new lake: how much later than the newest event one may end and still be matched, "
        "such as '10 min', or 'unlimited' (default: 1 min)",
    )
    parser.add_argument("--dead-letter", metavar="FILE", help="default: dead-letter/rejected.jsonl in the lake")
    parser.add_argument("--json", action="store_true", help="print what was done as JSON")


def run(args: argparse.Namespace) -> int:
    from motet.codec.decode import decode_file  # noqa: PLC0415  (loads the codecs)
    from motet.lake import Lake  # noqa: PLC0415

    sizes = _sizes(args.files)
    lake = Lake.open(args.lake) if args.lateness is None else Lake.open(args.lake, lateness=_lateness(args.lateness))
    rejections = output.Rejections(args.dead_letter or Path(args.lake) / "dead-letter" / "rejected.jsonl")
    totals = {"files": len(args.files), "accepted": 0, "duplicates": 0, "late": 0}
    started = time.perf_counter()
    with output.progress_bar() as progress:
        task = progress.add_task("reading", total=sum(sizes), note="")
        for path in args.files:
            for decoded in decode_file(path, on_read=lambda size: progress.advance(task, size)):
                rejections(decoded.rejected)
                appended = lake.append(decoded.events, now=time.time_ns() // 1000)
                for name in ("accepted", "duplicates", "late"):
                    totals[name] += getattr(appended, name)
                progress.update(task, note=f"{totals['accepted']} events")
    seconds = time.perf_counter() - started
    facts = totals | {"rejected": rejections.count, "lake": args.lake, "seconds": round(seconds, 3)}
    output.print_json(facts) if args.json else output.print_facts(facts)
    _advise(totals["late"], rejections)
    return 1 if rejections.count else 0


def _sizes(paths: list[str]) -> list[int]:
    for path in paths:
        if not Path(path).is_file():
            raise UsageError(f"there is no event file {path!r}", advice="Check the path; directories are not read.")
    return [Path(path).stat().st_size for path in paths]


def _lateness(text: str) -> int | None:
    number, _, unit = text.strip().partition(" ")
    if text == "unlimited":
        return None
    if not number.isdigit() or unit.strip() not in UNITS:
        raise UsageError(
            f"{text!r} is no lateness", advice=f"Write '10 min' or 'unlimited'; units: {', '.join(UNITS)}."
        )
    return int(number) * UNITS[unit.strip()]


def _advise(late: int, rejections: output.Rejections) -> None:
    if late:
        output.complain(
            f"{late} events were late: they are kept and can be queried, but subscriptions do not see them\n"
            "  Ingest in time order, or make the lake with a larger --lateness."
        )
    if rejections.count:
        output.complain(f"{rejections.count} events were rejected and are set aside in {rejections.path}")
