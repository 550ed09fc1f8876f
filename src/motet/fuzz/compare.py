"""Compares an engine with the reference engine on many random cases, byte by byte, in one or more processes."""

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
from motet.fuzz.cases import SUBSCRIPTIONS_PER_CASE, nth_case
from motet.fuzz.coverage import Coverage
from motet.fuzz.engines import Engine
from motet.fuzz.oracle import ExpectedResult, expected_result
from motet.fuzz.subscriptions import EngineCapabilities
from motet.jit.compiled import interpret_no_more

CASES_PER_TASK = 20  # unless the engine runs more cases at once
QUEUED_PER_PROCESS = 2  # items submitted per process before the oldest result is awaited

CaseItem = TypeVar("CaseItem")
CaseResult = TypeVar("CaseResult")


@dataclass(frozen=True)
class Difference:
    """A case whose actual lines differ from the expected ones."""

    case: Case
    expected: list[str]
    actual: list[str]


@dataclass
class FuzzReport:
    """Counts and differences of a fuzzing. One run is one subscription over one log."""

    capabilities: EngineCapabilities
    runs: int = 0
    logs: int = 0
    runs_with_notifications: int = 0
    notifications: int = 0
    seconds: float = 0.0
    coverage: Coverage = field(default_factory=Coverage)
    differences: list[Difference] = field(default_factory=list)

    def fields(self) -> dict[str, object]:
        return {
            "runs": self.runs,
            "logs": self.logs,
            "notified": self.runs_with_notifications,
            "notified_share": round(self.runs_with_notifications / max(self.runs, 1), 3),
            "notifications": self.notifications,
            "rarest_cell": self.coverage.rarest,
            "seconds": round(self.seconds, 1),
            "runs_per_second": round(self.runs / max(self.seconds, 1e-9), 1),
            "differences": len(self.differences),
            "logs_with_changes": self.capabilities.logs,
        }

    def add(self, case: Case, result: ExpectedResult) -> None:
        notifications = result.notification_counts()
        subscriptions = {subscription.name: subscription for subscription in case.subscriptions}  # may begin twice
        for subscription in subscriptions.values():
            has_notifications = notifications[subscription.name] > 0
            patterns = {pattern for name, pattern in result.active_patterns if name == subscription.name}
            self.coverage.add(case, subscription, patterns, has_notifications=has_notifications)
            self.runs_with_notifications += has_notifications
        self.runs += len(subscriptions)
        self.logs += 1
        self.coverage.add_log(case, has_notifications=notifications.total() > 0)
        self.notifications += notifications.total()

    def merge(self, other: FuzzReport) -> None:
        """Add the counts of another report."""
        self.runs += other.runs
        self.logs += other.logs
        self.runs_with_notifications += other.runs_with_notifications
        self.notifications += other.notifications
        self.coverage.merge(other.coverage)
        self.differences += other.differences


@dataclass(frozen=True)
class FuzzTask:
    """Consecutive cases for one process."""

    engine: Engine
    capabilities: EngineCapabilities
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
    on_progress: Callable[[int], object] = lambda _: None,
) -> FuzzReport:
    """Run random cases until the first difference, or all; ``on_progress`` is called with numbers of finished runs.

    The cases and the result depend on the seed alone, not on the number of processes.
    """
    report = FuzzReport(engine_capabilities(engine))
    started = time.perf_counter()
    tasks = (FuzzTask(engine, report.capabilities, seed, numbers, keep_going) for numbers in _task_ranges(engine, runs))
    with closing(map_in_processes(run_task, tasks, jobs)) as task_reports:
        for task_report in task_reports:
            report.merge(task_report)
            report.seconds = time.perf_counter() - started
            on_progress(task_report.runs)
            if report.differences and not keep_going:
                break
    gc.enable()
    return report


def run_task(task: FuzzTask) -> FuzzReport:
    """The report on the cases of a task, up to the first difference unless ``keep_going``.

    Engines cache many objects between cases, and repeated garbage collection takes a sixth of the time. Therefore new
    objects are collected once per task. Kernels run as compiled code, or with NUMBA_DISABLE_JIT=1 interpreted, never
    as a mixture that depends on the time.
    """
    interpret_no_more()
    gc.disable()
    gc.collect(0)
    report = FuzzReport(task.capabilities)
    cases_per_run = task.engine.cases_per_run
    for first in task.numbers[::cases_per_run]:
        numbers = range(first, min(first + cases_per_run, task.numbers.stop))
        cases = [nth_case(task.seed, number, task.capabilities, cases_per_run) for number in numbers]
        results = [expected_result(case) for case in cases]
        for case, result in zip(cases, results, strict=True):
            report.add(case, result)
        report.differences += filter(None, compare(task.engine, cases, results))
        if report.differences and not task.keep_going:
            break
    return report


def compare(
    engine: Engine, cases: Sequence[Case], results: Iterable[ExpectedResult] | None = None
) -> Iterator[Difference | None]:
    """The difference of each case, or None. An exception of the engine is a difference."""
    expected_results = results if results is not None else map(expected_result, cases)
    for case, result, actual in zip(cases, expected_results, actual_lines(engine, cases), strict=True):
        expected = result.lines(offsets=engine.has_offsets)
        yield None if expected == actual else Difference(case, expected, actual)


def actual_lines(engine: Engine, cases: Sequence[Case]) -> list[list[str]]:
    """The lines of the engine for each case, or its error message. Cases that fail together are run separately."""
    try:
        return engine.run(cases)
    except Exception as error:  # noqa: BLE001  (any exception of an engine is a difference to report)
        if len(cases) == 1:
            return [[f"{type(error).__name__}: {error}"]]
    return [actual_lines(engine, [case])[0] for case in cases]


def engine_capabilities(engine: Engine) -> EngineCapabilities:
    """The capabilities of an engine."""
    return EngineCapabilities(engine.accepts_logs, shares_runs=engine.cases_per_run > 1)


def _task_ranges(engine: Engine, runs: int) -> Iterator[range]:
    """Ranges of case numbers for the runs, one range per task."""
    cases = -(-runs // SUBSCRIPTIONS_PER_CASE)
    size = max(engine.cases_per_run, CASES_PER_TASK // engine.cases_per_run * engine.cases_per_run)
    return (range(first, min(first + size, cases)) for first in range(0, cases, size))


def map_in_processes(
    function: Callable[[CaseItem], CaseResult], items: Iterable[CaseItem], jobs: int
) -> Generator[CaseResult]:
    """The results of the items, in their order, computed by ``jobs`` processes, or in this process if ``jobs`` is 1.

    Closing the iterator cancels items that have not started.

    >>> list(map_in_processes(str, range(3), jobs=1))
    ['0', '1', '2']
    """
    if jobs == 1:
        yield from map(function, items)
        return
    pool = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"))
    try:
        pending: deque[Future[CaseResult]] = deque()
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) > QUEUED_PER_PROCESS * jobs:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
