"""`motet tick`: advance the frontier of a lake."""

from __future__ import annotations

import argparse

from motet.cli import output
from motet.cli.arguments import parse_instant
from motet.model.times import format_datetime

HELP = "advance the frontier of a lake to a time, so that pending occurrences become final"
EXAMPLES = """\
  motet tick --lake building 2026-11-15T12:00:00Z
  motet tick --lake building now
  motet tick --lake building end      # no more events
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "instant",
        metavar="TIME",
        help="no event that ends before this time is expected: an xsd:dateTime, 'now', or 'end' for the end of time",
    )
    add("--lake", metavar="DIR", required=True, help="the lake whose frontier is advanced")
    add("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    from motet.lake import Lake

    instant = parse_instant(args.instant)
    offset = Lake.open(args.lake, create=False).tick(instant)
    fields = {"offset": offset, "instant": format_datetime(instant)}
    output.print_json(fields) if args.json else output.print_fields(fields)
    return 0
