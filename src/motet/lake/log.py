"""The lake as its users see it: append records durably, read snapshots, keep house.

Everything here is thin: each method is one call into the module that answers its question.
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
from motet.lake.ids import EventIds, Hashes, hash_ids
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
INLINE_ROWS = 4_096  # so that nobody measures or copies a large batch to find out that it is large
FOLDERS = {
    "manifest", "segments", "ids", "notifications", "consumers", "sources", "dead-letter", "tmp", "commit.lock",
}  # fmt: skip


EventInput: TypeAlias = pa.RecordBatch | pa.Table | Sequence[EventRow]
Indexes = Sequence[int] | npt.NDArray[np.int64]


class Lateness(Enum):
    """Ask for no lateness in particular: the lake's own, or the default for a new lake."""

    AS_IS = "as is"


class Receipt(NamedTuple):
    """What became of a batch of events."""

    first: int | None  # offset of the first one accepted; None when there was none
    last: int | None
    accepted: int
    duplicates: int
    late: int
    duplicate_ids: tuple[str, ...] = ()  # the first few


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
    """What became of some offers, and the records they are now: none when all events were known."""

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
        self._cursor_file = progress.CursorFile(store)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        create: bool = True,
        lateness: int | Literal[Lateness.AS_IS] | None = Lateness.AS_IS,
        durable: bool = True,
    ) -> Lake:
        """Open the lake in a directory, making it when there is none; lateness is in microseconds.

        When not ``durable``, appending does not wait for the disk: what was acknowledged survives the death of the
        process, but perhaps not that of the machine.
        """
        store = Store(Path(path), durable)
        settings = store.find(SETTINGS)
        if settings is None:
            settings = _create(store, create, lateness)
        kept = _stored_lateness(store, settings)
        if lateness not in (Lateness.AS_IS, kept):
            raise UsageError(
                f"{store.root} allows a lateness of {_lateness_text(kept)}, not {_lateness_text(lateness)}",
                advice="Lateness is fixed when a lake is made: leave it out, or use another directory.",
            )
        return cls(store, kept)

    def append(self, events: EventInput, *, now: int) -> Receipt:
        """Append events, all or none; durable when it returns. IRIs the log already holds are left out.

        ``now``, in microseconds, becomes the time of events that have none.
        """
        return self.append_group([AppendRequest(events, now)]).receipts[0]

    def append_group(self, requests: Sequence[AppendRequest]) -> CommitResult:
        """Append the events of several requests in one commit; each gets a receipt as if it had come alone."""
        ids = requests[0].ids if len(requests) == 1 else [id_ for offer in requests for id_ in offer.ids]
        hashes = hash_ids(ids)
        fresh: Indexes = ()
        placed: PlacedRecords | None = None

        def propose(newest: Snapshot) -> Commit | None:
            nonlocal fresh, placed
            fresh = _new_indexes(self._current_ids(newest), ids, hashes, newest)
            placed = self._place_requests(requests, fresh, newest) if len(fresh) else None
            return self._append_commit(newest, placed) if placed else None

        with self._manifest.writing:  # no other thread may follow the log between the commit and the note of it
            hopeful = all(offer.small is not None for offer in requests)
            after = self._manifest.commit(propose, optimistic=hopeful) if ids else None
            if after is not None and self._ids is not None:
                whole = len(fresh) == len(ids)
                new, codes = (ids, hashes) if whole else ([ids[place] for place in fresh], hashes[np.asarray(fresh)])
                self._ids.add(new, codes, after.segments[-1].first)
        return CommitResult(_receipts(requests, fresh, placed), placed.records if placed else [], after)

    def append_controls(self, records: Sequence[ControlRecord]) -> int:
        """Append control records, at least one, in one commit; returns the offset of the first."""
        draft = uncommitted_controls(records)
        after = self._manifest.commit(lambda newest: self._append_commit(newest, self._place(draft, newest)))
        return self._offset_of(after, draft.num_rows)

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
        """Hide an event from queries and later subscriptions. Its IRI stays taken."""
        draft = uncommitted_controls([Retraction(event_id)])

        def propose(newest: Snapshot) -> Commit:
            if not self._current_ids(newest).existing([event_id], hash_ids([event_id]), newest).any():
                raise UsageError(f"no event <{event_id}> is in {self.store.root}", advice="Check the event's IRI.")
            return self._append_commit(newest, self._place(draft, newest))

        return self._offset_of(self._manifest.commit(propose), 1)

    def snapshot(self) -> Snapshot:
        """The newest version; cheap when nothing has changed."""
        return self._manifest.snapshot()

    def cached_snapshot(self) -> Snapshot:
        """The newest version this process has heard of, without looking for newer ones."""
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
        """Commit the notifications of the records ``[first, stop)``; False when another has done that range."""
        written = [self.write_notifications(batch)] if batch.num_rows else []
        return self.commit_notification_files(written, first, stop)

    def write_notifications(self, batch: pa.RecordBatch | pa.Table) -> DataFile:
        """Write notifications, at least one, for a later `commit_notification_files`; any process may do it."""
        return notifications.write_table(self.store, batch, self.snapshot().version)

    def commit_notification_files(self, files: Sequence[DataFile], first: int, stop: int) -> bool:
        """Commit files of notifications as those of the records ``[first, stop)``; False as above."""
        return notifications.commit_tables(self.store, self._manifest, files, first, stop)

    def notifications(self, first_offset: int = 0) -> Iterator[pa.RecordBatch]:
        """The notifications made final at this offset or later."""
        return self.snapshot().notifications(first_offset)

    def cursor(self, consumer: str) -> int:
        """The offset up to which the consumer has everything."""
        return progress.read_cursor(self.store, consumer)

    def put_state(self, offset: int, data: bytes) -> None:
        """Keep what an engine remembers that has read all records below an offset."""
        write_state(self.store, offset, data)

    def state_snapshots(self, stop: int) -> Iterator[tuple[int, bytes]]:
        """What engines remembered at or below an offset, the newest first."""
        return read_states(self.store, stop)

    def cursors(self, names: Iterable[str]) -> dict[str, int]:
        """The cursors of several consumers."""
        return progress.read_cursors(self.store, names)

    def advance_cursor(self, consumer: str, offset: int) -> None:
        """Remember that the consumer has everything below this offset."""
        progress.advance_cursor(self.store, consumer, offset)

    def advance_cursors(self, offsets: Mapping[str, int]) -> None:
        """Remember as much about several consumers, in one write; a cursor that is farther stays."""
        self._cursor_file.advance(offsets)

    def statistics(self) -> dict[str, object]:
        """Counts and extents, for people."""
        return {"lateness": self.lateness, **self.snapshot().statistics()}

    def check(self) -> list[str]:
        """Read everything, and say what contradicts what; empty when the lake is sound."""
        return maintenance.find_problems(self.snapshot(), self.lateness)

    def _current_ids(self, newest: Snapshot) -> EventIds:
        known, self._ids = self._ids, None  # one that fails halfway is of no use any more
        known = EventIds(newest) if known is None else known
        known.follow(newest)
        self._ids = known
        return known

    def _place_requests(self, offers: Sequence[AppendRequest], fresh: Indexes, newest: Snapshot) -> PlacedRecords:
        whole = len(fresh) == sum(len(offer.ids) for offer in offers)
        if len(offers) == 1 and offers[0].small is not None and whole:
            return place_small(offers[0].small, newest.next_offset, newest.frontier, self.lateness)
        drafts = pa.concat_tables([offer.uncommitted for offer in offers])
        return self._place(drafts if whole else drafts.take(pa.array(fresh)), newest)

    def _place(self, draft: pa.Table, newest: Snapshot) -> PlacedRecords:
        records, frontier = assign_offsets(draft, newest.next_offset, newest.frontier, self.lateness)
        return PlacedRecords(records, frontier, describe_segment("", 0, records))

    def _append_commit(self, newest: Snapshot, placed: PlacedRecords) -> Commit:
        """The commit that appends these records to the newest version; many are in a durable segment already."""
        records, frontier, described = placed
        body = _inline(records)
        if body is not None:
            named = described._replace(name=commit_name(newest.version + 1), size=len(body))
            return Commit(frontier, newest.notifications_end, add=(named,), records=body)
        name = new_name("segments", newest.next_offset, newest.version + 1)
        size = write_rows(self.store, name, RECORDS, [pa.Table.from_batches(record_batches(records), RECORDS)])
        return Commit(frontier, newest.notifications_end, add=(described._replace(name=name, size=size),))

    def _offset_of(self, after: Snapshot | None, rows: int) -> int:
        assert after is not None, "a control record is always proposed"
        return after.next_offset - rows


