"""`motet rescale`: change the number of buckets of a stopped pipeline on Spark."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from motet.cli import arguments, output

HELP = "change the number of hash partitions of a stopped pipeline on Spark"
EXAMPLES = """\
  motet rescale --lake building --buckets 64
  motet rescale --lake north --lake south --checkpoint both --buckets 16 --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--lake", metavar="DIR", action="append", required=True, help="the lake of the pipeline; repeatable")
    add("--buckets", type=int, metavar="N", required=True, help="the new number of hash partitions")
    add("--checkpoint", metavar="DIR", help="the checkpoint directory of the pipeline (default: LAKE/checkpoint)")
    add("--master", metavar="URL", help="the Spark master that reads the state (default: local[*])")
    arguments.add_spark_settings(parser)
    add("--json", action="store_true", help="print the summary as JSON")


def run(args: argparse.Namespace) -> int:
    from motet.lake import Lake
    from motet.spark.session import brief_settings
    from motet.spark.stream.checkpoint import default_checkpoint, hold_checkpoint, stored_metadata
    from motet.spark.stream.job import pipeline_session
    from motet.spark.stream.rescale import check_buckets, rescale_checkpoint

    lakes = [str(Lake.open(lake, create=False).store.root.absolute()) for lake in args.lake]
    checkpoint = Path(args.checkpoint or default_checkpoint(args.lake)).absolute()
    metadata = stored_metadata(checkpoint, lakes)
    check_buckets(checkpoint, metadata, args.buckets)
    with hold_checkpoint(checkpoint):
        output.warn("starting Spark ...")
        settings = brief_settings(args.master) | arguments.spark_settings(args)
        with (
            pipeline_session(args.master, args.buckets, settings) as spark,
            output.status_line(f"distributing the state of {metadata.buckets} buckets"),
        ):
            rescaled = rescale_checkpoint(spark, checkpoint, stored_metadata(checkpoint, lakes), args.buckets)
    fields = dataclasses.asdict(rescaled)
    output.print_json(fields) if args.json else output.print_fields(fields)
    return 0
