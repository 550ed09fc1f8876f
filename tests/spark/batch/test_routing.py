"""The plan and the routing of a batch job, without Spark: matches of tasks, notifications of groups."""

from __future__ import annotations

import os
import pickle
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from motet.fuzz.case import Case
from motet.fuzz.cases import nth_case
from motet.fuzz.files import EX
from motet.fuzz.oracle import expected_lines
from motet.fuzz.subscriptions import EngineCapabilities
from motet.jobs.replay import ReplayControls
from motet.language.parse import parse
from motet.language.syntax import Event, GroupPattern
from motet.model.batches import EVENTS, notification_rows
from motet.model.control import entailment_of
from motet.model.errors import UsageError
from motet.plan.graph import RouteKind
from motet.reference import SubscribeRecord
from motet.spark.batch.job_plan import JobPlan, plan_job
from motet.spark.batch.routing import EventRouter
from motet.spark.batch.tasks import ROUTED_EVENTS, DetectGroups
from motet.spark.encoding import triples_to_text

CASES = int(os.environ.get("MOTET_CASES", "20"))

ROOM = "EVENT {0} : <urn:{1}> {{ ?{0} <urn:room> ?room }} "
PAIR = ROOM.format("a", "A") + ROOM.format("b", "B") + "WHEN a BEFORE b WITHIN 5 s "


def planned(text: str) -> JobPlan:
    return plan_job(parse(text), frozenset(), "none")


def routes(text: str) -> list[tuple[list[str], RouteKind]]:
    return [([one.name for one in group.subscriptions], group.route_kind) for group in planned(text).groups]


def test_route_kinds() -> None:
    """A pair is routed by the key it joins on, a stateless pattern by event, any other to a single bucket."""
    keyed = f"SUBSCRIPTION keyed {PAIR} "
    alone = "SUBSCRIPTION alone EVENT a : <urn:A> EVENT b : <urn:B> WHEN a OR b "
    whole = "SUBSCRIPTION whole EVENT a : <urn:A> EVENT b : <urn:B> WHEN a BEFORE b WITHIN 5 s "
    assert routes(keyed + alone + whole) == [
        (["keyed"], RouteKind.KEY),
        (["alone"], RouteKind.EVENT),
        (["whole"], RouteKind.SINGLE),
    ]


def test_derivation_linked_subscriptions_are_one_group() -> None:
    """An upstream subscription and all downstream ones are one group, single-event subscriptions included."""
    producer = f"SUBSCRIPTION producer {PAIR} CONSTRUCT {{ ?this a <urn:D> ; <urn:room> ?room }} "
    single = "SUBSCRIPTION single EVENT d : <urn:D> WHEN d "
    other = "SUBSCRIPTION other EVENT c : <urn:C> WHEN c "
    plan = planned(producer + single + other)
    assert [one.name for one in plan.single_event] == ["other"]
    assert routes(producer + single + other) == [(["producer", "single"], RouteKind.SINGLE)]
    assert routes(producer + other) == [(["producer"], RouteKind.KEY)]


def test_cycles_are_refused_before_a_job_runs() -> None:
    """Two subscriptions that feed each other are an error of the request, not of a task."""
    text = "SUBSCRIPTION {0} EVENT a : <urn:{1}> WHEN a CONSTRUCT {{ ?this a <urn:{2}> }} "
    with pytest.raises(UsageError, match="feed each other in a cycle"):
        planned(text.format("one", "A", "B") + text.format("two", "B", "A"))


def test_a_leaf_with_two_keys_goes_to_a_single_bucket() -> None:
    """Both operands are one leaf with swapped variables: its occurrences belong to two buckets."""
    leaf = "EVENT {0} {{ ?{0} <urn:p> ?{1} ; <urn:q> ?{2} }} ".format
    text = f"SUBSCRIPTION s {leaf('a', 'x', 'y')} {leaf('b', 'y', 'x')} WHEN a BEFORE b WITHIN 5 s"
    assert routes(text) == [(["s"], RouteKind.SINGLE)]


def events_of(case: Case) -> pa.RecordBatch:
    """The accepted events, in the order of the log."""
    first = {event.id: event for event in reversed(case.events)}
    rows = [
        {
            "id": event.id,
            "start": event.start,
            "end": event.end,
            "triples": [{"subject": s, "predicate": p, "object": o} for s, p, o in event.triples],
            "line": 0,
        }
        for event in case.events
        if first[event.id] is event
    ]
    return pa.RecordBatch.from_pylist(rows, schema=EVENTS)


def lines_of(case: Case, plan: JobPlan) -> list[str]:
    """The notifications of tasks and groups together, without Spark between them."""
    events = events_of(case)
    found = EventRouter(plan).match(events.append_column("offset", pa.array(range(len(events)))))
    singles = [notification.to_line() for notification, _ in notification_rows(found.notifications)]
    homes = sorted((route["group"], route["bucket"], route["event"]) for route in found.routes.to_pylist())
    texts = triples_to_text(events.column("triples")).to_pylist()
    rows = [
        events.slice(place, 1).to_pylist()[0] | {"triples": texts[place], "group": c, "bucket": b, "offset": place}
        for c, b, place in homes
    ]
    with_no = [index for index, group in enumerate(plan.groups) if group.has_no]
    least_end = min((event["end"] for event in events.to_pylist()), default=None)
    group_rows = [{"group": index, "bucket": 0, "offset": -1, "end": least_end} for index in with_no]
    table = pa.Table.from_pylist(
        sorted(group_rows + rows, key=lambda row: (row["group"], row["bucket"])), ROUTED_EVENTS
    )
    detected = [
        line
        for batch in DetectGroups(pickle.dumps(plan), ReplayControls())(iter(table.to_batches(max_chunksize=7)))
        for line in batch.column("text").to_pylist()
    ]
    if any(group.may_duplicate for group in plan.groups):
        detected = list(dict.fromkeys(detected))
    return sorted(singles + detected)


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
def test_groups_together_have_the_notifications_of_one_engine(change: Callable[[Case], Case]) -> None:
    """Over random subscriptions and events, tasks and groups have exactly the notifications of the reference engine."""
    kinds = Counter[RouteKind]()
    for number in range(CASES):
        case = change(nth_case(1, number, EngineCapabilities(logs=False)))
        plan = plan_job(case.subscriptions, case.ontology, entailment_of(case.ontology))
        kinds.update(group.route_kind for group in plan.groups)
        assert lines_of(case, plan) == sorted(expected_lines(case)), number
    assert kinds[RouteKind.SINGLE] and kinds[RouteKind.EVENT]
    assert kinds[RouteKind.KEY] > (CASES if change is keyed else 0)
