"""Compares an engine with the reference engine on many random cases, byte by byte, in one or more processes.

The report counts how often the cases exercise each operator, by context and by points or intervals, and each kind of
log.
"""

from __future__ import annotations

import gc
import multiprocessing
import time
from collections import Counter, deque
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from typing import TypeVar

from motet import reference
from motet.fuzz.case import Case, ExpectedResult, expected_result
from motet.fuzz.cases import SUBSCRIPTIONS_PER_CASE, nth_case
from motet.fuzz.documents import MINTED
from motet.fuzz.engines import Engine
from motet.fuzz.subscriptions import EngineCapabilities
from motet.jit.compiled import interpret_no_more
from motet.language.check import operator_text
from motet.language.scope import children, nodes
from motet.language.syntax import Context, No, Pattern, Run, Subscription, Times
from motet.model.intervals import Relation
from motet.model.times import END_OF_TIME

# Coverage


OPERATORS = (
    "LEAF", "AND", "ALONGSIDE", *(relation.value for relation in Relation), "OR", "XOR", "WITHIN", "FILTER", "UNLESS",
    "WITHOUT", "NO", "{n}", "{n} EVERY", "+ EVERY",
)  # fmt: skip
KINDS = ("points", "intervals")

LOG_KINDS = (
    "late event", "stamped event", "event without IRI", "XML event", "XML event without IRI", "repetition", "conflict",
    "event ahead", "tick",
    "tick before the clock", "frontier capped by the clock", "change of settings", "clocks of several writers",
    "commit of several events", "upgraded lake", "NO from SINCE", "NO from the frontier", "NO from the first event",
    "NO of an upgraded lake",
)  # fmt: skip

Cell = tuple[str, str, str]  # operator, context, points or intervals


@dataclass
class Coverage:
    """``exercised`` counts runs in which every operand of an operator has occurrences; ``with_notifications`` those of
    them that have notifications.
    """

    exercised: Counter[Cell] = field(default_factory=Counter)
    with_notifications: Counter[Cell] = field(default_factory=Counter)
    logs: Counter[str] = field(default_factory=Counter)  # by kind
    logs_with_notifications: Counter[str] = field(default_factory=Counter)

    def add_log(self, case: Case, *, has_notifications: bool) -> None:
        """Count the kinds of a log."""
        kinds = log_kinds(case)
        self.logs.update(kinds)
        self.logs_with_notifications.update(kinds if has_notifications else ())

    def add(
        self, case: Case, subscription: Subscription, active_patterns: Container[Pattern], *, has_notifications: bool
    ) -> None:
        """Count the operators of a subscription whose operands are all among ``active_patterns``."""
        kind = KINDS[any(event.start < event.end for event in case.events)]
        for operator in {name for name, node in operators(subscription.pattern) if _has_inputs(node, active_patterns)}:
            cell = (operator, subscription.context.value, kind)
            self.exercised[cell] += 1
            self.with_notifications[cell] += has_notifications

    def merge(self, other: Coverage) -> None:
        self.exercised += other.exercised
        self.with_notifications += other.with_notifications
        self.logs += other.logs
        self.logs_with_notifications += other.logs_with_notifications

    def log_rows(self) -> list[dict[str, object]]:
        """The number of logs of each kind, including zeros."""
        counts = ((kind, self.logs[kind], self.logs_with_notifications[kind]) for kind in LOG_KINDS)
        return [dict(zip(("kind", "logs", "notified"), row, strict=True)) for row in counts]

    @property
    def rarest(self) -> int:
        """The least count of the cells of all operators that were exercised."""
        exercised = {operator for operator, _, _ in self.exercised}
        counts = [row["cases"] for row in self.rows() if row["operator"] in exercised]
        return min((int(str(count)) for count in counts), default=0)

    def rows(self, contexts: tuple[Context, ...] = tuple(Context)) -> list[dict[str, object]]:
        """The counts of all cells, including zeros."""
        cells = [(operator, context.value, kind) for operator in OPERATORS for context in contexts for kind in KINDS]
        names = ("operator", "context", "kind", "cases", "notified")
        return [
            dict(zip(names, (*cell, self.exercised[cell], self.with_notifications[cell]), strict=True))
            for cell in cells
        ]


