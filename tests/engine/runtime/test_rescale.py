"""The states of all buckets become those of another number of buckets, and continue as if nothing had happened."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from motet.engine.detect.occurrences import Occurrences
from motet.engine.runtime.partitions import PartitionWorker, Router, derivation_linked
from motet.engine.runtime.rescale import rescale
from motet.engine.state.snapshot import StateSnapshot
from motet.model.batches import RECORDS, notification_rows
from motet.model.errors import EngineError
from motet.model.timeline import FrontierTimeline
from motet.plan.partitioning import BucketLayout, bucket_of

BUCKETS = 4
ROOMS = 7
TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
KEYED = {
    "pairs": "a BEFORE b WITHIN 9 s CONTEXT chronicle",
    "recent": "a AND b",
    "partners": "a ALONGSIDE b WITHIN 9 s CONTEXT unrestricted",
    "many": "a BEFORE b WITHIN 9 s CONTEXT continuous SELECT ?b",
    "joint": "(a AND b WITHIN 9 s) BEFORE c WITHIN 20 s CONTEXT cumulative CONSTRUCT { ?this <urn:of> ?a, ?b, ?c }",
    "absence": "a UNLESS b WITHIN 3 s",
    "between": "(a BEFORE c WITHIN 9 s) WITHOUT b CONTEXT unrestricted",
    "either": "a XOR b WITHIN 3 s",
    "groups": "a{3} CONTEXT chronicle UNBOUNDED SELECT ?r",
    "sliding": "a{3} EVERY 9 s SELECT ?r",
    "run": "a+ EVERY 4 s WITHIN 30 s SELECT ?r",
}

OTHERS = {
    "silence": "NO a FOR 3 s",
    "hidden": "a BEFORE b WITHIN 9 s CONTEXT chronicle SIGNAL",
    "contents": "a BEFORE c WITHIN 9 s CONTEXT recent EVENTS",
    "stateless": "a OR b SELECT ?r",
    "upstream": "a BEFORE b WITHIN 5 s CONTEXT chronicle CONSTRUCT { ?this a <urn:D> ; <urn:room> ?r }",
    "downstream": "d BEFORE c WITHIN 9 s CONTEXT chronicle",
}


def text_of(name: str, pattern: str) -> str:
    used = sorted(set(re.findall(r"\b[abcd]\b", pattern)))
    bodies = " ".join(f"EVENT {event} : <urn:{event.upper()}> {{ ?{event} <urn:room> ?r }}" for event in used)
    return f"SUBSCRIPTION {name} {bodies} WHEN {pattern}"


def log(count: int, seed: int, patterns: dict[str, str]) -> pa.RecordBatch:
    """All subscriptions, then events of three classes in several rooms, some with equal times."""
    random = Random(seed)
    rows: list[dict[str, object]] = [
        {"offset": place, "kind": "subscribe", "id": name, "text": text_of(name, pattern)}
        for place, (name, pattern) in enumerate(patterns.items())
    ]
    instant = 0
    for offset in range(len(rows), count):
        instant += random.choice((0, 250_000, 500_000))
        event, room = f"<urn:e:{random.randrange(10**6)}-{offset}>", f"<urn:room:{random.randrange(ROOMS)}>"
        kind = f"<urn:{random.choice('ABC')}>"
        triples = [(event, TYPE, kind), (event, "<urn:room>", room)]
        listed = [dict(zip(("subject", "predicate", "object"), triple, strict=True)) for triple in triples]
        start = instant - random.choice((0, 0, 250_000))
        rows.append(
            {"offset": offset, "kind": "event", "id": event[1:-1], "start": start, "end": instant, "triples": listed}
        )
    return pa.RecordBatch.from_pylist(
        [{"late": False, "stamped": False, "triples": [], **row} for row in rows], RECORDS
    )


def tick(offset: int, instant: int) -> pa.RecordBatch:
    row = {"offset": offset, "kind": "tick", "end": instant, "late": False, "stamped": False, "triples": []}
    return pa.RecordBatch.from_pylist([row], RECORDS)


def lines(found: pa.RecordBatch) -> list[tuple[str, int]]:
    return [(notification.to_line(), offset) for notification, offset in notification_rows(found)]


def last_of(records: pa.RecordBatch) -> tuple[int, int]:
    return records.column("offset")[-1].as_py(), records.column("end").cast(pa.int64())[-1].as_py()


class Buckets:
    """A router and the workers of a layout."""

    def __init__(self, layout: BucketLayout) -> None:
        self.router, self.layout = Router(layout), layout
        self.workers = [PartitionWorker.create(layout, bucket) for bucket in range(layout.count)]

    def advance(self, records: pa.RecordBatch, frontier: int) -> list[str]:
        routed, timeline = self.router.route(records), FrontierTimeline.from_records(records, frontier)
        controls, events = records.filter(pa.array(timeline.is_boundary)), dict(routed.by_bucket())
        empty = records.slice(0, 0)
        found = [routed.notifications]
        for bucket, worker in enumerate(self.workers):
            found.append(worker.advance([controls, events.get(bucket, empty)], timeline))
        return [line for batch in found for line, _ in lines(batch)]

    def snapshots(self) -> list[StateSnapshot]:
        return [worker.processor.snapshot() for worker in self.workers]

    def rescale(self, count: int, controls: pa.RecordBatch) -> None:
        snapshots, self.layout = self.snapshots(), replace(self.layout, count=count)
        self.workers = [
            PartitionWorker.restore(StateSnapshot.from_bytes(snapshot.data), self.layout, bucket)
            for bucket, snapshot in enumerate(rescale(snapshots, self.layout))
        ]
        self.router = Router(self.layout)
        self.router.route(controls)


def run(records: pa.RecordBatch, counts: Sequence[int]) -> tuple[list[str], Buckets]:
    """The sorted notifications of a log in pieces, each read with another number of buckets."""
    buckets, found = Buckets(BucketLayout(counts[0], derivation_linked(records))), []
    step = len(records) // len(counts)
    for index, count in enumerate(counts):
        if count != buckets.layout.count:
            buckets.rescale(count, records.filter(pc.equal(records.column("kind"), "subscribe")))
        piece = records.slice(index * step, step)
        offset, instant = last_of(piece)
        found += buckets.advance(piece, instant) + buckets.advance(tick(offset, instant), instant)
    return sorted(found), buckets


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_rescaled_state_gives_the_same_notifications(seed: int) -> None:
    """More buckets, fewer, and one in the middle of a log: as if the number had never changed."""
    patterns = KEYED | OTHERS
    records = log(400, seed, patterns)
    expected, fixed = run(records, [3, 3, 3, 3])
    found, changed = run(records, [3, 5, 1, 3])
    assert {json.loads(line)["subscription"] for line in expected} == set(patterns)
    assert found == expected
    assert _contents(changed) == _contents(fixed)


def _contents(buckets: Buckets) -> list[tuple[set[str], dict[str, int]]]:
    """The subscriptions of each bucket, and the rows of its tables but of those that prevent repetitions."""
    return [
        (
            set(state.subscriptions),
            {name: len(table) for name, table in state.rows.tables.items() if not name.startswith("delivered")},
        )
        for state in buckets.snapshots()
    ]


def test_each_row_of_a_key_is_in_its_bucket() -> None:
    """Rows are distributed, not copied, and all rows of a room are in the bucket of its events."""
    _, buckets = run(log(100, 1, {"pairs": KEYED["pairs"]}), [1, BUCKETS])
    before = len(_open_rows(rescale(buckets.snapshots(), BucketLayout(1))[0]))
    sizes = [len(_open_rows(state)) for state in buckets.snapshots()]
    assert sum(sizes) == before and sum(size > 0 for size in sizes) > 1
    for bucket, state in enumerate(buckets.snapshots()):
        rooms = [term for term in state.rows.terms if term.startswith("<urn:room:")]
        assert {bucket_of([room], BUCKETS) for room in rooms} <= {bucket}


def _open_rows(state: StateSnapshot) -> Occurrences:
    (table,) = (table for name, table in state.rows.tables.items() if name.startswith("open left"))
    return table


def test_a_single_bucket_subscription_is_in_one_bucket() -> None:
    """NO has no key: only the bucket of its label has the subscription and its state."""
    _, buckets = run(log(100, 1, {"silence": OTHERS["silence"]}), [2, BUCKETS])
    assert sorted(len(state.subscriptions) for state in buckets.snapshots()) == [0] * (BUCKETS - 1) + [1]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda state: replace(state, header={**state.header, "frontier": 1}), "differ in frontier"),
        (lambda state: replace(state, retractions={"urn:e": 1}), "different backgrounds or retractions"),
        (
            lambda state: replace(state, subscriptions={"pairs": {**state.subscriptions["pairs"], "start": 7}}),
            "'pairs' started differently",
        ),
    ],
)
def test_states_that_do_not_belong_together_are_refused(
    change: Callable[[StateSnapshot], StateSnapshot], said: str
) -> None:
    """The buckets of one log have read the same control records and are at one frontier."""
    _, buckets = run(log(50, 1, {"pairs": KEYED["pairs"]}), [2])
    first, second = buckets.snapshots()
    with pytest.raises(EngineError, match=said):
        rescale([first, change(second)], BucketLayout(3))
