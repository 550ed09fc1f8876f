"""`motet compact`: merge the small files of a lake, build the zones that queries read, and delete unused files."""

from __future__ import annotations

import argparse
import dataclasses

from motet.cli import output

HELP = "merge the small files of a lake and build the zones that queries read"
EXAMPLES = """\
  motet compact --lake building
  motet compact --lake building --vacuum     # also delete files replaced more than an hour ago
  motet compact --lake building --rebuild-zones
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--lake", metavar="DIR", required=True, help="the lake to compact")
    add("--vacuum", action="store_true", help="delete files replaced or orphaned for over an hour")
    add("--rebuild-zones", action="store_true", help="make all zone files again from the log")
    add("--json", action="store_true", help="print the summary as JSON")


def run(args: argparse.Namespace) -> int:
    from motet.lake import Lake

    lake = Lake.open(args.lake, create=False)
    fields: dict[str, object] = dataclasses.asdict(lake.compact())
    if args.rebuild_zones:
        lake.drop_zones()
    with output.status_line("building zones") as update:
        built = lake.build_zones(on_rows=lambda rows: update(f"{rows:,} new triples"))
    fields |= {"zones": built.zones, "zone_rows_written": built.rows}
    if args.vacuum:
        fields["deleted"] = len(lake.vacuum())
    output.print_json(fields) if args.json else output.print_fields(fields)
    return 0
