"""`motet upgrade`: convert a lake of an earlier format."""

from __future__ import annotations

import argparse

from motet.cli import output

HELP = "convert a lake of an earlier format; what is in it keeps its meaning"
EXAMPLES = """\
  motet upgrade --lake building
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lake", metavar="DIR", required=True, help="the lake; stop the processes that use it first")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    from motet.lake.log import FORMAT
    from motet.lake.upgrade import upgrade

    settings = upgrade(args.lake)
    fields: dict[str, object] = {"lake": args.lake, "format": FORMAT, "upgraded": settings is not None}
    if settings is not None:
        fields |= settings.to_text()
    output.print_json(fields) if args.json else output.print_fields(fields)
    if settings is None:
        output.warn(f"{args.lake} has format {FORMAT} already; nothing was changed.")
    else:
        output.warn(
            "The settings keep what the lake did so far: events may be any time ahead of the clock, and no heartbeat\n"
            f"  advances the frontier. To change: motet settings --lake {args.lake} --ahead '1 d' --heartbeat default"
        )
    return 0
