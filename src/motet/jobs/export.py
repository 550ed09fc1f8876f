"""Exports the events of a lake as N-Quads and XML documents, which can be ingested again (language page, section 14).

Retracted events are left out. Derived events are not in the log; they are derived again. An event has a time that no
triple of it states if it was stamped, or if its message or row had the time: read back, it would get another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from motet.codec.encode import encode
from motet.codec.formats import Format
from motet.lake import Snapshot
from motet.model.batches import EventRow, event_batch, event_rows
from motet.model.control import ControlState
from motet.model.records import EVENT, Retraction
from motet.model.settings import TIME_PROPERTIES, TimeProperties
from motet.model.terms import XSD, iri, literal
from motet.model.times import format_datetime

_START, _END = (iri(name) for name in TIME_PROPERTIES[0])


@dataclass
class ExportResult:
    """The numbers of events that were written, that were left out, and that state no time in the file."""

    events: int = 0
    retracted: int = 0
    without_time: int = 0
    documents: int = 0  # XML events, which are no part of the N-Quads


def export_events(
    snapshot: Snapshot, sink: BinaryIO, *, with_times: bool = False, documents: DocumentFolder | None = None
) -> ExportResult:
    """Write the RDF events of a snapshot in log order as N-Quads, and the XML events into a folder.

    If ``with_times``, an event whose triples state no time gets triples that do. They are part of its content then: in
    a lake that holds the event it is a conflict.
    """
    result = ExportResult()
    retracted = ControlState().apply_all(snapshot.control_records(Retraction)).retractions
    hidden = pa.array(list(retracted), pa.string())
    for batch in snapshot.records(columns=["offset", "kind", "id", "start", "end", "triples", "payload"]):
        events = batch.filter(pc.equal(batch.column("kind"), EVENT))
        is_hidden = pc.is_in(events.column("id"), hidden)
        result.retracted += is_hidden.true_count
        events = events.filter(pc.invert(is_hidden))
        is_document = events.column("payload").is_valid()
        result.documents += is_document.true_count
        if documents is not None:
            documents.write(events.filter(is_document))
        events = events.filter(pc.invert(is_document))
        lacks_time = ~_states_time(events, snapshot.settings.time_properties)
        if with_times and lacks_time.any():
            events = _add_times(events, lacks_time)
        elif not with_times:
            result.without_time += int(lacks_time.sum())
        result.events += len(events)
        sink.write(encode(events, Format.N_QUADS))
    return result


@dataclass(frozen=True)
class DocumentFolder:
    """A folder for XML events, one file for each, named by its offset.

    ``as_cloudevents``: a file has the document inside a CloudEvent, which states the event's IRI and interval.
    """

    path: Path
    as_cloudevents: bool = False

    def write(self, events: pa.RecordBatch) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        for index, offset in enumerate(events.column("offset").to_pylist()):
            event = events.slice(index, 1)
            suffix, syntax = (".ce.json", Format.CLOUDEVENT) if self.as_cloudevents else (".xml", Format.XML)
            (self.path / f"{offset:012}{suffix}").write_bytes(encode(event, syntax))


def _states_time(events: pa.RecordBatch, properties: TimeProperties) -> npt.NDArray[np.bool_]:
    """Whether a triple of each event has a time property."""
    names = pa.array([iri(name) for group in properties for name in group], pa.string())
    lists = events.column("triples")
    is_time = pc.is_in(lists.flatten().field(1), names).to_numpy(zero_copy_only=False)
    bounds = lists.offsets.to_numpy().astype(np.int64)
    counts = np.concatenate([[0], np.cumsum(is_time)])[bounds - bounds[0]]
    return np.diff(counts) > 0


def _add_times(events: pa.RecordBatch, lacks_time: npt.NDArray[np.bool_]) -> pa.RecordBatch:
    rows = event_rows(events)
    return event_batch([_with_time(row) if lacks else row for row, lacks in zip(rows, lacks_time, strict=True)])


def _with_time(event: EventRow) -> EventRow:
    assert event.start is not None and event.end is not None, "every event of a log has a time"
    times = zip((_START, _END), (event.start, event.end), strict=True)
    stated = [
        (iri(event.id), name, literal(format_datetime(instant), datatype=f"{XSD}dateTime")) for name, instant in times
    ]
    return event._replace(triples=(*event.triples, *stated))
