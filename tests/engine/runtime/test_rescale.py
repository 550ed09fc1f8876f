"""A state snapshot can be split over buckets by key, continue in each of them, and be merged again."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from tests.builders import LogProcessor

from motet.engine.detect.columns import EVENT_BIT
from motet.engine.detect.construct import DERIVED_BIT
from motet.engine.detect.occurrences import Occurrences
from motet.engine.runtime.rescale import merge, split
from motet.engine.state.rows import EventContent, StateRows, canonical_rows
from motet.engine.state.snapshot import StateSnapshot
from motet.jit.compiled import Ints
from motet.model.batches import RECORDS, notification_rows
from motet.model.errors import EngineError
from motet.plan.partitioning import bucket_of

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


def text_of(name: str, pattern: str) -> str:
    used = sorted(set(re.findall(r"\b[abc]\b", pattern)))
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
    return pa.RecordBatch.from_pylist([{"late": False, "triples": [], **row} for row in rows], RECORDS)


def tick(offset: int, instant: int) -> pa.RecordBatch:
    row = {"offset": offset, "kind": "tick", "end": instant, "late": False, "triples": []}
    return pa.RecordBatch.from_pylist([row], RECORDS)


def lines(found: pa.RecordBatch) -> list[tuple[str, int]]:
    return [(notification.to_line(), offset) for notification, offset in notification_rows(found)]


def of_bucket(records: pa.RecordBatch, bucket: int) -> pa.RecordBatch:
    """The events whose room belongs to a bucket."""
    rooms = [
        [t["object"] for t in graph if t["predicate"] == "<urn:room>"]
        for graph in records.column("triples").to_pylist()
    ]
    return records.filter(pa.array([bucket_of(room, BUCKETS) == bucket for room in rooms]))


def last_of(records: pa.RecordBatch) -> tuple[int, int]:
    return records.column("offset")[-1].as_py(), records.column("end").cast(pa.int64())[-1].as_py()


def in_buckets(processor: LogProcessor, records: pa.RecordBatch) -> tuple[list[tuple[str, int]], LogProcessor]:
    """The notifications of records that are read in buckets, and the processor that continues afterwards."""
    notifications: list[tuple[str, int]] = []
    states: list[StateSnapshot] = []
    for bucket, state in enumerate(split(processor.snapshot(), BUCKETS)):
        part = LogProcessor.load(state.data)
        notifications += lines(part.advance(of_bucket(records, bucket)))
        notifications += lines(part.advance(tick(*last_of(records))))
        states.append(StateSnapshot.from_bytes(part.dump()))
    return notifications, LogProcessor.restore(merge(states))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_split_and_merged_state_gives_the_same_notifications(seed: int) -> None:
    """A log of keyed patterns that is read whole, then in four buckets, then whole, gives what one reading gives."""
    records = log(400, seed, KEYED)
    cuts = (0, 150, 300, 400)
    whole, expected = LogProcessor(), []
    processor, notifications = LogProcessor(), []
    for number, (begin, end) in enumerate(pairwise(cuts)):
        part = records.slice(begin, end - begin)
        expected += lines(whole.advance(part)) + lines(whole.advance(tick(*last_of(part))))
        if number == 1:
            found, processor = in_buckets(processor, part)
            notifications += found
        else:
            notifications += lines(processor.advance(part)) + lines(processor.advance(tick(*last_of(part))))
    names = {json.loads(line)["subscription"] for line, _ in expected}
    assert names == set(KEYED)
    assert sorted(line for line, _ in notifications) == sorted(line for line, _ in expected)
    assert processor.dump() == LogProcessor.restore(merge(split(processor.snapshot(), BUCKETS))).dump()


def test_each_row_of_a_key_is_in_its_bucket() -> None:
    """Rows are partitioned, not copied, and all rows of a room are in the bucket of its events."""
    processor = LogProcessor()
    processor.advance(log(100, 1, {"pairs": KEYED["pairs"]}))
    (name,) = (name for name, table in processor.snapshot().rows.tables.items() if name.startswith("open left"))
    parts = split(processor.snapshot(), BUCKETS)
    sizes = [len(part.rows.tables[name]) for part in parts]
    assert sum(sizes) == len(processor.snapshot().rows.tables[name])
    assert sum(size > 0 for size in sizes) > 1
    for number, part in enumerate(parts):
        rooms = [term for term in part.rows.terms if term.startswith("<urn:room:")]
        assert {bucket_of([room], BUCKETS) for room in rooms} <= {number}


def test_a_component_without_a_key_is_in_one_bucket() -> None:
    """NO has no key: its state is in one bucket, and merging restores it."""
    processor = LogProcessor()
    processor.advance(log(100, 1, {"silence": "NO a FOR 5 s"}))
    parts = split(processor.snapshot(), BUCKETS)
    assert sorted(sum(map(len, part.rows.tables.values())) > 0 for part in parts) == [False] * 3 + [True]
    assert merge(parts).data == processor.dump()


def test_derived_events_of_different_buckets_get_different_numbers() -> None:
    """Each bucket numbers its own; merged, equal IRIs have equal numbers and different ones different numbers."""
    facts = {"frontier": 0, "last": 0, "has events": True, "derived": 2}

    def state(*ids: str) -> StateSnapshot:
        events = {DERIVED_BIT + number: EventContent(id_) for number, id_ in enumerate(ids)}
        row = [0, 0, 0, 0, 0, 0, (DERIVED_BIT + 1) | EVENT_BIT]
        table = Occurrences(np.array([row]).T, np.array([0, 2]), np.array([DERIVED_BIT, DERIVED_BIT + 1]))
        return StateSnapshot(facts, {}, {}, {}, canonical_rows(StateRows((), events, {"open": table})))

    merged = merge([state("urn:x", "urn:y"), state("urn:z", "urn:x")])
    table, events = merged.rows.tables["open"], merged.rows.events
    shown = [events[value ^ EVENT_BIT].id for value in table.values[:, -1].tolist()]
    lists = [[events[number].id for number in numbers] for numbers in table.events.reshape(2, 2).tolist()]
    found = sorted((value, sorted(ids)) for value, ids in zip(shown, lists, strict=True))
    assert found == [("urn:x", ["urn:x", "urn:z"]), ("urn:y", ["urn:x", "urn:y"])]
    assert (table.events.tolist(), merged.header["derived"]) == ([*_sorted_pairs(table.events)], 3)


def _sorted_pairs(numbers: Ints) -> Ints:
    return np.sort(numbers.reshape(2, 2), axis=1).ravel()


def test_buckets_at_different_frontiers_are_not_merged() -> None:
    """Merging states with two frontiers is refused."""
    processor = LogProcessor()
    processor.advance(log(50, 1, {"pairs": KEYED["pairs"]}))
    one, *others = split(processor.snapshot(), BUCKETS)
    ahead = LogProcessor.restore(one)
    ahead.advance(tick(50, 10**9))
    with pytest.raises(EngineError, match="differ in frontier"):
        merge([ahead.snapshot(), *others])


def test_buckets_of_different_subscriptions_are_not_merged() -> None:
    """Merging states of different plans is refused."""
    states = []
    for name in ("pairs", "absence"):
        processor = LogProcessor()
        processor.advance(log(2, 1, {name: KEYED[name]}))
        states.append(processor.snapshot())
    with pytest.raises(EngineError, match="different subscriptions"):
        merge(states)
