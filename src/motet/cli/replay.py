"""`motet replay`: run subscriptions over the log of a lake as a batch."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from motet.cli import arguments, output
from motet.cli.lake_advice import MAX_RECORDS, PendingCount, pending_json, pending_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from motet.jobs.replay import Replay, ReplayGroup
    from motet.jobs.unmatched_leaves import EventFindings, ReadWith

HELP = "print the notifications that subscriptions give over the log of a lake"
EXAMPLES = """\
  motet replay --lake building --subscriptions fire.motet
  motet replay --lake building --subscriptions fire.motet --since 2026-11-16T08:00:00Z --until 2026-11-16T18:00:00Z
  motet replay --lake building --subscriptions fire.motet --engine embedded --output out.jsonl
  motet replay --lake building --subscriptions fire.motet --late
  motet replay --lake building --subscriptions fire.motet --ontology building.ttl --engine embedded

status: with --strict 3 when late events were left out
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--lake", metavar="DIR", required=True, help="the lake whose log is replayed")
    add("--subscriptions", nargs="+", metavar="FILE", required=True, help="subscription files")
    arguments.add_syntax_argument(parser)
    arguments.add_replay_range(parser)
    add("--late", action="store_true", help="read late events as if they had come in time (default: they are left out)")
    add("--engine", choices=["spark", "embedded"], default="spark", help="default: spark")
    add("--output", metavar="FILE", help="default: standard output")
    arguments.add_ontology_files(parser, "OWL or RDFS files that are read with the log; the lake is not changed")
    arguments.add_strict_argument(parser)
    add("--json", action="store_true", help="print the summary as JSON, on standard error")


def run(args: argparse.Namespace) -> int:
    from motet.jobs.replay import load_replay
    from motet.jobs.subscription_files import load_subscriptions

    subscriptions = load_subscriptions(args.subscriptions, syntax=args.syntax)
    ontology = arguments.load_ontology(args).triples if args.ontology else ()
    replay = load_replay(args.lake, subscriptions, late=args.late, ontology=ontology, **arguments.replay_range(args))
    started = time.perf_counter()
    waiting: list[int] | None = [] if args.engine == "embedded" else None
    with output.open_output(args.output) as file:
        sink = output.NotifiedSubscriptions(file)
        scratch = Path(args.output).parent if args.output not in (None, "-") else None
        count = replay_on(args.engine, replay, sink.as_file(), scratch, waiting)
    seconds = round(time.perf_counter() - started, 3)
    pending = _pending(replay, waiting)
    findings = _findings(args, replay, sink.names)
    fields = {
        "notifications": count,
        "events": replay.events,
        "late": replay.late,
        "late_read": args.late,
        "pending": pending_json(pending),
        "unmatched_leaves": [asdict(leaf) for leaf in findings.unmatched],
        "unknown_names": [asdict(name) for name in findings.unknown],
        "engine": args.engine,
        "seconds": seconds,
    }
    summary = "{notifications} notifications from a log of {events} events in {seconds} s on {engine}"
    if replay.late:
        summary += f"; late events, {'read as if in time' if args.late else 'left out (--late reads them)'}: {{late}}"
    if args.json:
        output.warn(json.dumps(fields, sort_keys=True))
    else:
        for line in findings.lines():
            output.warn(f"warning: {line}")
        output.warn(summary.format(**fields))
        if pending is not None and (text := pending_text(pending, args.lake)):
            output.warn(text)
    return arguments.exit_status(args, rejected=0, late=0 if args.late else replay.late)


def _pending(replay: Replay, waiting: list[int] | None) -> PendingCount | None:
    """What is not final at the end; None if the log is too long to process it again for Spark."""
    from motet.jobs.replay import pending_of

    if waiting is None:
        if replay.snapshot.next_offset > MAX_RECORDS:
            return None
        waiting = pending_of(replay)
    return len(waiting), max(waiting, default=None)


def _findings(args: argparse.Namespace, replay: Replay, notified: set[str]) -> EventFindings:
    """The leaves that no visible event matched, and the names that nothing has."""
    from motet.jobs.unmatched_leaves import EventFindings, find_unmatched
    from motet.lint.ontology_rules import UnknownNames

    merged = EventFindings()
    for group in replay.groups:
        backgrounds = _backgrounds(group)
        names = UnknownNames(group.subscriptions, frozenset().union(*(triples for triples, _ in backgrounds)))
        found = find_unmatched(
            group.subscriptions,
            notified,
            partial(_visible_events, replay, group, backgrounds),
            backgrounds[-1],
            prefixes=lambda: arguments.declared_prefixes(args),
            names=names,
        )
        merged.add(found)
    return merged


def _backgrounds(group: ReplayGroup) -> list[ReadWith]:
    from motet.model.control import entailment_of

    return [(triples, entailment_of(triples, requested)) for triples, requested in group.view.backgrounds]


def _visible_events(
    replay: Replay, group: ReplayGroup, backgrounds: Sequence[ReadWith]
) -> Iterator[tuple[pa.RecordBatch, ReadWith]]:
    """The events that a group sees, each batch with the background it is read with."""
    view = group.view
    for records in replay.snapshot.records():
        for index, events in view.split_by_background(view.visible(records)):
            yield events, backgrounds[index]


def replay_on(
    engine: str, replay: Replay, sink: BinaryIO, scratch: Path | None = None, waiting: list[int] | None = None
) -> int:
    """Replay on an engine and return the number of notifications; Spark tasks write their output to ``scratch``.

    On the embedded engine ``waiting`` is extended by the frontiers that notifications wait for at the end.
    """
    if engine == "spark":
        from motet.spark.batch.run import replay_spark

        return replay_spark(replay, sink, scratch=scratch)
    from motet.jobs.replay import replay_embedded

    with output.record_progress("replaying", len(replay.groups) * replay.snapshot.next_offset) as on_progress:
        return replay_embedded(replay, sink, on_progress, (lambda _: None) if waiting is None else waiting.extend)
