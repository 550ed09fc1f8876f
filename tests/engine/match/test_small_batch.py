"""Small batches in Python values have the solutions that columns have."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest
from tests.engine.match.random_leaves import leaves_of, random_background, random_batch, random_leaf

from motet.engine.match.matcher import Matcher
from motet.engine.match.small_batch import MAX_HITS
from motet.engine.runtime.emission import emit_small_solutions, emit_solutions
from motet.engine.runtime.processor import Processor
from motet.language.parse import parse
from motet.model.batches import RecordRow, event_records, event_rows, notification_rows, record_batch
from motet.model.notifications import Notification

Told = list[tuple[Notification, int]]


def rows_of(events: pa.RecordBatch) -> list[RecordRow]:
    return [
        RecordRow(offset, "event", row.id, row.start, row.end, None, False, None, row.triples)
        for offset, row in enumerate(event_rows(events))
    ]


def by_event(found: Told) -> Told:
    return sorted(found, key=lambda pair: (pair[1], pair[0].sort_key))


def plain(matcher: Matcher, rows: list[RecordRow]) -> Told | None:
    if matcher.solve_small(rows) is None:
        return None
    return emit_small_solutions(matcher, rows)


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_small_batches_agree_with_columns(first: int) -> None:
    """Random leaves, events and ontologies, in one batch and one event at a time."""
    for seed in range(first, first + 20):
        random = Random(seed)
        background = random_background(random) if random.random() < 0.3 else frozenset()
        leaves = tuple(random_leaf(random, f"s{number}") for number in range(random.randint(1, 8)))
        matcher = Matcher(leaves, background, "none" if not background else random.choice(("rdfs", "owl-rl")))
        events = random_batch(random, 6, ("urn:x", "urn:room"))
        rows = rows_of(events)
        expected = by_event(list(notification_rows(emit_solutions(matcher, event_records(events, 0)))))
        assert by_event(emit_small_solutions(matcher, rows)) == expected, seed
        assert by_event([told for row in rows for told in emit_small_solutions(matcher, [row])]) == expected, seed


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
    found = plain(matcher, rows)
    assert found is not None
    assert [offset for _, offset in found] == [5, 5, 5, 6, 6, 6]
    assert by_event(found) == by_event(list(notification_rows(emit_solutions(matcher, record_batch(rows)))))


def test_many_hits_need_columns() -> None:
    """An event with more hits than the limit is declined."""
    texts = (f"SUBSCRIPTION s{n} EVENT e {{ ?e <urn:p> ?x }} WHEN e" for n in range(MAX_HITS + 1))
    matcher = Matcher(tuple(leaf for text in texts for leaf in leaves_of(text)), entailment="none")
    row = RecordRow(0, "event", "urn:e", 0, 0, None, False, None, (("<urn:e>", "<urn:p>", '"1"'),))
    assert plain(matcher, [row]) is None
    assert len(emit_small_solutions(matcher, [row])) == MAX_HITS + 1


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
    assert first.advance_small(rows, 12) == list(notification_rows(second.advance(record_batch(rows), 12)))
    assert first.dump() == second.dump()


def test_a_processor_with_composite_subscriptions_declines() -> None:
    """Control records and events for composite subscriptions are declined, and nothing is done."""
    combining, matching = Processor(), Processor()
    combining.activate(parse("SUBSCRIPTION s EVENT a EVENT b WHEN a BEFORE b"))
    for processor in (combining, matching):
        processor.snapshot()
    before = combining.dump()
    event = RecordRow(0, "event", "urn:e", 0, 0, None, False, None, ())
    assert combining.advance_small([event], None) is None
    assert combining.dump() == before
    assert matching.advance_small([event._replace(kind="tick")], None) is None
