"""`motet compact`: merge the small files of a lake and delete unused ones."""

from __future__ import annotations

import argparse
import dataclasses

from motet.cli import output

HELP = "merge the small files of a lake; offsets and contents stay the same"
EXAMPLES = """\
  motet compact --lake building
  motet compact --lake building --vacuum     # also delete files replaced more than an hour ago
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--lake", metavar="DIR", required=True, help="the lake to compact")
    add("--vacuum", action="store_true", help="delete files replaced or orphaned for over an hour")
    add("--json", action="store_true", help="print the summary as JSON")


def run(args: argparse.Namespace) -> int:
    from motet.lake import Lake

    lake = Lake.open(args.lake, create=False)
    fields: dict[str, object] = dataclasses.asdict(lake.compact())
    if args.vacuum:
        fields["deleted"] = len(lake.vacuum())
    output.print_json(fields) if args.json else output.print_fields(fields)
    return 0
