"""`motet tick`: advance the frontier of a lake."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from motet.cli import output
from motet.cli.arguments import parse_instant
from motet.model.errors import UsageError
from motet.model.times import END_OF_TIME, format_datetime

if TYPE_CHECKING:
    from motet.lake import Lake
    from motet.model.records import Tick

HELP = "advance the frontier of a lake, so that pending occurrences become final"
EXAMPLES = """\
  motet tick --lake building                          # decide everything that is there
  motet tick --lake building 2026-11-15T12:00:00Z
  motet tick --lake building now
  motet tick --lake building end --force              # no more events
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "instant",
        metavar="TIME",
        nargs="?",
        help="no event that ends before this time is expected: an xsd:dateTime, 'now', or 'end' for the end of time "
        "(default: the time at which everything that is pending becomes final)",
    )
    add("--force", action="store_true", help="allow 'end': it makes every later event late")
    add("--lake", metavar="DIR", required=True, help="the lake whose frontier is advanced")
    add("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    from motet.lake import Lake

    instant = None if args.instant is None else parse_instant(args.instant)
    if instant == END_OF_TIME and not args.force:
        raise UsageError(
            "a tick at the end of time makes every later event late",
            advice="Leave the time out to decide what is there, or add --force if no more events will be published.",
        )
    lake = Lake.open(args.lake, create=False)
    before = lake.snapshot().frontier
    tick = _tick_pending(lake) if instant is None else _tick(lake, instant)
    if tick is None:
        output.print_json({"offset": None, "instant": None}) if args.json else output.warn("nothing is pending")
        return 0
    fields = {"offset": tick.offset, "instant": format_datetime(tick.instant)}
    output.print_json(fields) if args.json else output.print_fields(fields)
    if before is not None and tick.instant <= before:
        output.warn(f"the frontier was at {format_datetime(before)} before: this tick does not move it")
    return 0


def _tick(lake: Lake, instant: int) -> Tick:
    from motet.model.records import Tick

    return Tick(instant, lake.tick(instant, force=instant == END_OF_TIME))


def _tick_pending(lake: Lake) -> Tick | None:
    """Tick at the greatest instant that a pending occurrence waits for; None if nothing is pending."""
    from motet.embedded.cloud import Cloud
    from motet.model.records import Tick

    end = lake.snapshot().next_offset
    with Cloud(lake) as cloud:
        cloud.tick()
    records = lake.snapshot().control_records(Tick, first=end)
    return next((record for record in records if isinstance(record, Tick)), None)
