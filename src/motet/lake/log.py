"""The lake: append records durably, read snapshots, store notifications and progress, compact and check.

Most methods are one call into the module that does the work.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from motet.lake import maintenance, notifications, progress
from motet.lake.accept import (
    SMALL_BATCH,
    CommittedRecords,
    PlacedRecords,
    as_small_batch,
    assign_offsets,
    place_small,
    record_batches,
    uncommitted_controls,
    uncommitted_events,
)
from motet.lake.ids import EventIds, IdHashes, hash_ids
from motet.lake.maintenance import TARGET_BYTES, TARGET_ROWS, CompactionResult
from motet.lake.manifest import Commit, Manifest, commit_name
from motet.lake.progress import read_states, write_state
from motet.lake.segments import INLINE_BYTES, inline_rows, new_name, write_rows
from motet.lake.snapshot import DataFile, Snapshot, describe_segment
from motet.lake.store import Store
from motet.model.batches import RECORDS, EventRow, Triple, event_batch
from motet.model.errors import CorruptLakeError, LakeError, UsageError
from motet.model.records import BackgroundChange, ControlRecord, Retraction, Subscribe, Tick, Unsubscribe
from motet.model.times import END_OF_TIME, START_OF_TIME, format_duration

FORMAT = 1
SETTINGS = "lake.json"
UNLIMITED: Final = None
DEFAULT_LATENESS = 60_000_000
GRACE = 3_600_000_000  # how long a snapshot may be read after a compaction has replaced its files
MAX_LISTED_DUPLICATES = 10
INLINE_ROWS = 4_096  # a larger batch is not inline, whatever its size in bytes: it need not be measured
FOLDERS = {
    "manifest", "segments", "ids", "notifications", "consumers", "sources", "dead-letter", "tmp", "commit.lock",
}  # fmt: skip


EventInput: TypeAlias = pa.RecordBatch | pa.Table | Sequence[EventRow]
Indexes = Sequence[int] | npt.NDArray[np.int64]


class Lateness(Enum):
    """The lateness of the lake that is opened, or the default for a new one."""

    AS_IS = "as is"


class Receipt(NamedTuple):
    """The result of appending the events of one request."""

    first: int | None  # offset of the first accepted event; None if there is none
    last: int | None
    accepted: int
    duplicates: int
    late: int
    duplicate_ids: tuple[str, ...] = ()  # at most MAX_LISTED_DUPLICATES


class AppendRequest:
    """The events of one request, checked."""

    def __init__(self, events: EventInput, now: int) -> None:
        self.small = as_small_batch(events, now)
        self._events, self._now = events, now
        self.ids: list[str] = self.uncommitted["id"].to_pylist() if self.small is None else self.small.ids

    @cached_property
    def uncommitted(self) -> pa.Table:
        columns = self._events if isinstance(self._events, pa.RecordBatch | pa.Table) else event_batch(self._events)
        return uncommitted_events(columns, self._now)


class CommitResult(NamedTuple):
    """The receipts of the requests of one commit, and its records: none if the log held all events."""

    receipts: list[Receipt]
    records: CommittedRecords
    snapshot: Snapshot | None


class Lake:
    """An append-only log in a directory. Several processes and threads may use one at once.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lake = Lake.open(folder, lateness=UNLIMITED)
    ...     lake.tick(5), lake.snapshot().next_offset
    (0, 1)
    """

    def __init__(self, store: Store, lateness: int | None) -> None:
        self.store = store
        self.lateness = lateness
        self._manifest = Manifest(store)
        self._ids: EventIds | None = None
        self.consumers = progress.Consumers(store)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        create: bool = True,
        lateness: int | Literal[Lateness.AS_IS] | None = Lateness.AS_IS,
        durable: bool = True,
    ) -> Lake:
        """Open the lake in a directory; it is created if there is none. The lateness is in microseconds.

        If not ``durable``, appending does not sync the disk: acknowledged records survive a crash of the process, but
        perhaps not one of the machine.
        """
        store = Store(Path(path), durable)
        settings = store.find(SETTINGS)
        if settings is None:
            settings = _create(store, create, lateness)
        stored = _stored_lateness(store, settings)
        if lateness not in (Lateness.AS_IS, stored):
            raise UsageError(
                f"{store.root} has a lateness of {_lateness_text(stored)}, not {_lateness_text(lateness)}",
                advice="Lateness is fixed when a lake is created: leave it out, or use another directory.",
            )
        return cls(store, stored)

    def append(self, events: EventInput, *, now: int) -> Receipt:
        """Append events, all or none; durable when it returns. Events whose IRI the log holds are left out.

        ``now``, in microseconds, is the time of events that state none.
        """
        return self.append_group([AppendRequest(events, now)]).receipts[0]

    def append_group(self, requests: Sequence[AppendRequest]) -> CommitResult:
        """Append the events of several requests in one commit, with a receipt for each request."""
        ids = requests[0].ids if len(requests) == 1 else [id_ for request in requests for id_ in request.ids]
        hashes = hash_ids(ids)
        accepted: Indexes = ()
        placed: PlacedRecords | None = None

        def propose(newest: Snapshot) -> Commit | None:
            nonlocal accepted, placed
            accepted = _new_indexes(self._current_ids(newest), ids, hashes, newest)
            placed = self._place_requests(requests, accepted, newest) if len(accepted) else None
            return self._append_commit(newest, placed) if placed else None

        with self._manifest.writing:  # no other thread may read the log between the commit and the update of the ids
            is_small = all(request.small is not None for request in requests)
            after = self._manifest.commit(propose, optimistic=is_small) if ids else None
            if after is not None and self._ids is not None:
                if len(accepted) < len(ids):
                    ids, hashes = [ids[index] for index in accepted], hashes[np.asarray(accepted)]
                self._ids.add(ids, hashes, after.segments[-1].first)
        return CommitResult(_receipts(requests, accepted, placed), placed.records if placed else [], after)

    def append_controls(self, records: Sequence[ControlRecord]) -> int:
        """Append control records, at least one, in one commit; returns the offset of the first."""
        uncommitted = uncommitted_controls(records)
        after = self._manifest.commit(lambda newest: self._append_commit(newest, self._place(uncommitted, newest)))
        return self._offset_of(after, uncommitted.num_rows)

    def tick(self, instant: int) -> int:
        """Move the frontier to an instant: events that end before it are late from now on."""
        return self.append_controls([Tick(instant)])

    def subscribe(self, name: str, text: str) -> int:
        return self.append_controls([Subscribe(name, text)])

    def subscribe_all(self, texts: Mapping[str, str]) -> int:
        """Register subscriptions in one commit, one record for each; returns the offset of the first."""
        return self.append_controls([Subscribe(name, text) for name, text in texts.items()])

    def unsubscribe(self, name: str) -> int:
        return self.append_controls([Unsubscribe(name)])

    def background(self, added: Iterable[Triple] = (), removed: Iterable[Triple] = ()) -> int:
        """Change the background graph: a record with the text "remove", then one with "add", in one commit."""
        changes = [BackgroundChange(frozenset(removed), is_removal=True), BackgroundChange(frozenset(added))]
        changes = [change for change in changes if change.triples]
        if not changes:
            raise UsageError("a change of the background graph without a triple", advice="Add or remove something.")
        return self.append_controls(changes)

    def retract(self, event_id: str) -> int:
        """Hide an event from queries and later subscriptions. The log still holds its IRI."""
        uncommitted = uncommitted_controls([Retraction(event_id)])

        def propose(newest: Snapshot) -> Commit:
            if not self._current_ids(newest).existing([event_id], hash_ids([event_id]), newest).any():
                raise UsageError(f"no event <{event_id}> is in {self.store.root}", advice="Check the event's IRI.")
            return self._append_commit(newest, self._place(uncommitted, newest))

        return self._offset_of(self._manifest.commit(propose), 1)

    def snapshot(self) -> Snapshot:
        """The newest version; cheap when nothing has changed."""
        return self._manifest.snapshot()

    def cached_snapshot(self) -> Snapshot:
        """The newest version that this process has read, without a look for newer ones."""
        return self._manifest.cached_snapshot

    def compact(
        self, *, target_rows: int = TARGET_ROWS, target_bytes: int = TARGET_BYTES, now: int | None = None
    ) -> CompactionResult:
        """Merge small neighbouring files, up to these sizes."""
        return maintenance.compact(self.store, self._manifest, target_rows, target_bytes, _now(now))

    def vacuum(self, older_than: int = GRACE, *, now: int | None = None) -> list[str]:
        """Delete files that have been replaced or orphaned for ``older_than`` microseconds; returns their names."""
        return maintenance.vacuum(self.store, self._manifest, older_than, _now(now))

    def commit_notifications(self, batch: pa.RecordBatch | pa.Table, first: int, stop: int) -> bool:
        """Commit the notifications of the records ``[first, stop)``; False if another process has done that range."""
        written = [self.write_notifications(batch)] if batch.num_rows else []
        return self.commit_notification_files(written, first, stop)

    def write_notifications(self, batch: pa.RecordBatch | pa.Table) -> DataFile:
        """Write notifications, at least one, to a file for `commit_notification_files`, perhaps by another process."""
        return notifications.write_table(self.store, batch, self.snapshot().version)

    def commit_notification_files(self, files: Sequence[DataFile], first: int, stop: int) -> bool:
        """As `commit_notifications`, for files that are already written."""
        return notifications.commit_tables(self.store, self._manifest, files, first, stop)

    def notifications(self, first_offset: int = 0) -> Iterator[pa.RecordBatch]:
        """The notifications made final at this offset or later."""
        return self.snapshot().notifications(first_offset)

    def cursor(self, consumer: str) -> int:
        """The offset up to which the consumer has everything."""
        return progress.read_cursor(self.store, consumer)

    def put_state(self, offset: int, data: bytes) -> None:
        """Store the state snapshot of an engine that has processed all records below an offset."""
        write_state(self.store, offset, data)

    def state_snapshots(self, stop: int) -> Iterator[tuple[int, bytes]]:
        """The stored state snapshots at or below an offset, the newest first."""
        return read_states(self.store, stop)

    def cursors(self, names: Iterable[str]) -> dict[str, int]:
        """Several cursors: of consumers, or of consumers in one subscription by `progress.cursor_name`."""
        return progress.read_cursors(self.store, names)

    def advance_cursor(self, consumer: str, offset: int) -> None:
        """Move a consumer's cursor to an offset: it has everything below."""
        progress.advance_cursor(self.store, consumer, offset)

    def statistics(self) -> dict[str, object]:
        """Counts and extents of the newest version."""
        return {"lateness": self.lateness, **self.snapshot().statistics()}

    def check(self) -> list[str]:
        """Read every file and return the contradictions found, as texts; empty for a sound lake."""
        return maintenance.find_problems(self.snapshot(), self.lateness)

    def _current_ids(self, newest: Snapshot) -> EventIds:
        event_ids, self._ids = self._ids, None  # dropped if following fails halfway
        event_ids = EventIds(newest) if event_ids is None else event_ids
        event_ids.follow(newest)
        self._ids = event_ids
        return event_ids

    def _place_requests(self, requests: Sequence[AppendRequest], accepted: Indexes, newest: Snapshot) -> PlacedRecords:
        are_all_accepted = len(accepted) == sum(len(request.ids) for request in requests)
        if len(requests) == 1 and requests[0].small is not None and are_all_accepted:
            return place_small(requests[0].small, newest.next_offset, newest.frontier, self.lateness)
        uncommitted = pa.concat_tables([request.uncommitted for request in requests])
        return self._place(uncommitted if are_all_accepted else uncommitted.take(pa.array(accepted)), newest)

    def _place(self, uncommitted: pa.Table, newest: Snapshot) -> PlacedRecords:
        records, frontier = assign_offsets(uncommitted, newest.next_offset, newest.frontier, self.lateness)
        return PlacedRecords(records, frontier, describe_segment("", 0, records))

    def _append_commit(self, newest: Snapshot, placed: PlacedRecords) -> Commit:
        """The commit that appends these records to the newest version; a large batch is first written to a segment."""
        records, frontier, file = placed
        body = _inline(records)
        if body is not None:
            named = file._replace(name=commit_name(newest.version + 1), size=len(body))
            return Commit(frontier, newest.notifications_end, add=(named,), records=body)
        name = new_name("segments", newest.next_offset, newest.version + 1)
        size = write_rows(self.store, name, RECORDS, [pa.Table.from_batches(record_batches(records), RECORDS)])
        return Commit(frontier, newest.notifications_end, add=(file._replace(name=name, size=size),))

    def _offset_of(self, after: Snapshot | None, rows: int) -> int:
        assert after is not None, "control records are always accepted"
        return after.next_offset - rows


