"""The engines that can be compared with the reference engine, behind one interface.

An engine has a name, says whether it accepts logs or only runs and how many cases it should run at once, and maps cases
to notification lines.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, BinaryIO, Protocol

import pyarrow as pa

from motet import reference
from motet.fuzz.case import Case, emission_lines, expected_lines, pack_cases, split_lines, without_offsets
from motet.fuzz.documents import MINTED, documents
from motet.fuzz.files import event_files, nquads
from motet.fuzz.processor_engines import BucketsEngine, CaseLog, ProcessorEngine
from motet.language.printer import to_text
from motet.model.batches import RECORDS, notification_rows
from motet.model.control import entailment_of
from motet.model.errors import ConflictError, DecodeError, UsageError
from motet.model.notifications import Notification
from motet.model.times import format_datetime
from motet.reference.records import commits

if TYPE_CHECKING:
    from motet.embedded.cloud import Cloud
    from motet.jobs.run import BatchJob, RunSummary

    Runner = Callable[[BatchJob, BinaryIO, Callable[[Sequence[DecodeError]], None]], RunSummary]
    from motet.lake import Lake

DOCUMENT_EVENTS = 12  # so many events of a run are in documents of their own; opening a file takes time
HOST_INTERVAL = 8  # one of so many cases is also run by a host


class Engine(Protocol):
    """The interface of engines for the fuzzer and the conformance suite."""

    @property
    def name(self) -> str: ...

    @property
    def accepts_logs(self) -> bool:
        """Whether it accepts logs, or only runs."""
        ...

    @property
    def cases_per_run(self) -> int:
        """The best number of cases for one call of `run`."""
        ...

    @property
    def has_offsets(self) -> bool:
        """Whether its lines have emission offsets."""
        ...

    def run(self, cases: Sequence[Case]) -> list[list[str]]:
        """The notification lines of each case, in the order of `motet run`."""
        ...


@dataclass(frozen=True)
class ReferenceEngine:
    """The reference engine, which is the oracle."""

    name: str = "reference"
    accepts_logs: bool = True
    cases_per_run: int = 1
    has_offsets: bool = False

    def run(self, cases: Sequence[Case]) -> list[list[str]]:
        return [expected_lines(case) for case in cases]


@dataclass(frozen=True)
class ShuffledReferenceEngine(ReferenceEngine):
    """The reference engine over another arrival order and in batches, neither of which may change its notifications."""

    def run(self, cases: Sequence[Case]) -> list[list[str]]:
        return [_lines_in_batches(shuffled(case)) for case in cases]


@dataclass(frozen=True)
class FileEngine:
    """An engine of `motet run`: files in, lines out."""

    name: str
    runner: Runner
    accepts_logs: bool = False
    cases_per_run: int = 1
    has_offsets: bool = False

    def run(self, cases: Sequence[Case]) -> list[list[str]]:
        refused = [case for case in cases if not case.is_run]
        if refused:
            raise UsageError(
                f"{self.name} reads event files, and this case is a log", advice="use an engine over a lake"
            )
        packed = cases[0] if len(cases) == 1 else pack_cases(cases)
        return list(split_lines(self._lines(packed), cases))

    def _lines(self, case: Case) -> list[str]:
        from motet.jobs.run import BatchJob

        sink = io.BytesIO()
        with _temporary_directory() as folder:
            paths = []
            for name, text in _input_files(case).items():
                paths.append(str(Path(folder) / name))
                Path(paths[-1]).write_text(text, "utf-8")
            job = BatchJob(case.subscriptions, tuple(paths), case.ontology, entailment_of(case.ontology), arrival=0)
            self.runner(job, sink, _refuse)
        return sink.getvalue().decode().split("\n")[:-1]


@dataclass(frozen=True)
class LiveEngine:
    """The embedded engine over a lake: the log is written in small commits, and listeners collect notifications."""

    name: str = "embedded-live"
    accepts_logs: bool = True
    cases_per_run: int = 1
    has_offsets: bool = False

    def run(self, cases: Sequence[Case]) -> list[list[str]]:
        return [self._lines(case) for case in cases]

    def _lines(self, case: Case) -> list[str]:
        from motet.embedded.cloud import Cloud
        from motet.fuzz.lakes import WriterClock, create_lake, created_records

        random, clock = Random(case.seed), WriterClock()  # noqa: S311  (seeded, not secret)
        delivered: Counter[tuple[int, Notification]] = Counter()  # by the commit that registered the listener
        with _temporary_directory() as folder, Cloud(create_lake(case, Path(folder) / "lake", clock)) as cloud:
            for stored in cloud.lake.snapshot().subscriptions().values():  # of a lake that was upgraded
                cloud.subscribe(stored.text, partial(_count, delivered, -1))
            for number, commit in enumerate(commits(case.records[created_records(case) :])):
                if isinstance(commit[0], reference.UnsubscribeRecord) or random.random() < 0.6:
                    cloud.flush()
                clock.set(commit[0].clock)
                _commit(cloud, commit, partial(_count, delivered, number))
            cloud.flush()
            if created_records(case) > 1:  # subscriptions that ended before the upgrade have no listener
                return without_offsets(_lake_lines(case, cloud.lake))
        counts: Counter[Notification] = Counter()  # each registration repeats its backfill, but no notification twice
        for (_, notification), count in delivered.items():
            counts[notification] = max(counts[notification], count)
        return [notification.to_line() for notification in sorted(counts.elements(), key=attrgetter("sort_key"))]


@dataclass(frozen=True)
class LakeEngine(ProcessorEngine):
    """A processor over a lake of several writers, which is compared with the log of the reference engine's writer."""

    name: str = "lake"

    def run(self, cases: Sequence[Case]) -> list[list[str]]:
        return [self._lake_lines(case) for case in cases]

    def _lake_lines(self, case: Case) -> list[str]:
        from motet.fuzz.lakes import lake_offsets, stored_differences, write_lake

        random = Random(case.seed)  # noqa: S311  (seeded, not secret)
        with _temporary_directory() as folder:
            lake = write_lake(case, Path(folder) / "lake")
            if random.random() < 0.3:
                lake.compact()
            snapshot = lake.snapshot()
            records = pa.Table.from_batches(snapshot.records(), RECORDS).combine_chunks().to_batches()
            differences = stored_differences(case, snapshot)
        log = CaseLog(records[0], snapshot.frontier, lake_offsets(case))
        return differences or self.process(log, frozenset(), random)


