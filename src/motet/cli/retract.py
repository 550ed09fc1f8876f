"""`motet retract`: hide events of a lake from queries and from later subscriptions."""

from __future__ import annotations

import argparse

from motet.cli import output
from motet.model.errors import UsageError

HELP = "hide events from queries and from later subscriptions; notifications that were derived from them stay"
EXAMPLES = """\
  motet retract --lake building urn:e:7
  motet retract --lake building urn:e:7 urn:e:8 --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("events", nargs="+", metavar="IRI", help="the IRIs of events of the lake")
    add("--lake", metavar="DIR", required=True, help="the lake")
    add("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    from motet.lake import Lake

    lake = Lake.open(args.lake, create=False)
    events = list(dict.fromkeys(event.strip("<>") for event in args.events))
    missing = [event for event, is_there in zip(events, lake.holds(events), strict=True) if not is_there]
    if missing:
        raise UsageError(
            f"no event <{missing[0]}> is in {args.lake}; nothing was retracted", advice="Check the event's IRI."
        )
    offsets = {event: lake.retract(event) for event in events}
    if args.json:
        output.print_json({"lake": args.lake, "events": [{"event": e, "offset": o} for e, o in offsets.items()]})
    else:
        for event, offset in offsets.items():
            print(f"<{event}>: retracted at offset {offset}")
    return 0
