"""The processor engine: its batches, and that errors of state and offsets are detected."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice
from random import Random

import pyarrow as pa
from tests.builders import stored_record

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
from motet.model.batches import RECORDS, NotificationBatch, Records
from motet.reference import EventRecord, Record, TickRecord, WrittenLog, evaluate_written


@dataclass(frozen=True)
class ReferenceProcessor:
    """The reference engine as a processor: it keeps the whole log and evaluates it at each call."""

    settings: ProcessorSettings
    log: list[Record] = field(default_factory=list)
    late_by: int = 0  # a mutant: emission offsets are too large by this number of records

    def advance(self, records: Records, frontier: int | None) -> NotificationBatch:
        begin = len(self.log)
        self.log.extend(map(stored_record, records.rows))
        emitted = evaluate_written(WrittenLog(tuple(self.log), frontier), ontology=self.settings.background)
        last = len(self.log) - 1
        return NotificationBatch(
            rows=[(notification, min(at + self.late_by, last)) for at, notification in emitted if at >= begin]
        )


def restore(processor: RecordProcessor, earlier_records: EarlierRecords) -> RecordProcessor:
    assert isinstance(processor, ReferenceProcessor)
    return replace(
        processor, settings=replace(processor.settings, earlier_records=earlier_records), log=list(processor.log)
    )


def restore_without_events(processor: RecordProcessor, earlier_records: EarlierRecords) -> RecordProcessor:
    """A mutant that loses the events before a cut."""
    assert isinstance(processor, ReferenceProcessor)
    kept = [record for record in processor.log if not isinstance(record, EventRecord)]
    lost = [record for record in processor.log if isinstance(record, EventRecord)]
    tick = [TickRecord(record.offset, 0, frontier=record.frontier) for record in lost]
    return replace(processor, log=sorted([*kept, *tick], key=lambda record: record.offset))


CORRECT = ProcessorEngine("slow", create=ReferenceProcessor, restore=restore)


def test_a_correct_processor_agrees_with_offsets() -> None:
    """Any batches, restoring after each, and the ontology as an argument or a record make no difference."""
    cases = list(islice(random_cases(31, EngineCapabilities()), 25))
    assert {bool(case.ontology) for case in cases} == {case.is_run for case in cases} == {True, False}
    assert list(compare(CORRECT, cases)) == [None] * len(cases)


def test_a_lossy_state_is_detected() -> None:
    """Events lost in a round trip of the state make the lines differ."""
    cases = list(islice(random_cases(32, EngineCapabilities()), 10))
    assert any(compare(replace(CORRECT, restore=restore_without_events), cases))


def test_a_wrong_offset_is_a_difference() -> None:
    """Equal notifications with a later emission offset are a difference."""
    cases = [case for case in islice(random_cases(33, EngineCapabilities()), 20) if not case.is_run]
    slow = replace(CORRECT, create=lambda settings: ReferenceProcessor(settings, late_by=1))
    found = [difference for difference in compare(slow, cases) if difference is not None]
    assert found
    assert list(compare(replace(slow, has_offsets=False), cases)) == [None] * len(cases)


def test_batches_contain_the_log_and_start_anywhere() -> None:
    """The batches are the log without repeated events; over some cases every kind of record starts a batch."""
    begins = set()
    for case in islice(random_cases(34, EngineCapabilities()), 80):
        log = log_records(case)
        records = log.records
        assert records.schema == RECORDS and len(log.case_offsets) == len(records)
        cut = [piece for piece, _ in random_batches(log, len(records), Random(case.seed))]
        assert pa.Table.from_batches(cut) == pa.Table.from_batches([records])
        begins |= {piece.column("kind")[0].as_py() for piece in cut}
        assert records.column("offset").to_pylist() == list(range(len(records)))
    assert begins == {"event", "tick", "subscribe", "unsubscribe", "background", "retract", "settings"}
