"""Turns events and control records into records of the log: checks them, decides which are accepted, assigns offsets,
times, frontiers and late flags, and says so in receipts.

A few events are handled as Python rows, where calling Arrow would cost more than the work; a test compares both ways.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from motet.lake.snapshot import DataFile, Snapshot, describe_segment
from motet.model.batches import (
    EVENTS,
    RECORDS,
    TIME,
    EventRow,
    RecordRow,
    Records,
    content_digest,
    content_digests,
    event_batch,
    event_rows,
    payload_column,
    record_batch,
)
from motet.model.errors import ConflictError, DecodeError, UsageError
from motet.model.records import EVENT, ControlRecord, Tick
from motet.model.timeline import late_below, next_frontier, stamped_time
from motet.model.times import END_OF_TIME, START_OF_TIME, format_datetime, format_duration

_ASSIGNED = ("offset", "frontier", "late")  # columns that a commit fills in; also the times of stamped events
UNCOMMITTED_RECORDS = pa.schema([column for column in RECORDS if column.name not in _ASSIGNED])
SMALL_BATCH = 32  # events
SMALL_BATCH_TRIPLES = 512

EventInput: TypeAlias = pa.RecordBatch | pa.Table | Sequence[EventRow]
Indexes: TypeAlias = Sequence[int] | npt.NDArray[np.int64]


# Requests: checked events, not yet compared with the log.


class AppendRequest:
    """The events of one request, checked.

    In a ``partial`` request an event in conflict with the log, or too far ahead, is left out and named in the receipt;
    otherwise it refuses the request.
    """

    def __init__(self, events: EventInput, *, partial: bool = False) -> None:
        self.partial = partial
        self.rows = small_rows(events)
        self._events = events
        if self.rows is None:
            self.ids: list[str] = self.uncommitted["id"].to_pylist()
        else:
            self.ids = [row.id for row in self.rows]
            self.row_digests = [content_digest(row.triples, row.payload) for row in self.rows]

    @cached_property
    def uncommitted(self) -> pa.Table:
        columns = self._events if isinstance(self._events, pa.RecordBatch | pa.Table) else event_batch(self._events)
        return uncommitted_events(columns)

    @cached_property
    def ends(self) -> npt.NDArray[np.int64]:
        """The ends of the events; START_OF_TIME - 1 for those to be stamped."""
        if self.rows is not None:
            return np.array([_UNSTATED if row.end is None else row.end for row in self.rows], np.int64)
        return pc.fill_null(self.uncommitted["end"].cast(pa.int64()), _UNSTATED).to_numpy()

    def digest(self, index: int) -> bytes:
        digest = self.uncommitted["digest"][index].as_py() if self.rows is None else self.row_digests[index]
        assert isinstance(digest, bytes), "every event has a digest"
        return digest


_UNSTATED = START_OF_TIME - 1


def uncommitted_events(events: pa.RecordBatch | pa.Table) -> pa.Table:
    """Events as records without offsets; those that state no time get theirs at the commit.

    A column ``digest`` has their digests, if they are known.
    """
    table = pa.Table.from_batches([events]) if isinstance(events, pa.RecordBatch) else events
    digests = table["digest"].cast(pa.binary()) if "digest" in table.column_names else None
    try:
        if "payload" not in table.column_names:
            table = table.append_column("payload", payload_column(table))
        table = table.select(EVENTS.names).cast(EVENTS)
    except (KeyError, ValueError) as error:
        raise UsageError(f"these are not events: {error}", advice="Append batches of the EVENTS schema.") from error
    _check_times(table)
    count = table.num_rows
    columns = {
        "kind": pa.repeat(pa.scalar(EVENT, pa.string()), count),
        "text": pa.nulls(count, pa.string()),
        "stamped": pc.is_null(table["end"]),
        "digest": pa.array(content_digests(table), pa.binary()) if digests is None else digests,
    }
    names = UNCOMMITTED_RECORDS.names
    return pa.table([columns[name] if name in columns else table[name] for name in names], schema=UNCOMMITTED_RECORDS)


def uncommitted_controls(records: Sequence[ControlRecord]) -> pa.Table:
    """Control records without offset, frontier and late flag."""
    for record in records:
        if isinstance(record, Tick) and not START_OF_TIME <= record.instant <= END_OF_TIME:
            raise UsageError(
                f"a tick at {record.instant} is outside the years 1 to 9999", advice="Give an instant within them."
            )
    rows = record_batch(record.to_row() for record in records)
    return pa.Table.from_batches([rows]).select(UNCOMMITTED_RECORDS.names)


def small_rows(events: EventInput) -> Sequence[EventRow] | None:
    """A few events as rows; None for other batches, also for one that `uncommitted_events` rejects."""
    rows = _rows_of_columns(events) if isinstance(events, pa.RecordBatch | pa.Table) else events
    if rows is None or not 0 < len(rows) <= SMALL_BATCH or len({row.id for row in rows}) < len(rows):
        return None
    for row in rows:
        if not _is_interval(row.start, row.end):
            return None
    return rows


def _rows_of_columns(events: pa.RecordBatch | pa.Table) -> list[EventRow] | None:
    """The rows of an EVENTS batch that is small and has no nulls where none may be; None for others."""
    if not isinstance(events, pa.RecordBatch) or not 0 < events.num_rows <= SMALL_BATCH or events.schema != EVENTS:
        return None
    ids, triples = events.column(0), events.column(3)
    if ids.null_count or triples.null_count:
        return None
    count = triples.offsets[-1].as_py() - triples.offsets[0].as_py()
    return list(event_rows(events)) if count <= SMALL_BATCH_TRIPLES else None


def _is_interval(start: int | None, end: int | None) -> bool:
    """Whether an event may have this start and end, or states neither."""
    return start is end if start is None or end is None else START_OF_TIME <= start <= end <= END_OF_TIME


def _check_times(events: pa.Table) -> None:
    start, end = events["start"], events["end"]
    lacks_one_end = pc.xor(pc.is_null(start), pc.is_null(end)).to_numpy()
    starts, ends = (pc.fill_null(column.cast(pa.int64()), 0).to_numpy() for column in (start, end))
    is_wrong = lacks_one_end | (starts > ends) | (starts < START_OF_TIME) | (ends > END_OF_TIME)
    if is_wrong.any():
        event = events["id"][int(is_wrong.argmax())].as_py()
        raise UsageError(
            f"event <{event}>: its time is not an interval", advice="Give it start <= end, or neither of them."
        )


# Decisions: which events of a request are accepted.


class Rejection(NamedTuple):
    """An event of a request that is not accepted, and why."""

    row: int  # of the request
    event: str
    reason: str
    advice: str
    is_conflict: bool = False

    def to_error(self) -> DecodeError:
        kind = ConflictError if self.is_conflict else DecodeError
        return kind(self.reason, event=self.event, advice=self.advice)


class Decision(NamedTuple):
    """What becomes of the events of one request."""

    accepted: Indexes  # in the order of the commit
    repeated: int = 0
    rejected: tuple[Rejection, ...] = ()
    error: DecodeError | None = None  # it refuses the request


def decide_all(
    requests: Sequence[AppendRequest], existing: Mapping[int, bytes], clock: int, ahead: int | None
) -> list[Decision]:
    """Decide about the events of each request, against the log and the requests before it.

    ``existing`` has the digests of events in the log that have the IRIs of events of the requests, by index.
    """
    if len(requests) == 1:
        return [decide(requests[0], existing, {}, clock, ahead)]
    decisions: list[Decision] = []
    committed: dict[str, bytes] = {}
    first = 0
    for request in requests:
        indexes = range(first, first + len(request.ids))
        here = {index - first: existing[index] for index in existing.keys() & indexes} if existing else {}
        decisions.append(decide(request, here, committed, clock, ahead))
        committed.update((request.ids[index], request.digest(index)) for index in decisions[-1].accepted)
        first = indexes.stop
    return decisions


def decide(
    request: AppendRequest, existing: Mapping[int, bytes], committed: Mapping[str, bytes], clock: int, ahead: int | None
) -> Decision:
    """Decide about the events of a request, in input order.

    ``existing`` has the digests of events in the log that have the IRIs of events of the request, by index;
    ``committed`` those of the requests before it in the same commit, by IRI.
    """
    latest = END_OF_TIME if ahead is None else clock + ahead
    if request.rows is not None and not existing and not committed:
        order = _order_if_accepted(request.rows, latest)
        if order is not None:
            return Decision(order)
    too_late = np.flatnonzero(request.ends > latest).tolist()
    ids, repeated, rejected = request.ids, [], []
    first_digests: dict[str, bytes] = dict(committed)
    undecided = {*existing, *too_late, *_indexes_to_compare(ids, committed)}
    for index in sorted(undecided):
        known = existing.get(index) or first_digests.get(ids[index])
        if known is not None and known == request.digest(index):
            repeated.append(index)
        elif known is not None:
            rejected.append(_conflict(index, ids[index]))
        elif request.ends[index] > latest:
            rejected.append(_too_far_ahead(index, ids[index], int(request.ends[index]), clock, ahead or 0))
        else:
            first_digests[ids[index]] = request.digest(index)
    if rejected and not request.partial:
        return Decision((), 0, tuple(rejected), rejected[0].to_error())
    left_out = {*repeated, *(rejection.row for rejection in rejected)}
    return Decision(commit_order(request.ends, left_out), len(repeated), tuple(rejected))


def _order_if_accepted(rows: Sequence[EventRow], latest: int) -> Indexes | None:
    """As `commit_order`, for a few new events; None if one of them is too far ahead."""
    for row in rows:
        if row.end is not None and row.end > latest:
            return None
    if len(rows) == 1:
        return range(1)
    keys = [END_OF_TIME + 1 if row.end is None else row.end for row in rows]
    return sorted(range(len(rows)), key=keys.__getitem__)


def commit_order(ends: npt.NDArray[np.int64], left_out: set[int] | frozenset[int] = frozenset()) -> Indexes:
    """The indexes of events in the order in which they are committed: by end, those to be stamped last."""
    keys = np.where(ends == _UNSTATED, END_OF_TIME + 1, ends)
    is_sorted = bool((keys[1:] >= keys[:-1]).all())
    order = np.arange(len(keys)) if is_sorted else np.argsort(keys, kind="stable")
    if left_out:
        return order[~np.isin(order, list(left_out))]
    return range(len(keys)) if is_sorted else order


def _indexes_to_compare(ids: Sequence[str], committed: Mapping[str, bytes]) -> list[int]:
    """The indexes of the ids that occur twice, or in an earlier request of the commit."""
    counts: dict[str, int] = {}
    if len(set(ids)) < len(ids):
        for id_ in ids:
            counts[id_] = counts.get(id_, 0) + 1
    elif not committed:
        return []
    return [index for index, id_ in enumerate(ids) if id_ in committed or counts.get(id_, 1) > 1]


def _conflict(row: int, id_: str) -> Rejection:
    advice = "Give each change of a thing an IRI of its own, or none; what was accepted first stays."
    return Rejection(row, id_, "it was accepted before with other content", advice, is_conflict=True)


def _too_far_ahead(row: int, id_: str, end: int, clock: int, ahead: int) -> Rejection:
    reason = f"it ends at {format_datetime(end)}, more than {format_duration(ahead)} after the clock of its writer"
    if START_OF_TIME <= clock <= END_OF_TIME:
        reason += f", {format_datetime(clock)}"
    advice = "Correct its time or the clock, or allow it with `motet settings --lake DIR --ahead unlimited`."
    return Rejection(row, id_, reason, advice)


# Placement: accepted events and control records as the records of a commit.


class PlacedRecords(NamedTuple):
    """The records of a commit, the frontier after them, and their entry in the manifest.

    The entry has its name and size when the records are committed.
    """

    records: list[Records]
    frontier: int | None
    file: DataFile
    delay: int | None  # the clock less the least end of the events that are not late; None: there are none


def place(uncommitted: pa.Table, newest: Snapshot, clock: int) -> PlacedRecords:
    """The records of a commit that follows a version."""
    first, before = newest.next_offset, newest.frontier
    stamp = pa.scalar(stamped_time(before, clock), pa.int64()).cast(TIME)
    count, is_stamped = uncommitted.num_rows, uncommitted["stamped"].to_numpy()
    times = {name: uncommitted[name] for name in ("start", "end")}
    if is_stamped.any():
        times = {name: pc.if_else(uncommitted["stamped"], stamp, column) for name, column in times.items()}
    ends = pc.fill_null(times["end"].cast(pa.int64()), _UNSTATED).to_numpy()
    is_event, is_tick = (pc.equal(uncommitted["kind"], kind).to_numpy() for kind in (EVENT, Tick.kind))
    is_late = is_event & (ends < late_below(before))
    counting, moving = ends[is_event & ~is_late], ends[is_event & ~is_late & ~is_stamped]
    newest_end = int(moving.max()) if len(moving) else None
    frontier = next_frontier(before, newest_end, ends[is_tick].tolist(), clock, newest.settings)
    columns = times | {
        "offset": pa.array(np.arange(first, first + count)),
        "frontier": pa.repeat(pa.scalar(before, pa.int64()).cast(TIME), count),
        "late": pa.array(is_late),
    }
    arrays = [columns[name] if name in columns else uncommitted[name] for name in RECORDS.names]
    records = pa.table(arrays, schema=RECORDS)
    delay = clock - int(counting.min()) if len(counting) else None
    batches = [Records(columns=batch) for batch in records.to_batches()]
    return PlacedRecords(batches, frontier, describe_segment("", 0, records), delay)


def place_small(request: AppendRequest, order: Indexes, newest: Snapshot, clock: int) -> PlacedRecords:
    """As `place`, for the events of a small request in an order."""
    assert request.rows is not None, "the request is small"
    before = newest.frontier
    limit, stamp = late_below(before), stamped_time(before, clock)
    records: list[RecordRow] = []
    starts: list[int] = []
    ends: list[int] = []
    counting: list[int] = []  # ends of events that are not late
    moving: list[int] = []  # and that state a time
    stamped = 0
    for offset, index in enumerate(order, newest.next_offset):
        id_, start, end, triples, payload = request.rows[index]
        is_stamped = start is None or end is None
        if start is None or end is None:
            start = end = stamp
            stamped += 1
        is_late = end < limit
        if not is_late:
            counting.append(end)
            if not is_stamped:
                moving.append(end)
        starts.append(start)
        ends.append(end)
        digest = request.row_digests[index]
        records.append(
            RecordRow(offset, EVENT, id_, start, end, before, is_late, None, triples, is_stamped, digest, payload)
        )
    frontier = next_frontier(before, max(moving) if moving else None, (), clock, newest.settings)
    first, count, late = newest.next_offset, len(records), len(ends) - len(counting)
    file = DataFile("", first, first + count, count, 0, {EVENT: count}, late, min(starts), max(ends), stamped)
    return PlacedRecords([Records(rows=records)], frontier, file, clock - min(counting) if counting else None)


# Receipts, and all steps together.


_NOT_COUNTED = {  # by kind: what is said of a receipt that has some
    "late": "late: stored, never matched",
    "repeated": "repeated: in the log already, with the same content",
    "rejected": "rejected: in conflict, or too far ahead of the clock",
    "dropped": "triples dropped: they belong to no event",
    "derived": "graphs left out: they are of derived events",
}


class Receipt(NamedTuple):
    """The result of appending the events of one request."""

    ids: Sequence[str]  # the IRIs of its events, in input order
    accepted: int
    repeated: int  # events whose IRI and content the log held, or the request before
    stamped: int  # accepted events that state no time
    late: int  # accepted events that are never matched
    rejected: tuple[Rejection, ...]  # of a partial request: events in conflict or too far ahead
    first: int | None  # offset of the first accepted event; None if there is none
    last: int | None
    dropped: int = 0  # triples that belong to no event, with rest=drop
    derived: int = 0  # graphs of derived events, which are left out

    @property
    def not_counted(self) -> dict[str, int]:
        """What was in the request and does not count, by kind; empty if everything counts."""
        counts = {
            "late": self.late,
            "repeated": self.repeated,
            "rejected": len(self.rejected),
            "dropped": self.dropped,
            "derived": self.derived,
        }
        return {kind: count for kind, count in counts.items() if count}

    def __str__(self) -> str:
        """The counts as a sentence, with what does not count.

        >>> print(Receipt(["urn:e:1", "urn:e:2"], 2, 0, 0, 1, (), 7, 8))
        2 events accepted at offsets 7 to 8; 1 late: stored, never matched
        """
        where = "" if self.first is None else f" at offset {self.first}"
        where = f" at offsets {self.first} to {self.last}" if self.first != self.last else where
        parts = [f"{self.accepted} event{'' if self.accepted == 1 else 's'} accepted{where}"]
        parts += [f"{self.stamped} without a time: stamped with the clock"] if self.stamped else []
        return "; ".join([*parts, *(f"{count} {_NOT_COUNTED[kind]}" for kind, count in self.not_counted.items())])


class AcceptedEvents(NamedTuple):
    """What becomes of the events of some requests after a version of the log."""

    receipts: list[Receipt | DecodeError]  # for each request its receipt, or the error that refuses it
    has_rejected: bool  # an event, perhaps with its request
    indexes: Indexes  # of the accepted events among those of all requests, in the order of the records
    placed: PlacedRecords | None  # None: no event is accepted


def accept(
    requests: Sequence[AppendRequest], existing: Mapping[int, bytes], newest: Snapshot, clock: int
) -> AcceptedEvents:
    """Decide which events of some requests are accepted after a version, and make records of them.

    ``existing`` has the digests of events in the log that have the IRIs of events of the requests, by index.
    """
    decisions = decide_all(requests, existing, clock, newest.settings.ahead)
    placed = _place_accepted(requests, decisions, newest, clock)
    has_rejected = any(decision.rejected for decision in decisions)
    return AcceptedEvents(_receipts(requests, decisions, placed), has_rejected, _indexes(requests, decisions), placed)


def _place_accepted(
    requests: Sequence[AppendRequest], decisions: Sequence[Decision], newest: Snapshot, clock: int
) -> PlacedRecords | None:
    """The accepted events of all requests as records; None if there are none."""
    if len(requests) == 1 and requests[0].rows is not None:
        accepted = decisions[0].accepted
        return place_small(requests[0], accepted, newest, clock) if len(accepted) else None
    tables = [
        request.uncommitted if isinstance(accepted, range) else request.uncommitted.take(pa.array(accepted))
        for request, (accepted, *_) in zip(requests, decisions, strict=True)
        if len(accepted)
    ]
    return place(pa.concat_tables(tables).combine_chunks(), newest, clock) if tables else None


def _indexes(requests: Sequence[AppendRequest], decisions: Sequence[Decision]) -> Indexes:
    if len(requests) == 1:
        return decisions[0].accepted
    firsts = np.cumsum([0, *(len(request.ids) for request in requests)])
    return np.concatenate(
        [np.asarray(d.accepted, np.int64) + first for d, first in zip(decisions, firsts, strict=False)]
    )


def _receipts(
    requests: Sequence[AppendRequest], decisions: Sequence[Decision], placed: PlacedRecords | None
) -> list[Receipt | DecodeError]:
    """The receipt of each request; the records are the accepted events of the requests, in order."""
    if len(decisions) == 1 and placed is not None:
        file, (_, repeated, rejected, _) = placed.file, decisions[0]
        counts = (file.rows, repeated, file.stamped, file.late)
        return [Receipt(requests[0].ids, *counts, rejected, file.first, file.stop - 1)]
    records = None if placed is None else pa.Table.from_batches([batch.columns for batch in placed.records])
    receipts: list[Receipt | DecodeError] = []
    begin = 0
    for request, (accepted, repeated, rejected, error) in zip(requests, decisions, strict=True):
        end = begin + len(accepted)
        first = placed.file.first + begin if placed and begin < end else None
        stamped, late = (0, 0) if records is None else _counts(records.slice(begin, end - begin))
        last = None if first is None else first + len(accepted) - 1
        receipt = Receipt(request.ids, len(accepted), repeated, stamped, late, rejected, first, last)
        receipts.append(receipt if error is None else error)
        begin = end
    return receipts


def _counts(records: pa.Table) -> tuple[int, int]:
    """The numbers of stamped and of late events."""
    return pc.sum(records["stamped"]).as_py() or 0, pc.sum(records["late"]).as_py() or 0