@dataclass(frozen=True)
class EmbeddedEngine(ProcessorEngine):
    """The embedded engine: its processor and, for some cases, also its hosts, over files or a lake."""

    name: str = "embedded"

    def run(self, cases: Sequence[Case]) -> list[list[str]]:
        return [self._check_host(case, lines) for case, lines in zip(cases, super().run(cases), strict=True)]

    def _check_host(self, case: Case, lines: list[str]) -> list[str]:
        """The lines of the processor, or those of the host if they differ."""
        host = embedded_files() if case.is_run else LiveEngine()
        if case.seed % HOST_INTERVAL:
            return lines
        [host_lines] = host.run([case])
        return lines if host_lines == without_offsets(lines) else host_lines


@dataclass(frozen=True)
class SparkStreamEngine:
    """The pipeline on Spark: many cases in one streaming query, each in a lake of its own.

    The sizes of batches and the numbers of buckets and partitions are random for each query.
    """

    name: str = "spark-stream"
    accepts_logs: bool = True
    cases_per_run: int = 60
    has_offsets: bool = True

    def run(self, cases: Sequence[Case]) -> list[list[str]]:
        from motet.fuzz.lakes import write_lake
        from motet.spark.session import session
        from motet.spark.stream.job import start_query

        random = Random(cases[0].seed)  # noqa: S311  (seeded, not secret)
        spark = session()
        with tempfile.TemporaryDirectory(prefix="motet-fuzz-") as folder:
            lakes = [write_lake(case, Path(folder) / str(index)) for index, case in enumerate(cases)]
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
            return [_lake_lines(case, lake) for case, lake in zip(cases, lakes, strict=True)]


def embedded_files() -> FileEngine:
    from motet.jobs.run import run_embedded

    return FileEngine("embedded", run_embedded)


def spark_files() -> FileEngine:
    from motet.spark.batch.run import run_spark

    return FileEngine("spark", run_spark, cases_per_run=40)


ENGINES: dict[str, Callable[[], Engine]] = {
    "buckets": BucketsEngine,
    "embedded": EmbeddedEngine,
    "kernel": ProcessorEngine,
    "lake": LakeEngine,
    "reference": ShuffledReferenceEngine,
    "spark": spark_files,
    "spark-stream": SparkStreamEngine,
}


def find_engine(name: str) -> Engine:
    if name not in ENGINES:
        raise UsageError(f"{name!r} is not an engine", advice=f"use one of {', '.join(sorted(ENGINES))}.")
    return ENGINES[name]()


