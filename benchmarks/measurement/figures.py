"""Measures and prints the figures of benchmarks.

The machine may be shared: of several rounds the best counts, processor time is given beside wall time, and the load of
the machine is printed with the figures.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple


class Seconds(NamedTuple):
    wall: float
    processor: float


def timed(action: Callable[[], object]) -> Seconds:
    """The wall and processor time of an action."""
    wall, processor = time.perf_counter(), time.process_time()
    action()
    return Seconds(time.perf_counter() - wall, time.process_time() - processor)


def best(prepare: Callable[[], Callable[[], object]], rounds: int = 5) -> Seconds:
    """The least wall and the least processor time of some rounds; the time of `prepare` is not included."""
    runs = []
    for _ in range(rounds):
        action = prepare()
        gc.collect()
        runs.append(timed(action))
    return least(runs)


def least(runs: Iterable[Seconds]) -> Seconds:
    """The least wall and the least processor time."""
    wall, processor = map(min, zip(*runs, strict=True))
    return Seconds(wall, processor)


def rate(count: float, seconds: float) -> str:
    """Millions per second, as text.

    >>> rate(1_000_000, 0.125)
    '8.00 M/s'
    """
    return f"{count / seconds / 1e6:.2f} M/s"


def print_figure(title: str, figure: str, goal: str = "", ratio: float | None = None) -> None:
    """Print one line of the table; a ratio of 1 or more means that the goal is reached."""
    reached = "" if ratio is None else f"{ratio:.2f} of it"
    print(f"{title:<72}{figure:>26}  {f'goal {goal}' if goal else '':<34}{reached}", flush=True)


def print_clock(subject: str, start: str, end: str, kind: str) -> None:
    """Print what a figure measures: where its clock starts and ends, and which time it is."""
    print(f"clock of {subject}: from {start} to {end}; {kind}", flush=True)


def machine_load() -> str:
    """The load averages of the machine."""
    return "load {:.1f} {:.1f} {:.1f}".format(*os.getloadavg()) + f" on {os.cpu_count()} cores"
