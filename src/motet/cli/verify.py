"""`motet verify`: recompute the notifications of a lake and compare hash chains."""

from __future__ import annotations

import argparse
import json
import time
from typing import TYPE_CHECKING

from motet.cli import output

if TYPE_CHECKING:
    from motet.jobs.verify import Comparison, TableDifference, TableRow
    from motet.lake import Lake, Snapshot

HELP = "recompute the notifications of a lake and compare them with its notification table, by a hash chain"
EXAMPLES = """\
  motet verify --lake building
  motet verify --lake building --engine embedded --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--lake", metavar="DIR", required=True, help="the lake to verify")
    add("--engine", choices=["spark", "embedded"], default="spark", help="default: spark")
    add("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    from motet.lake import Lake

    lake = Lake.open(args.lake, create=False)
    snapshot = lake.snapshot()
    started = time.perf_counter()
    comparison = _compare(args.engine, lake, snapshot)
    fields: dict[str, object] = {
        "records": snapshot.next_offset,
        "late": sum(segment.late for segment in snapshot.segments),
        "derived_to": snapshot.notifications_end,
        "notifications": sum(table.rows for table in snapshot.tables),
        "links": comparison.links,
        "agreed_to": comparison.agreed_to,
        "head": comparison.head,
        "engine": args.engine,
        "seconds": round(time.perf_counter() - started, 3),
    }
    if args.json:
        output.print_json(fields | {"difference": _json(comparison.difference) if comparison.difference else None})
    else:
        output.print_fields(fields)
        _print_difference(comparison.difference, snapshot)
    return 1 if comparison.difference else 0


def _compare(engine: str, lake: Lake, snapshot: Snapshot) -> Comparison:
    if engine == "spark":
        from motet.spark.batch.verify import verify_spark

        return verify_spark(snapshot)
    from motet.jobs.verify import verify_embedded

    with output.record_progress("verifying", snapshot.notifications_end) as on_progress:
        return verify_embedded(snapshot, on_progress)


def _print_difference(difference: TableDifference | None, snapshot: Snapshot) -> None:
    behind = snapshot.next_offset - snapshot.notifications_end
    if behind:
        output.warn(
            f"the last {behind} records are not processed yet: the table ends before the log, which is no error"
        )
    if difference is None:
        print(
            "the notification table agrees with the log"
            if snapshot.notifications_end
            else "there are no notifications to compare"
        )
        return
    output.warn(
        f"at offset {difference.offset}, subscription {difference.subscription!r}: "
        f"a notification is {difference.kind} in the table"
    )
    for origin, row in (("recomputed", difference.recomputed), ("in the table", difference.stored)):
        if row is not None:
            output.warn(f"  {origin:<14} {row[0]} {row[1]}")


def _json(difference: TableDifference) -> dict[str, object]:
    def values(row: TableRow | None) -> dict[str, object] | None:
        return None if row is None else {"offset": row[0], "notification": json.loads(row[1])}

    return {
        "kind": difference.kind,
        "offset": difference.offset,
        "subscription": difference.subscription,
        "derived": values(difference.recomputed),
        "stored": values(difference.stored),
    }
