"""`motet export`: write the events of a lake as N-Quads."""

from __future__ import annotations

import argparse

from motet.cli import output

HELP = "write the events of a lake as N-Quads that `motet ingest` reads back"
EXAMPLES = """\
  motet export --lake building > events.nq
  motet export --lake building --output events.nq
  motet export --lake building --times --output events.nq     # state the times that only the log has
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


def run(args: argparse.Namespace) -> int:
    from motet.jobs.export import export_events
    from motet.lake import Lake

    snapshot = Lake.open(args.lake, create=False).snapshot()
    with output.open_output(args.output) as sink:
        result = export_events(snapshot, sink, with_times=args.times)
    output.warn(f"{result.events} events written, {result.retracted} retracted ones left out")
    if result.without_time:
        output.warn(
            f"{result.without_time} of them state no time: read back, they get that of their new commit.\n"
            "  Add --times to write the times of the log into the file."
        )
    return 0
