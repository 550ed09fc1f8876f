"""The lake as its users see it: append records durably, read snapshots, keep house.

Everything here is thin: each method is one call into the module that answers its question.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final, Literal

import numpy as np
import pyarrow as pa

from motet.lake import checks, compaction, consumers, notifications
from motet.lake.compaction import TARGET_BYTES, TARGET_ROWS, Compacted
from motet.lake.ids import Ids, hash_ids
from motet.lake.manifest import Commit, Manifest
from motet.lake.records import Triples, draft_control, draft_events, place
from motet.lake.segments import new_name, write_rows
from motet.lake.snapshot import DataFile, Snapshot, describe
from motet.lake.store import Store
from motet.model.errors import CorruptLakeError, LakeError, UsageError
from motet.model.schemas import RECORDS
from motet.model.times import END_OF_TIME, START_OF_TIME, format_duration

FORMAT = 1
SETTINGS = "lake.json"
UNLIMITED: Final = None
DEFAULT_LATENESS = 60_000_000
GRACE = 3_600_000_000  # how long a snapshot may be read after a compaction has replaced its files
SHOWN_DUPLICATES = 10
FOLDERS = {"manifest", "segments", "ids", "notifications", "consumers", "dead-letter", "tmp", "commit.lock"}


class Lateness(Enum):
    """Ask for no lateness in particular: the lake's own, or the default for a new lake."""

    AS_IS = "as is"


