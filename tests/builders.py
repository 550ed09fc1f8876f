"""Events and records for tests: as records of the reference engine, as rows of Arrow batches, and as N-Quads."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping

import pyarrow as pa

from motet.engine.match.matcher import Matcher
from motet.engine.runtime.emission import emit_solutions
from motet.engine.runtime.processor import Processor
from motet.fuzz.case import timed_event
from motet.lake import Snapshot
from motet.language.parse import parse
from motet.model.batches import RECORDS, NotificationBatch, RecordRow, Records, record_rows
from motet.model.batches import record_batch as batch_of_rows
from motet.model.records import (
    CONTROL_KINDS,
    BackgroundChange,
    Retraction,
    SettingsChange,
    Subscribe,
    Tick,
    Unsubscribe,
)
from motet.model.terms import RDF_TYPE, XSD, iri, literal
from motet.model.timeline import FrontierAfter, FrontierTimeline
from motet.model.times import parse_datetime, to_datetime
from motet.reference import (
    BackgroundRecord,
    EventRecord,
    Record,
    RetractRecord,
    SettingsRecord,
    SubscribeRecord,
    TickRecord,
    UnsubscribeRecord,
    WrittenLog,
)

Triple = tuple[str, str, str]


class ManualClock:
    """A clock for `Lake.open` that stands still until a test sets ``now``, in microseconds."""

    def __init__(self, now: int) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def utc(self) -> dt.datetime:
        """The clock for `motet.open`."""
        return to_datetime(self.now)


EX = "http://example.org/"
TEN = parse_datetime("2026-11-15T10:00:00Z")
SECOND = 1_000_000
MINUTE = 60 * SECOND
FUTURE = parse_datetime("2100-01-01T00:00:00Z")  # the clock of lakes whose events may have any date before
RESULT_TIME = "<http://www.w3.org/ns/sosa/resultTime>"


def integer(value: int) -> str:
    return literal(str(value), datatype=f"{XSD}integer")


def datetime(text: str) -> str:
    return literal(text, datatype=f"{XSD}dateTime")


def event_triples(
    event_id: str, class_: str, properties: Mapping[str, str | int | None] | None = None, *, namespace: str = EX
) -> frozenset[Triple]:
    """The class and the properties of an event, names in the namespace: text is a name too, None is left out."""
    subject = iri(event_id)
    triples = {(subject, RDF_TYPE, iri(namespace + class_))}
    for name, value in (properties or {}).items():
        if value is not None:
            term = integer(value) if isinstance(value, int) else iri(namespace + value)
            triples.add((subject, iri(namespace + name), term))
    return frozenset(triples)


def minute_event(
    number: int, class_: str, minute: float, *, has_time: bool = False, **properties: str | int | None
) -> EventRecord:
    """The event `urn:e:NUMBER` at that offset, so many minutes after ten; with ``has_time`` its triples say so."""
    event_id, instant = f"urn:e:{number}", TEN + int(minute * MINUTE)
    triples = event_triples(event_id, class_, properties)
    if has_time:
        return timed_event(event_id, instant, instant, triples)
    return EventRecord(number, event_id, instant, instant, triples)


# Rows of the log


def event_row(offset: int, event_id: str, instant: int, triples: Iterable[Triple]) -> dict[str, object]:
    nested = [dict(zip(("subject", "predicate", "object"), triple, strict=True)) for triple in triples]
    times = {"start": instant, "end": instant}
    return {"offset": offset, "kind": "event", "id": event_id, "late": False, "triples": nested, **times}


def control_row(offset: int, kind: str, name: str, text: str | None = None) -> dict[str, object]:
    return {"offset": offset, "kind": kind, "id": name, "late": False, "text": text, "triples": []}


def record_batch(*rows: dict[str, object]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), RECORDS)


def stored_record(row: RecordRow) -> Record:  # noqa: PLR0911  (one return for each kind)
    """A row of a log as a record of the reference engine."""
    triples, before = frozenset(row.triples), row.frontier
    match CONTROL_KINDS[row.kind].from_row(row) if row.kind in CONTROL_KINDS else None:
        case Tick(instant):
            return TickRecord(row.offset, instant, frontier=before)
        case Subscribe(_, text):
            return SubscribeRecord(row.offset, parse(text)[0], frontier=before)
        case Unsubscribe(name):
            return UnsubscribeRecord(row.offset, name, frontier=before)
        case Retraction(name):
            return RetractRecord(row.offset, name, frontier=before)
        case BackgroundChange(is_removal=True):
            return BackgroundRecord(row.offset, removed=triples, frontier=before)
        case BackgroundChange():
            return BackgroundRecord(row.offset, added=triples, frontier=before)
        case SettingsChange(settings):
            values = settings.lateness, settings.ahead, settings.entailment
            return SettingsRecord(row.offset, *values, frontier=before)
    assert row.id is not None and row.start is not None and row.end is not None, "an event"
    return EventRecord(row.offset, row.id, row.start, row.end, triples, row.late, payload=row.payload, frontier=before)


def stored_log(snapshot: Snapshot) -> WrittenLog:
    """The log of a lake for the reference engine."""
    rows = (row for batch in snapshot.records() for row in record_rows(batch))
    return WrittenLog(tuple(map(stored_record, rows)), snapshot.frontier)


def committed(records: pa.RecordBatch, frontier: int | None = None) -> tuple[pa.RecordBatch, int | None]:
    """Records after a frontier, each a commit of its own in a log without lateness, and the frontier after them."""
    rows = []
    for row in record_rows(records):
        rows.append(row._replace(frontier=frontier))
        if row.end is not None:
            frontier = row.end if frontier is None else max(frontier, row.end)
    return batch_of_rows(rows), frontier


class LogProcessor(Processor):
    """A processor that commits the records it is given: each is a commit of its own in a log without lateness."""

    _committed_frontier: int | None = None

    def commit(self, records: pa.RecordBatch, frontier: FrontierAfter = None) -> pa.RecordBatch:
        """The notifications that the next records make final; their frontier is computed, or that of a timeline."""
        if isinstance(frontier, FrontierTimeline):
            return self.advance(Records(columns=records), frontier).columns
        stored, self._committed_frontier = committed(records, self._committed_frontier)
        return self.advance(Records(columns=stored), self._committed_frontier).columns


def matched(matcher: Matcher, events: Records) -> NotificationBatch:
    """The notifications of single-event subscriptions for some events."""
    return emit_solutions(matcher.solve(events))


# N-Quads


def event_nquads(event_id: str, *pairs: tuple[str, str]) -> str:
    """An event with these predicates and objects."""
    subject = iri(event_id)
    return "".join(f"{subject} {predicate} {object_} {subject} .\n" for predicate, object_ in pairs)


def reading(number: int, celsius: int, time: str | None = None) -> str:
    """A temperature; without a time it gets that of its arrival."""
    times = [] if time is None else [(RESULT_TIME, datetime(time))]
    return event_nquads(f"urn:e:{number}", ("<urn:celsius>", integer(celsius)), *times)
