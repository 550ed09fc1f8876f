"""`motet run`: evaluate subscriptions over event files and print the notifications."""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO

from motet.cli import arguments, output

if TYPE_CHECKING:
    from motet.codec.events import OnRejected
    from motet.jobs.run import BatchJob, RunSummary

    Runner = Callable[[BatchJob, BinaryIO, OnRejected], RunSummary]

HELP = "evaluate subscriptions over event files and print the notifications"
EXAMPLES = """\
  motet run --subscriptions fire.motet --events monday.nq tuesday.nq.gz
  motet run --subscriptions fire.motet --events *.nq --ontology building.ttl --engine spark --output out.jsonl
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--subscriptions", nargs="+", metavar="FILE", required=True, help="subscription files")
    add("--events", nargs="+", metavar="FILE", required=True, help="event files, in the order to read")
    arguments.add_syntax_argument(parser)
    arguments.add_ontology_arguments(parser)
    add("--engine", choices=["embedded", "spark", "reference"], default="embedded", help="default: embedded")
    add("--output", metavar="FILE", help="default: standard output")
    add("--dead-letter", metavar="FILE", help="where to write rejected events, as JSON lines")
    arguments.add_arrival_argument(parser)
    arguments.add_document_arguments(parser)
    add("--json", action="store_true", help="print the summary as JSON, on standard error")


def run(args: argparse.Namespace) -> int:
    job = arguments.load_job(args)
    started = time.perf_counter()
    rejections = output.Rejections(args.dead_letter)
    with output.open_output(args.output) as sink:
        summary = runner(args.engine)(job, sink, rejections)
    for unknown in () if args.json else summary.unknown_names:
        output.warn(f"warning: {unknown}")
    fields = dataclasses.asdict(summary) | {"engine": args.engine, "seconds": round(time.perf_counter() - started, 3)}
    output.warn(json.dumps(fields, sort_keys=True) if args.json else _summary(fields))
    return 1 if summary.rejected else 0


def runner(engine: str) -> Runner:
    """The function that runs a job on an engine."""
    if engine == "spark":
        from motet.spark.batch.run import run_spark

        return run_spark
    from motet.jobs.run import run_embedded, run_reference

    return run_reference if engine == "reference" else run_embedded


def _summary(fields: dict[str, object]) -> str:
    return (
        "{notifications} notifications from {events} events ({repeated} repeated, {rejected} rejected{left_out}) "
        "in {seconds} s on {engine}".format(**fields, left_out=_left_out(fields))
    )


def _left_out(fields: dict[str, object]) -> str:
    """What was left out, if anything was."""
    texts = {"dropped": "{} triples dropped", "derived": "{} graphs of derived events left out"}
    return "".join(f", {text.format(fields[name])}" for name, text in texts.items() if fields[name])
