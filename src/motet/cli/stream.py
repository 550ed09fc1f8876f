"""`motet stream`: the live pipeline on Spark, from a lake's log to its notification table."""

from __future__ import annotations

import argparse
import json
from contextlib import ExitStack
from pathlib import Path

from motet.cli import output
from motet.cli.stopping import until_asked_to_stop
from motet.cli.watching import watching
from motet.model.errors import UsageError

HELP = "derive a lake's notifications on Spark while events are appended"
EXAMPLES = """\
  motet stream --lake building
  motet stream --lake building --once --json
  motet stream --lake north --lake south --checkpoint both --metrics-port 9464
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lake", metavar="DIR", action="append", required=True, help="may be given several times")
    parser.add_argument(
        "--checkpoint", metavar="DIR", help="where the query keeps its state (default: LAKE/checkpoint)"
    )
    parser.add_argument("--once", action="store_true", help="stop when everything appended so far is derived")
    parser.add_argument(
        "--buckets",
        type=int,
        metavar="N",
        help="how far work can be spread; fixed with the checkpoint (default: 4 for each core, on a cluster 64)",
    )
    parser.add_argument("--most", type=int, metavar="N", help="records of a lake in a batch (default: 200000)")
    parser.add_argument(
        "--master", metavar="URL", help="where Spark runs (default: local[*], or as `motet submit` says)"
    )
    parser.add_argument("--conf", metavar="NAME=VALUE", action="append", default=[], help="a setting for Spark")
    parser.add_argument("--json", action="store_true", help="print each batch as a line of JSON, and at last the sums")
    parser.add_argument(
        "--metrics-port", type=int, metavar="PORT", help="serve Prometheus metrics; 0 takes a free port"
    )
    parser.add_argument("--metrics-host", default="127.0.0.1", metavar="HOST", help="default: %(default)s")


def run(args: argparse.Namespace) -> int:
    from motet.lake import Lake
    from motet.spark.session import resolve_master
    from motet.spark.stream.checkpoint import default_checkpoint, open_checkpoint
    from motet.spark.stream.job import MAX_RECORDS, PipelineJob, pipeline_session
    from motet.spark.stream.metrics import Metrics, serve_metrics

    if args.most is not None and args.most < 1:
        raise UsageError(f"--most {args.most} lets no record through", advice="Choose at least 1.")
    config = settings_of(args.conf)
    lakes = [Lake.open(lake, create=False) for lake in args.lake]
    checkpoint = Path(args.checkpoint or default_checkpoint(args.lake)).absolute()
    metrics = Metrics()
    with ExitStack() as stack:
        if args.metrics_port is not None:
            port = stack.enter_context(serve_metrics(metrics, args.metrics_host, args.metrics_port))
            output.complain(f"metrics: http://{args.metrics_host}:{port}/metrics")
        roots = [str(lake.store.root.absolute()) for lake in lakes]
        note = open_checkpoint(checkpoint, roots, args.buckets, resolve_master(args.master))
        output.complain("starting Spark ...")
        spark = stack.enter_context(pipeline_session(args.master, note.buckets, config))
        stop_requested = stack.enter_context(until_asked_to_stop())
        view = stack.enter_context(watching(as_json=args.json))
        max_records = args.most or MAX_RECORDS
        pipeline = PipelineJob(spark, lakes, checkpoint, max_records=max_records, observers=(metrics, view))
        pipeline.run(stop_requested, once=args.once)
    facts = pipeline.totals | {"checkpoint": str(checkpoint)}
    print(json.dumps(facts, sort_keys=True)) if args.json else output.print_facts(facts)
    return 0


def settings_of(pairs: list[str]) -> dict[str, str]:
    """Settings for Spark, given as on the command line.

    >>> settings_of(["spark.executor.memory=2g"])
    {'spark.executor.memory': '2g'}
    """
    wrong = next((pair for pair in pairs if "=" not in pair), None)
    if wrong is not None:
        raise UsageError(f"--conf {wrong!r} is not NAME=VALUE", advice="Write for example spark.executor.memory=2g")
    return dict(pair.split("=", 1) for pair in pairs)
