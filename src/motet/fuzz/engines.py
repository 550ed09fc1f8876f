"""The engines a case can be given to, behind one small interface.

A new engine needs a name, whether it takes logs or only runs, how many cases it should be given at once, and a function
from cases to notification lines.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, BinaryIO, Protocol

from motet.fuzz.case import Case, apart, packed
from motet.fuzz.files import event_files
from motet.fuzz.oracle import expected_lines, lines_of, without_offsets
from motet.fuzz.processor_engines import BucketsEngine, KernelEngine, log_of
from motet.language.printer import to_text
from motet.model.batches import notification_rows
from motet.model.control import entailment_of
from motet.model.errors import DecodeError, UsageError
from motet.model.notifications import Notification
from motet.reference import (
    BackgroundRecord,
    EventRecord,
    Record,
    RetractRecord,
    SubscribeRecord,
    TickRecord,
    UnsubscribeRecord,
    assign_frontiers,
    evaluate_emissions,
)

if TYPE_CHECKING:
    from motet.embedded.cloud import Cloud
    from motet.jobs.run import BatchJob, RunSummary

    Runner = Callable[[BatchJob, BinaryIO, Callable[[Sequence[DecodeError]], None]], RunSummary]
    from motet.lake import Lake

HOSTED = 8  # of so many cases one is also given to a host


class Engine(Protocol):
    """What the fuzzer and the conformance suite ask of an engine."""

    @property
    def name(self) -> str: ...

    @property
    def takes_logs(self) -> bool:
        """Or only cases in the shape of `motet run`."""
        ...

    @property
    def at_once(self) -> int:
        """How many cases `run` is best given."""
        ...

    @property
    def tells_offsets(self) -> bool:
        """Whether its lines say which record made a notification final."""
        ...

    def run(self, cases: Sequence[Case]) -> list[list[str]]:
        """The notification lines of each case, in the order of `motet run`."""
        ...


@dataclass(frozen=True)
class Reference:
    """The reference engine as it is: the oracle."""

    name: str = "reference"
    takes_logs: bool = True
    at_once: int = 1
    tells_offsets: bool = False

    def run(self, cases: Sequence[Case]) -> list[list[str]]:
        return [expected_lines(case) for case in cases]


@dataclass(frozen=True)
class ShuffledReference(Reference):
    """The reference engine over another arrival order, and read piece by piece: neither may change what it says."""

    def run(self, cases: Sequence[Case]) -> list[list[str]]:
        return [_in_pieces(shuffled(case)) for case in cases]


@dataclass(frozen=True)
class Files:
    """An engine behind `motet run`: files in, lines out."""

    name: str
    runner: Runner
    takes_logs: bool = False
    at_once: int = 1
    tells_offsets: bool = False

    def run(self, cases: Sequence[Case]) -> list[list[str]]:
        refused = [case for case in cases if not case.is_run]
        if refused:
            raise UsageError(f"{self.name} reads event files; this case is a log", advice="Use an engine over a lake.")
        whole = cases[0] if len(cases) == 1 else packed(cases)
        return list(apart(self._lines(whole), cases))

    def _lines(self, case: Case) -> list[str]:
        from motet.jobs.run import BatchJob

        sink = io.BytesIO()
        with _scratch() as folder:
            paths = []
            for name, text in event_files(case.events).items():
                paths.append(str(Path(folder) / name))
                Path(paths[-1]).write_text(text, "utf-8")
            job = BatchJob(case.subscriptions, tuple(paths), case.ontology, entailment_of(case.ontology), arrival=0)
            self.runner(job, sink, _refuse)
        return sink.getvalue().decode().split("\n")[:-1]


@dataclass(frozen=True)
class Live:
    """The embedded engine over a lake: the log is written record by record, listeners collect what they are told."""

    name: str = "embedded-live"
    takes_logs: bool = True
    at_once: int = 1
    tells_offsets: bool = False

    def run(self, cases: Sequence[Case]) -> list[list[str]]:
        return [self._lines(case) for case in cases]

    def _lines(self, case: Case) -> list[str]:
        from motet.embedded.cloud import Cloud
        from motet.lake import Lake

        told: Counter[tuple[int, Notification]] = Counter()  # by the step a subscription's life began with
        with (
            _scratch() as folder,
            Cloud(Lake.open(folder, lateness=case.lateness)) as cloud,
        ):
            if case.ontology:
                cloud.background.add(case.ontology)
            for life, step in enumerate(batches(case)):
                _do(cloud, step, partial(_count, told, life))
        most: Counter[Notification] = Counter()  # each life tells its past again, but nothing twice
        for (_, found), times in told.items():
            most[found] = max(most[found], times)
        return [found.to_line() for found in sorted(most.elements(), key=lambda found: found.sort_key)]


@dataclass(frozen=True)
class Embedded(KernelEngine):
    """The embedded engine: its kernel and, of some cases, also the hosts around it, over files or a lake."""

    name: str = "embedded"

    def run(self, cases: Sequence[Case]) -> list[list[str]]:
        return [self._agreed(case, lines) for case, lines in zip(cases, super().run(cases), strict=True)]

    def _agreed(self, case: Case, lines: list[str]) -> list[str]:
        """What kernel and host both say; what the host says, if that is something else."""
        host = embedded_files() if case.is_run else Live()
        if case.seed % HOSTED:
            return lines
        [hosted] = host.run([case])
        return lines if hosted == without_offsets(lines) else hosted


def embedded_files() -> Files:
    from motet.jobs.run import run_embedded

    return Files("embedded", run_embedded)


def spark_files() -> Files:
    from motet.spark.batch.run import run_spark

    return Files("spark", run_spark, at_once=40)


def spark_stream() -> Engine:

    return StreamEngine()


ENGINES: dict[str, Callable[[], Engine]] = {
    "buckets": BucketsEngine,
    "embedded": Embedded,
    "kernel": KernelEngine,
    "reference": ShuffledReference,
    "spark": spark_files,
    "spark-stream": spark_stream,
}


def find_engine(name: str) -> Engine:
    if name not in ENGINES:
        raise UsageError(f"{name!r} is not an engine", advice=f"Use one of {', '.join(sorted(ENGINES))}.")
    return ENGINES[name]()


def shuffled(case: Case) -> Case:
    """The events between other records in another order; the same case when that would make other events late.

    Repetitions of an event stay in their order: the first content wins.
    """
    random = Random(case.seed)  # noqa: S311  (seeded, not secret)
    records: list[Record] = []
    for are_events, group in groupby(case.records, key=lambda record: isinstance(record, EventRecord)):
        found = list(group)
        records += _shuffled_events(random, found) if are_events else found
    other = case.with_records(records)
    return other if _late(other) == _late(case) else case


def batches(case: Case) -> Iterator[list[Record]]:
    """The log cut into what is committed together: one record, or some events that follow each other."""
    random = Random(case.seed)  # noqa: S311  (seeded, not secret)
    batch: list[Record] = []
    for record in case.records:
        if batch and not (
            isinstance(record, EventRecord) and isinstance(batch[-1], EventRecord) and random.random() < 0.6
        ):
            yield batch
            batch = []
        batch.append(record)
    if batch:
        yield batch


def _shuffled_events(random: Random, events: Sequence[Record]) -> list[Record]:
    names = [event.id for event in events if isinstance(event, EventRecord)]
    random.shuffle(names)
    contents = {name: iter([e for e in events if isinstance(e, EventRecord) and e.id == name]) for name in names}
    return [next(contents[name]) for name in names]


def _late(case: Case) -> set[str]:
    stamped = assign_frontiers(case.records, case.lateness)
    return {record.id for record in stamped if isinstance(record, EventRecord) and record.late}


def _in_pieces(case: Case) -> list[str]:
    """What is emitted when the log is read up to a few places, each time only what is new."""
    random = Random(case.seed)  # noqa: S311  (seeded, not secret)
    size = len(case.records)
    cuts = sorted({random.randint(1, size), size}) if size else []
    found: dict[Notification, None] = {}
    begin = 0
    for cut in cuts:
        emitted = evaluate_emissions(case.records[:cut], ontology=case.ontology, lateness=case.lateness)
        found |= {notification: None for offset, notification in emitted if offset >= begin}
        begin = cut
    return [notification.to_line() for notification in sorted(found, key=lambda found: found.sort_key)]


def _scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder that is gone afterwards; in memory where there is such a place, since a lake waits for its disk."""
    memory = Path("/dev/shm")  # noqa: S108  (a fresh folder of our own is made in it)
    return tempfile.TemporaryDirectory(prefix="motet-fuzz-", dir=memory if os.access(memory, os.W_OK) else None)


