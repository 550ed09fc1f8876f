"""`motet inspect`: show the contents of a lake and check its consistency."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from motet.cli import output
from motet.cli.lake_advice import find_pending, pending_json, pending_text
from motet.model.errors import UsageError
from motet.model.times import END_OF_TIME, START_OF_TIME, format_datetime

if TYPE_CHECKING:
    from motet.lake import Lake, Snapshot

HELP = "show the contents of a lake and check its consistency"
EXAMPLES = """\
  motet inspect --lake building
  motet inspect --lake building --check
  motet inspect --lake building --records 20 --json
  motet inspect --lake building --topics
  motet inspect --lake building --zones --dimensions offset predicate --svg zones.svg
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--lake", metavar="DIR", required=True, help="the lake to show")
    add("--check", action="store_true", help="read all files and report inconsistencies")
    add("--records", type=int, metavar="N", help="show the last N records instead of the summary")
    add("--topics", action="store_true", help="show the classes of events with their properties and datatypes")
    add("--zones", action="store_true", help="show the zone files that queries read, with a picture")
    add(
        "--dimensions", nargs=2, metavar=("ACROSS", "UP"), default=["offset", "subject"],
        choices=["offset", "subject", "predicate", "object"],
        help="the dimensions of the picture: two of offset, subject, predicate, object (default: offset subject)",
    )  # fmt: skip
    add("--svg", metavar="FILE", help="with --zones: write the picture to this file")
    add("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    from motet.lake import Lake
    from motet.lake.progress import count_undelivered

    lake = Lake.open(args.lake, create=False)
    if args.records is not None:
        _show_records(lake, args.records, as_json=args.json)
        return 0
    if args.topics:
        show_topics(lake, as_json=args.json)
        return 0
    if args.zones:
        _show_zones(lake, args)
        return 0
    if args.svg:
        raise UsageError("--svg is the picture of zones", advice="Add --zones.")
    snapshot = lake.snapshot()
    fields = {"lake": lake.id, **snapshot.settings.to_text(), **_readable(snapshot.statistics())}
    pending = find_pending(lake, snapshot)
    problems = lake.check() if args.check else []
    if args.check:
        fields["problems"] = problems
    if args.json:
        undelivered = count_undelivered(lake.store)
        output.print_json({**fields, "pending": pending_json(pending), "undelivered": undelivered})
    else:
        pending_field = {"pending": "not counted: `motet notifications` does" if pending is None else pending[0]}
        output.print_fields(fields | pending_field | ({"problems": len(problems)} if args.check else {}))
        if pending is not None and (text := pending_text(pending, args.lake)):
            output.warn(text)
        _explain(snapshot)
        for problem in problems:
            output.warn(problem)
    return 1 if problems else 0


def _explain(snapshot: Snapshot) -> None:
    """Say what a reader of the numbers should know."""
    from motet.jobs.upkeep import not_live_text
    from motet.lake.progress import UNDELIVERED, count_undelivered

    if not snapshot.is_live and snapshot.count("event"):
        output.warn(not_live_text(snapshot))
    if undelivered := count_undelivered(snapshot.store):
        path = snapshot.store.path(UNDELIVERED)
        output.warn(f"{undelivered} notifications could not be delivered: their listeners failed at every try ({path})")
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


def show_topics(lake: Lake, *, as_json: bool = False) -> None:
    """Print the classes of events with their properties, datatypes and producers."""
    from motet.query.topics import find_topics

    topics = find_topics(lake.snapshot())
    if as_json:
        output.print_json([topic.to_json() for topic in topics])
        return
    for topic in topics:
        print(f"{topic.name}: {topic.events} event{'' if topic.events == 1 else 's'}, {topic.start} to {topic.end}")
        for name, datatypes in topic.properties.items():
            print(f"  {name}  {', '.join(f'{datatype} ({count})' for datatype, count in datatypes.items())}")
        if topic.producers:
            print(f"  producers: {', '.join(f'{name} ({count})' for name, count in topic.producers.items())}")
    if not topics:
        output.warn("no event has a subject with a class (rdf:type)")


def _show_zones(lake: Lake, args: argparse.Namespace) -> None:
    from motet.lake.zones import as_svg, as_text, quad_zones, zone_summary

    snapshot, (across, up) = lake.snapshot(), args.dimensions
    fields = zone_summary(snapshot)
    if args.json:
        files = [
            {"name": zone.name, "rows": zone.rows, "size": zone.size, **(zone.zone or {})} for zone in snapshot.zones
        ]
        output.print_json({**fields, "files": files})
    else:
        output.print_fields(fields)
    if not quad_zones(snapshot):
        output.warn("there are no zones yet: `motet compact` builds them")
    elif args.svg:
        output.write_svg(args.svg, as_svg(snapshot, across, up))
    elif not args.json:
        print(as_text(snapshot, across, up), end="")


def _show_records(lake: Lake, count: int, *, as_json: bool) -> None:
    snapshot = lake.snapshot()
    columns = ["offset", "kind", "id", "start", "end", "frontier", "late", "stamped"]
    batches = snapshot.records(max(0, snapshot.next_offset - count), columns=[*columns, "payload"])
    columns.append("document")
    rows = [_row(row) for batch in batches for row in batch.to_pylist()]
    if as_json:
        output.print_json(rows)
    else:
        output.print_table([[row[name] for name in columns] for row in rows], headers=columns)


def _row(record: dict[str, object]) -> dict[str, object]:
    """A record with its times as xsd:dateTime, and the size of the document of an XML event in bytes."""
    payload = record.pop("payload")
    record["document"] = len(payload) if isinstance(payload, bytes) else None
    times = {name: record[name] for name in ("start", "end", "frontier")}
    return record | {name: f"{time:%Y-%m-%dT%H:%M:%S.%fZ}" if time else None for name, time in times.items()}
