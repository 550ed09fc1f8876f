"""How is a figure of a benchmark taken, and how is it told?

Others share the machine. So of some rounds the best counts, processor time stands beside the clock's, and the load is
told with the figures.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple


class Seconds(NamedTuple):
    clock: float
    processor: float


def timed(action: Callable[[], object]) -> Seconds:
    clock, processor = time.perf_counter(), time.process_time()
    action()
    return Seconds(time.perf_counter() - clock, time.process_time() - processor)


def best(prepare: Callable[[], Callable[[], object]], rounds: int = 5) -> Seconds:
    """The quickest round by either clock; what `prepare` takes to make ready for each is not counted."""
    runs = []
    for _ in range(rounds):
        action = prepare()
        gc.collect()
        runs.append(timed(action))
    return least(runs)


def least(runs: Iterable[Seconds]) -> Seconds:
    clock, processor = map(min, zip(*runs, strict=True))
    return Seconds(clock, processor)


def rate(count: float, seconds: float) -> str:
    """
    >>> rate(1_000_000, 0.125)
    '8.00 M/s'
    """
    return f"{count / seconds / 1e6:.2f} M/s"


def tell(question: str, figure: str, goal: str = "", ratio: float | None = None) -> None:
    """One line of the table; a ratio of 1 or more means that the goal is reached."""
    reached = "" if ratio is None else f"{ratio:.2f} of it"
    print(f"{question:<72}{figure:>26}  {f'goal {goal}' if goal else '':<34}{reached}", flush=True)


def load() -> str:
    """How busy the machine was."""
    return "load {:.1f} {:.1f} {:.1f}".format(*os.getloadavg()) + f" on {os.cpu_count()} cores"
