"""`motet ingest`: append events to a lake: of files, standard input, a watched directory or a NATS stream."""

from __future__ import annotations

import argparse
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from motet.cli import arguments, mapping, output
from motet.cli.shutdown import graceful_shutdown
from motet.cli.standard_input import STANDARD
from motet.model.errors import UsageError
from motet.model.settings import SettingValues, parse_setting_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from motet.connectors.ingestion import DocumentOptions, IngestResult
    from motet.lake import Lake

CHUNK_BYTES = 1 << 20
HELP = "append the events of files, standard input, a watched directory or a NATS stream to a lake"
EXAMPLES = """\
  motet ingest --lake building monday.nq tuesday.nq.gz  # one load: committed in the order of time
  sensors | motet ingest --lake building -              # committed as they come
  motet ingest --lake building --lateness '10 min' --json *.trig
  motet ingest --map new readings.csv > readings.yaml   # a mapping for rows, to edit
  motet ingest --map readings.yaml --dry-run readings.csv
  motet ingest --lake building --map readings.yaml readings.csv more.ndjson
  motet ingest --lake building --ontology building.ttl events.nq
  motet ingest --lake building --watch inbox            # each new file once, until Ctrl-C
  motet ingest --lake building --watch inbox --once     # the files that are there, then stop
  motet ingest --lake building --nats nats://127.0.0.1:4222 --stream EVENTS --durable motet

status: 1 when events were rejected; with --strict 3, also when events were late
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("files", nargs="*", metavar="FILE", help="event files, in any order; - for standard input")
    add("--watch", metavar="DIR", help="ingest the files of a directory, and those that appear in it")
    add("--nats", metavar="URL", help="ingest the messages of a stream of this NATS server")
    add("--stream", metavar="NAME", help="the JetStream stream (with --nats)")
    add("--durable", metavar="NAME", default="motet", help="the durable consumer of the stream (default: %(default)s)")
    add(
        "--content-type",
        metavar="TYPE",
        help="the format of standard input, and of messages without a Content-Type header (default: N-Quads)",
    )
    add("--id", metavar="IRI", help="the file, or standard input, is one event with this IRI")
    add("--base", metavar="IRI", help="the base of relative IRIs in documents that have none")
    add(
        "--rest",
        choices=["refuse", "drop", "share"],
        default="refuse",
        help="triples that belong to no event: refuse their document, drop them, or share them between all its events "
        "(default: %(default)s)",
    )
    mapping.add_mapping_arguments(parser)
    add("--once", action="store_true", help="with --watch or --nats: stop when no input is left")
    add("--lake", metavar="DIR", help="the lake, created if there is none; required unless nothing is written")
    add(
        "--lateness",
        metavar="DURATION",
        help="for a new lake: how far an event may end behind the newest one and still be matched, "
        "such as '10 min', or 'unlimited' (default: 5 s); motet settings changes it later",
    )
    add(
        "--dead-letter",
        metavar="FILE",
        help="where rejected events are written (default: dead-letter/rejected.jsonl in the lake)",
    )
    arguments.add_background_argument(parser)
    arguments.add_strict_argument(parser)
    add("--json", action="store_true", help="print the summary as JSON")


def run(args: argparse.Namespace) -> int:
    from motet.lake import Lake, is_lake

    _check(args)
    if mapping.is_preview(args):
        return mapping.preview(args)
    settings: SettingValues = {}
    if args.lateness is not None:
        settings["lateness"] = parse_setting_duration(args.lateness, "unlimited")
    is_new = not is_lake(args.lake)
    lake = Lake.open(args.lake, **settings)
    rejections = output.Rejections(args.dead_letter or Path(args.lake) / "dead-letter" / "rejected.jsonl")
    totals = _Totals("messages" if args.nats else "files", rejections)
    started = time.perf_counter()
    is_complete = False
    try:
        arguments.add_ontology(args, lake)
        if args.files == [STANDARD]:
            _ingest_standard_input(args, lake, rejections, totals)
        elif args.files:
            _ingest_files(args, lake, rejections, totals)
        else:
            _follow(args, lake, rejections, totals)
        is_complete = True
    finally:  # what was done is said also when the rest fails
        if is_new and not totals.result.accepted and (rejections.count or not is_complete) and lake.delete_if_empty():
            output.warn(f"no event was accepted, so no lake {args.lake} was created")
        fields = totals.counts | {"lake": args.lake, "seconds": round(time.perf_counter() - started, 3)}
        if not is_complete:
            output.warn("stopped before the end of the input: the summary is of what was committed")
        output.print_json({**fields, "complete": is_complete}) if args.json else output.print_fields(fields)
        _print_advice(totals.result, rejections, args.lake)
    return arguments.exit_status(args, rejected=rejections.count, late=totals.result.late)


class _Totals:
    """The counts of the summary and of the progress line."""

    def __init__(self, inputs: str, rejections: output.Rejections) -> None:
        from motet.connectors.ingestion import IngestResult

        self._inputs = inputs
        self._rejections = rejections
        self.result = IngestResult()

    @property
    def counts(self) -> dict[str, object]:
        """The counts by name; conflicting events are among the rejected ones."""
        return {self._inputs: self.result.inputs, "accepted": self.result.accepted, **self._others()}

    def _others(self) -> dict[str, int]:
        names = ("repeated", "stamped", "late", "left_out")
        counts = {name: getattr(self.result, name) for name in names}
        return counts | {"rejected": self._rejections.count, "conflicting": self._rejections.conflicts}

    @property
    def decided(self) -> int:
        """The number of events that are accepted, repeated or rejected."""
        return self.result.accepted + self.result.repeated + self.result.rejected

    def add(self, result: IngestResult) -> str:
        """Add a commit; returns the text that shows the progress."""
        self.result += result
        others = [f"{count} {name.replace('_', ' ')}" for name, count in self._others().items() if count]
        return ", ".join([f"{self.result.accepted} accepted", *others])


def _documents(args: argparse.Namespace) -> DocumentOptions:
    from motet.connectors.ingestion import DocumentOptions

    return DocumentOptions(args.id, args.base, args.rest, arguments.read_mapping(args))


def _ingest_files(args: argparse.Namespace, lake: Lake, rejections: output.Rejections, totals: _Totals) -> None:
    from motet.connectors.ingestion import ingest_files

    with output.byte_progress() as progress:
        reading = progress.add_task("reading", total=sum(_sizes(args.files)), note="")
        committing = progress.add_task("committing", total=None, note="", visible=False)

        def on_sorted(events: int) -> None:
            progress.update(reading, visible=False)
            progress.update(committing, total=events, visible=True)

        on_read, documents = partial(progress.advance, reading), _documents(args)
        for result in ingest_files(
            lake, args.files, rejections, on_read=on_read, on_sorted=on_sorted, documents=documents
        ):
            progress.update(committing, note=totals.add(result), completed=totals.decided)


def _ingest_standard_input(
    args: argparse.Namespace, lake: Lake, rejections: output.Rejections, totals: _Totals
) -> None:
    from motet.connectors.ingestion import IngestResult, ingest_chunks

    with output.status_line("ingesting") as show:
        chunks, documents = _standard_input_chunks(), _documents(args)
        for result in ingest_chunks(lake, chunks, args.content_type, rejections, documents=documents):
            show(totals.add(result))
    totals.add(IngestResult(inputs=1))


def _standard_input_chunks() -> Iterator[bytes]:
    """What can be read from standard input without waiting for more, until it ends."""
    while chunk := os.read(sys.stdin.fileno(), CHUNK_BYTES):
        yield chunk


def _follow(args: argparse.Namespace, lake: Lake, rejections: output.Rejections, totals: _Totals) -> None:
    with graceful_shutdown() as stop_requested, output.status_line("ingesting") as show:

        def on_commit(result: IngestResult) -> None:
            show(totals.add(result))

        if args.watch:
            from motet.connectors.directory import DirectorySource, watch_directory

            directory = DirectorySource(args.watch, lake, rejections, documents=_documents(args))
            watch_directory(directory, on_commit, stop_requested, once=args.once)
            return
        from motet.connectors.nats import StreamSource, ingest_stream

        source = StreamSource(args.nats, args.stream, args.durable, args.content_type, _documents(args))
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
    from motet.codec.formats import Format, format_of_content_type

    if args.lake is None and not mapping.is_preview(args):
        raise UsageError("the lake is missing", advice="Add --lake DIR; it is created if there is none.")
    if sum(map(bool, (args.files, args.watch, args.nats))) != 1:
        raise UsageError("exactly one source is required", advice="Give files, or -, or --watch DIR, or --nats URL.")
    if STANDARD in args.files and len(args.files) > 1:
        raise UsageError("standard input is no part of a load of files", advice="Ingest - and the files separately.")
    if args.id is not None and len(args.files) != 1:
        raise UsageError("--id names the event of one input", advice="Give one file, or -.")
    if args.nats and not args.stream:
        raise UsageError("--nats requires the name of a stream", advice="Add --stream NAME.")
    if args.once and args.files:
        raise UsageError("--once is for --watch and --nats", advice="Omit it: files are read once anyway.")
    if args.watch and not Path(args.watch).is_dir():
        raise UsageError(f"there is no directory {args.watch!r}", advice="Create it, or check the path.")
    if args.content_type is not None and not args.nats and args.files != [STANDARD]:
        raise UsageError("--content-type is for - and --nats", advice="Leave it out: files have that of their names.")
    args.content_type = args.content_type or Format.N_QUADS.value
    format_of_content_type(args.content_type)
    mapping.check_mapping(args)
    if args.files != [STANDARD]:
        _sizes(args.files)


def _sizes(paths: list[str]) -> list[int]:
    for path in paths:
        if not Path(path).is_file():
            raise UsageError(f"there is no event file {path!r}", advice="Check the path; for a directory use --watch.")
    return [Path(path).stat().st_size for path in paths]


def _print_advice(totals: IngestResult, rejections: output.Rejections, lake: str) -> None:
    if totals.late:
        output.warn(
            f"late events: {totals.late}. They are stored and can be queried, but subscriptions do not match them.\n"
            f"  `motet diff SUBSCRIPTIONS --late --lake {lake}` shows what they would change.\n"
            f"  `motet settings --lake {lake} --lateness '10 min'` accepts later events from now on."
        )
    if totals.stamped:
        output.warn(
            f"stamped events: {totals.stamped}. They state no time, so they have that of their commit.\n"
            f"  `motet settings --lake {lake}` lists the properties that are read as times."
        )
    if totals.left_out:
        output.warn(f"left out: {totals.left_out} triples or derived events. Derived events are derived again.")
    if rejections.count:
        output.warn(
            f"rejected events: {rejections.count}. Correct the dead letters "
            f"{'above' if rejections.path == STANDARD else f'in {rejections.path}'} and ingest them again."
        )
