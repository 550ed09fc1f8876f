"""A processor restored from its state snapshot continues exactly."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import LogProcessor

from motet.engine.detect.occurrences import Occurrences, member_array
from motet.engine.detect.table_kernels import NO_OFFSET
from motet.engine.runtime.processor import Processor
from motet.engine.state.format import VERSION
from motet.engine.state.rows import EventContent, StateRows, canonical_rows, concatenate_rows, with_common_terms
from motet.engine.state.snapshot import StateSnapshot, apply_deltas, make_delta
from motet.fuzz.case import Case
from motet.fuzz.cases import random_cases
from motet.fuzz.processor_engines import CaseLog, EarlierRecords, log_records
from motet.fuzz.subscriptions import EngineCapabilities
from motet.model.batches import RECORDS, NotificationBatch, Records
from motet.model.errors import EngineError
from motet.reference import evaluate_emissions

EVERYTHING = EngineCapabilities()
SEEDS = (1, 2)
CASES = 4  # for each seed


def cases(seed: int) -> Iterator[Case]:
    return islice(random_cases(seed, EVERYTHING), CASES)


def earlier(log: CaseLog) -> EarlierRecords:
    return lambda stop: [(log.records.slice(0, stop), log.frontier_at(stop))]


def pieces(log: CaseLog, random: Random) -> Iterator[tuple[pa.RecordBatch, int | None]]:
    """The log cut at random places, at times between all records, with the frontier after each piece."""
    places = range(1, len(log.records))
    cuts = sorted(random.sample(places, min(random.choice((1, 3, len(log.records))), len(places))))
    for begin, end in zip([0, *cuts], [*cuts, len(log.records)], strict=True):
        yield log.records.slice(begin, end - begin), log.frontier_at(end)


def lines_of(log: CaseLog, notifications: NotificationBatch) -> list[tuple[int, str]]:
    return [(log.case_offsets[offset], one.to_line()) for one, offset in notifications.rows]


def process(case: Case, states: bool, seed: int = 0) -> tuple[list[tuple[int, str]], list[StateSnapshot]]:
    """The notifications of a processor that is restored at each cut, with their positions in the case's log."""
    log = log_records(case)
    processor = Processor(earlier_records=earlier(log))
    found: list[tuple[int, str]] = []
    saved = [processor.snapshot()]
    for records, frontier in pieces(log, Random(seed)):
        found += lines_of(log, processor.advance(Records(columns=records), frontier))
        processor = Processor.load(processor.dump(), earlier_records=earlier(log))
        saved += [processor.snapshot()] if states else []
    return sorted(found), saved


