"""`motet run`: evaluate subscriptions over event files and print the notifications."""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO

from motet.cli import arguments, output
from motet.model.errors import UsageError

if TYPE_CHECKING:
    from motet.codec.events import OnRejected
    from motet.jobs.run import BatchJob, RunSummary
    from motet.jobs.unmatched_leaves import EventFindings

    Runner = Callable[[BatchJob, BinaryIO, OnRejected], RunSummary]

HELP = "evaluate subscriptions over event files and print the notifications"
EXAMPLES = """\
  motet run --subscriptions fire.motet --events monday.nq tuesday.nq.gz
  motet run --subscriptions fire.motet --events *.nq --ontology building.ttl --engine spark --output out.jsonl
  sensors | motet run --subscriptions fire.motet --events - --strict

status: 1 when events were rejected; 3 instead with --strict
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--subscriptions", nargs="+", metavar="FILE", required=True, help="subscription files")
    add("--events", nargs="+", metavar="FILE", required=True, help="event files, in the order to read; or -")
    arguments.add_syntax_argument(parser)
    arguments.add_ontology_arguments(parser)
    add("--engine", choices=["embedded", "spark", "reference"], default="embedded", help="default: embedded")
    add("--output", metavar="FILE", help="default: standard output")
    add("--dead-letter", metavar="FILE", help="where to write rejected events, as JSON lines")
    arguments.add_arrival_argument(parser)
    arguments.add_document_arguments(parser)
    arguments.add_content_type_argument(parser)
    arguments.add_strict_argument(parser)
    add("--json", action="store_true", help="print the summary as JSON, on standard error")


def run(args: argparse.Namespace) -> int:
    if args.dead_letter == "-" and args.output in (None, "-"):
        raise UsageError("notifications and dead letters cannot both go to standard output", advice="Give --output.")
    job = arguments.load_job(args)
    started = time.perf_counter()
    rejections = output.Rejections(args.dead_letter)
    with output.open_output(args.output) as file:
        sink = output.NotifiedSubscriptions(file)
        summary = runner(args.engine)(job, sink.as_file(), rejections)
    findings = _findings(args, job, summary, sink.names)
    for line in () if args.json else findings.lines():
        output.warn(f"warning: {line}")
    summary = dataclasses.replace(summary, unknown_names=findings.unknown)
    unmatched = [dataclasses.asdict(leaf) for leaf in findings.unmatched]
    fields = dataclasses.asdict(summary) | {"unmatched_leaves": unmatched, "engine": args.engine}
    fields["seconds"] = round(time.perf_counter() - started, 3)
    output.warn(json.dumps(fields, sort_keys=True) if args.json else _summary(fields))
    return arguments.exit_status(args, rejected=summary.rejected)


def _findings(args: argparse.Namespace, job: BatchJob, summary: RunSummary, notified: set[str]) -> EventFindings:
    """The leaves that no event matched, and names that nothing has: on Spark these are looked for here."""
    from motet.jobs.run import EventFiles
    from motet.jobs.unmatched_leaves import find_unmatched
    from motet.lint.ontology_rules import UnknownNames

    background = job.background, job.entailment
    names = UnknownNames(job.subscriptions, job.background) if args.engine == "spark" else None
    findings = find_unmatched(
        job.subscriptions,
        notified,
        lambda: ((events, background) for events in EventFiles(job, lambda _: None)),
        background,
        prefixes=lambda: arguments.declared_prefixes(args),
        names=names,
    )
    if names is None:
        findings.unknown = summary.unknown_names
    return findings


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
