"""What every source does with its input: write dead letters for rejected events, append the others to the lake.

A finite input is a *load*: its events are committed in the order of their ends (language page, section 14). Other
input is committed as it comes. A source acknowledges its input only afterwards. After a crash it delivers the same
input again, and the events that are in the log already are repetitions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields

import pyarrow as pa

from motet.codec.compression import without_byte_order_mark
from motet.codec.decode import decode_file, decode_stream
from motet.codec.encode import encode
from motet.codec.events import Decoded, OnRejected
from motet.codec.formats import Format, format_of_content_type
from motet.codec.nquads import decode_runs
from motet.codec.options import DecodeOptions, Rest, decode_settings
from motet.codec.rejections import truncate
from motet.codec.row_mapping import RowMapping
from motet.connectors.sorted_load import SortedLoad, StagedEvents
from motet.lake import Lake
from motet.model.batches import EVENTS
from motet.model.errors import ConflictError, DecodeError


@dataclass(frozen=True)
class IngestResult:
    """The counts of one commit, or of what was decided before the first one."""

    inputs: int = 0  # files or messages that end with it
    accepted: int = 0
    repeated: int = 0
    stamped: int = 0  # of the accepted events
    late: int = 0  # of the accepted events
    rejected: int = 0
    left_out: int = 0  # triples and derived events that are not read

    def __add__(self, other: IngestResult) -> IngestResult:
        return IngestResult(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True)
class DocumentOptions:
    """How the events of documents are found (language page, section 14)."""

    id: str | None = None  # of the event that a whole file, or standard input, is
    base: str | None = None  # of relative IRIs
    rest: Rest = "refuse"  # what happens to triples that belong to no event
    mapping: RowMapping | None = None  # of rows in CSV and JSON, and of XML documents


DEFAULT_DOCUMENTS = DocumentOptions()

OnCommit = Callable[[IngestResult], object]
OnSorted = Callable[[int], object]  # called with the number of events of a load when all are read
NamedInput = tuple[str | None, Decoded]  # a decoded batch and the name of its input in errors


def ingest_decoded(lake: Lake, batches: Sequence[Decoded], on_rejected: OnRejected, *, inputs: int = 0) -> IngestResult:
    """Append the decoded events of some inputs in one commit."""
    read = _reject(batches, on_rejected)
    events = pa.Table.from_batches([batch.events for batch in batches], EVENTS)
    return IngestResult(inputs=inputs) + read + append_events(lake, events, on_rejected)


def ingest_chunks(
    lake: Lake,
    chunks: Iterator[bytes],
    content_type: str,
    on_rejected: OnRejected,
    *,
    name: str = "standard input",
    documents: DocumentOptions = DEFAULT_DOCUMENTS,
) -> Iterator[IngestResult]:
    """Append the events of a stream of bytes as they come: N-Quads batch by batch, a document when it is complete."""
    syntax = format_of_content_type(content_type)
    options = DecodeOptions(name, **decode_settings(lake.snapshot().settings), **vars(documents))
    is_stream = syntax is Format.N_QUADS and documents.id is None
    chunks = without_byte_order_mark(chunks)
    for decoded in decode_runs(chunks, options) if is_stream else decode_stream(chunks, syntax, options):
        yield ingest_decoded(lake, [decoded], on_rejected)


def ingest_files(
    lake: Lake,
    paths: Sequence[str],
    on_rejected: OnRejected,
    *,
    on_read: Callable[[int], object] = lambda size: None,
    on_sorted: OnSorted = lambda events: None,
    documents: DocumentOptions = DEFAULT_DOCUMENTS,
) -> Iterator[IngestResult]:
    """Append the events of files as one load; ``on_read`` gets the number of bytes just read."""
    settings = decode_settings(lake.snapshot().settings)
    decoded = (
        (path, batch) for path in paths for batch in decode_file(path, on_read=on_read, **settings, **vars(documents))
    )
    yield from ingest_load(lake, decoded, on_rejected, on_sorted=on_sorted)
    yield IngestResult(inputs=len(paths))


def ingest_load(
    lake: Lake,
    inputs: Iterable[NamedInput],
    on_rejected: OnRejected,
    *,
    on_sorted: OnSorted = lambda events: None,
    stop_requested: threading.Event | None = None,
) -> Iterator[IngestResult]:
    """Append the events of a finite input in the order of their ends, commit by commit.

    The first result has the counts of what was decided while the input was read. A stop that is requested while it is
    read ends the load before its first commit. Whatever ends the iteration, the scratch files of the load are deleted.
    """
    with SortedLoad(lake.store) as load:
        result = IngestResult()
        for name, decoded in inputs:
            if stop_requested is not None and stop_requested.is_set():
                return
            result += _reject([decoded], on_rejected)
            load.add(decoded.events, name)
        on_sorted(load.events)
        if result != IngestResult():
            yield result
        yield from append_sorted(lake, load, on_rejected)


def append_sorted(lake: Lake, load: SortedLoad | StagedEvents, on_rejected: OnRejected) -> Iterator[IngestResult]:
    """Append the events of a load commit by commit; the first result may be what was decided without a commit."""
    conflicts = 0

    def reject_conflicts(events: pa.Table) -> None:
        nonlocal conflicts
        conflicts += events.num_rows
        on_rejected([_conflict_in_load(events, index) for index in range(events.num_rows)])

    repeated = load.drop_repetitions(lake.holds, reject_conflicts)
    if repeated or conflicts:
        yield IngestResult(repeated=repeated, rejected=conflicts)
    for events in load.tables():
        yield append_events(lake, events, on_rejected)


def append_events(lake: Lake, events: pa.Table, on_rejected: OnRejected) -> IngestResult:
    """Append events in one commit; those that the lake rejects become dead letters."""
    receipt = lake.append(events, partial=True)
    on_rejected([rejected_event(events, lost.row, lost.to_error()) for lost in receipt.rejected])
    counts = {name: getattr(receipt, name) for name in ("accepted", "repeated", "stamped", "late")}
    return IngestResult(**counts, rejected=len(receipt.rejected))


def rejected_event(events: pa.Table, index: int, error: DecodeError) -> DecodeError:
    """An error of one event of a table of EVENTS, with its content and perhaps the name of its input."""
    event = events.slice(index, 1)
    (batch,) = event.select(EVENTS.names).combine_chunks().to_batches()
    return type(error)(
        error.reason,
        source=event["source"][0].as_py() if "source" in event.column_names else None,
        line=event["line"][0].as_py(),
        event=event["id"][0].as_py(),
        content=truncate(encode(batch, Format.N_QUADS).decode()),
        advice=error.advice,
    )


def _conflict_in_load(events: pa.Table, index: int) -> DecodeError:
    reason = "an earlier event of the same load has this IRI and other content"
    advice = "Give each event an IRI of its own; the first one is taken."
    return rejected_event(events, index, ConflictError(reason, advice=advice))


def _reject(batches: Iterable[Decoded], on_rejected: OnRejected) -> IngestResult:
    rejected = [error for batch in batches for error in batch.rejected]
    on_rejected(rejected)
    repeated = sum(batch.repeated for batch in batches)
    return IngestResult(rejected=len(rejected), repeated=repeated, left_out=sum(map(left_out, batches)))


def left_out(decoded: Decoded) -> int:
    """The number of triples and derived events that were not read."""
    return decoded.dropped + decoded.derived
