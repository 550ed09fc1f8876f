"""Whole runs and replays on Spark."""

from __future__ import annotations

import io
import pickle
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.builders import RESULT_TIME, datetime, event_nquads
from tests.replays import expected_replay_lines, nth_replay

import motet
from motet.codec.decode import decode_bytes, decode_file
from motet.codec.events import UniqueEvents
from motet.codec.options import Limits
from motet.demo import building
from motet.engine.runtime.partitions import PartitionedRun, RoutedRecords
from motet.fuzz.case import timed_event
from motet.fuzz.files import nquads
from motet.fuzz.lakes import write_lake
from motet.jobs.replay import Replay, ReplayGroup, load_replay, replay_embedded
from motet.jobs.run import RunSummary
from motet.jobs.subscription_files import load_subscriptions
from motet.jobs.verify import verify_embedded
from motet.lake import Lake
from motet.language.parse import parse
from motet.model.batches import EventRow, event_rows
from motet.model.errors import DecodeError, EngineError
from motet.model.notifications import Notification
from motet.model.terms import RDF_TYPE, RDFS, iri, literal
from motet.model.times import parse_datetime
from motet.plan.graph import RouteKind
from motet.reference import EventRecord
from motet.spark.batch.events import split_files
from motet.spark.batch.run import MatchVisible, replay_spark, run_batch
from motet.spark.batch.tasks import PACKED_EVENTS, ROUTED_EVENTS, BatchMatcher, DetectBuckets
from motet.spark.batch.verify import verify_spark

# In UTF-16 the flame sorts before the full-width letter, by code point after it.
NAMES = ("a", "aa", "b", "\uff41", "\U0001f525")


def saying() -> BatchMatcher:
    """Notifies for each <urn:say> triple: its object is the subscription and the value of ?x (of ?y too, if "b")."""

    class Saying:  # inside a function, so that it is pickled whole and not by a name the workers cannot import
        def route(self, records: pa.RecordBatch) -> RoutedRecords:
            from motet.engine.runtime.partitions import RoutedRecords
            from motet.model.batches import event_rows, notification_batch
            from motet.model.notifications import Notification
            from motet.model.terms import literal_parts

            def said() -> Iterator[tuple[Notification, int]]:
                for row, offset in zip(event_rows(records), records.column("offset").to_pylist(), strict=True):
                    for _, predicate, term in row.triples:
                        if predicate == "<urn:say>":
                            name = literal_parts(term)[0]
                            bindings = (("x", term), ("y", term)) if name == "b" else (("x", term),)
                            yield Notification(name, row.start or 0, row.end or 0, (row.id,), bindings), offset

            return RoutedRecords(records, notification_batch(said()))

    return Saying()


def expected_of(row: EventRow) -> Iterator[Notification]:
    for _, predicate, term in row.triples:
        if predicate == "<urn:say>":
            bindings = (("x", term), ("y", term)) if term == '"b"' else (("x", term),)
            name = next(name for name in NAMES if literal(name) == term)
            yield Notification(name, row.start or 0, row.end or 0, (row.id,), bindings)


def event(number: int, second: int | None, says: Sequence[str]) -> str:
    times = [] if second is None else [(RESULT_TIME, datetime(f"1970-01-01T00:00:{second:02}Z"))]
    values = [("<urn:say>", literal(name)) for name in says]
    return event_nquads(f"urn:e:{number}", ("<urn:is>", "<urn:Event>"), *times, *values)


def write_random_file(path: Path, seeded: random.Random, events: int) -> None:
    """Events with few different times, many repeated and some broken where they first appear."""
    seen = set[int]()
    with path.open("w", encoding="utf-8") as file:
        for _ in range(events):
            number = seeded.randrange(events)
            file.write(event(number, seeded.randrange(6), sorted(seeded.sample(NAMES, seeded.randrange(3)))))
            if number not in seen and seeded.random() < 0.05:
                file.write(f'<urn:e:{number}> <urn:p> "x"^^<not an IRI> <urn:e:{number}> .\n')
            seen.add(number)


def read_alone(paths: Sequence[Path], limits: Limits) -> tuple[dict[str, EventRow], int, list[DecodeError]]:
    """What a single reader of the files accepts, how many repetitions it sees, and what it rejects."""
    accepted: dict[str, EventRow] = {}
    repeated = 0
    rejected: list[DecodeError] = []
    unique = UniqueEvents()
    for path in paths:
        for batch in decode_file(str(path), limits=limits):
            decoded = unique.filter(batch, str(path))
            rejected += decoded.rejected
            repeated += decoded.repeated
            accepted |= {row.id: row for row in event_rows(decoded.events)}
    return accepted, repeated, rejected


