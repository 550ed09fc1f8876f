"""`motet stream`: run the live pipeline on Spark, from the log of a lake to its notification table."""

from __future__ import annotations

import argparse
import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from motet.cli import arguments, output
from motet.cli.progress_view import progress_view
from motet.cli.shutdown import graceful_shutdown
from motet.model.errors import UsageError

if TYPE_CHECKING:
    from motet.lake import Lake

CHECKED_SUBSCRIPTIONS = 1_000  # the newest active ones, whose names are looked for in the newest records
CHECKED_RECORDS = 50_000

HELP = "compute a lake's notifications on Spark while events are appended"
EXAMPLES = """\
  motet stream --lake building
  motet stream --lake building --once --json
  motet stream --lake north --lake south --checkpoint both --metrics-port 9464
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--lake", metavar="DIR", action="append", required=True, help="the lake; repeatable")
    add("--checkpoint", metavar="DIR", help="the checkpoint directory of the query (default: LAKE/checkpoint)")
    add("--once", action="store_true", help="process the records appended so far, then stop")
    add(
        "--buckets",
        type=int,
        metavar="N",
        help="the number of hash partitions; fixed by the checkpoint (default: 4 per core, 64 on a cluster)",
    )
    add("--max-records", type=int, metavar="N", help="the most records of a lake in one batch (default: 200000)")
    add("--most", dest="max_records", type=int, help=argparse.SUPPRESS)  # the former name
    add("--master", metavar="URL", help="the Spark master (default: local[*], or the master of `motet submit`)")
    arguments.add_spark_settings(parser)
    add("--json", action="store_true", help="print each batch as a line of JSON, and the totals at the end")
    add("--metrics-port", type=int, metavar="PORT", help="serve Prometheus metrics on this port; 0 chooses a free one")
    add(
        "--metrics-host",
        default="127.0.0.1",
        metavar="HOST",
        help="the address to serve metrics on (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    from motet.lake import Lake
    from motet.spark.session import resolve_master
    from motet.spark.stream.checkpoint import default_checkpoint, open_checkpoint
    from motet.spark.stream.job import MAX_RECORDS, PipelineJob, pipeline_session
    from motet.spark.stream.progress import Metrics, serve_metrics

    if args.max_records is not None and args.max_records < 1:
        raise UsageError(f"--max-records must be at least 1, not {args.max_records}", advice="Omit it for the default.")
    config = arguments.spark_settings(args)
    lakes = [Lake.open(lake, create=False) for lake in args.lake]
    checkpoint = Path(args.checkpoint or default_checkpoint(args.lake)).absolute()
    metrics = Metrics()
    with ExitStack() as stack:
        if args.metrics_port is not None:
            port = stack.enter_context(serve_metrics(metrics, args.metrics_host, args.metrics_port))
            output.warn(f"metrics: http://{args.metrics_host}:{port}/metrics")
        roots = [str(lake.store.root.absolute()) for lake in lakes]
        metadata = open_checkpoint(checkpoint, roots, args.buckets, resolve_master(args.master))
        for lake in lakes:
            _warn_of_unknown_names(lake)
        output.warn("starting Spark ...")
        spark = stack.enter_context(pipeline_session(args.master, metadata.buckets, config))
        stop_requested = stack.enter_context(graceful_shutdown())
        view = stack.enter_context(progress_view(as_json=args.json))
        max_records = args.max_records or MAX_RECORDS
        observers = (metrics, view)
        pipeline = PipelineJob(
            spark, lakes, checkpoint, max_records=max_records, observers=observers, report=output.warn
        )
        pipeline.run(stop_requested, once=args.once)
    fields = pipeline.totals | {"checkpoint": str(checkpoint)}
    print(json.dumps(fields, sort_keys=True)) if args.json else output.print_fields(fields)
    return 0


def _warn_of_unknown_names(lake: Lake) -> None:
    """Name the classes and properties of a lake's subscriptions that neither its background nor an event has."""
    from motet.language.parse import parse
    from motet.lint.unknown_names import UnknownNames
    from motet.model.control import ControlState

    snapshot = lake.snapshot()
    state = ControlState().apply_all(snapshot.control_records())
    newest = list(state.subscriptions.values())[-CHECKED_SUBSCRIPTIONS:]
    names = UnknownNames([each for record in newest for each in parse(record.text)], state.background)
    first = max(0, snapshot.next_offset - CHECKED_RECORDS)
    for records in snapshot.records(first, columns=["triples"]) if names.is_open else ():
        names.observe(records)
    for unknown in names.found():
        output.warn(f"warning: {unknown}")
