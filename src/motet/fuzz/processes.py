"""Many tasks in several processes, answered in the order of the tasks, so that how many processes there are changes
nothing but the time.
"""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from typing import TypeVar

Task = TypeVar("Task")
Answer = TypeVar("Answer")

AHEAD = 2  # tasks given out per process before the oldest answer is asked for


def answered(work: Callable[[Task], Answer], tasks: Iterable[Task], jobs: int) -> Generator[Answer]:
    """The answers to the tasks, one after the other; with one job in this very process.

    Whoever has heard enough closes the iterator: tasks that have not begun are then dropped.

    >>> list(answered(str, range(3), jobs=1))
    ['0', '1', '2']
    """
    if jobs == 1:
        yield from map(work, tasks)
        return
    pool = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"))
    try:
        waiting: deque[Future[Answer]] = deque()
        for task in tasks:
            waiting.append(pool.submit(work, task))
            if len(waiting) > AHEAD * jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
