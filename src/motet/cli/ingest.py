"""`motet ingest`: events of files, of a directory that is watched, or of a NATS stream into a lake."""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from motet.cli import output
from motet.cli.stopping import until_asked_to_stop
from motet.model.errors import UsageError
from motet.model.times import UNITS

if TYPE_CHECKING:
    from motet.connectors.ingestion import Fed
    from motet.lake import Appended, Lake

HELP = "append the events of files, a watched directory or a NATS stream to a lake"
EXAMPLES = """\
  motet ingest --lake building monday.nq tuesday.nq.gz
  motet ingest --lake building --lateness '10 min' --json *.trig
  motet ingest --lake building --watch inbox            # until Ctrl-C; new files, each once
  motet ingest --lake building --watch inbox --once     # what is there, then stop
  motet ingest --lake building --nats nats://127.0.0.1:4222 --stream EVENTS --durable motet
"""
LOOK_SECONDS = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="*", metavar="FILE", help="event files, in the order to append")
    parser.add_argument("--watch", metavar="DIR", help="take in the files that are, and that appear, in a directory")
    parser.add_argument("--nats", metavar="URL", help="take in the messages of a stream of this NATS server")
    parser.add_argument("--stream", metavar="NAME", help="the JetStream stream; with --nats")
    parser.add_argument("--durable", metavar="NAME", default="motet", help="its consumer (default: %(default)s)")
    parser.add_argument(
        "--content-type",
        metavar="TYPE",
        default="application/n-quads",
        help="of messages without a Content-Type header (default: %(default)s)",
    )
    parser.add_argument("--once", action="store_true", help="with --watch or --nats: stop when nothing is left")
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
    from motet.lake import Lake

    _check(args)
    lake = Lake.open(args.lake) if args.lateness is None else Lake.open(args.lake, lateness=_lateness(args.lateness))
    rejections = output.Rejections(args.dead_letter or Path(args.lake) / "dead-letter" / "rejected.jsonl")
    totals = _Totals("messages" if args.nats else "files")
    started = time.perf_counter()
    if args.files:
        _take_files(args.files, lake, rejections, totals)
    else:
        _follow(args, lake, rejections, totals)
    facts = totals.counts | {"rejected": rejections.count, "lake": args.lake}
    facts["seconds"] = round(time.perf_counter() - started, 3)
    output.print_json(facts) if args.json else output.print_facts(facts)
    _advise(totals.counts["late"], rejections)
    return 1 if rejections.count else 0


class _Totals:
    """What has been done so far."""

    def __init__(self, inputs: str) -> None:
        self.inputs = inputs
        self.counts = {inputs: 0, "accepted": 0, "duplicates": 0, "late": 0}

    def add(self, inputs: int, appended: Appended) -> str:
        self.counts[self.inputs] += inputs
        for name in ("accepted", "duplicates", "late"):
            self.counts[name] += getattr(appended, name)
        return f"{self.counts['accepted']} events"


def _take_files(paths: list[str], lake: Lake, rejections: output.Rejections, totals: _Totals) -> None:
    from motet.codec.decode import decode_file

    sizes = _sizes(paths)
    with output.progress_bar() as progress:
        task = progress.add_task("reading", total=sum(sizes), note="")
        for path in paths:
            for decoded in decode_file(path, on_read=lambda size: progress.advance(task, size)):
                rejections(decoded.rejected)
                appended = lake.append(decoded.events, now=time.time_ns() // 1000)
                progress.update(task, note=totals.add(0, appended))
            totals.counts["files"] += 1


def _follow(args: argparse.Namespace, lake: Lake, rejections: output.Rejections, totals: _Totals) -> None:
    with until_asked_to_stop() as asked, output.counting("following") as show:

        def told(fed: Fed) -> None:
            show(totals.add(fed.inputs, fed.appended))

        if args.watch:
            _watch(args, lake, rejections, told, asked)
            return
        from motet.connectors.nats import Stream, follow_stream

        stream = Stream(args.nats, args.stream, args.durable, args.content_type)
        follow_stream(stream, lake, rejections, told=told, say=output.complain, stopped=asked.is_set, once=args.once)


def _watch(
    args: argparse.Namespace,
    lake: Lake,
    rejections: output.Rejections,
    told: Callable[[Fed], None],
    asked: threading.Event,
) -> None:
    from motet.connectors.directory import Directory

    directory = Directory(args.watch, lake, rejections)
    while not asked.is_set():
        began = time.monotonic()
        for fed in directory.take(began):
            told(fed)
            if asked.is_set():
                return
        if args.once and directory.is_done:
            return
        asked.wait(max(LOOK_SECONDS, time.monotonic() - began))  # a large directory takes a while to list


def _check(args: argparse.Namespace) -> None:
    """Refuse a request that makes no sense before a lake is made for it."""
    from motet.codec.formats import format_of_content_type

    if sum(map(bool, (args.files, args.watch, args.nats))) != 1:
        raise UsageError("say where the events are", advice="Give files, or --watch DIR, or --nats URL.")
    if args.nats and not args.stream:
        raise UsageError("say which stream of the NATS server", advice="Add --stream NAME.")
    if args.once and args.files:
        raise UsageError("--once is for --watch and --nats", advice="Leave it out: files are read once anyway.")
    if args.watch and not Path(args.watch).is_dir():
        raise UsageError(f"there is no directory {args.watch!r}", advice="Make it, or check the path.")
    format_of_content_type(args.content_type)
    _sizes(args.files)


def _sizes(paths: list[str]) -> list[int]:
    for path in paths:
        if not Path(path).is_file():
            raise UsageError(f"there is no event file {path!r}", advice="Check the path; for a directory use --watch.")
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
