"""`motet verify`: whether a lake's notifications are what its log says."""

from __future__ import annotations

import argparse
import json
import time
from typing import TYPE_CHECKING

from motet.cli import output

if TYPE_CHECKING:
    from motet.jobs.verify import Compared, Difference, Row
    from motet.lake import Lake, Snapshot

HELP = "derive a lake's notifications again and compare them with those it holds, by a hash chain"
EXAMPLES = """\
  motet verify --lake building
  motet verify --lake building --engine embedded --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lake", metavar="DIR", required=True)
    parser.add_argument("--engine", choices=["spark", "embedded"], default="spark")
    parser.add_argument("--json", action="store_true")


def run(args: argparse.Namespace) -> int:
    from motet.lake import Lake

    lake = Lake.open(args.lake, create=False)
    snapshot = lake.snapshot()
    started = time.perf_counter()
    found = _compared(args.engine, lake, snapshot)
    facts: dict[str, object] = {
        "records": snapshot.next_offset,
        "derived_to": snapshot.notified_to,
        "notifications": sum(table.rows for table in snapshot.tables),
        "links": found.links,
        "agreed_to": found.agreed,
        "head": found.head,
        "engine": args.engine,
        "seconds": round(time.perf_counter() - started, 3),
    }
    if args.json:
        output.print_json(facts | {"difference": _json(found.difference) if found.difference else None})
    else:
        output.print_facts(facts)
        _explain(found.difference, snapshot)
    return 1 if found.difference else 0


def _compared(engine: str, lake: Lake, snapshot: Snapshot) -> Compared:
    if engine == "spark":
        from motet.spark.batch.verify import verify_spark

        return verify_spark(lake, snapshot)
    from motet.jobs.verify import verify_embedded

    with output.records_bar("verifying", snapshot.notified_to) as count:
        return verify_embedded(lake, snapshot, count)


def _explain(difference: Difference | None, snapshot: Snapshot) -> None:
    behind = snapshot.next_offset - snapshot.notified_to
    if behind:
        output.complain(
            f"the last {behind} records are not derived yet: the table is behind the log, which is no fault"
        )
    if difference is None:
        print("the notifications are those of the log" if snapshot.notified_to else "there is nothing to compare")
        return
    output.complain(
        f"at offset {difference.offset}, subscription {difference.subscription!r}: "
        f"a notification is {difference.kind} in the table"
    )
    for what, row in (("the log says", difference.derived), ("the table says", difference.stored)):
        if row is not None:
            output.complain(f"  {what:<14} {row[0]} {row[1]}")


def _json(difference: Difference) -> dict[str, object]:
    def values(row: Row | None) -> dict[str, object] | None:
        return None if row is None else {"offset": row[0], "notification": json.loads(row[1])}

    return {
        "kind": difference.kind,
        "offset": difference.offset,
        "subscription": difference.subscription,
        "derived": values(difference.derived),
        "stored": values(difference.stored),
    }
