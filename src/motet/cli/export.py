"""`motet export`: write the events of a lake as N-Quads and XML documents."""

from __future__ import annotations

import argparse
from pathlib import Path

from motet.cli import output
from motet.model.errors import UsageError

HELP = "write the events of a lake as N-Quads and XML documents that `motet ingest` reads back"
EXAMPLES = """\
  motet export --lake building > events.nq
  motet export --lake building --output events.nq
  motet export --lake building --times --output events.nq     # state the times that only the log has
  motet export --lake alerts --documents alerts > /dev/null           # XML events, as they were published
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--lake", metavar="DIR", required=True, help="the lake")
    add("--output", metavar="FILE", help="where the events are written (default: standard output)")
    add(
        "--times",
        action="store_true",
        help="add the time to events that state none: those that were stamped, or whose message had the time",
    )
    add("--documents", metavar="DIR", help="write the document of each XML event into a file of DIR, byte for byte")
    add(
        "--envelopes",
        action="store_true",
        help="write each document inside a CloudEvent, which states the event's IRI and interval",
    )


def run(args: argparse.Namespace) -> int:
    from motet.jobs.export import DocumentFolder, export_events
    from motet.lake import Lake

    if args.envelopes and args.documents is None:
        raise UsageError("--envelopes is for XML documents", advice="Add --documents DIR.")
    documents = None if args.documents is None else DocumentFolder(Path(args.documents), args.envelopes)
    snapshot = Lake.open(args.lake, create=False).snapshot()
    with output.open_output(args.output) as sink:
        result = export_events(snapshot, sink, with_times=args.times, documents=documents)
    output.warn(f"{result.events} events written, {result.retracted} retracted ones left out")
    if result.without_time:
        output.warn(
            f"{result.without_time} of them state no time: read back, they get that of their new commit.\n"
            "  Add --times to write the times of the log into the file."
        )
    if result.documents and args.documents is None:
        output.warn(f"{result.documents} XML events are not N-Quads and left out\n  Add --documents DIR to write them.")
    elif args.documents is not None:
        output.warn(f"{result.documents} documents written to {args.documents}")
    return 0
