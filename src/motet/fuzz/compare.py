"""Comparing an engine with the reference engine over many random cases, to the byte."""

from __future__ import annotations

import gc
import multiprocessing
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from typing import TypeVar

from motet.fuzz.case import Case
from motet.fuzz.cases import TOGETHER, nth_case
from motet.fuzz.coverage import Coverage
from motet.fuzz.engines import Engine
from motet.fuzz.oracle import Verdict, judge
from motet.fuzz.subscriptions import Abilities

PORTION = 20  # cases that make up one task, unless the engine wants more at once
AHEAD = 2  # tasks given out per process before the oldest answer is asked for

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Difference:
    """A case on which the engine does not say what the reference engine says."""

    case: Case
    expected: list[str]
    actual: list[str]


@dataclass
class Report:
    """What a run of the fuzzer did. One run is one subscription over one log."""

    abilities: Abilities
    runs: int = 0
    logs: int = 0
    told: int = 0  # runs that produced notifications
    notifications: int = 0
    seconds: float = 0.0
    coverage: Coverage = field(default_factory=Coverage)
    differences: list[Difference] = field(default_factory=list)

    def facts(self) -> dict[str, object]:
        return {
            "runs": self.runs,
            "logs": self.logs,
            "told": self.told,
            "told_share": round(self.told / max(self.runs, 1), 3),
            "notifications": self.notifications,
            "rarest_cell": self.coverage.rarest,
            "seconds": round(self.seconds, 1),
            "runs_per_second": round(self.runs / max(self.seconds, 1e-9), 1),
            "differences": len(self.differences),
            "logs_with_changes": self.abilities.logs,
        }

    def add(self, case: Case, verdict: Verdict) -> None:
        notifications = verdict.told()
        subscriptions = {subscription.name: subscription for subscription in case.subscriptions}  # some come back
        for subscription in subscriptions.values():
            told = notifications[subscription.name] > 0
            produced = {pattern for name, pattern in verdict.produced if name == subscription.name}
            self.coverage.add(case, subscription, produced, told=told)
            self.told += told
        self.runs += len(subscriptions)
        self.logs += 1
        self.notifications += notifications.total()

    def include(self, part: Report) -> None:
        """Take in what another process did."""
        self.runs += part.runs
        self.logs += part.logs
        self.told += part.told
        self.notifications += part.notifications
        self.coverage.include(part.coverage)
        self.differences += part.differences


@dataclass(frozen=True)
class Task:
    """Some successive cases: one process does them."""

    engine: Engine
    abilities: Abilities
    seed: int
    numbers: range
    keep_going: bool


def fuzz(
    engine: Engine,
    runs: int,
    seed: int,
    *,
    jobs: int = 1,
    keep_going: bool = False,
    advance: Callable[[int], object] = lambda _: None,
) -> Report:
    """Run random cases until a difference is found, or to the end; ``advance`` is told of the runs that are done.

    The seed alone decides the cases and what is found, not the number of processes.
    """
    report = Report(abilities_of(engine))
    started = time.perf_counter()
    tasks = (Task(engine, report.abilities, seed, part, keep_going) for part in _portions(engine, runs))
    with closing(answered(done, tasks, jobs)) as parts:
        for part in parts:
            report.include(part)
            report.seconds = time.perf_counter() - started
            advance(part.runs)
            if report.differences and not keep_going:
                break
    gc.enable()
    return report


def done(task: Task) -> Report:
    """The report on the cases of a task, up to the first difference unless all are wanted.

    What the engines keep for the next case is much: to look through it for garbage time and again takes a sixth of the
    time. So garbage is looked for once for each task, among what is new.
    """
    gc.disable()
    gc.collect(0)
    report = Report(task.abilities)
    at_once = task.engine.at_once
    for first in task.numbers[::at_once]:
        numbers = range(first, min(first + at_once, task.numbers.stop))
        cases = [nth_case(task.seed, number, task.abilities, at_once) for number in numbers]
        verdicts = [judge(case) for case in cases]
        for case, verdict in zip(cases, verdicts, strict=True):
            report.add(case, verdict)
        report.differences += filter(None, compare(task.engine, cases, verdicts))
        if report.differences and not task.keep_going:
            break
    return report


def compare(
    engine: Engine, cases: Sequence[Case], verdicts: Iterable[Verdict] | None = None
) -> Iterator[Difference | None]:
    """For each case the difference, if there is one. A failure is a difference too."""
    wanted = verdicts if verdicts is not None else map(judge, cases)
    for case, verdict, actual in zip(cases, wanted, answers(engine, cases), strict=True):
        expected = verdict.lines(offsets=engine.tells_offsets)
        yield None if expected == actual else Difference(case, expected, actual)


def answers(engine: Engine, cases: Sequence[Case]) -> list[list[str]]:
    """What the engine says to each case; the message when it fails. Cases that fail together are tried alone."""
    try:
        return engine.run(cases)
    except Exception as error:  # noqa: BLE001  (whatever an engine raises is a finding, not ours to die of)
        if len(cases) == 1:
            return [[f"{type(error).__name__}: {error}"]]
    return [answers(engine, [case])[0] for case in cases]


def abilities_of(engine: Engine) -> Abilities:
    """What the engine can be given."""
    return Abilities(engine.takes_logs, shares=engine.at_once > 1)


def _portions(engine: Engine, runs: int) -> Iterator[range]:
    """The numbers of as many cases as make up the runs, in pieces of one size."""
    cases = -(-runs // TOGETHER)
    size = max(engine.at_once, PORTION // engine.at_once * engine.at_once)
    return (range(first, min(first + size, cases)) for first in range(0, cases, size))


def answered(work: Callable[[Item], Result], tasks: Iterable[Item], jobs: int) -> Generator[Result]:
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
        waiting: deque[Future[Result]] = deque()
        for task in tasks:
            waiting.append(pool.submit(work, task))
            if len(waiting) > AHEAD * jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
