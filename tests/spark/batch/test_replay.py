"""Replays on Spark: the notifications of tasks and groups, with and without Spark."""

from __future__ import annotations

import io
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from tests.replays import expected_replay_lines, nth_replay

import motet
from motet.codec.decode import decode_bytes
from motet.demo import building
from motet.engine.runtime.partitions import PartitionedRun
from motet.fuzz.case import timed_event
from motet.fuzz.files import nquads
from motet.fuzz.lakes import write_lake
from motet.jobs.replay import Replay, ReplayGroup, load_replay, replay_embedded
from motet.jobs.subscription_files import load_subscriptions
from motet.jobs.verify import verify_embedded
from motet.lake import Lake
from motet.language.parse import parse
from motet.model.terms import RDF_TYPE, RDFS, iri
from motet.model.times import parse_datetime
from motet.plan.graph import RouteKind
from motet.reference import EventRecord
from motet.spark.batch.replay import MatchVisible, replay_spark
from motet.spark.batch.tasks import ROUTED_EVENTS, DetectBuckets
from motet.spark.batch.verify import verify_spark

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
