"""`motet replay`: run subscriptions over the log of a lake as a batch."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from motet.cli import arguments, output

if TYPE_CHECKING:
    from motet.jobs.replay import Replay

HELP = "print the notifications that subscriptions give over the log of a lake"
EXAMPLES = """\
  motet replay --lake building --subscriptions fire.motet
  motet replay --lake building --subscriptions fire.motet --since 2026-11-16T08:00:00Z --until 2026-11-16T18:00:00Z
  motet replay --lake building --subscriptions fire.motet --engine embedded --output out.jsonl
  motet replay --lake building --subscriptions fire.motet --late
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
    add("--json", action="store_true", help="print the summary as JSON, on standard error")


def run(args: argparse.Namespace) -> int:
    from motet.jobs.replay import load_replay
    from motet.jobs.subscription_files import load_subscriptions

    subscriptions = load_subscriptions(args.subscriptions, syntax=args.syntax)
    replay = load_replay(args.lake, subscriptions, late=args.late, **arguments.replay_range(args))
    started = time.perf_counter()
    with output.open_output(args.output) as sink:
        count = replay_on(args.engine, replay, sink, Path(args.output).parent if args.output else None)
    seconds = round(time.perf_counter() - started, 3)
    fields = {
        "notifications": count,
        "events": replay.events,
        "late": replay.late,
        "late_read": args.late,
        "engine": args.engine,
        "seconds": seconds,
    }
    summary = "{notifications} notifications from a log of {events} events in {seconds} s on {engine}"
    if replay.late:
        summary += f"; late events, {'read as if in time' if args.late else 'left out (--late reads them)'}: {{late}}"
    output.warn(json.dumps(fields, sort_keys=True) if args.json else summary.format(**fields))
    return 0


def replay_on(engine: str, replay: Replay, sink: BinaryIO, scratch: Path | None = None) -> int:
    """Replay on an engine and return the number of notifications; Spark tasks write their output to ``scratch``."""
    if engine == "spark":
        from motet.spark.batch.replay import replay_spark

        return replay_spark(replay, sink, scratch=scratch)
    from motet.jobs.replay import replay_embedded

    with output.record_progress("replaying", len(replay.groups) * replay.snapshot.next_offset) as on_progress:
        return replay_embedded(replay, sink, on_progress)
