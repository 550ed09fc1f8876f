"""Turns events and control records into records of the log: checks them, decides which are accepted, assigns offsets,
times, frontiers and late flags.

A small batch is handled in Python values, where calling Arrow would cost more than the work; a test compares both ways.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from motet.lake.snapshot import DataFile, describe_segment
from motet.model.batches import (
    EVENTS,
    RECORDS,
    TIME,
    EventRow,
    RecordRow,
    Records,
    Triple,
    event_batch,
    event_rows,
    payload_column,
    record_batch,
)
from motet.model.content import content_digest, content_digests
from motet.model.errors import ConflictError, DecodeError, UsageError
from motet.model.records import EVENT, ControlRecord, Tick
from motet.model.settings import Settings
from motet.model.timeline import late_below, next_frontier, stamped_time
from motet.model.times import END_OF_TIME, START_OF_TIME, format_datetime, format_duration

_ASSIGNED = ("offset", "frontier", "late")  # columns that a commit fills in; also the times of stamped events
UNCOMMITTED_RECORDS = pa.schema([column for column in RECORDS if column.name not in _ASSIGNED])
SMALL_BATCH = 32  # events
SMALL_BATCH_TRIPLES = 512

EventInput: TypeAlias = pa.RecordBatch | pa.Table | Sequence[EventRow]
CommittedRecords: TypeAlias = pa.Table | list[RecordRow]
Indexes: TypeAlias = Sequence[int] | npt.NDArray[np.int64]


def record_batches(records: CommittedRecords) -> list[Records]:
    """Records as batches; those of a small batch are rows."""
    if isinstance(records, pa.Table):
        return [Records(columns=batch) for batch in records.to_batches()]
    return [Records(rows=records)]


# Requests: checked events, not yet compared with the log.


class SmallBatch(NamedTuple):
    """A few events as columns of Python values, with distinct ids and valid intervals."""

    ids: list[str]
    starts: list[int | None]  # None with the end: stamped at the commit
    ends: list[int | None]
    triples: list[tuple[Triple, ...]]
    digests: list[bytes]
    payloads: list[bytes | None]


class AppendRequest:
    """The events of one request, checked.

    In a ``partial`` request an event in conflict with the log, or too far ahead, is left out and named in the receipt;
    otherwise it refuses the request.
    """

    def __init__(self, events: EventInput, *, partial: bool = False) -> None:
        self.partial = partial
        self.small = as_small_batch(events)
        self._events = events
        self.ids: list[str] = self.uncommitted["id"].to_pylist() if self.small is None else self.small.ids

    @cached_property
    def uncommitted(self) -> pa.Table:
        columns = self._events if isinstance(self._events, pa.RecordBatch | pa.Table) else event_batch(self._events)
        return uncommitted_events(columns)

    @cached_property
    def ends(self) -> npt.NDArray[np.int64]:
        """The ends of the events; START_OF_TIME - 1 for those to be stamped."""
        if self.small is not None:
            return np.array([_UNSTATED if end is None else end for end in self.small.ends], np.int64)
        return pc.fill_null(self.uncommitted["end"].cast(pa.int64()), _UNSTATED).to_numpy()

    def digest(self, index: int) -> bytes:
        digests = self.uncommitted["digest"][index].as_py() if self.small is None else self.small.digests[index]
        assert isinstance(digests, bytes), "every event has a digest"
        return digests


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


def as_small_batch(events: EventInput) -> SmallBatch | None:
    """The events as a small batch.

    None for other batches, also for one that has to be rejected: `uncommitted_events` says why.
    """
    rows = _small_rows(events) if isinstance(events, pa.RecordBatch | pa.Table) else events
    if rows is None or not 0 < len(rows) <= SMALL_BATCH:
        return None
    batch = SmallBatch([], [], [], [], [], [])
    for id_, start, end, triples, payload in rows:
        if id_ in batch.ids or not _is_interval(start, end):
            return None
        batch.ids.append(id_)
        batch.starts.append(start)
        batch.ends.append(end)
        batch.triples.append(triples)
        batch.digests.append(content_digest(triples, payload))
        batch.payloads.append(payload)
    return batch


def _small_rows(events: pa.RecordBatch | pa.Table) -> list[EventRow] | None:
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


_ONE_ACCEPTED = Decision(range(1))


def accept_new(batch: SmallBatch, clock: int, ahead: int | None) -> Decision | None:
    """As `decide` for a small batch of new events; None if one of them is too far ahead."""
    ends, latest = batch.ends, END_OF_TIME if ahead is None else clock + ahead
    for end in ends:
        if end is not None and end > latest:
            return None
    if len(ends) == 1:
        return _ONE_ACCEPTED
    keys = [END_OF_TIME + 1 if end is None else end for end in ends]
    return Decision(sorted(range(len(ends)), key=keys.__getitem__))


def decide(
    request: AppendRequest, existing: Mapping[int, bytes], committed: Mapping[str, bytes], clock: int, ahead: int | None
) -> Decision:
    """Decide about the events of a request, in input order.

    ``existing`` has the digests of events in the log that have the IRIs of events of the request, by index;
    ``committed`` those of the requests before it in the same commit, by IRI.
    """
    latest = END_OF_TIME if ahead is None else clock + ahead
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
    """The records of a commit, the frontier after them, and their entry in the manifest without name and size."""

    records: CommittedRecords
    frontier: int | None
    file: DataFile
    delay: int | None  # the clock less the least end of the events that are not late; None: there are none


def place(uncommitted: pa.Table, first: int, before: int | None, clock: int, settings: Settings) -> PlacedRecords:
    """The records of a commit at offsets from ``first`` on, from the frontier and the settings before it."""
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
    frontier = next_frontier(before, newest_end, ends[is_tick].tolist(), clock, settings)
    columns = times | {
        "offset": pa.array(np.arange(first, first + count)),
        "frontier": pa.repeat(pa.scalar(before, pa.int64()).cast(TIME), count),
        "late": pa.array(is_late),
    }
    arrays = [columns[name] if name in columns else uncommitted[name] for name in RECORDS.names]
    records = pa.table(arrays, schema=RECORDS)
    delay = clock - int(counting.min()) if len(counting) else None
    return PlacedRecords(records, frontier, describe_segment("", 0, records), delay)


def place_small(
    batch: SmallBatch, order: Indexes, first: int, before: int | None, clock: int, settings: Settings
) -> PlacedRecords:
    """As `place`, for the events of a small batch in an order."""
    limit, stamp = late_below(before), stamped_time(before, clock)
    records: list[RecordRow] = []
    starts: list[int] = []
    ends: list[int] = []
    counting: list[int] = []  # ends of events that are not late
    moving: list[int] = []  # and that state a time
    for offset, index in enumerate(order, first):
        start, end = batch.starts[index], batch.ends[index]
        is_stamped = start is None or end is None
        if start is None or end is None:
            start = end = stamp
        is_late = end < limit
        if not is_late:
            counting.append(end)
            if not is_stamped:
                moving.append(end)
        starts.append(start)
        ends.append(end)
        row = (offset, EVENT, batch.ids[index], start, end, before, is_late, None)
        content = batch.digests[index], batch.payloads[index]
        records.append(RecordRow(*row, batch.triples[index], is_stamped, *content))
    frontier = next_frontier(before, max(moving) if moving else None, (), clock, settings)
    count, late = len(records), len(ends) - len(counting)
    stamped = batch.ends.count(None) if count == len(batch.ends) else sum(row.stamped for row in records)
    file = DataFile("", first, first + count, count, 0, {EVENT: count}, late, min(starts), max(ends), stamped)
    return PlacedRecords(records, frontier, file, clock - min(counting) if counting else None)
