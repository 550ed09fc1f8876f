"""Writes the log of a case to a lake as its writers would: commit by commit, with their clocks, as documents.

The seed of the case decides which of several writers makes a commit, and in which form it gets its events.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from motet import reference
from motet.codec.decode import decode_bytes
from motet.codec.options import decode_settings
from motet.fuzz.case import BEGIN, Case
from motet.fuzz.documents import EventDocument, documents, xml_documents
from motet.fuzz.files import nquads
from motet.fuzz.processor_engines import log_records
from motet.lake import Lake, Receipt, Snapshot
from motet.lake.upgrade import upgrade
from motet.language.printer import to_text
from motet.model.batches import EVENTS, RECORDS, micros
from motet.model.errors import EngineError, UsageError
from motet.model.records import EVENT, SettingsChange
from motet.model.times import format_datetime
from motet.reference.records import commits


class WriterClock:
    """The clock that all writers of a lake read."""

    def __init__(self) -> None:
        self.instant = BEGIN

    def __call__(self) -> int:
        return self.instant

    def set(self, instant: int | None) -> None:
        """Set the clock for the next commit; None leaves it."""
        self.instant = self.instant if instant is None else instant


def write_lake(case: Case, directory: Path) -> Lake:
    """Write the log of a case to a lake.

    An EngineError says what differs from the reference engine's writer in receipts, and whether the log is live.
    """
    random, clock = Random(case.seed), WriterClock()  # noqa: S311  (seeded, not secret)
    lakes = [create_lake(case, directory, clock)]
    lakes += [Lake.open(directory, durable=False, clock=clock) for _ in range(random.choice((0, 0, 1, 2)))]
    written = reference.write_log(case.records, case.lateness).records
    stored = {record.offset: record for record in written if isinstance(record, reference.EventRecord)}
    delay: int | None = None
    for commit in commits(case.records[created_records(case) :]):
        lake = random.choice(lakes)
        clock.set(commit[0].clock)
        events = [record for record in commit if isinstance(record, reference.EventRecord)]
        if events:
            accepted = [stored[event.offset] for event in events if event.offset in stored]
            _check_receipt(lake.append(decoded(events, lake, random), partial=True), events, accepted)
            ends = [event.end for event in accepted if not event.late]
            delay = clock() - min(ends) if ends else delay
        for record in commit:
            append_control(lake, record)
    _check_liveness(lakes[0].snapshot(), delay)
    return lakes[0]


def create_lake(case: Case, directory: Path, clock: WriterClock) -> Lake:
    """A lake with the ontology of a case and the first records of its log: its settings, or what was upgraded to them.

    The lake of a log without settings has its lateness, and accepts events far ahead of the clock.
    """
    first = created_records(case)
    if first > 1:
        _write_format_1(replace(case, records=case.records[: first - 1]), directory)
        upgrade(directory, clock=clock)
        return Lake.open(directory, durable=False, clock=clock)
    unset = reference.SettingsRecord(0, case.lateness, ahead=None, mappings=case.mappings)
    settings = case.records[0] if first else unset
    assert isinstance(settings, reference.SettingsRecord)
    lake = Lake.open(
        directory,
        durable=False,
        clock=clock,
        lateness=settings.lateness,
        ahead=settings.ahead,
        entailment=settings.entailment,
        mappings=settings.mappings,
        heartbeat=None,
    )
    if case.ontology:
        lake.background(added=sorted(case.ontology))
    return lake


def created_records(case: Case) -> int:
    """The number of records up to the first settings record, which make a new lake; none if there are no settings."""
    return next((r.offset + 1 for r in case.records if isinstance(r, reference.SettingsRecord)), 0)


def _write_format_1(case: Case, directory: Path) -> None:
    """Write a lake of format 1, which had no settings, clocks and digests, in one commit."""
    log = log_records(case)
    records = log.records.filter(pc.not_equal(log.records.column("kind"), SettingsChange.kind))
    table = pa.Table.from_batches([records]).drop_columns(["offset", "stamped", "digest"])
    table = table.add_column(0, RECORDS.field("offset"), pa.array(range(len(table)), pa.int64()))
    name = "segments/00000000000000000000-000000000001-00000000.parquet"
    for folder in ("segments", "manifest"):
        (directory / folder).mkdir(parents=True)
    pq.write_table(table, directory / name)
    events = table.filter(pc.equal(table["kind"], EVENT))
    starts, ends = (events[column].cast(pa.int64()).to_pylist() for column in ("start", "end"))
    file = {
        "name": name,
        "first": 0,
        "stop": len(table),
        "rows": len(table),
        "size": (directory / name).stat().st_size,
        "kinds": Counter(table["kind"].to_pylist()),
        "late": sum(table["late"].to_pylist()),
        "start": min(starts, default=None),
        "end": max(ends, default=None),
    }
    commit = {"frontier": log.frontier, "notified_to": 0, "remove": [], "removed_at": None, "forget": [], "add": [file]}
    (directory / "manifest" / "00000000000000000001.json").write_text(json.dumps(commit))
    (directory / "lake.json").write_text(json.dumps({"format": 1, "lateness": case.lateness}))


def decoded(
    events: Sequence[reference.EventRecord], lake: Lake, random: Random | None = None
) -> pa.Table | pa.RecordBatch:
    """The events of one commit to a lake, read from N-Quads and XML, or with ``random`` from documents in any form and
    order.
    """
    inputs = (
        [
            next(xml_documents(event)) if event.payload else EventDocument(nquads(event), "application/n-quads")
            for event in events
        ]
        if random is None
        else documents(_shuffled(events, random), random)
    )
    batches, settings = [], decode_settings(lake.snapshot().settings)
    for document in inputs:
        data, id_, input_id = document.text.encode(), document.id, document.input_id
        for part in decode_bytes(data, document.content_type, id=id_, input_id=input_id, **settings):
            if part.rejected:
                raise part.rejected[0]
            batches.append(part.events)
    table = pa.Table.from_batches(batches, EVENTS)
    is_large = random is None or random.random() < 0.5  # a lake decides about a small batch in another way
    return table if is_large else table.combine_chunks().to_batches()[0]


def _shuffled(events: Sequence[reference.EventRecord], random: Random) -> list[reference.EventRecord]:
    """The events in any order that their writer turns into the given one: it orders them by their ends."""
    if len({event.id for event in events}) < len(events):
        return list(events)  # the first of them counts
    by_end: dict[int | None, list[reference.EventRecord]] = {}
    for event in events:
        by_end.setdefault(None if event.stamped else event.end, []).append(event)
    groups = list(by_end.values())
    random.shuffle(groups)
    return [event for group in groups for event in group]


def append_control(lake: Lake, record: reference.Record) -> None:
    """Append a control record."""
    match record:
        case reference.TickRecord(instant=instant, clock=clock):
            with suppress(UsageError):  # too far ahead: the reference engine's writer leaves it out
                lake.tick(instant, force=clock is None)
        case reference.BackgroundRecord(added=added, removed=removed):
            lake.background(added=sorted(added), removed=sorted(removed))
        case reference.RetractRecord(event=event):
            lake.retract(event)
        case reference.SubscribeRecord(subscription=subscription):
            lake.subscribe(subscription.name, to_text(subscription))
        case reference.UnsubscribeRecord(name=name):
            lake.unsubscribe(name)
        case reference.SettingsRecord(lateness=lateness, ahead=ahead, entailment=entailment, mappings=mappings):
            lake.change_settings(lateness=lateness, ahead=ahead, entailment=entailment, mappings=mappings)


def _check_receipt(
    receipt: Receipt, events: Sequence[reference.EventRecord], accepted: Sequence[reference.EventRecord]
) -> None:
    """Compare a receipt with what the reference engine's writer has accepted of a commit."""
    expected = {
        "accepted": len(accepted),
        "stamped": sum(record.stamped for record in accepted),
        "late": sum(bool(record.late) for record in accepted),
        "left out": len(events) - len(accepted),
    }
    found = {
        "accepted": receipt.accepted,
        "stamped": receipt.stamped,
        "late": receipt.late,
        "left out": receipt.repeated + len(receipt.rejected),
    }
    if found != expected:
        raise EngineError(f"the receipt for {[event.id for event in events]} is {found}, expected {expected}")


