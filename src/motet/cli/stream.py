"""`motet stream`: the live pipeline on Spark, from a lake's log to its notification table."""

from __future__ import annotations

import argparse
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from motet.cli import output
from motet.cli.stopping import until_asked_to_stop
from motet.cli.watching import Watch, watching
from motet.model.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from motet.lake import Lake
    from motet.spark.stream.metrics import Metrics

HELP = "derive a lake's notifications on Spark while events are appended"
EXAMPLES = """\
  motet stream --lake building
  motet stream --lake building --once --json
  motet stream --lake north --lake south --checkpoint both --metrics-port 9464
"""
POLL = 1  # second between looks at the query
_PARTITIONS = "spark.sql.shuffle.partitions"


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
    from motet.spark.session import chosen
    from motet.spark.stream.checkpoint import default_of, settled
    from motet.spark.stream.metrics import Metrics, served

    if args.most is not None and args.most < 1:
        raise UsageError(f"--most {args.most} lets no record through", advice="Choose at least 1.")
    config = settings_of(args.conf)
    lakes = [Lake.open(lake, create=False) for lake in args.lake]
    checkpoint = Path(args.checkpoint or default_of(args.lake)).absolute()
    metrics = Metrics()
    with ExitStack() as stack:
        if args.metrics_port is not None:
            port = stack.enter_context(served(metrics, args.metrics_host, args.metrics_port))
            output.complain(f"metrics: http://{args.metrics_host}:{port}/metrics")
        roots = [str(lake.store.root.absolute()) for lake in lakes]
        note = settled(checkpoint, roots, args.buckets, chosen(args.master))
        output.complain("starting Spark ...")
        spark = stack.enter_context(_session(args.master, note.buckets, config))
        asked = stack.enter_context(until_asked_to_stop())
        watch = stack.enter_context(watching(as_json=args.json))
        pipeline = _Pipeline(lakes, checkpoint, metrics, watch)
        pipeline.follow(spark, asked, most=args.most, once=args.once)
    facts = pipeline.sums | {"checkpoint": str(checkpoint)}
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


@contextmanager
def _session(master: str | None, buckets: int, config: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session for the query, stopped afterwards unless it was there before."""
    from pyspark.sql import SparkSession

    from motet.spark.session import session

    borrowed = SparkSession.getActiveSession() is not None
    spark = session(master=master, app_name="motet-stream", config=config)
    if int(spark.conf.get(_PARTITIONS) or 0) > buckets:  # Spark's 200 are for other work; a bucket is never split
        spark.conf.set(_PARTITIONS, buckets)
    try:
        yield spark
    finally:
        if not borrowed:
            spark.stop()


class _Pipeline:
    """A query that is followed until it ends, or somebody asks it to."""

    def __init__(self, lakes: list[Lake], checkpoint: Path, metrics: Metrics, watch: Watch) -> None:
        self._lakes = lakes
        self._checkpoint = checkpoint
        self._metrics = metrics
        self._watch = watch
        self._last = -1
        self.sums: dict[str, int] = dict.fromkeys(("batches", "records", "events", "late", "notifications"), 0)

    def follow(self, spark: SparkSession, asked: threading.Event, *, most: int | None, once: bool) -> None:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        from motet.spark.stream.errors import spoken
        from motet.spark.stream.pipeline import RECORDS, start

        paths = [lake.store.root for lake in self._lakes]
        try:
            query = start(spark, paths, self._checkpoint, most=most or RECORDS, once=once)
            while not query.awaitTermination(POLL):
                self._look(query)
                if asked.is_set():
                    query.stop()
            self._look(query)
        except (PySparkException, Py4JError) as error:
            raise spoken(error, self._checkpoint) from error

    def _look(self, query: StreamingQuery) -> None:
        """Tell of the batches that have ended since the last look, and of the lakes."""
        from motet.spark.stream.progress import batches, standing

        lakes = [standing(lake) for lake in self._lakes]
        self._metrics.stand(lakes)
        self._watch.stand(lakes)
        for batch in batches(query, self._last):
            self._last = batch.number
            self._metrics.add(batch)
            self._watch.batch(batch, lakes)
            self.sums["batches"] += 1
            for name in ("records", "events", "late", "notifications"):
                self.sums[name] += getattr(batch, name)
