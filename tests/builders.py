"""Events and records for tests: as records of the reference engine, as rows of Arrow batches, and as N-Quads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from motet.fuzz.case import timed_event
from motet.model.batches import RECORDS
from motet.model.terms import RDF_TYPE, XSD, iri, literal
from motet.model.times import parse_datetime
from motet.reference import EventRecord

Triple = tuple[str, str, str]


class ManualClock:
    """A clock for `Lake.open` and `motet.open` that stands still until a test sets ``now``, in microseconds."""

    def __init__(self, now: int) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


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


# N-Quads


def event_nquads(event_id: str, *pairs: tuple[str, str]) -> str:
    """An event with these predicates and objects."""
    subject = iri(event_id)
    return "".join(f"{subject} {predicate} {object_} {subject} .\n" for predicate, object_ in pairs)


def reading(number: int, celsius: int, time: str | None = None) -> str:
    """A temperature; without a time it gets that of its arrival."""
    times = [] if time is None else [(RESULT_TIME, datetime(time))]
    return event_nquads(f"urn:e:{number}", ("<urn:celsius>", integer(celsius)), *times)