@dataclass(frozen=True)
class Appended:
    """What became of a batch of events."""

    first: int | None  # offset of the first one accepted; None when there was none
    last: int | None
    accepted: int
    duplicates: int
    late: int
    duplicate_ids: tuple[str, ...] = ()  # the first few


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
        self._ids: Ids | None = None

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        create: bool = True,
        lateness: int | Literal[Lateness.AS_IS] | None = Lateness.AS_IS,
    ) -> Lake:
        """Open the lake in a directory, making it when there is none; lateness is in microseconds."""
        store = Store(Path(path))
        settings = store.find(SETTINGS)
        if settings is None:
            settings = _create(store, create, lateness)
        kept = _kept_lateness(store, settings)
        if lateness not in (Lateness.AS_IS, kept):
            raise UsageError(
                f"{store.root} allows a lateness of {_spoken(kept)}, not {_spoken(lateness)}",
                advice="Lateness is fixed when a lake is made: leave it out, or use another directory.",
            )
        return cls(store, kept)

    def append(self, events: pa.RecordBatch | pa.Table, *, now: int) -> Appended:
        """Append events, all or none; durable when it returns. IRIs the log already holds are left out.

        ``now``, in microseconds, becomes the time of events that have none.
        """
        offered = draft_events(events, now)
        unique, repeated = _first_of_each(offered)
        ids = unique["id"].to_pylist()
        hashes = hash_ids(ids)
        fresh = np.empty(0, np.bool_)

        def propose(newest: Snapshot) -> Commit | None:
            nonlocal fresh
            fresh = ~self._following(newest).known(ids, hashes, newest)
            if not fresh.any():
                return None
            return self._placing(newest, unique if fresh.all() else unique.filter(pa.array(fresh)))

        with self._manifest.writing:  # no other thread may follow the log between the commit and the note of it
            after = self._manifest.commit(propose) if ids else None
            if after is not None and self._ids is not None:
                new = np.flatnonzero(fresh)
                self._ids.note([ids[position] for position in new], hashes[new], after.segments[-1].first)
        dropped = repeated + [ids[position] for position in np.flatnonzero(~fresh)]
        shown = tuple(dropped[:SHOWN_DUPLICATES])
        if after is None:
            return Appended(None, None, 0, len(dropped), 0, shown)
        added = after.segments[-1]
        return Appended(added.first, added.stop - 1, added.rows, len(dropped), added.late, shown)

    def append_control(
        self,
        kind: str,
        *,
        id: str | None = None,  # noqa: A002 the column's name
        text: str | None = None,
        end: int | None = None,
        triples: Triples = (),
    ) -> int:
        """Append one record that is not an event; returns its offset."""
        return self._append_drafts([draft_control(kind, id=id, text=text, end=end, triples=triples)])

    def tick(self, instant: int) -> int:
        """Promise that no event which ends before this instant will come any more."""
        return self.append_control("tick", end=instant)

    def subscribe(self, name: str, text: str) -> int:
        return self.append_control("subscribe", id=name, text=text)

    def unsubscribe(self, name: str) -> int:
        return self.append_control("unsubscribe", id=name)

    def background(self, added: Triples = (), removed: Triples = ()) -> int:
        """Change the background graph: a record with the text "remove", then one with "add", in one commit."""
        parts = {"remove": list(removed), "add": list(added)}
        drafts = [draft_control("background", text=text, triples=part) for text, part in parts.items() if part]
        if not drafts:
            raise UsageError("a change of the background graph without a triple", advice="Add or remove something.")
        return self._append_drafts(drafts)

    def retract(self, event_id: str) -> int:
        """Hide an event from queries and later subscriptions. Its IRI stays taken."""
        draft = draft_control("retract", id=event_id)

        def propose(newest: Snapshot) -> Commit:
            if not self._following(newest).known([event_id], hash_ids([event_id]), newest).any():
                raise UsageError(f"no event <{event_id}> is in {self.store.root}", advice="Check the event's IRI.")
            return self._placing(newest, draft)

        return self._offset_of(self._manifest.commit(propose), 1)

    def snapshot(self) -> Snapshot:
        """The newest version; cheap when nothing has changed."""
        return self._manifest.snapshot()

    def compact(
        self, *, target_rows: int = TARGET_ROWS, target_bytes: int = TARGET_BYTES, now: int | None = None
    ) -> Compacted:
        """Merge small neighbouring files, up to these sizes."""
        return compaction.compact(self.store, self._manifest, target_rows, target_bytes, _wall(now))

    def vacuum(self, older_than: int = GRACE, *, now: int | None = None) -> list[str]:
        """Delete files that have been replaced or orphaned for ``older_than`` microseconds; returns their names."""
        return compaction.vacuum(self.store, self._manifest, older_than, _wall(now))

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
        return consumers.read_cursor(self.store, consumer)

    def advance(self, consumer: str, offset: int) -> None:
        """Remember that the consumer has everything below this offset."""
        consumers.advance_cursor(self.store, consumer, offset)

    def statistics(self) -> dict[str, object]:
        """Counts and extents, for people."""
        return {"lateness": self.lateness, **self.snapshot().statistics()}

    def check(self) -> list[str]:
        """Read everything, and say what contradicts what; empty when the lake is sound."""
        return checks.problems(self.snapshot(), self.lateness)

    def _following(self, newest: Snapshot) -> Ids:
        if self._ids is None:
            self._ids = Ids(newest)
        self._ids.follow(newest)
        return self._ids

    def _placing(self, newest: Snapshot, draft: pa.Table) -> Commit:
        """The commit that appends these records to the newest version, its segment already durable."""
        records, frontier = place(draft, newest.next_offset, newest.frontier, self.lateness)
        name = new_name("segments", newest.next_offset, newest.version + 1)
        size = write_rows(self.store, name, RECORDS, [records])
        return Commit(frontier, newest.notified_to, add=(describe(name, size, records),))

    def _append_drafts(self, drafts: list[pa.Table]) -> int:
        draft = pa.concat_tables(drafts)
        return self._offset_of(self._manifest.commit(lambda newest: self._placing(newest, draft)), draft.num_rows)

    def _offset_of(self, after: Snapshot | None, rows: int) -> int:
        assert after is not None, "a control record is always proposed"
        return after.next_offset - rows


def _first_of_each(offered: pa.Table) -> tuple[pa.Table, list[str]]:
    """The rows without those whose id stood earlier in the batch, and the ids of these."""
    codes = offered["id"].combine_chunks().dictionary_encode().indices.to_numpy()
    _, first = np.unique(codes, return_index=True)
    if len(first) == len(codes):
        return offered, []
    keep = np.zeros(len(codes), np.bool_)
    keep[first] = True
    return offered.filter(pa.array(keep)), offered["id"].filter(pa.array(~keep)).to_pylist()


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


def _kept_lateness(store: Store, settings: bytes) -> int | None:
    place = store.path(SETTINGS)
    try:
        kept = json.loads(settings)
        version, lateness = int(kept["format"]), kept["lateness"]
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptLakeError(f"{place} is damaged: {error}", advice="Bring it back from a backup.") from error
    if version > FORMAT:
        raise LakeError(f"{place} has format {version}, newer than {FORMAT}", advice="Install a newer Motet.")
    return None if lateness is None else int(lateness)


def _spoken(lateness: int | Lateness | None) -> str:
    return format_duration(lateness) if isinstance(lateness, int) else "no limit"


def _wall(now: int | None) -> int:
    return time.time_ns() // 1000 if now is None else now