def operators(pattern: Pattern) -> Iterator[tuple[str, Pattern]]:
    """The operators of a pattern with their names in the report.

    >>> from motet.language.syntax import Leaf
    >>> [name for name, _ in operators(Times(Leaf("a"), 2))]
    ['{n}', 'LEAF']
    """
    for node, _ in nodes(pattern):
        match node:
            case Times(gap=gap):
                yield "{n}" if gap is None else "{n} EVERY", node
            case Run():
                yield "+ EVERY", node
            case _:
                yield operator_text(node), node


def _has_inputs(node: Pattern, active_patterns: Container[Pattern]) -> bool:
    return all(operand in active_patterns for operand in children(node))


def log_kinds(case: Case) -> set[str]:
    """The kinds of a log, of `LOG_KINDS`, by the reference engine's writer."""
    written = reference.write_log(case.records, case.lateness).records
    accepted = {record.offset: record for record in written}
    return {
        kind
        for record in case.records
        for kind in [
            *(_event_kinds(record, accepted) if isinstance(record, reference.EventRecord) else ()),
            *(_tick_kinds(record) if isinstance(record, reference.TickRecord) else ()),
            *(_absence_kinds(accepted[record.offset], case) if isinstance(record, reference.SubscribeRecord) else ()),
        ]
    } | set(_commit_kinds(case))


def _event_kinds(event: reference.EventRecord, accepted: Mapping[int, reference.Record]) -> Iterator[str]:
    stored = accepted.get(event.offset)
    if isinstance(stored, reference.EventRecord):
        yield from ("late event" for _ in [0] if stored.late)
        yield from ("stamped event" for _ in [0] if stored.stamped)
        kind = "event" if stored.payload is None else "XML event"
        yield from (f"{kind} without IRI" for _ in [0] if stored.id.startswith(MINTED))
        yield from ("XML event" for _ in [0] if stored.payload is not None)
        clock = END_OF_TIME if event.clock is None else event.clock
        yield from ("frontier capped by the clock" for _ in [0] if not stored.stamped and event.end > clock)
        return
    earlier = [each for each in accepted.values() if isinstance(each, reference.EventRecord) and each.id == event.id]
    if not earlier or earlier[0].offset > event.offset:
        yield "event ahead"
    else:
        is_equal = (earlier[0].triples, earlier[0].payload) == (event.triples, event.payload)
        yield "repetition" if is_equal else "conflict"


def _tick_kinds(tick: reference.TickRecord) -> Iterator[str]:
    yield "tick"
    if tick.clock is not None and tick.instant <= tick.clock:
        yield "tick before the clock"


def _absence_kinds(record: reference.Record, case: Case) -> Iterator[str]:
    """Where the absences of a subscription begin."""
    assert isinstance(record, reference.SubscribeRecord)
    settings = [each.offset for each in case.records if isinstance(each, reference.SettingsRecord)]
    if any(isinstance(node, No) for node, _ in nodes(record.subscription.pattern)):
        if record.subscription.since is not None:
            yield "NO from SINCE"
        elif settings and record.offset < settings[0]:
            yield "NO of an upgraded lake"
        else:
            yield "NO from the first event" if record.frontier is None else "NO from the frontier"


def _commit_kinds(case: Case) -> Iterator[str]:
    settings = [record.offset for record in case.records if isinstance(record, reference.SettingsRecord)]
    clocks = [record.clock for record in case.records if record.clock is not None]
    commits = Counter(event.commit for event in case.events if event.commit is not None)
    yield from ("change of settings" for _ in settings[1:2])
    yield from ("upgraded lake" for offset in settings[:1] if offset)
    yield from ("clocks of several writers" for _ in [0] if sorted(clocks) != clocks)
    yield from ("commit of several events" for _ in [0] if max(commits.values(), default=1) > 1)


# Comparison


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
