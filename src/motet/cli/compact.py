"""`motet compact`: merge a lake's small files and remove those nobody needs."""

from __future__ import annotations

import argparse
import dataclasses

from motet.cli import output

HELP = "merge a lake's small files; offsets and contents stay as they are"
EXAMPLES = """\
  motet compact --lake building
  motet compact --lake building --vacuum     # also delete files replaced more than an hour ago
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lake", metavar="DIR", required=True)
    parser.add_argument("--vacuum", action="store_true", help="delete files replaced or orphaned for over an hour")
    parser.add_argument("--json", action="store_true")


def run(args: argparse.Namespace) -> int:
    from motet.lake import Lake

    lake = Lake.open(args.lake, create=False)
    facts: dict[str, object] = dataclasses.asdict(lake.compact())
    if args.vacuum:
        facts["deleted"] = len(lake.vacuum())
    output.print_json(facts) if args.json else output.print_facts(facts)
    return 0
