"""`motet run`: subscriptions and event files in, notifications out."""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO

from motet.cli import output
from motet.cli.tick import instant_of
from motet.language.parse import SYNTAXES

if TYPE_CHECKING:
    from motet.jobs.run import Job, Summary

    Runner = Callable[[Job, BinaryIO, output.Rejections], Summary]

HELP = "run subscriptions over event files and print the notifications"
EXAMPLES = """\
  motet run --subscriptions fire.motet --events monday.nq tuesday.nq.gz
  motet run --subscriptions fire.motet --events *.nq --ontology building.ttl --engine spark --output out.jsonl
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--subscriptions", nargs="+", metavar="FILE", required=True, help="files in the motet language")
    parser.add_argument("--events", nargs="+", metavar="FILE", required=True, help="event files, in the order to read")
    parser.add_argument("--ontology", nargs="+", metavar="FILE", default=[], help="OWL or RDFS files, with individuals")
    parser.add_argument("--catalogue", metavar="FILE", help="JSON object from IRIs the ontology imports to paths")
    parser.add_argument("--syntax", choices=SYNTAXES, default="motet", help="the subscriptions' language")
    parser.add_argument(
        "--entailment", choices=["none", "rdfs", "owl-rl"], help="default: owl-rl with an ontology, none without"
    )
    parser.add_argument("--engine", choices=["embedded", "spark", "reference"], default="embedded")
    parser.add_argument("--output", metavar="FILE", help="default: standard output")
    parser.add_argument("--dead-letter", metavar="FILE", help="where rejected events go, as JSON lines")
    parser.add_argument("--arrival", metavar="TIME", help="time of events that carry none; default: now")
    parser.add_argument("--json", action="store_true", help="say what was done as JSON, on standard error")


def run(args: argparse.Namespace) -> int:
    from motet.jobs.run import load_job

    job = load_job(
        args.subscriptions,
        args.events,
        ontology=args.ontology,
        catalogue=args.catalogue,
        syntax=args.syntax,
        entailment=args.entailment,
        arrival=instant_of(args.arrival or "now"),
    )
    started = time.perf_counter()
    rejections = output.Rejections(args.dead_letter)
    with output.sink(args.output) as sink:
        summary = _runner(args.engine)(job, sink, rejections)
    facts = dataclasses.asdict(summary) | {"engine": args.engine, "seconds": round(time.perf_counter() - started, 3)}
    output.complain(json.dumps(facts, sort_keys=True) if args.json else _sentence(facts))
    return 1 if summary.rejected else 0


def _runner(engine: str) -> Runner:
    if engine == "spark":
        from motet.spark.batch.run import run_spark

        return run_spark
    from motet.jobs.run import run_embedded, run_reference

    return run_reference if engine == "reference" else run_embedded


def _sentence(facts: dict[str, object]) -> str:
    return (
        "{notifications} notifications from {events} events ({duplicates} duplicates, {rejected} rejected) "
        "in {seconds} s on {engine}".format(**facts)
    )