@pytest.mark.parametrize("seed", SEEDS)
def test_a_processor_restored_at_every_cut_computes_the_same(seed: int) -> None:
    """Over random logs, all operators, contexts, derived events and SINCE, with the same emission offsets."""
    for number, case in enumerate(cases(seed)):
        expected = evaluate_emissions(case.records, ontology=case.ontology, lateness=case.lateness)
        assert process(case, False, number)[0] == sorted((offset, one.to_line()) for offset, one in expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_base_and_its_deltas_are_the_full_state(seed: int) -> None:
    """The delta between two states turns one into the other, byte by byte."""
    for number, case in enumerate(cases(seed + 100)):
        _, states = process(case, True, number)
        deltas = [make_delta(one, other) for one, other in pairwise(states)]
        assert apply_deltas(states[0].data, deltas).data == states[-1].data


@pytest.mark.parametrize("seed", SEEDS)
def test_restoring_and_dumping_gives_equal_bytes(seed: int) -> None:
    """Equal states are equal bytes."""
    for number, case in enumerate(cases(seed + 200)):
        for state in process(case, True, number)[1]:
            assert LogProcessor.load(state.data).dump() == state.data


@pytest.mark.parametrize("seed", SEEDS)
def test_a_newer_state_is_restored_with_the_plan_of_an_older_processor(seed: int) -> None:
    """Two processes that take turns, each with a processor that has missed some records, compute what one computes, and
    have the same states.
    """
    for number, case in enumerate(cases(seed + 300)):
        log = log_records(case)
        older, processor = None, Processor(earlier_records=earlier(log))
        found: list[tuple[int, str]] = []
        saved = [processor.snapshot()]
        for records, frontier in pieces(log, Random(number)):
            found += lines_of(log, processor.advance(Records(columns=records), frontier))
            saved.append(processor.snapshot())
            older, processor = processor, Processor.restore(saved[-1], earlier_records=earlier(log), prototype=older)
        expected, states = process(case, True, number)
        assert (sorted(found), [one.data for one in saved]) == (expected, [one.data for one in states])


OPEN = """SUBSCRIPTION s EVENT a : <urn:A> { ?a <urn:room> ?r } EVENT b : <urn:B> { ?b <urn:room> ?r }
WHEN a BEFORE b WITHIN 1 d CONTEXT chronicle"""


def subscribe(text: str, offset: int = 0, name: str = "s") -> pa.RecordBatch:
    row = {"offset": offset, "kind": "subscribe", "id": name, "late": False, "text": text, "triples": []}
    return pa.RecordBatch.from_pylist([row], RECORDS)


def events(offsets: range, *, class_: str = "urn:A", rooms: int = 100, step: int = 1000) -> pa.RecordBatch:
    rows = [
        {
            "offset": offset,
            "kind": "event",
            "id": f"urn:e:{offset}",
            "start": offset * step,
            "end": offset * step,
            "late": False,
            "triples": [
                _triple(f"<urn:e:{offset}>", "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>", f"<{class_}>"),
                _triple(f"<urn:e:{offset}>", "<urn:room>", f"<urn:room:{offset % rooms}>"),
            ],
        }
        for offset in offsets
    ]
    return pa.RecordBatch.from_pylist(rows, RECORDS)


def _triple(subject: str, predicate: str, value: str) -> dict[str, str]:
    return {"subject": subject, "predicate": predicate, "object": value}


def with_open(count: int) -> LogProcessor:
    processor = LogProcessor()
    processor.commit(subscribe(OPEN))
    processor.commit(events(range(1, count + 1)))
    return processor


def test_a_delta_is_as_large_as_the_change_not_as_the_state() -> None:
    """Ten more occurrences take the same room beside a hundred open ones and beside ten thousand."""
    sizes, bases = [], []
    for count in (100, 10_000):
        processor = with_open(count)
        state = processor.snapshot()
        processor.commit(events(range(count + 1, count + 11)))
        sizes.append(len(make_delta(state, processor.snapshot())))
        bases.append(len(state.data))
    assert sizes[1] < 1.2 * sizes[0]
    assert bases[1] > 50 * bases[0]


def test_a_delta_belongs_to_its_base() -> None:
    """A delta to another state, or a missing delta, is refused."""
    processor = with_open(3)
    first = processor.snapshot()
    processor.commit(events(range(4, 6)))
    second = processor.snapshot()
    processor.commit(events(range(6, 8)))
    later = make_delta(second, processor.snapshot())
    with pytest.raises(EngineError, match="does not follow"):
        apply_deltas(first, [later])
    assert apply_deltas(first, [make_delta(first, second), later]).data == processor.dump()


def test_damaged_state_is_refused() -> None:
    """Wherever bytes are changed or cut off, the error says so and what to do."""
    data = with_open(5).dump()
    for place in range(0, len(data), 7):
        damaged = bytearray(data)
        damaged[place] ^= 0x20
        for wrong in (bytes(damaged), data[:place]):
            with pytest.raises(EngineError, match="replay the subscriptions from the log"):
                LogProcessor.load(wrong)


def test_state_of_another_version_is_refused() -> None:
    """The error names both versions."""
    data = bytearray(with_open(1).dump())
    data[12] += 1
    with pytest.raises(EngineError, match=f"has version {VERSION + 1}, this program reads version {VERSION}"):
        LogProcessor.load(bytes(data))


def test_a_delta_is_refused_as_a_base() -> None:
    """The error names both kinds."""
    state = with_open(1).snapshot()
    with pytest.raises(EngineError, match="is a delta where a base is needed"):
        LogProcessor.load(make_delta(state, state))


def test_state_does_not_depend_on_what_was_planned_before() -> None:
    """The side of an operand depends on the operand, not on the order of planning."""
    text = "SUBSCRIPTION {} EVENT a : <urn:A> EVENT b : <urn:B> WHEN {} WITHIN 1 d CONTEXT chronicle"
    processor = LogProcessor()
    processor.commit(subscribe(text.format("first", "b BEFORE a"), 0, "first"))
    processor.commit(subscribe(text.format("second", "a AND b"), 1, "second"))
    gone = {"offset": 2, "kind": "unsubscribe", "id": "first", "late": False, "triples": []}
    processor.commit(pa.RecordBatch.from_pylist([gone], RECORDS))
    processor.commit(events(range(3, 4)))
    found = LogProcessor.load(processor.dump()).commit(events(range(4, 6), class_="urn:B"))
    assert found.column("events").to_pylist() == [["urn:e:3", "urn:e:4"]]


numbers = st.integers(0, 3)


@st.composite
def rows(draw: st.DrawFn) -> StateRows:
    """Small tables with repetitions, unbound values, members and rows without events."""
    terms = draw(st.lists(st.sampled_from("abcdef"), min_size=4, max_size=4, unique=True))
    count = draw(st.integers(0, 6))
    matrix = np.array(
        draw(st.lists(st.lists(numbers, min_size=6, max_size=6), min_size=count, max_size=count)), np.int64
    )
    matrix = matrix.reshape(count, 6)
    values = np.array(draw(st.lists(st.integers(-1, 3), min_size=count, max_size=count)), np.int64)
    lists = [sorted(draw(st.sets(numbers, max_size=2))) for _ in range(count)]
    members = (
        member_array([frozenset({(("x", draw(numbers)),)}) for _ in range(count)]) if draw(st.booleans()) else None
    )
    starts = np.cumsum([0, *map(len, lists)]).astype(np.int64)
    flat = np.array([number for one in lists for number in one], np.int64)
    matrix[:, 3] = np.where(np.diff(starts) == 0, NO_OFFSET, matrix[:, 3])
    table = Occurrences(np.column_stack([matrix, values]).T, starts, flat, members)
    events = {number: EventContent(f"urn:{number}", (("<s>", "<p>", str(number)),)) for number in range(4)}
    return StateRows(terms, events, {"table": table})


def state_of(found: StateRows) -> StateSnapshot:
    return StateSnapshot({}, {}, {}, {}, canonical_rows(found))


@settings(max_examples=200, deadline=None)
@given(rows())
def test_written_rows_are_read_back(found: StateRows) -> None:
    """With all columns, events and members."""
    state = state_of(found)
    assert StateSnapshot.from_bytes(state.data).data == state.data


@settings(max_examples=200, deadline=None)
@given(rows(), rows())
def test_a_delta_counts_repeated_rows(one: StateRows, other: StateRows) -> None:
    """It has the number of equal rows, not only their presence."""
    with_members = {table.members is not None for found in (one, other) for table in found.tables.values()}
    if len(with_members) == 2:
        return
    before_, after = state_of(one), state_of(concatenate_rows(with_common_terms([one, other])))
    assert apply_deltas(before_, [make_delta(before_, after)]).data == after.data
    assert apply_deltas(after, [make_delta(after, before_)]).data == before_.data


def test_a_delta_has_the_triples_that_an_event_gains() -> None:
    """A backfill with EVENTS delivery can add the triples of an event that the state had without them."""
    table = Occurrences(np.zeros((6, 1), np.int64), np.array([0, 1]), np.array([0]))
    bare, full = EventContent("urn:0"), EventContent("urn:0", (("<s>", "<p>", "<o>"),))
    before_, after = (state_of(StateRows((), {0: event}, {"table": table})) for event in (bare, full))
    assert apply_deltas(before_, [make_delta(before_, after)]).data == after.data
