"""Batches of rows have the notifications that columns have."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest
from tests.builders import matched
from tests.engine.match.random_leaves import leaves_of, random_background, random_batch, random_leaf

from motet.engine.match.matcher import Matcher
from motet.engine.runtime.emission import MAX_SMALL
from motet.engine.runtime.processor import Processor
from motet.language.parse import parse
from motet.model.batches import RecordRow, Records, event_records, event_rows, record_batch
from motet.model.notifications import Notification

Told = list[tuple[Notification, int]]


def rows_of(events: pa.RecordBatch) -> list[RecordRow]:
    return [
        RecordRow(offset, "event", row.id, row.start, row.end, None, False, None, row.triples)
        for offset, row in enumerate(event_rows(events))
    ]


def by_event(found: Told) -> Told:
    return sorted(found, key=lambda pair: (pair[1], pair[0].sort_key))


def emitted(matcher: Matcher, rows: list[RecordRow]) -> Told:
    return matched(matcher, Records(rows=rows)).rows


def emitted_columns(matcher: Matcher, events: pa.RecordBatch) -> Told:
    return matched(matcher, Records(columns=events)).rows


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_small_batches_agree_with_columns(first: int) -> None:
    """Random leaves, events and ontologies, in one batch and one event at a time; both in the order of the events."""
    for seed in range(first, first + 20):
        random = Random(seed)
        background = random_background(random) if random.random() < 0.3 else frozenset()
        leaves = tuple(random_leaf(random, f"s{number}") for number in range(random.randint(1, 8)))
        matcher = Matcher(leaves, background, "none" if not background else random.choice(("rdfs", "owl-rl")))
        events = random_batch(random, 6, ("urn:x", "urn:room"))
        rows = rows_of(events)
        expected = by_event(emitted_columns(matcher, event_records(events, 0)))
        notifications = emitted(matcher, rows)
        assert by_event(notifications) == expected, seed
        offsets = [offset for _, offset in notifications]
        assert offsets == sorted(offsets), seed
        assert by_event([told for row in rows for told in emitted(matcher, [row])]) == expected, seed


def test_index_decided_leaves_need_no_columns() -> None:
    """Constants, ranges, reads and times are decided without columns, also from several segments, in order."""
    texts = [
        "SUBSCRIPTION a EVENT e { ?e <urn:k> <urn:1> ; <urn:v> ?v FILTER(?v > 3) } WHEN e SELECT ?e ?v",
        "SUBSCRIPTION b EVENT e DURING ?t ?u { ?e <urn:k> ?k } WHEN e SELECT ?e ?k ?t ?u",
        "SUBSCRIPTION c EVENT e { ?e <urn:w> ?w } WHEN e SELECT ?w",
    ]
    matcher = Matcher(leaves_of(texts[0]), entailment="none")
    for text in texts[1:]:
        matcher = matcher.changed((*matcher.leaves, *leaves_of(text)))
    values = {"k": "<urn:1>", "v": '"4"^^<http://www.w3.org/2001/XMLSchema#byte>', "w": '"é"'}
    rows = []
    for n in range(2):
        triples = tuple((f"<urn:e:{n}>", f"<urn:{name}>", value) for name, value in values.items())
        rows.append(RecordRow(n + 5, "event", f"urn:e:{n}", n, n + 1, None, False, None, triples))
    found = emitted(matcher, rows)
    assert matched(matcher, Records(rows=rows)).is_small
    assert [offset for _, offset in found] == [5, 5, 5, 6, 6, 6]
    assert by_event(found) == by_event(emitted_columns(matcher, record_batch(rows)))


def test_many_hits_make_columns() -> None:
    """The notifications of an event with more hits than the limit are columns."""
    texts = (f"SUBSCRIPTION s{n} EVENT e {{ ?e <urn:p> ?x }} WHEN e" for n in range(MAX_SMALL + 1))
    matcher = Matcher(tuple(leaf for text in texts for leaf in leaves_of(text)), entailment="none")
    row = RecordRow(0, "event", "urn:e", 0, 0, None, False, None, (("<urn:e>", "<urn:p>", '"1"'),))
    assert not matched(matcher, Records(rows=[row])).is_small
    assert len(emitted(matcher, [row])) == MAX_SMALL + 1


def test_the_processor_continues_after_either() -> None:
    """A processor has the same state after a small batch as after columns; late events are not matched."""
    text = "SUBSCRIPTION s EVENT e { ?e <urn:p> ?x } WHEN e"
    rows = [
        RecordRow(n, "event", f"urn:{n}", n, n, 10, n < 10, None, ((f"<urn:{n}>", "<urn:p>", '"1"'),))
        for n in (8, 12, 15)
    ]
    first, second = (Processor() for _ in range(2))
    for processor in (first, second):
        processor.activate(parse(text))
        processor.snapshot()  # puts the subscription to work
    found = first.advance(Records(rows=rows), 12)
    assert found.is_small and found.rows == second.advance(Records(columns=record_batch(rows)), 12).rows
    assert first.dump() == second.dump()


def test_composite_subscriptions_and_ticks_are_processed_in_either_form() -> None:
    """Rows that need state or move the frontier give the notifications and the state that columns give."""
    text = "SUBSCRIPTION s EVENT a { ?a <urn:p> ?x } EVENT b { ?b <urn:q> ?x } WHEN a BEFORE b WITHIN 5 s"
    events = [
        RecordRow(n, "event", f"urn:{n}", n, n, n, False, None, ((f"<urn:{n}>", f"<urn:{name}>", '"1"'),))
        for n, name in enumerate("pqpq", 3)
    ]
    tick = RecordRow(7, "tick", None, None, 9, 6, False, None, ())
    small, columns = (Processor() for _ in range(2))
    for processor in (small, columns):
        processor.activate(parse(text))
    for rows, frontier in ((events[:1], 4), (events[1:], 6), ([tick], 9)):
        found = small.advance(Records(rows=rows), frontier).rows
        assert found == columns.advance(Records(columns=record_batch(rows)), frontier).rows
        assert small.dump() == columns.dump()
    assert small.statistics()["rows"] > 0
