"""`motet stream`: run the live pipeline, from the log of a lake to its notification table."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from motet.cli import arguments, output
from motet.cli.lake_advice import pending_text, warn_of_earlier_events, warn_of_no_subscription, warn_of_unknown_names
from motet.cli.output import make_table
from motet.cli.shutdown import graceful_shutdown
from motet.model.errors import UsageError
from motet.model.times import format_datetime, format_duration

if TYPE_CHECKING:
    import threading

    from rich.live import Live
    from rich.table import Table

    from motet.jobs.stream_progress import BatchProgress, LakeStatus, ProgressObserver
    from motet.lake import Lake


SMALL_BACKLOG = 20_000  # up to which --once ends sooner in a JVM that does not optimise its code
SPARK_OPTIONS = ("checkpoint", "buckets", "max_records", "master", "conf")
HELP = "compute a lake's notifications while events are appended, on Spark or in this process"
EXAMPLES = """\
  motet stream --lake building
  motet stream --lake building --engine embedded --once     # no Spark, no JVM: for small lakes
  motet stream --lake building --once --json
  motet stream --lake north --lake south --checkpoint both --metrics-port 9464

status: with --strict 3 when events were late
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--lake", metavar="DIR", action="append", required=True, help="the lake; repeatable")
    add(
        "--engine",
        choices=["spark", "embedded"],
        default="spark",
        help="spark (default), or embedded: in this process, without a JVM, for lakes that one core can follow",
    )
    add("--once", action="store_true", help="process the records appended so far, then stop")
    arguments.add_background_argument(parser)
    add("--checkpoint", metavar="DIR", help="on Spark: the checkpoint directory (default: LAKE/checkpoint)")
    add(
        "--buckets",
        type=int,
        metavar="N",
        help="on Spark: the number of hash partitions; fixed by the checkpoint (default: 4 per core, 64 on a cluster)",
    )
    add("--max-records", type=int, metavar="N", help="on Spark: the most records of a lake in a batch (200000)")
    add("--most", dest="max_records", type=int, help=argparse.SUPPRESS)  # the former name
    add("--master", metavar="URL", help="the Spark master (default: local[*], or the master of `motet submit`)")
    arguments.add_spark_settings(parser)
    arguments.add_strict_argument(parser)
    add("--json", action="store_true", help="print each batch as a line of JSON, and the totals at the end")
    add("--metrics-port", type=int, metavar="PORT", help="serve Prometheus metrics on this port; 0 chooses a free one")
    add(
        "--metrics-host",
        default="127.0.0.1",
        metavar="HOST",
        help="the address to serve metrics on (default: %(default)s)",
    )


class PipelineRunner(Protocol):
    """A pipeline on any engine."""

    @property
    def totals(self) -> dict[str, int]: ...

    @property
    def status(self) -> list[LakeStatus]: ...

    def run(self, stop_requested: threading.Event, *, once: bool = False) -> None: ...


def run(args: argparse.Namespace) -> int:
    from motet.lake import Lake

    _check(args)
    lakes = [Lake.open(lake, create=False) for lake in args.lake]
    with ExitStack() as stack:
        observers: list[ProgressObserver] = [_metrics(args, stack)] if args.metrics_port is not None else []
        fields: dict[str, object] = {}
        if args.engine == "spark":
            checkpoint = _checkpoint(args, lakes, stack)
            fields["checkpoint"] = str(checkpoint)
        for lake in lakes:
            arguments.add_ontology(args, lake)
            if not warn_of_no_subscription(lake.snapshot(), str(lake.store.root)):
                warn_of_earlier_events(lake.snapshot())
            warn_of_unknown_names(lake.snapshot())
        start = _start_spark(args, lakes, checkpoint, stack) if args.engine == "spark" else _start_embedded(lakes)
        stop_requested = stack.enter_context(graceful_shutdown())
        observers.append(stack.enter_context(progress_view(as_json=args.json)))
        pipeline = start(observers)
        pipeline.run(stop_requested, once=args.once)
    pending = sum(lake.pending for lake in pipeline.status)
    fields = {**pipeline.totals, "pending": pending, **fields}
    print(json.dumps(fields, sort_keys=True)) if args.json else output.print_fields(fields)
    for lake_status in pipeline.status:
        if text := pending_text((lake_status.pending, lake_status.pending_until), lake_status.lake):
            output.warn(text)
    return arguments.exit_status(args, rejected=0, late=pipeline.totals["late"])


def _check(args: argparse.Namespace) -> None:
    if args.max_records is not None and args.max_records < 1:
        raise UsageError(f"--max-records must be at least 1, not {args.max_records}", advice="Omit it for the default.")
    given = [name for name in SPARK_OPTIONS if getattr(args, name) not in (None, [])]
    if args.engine == "embedded" and given:
        option = f"--{given[0].replace('_', '-')}"
        raise UsageError(f"{option} is an option of Spark", advice="Leave it out, or use --engine spark.")


def _metrics(args: argparse.Namespace, stack: ExitStack) -> ProgressObserver:
    """Metrics that are served until the stack is closed."""
    from motet.jobs.metrics import Metrics, serve_metrics

    metrics = Metrics()
    port = stack.enter_context(serve_metrics(metrics, args.metrics_host, args.metrics_port))
    output.warn(f"metrics: http://{args.metrics_host}:{port}/metrics")
    return metrics


PipelineStart = Callable[[Sequence["ProgressObserver"]], PipelineRunner]


