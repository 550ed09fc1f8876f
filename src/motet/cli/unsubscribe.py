"""`motet unsubscribe`: end subscriptions of a lake."""

from __future__ import annotations

import argparse

from motet.cli import output
from motet.model.errors import UsageError

HELP = "end subscriptions of a lake: later events do not match them, and what is pending is dropped"
EXAMPLES = """\
  motet unsubscribe --lake building real-fire
  motet unsubscribe --lake building real-fire smoke --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("names", nargs="+", metavar="NAME", help="the names of active subscriptions")
    add("--lake", metavar="DIR", required=True, help="the lake")
    add("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    from motet.lake import Lake

    lake = Lake.open(args.lake, create=False)
    active = lake.snapshot().subscriptions()
    names = list(dict.fromkeys(args.names))
    for name in names:
        if name not in active:
            raise UsageError(
                f"there is no active subscription {name!r} in {args.lake}; nothing was ended",
                advice=f"`motet subscriptions --lake {args.lake}` lists them.",
            )
    offsets = {name: lake.unsubscribe(name) for name in names}
    if args.json:
        output.print_json({"lake": args.lake, "subscriptions": [{"name": n, "offset": o} for n, o in offsets.items()]})
    else:
        for name, offset in offsets.items():
            print(f"{name}: ended at offset {offset}")
    return 0
