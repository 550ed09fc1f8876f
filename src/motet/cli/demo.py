"""`motet demo`: run the demo: publish a day of events in a building, with orders, and show the notifications live."""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from motet.cli import output
from motet.model.errors import DecodeError, UsageError
from motet.model.notifications import Notification

if TYPE_CHECKING:
    from rich.table import Table

    from motet.embedded.cloud import Cloud

HELP = "run the demo: a day of events in a building (RDF) with orders and payments (XML), notifications as a live table"
EXAMPLES = """\
  motet demo
  motet demo --events 50000 --seed 7 --directory big-day
  motet demo --engine embedded
"""
MARKER_FILE = "made-by-motet-demo"
TABLE_ROWS = 14
SLOTS = 8  # of the day, published one after the other


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--events", type=int, default=6000, metavar="N", help="approximate number of events (default: 6000)")
    add("--seed", type=int, default=1, help="seed of the random day (default: 1)")
    add(
        "--directory",
        default="motet-demo",
        metavar="DIR",
        help="created, or replaced if an earlier demo created it (default: motet-demo)",
    )
    add("--engine", choices=["spark", "embedded"], default="spark", help="default: spark")
    add("--json", action="store_true", help="print the notifications and a summary as JSON")


def run(args: argparse.Namespace) -> int:
    import motet
    from motet.demo import building

    directory = _empty_directory(Path(args.directory))
    building.write_events(directory / "events", events=max(args.events, 1), seed=args.seed, files=SLOTS)
    building.write_orders(directory / "events", seed=args.seed, files=SLOTS)
    texts = [building.subscriptions_path(), building.composite_path(), *building.order_paths()]
    for path in (building.ontology_path(), building.mapping_path(), *texts):
        shutil.copy(path, directory)
    ontology, mappings = [building.ontology_path()], [building.mapping_path()]
    launched = time.perf_counter()
    output.warn(f"starting the {args.engine} engine ...")
    with (
        motet.open(directory / "lake", engine=args.engine, ontology=ontology, mappings=mappings) as cloud,
        NotificationBoard(live=not args.json) as board,
    ):
        for path in texts:
            cloud.subscribe(path.read_text(), board.show, syntax=path.suffix[1:])
        cloud.flush()
        started = time.perf_counter()
        board.publish(cloud, directory / "events", range(1))  # Spark starts its workers with the first batch
        warmed_up = time.perf_counter()
        later_events = board.publish(cloud, directory / "events", range(1, SLOTS))
        finished = time.perf_counter()
    timing = {
        "startup_seconds": round(started - launched, 1),
        "first_batch_seconds": round(warmed_up - started, 1),
        "then_events_per_second": round(later_events / (finished - warmed_up)),
    }
    _report(args, directory, board, timing)
    return 0


class NotificationBoard:
    """The notifications received so far as a live table."""

    def __init__(self, *, live: bool) -> None:
        self.events = 0
        self.lines: list[str] = []  # one notification each
        self._live = live

    def __enter__(self) -> NotificationBoard:
        from rich.live import Live

        self._display = Live(get_renderable=self._table, refresh_per_second=8) if self._live else None
        if self._display:
            self._display.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._display:
            self._display.stop()
            print()

    def publish(self, cloud: Cloud, directory: Path, slots: Iterable[int]) -> int:
        """Publish the files of each slot of the day as one load, in the order of the ends of its events; wait until the
        notifications are delivered, and return the number of events.
        """
        from motet.connectors.ingestion import ingest_files

        before = self.events
        for slot in slots:
            paths = [str(path) for path in sorted(directory.glob(f"{slot:02}-*"))]
            self.events += sum(result.accepted for result in ingest_files(cloud.lake, paths, _refuse))
        cloud.flush()
        return self.events - before

    def show(self, notification: Notification) -> None:
        self.lines.append(notification.to_line())

    def _table(self) -> Table:
        title = f"{self.events} events published, {len(self.lines)} notifications"
        rows = [_row(json.loads(line)) for line in self.lines[-TABLE_ROWS:]]
        headers = ["time", "subscription", "bindings"]
        return output.make_table(rows, headers=headers, title=title, title_justify="left", min_width=100)


def _refuse(rejected: Sequence[DecodeError]) -> None:
    """No event of the demo is rejected."""
    for error in rejected:
        raise error


def _row(notification: Mapping[str, Any]) -> tuple[str, str, str]:
    bindings = "  ".join(f"{name} {_short(term['value'])}" for name, term in notification["bindings"].items())
    return notification["end"][:19].replace("T", " "), notification["subscription"], bindings or "(signal)"


def _short(value: str) -> str:
    """The last segment of an IRI; literals unchanged."""
    return value.rsplit("/", 1)[-1].rsplit("#", 1)[-1] if value.startswith("http") else value


def _empty_directory(path: Path) -> Path:
    """An empty directory for the demo; only the directory of an earlier demo is deleted."""
    if path.exists() and any(path.iterdir()):
        if not (path / MARKER_FILE).exists():
            raise UsageError(f"{path} is not empty", advice="Choose another --directory.")
        shutil.rmtree(path)
    path.mkdir(parents=True, exist_ok=True)
    (path / MARKER_FILE).touch()
    return path


def _report(args: argparse.Namespace, directory: Path, board: NotificationBoard, timing: Mapping[str, object]) -> None:
    counts = Counter(json.loads(line)["subscription"] for line in board.lines)
    fields = {
        "events": board.events,
        "notifications": len(board.lines),
        "by_subscription": dict(sorted(counts.items())),
        "engine": args.engine,
        **timing,
        "lake": str(directory / "lake"),
    }
    if args.json:
        output.print_json(fields | {"lines": board.lines})
        return
    output.print_fields(fields)
    print(
        f"\nTry next:\n  motet inspect --lake {directory / 'lake'}\n"
        f"  motet run --subscriptions {directory}/building.motet {directory}/combined.motet "
        f"--ontology {directory}/building.ttl --events {directory}/events/*.nq\n"
        f"  motet run --syntax exmlql --subscriptions {directory}/orders.exmlql --events {directory}/events/*.xml"
    )