def _start_embedded(lakes: Sequence[Lake]) -> PipelineStart:
    from motet.embedded.pipeline import EmbeddedPipeline

    return lambda observers: EmbeddedPipeline(lakes, observers=observers, report=output.warn)


def _checkpoint(args: argparse.Namespace, lakes: Sequence[Lake], stack: ExitStack) -> Path:
    """The checkpoint, checked and held until the stack is closed."""
    from motet.spark.session import resolve_master
    from motet.spark.stream.checkpoint import default_checkpoint, hold_checkpoint, open_checkpoint

    arguments.spark_settings(args)
    checkpoint = Path(args.checkpoint or default_checkpoint(args.lake)).absolute()
    roots = [str(lake.store.root.absolute()) for lake in lakes]
    args.buckets = open_checkpoint(checkpoint, roots, args.buckets, resolve_master(args.master)).buckets
    stack.enter_context(hold_checkpoint(checkpoint))
    return checkpoint


def _start_spark(args: argparse.Namespace, lakes: Sequence[Lake], checkpoint: Path, stack: ExitStack) -> PipelineStart:
    from motet.spark.session import brief_settings
    from motet.spark.stream.job import MAX_RECORDS, PipelineJob, pipeline_session

    output.warn("starting Spark ...")
    settings = arguments.spark_settings(args)
    if args.once and sum(lake.snapshot().next_offset for lake in lakes) < SMALL_BACKLOG:
        settings = brief_settings(args.master) | settings
    spark = stack.enter_context(pipeline_session(args.master, args.buckets, settings))
    max_records = args.max_records or MAX_RECORDS
    return lambda observers: PipelineJob(
        spark, lakes, checkpoint, max_records=max_records, observers=observers, report=output.warn
    )


# Progress: a live table on a terminal, otherwise a line of text or JSON for each batch


@contextmanager
def progress_view(*, as_json: bool) -> Iterator[ProgressObserver]:
    """The view that suits standard output."""
    if as_json or not sys.stdout.isatty():
        yield BatchLines(as_json)
        return
    from rich.live import Live

    with Live(refresh_per_second=4) as live:
        yield LiveTable(live)


class BatchLines:
    """One line for each batch."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json

    def add_batch(self, batch: BatchProgress, lakes: list[LakeStatus]) -> None:
        if self._as_json:
            now = time.time_ns() // 1000
            text = json.dumps({**batch.to_json(), "lakes": [lake.to_json(now) for lake in lakes]}, sort_keys=True)
        else:
            from motet.jobs.stream_progress import pending_note

            counts = [f"{count} {name}" for name in ("late", "stamped") if (count := getattr(batch, name))]
            notes = [*counts, note] if (note := pending_note(lakes)) else counts
            text = (
                f"batch {batch.number}: {batch.records} records in {batch.seconds:.1f} s "
                f"({batch.records_per_second:.0f}/s), {batch.notifications} notifications, "
                f"{sum(lake.backlog for lake in lakes)} behind" + "".join(f", {each}" for each in notes)
            )
        print(text, flush=True)

    def set_lake_status(self, lakes: list[LakeStatus]) -> None:
        """Lines are printed for batches only."""


class LiveTable:
    """The last batch, and the lakes below it."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._batch: BatchProgress | None = None

    def add_batch(self, batch: BatchProgress, lakes: list[LakeStatus]) -> None:
        self._batch = batch
        self.set_lake_status(lakes)

    def set_lake_status(self, lakes: list[LakeStatus]) -> None:
        from rich.console import Group

        tables = [] if self._batch is None else [_batch_table(self._batch)]
        self._live.update(Group(*tables, _lake_table(lakes, time.time_ns() // 1000)))


def _batch_table(batch: BatchProgress) -> Table:
    shares = [f"{name} {share:.0%}" for name, share in batch.shares.items() if share >= 0.01]
    rows = [
        ("batch", f"{batch.number}, {batch.seconds:.1f} s" + (f": {', '.join(shares)}" if shares else "")),
        ("records", f"{batch.records} ({batch.records_per_second:.0f}/s)"),
        ("events", f"{batch.events} ({batch.events_per_second:.0f}/s), {batch.late} late, {batch.stamped} stamped"),
        ("notifications", f"{batch.notifications} ({batch.match_rate:.3g} per event)"),
    ]
    if batch.stages:
        rows.append(("processor", ", ".join(f"{name} {seconds:.2f} s" for name, seconds in batch.stages.items())))
    if batch.state_bytes is not None and batch.store_bytes is not None:
        sizes = f"{batch.state_bytes / 1e6:.1f} MB, on disk {batch.store_bytes / 1e6:.1f} MB"
        rows.append(("state", f"{batch.state_rows} rows, {sizes}"))
    return make_table(rows)


def _lake_table(lakes: list[LakeStatus], now: int) -> Table:
    from motet.jobs.stream_progress import pending_note

    rows = []
    for lake in lakes:
        frontier = "none yet" if lake.frontier is None else format_datetime(lake.frontier)
        durations = _duration(lake.lag), _duration(lake.behind(now))
        live, pending = "yes" if lake.live else "no", pending_note([lake])
        rows.append((lake.lake, lake.end, lake.backlog, frontier, *durations, live, pending))
    headers = ["lake", "records", "behind", "frontier", "lag", "behind the clock", "live", "notifications"]
    return make_table(rows, headers=headers)


def _duration(micros: int | None) -> str:
    """A duration without fractions of a second."""
    return "" if micros is None else format_duration(micros - micros % 1_000_000)