def places(errors: Sequence[DecodeError]) -> list[tuple[str, int, str]]:
    return sorted((error.source or "", error.line or 0, error.reason) for error in errors)


@pytest.mark.parametrize(
    ("limits", "target_bytes", "tasks"),
    [(Limits(max_document_bytes=1), 40_000, range(6, 100)), (Limits(), None, range(2, 5))],
    ids=["files cut into parts", "whole files, dealt out"],
)
def test_tasks_together_equal_one_reader(
    spark: SparkSession, tmp_path: Path, limits: Limits, target_bytes: int | None, tasks: range
) -> None:
    """However files are cut, several tasks write what one loop would, byte for byte, and count and reject the same."""
    seeded = random.Random(7)
    paths = [tmp_path / "one.nq", tmp_path / "two.nq"]
    for path in paths:
        write_random_file(path, seeded, 2 * PACKED_EVENTS)
    sink, rejected = io.BytesIO(), list[DecodeError]()
    parts = split_files(paths, 2, target_bytes=target_bytes, limits=limits)
    summary = run_batch(spark, saying(), parts, sink, arrival=0, on_rejected=rejected.extend, scratch=tmp_path)
    accepted, repeated, refused = read_alone(paths, limits)
    ordered = sorted((told for row in accepted.values() for told in expected_of(row)), key=lambda told: told.sort_key)
    assert sink.getvalue().decode() == "".join(f"{told.to_line()}\n" for told in ordered)
    assert places(rejected) == places(refused)
    assert replace(summary, tasks=0) == RunSummary(len(accepted), repeated, len(refused), len(ordered), tasks=0)
    assert summary.tasks in tasks
    assert sorted(tmp_path.iterdir()) == paths


def test_events_without_a_time_have_the_time_of_arrival(spark: SparkSession, tmp_path: Path) -> None:
    """Arrival is given by the caller and the same in every task."""
    path = tmp_path / "events.nq"
    path.write_text(event(1, None, ["a"]) + event(2, 3, ["a"]))
    sink = io.BytesIO()
    run_batch(spark, saying(), split_files([path], 2), sink, arrival=5_000_000)
    bindings = (("x", '"a"'),)
    expected = [
        Notification("a", 3_000_000, 3_000_000, ("urn:e:2",), bindings),
        Notification("a", 5_000_000, 5_000_000, ("urn:e:1",), bindings),
    ]
    assert sink.getvalue().decode().splitlines() == [notification.to_line() for notification in expected]


def test_a_file_without_events_has_an_empty_output(spark: SparkSession, tmp_path: Path) -> None:
    """A file without events gives an empty output and zeros."""
    path = tmp_path / "events.nq"
    path.touch()
    sink = io.BytesIO()
    assert run_batch(spark, saying(), split_files([path], 2), sink, arrival=0) == RunSummary(0, 0, 0, 0, tasks=0)
    assert sink.getvalue() == b""


def test_a_failure_in_a_task_is_one_error_that_says_why(spark: SparkSession, tmp_path: Path) -> None:
    """The error of a task is raised as one sentence, and no output is written."""

    class Failing:
        def route(self, records: pa.RecordBatch) -> RoutedRecords:
            raise ValueError("this matching is broken")

    path = tmp_path / "events.nq"
    path.write_text(event(1, 1, ["a"]))
    sink = io.BytesIO()
    with pytest.raises(EngineError, match="the run on Spark failed: ValueError: this matching is broken"):
        run_batch(spark, Failing(), split_files([path], 2), sink, arrival=0)
    assert sink.getvalue() == b""


BUCKETS = 16


def lines_of(replay: Replay, part: ReplayGroup) -> set[str]:
    """The notifications of tasks and buckets together."""
    history = part.view
    run = PartitionedRun.plan(part.subscriptions, history.background, history.entailment, BUCKETS)
    matched = MatchVisible(pickle.dumps((run, history)))(replay.snapshot.records())
    rows = [row for batch in matched for row in batch.to_pylist()]
    least_end = min((row["end"] for row in rows), default=None)
    routed: list[dict[str, Any]] = [{"bucket": bucket, "offset": -1, "end": least_end} for bucket in run.no_buckets]
    routed += [
        {name: row[name] for name in ROUTED_EVENTS.names[1:]} | {"bucket": bucket}
        for row in rows
        for bucket in row["buckets"]
    ]
    table = pa.Table.from_pylist(sorted(routed, key=lambda row: (row["bucket"], row["offset"])), ROUTED_EVENTS)
    detected = DetectBuckets(pickle.dumps(run), history.controls)(iter(table.to_batches(max_chunksize=7)))
    lines = {line["text"] for row in rows for line in row["notifications"]}
    return lines.union(*(batch.column("text").to_pylist() for batch in detected))