def _check_liveness(snapshot: Snapshot, delay: int | None) -> None:
    """“in the newest commit with an event that is not late, each such event ended at most `lateness` before that
    commit's clock”; ``delay`` is the longest of these times.
    """
    lateness = snapshot.settings.lateness
    is_live = delay is not None and lateness is not None and delay <= lateness
    if snapshot.is_live != is_live:
        raise EngineError(f"the log is {'' if snapshot.is_live else 'not '}live, expected is the opposite")


def lake_offsets(case: Case) -> list[int]:
    """For each record of the lake of a case, the offset of its record in the case; -1 if it has none."""
    offsets = [record.offset for record in reference.write_log(case.records, case.lateness).records]
    ontology = [-1] if case.ontology else []
    match created_records(case):
        case 0:
            return [-1, *ontology, *_with_two_rows(offsets, case)]
        case 1:
            return [0, *ontology, *_with_two_rows(offsets[1:], case)]
        case _:
            return [*ontology, *_with_two_rows(offsets, case)]


def _with_two_rows(offsets: Sequence[int], case: Case) -> list[int]:
    """A background record that removes and adds triples is two records of a lake."""
    changes = {
        record.offset
        for record in case.records
        if isinstance(record, reference.BackgroundRecord) and record.added and record.removed
    }
    return [offset for offset in offsets for _ in range(2 if offset in changes else 1)]


