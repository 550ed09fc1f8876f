"""The progress of a running pipeline: a live table on a terminal, otherwise a line of text or JSON for each batch."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from motet.cli.output import make_table
from motet.model.times import format_datetime, format_duration

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

    from motet.jobs.stream_progress import BatchProgress, LakeStatus, ProgressObserver


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