def _inline(records: CommittedRecords) -> bytes | memoryview | None:
    """The bytes of records that are small enough to be inline in their commit; None for others."""
    if isinstance(records, pa.Table):
        if records.num_rows > INLINE_ROWS or records.nbytes > INLINE_BYTES:
            return None
        (batch,) = records.combine_chunks().to_batches()
        body: bytes | memoryview = memoryview(batch.serialize())
    else:
        body = inline_rows(records)
    return body if len(body) <= INLINE_BYTES else None


def _new_indexes(event_ids: EventIds, ids: list[str], hashes: IdHashes, newest: Snapshot) -> Indexes:
    """The indexes of the ids that the log does not hold, each id once."""
    are_distinct = len(set(ids)) == len(ids)
    if are_distinct and len(ids) <= SMALL_BATCH and event_ids.holds_none(ids, hashes):
        return range(len(ids))
    is_new = ~event_ids.existing(ids, hashes, newest)
    return np.flatnonzero(is_new if are_distinct else is_new & first_of_each(ids))


def first_of_each(ids: list[str]) -> npt.NDArray[np.bool_]:
    """Whether each id occurs in the list for the first time.

    >>> first_of_each(["a", "b", "a"]).tolist()
    [True, True, False]
    """
    is_first = np.zeros(len(ids), np.bool_)
    first: dict[str, int] = {}
    for index, id_ in enumerate(ids):
        is_first[first.setdefault(id_, index)] = True
    return is_first


