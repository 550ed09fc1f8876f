"""`motet inspect`: show the contents of a lake and check its consistency."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from motet.cli import output
from motet.model.times import END_OF_TIME, START_OF_TIME, format_datetime

if TYPE_CHECKING:
    from motet.lake import Lake, Snapshot

HELP = "show the contents of a lake and check its consistency"
EXAMPLES = """\
  motet inspect --lake building
  motet inspect --lake building --check
  motet inspect --lake building --records 20 --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--lake", metavar="DIR", required=True, help="the lake to show")
    add("--check", action="store_true", help="read all files and report inconsistencies")
    add("--records", type=int, metavar="N", help="show the last N records instead of the summary")
    add("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    from motet.lake import Lake

    lake = Lake.open(args.lake, create=False)
    if args.records is not None:
        _show_records(lake, args.records, as_json=args.json)
        return 0
    snapshot = lake.snapshot()
    fields = {"lake": lake.id, **snapshot.settings.to_text(), **_readable(snapshot.statistics())}
    problems = lake.check() if args.check else []
    if args.check:
        fields["problems"] = problems
    if args.json:
        output.print_json(fields)
    else:
        output.print_fields(fields | ({"problems": len(problems)} if args.check else {}))
        _explain(snapshot)
        for problem in problems:
            output.warn(problem)
    return 1 if problems else 0


def _explain(snapshot: Snapshot) -> None:
    """Say what a reader of the numbers should know."""
    from motet.jobs.heartbeat import not_live_text

    if not snapshot.is_live and snapshot.count("event"):
        output.warn(not_live_text(snapshot))
    late = sum(segment.late for segment in snapshot.segments)
    if late:
        output.warn(f"{late} events are late and are not matched: `motet diff --late` shows what they would change.")


def _readable(fields: dict[str, object]) -> dict[str, object]:
    """Times as text."""
    readable = dict(fields)
    for name in ("frontier", "clock", "start", "end"):
        value = readable[name]
        if isinstance(value, int) and START_OF_TIME <= value <= END_OF_TIME:
            readable[name] = format_datetime(value)
    return readable


def _show_records(lake: Lake, count: int, *, as_json: bool) -> None:
    snapshot = lake.snapshot()
    columns = ["offset", "kind", "id", "start", "end", "frontier", "late", "stamped"]
    batches = snapshot.records(max(0, snapshot.next_offset - count), columns=columns)
    rows = [_row(row) for batch in batches for row in batch.to_pylist()]
    if as_json:
        output.print_json(rows)
    else:
        output.print_table([[row[name] for name in columns] for row in rows], headers=columns)


def _row(record: dict[str, object]) -> dict[str, object]:
    """A record with its times as xsd:dateTime."""
    times = {name: record[name] for name in ("start", "end", "frontier")}
    return record | {name: f"{time:%Y-%m-%dT%H:%M:%S.%fZ}" if time else None for name, time in times.items()}