def _inline(records: CommittedRecords) -> bytes | memoryview | None:
    """The bytes of records that are few enough to stand in their commit."""
    if isinstance(records, pa.Table):
        if records.num_rows > INLINE_ROWS or records.nbytes > INLINE_BYTES:
            return None
        (batch,) = records.combine_chunks().to_batches()
        body: bytes | memoryview = memoryview(batch.serialize())
    else:
        body = inline_rows(records)
    return body if len(body) <= INLINE_BYTES else None


def _new_indexes(known: EventIds, ids: list[str], hashes: Hashes, newest: Snapshot) -> Indexes:
    """The places of the ids that neither the log holds nor stand earlier in the list."""
    distinct = len(set(ids)) == len(ids)
    if distinct and len(ids) <= SMALL_BATCH and known.holds_none(ids, hashes):
        return range(len(ids))
    fresh = ~known.existing(ids, hashes, newest)
    return np.flatnonzero(fresh if distinct else fresh & first_of_each(ids))


def first_of_each(ids: list[str]) -> npt.NDArray[np.bool_]:
    """Which ids did not stand earlier in the list.

    >>> first_of_each(["a", "b", "a"]).tolist()
    [True, True, False]
    """
    found = np.zeros(len(ids), np.bool_)
    first: dict[str, int] = {}
    for position, id_ in enumerate(ids):
        found[first.setdefault(id_, position)] = True
    return found


