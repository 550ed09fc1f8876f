"""`motet tick`: tell a lake that time has passed."""

from __future__ import annotations

import argparse
import time

from motet.cli import output
from motet.model.errors import UsageError
from motet.model.times import END_OF_TIME, format_datetime, parse_datetime

HELP = "tell a lake that time has passed, so that what waits for it becomes final"
EXAMPLES = """\
  motet tick --lake building 2026-11-15T12:00:00Z
  motet tick --lake building now
  motet tick --lake building end      # no event will come any more
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("instant", metavar="TIME", help="an xsd:dateTime, 'now', or 'end' for the end of time")
    parser.add_argument("--lake", metavar="DIR", required=True)
    parser.add_argument("--json", action="store_true")


def run(args: argparse.Namespace) -> int:
    from motet.lake import Lake

    instant = instant_of(args.instant)
    offset = Lake.open(args.lake, create=False).tick(instant)
    facts = {"offset": offset, "instant": format_datetime(instant)}
    output.print_json(facts) if args.json else output.print_facts(facts)
    return 0


def instant_of(text: str) -> int:
    """An instant as commands take it."""
    if text in ("now", "end"):
        return END_OF_TIME if text == "end" else time.time_ns() // 1000
    try:
        return parse_datetime(text)
    except ValueError as error:
        raise UsageError(str(error), advice="Write 2026-11-15T10:00:00Z, now, or end.") from None
