"""Giving a kernel a log in pieces: what it is given, and that its state and offsets are judged too."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import islice
from random import Random

import pyarrow as pa

from motet.fuzz.cases import random_cases
from motet.fuzz.compare import compare
from motet.fuzz.processor_engines import (
    EarlierRecords,
    ProcessorEngine,
    ProcessorSettings,
    RecordProcessor,
    log_records,
    random_batches,
)
from motet.fuzz.subscriptions import EngineCapabilities
from motet.language.parse import parse
from motet.model.batches import RECORDS, event_rows, micros, notification_batch
from motet.reference import (
    BackgroundRecord,
    EventRecord,
    Record,
    RetractRecord,
    SubscribeRecord,
    TickRecord,
    UnsubscribeRecord,
    evaluate_emissions,
)


@dataclass(frozen=True)
class Slow:
    """The reference engine as a kernel: it remembers the whole log and works it through each time."""

    opening: ProcessorSettings
    seen: list[Record] = field(default_factory=list)
    late_by: int = 0  # a mutant: says that notifications were final so many records later

    def advance(self, records: pa.RecordBatch) -> pa.RecordBatch:
        begin = len(self.seen)
        self.seen.extend(read(records))
        emitted = evaluate_emissions(self.seen, ontology=self.opening.background, lateness=self.opening.lateness)
        last = len(self.seen) - 1
        return notification_batch((told, min(at + self.late_by, last)) for at, told in emitted if at >= begin)


def read(records: pa.RecordBatch) -> Iterable[Record]:
    """The records of a batch as the reference engine takes them."""
    columns = {name: records.column(name).to_pylist() for name in ("offset", "kind", "id", "text")}
    ends = micros(records.column("end"))
    for row, offset, kind, name, text, end in zip(event_rows(records), *columns.values(), ends, strict=True):
        triples = frozenset(row.triples)
        match kind:
            case "event":
                assert row.start is not None and row.end is not None
                yield EventRecord(offset, name, row.start, row.end, triples)
            case "tick":
                assert end is not None
                yield TickRecord(offset, end)
            case "subscribe":
                yield SubscribeRecord(offset, parse(text)[0])
            case "unsubscribe":
                yield UnsubscribeRecord(offset, name)
            case "background" if text == "add":
                yield BackgroundRecord(offset, added=triples)
            case "background":
                yield BackgroundRecord(offset, removed=triples)
            case _:
                yield RetractRecord(offset, name)


def reloaded(detector: RecordProcessor, history: EarlierRecords) -> RecordProcessor:
    assert isinstance(detector, Slow)
    return replace(detector, opening=replace(detector.opening, earlier_records=history), seen=list(detector.seen))


def forgetful(detector: RecordProcessor, history: EarlierRecords) -> RecordProcessor:
    """A mutant: loses what was seen before a cut, subscriptions excepted."""
    assert isinstance(detector, Slow)
    kept = [record for record in detector.seen if not isinstance(record, EventRecord)]
    tick = [TickRecord(record.offset, 0) for record in detector.seen if isinstance(record, EventRecord)]
    return replace(detector, seen=sorted([*kept, *tick], key=lambda record: record.offset))


SOUND = ProcessorEngine("slow", create=Slow, restore=reloaded)


def test_a_sound_kernel_agrees_to_the_offset() -> None:
    """Cut anywhere, reloaded at every cut, with the ontology given beforehand or as a record: nothing differs."""
    cases = list(islice(random_cases(31, EngineCapabilities()), 25))
    assert {bool(case.ontology) for case in cases} == {case.is_run for case in cases} == {True, False}
    assert list(compare(SOUND, cases)) == [None] * len(cases)


def test_a_state_that_forgets_is_found() -> None:
    """What is lost in a round trip of the state shows in the lines."""
    cases = list(islice(random_cases(32, EngineCapabilities()), 10))
    assert any(compare(replace(SOUND, restore=forgetful), cases))


def test_a_wrong_offset_is_a_difference() -> None:
    """The same notifications, said to be final one record later: what an unsubscribe cuts off depends on it."""
    cases = [case for case in islice(random_cases(33, EngineCapabilities()), 20) if not case.is_run]
    slow = replace(SOUND, create=lambda opening: Slow(opening, late_by=1))
    found = [difference for difference in compare(slow, cases) if difference is not None]
    assert found
    assert list(compare(replace(slow, has_offsets=False), cases)) == [None] * len(cases)


def test_the_log_is_whole_and_cut_everywhere() -> None:
    """The pieces are the log, a lake's records without repetitions; over some cases every kind begins a piece."""
    begins = set()
    for case in islice(random_cases(34, EngineCapabilities()), 80):
        records, places = log_records(case)
        assert records.schema == RECORDS and len(places) == len(records)
        cut = list(random_batches(records, Random(case.seed)))
        assert pa.Table.from_batches(cut) == pa.Table.from_batches([records])
        begins |= {piece.column("kind")[0].as_py() for piece in cut}
        assert records.column("offset").to_pylist() == list(range(len(records)))
    assert begins == {"event", "tick", "subscribe", "unsubscribe", "background", "retract"}
