"""`motet ingest`: append the events of files, of a watched directory or of a NATS stream to a lake."""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from motet.cli import output
from motet.cli.shutdown import graceful_shutdown
from motet.model.errors import UsageError
from motet.model.settings import parse_setting_duration

if TYPE_CHECKING:
    from motet.connectors.ingestion import IngestResult
    from motet.lake import Lake

HELP = "append the events of files, a watched directory or a NATS stream to a lake"
EXAMPLES = """\
  motet ingest --lake building monday.nq tuesday.nq.gz
  motet ingest --lake building --lateness '10 min' --json *.trig
  motet ingest --lake building --watch inbox            # each new file once, until Ctrl-C
  motet ingest --lake building --watch inbox --once     # the files that are there, then stop
  motet ingest --lake building --nats nats://127.0.0.1:4222 --stream EVENTS --durable motet
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("files", nargs="*", metavar="FILE", help="event files, in the order to append")
    add("--watch", metavar="DIR", help="ingest the files of a directory, and those that appear in it")
    add("--nats", metavar="URL", help="ingest the messages of a stream of this NATS server")
    add("--stream", metavar="NAME", help="the JetStream stream (with --nats)")
    add("--durable", metavar="NAME", default="motet", help="the durable consumer of the stream (default: %(default)s)")
    add(
        "--content-type",
        metavar="TYPE",
        default="application/n-quads",
        help="the format of messages without a Content-Type header (default: %(default)s)",
    )
    add("--once", action="store_true", help="with --watch or --nats: stop when no input is left")
    add("--lake", metavar="DIR", required=True, help="the lake, created if there is none")
    add(
        "--lateness",
        metavar="DURATION",
        help="for a new lake: how far an event may end behind the newest one and still be matched, "
        "such as '10 min', or 'unlimited' (default: 5 s)",
    )
    add(
        "--dead-letter",
        metavar="FILE",
        help="where rejected events are written (default: dead-letter/rejected.jsonl in the lake)",
    )
    add("--json", action="store_true", help="print the summary as JSON")


def run(args: argparse.Namespace) -> int:
    from motet.lake import Lake

    _check(args)
    lake = (
        Lake.open(args.lake)
        if args.lateness is None
        else Lake.open(args.lake, lateness=parse_setting_duration(args.lateness, "unlimited"))
    )
    rejections = output.Rejections(args.dead_letter or Path(args.lake) / "dead-letter" / "rejected.jsonl")
    totals = _Totals("messages" if args.nats else "files")
    started = time.perf_counter()
    if args.files:
        _ingest_files(args.files, lake, rejections, totals)
    else:
        _follow(args, lake, rejections, totals)
    fields = totals.counts | {"rejected": rejections.count, "lake": args.lake}
    fields["seconds"] = round(time.perf_counter() - started, 3)
    output.print_json(fields) if args.json else output.print_fields(fields)
    _print_advice(totals.counts["late"], rejections)
    return 1 if rejections.count else 0


class _Totals:
    """The counts of the summary."""

    def __init__(self, inputs: str) -> None:
        self.inputs = inputs
        self.counts = {inputs: 0, "accepted": 0, "repeated": 0, "stamped": 0, "late": 0}

    def add(self, result: IngestResult) -> str:
        """Add a commit; returns the text that shows the progress."""
        self.counts[self.inputs] += result.inputs
        for name in ("accepted", "repeated", "stamped", "late"):
            self.counts[name] += getattr(result.receipt, name)
        return f"{self.counts['accepted']} events"


def _ingest_files(paths: list[str], lake: Lake, rejections: output.Rejections, totals: _Totals) -> None:
    from motet.connectors.ingestion import ingest_files

    with output.byte_progress() as progress:
        task = progress.add_task("reading", total=sum(_sizes(paths)), note="")
        on_read = partial(progress.advance, task)
        for result in ingest_files(lake, paths, rejections, on_read=on_read):
            progress.update(task, note=totals.add(result))
    totals.counts["files"] = len(paths)


def _follow(args: argparse.Namespace, lake: Lake, rejections: output.Rejections, totals: _Totals) -> None:
    with graceful_shutdown() as stop_requested, output.status_line("ingesting") as show:

        def on_commit(result: IngestResult) -> None:
            show(totals.add(result))

        if args.watch:
            from motet.connectors.directory import DirectorySource, watch_directory

            watch_directory(DirectorySource(args.watch, lake, rejections), on_commit, stop_requested, once=args.once)
            return
        from motet.connectors.nats import StreamSource, ingest_stream

        source = StreamSource(args.nats, args.stream, args.durable, args.content_type)
        ingest_stream(
            source,
            lake,
            rejections,
            on_commit=on_commit,
            report=output.warn,
            stop_requested=stop_requested,
            once=args.once,
        )


def _check(args: argparse.Namespace) -> None:
    """Refuse wrong arguments before a lake is created."""
    from motet.codec.formats import format_of_content_type

    if sum(map(bool, (args.files, args.watch, args.nats))) != 1:
        raise UsageError("exactly one source is required", advice="Give files, or --watch DIR, or --nats URL.")
    if args.nats and not args.stream:
        raise UsageError("--nats requires the name of a stream", advice="Add --stream NAME.")
    if args.once and args.files:
        raise UsageError("--once is for --watch and --nats", advice="Omit it: files are read once anyway.")
    if args.watch and not Path(args.watch).is_dir():
        raise UsageError(f"there is no directory {args.watch!r}", advice="Create it, or check the path.")
    format_of_content_type(args.content_type)
    _sizes(args.files)


def _sizes(paths: list[str]) -> list[int]:
    for path in paths:
        if not Path(path).is_file():
            raise UsageError(f"there is no event file {path!r}", advice="Check the path; for a directory use --watch.")
    return [Path(path).stat().st_size for path in paths]


def _print_advice(late: int, rejections: output.Rejections) -> None:
    if late:
        output.warn(
            f"late events: {late}. They are stored and can be queried, but subscriptions do not match them.\n"
            "  Ingest in time order, or increase the lateness: motet settings --lake DIR --lateness '1 min'"
        )
    if rejections.count:
        output.warn(f"rejected events: {rejections.count}. See the dead letters in {rejections.path}.")