def _receipts(offers: Sequence[AppendRequest], fresh: Indexes, placed: PlacedRecords | None) -> list[Receipt]:
    """What became of each offer; the records are the fresh events of all of them, in order."""
    if len(offers) == 1:
        first, late = (placed.file.first, placed.file.late) if placed else (0, 0)
        return [_receipt(offers[0], fresh, first, late)]
    places = np.asarray(fresh, np.int64)
    flags = (
        [flag for batch in record_batches(placed.records) for flag in batch.column("late").to_pylist()]
        if placed
        else []
    )
    found, begin, taken = [], 0, 0
    for offer in offers:
        stop = int(np.searchsorted(places, begin + len(offer.ids)))
        first = placed.file.first + taken if placed else 0
        found.append(_receipt(offer, places[taken:stop] - begin, first, sum(flags[taken:stop])))
        begin, taken = begin + len(offer.ids), stop
    return found


def _receipt(offer: AppendRequest, fresh: Indexes, first: int, late: int) -> Receipt:
    whole = len(fresh) == len(offer.ids)
    dropped = [] if whole else [offer.ids[place] for place in np.setdiff1d(range(len(offer.ids)), fresh)]
    shown = tuple(dropped[:MAX_LISTED_DUPLICATES])
    if not len(fresh):
        return Receipt(None, None, 0, len(dropped), 0, shown)
    return Receipt(first, first + len(fresh) - 1, len(fresh), len(dropped), late, shown)


def _create(store: Store, create: bool, lateness: int | Lateness | None) -> bytes:
    if not create:
        raise LakeError(f"{store.root} is not a lake", advice="Check the path, or make one by publishing into it.")
    if strangers := [path.name for path in store.root.glob("[!.]*") if path.name not in FOLDERS]:
        raise LakeError(
            f"{store.root} is not a lake: it holds {sorted(strangers)[0]!r}", advice="Use an empty or new directory."
        )
    chosen = DEFAULT_LATENESS if isinstance(lateness, Lateness) else lateness
    if chosen is not None and not 0 <= chosen <= END_OF_TIME - START_OF_TIME:
        raise UsageError(f"{chosen} is no lateness", advice="Give a number of microseconds from 0 up, or none.")
    store.make_root()
    settings = json.dumps({"format": FORMAT, "lateness": chosen}).encode()
    store.put_if_absent(SETTINGS, settings)
    return store.find(SETTINGS) or settings  # another process may have come first


def _stored_lateness(store: Store, settings: bytes) -> int | None:
    place = store.path(SETTINGS)
    try:
        kept = json.loads(settings)
        version, lateness = int(kept["format"]), kept["lateness"]
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptLakeError(f"{place} is damaged: {error}", advice="Bring it back from a backup.") from error
    if version > FORMAT:
        raise LakeError(f"{place} has format {version}, newer than {FORMAT}", advice="Install a newer Motet.")
    return None if lateness is None else int(lateness)


def _lateness_text(lateness: int | Lateness | None) -> str:
    return format_duration(lateness) if isinstance(lateness, int) else "no limit"


def _now(now: int | None) -> int:
    return time.time_ns() // 1000 if now is None else now