def _refuse(rejected: Sequence[DecodeError]) -> None:
    if rejected:
        raise rejected[0]


def _count(told: Counter[tuple[int, Notification]], life: int, found: Notification) -> None:
    told[life, found] += 1


def _do(cloud: Cloud, batch: Sequence[Record], listener: Callable[[Notification], object]) -> None:
    """One commit to the cloud's log."""
    match batch[0]:
        case EventRecord():
            for part in event_files([record for record in batch if isinstance(record, EventRecord)]).values():
                cloud.publish(part)
        case SubscribeRecord(subscription=subscription):
            cloud.subscribe(to_text(subscription), listener)
        case UnsubscribeRecord(name=name):
            cloud.unsubscribe(name)
        case TickRecord(instant=instant):
            cloud.tick(instant)
        case BackgroundRecord(added=added, removed=removed):
            cloud.lake.background(added=sorted(added), removed=sorted(removed))
        case RetractRecord(event=event):
            cloud.lake.retract(event)
    cloud.flush()


@dataclass(frozen=True)
class StreamEngine:
    name: str = "spark-stream"
    takes_logs: bool = True
    at_once: int = 60
    tells_offsets: bool = True

    def run(self, cases: Sequence[Case]) -> list[list[str]]:
        from motet.fuzz.replays import lake_of
        from motet.spark.session import session
        from motet.spark.stream.job import start_query

        random = Random(cases[0].seed)  # noqa: S311  (seeded, not secret)
        spark = session()
        with tempfile.TemporaryDirectory(prefix="motet-fuzz-") as folder:
            lakes = [lake_of(case, Path(folder) / str(number)) for number, case in enumerate(cases)]
            spark.conf.set("spark.sql.shuffle.partitions", random.randint(1, 4))
            query = start_query(
                spark,
                [lake.store.root for lake in lakes],
                Path(folder) / "checkpoint",
                buckets=random.randint(1, 4),
                max_records=random.choice((5, 9, 14, 30, 1000)),
                once=True,
            )
            query.awaitTermination()
            return [_lines(case, lake) for case, lake in zip(cases, lakes, strict=True)]


def _lines(case: Case, lake: Lake) -> list[str]:
    _, places = log_of(case)
    told = (row for batch in lake.notifications() for row in notification_rows(batch))
    return lines_of([(places[offset], notification) for notification, offset in told], offsets=True)