def stored_differences(case: Case, snapshot: Snapshot) -> list[str]:
    """Where the records of a lake differ from what the reference engine's writer stores, as text."""
    log = reference.write_log(case.records, case.lateness)
    expected = {record.offset: _described(record) for record in log.records}
    offsets = lake_offsets(case)
    differences = []
    if snapshot.next_offset != len(offsets):
        differences.append(f"the lake has {snapshot.next_offset} records, expected {len(offsets)}")
    if snapshot.frontier != log.frontier:
        differences.append(f"the last frontier is {_time(snapshot.frontier)}, expected {_time(log.frontier)}")
    for batch in snapshot.records():
        for row in _stored(batch):
            offset = offsets[row.offset] if row.offset < len(offsets) else -1
            if offset in expected and _described(row) != expected[offset]:
                differences.append(f"record {offset} is {_described(row)}, expected {expected[offset]}")
    return differences


def _stored(batch: pa.RecordBatch) -> list[reference.EventRecord | reference.TickRecord]:
    """The records of a lake as far as they are compared; every control record as a tick."""
    columns = [batch.column(name).to_pylist() for name in ("offset", "kind", "id", "late", "stamped")]
    times = [micros(batch.column(name)) for name in ("start", "end", "frontier")]
    return [
        reference.EventRecord(
            offset, id_, start or 0, end or 0, frozenset(), late=late, stamped=bool(stamped), frontier=frontier
        )
        if kind == EVENT
        else reference.TickRecord(offset, 0, frontier=frontier)
        for offset, kind, id_, late, stamped, start, end, frontier in zip(*columns, *times, strict=True)
    ]


def _described(record: reference.Record) -> str:
    if not isinstance(record, reference.EventRecord):
        return f"a control record, frontier {_time(record.frontier)}"
    flags = f"{'late' if record.late else 'in time'}{', stamped' if record.stamped else ''}"
    return f"{record.id} [{_time(record.start)}, {_time(record.end)}], {flags}, frontier {_time(record.frontier)}"


def _time(instant: int | None) -> str:
    return "none" if instant is None else format_datetime(instant)