def _receipts(requests: Sequence[AppendRequest], accepted: Indexes, placed: PlacedRecords | None) -> list[Receipt]:
    """The receipt of each request; the records are the accepted events of all requests, in order."""
    if len(requests) == 1:
        first, late = (placed.file.first, placed.file.late) if placed else (0, 0)
        return [_receipt(requests[0], accepted, first, late)]
    indexes = np.asarray(accepted, np.int64)
    batches = record_batches(placed.records) if placed else []
    late_flags = [flag for batch in batches for flag in batch.column("late").to_pylist()]
    receipts, first_index, begin = [], 0, 0
    for request in requests:
        end = int(np.searchsorted(indexes, first_index + len(request.ids)))
        first = placed.file.first + begin if placed else 0
        receipts.append(_receipt(request, indexes[begin:end] - first_index, first, sum(late_flags[begin:end])))
        first_index, begin = first_index + len(request.ids), end
    return receipts


def _receipt(request: AppendRequest, accepted: Indexes, first: int, late: int) -> Receipt:
    are_all_accepted = len(accepted) == len(request.ids)
    duplicates = () if are_all_accepted else np.setdiff1d(range(len(request.ids)), accepted)
    listed = tuple(request.ids[index] for index in duplicates[:MAX_LISTED_DUPLICATES])
    if not len(accepted):
        return Receipt(None, None, 0, len(duplicates), 0, listed)
    return Receipt(first, first + len(accepted) - 1, len(accepted), len(duplicates), late, listed)


