"""`motet tick`: advance the frontier of a lake."""

from __future__ import annotations

import argparse

from motet.cli import output
from motet.cli.arguments import parse_instant
from motet.model.errors import UsageError
from motet.model.times import END_OF_TIME, format_datetime

HELP = "advance the frontier of a lake to a time, so that pending occurrences become final"
EXAMPLES = """\
  motet tick --lake building 2026-11-15T12:00:00Z
  motet tick --lake building now
  motet tick --lake building end --force      # no more events
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "instant",
        metavar="TIME",
        help="no event that ends before this time is expected: an xsd:dateTime, 'now', or 'end' for the end of time",
    )
    add("--force", action="store_true", help="allow 'end': it makes every later event late")
    add("--lake", metavar="DIR", required=True, help="the lake whose frontier is advanced")
    add("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    from motet.lake import Lake

    instant = parse_instant(args.instant)
    if instant == END_OF_TIME and not args.force:
        raise UsageError(
            "a tick at the end of time makes every later event late",
            advice="Give an earlier time, or add --force if no more events will be published to this lake.",
        )
    offset = Lake.open(args.lake, create=False).tick(instant, force=instant == END_OF_TIME)
    fields = {"offset": offset, "instant": format_datetime(instant)}
    output.print_json(fields) if args.json else output.print_fields(fields)
    return 0
