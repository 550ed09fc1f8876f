"""What a person waits for: short commands, the first notification of a new process, and the output of many.

Each new process is measured as a whole, from its start to its end: wall time, and its processor time, which other users
of the machine change less. The best of some rounds counts. Goals are compared with processor time, which on a quiet
machine is about the wall time; for Spark, whose JVM is another process, with wall time. Where nothing is compiled,
Numba's cache is an empty directory. Bytecode of Python is cached before the first round.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for running it by path

from benchmarks.measurement.figures import Seconds, best, least, machine_load, print_clock, print_figure

from motet.lake import Lake
from motet.language.parse import parse
from motet.language.printer import to_text
from motet.model.batches import notification_batch
from motet.model.notification_lines import sorted_lines
from motet.model.notifications import Notification
from motet.model.terms import XSD

NS = "http://example.org/"
EVENTS, NOTIFICATIONS = 14, 76_777
GOALS = {"run": 0.8, "open": 1.0, "nothing compiled": 10.0, "lines": 0.2, "stream": 22.0}  # seconds
TITLES = {
    "run": f"motet run, {EVENTS} events",
    "open": "motet.open to the first notification, code of kernels cached",
    "nothing compiled": "motet.open to the first notification, nothing compiled",
    "lines": f"{NOTIFICATIONS:,} notifications as JSON lines",
    "stream": f"motet stream --once on Spark, {EVENTS} events",
}
SUBSCRIPTIONS = f"""PREFIX ex: <{NS}>
SUBSCRIPTION hot EVENT e {{ ?e ex:celsius ?c ; ex:room ?room FILTER(?c > 30) }} WHEN e SELECT ?c ?room
SUBSCRIPTION fire
  EVENT smoke {{ ?smoke ex:smoke ?s ; ex:room ?room }}
  EVENT heat {{ ?heat ex:celsius ?c ; ex:room ?room FILTER(?c > 30) }}
  WHEN smoke BEFORE heat WITHIN 5 min SELECT ?room
"""
FIRST_NOTIFICATION = """
import pathlib, sys, motet
subscriptions, event = (pathlib.Path(name).read_text() for name in ("all.motet", "hot.nq"))
received = []
with motet.open(sys.argv[1]) as cloud:
    cloud.subscribe(subscriptions, received.append)
    cloud.publish(event)
    assert received, "the event is hot"
"""


def write_input(folder: Path) -> None:
    (folder / "all.motet").write_text(SUBSCRIPTIONS)
    (folder / "events.nq").write_text("".join(map(event_text, range(EVENTS))))
    (folder / "hot.nq").write_text(event_text(EVENTS - 1))


def event_text(number: int) -> str:
    name, second = f"<{NS}e/{number}>", f"2026-11-15T10:00:{number:02}Z"
    value = f'celsius> "{25 + number}"^^<{XSD}integer>' if number % 2 else 'smoke> "yes"'
    return (
        f"{name} <{NS}{value} {name} .\n{name} <{NS}room> <{NS}r/{number // 2 % 3}> {name} .\n"
        f'{name} <http://www.w3.org/ns/sosa/resultTime> "{second}"^^<{XSD}dateTime> {name} .\n'
    )


def process_seconds(arguments: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> Seconds:
    """The time of a new Python process, from its start to its end."""
    command = [sys.executable, *arguments]
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    begin = time.perf_counter()
    variables |= environment or {}
    null = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=folder, env=variables, stdout=null, stderr=null)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} failed")
    return Seconds(wall, usage.ru_utime + usage.ru_stime)


def motet(*arguments: str) -> list[str]:
    return ["-m", "motet.cli.main", *arguments]


def run_seconds(folder: Path, _: int) -> Seconds:
    return process_seconds(motet("run", "--subscriptions", "all.motet", "--events", "events.nq"), folder)


def open_seconds(folder: Path, number: int) -> Seconds:
    return process_seconds(["-c", FIRST_NOTIFICATION, f"lake-{number}"], folder)


def nothing_compiled_seconds(folder: Path, number: int) -> Seconds:
    cache = folder / f"cache-{number}"
    cache.mkdir()
    arguments = ["-c", FIRST_NOTIFICATION, f"new-lake-{number}"]
    return process_seconds(arguments, folder, {"NUMBA_CACHE_DIR": str(cache)})


def stream_seconds(folder: Path, number: int) -> Seconds:
    lake = folder / f"stream-{number}"
    opened = Lake.open(lake)
    for subscription in parse(SUBSCRIPTIONS):
        opened.subscribe(subscription.name, to_text(subscription))
    process_seconds(motet("ingest", "--lake", str(lake), "events.nq"), folder)
    return process_seconds(motet("stream", "--once", "--lake", str(lake)), folder)


def lines_seconds(_: Path, __: int) -> Seconds:
    """The time from a batch of notifications to their sorted lines."""
    instants = [1_800_000_000_000_000 + 7_919 * number for number in range(NOTIFICATIONS)]
    rows = [
        Notification(
            "fire", start, start + 60_000_000, (f"{NS}e/{number}", f"{NS}e/{number + 1}"),
            (("c", f'"{number % 90}"^^<{XSD}integer>'), ("room", f"<{NS}r/{number % 500}>")),
        )
        for number, start in enumerate(instants)
    ]  # fmt: skip
    batch = notification_batch([(row, number) for number, row in enumerate(rows)])
    return best(lambda: lambda: list(sorted_lines([batch])), 1)


MEASUREMENTS: dict[str, Callable[[Path, int], Seconds]] = {
    "run": run_seconds,
    "open": open_seconds,
    "nothing compiled": nothing_compiled_seconds,
    "lines": lines_seconds,
    "stream": stream_seconds,
}


def measure(name: str, folder: Path, rounds: int) -> Seconds:
    """The least times of some rounds, after one that is not counted: it fills the caches of bytecode and kernels."""
    action = MEASUREMENTS[name]
    return least([action(folder, number) for number in range(rounds + 1)][1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each measurement (default: 5)")
    parser.add_argument("--spark", action="store_true", help="also measure motet stream, which takes a minute")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not options.json:
        print(machine_load())
        print_clock("commands and motet.open", "the start of a new process", "its end", "wall time and CPU time")
        print_clock("JSON lines", "a batch of notifications", "their sorted lines", "wall time and CPU time")
    figures = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_input(folder)
        for measured in [name for name in MEASUREMENTS if name != "stream" or options.spark]:
            rounds = 1 if measured == "stream" else options.rounds
            took, goal = measure(measured, folder, rounds), GOALS[measured]
            is_spark = measured == "stream"
            ratio = goal / (took.wall if is_spark else took.processor)
            figures[measured] = {"wall s": took.wall, "of goal": ratio}
            if not is_spark:
                figures[measured]["CPU s"] = took.processor
            if not options.json:
                figure = f"{took.wall:.2f} s" + ("" if is_spark else f", CPU {took.processor:.2f} s")
                print_figure(TITLES[measured], figure, f"≤ {goal:.1f} s", ratio)
    if options.json:
        print(json.dumps(figures))
        return
    print(machine_load())


if __name__ == "__main__":
    main()
