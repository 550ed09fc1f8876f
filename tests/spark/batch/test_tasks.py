"""The tasks of a batch run: without Spark against the reference engine, and on Spark against the embedded one."""

from __future__ import annotations

import io
import os
import pickle
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from motet.demo import building
from motet.engine.runtime.partitions import PartitionedRun
from motet.fuzz.case import Case, expected_lines
from motet.fuzz.cases import nth_case
from motet.fuzz.files import EX
from motet.fuzz.subscriptions import EngineCapabilities
from motet.jobs.replay import ReplayControls
from motet.jobs.run import load_job, run_embedded
from motet.language.syntax import Event, GroupPattern
from motet.model.batches import EVENTS, event_records, notification_rows
from motet.model.control import entailment_of
from motet.model.terms import XSD
from motet.ontology.load import load
from motet.plan.graph import RouteKind
from motet.reference import SubscribeRecord
from motet.spark.batch.run import run_spark
from motet.spark.batch.tasks import ROUTED_EVENTS, DetectBuckets
from motet.spark.encoding import triples_to_text

CASES = int(os.environ.get("MOTET_CASES", "20"))
BUCKETS = 16
MORE = """
PREFIX bld: <http://example.org/building#>

# Known only from silence: no event of it ever comes.
SUBSCRIPTION quiet SINCE "2026-11-16T00:00:00Z" EVENT e : bld:Earthquake WHEN NO e FOR 1 d SIGNAL

# The key is not told, and a derived event shows all it was made of.
SUBSCRIPTION twice
  EVENT one : bld:Alarm { ?one bld:room ?room }
  EVENT other : bld:Alarm { ?other bld:room ?room }
  WHEN one BEFORE other WITHIN 10 min
  EVENTS
"""


def test_composite_subscriptions_give_the_same_bytes(spark: SparkSession, tmp_path: Path) -> None:
    """Groups with a key, with derivation edges and with NO equal the embedded engine; a repeated event is ignored."""
    paths = building.write_events(tmp_path / "events", events=600, files=3)
    again = tmp_path / "again.nq"
    again.write_text(paths[1].read_text().replace("SmokeAlarm", "HeatAlarm") + "".join(_extra()))
    (tmp_path / "more.motet").write_text(MORE)
    texts = [building.subscriptions_path(), building.composite_path(), tmp_path / "more.motet"]
    events = [*map(str, [*paths, again])]
    job = load_job([*map(str, texts)], events, ontology=load([building.ontology_path()]), arrival=0)
    here, there = io.BytesIO(), io.BytesIO()
    embedded, on_spark = run_embedded(job, here, lambda _: None), run_spark(job, there, lambda _: None)
    assert there.getvalue() == here.getvalue()
    assert on_spark.repeated == embedded.repeated > 100
    assert on_spark.notifications == embedded.notifications == here.getvalue().count(b"\n")
    for name in ("fire", "fire-spreads", "smoke-in-drill", "quiet", "twice"):
        assert f'"subscription": "{name}"'.encode() in here.getvalue()


def _extra() -> list[str]:
    """An alarm in two rooms at once after another: two ways to the same pair, in two buckets."""
    names = [("urn:alarm:1", "12:00:00"), ("urn:alarm:2", "12:01:00")]
    return [
        f"<{name}> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <{building.BLD}HeatAlarm> <{name}> .\n"
        f"<{name}> <{building.BLD}room> <{building.ROOM}0-lobby> <{name}> .\n"
        f"<{name}> <{building.BLD}room> <{building.ROOM}1-south> <{name}> .\n"
        f'<{name}> {building.RESULT_TIME} "2026-11-16T{clock}Z"^^<{XSD}dateTime> <{name}> .\n'
        for name, clock in names
    ]


def events_of(case: Case) -> pa.RecordBatch:
    """The accepted events, in the order of the log."""
    first = {event.id: event for event in reversed(case.events)}
    rows = [
        {
            "id": event.id,
            "start": event.start,
            "end": event.end,
            "triples": [{"subject": s, "predicate": p, "object": o} for s, p, o in event.triples],
            "payload": event.payload,
            "line": 0,
        }
        for event in case.events
        if first[event.id] is event
    ]
    return pa.RecordBatch.from_pylist(rows, schema=EVENTS)


def lines_of(case: Case, run: PartitionedRun) -> list[str]:
    """The notifications of the tasks before and after the shuffle, without Spark between them."""
    events = events_of(case)
    routed = run.route(event_records(events, 0))
    singles = [notification.to_line() for notification, _ in notification_rows(routed.notifications)]
    texts = triples_to_text(events.column("triples")).to_pylist()
    rows = [
        events.slice(index, 1).to_pylist()[0] | {"triples": texts[index], "bucket": bucket, "offset": index}
        for bucket, index in routed.routes.tolist()
    ]
    least_end = min((event["end"] for event in events.to_pylist()), default=None)
    no_rows = [{"bucket": bucket, "offset": -1, "end": least_end} for bucket in run.no_buckets]
    table = pa.Table.from_pylist(sorted(no_rows + rows, key=lambda row: (row["bucket"], row["offset"])), ROUTED_EVENTS)
    detected = [
        line
        for batch in DetectBuckets(pickle.dumps(run), ReplayControls())(iter(table.to_batches(max_chunksize=7)))
        for line in batch.column("text").to_pylist()
    ]
    return sorted(singles + (list(dict.fromkeys(detected)) if run.may_repeat else detected))


def keyed(case: Case) -> Case:
    """The same case, but every leaf binds ?room, often to several values: most patterns have a key then."""
    return case.with_records(
        replace(
            record, subscription=replace(record.subscription, events=tuple(map(_keyed, record.subscription.events)))
        )
        if isinstance(record, SubscribeRecord)
        else record
        for record in case.records
    )


def _keyed(event: Event) -> Event:
    own = f"?{event.name} <{EX}room> | <{EX}near> ?room ."
    body = event.body or GroupPattern("", frozenset())
    return replace(event, body=GroupPattern(f"{own} {body.text}", body.variables | {event.name, "room"}))


@pytest.mark.parametrize("change", [keyed, lambda case: case], ids=["keyed", "as they come"])
def test_buckets_together_have_the_notifications_of_one_engine(change: Callable[[Case], Case]) -> None:
    """Over random subscriptions and events, the tasks have exactly the notifications of the reference engine."""
    kinds, repeating = Counter[RouteKind](), 0
    for number in range(CASES):
        case = change(nth_case(1, number, EngineCapabilities(logs=False)))
        background = case.ontology
        run = PartitionedRun.plan(case.subscriptions, background, entailment_of(background), BUCKETS)
        kinds.update(next(iter(run.layout.routes(one).values())).kind for one in run.composite)
        repeating += run.may_repeat
        assert lines_of(case, run) == sorted(expected_lines(case)), number
    assert kinds[RouteKind.SINGLE] and kinds[RouteKind.EVENT]
    assert change is not keyed or (kinds[RouteKind.KEY] > CASES and repeating)