def shuffled(case: Case) -> Case:
    """The case with consecutive events shuffled, or unchanged if that would make other events late.

    Repeated publications of an event keep their order, because the first content is accepted.
    """
    if any(record.commit is not None or record.clock is not None for record in case.records):
        return case  # the order inside a commit is that of the events' ends
    random = Random(case.seed)  # noqa: S311  (seeded, not secret)
    records: list[reference.Record] = []
    for are_events, group in groupby(case.records, key=lambda record: isinstance(record, reference.EventRecord)):
        run = list(group)
        records += _shuffled_events(random, run) if are_events else run
    candidate = case.with_records(records)
    return candidate if _late(candidate) == _late(case) else case


def _shuffled_events(random: Random, events: Sequence[reference.Record]) -> list[reference.Record]:
    names = [event.id for event in events if isinstance(event, reference.EventRecord)]
    random.shuffle(names)
    contents = {
        name: iter([e for e in events if isinstance(e, reference.EventRecord) and e.id == name]) for name in names
    }
    return [next(contents[name]) for name in names]


def _late(case: Case) -> set[str]:
    written = reference.write_log(case.records, case.lateness)
    return {record.id for record in written.records if isinstance(record, reference.EventRecord) and record.late}


def _lines_in_batches(case: Case) -> list[str]:
    """The notifications of successive prefixes of the log, of each only the new ones."""
    random = Random(case.seed)  # noqa: S311  (seeded, not secret)
    ends = [commit[-1].offset + 1 for commit in commits(case.records)]
    stops = sorted({random.choice(ends), ends[-1]}) if ends else []
    notifications: dict[Notification, None] = {}
    begin = 0
    for stop in stops:
        emitted = reference.evaluate_emissions(case.records[:stop], ontology=case.ontology, lateness=case.lateness)
        notifications |= {notification: None for offset, notification in emitted if offset >= begin}
        begin = stop
    return [notification.to_line() for notification in sorted(notifications, key=attrgetter("sort_key"))]


def _temporary_directory() -> tempfile.TemporaryDirectory[str]:
    """A temporary directory, in memory if possible, because a lake waits for its disk."""
    memory = Path("/dev/shm")  # noqa: S108  (a new directory is made in it)
    return tempfile.TemporaryDirectory(prefix="motet-fuzz-", dir=memory if os.access(memory, os.W_OK) else None)


def _refuse(rejected: Sequence[DecodeError]) -> None:
    """Raise a rejection, except of an event whose IRI has another content: the first content stays."""
    for error in rejected:
        if not isinstance(error, ConflictError):
            raise error


def _input_files(case: Case) -> dict[str, str]:
    """The texts of the event files of a run by name: N-Quads, half of the time after documents in other forms."""
    random = Random(case.seed)  # noqa: S311  (seeded, not secret)
    count = random.choice((0, DOCUMENT_EVENTS))
    inputs = enumerate(documents(case.events[:count], random, arguments=False))
    files = {f"document{number}{document.suffix}": document.text for number, document in inputs}
    return files | event_files(case.events[count:])


def _count(delivered: Counter[tuple[int, Notification]], commit: int, notification: Notification) -> None:
    delivered[commit, notification] += 1


def _commit(cloud: Cloud, commit: Sequence[reference.Record], listener: Callable[[Notification], object]) -> None:
    """Write one commit to the log of a cloud: an event as a request, several as a load."""
    from motet.fuzz.lakes import append_control, decoded

    match commit[0]:
        case reference.EventRecord(payload=None) as event if len(commit) == 1:
            with suppress(DecodeError):  # a conflict, or too far ahead
                cloud.publish(nquads(event))
        case reference.EventRecord(payload=bytes() as payload) as event if len(commit) == 1 and not _is_minted(event):
            time = None if event.stamped else tuple(map(format_datetime, (event.start, event.end)))
            with suppress(DecodeError):
                cloud.publish(payload, id=event.id, time=time)
        case reference.EventRecord():
            events = [record for record in commit if isinstance(record, reference.EventRecord)]
            cloud.lake.append(decoded(events, cloud.lake), partial=True)
        case reference.SubscribeRecord(subscription=subscription):
            cloud.subscribe(to_text(subscription), listener)
        case reference.UnsubscribeRecord(name=name):
            cloud.unsubscribe(name)
        case record:
            append_control(cloud.lake, record)


def _is_minted(event: reference.EventRecord) -> bool:
    return event.id.startswith(MINTED)


def _lake_lines(case: Case, lake: Lake) -> list[str]:
    """The notifications in a lake, with the offsets of the case."""
    from motet.fuzz.lakes import lake_offsets

    case_offsets = lake_offsets(case)
    rows = (row for batch in lake.notifications() for row in notification_rows(batch))
    return emission_lines([(case_offsets[offset], notification) for notification, offset in rows], offsets=True)
