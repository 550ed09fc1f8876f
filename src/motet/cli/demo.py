"""`motet demo`: a day in a building through the whole pipeline: what events mean, and how they combine."""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from motet.cli import output
from motet.model.errors import UsageError
from motet.model.notifications import Notification

if TYPE_CHECKING:
    from rich.table import Table

    from motet.embedded.cloud import Cloud

HELP = "show a day in a building: events in, notifications out, on Spark"
EXAMPLES = """\
  motet demo
  motet demo --events 50000 --seed 7 --directory big-day
  motet demo --engine embedded
"""
MARK = "made-by-motet-demo"
SHOWN = 14  # rows of the live table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--events", type=int, default=6000, metavar="N", help="about how many (default: 6000)")
    parser.add_argument("--seed", type=int, default=1, help="another seed is another day (default: 1)")
    parser.add_argument("--directory", default="motet-demo", metavar="DIR", help="made anew (default: motet-demo)")
    parser.add_argument("--engine", choices=["spark", "embedded"], default="spark")
    parser.add_argument("--json", action="store_true", help="print the notifications and a summary as JSON")


def run(args: argparse.Namespace) -> int:
    import motet
    from motet.demo import building

    home = _fresh(Path(args.directory))
    paths = building.write_events(home / "events", events=max(args.events, 1), seed=args.seed)
    for source in (building.ontology_path(), building.subscriptions_path(), building.combined_path()):
        shutil.copy(source, home)
    begun = time.perf_counter()
    output.complain(f"starting the {args.engine} engine ...")
    with (
        motet.open(home / "lake", engine=args.engine, ontology=[building.ontology_path()]) as cloud,
        _Board(live=not args.json) as board,
    ):
        cloud.subscribe(building.subscriptions_path().read_text(), board.show)
        cloud.subscribe(building.combined_path().read_text(), board.show)
        cloud.flush()
        started = time.perf_counter()
        board.publish(cloud, paths[:1])  # Spark compiles and starts its workers with the first batch
        warm = time.perf_counter()
        warm_events = board.publish(cloud, paths[1:])
        evening = time.perf_counter()
    timing = {
        "startup_seconds": round(started - begun, 1),
        "first_batch_seconds": round(warm - started, 1),
        "then_events_per_second": round(warm_events / (evening - warm)),
    }
    _report(args, home, board, timing)
    return 0


class _Board:
    """The notifications as a table that grows while they come."""

    def __init__(self, *, live: bool) -> None:
        self.events = 0
        self.lines: list[str] = []  # notifications
        self._live = live

    def __enter__(self) -> _Board:
        from rich.live import Live

        self._display = Live(get_renderable=self._table, refresh_per_second=8) if self._live else None
        if self._display:
            self._display.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._display:
            self._display.stop()
            print()

    def publish(self, cloud: Cloud, paths: Sequence[Path]) -> int:
        """Publish files and wait until their notifications have come; returns the number of events."""
        before = self.events
        for path in paths:
            self.events += cloud.publish(path.read_bytes()).accepted
        cloud.flush()
        return self.events - before

    def show(self, notification: Notification) -> None:
        self.lines.append(notification.to_line())

    def _table(self) -> Table:
        from rich.table import Table

        title = f"{self.events} events published, {len(self.lines)} notifications"
        table = Table("time", "subscription", "what", title=title, title_justify="left", min_width=100)
        for line in self.lines[-SHOWN:]:
            table.add_row(*_row(json.loads(line)))
        return table


def _row(notification: Mapping[str, Any]) -> tuple[str, str, str]:
    what = "  ".join(f"{name} {_short(term['value'])}" for name, term in notification["bindings"].items())
    return notification["end"][:19].replace("T", " "), notification["subscription"], what or "(signal)"


def _short(value: str) -> str:
    """The last step of an IRI; literals as they are."""
    return value.rsplit("/", 1)[-1].rsplit("#", 1)[-1] if value.startswith("http") else value


def _fresh(home: Path) -> Path:
    """An empty directory for the demo; only what an earlier demo made is removed."""
    if home.exists() and any(home.iterdir()):
        if not (home / MARK).exists():
            raise UsageError(f"{home} is not empty", advice="Choose another --directory.")
        shutil.rmtree(home)
    home.mkdir(parents=True, exist_ok=True)
    (home / MARK).touch()
    return home


def _report(args: argparse.Namespace, home: Path, board: _Board, timing: Mapping[str, object]) -> None:
    counts = Counter(json.loads(line)["subscription"] for line in board.lines)
    facts = {
        "events": board.events,
        "notifications": len(board.lines),
        "by_subscription": dict(sorted(counts.items())),
        "engine": args.engine,
        **timing,
        "lake": str(home / "lake"),
    }
    if args.json:
        output.print_json(facts | {"lines": board.lines})
        return
    output.print_facts(facts)
    print(
        f"\nTry next:\n  motet inspect --lake {home / 'lake'}\n"
        f"  motet run --subscriptions {home}/*.motet --ontology {home}/building.ttl --events {home}/events/*.nq"
    )