def test_random_replays_equal_the_reference(tmp_path: Path) -> None:
    """Divided into tasks and buckets, with background changes in between, a replay has the same notifications."""
    kinds, changed = Counter[RouteKind](), 0
    for number in range(20):
        asked = nth_replay(1, number)
        write_lake(asked.log, tmp_path / str(number))
        lake = str(tmp_path / str(number))
        replay = load_replay(lake, asked.subscriptions, since=asked.since, until=asked.until, late=asked.late)
        [part] = replay.groups
        assert lines_of(replay, part) == set(expected_replay_lines(asked)), f"replay {number}"
        run = PartitionedRun.plan(part.subscriptions, part.view.background, None, BUCKETS)
        kinds.update(route.kind for one in run.composite for route in run.layout.routes(one).values())
        changed += bool(part.view.controls.changes)
    assert changed > 1 and kinds.keys() == set(RouteKind)


def test_spark_and_embedded_replay_the_same_bytes(spark: SparkSession, tmp_path: Path) -> None:
    """A day with a retraction and a background change, for subscriptions with different SINCE."""
    paths = building.write_events(tmp_path / "events", events=600, files=3)
    with motet.open(tmp_path / "lake", ontology=[building.ontology_path()]) as cloud:
        for path in paths[:2]:
            cloud.publish(path.read_bytes())
        subclass = (iri(building.BLD + "MotionReading"), iri(RDFS + "subClassOf"), iri(building.BLD + "Alarm"))
        cloud.background.add([subclass])
        cloud.publish(paths[2].read_bytes())
    lake = Lake.open(tmp_path / "lake")
    lake.retract(first_event(lake))
    lake.tick(parse_datetime("2026-11-17T12:00:00Z"))
    (too_late,) = decode_bytes(nquads(late_alarm()).encode(), "application/n-quads")
    lake.append(too_late.events)
    late = tmp_path / "late.motet"
    late.write_text(f'SUBSCRIPTION late SINCE "2026-11-16T12:00:00Z" EVENT e : <{building.BLD}Alarm> WHEN e SELECT ?e')
    subscriptions = load_subscriptions([*map(str, (building.subscriptions_path(), building.composite_path(), late))])
    replay = load_replay(str(tmp_path / "lake"), subscriptions, until=parse_datetime("2026-11-16T22:00:00Z"))
    here, there = io.BytesIO(), io.BytesIO()
    assert replay_embedded(replay, here) == replay_spark(replay, there) == here.getvalue().count(b"\n")
    assert there.getvalue() == here.getvalue()
    with_late = load_replay(str(tmp_path / "lake"), subscriptions, late=True)
    here_late, there_late = io.BytesIO(), io.BytesIO()
    assert replay_embedded(with_late, here_late) == replay_spark(with_late, there_late)
    assert there_late.getvalue() == here_late.getvalue()
    assert (b"urn:late:1" in here_late.getvalue(), b"urn:late:1" in here.getvalue()) == (True, False)
    for name in ("fire", "fire-spreads", "any-alarm", "late"):
        assert f'"subscription": "{name}"'.encode() in here.getvalue()


def test_an_empty_lake_has_no_notifications(spark: SparkSession, tmp_path: Path) -> None:
    """Not even of NO; the verification agrees."""
    lake = Lake.open(tmp_path)
    silent = parse('SUBSCRIPTION s SINCE "2026-11-15T10:00:00Z" EVENT a WHEN NO a FOR 1 s SIGNAL')
    sink = io.BytesIO()
    assert replay_spark(load_replay(str(tmp_path), silent), sink) == 0
    assert sink.getvalue() == b""
    assert verify_spark(lake.snapshot()) == verify_embedded(lake.snapshot())


def late_alarm() -> EventRecord:
    instant = parse_datetime("2026-11-16T13:00:00Z")
    return timed_event("urn:late:1", instant, instant, {(iri("urn:late:1"), RDF_TYPE, iri(building.BLD + "Alarm"))})


def first_event(lake: Lake) -> str:
    records = pa.Table.from_batches(lake.snapshot().records(columns=["kind", "id"]))
    return str(next(row["id"] for row in records.to_pylist() if row["kind"] == "event"))
