"""`motet replay`: what subscriptions would have been told of a lake's history."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from motet.cli import output
from motet.cli.tick import instant_of
from motet.language.parse import SYNTAXES

if TYPE_CHECKING:
    from motet.jobs.replay import Replay

HELP = "print what subscriptions would have been told of a lake's history"
EXAMPLES = """\
  motet replay --lake building --subscriptions fire.motet
  motet replay --lake building --subscriptions fire.motet --since 2026-11-16T08:00:00Z --until 2026-11-16T18:00:00Z
  motet replay --lake building --subscriptions fire.motet --engine embedded --output told.jsonl
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lake", metavar="DIR", required=True)
    parser.add_argument("--subscriptions", nargs="+", metavar="FILE", required=True, help="files in the motet language")
    parser.add_argument("--syntax", choices=SYNTAXES, default="motet", help="the subscriptions' language")
    add_span(parser)
    parser.add_argument("--engine", choices=["spark", "embedded"], default="spark")
    parser.add_argument("--output", metavar="FILE", help="default: standard output")
    parser.add_argument("--json", action="store_true", help="say what was done as JSON, on standard error")


def add_span(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--since", metavar="TIME", help="events from then on; takes the place of every SINCE (default: those, or all)"
    )
    parser.add_argument("--until", metavar="TIME", help="as it was known then: no event that ends later (default: all)")


def run(args: argparse.Namespace) -> int:
    from motet.jobs.replay import load_replay
    from motet.jobs.subscription_files import load_subscriptions

    subscriptions = load_subscriptions(args.subscriptions, syntax=args.syntax)
    replay = load_replay(args.lake, subscriptions, **span_of(args))
    started = time.perf_counter()
    with output.sink(args.output) as sink:
        count = run_on(args.engine, replay, sink, Path(args.output).parent if args.output else None)
    seconds = round(time.perf_counter() - started, 3)
    facts = {"notifications": count, "events": replay.events, "engine": args.engine, "seconds": seconds}
    sentence = "{notifications} notifications from a log of {events} events in {seconds} s on {engine}"
    output.complain(json.dumps(facts, sort_keys=True) if args.json else sentence.format(**facts))
    return 0


def span_of(args: argparse.Namespace) -> dict[str, int | None]:
    """The arguments of :func:`add_span` as instants."""
    return {name: instant_of(text) if (text := getattr(args, name)) else None for name in ("since", "until")}


def run_on(engine: str, replay: Replay, sink: BinaryIO, scratch: Path | None = None) -> int:
    """Replay on an engine; how many notifications there are. Tasks leave their parts in ``scratch``."""
    if engine == "spark":
        from motet.spark.batch.replay import replay_spark

        return replay_spark(replay, sink, scratch=scratch)
    from motet.jobs.replay import replay_embedded

    with output.records_bar("replaying", len(replay.parts) * replay.snapshot.next_offset) as count:
        return replay_embedded(replay, sink, count)