def _create(store: Store, create: bool, lateness: int | Lateness | None) -> bytes:
    if not create:
        raise LakeError(f"{store.root} is not a lake", advice="Check the path, or create one by publishing into it.")
    if unknown := [path.name for path in store.root.glob("[!.]*") if path.name not in FOLDERS]:
        raise LakeError(
            f"{store.root} is not a lake: it holds {sorted(unknown)[0]!r}", advice="Use an empty or new directory."
        )
    chosen = DEFAULT_LATENESS if isinstance(lateness, Lateness) else lateness
    if chosen is not None and not 0 <= chosen <= END_OF_TIME - START_OF_TIME:
        raise UsageError(f"{chosen} is no lateness", advice="Give a number of microseconds from 0 up, or none.")
    store.make_root()
    settings = json.dumps({"format": FORMAT, "lateness": chosen}).encode()
    store.put_if_absent(SETTINGS, settings)
    return store.find(SETTINGS) or settings  # another process may have created it in between


def _stored_lateness(store: Store, settings: bytes) -> int | None:
    path = store.path(SETTINGS)
    try:
        fields = json.loads(settings)
        version, lateness = int(fields["format"]), fields["lateness"]
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptLakeError(f"{path} is damaged: {error}", advice="Restore it from a backup.") from error
    if version > FORMAT:
        raise LakeError(f"{path} has format {version}, newer than {FORMAT}", advice="Install a newer Motet.")
    return None if lateness is None else int(lateness)


def _lateness_text(lateness: int | Lateness | None) -> str:
    return format_duration(lateness) if isinstance(lateness, int) else "no limit"


def _now(now: int | None) -> int:
    return time.time_ns() // 1000 if now is None else now
