"""`motet inspect`: what is in a lake, and whether it is sound."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from motet.cli import output
from motet.model.times import format_datetime, format_duration

if TYPE_CHECKING:
    from motet.lake import Lake

HELP = "show what is in a lake, and whether it is sound"
EXAMPLES = """\
  motet inspect --lake building
  motet inspect --lake building --check
  motet inspect --lake building --records 20 --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lake", metavar="DIR", required=True)
    parser.add_argument("--check", action="store_true", help="read everything and report contradictions")
    parser.add_argument("--records", type=int, metavar="N", help="show the last N records instead of the summary")
    parser.add_argument("--json", action="store_true")


def run(args: argparse.Namespace) -> int:
    from motet.lake import Lake

    lake = Lake.open(args.lake, create=False)
    if args.records is not None:
        _show_records(lake, args.records, as_json=args.json)
        return 0
    facts = _readable(lake.statistics())
    problems = lake.check() if args.check else []
    if args.check:
        facts["problems"] = problems
    if args.json:
        output.print_json(facts)
    else:
        output.print_facts(facts | ({"problems": len(problems)} if args.check else {}))
        for problem in problems:
            output.complain(problem)
    return 1 if problems else 0


def _readable(facts: dict[str, object]) -> dict[str, object]:
    """Times and durations as text, the rest as it is."""
    shown = dict(facts)
    for name in ("frontier", "start", "end"):
        if isinstance(shown[name], int):
            shown[name] = format_datetime(int(str(shown[name])))
    lateness = shown["lateness"]
    shown["lateness"] = format_duration(lateness) if isinstance(lateness, int) else "unlimited"
    return shown


def _show_records(lake: Lake, count: int, *, as_json: bool) -> None:
    snapshot = lake.snapshot()
    columns = ["offset", "kind", "id", "start", "end", "frontier", "late"]
    batches = snapshot.records(max(0, snapshot.next_offset - count), columns=columns)
    rows = [_row(row) for batch in batches for row in batch.to_pylist()]
    if as_json:
        output.print_json(rows)
    else:
        output.print_table([[row[name] for name in columns] for row in rows], headers=columns)


def _row(record: dict[str, object]) -> dict[str, object]:
    """A record with its times as they are written everywhere else."""
    times = {name: record[name] for name in ("start", "end", "frontier")}
    return record | {name: f"{time:%Y-%m-%dT%H:%M:%S.%fZ}" if time else None for name, time in times.items()}
