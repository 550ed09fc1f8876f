"""The lake: append records durably, read snapshots, store notifications and progress, compact and check.

Most methods are one call into the module that does the work.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Unpack
from uuid import uuid4

import pyarrow as pa

from motet.lake import maintenance, notifications, progress
from motet.lake.accept import AppendRequest, EventInput, PlacedRecords, Receipt, accept, place, uncommitted_controls
from motet.lake.ids import NEW, EventIds, hash_ids
from motet.lake.maintenance import TARGET_BYTES, TARGET_ROWS, CompactionResult
from motet.lake.manifest import Clock, Commit, Manifest, commit_name
from motet.lake.progress import read_states, write_state
from motet.lake.segments import store_records
from motet.lake.snapshot import DataFile, Snapshot
from motet.lake.store import Store
from motet.model.batches import Triple
from motet.model.errors import CorruptLakeError, DecodeError, LakeError, UsageError
from motet.model.records import (
    BackgroundChange,
    ControlRecord,
    Retraction,
    SettingsChange,
    Subscribe,
    Tick,
    Unsubscribe,
)
from motet.model.settings import Settings, SettingValues
from motet.model.times import END_OF_TIME, format_datetime, format_duration

if TYPE_CHECKING:
    from motet.lake.zones import ZoneResult

FORMAT = 2
LAKE_FILE = "lake.json"
UNLIMITED: Final = None
GRACE = 3_600_000_000  # how long a snapshot may be read after a compaction has replaced its files
FOLDERS = {
    "manifest", "segments", "ids", "notifications", "consumers", "states", "sources", "dead-letter", "pipeline", "tmp",
    "zones", "inferred", "commit.lock",
}  # fmt: skip


class CommitResult(NamedTuple):
    """For each request of a commit its receipt, or the error that refuses it, and the records: perhaps none."""

    receipts: list[Receipt | DecodeError]
    placed: PlacedRecords | None = None  # None: nothing is committed


def system_clock() -> int:
    """The clock of the machine, in UTC microseconds."""
    return time.time_ns() // 1000


class Lake:
    """An append-only log in a directory. Several processes and threads may use one at once.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lake = Lake.open(folder, lateness=UNLIMITED)
    ...     lake.tick(5), lake.snapshot().next_offset
    (1, 2)
    """

    def __init__(self, manifest: Manifest, store: Store) -> None:
        self.store = store
        self.clock = manifest.clock
        self._manifest = manifest
        self._ids = EventIds(store)
        self.consumers = progress.Consumers(store)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        create: bool = True,
        durable: bool = True,
        clock: Clock = system_clock,
        **settings: Unpack[SettingValues],
    ) -> Lake:
        """Open the lake in a directory; it is created if there is none.

        The settings are those of a new lake; a lake that has others is not opened. Durations are in microseconds, None
        is unlimited or never. ``clock`` returns UTC microseconds. If not ``durable``, appending does not sync the disk:
        acknowledged records survive a crash of the process, but perhaps not one of the machine.
        """
        store = Store(Path(path), durable)
        data = store.find(LAKE_FILE)
        if data is None:
            manifest = _create(store, create, clock, Settings().changed(**settings))
        else:
            manifest = _open(store, clock, lake_fields(store, data)["format"])
        _check_settings(store, manifest.cached_snapshot.settings, settings)
        return cls(manifest, store)

    @property
    def id(self) -> str:
        """The identity of the lake, made when it was created."""
        return str(lake_fields(self.store, self.store.find(LAKE_FILE) or b"")["id"])

    def append(self, events: EventInput, *, partial: bool = False) -> Receipt:
        """Append events in the order of their ends; durable when it returns. Repeated events are left out.

        An event whose IRI the log holds with other content, or that ends too far ahead of the clock, refuses them all;
        if ``partial``, only itself.
        """
        receipt = self.append_group([AppendRequest(events, partial=partial)]).receipts[0]
        if isinstance(receipt, DecodeError):
            raise receipt
        return receipt

    def append_group(self, requests: Sequence[AppendRequest]) -> CommitResult:
        """Append the events of several requests in one commit, with a receipt for each request, or its error."""
        ids = requests[0].ids if len(requests) == 1 else [id_ for request in requests for id_ in request.ids]
        if not ids:
            return CommitResult([Receipt([], 0, 0, 0, 0, (), None, None) for _ in requests])
        is_small = all(request.rows is not None for request in requests)
        with self._manifest.writing:  # no other thread may read the log between the commit and the update of the ids
            # a few events cost little: they are first tried on the cached version, without the lock
            result = self._try_append(requests, ids, self._manifest.cached_snapshot) if is_small else None
            if result is not None:
                return result
            with self.store.lock():
                while (result := self._try_append(requests, ids, self._manifest.snapshot())) is None:
                    pass  # another process has committed meanwhile
                return result

    def _try_append(self, requests: Sequence[AppendRequest], ids: list[str], before: Snapshot) -> CommitResult | None:
        """Append the events of requests in the commit that follows a version; None if another commit follows it."""
        clock = self.clock()
        hashes = hash_ids(ids)
        try:
            existing = self._ids.digests(ids, hashes, before)
            receipts, has_rejected, indexes, placed = accept(requests, existing, before, clock)
            commit = None if placed is None else _append_commit(self.store, before, placed, clock)
        except LakeError:
            if self._manifest.is_newest(before):
                raise
            return None
        if has_rejected and not self._manifest.is_newest(before):
            return None  # other settings may hold by now
        if placed is None or commit is None:
            return CommitResult(receipts)
        if self._manifest.write(before, commit) is None:
            return None
        if not isinstance(indexes, range):
            ids, hashes = [ids[index] for index in indexes], hashes[indexes]
        self._ids.add(ids, hashes, placed.file.first)
        return CommitResult(receipts, PlacedRecords(placed.records, placed.frontier, commit.add[0], placed.delay))

    def append_controls(
        self,
        records: Sequence[ControlRecord],
        *,
        at: int | None = None,
        force: bool = False,
        unregistered_since: int | None = None,
    ) -> int | None:
        """Append control records, at least one, in one commit; returns the offset of the first.

        With ``at``, only if the log ends there; with ``unregistered_since``, only if none of the subscriptions was
        registered at that offset or later. Otherwise nothing is appended and None is returned. A tick may be later than
        the clock and the setting `ahead` allow only with ``force``.
        """
        if any(isinstance(record, SettingsChange) for record in records):
            raise UsageError("settings are not changed by `append_controls`", advice="Call `change_settings`.")
        uncommitted = uncommitted_controls(records)
        ticks = [record.instant for record in records if isinstance(record, Tick)]
        names = {record.name for record in records if isinstance(record, Subscribe)}

        def propose(newest: Snapshot) -> Commit | None:
            clock = self.clock()
            if at is not None and newest.next_offset != at:
                return None
            if unregistered_since is not None and _registers(newest, names, unregistered_since):
                return None
            if ticks and not force:
                _check_tick(max(ticks), clock, newest.settings.ahead)
            return _append_commit(self.store, newest, place(uncommitted, newest, clock), clock)

        after = self._manifest.commit(propose)
        return None if after is None else after.next_offset - uncommitted.num_rows

    def change_settings(self, **values: Unpack[SettingValues]) -> Settings:
        """Change some settings by a control record; returns all of them. They hold for commits after it."""

        def propose(newest: Snapshot) -> Commit | None:
            settings, clock = newest.settings.changed(**values), self.clock()
            if settings.entailment != newest.settings.entailment and newest.count("subscribe"):
                raise UsageError(
                    f"the entailment of {self.store.root} cannot be changed: it has had subscriptions",
                    advice="Set it before the first subscription, or export the events to a new lake.",
                )
            if settings == newest.settings and newest.has_settings:
                return None
            return settings_commit(self.store, newest, settings, clock)

        after = self._manifest.commit(propose)
        return (after or self.snapshot()).settings

    def tick(self, instant: int, *, force: bool = False) -> int:
        """Move the frontier to an instant: events that end before it are late from now on.

        With ``force`` it may be later than the clock and the setting `ahead` allow, up to the end of time.
        """
        return self._append_controls([Tick(instant)], force=force)

    def subscribe(self, name: str, text: str) -> int:
        return self._append_controls([Subscribe(name, text)])

    def subscribe_all(self, texts: Mapping[str, str], *, after: int | None = None) -> int | None:
        """Register subscriptions in one commit, one record for each; returns the offset of the first.

        With ``after``, only if none of the names was registered at that offset or later; otherwise None is returned.
        """

        return self.append_controls([Subscribe(name, text) for name, text in texts.items()], unregistered_since=after)

    def unsubscribe(self, name: str) -> int:
        return self._append_controls([Unsubscribe(name)])

    def background(self, added: Iterable[Triple] = (), removed: Iterable[Triple] = ()) -> int:
        """Change the background graph: a record with the text "remove", then one with "add", in one commit."""
        changes = [BackgroundChange(frozenset(removed), is_removal=True), BackgroundChange(frozenset(added))]
        changes = [change for change in changes if change.triples]
        if not changes:
            raise UsageError("a change of the background graph without a triple", advice="Add or remove something.")
        return self._append_controls(changes)

    def retract(self, event_id: str) -> int:
        """Hide an event from queries and later subscriptions. The log still holds its IRI."""
        uncommitted = uncommitted_controls([Retraction(event_id)])

        def propose(newest: Snapshot) -> Commit:
            clock = self.clock()
            if self._ids.offsets([event_id], hash_ids([event_id]), newest)[0] == NEW:
                raise UsageError(f"no event <{event_id}> is in {self.store.root}", advice="Check the event's IRI.")
            return _append_commit(self.store, newest, place(uncommitted, newest, clock), clock)

        after = self._manifest.commit(propose)
        assert after is not None, "a retraction is always accepted"
        return after.next_offset - 1

    def holds(self, ids: Sequence[str]) -> list[bool]:
        """Whether the log has an event of each of these IRIs, perhaps a late or retracted one."""
        requested = list(ids)
        with self._manifest.writing:
            offsets = self._ids.offsets(requested, hash_ids(requested), self.snapshot())
        return [bool(found) for found in offsets != NEW]

    def snapshot(self) -> Snapshot:
        """The newest version; cheap when nothing has changed."""
        return self._manifest.snapshot()

    def cached_snapshot(self) -> Snapshot:
        """The newest version that this process has read, without a look for newer ones."""
        return self._manifest.cached_snapshot

    def compact(self, *, target_rows: int = TARGET_ROWS, target_bytes: int = TARGET_BYTES) -> CompactionResult:
        """Merge small neighbouring files, up to these sizes."""
        return maintenance.compact(self.store, self._manifest, target_rows, target_bytes)

    def build_zones(
        self,
        *,
        least: int | None = None,
        most: int | None = None,
        most_merged: int = 8_000_000,
        on_rows: Callable[[int], None] = lambda _: None,
    ) -> ZoneResult:
        """Bring new events into zones, which queries read.

        A zone has at least ``least`` triples, 32 000 by default, and is cut above ``most``. Up to ``most_merged``
        triples are in memory at once.
        """
        from motet.lake import zones

        return zones.build_zones(
            self.store, self._manifest, least=least, most=most, most_merged=most_merged, on_rows=on_rows
        )

    def drop_zones(self) -> int:
        """Remove all zones; `build_zones` makes them again from the log. Returns the number of files."""
        from motet.lake import zones

        return zones.drop_zones(self._manifest)

    def vacuum(self, older_than: int = GRACE) -> list[str]:
        """Delete files that have been replaced or orphaned for ``older_than`` microseconds; returns their names."""
        return maintenance.vacuum(self.store, self._manifest, older_than)

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

    def delete_if_empty(self) -> bool:
        """Delete the lake if it has had no record but its first settings; True if it is deleted. Dead letters stay."""
        with self.store.lock():
            if self.snapshot().version > 1:
                return False
            self.store.delete(LAKE_FILE)
            self.store.delete_folders(FOLDERS - {"dead-letter"})
        return True

    def statistics(self) -> dict[str, object]:
        """Counts and extents of the newest version."""
        snapshot = self.snapshot()
        return {**asdict(snapshot.settings), **snapshot.statistics()}

    def check(self) -> list[str]:
        """Read every file and return the contradictions found, as texts; empty for a sound lake."""
        from motet.lake.zones import zone_problems

        snapshot = self.snapshot()
        return [*maintenance.find_problems(snapshot), *zone_problems(snapshot)]

    def _append_controls(self, records: Sequence[ControlRecord], *, force: bool = False) -> int:
        first = self.append_controls(records, force=force)
        assert first is not None, "control records are always accepted"
        return first


def _registers(snapshot: Snapshot, names: Set[str], first: int) -> bool:
    """Whether a subscribe record at an offset or later has one of the names."""
    records = snapshot.control_records(Subscribe, first=first)
    return any(isinstance(record, Subscribe) and record.name in names for record in records)


def _append_commit(store: Store, newest: Snapshot, placed: PlacedRecords, clock: int) -> Commit:
    """The commit that appends these records to the newest version; a large batch is first written to a segment."""
    version = newest.version + 1
    name, size, inline = store_records(store, placed.records, placed.file.first, version)
    file = placed.file._replace(name=name or commit_name(version), size=size)
    delay = newest.delay if placed.delay is None else placed.delay
    return Commit(clock, placed.frontier, delay, newest.notifications_end, add=(file,), records=inline)


def settings_commit(store: Store, newest: Snapshot, settings: Settings, clock: int) -> Commit:
    """The commit of a settings record."""
    placed = place(uncommitted_controls([SettingsChange(settings)]), newest, clock)
    return _append_commit(store, newest, placed, clock)._replace(settings=settings)


def _check_tick(instant: int, clock: int, ahead: int | None) -> None:
    if ahead is None or instant <= clock + ahead:
        return
    advice = "Give an earlier instant, or change the setting with `motet settings --lake DIR --ahead unlimited`."
    if instant == END_OF_TIME:
        advice = "A tick at the end of time makes every later event late: it needs --force, in Python force=True."
    raise UsageError(
        f"a tick at {format_datetime(instant)} is more than {format_duration(ahead)} ahead of the clock", advice=advice
    )


# The file of a lake, which makes a directory one. It is written after the first commit, so every lake has settings.


def _create(store: Store, create: bool, clock: Clock, settings: Settings) -> Manifest:
    if not create:
        raise LakeError(f"{store.root} is not a lake", advice="Check the path, or create one by publishing into it.")
    if unknown := [path.name for path in store.root.glob("[!.]*") if path.name not in FOLDERS]:
        raise LakeError(
            f"{store.root} is not a lake: it holds {sorted(unknown)[0]!r}", advice="Use an empty or new directory."
        )
    store.make_root()
    manifest = Manifest(store, clock)
    manifest.commit(lambda newest: None if newest.version else settings_commit(store, newest, settings, clock()))
    if not manifest.cached_snapshot.has_settings:
        raise CorruptLakeError(f"{store.path(LAKE_FILE)} is missing", advice="Restore it from a backup.")
    store.put_if_absent(LAKE_FILE, lake_file())
    return manifest


def is_lake(path: str | Path) -> bool:
    """Whether a directory is a lake."""
    return Path(path, LAKE_FILE).exists()


def lake_file() -> bytes:
    """The content of the file of a lake, with a new identity."""
    return json.dumps({"format": FORMAT, "id": str(uuid4())}).encode()


def lake_fields(store: Store, data: bytes) -> dict[str, Any]:
    try:
        fields = dict(json.loads(data))
        return fields | {"format": int(fields["format"])}
    except (ValueError, KeyError, TypeError) as error:
        path = store.path(LAKE_FILE)
        raise CorruptLakeError(f"{path} is damaged: {error}", advice="Restore it from a backup.") from error


def _open(store: Store, clock: Clock, format_: int) -> Manifest:
    """The manifest of a lake whose file states this format."""
    if format_ > FORMAT:
        path = store.path(LAKE_FILE)
        raise LakeError(f"{path} has format {format_}, newer than {FORMAT}", advice="Install a newer Motet.")
    manifest = Manifest(store, clock)
    if format_ == FORMAT:
        return manifest
    if not manifest.cached_snapshot.has_settings:
        raise LakeError(
            f"{store.root} is a lake of format {format_}, older than {FORMAT}",
            advice=f"Run `motet upgrade --lake {store.root}`: the lake keeps its contents and what they mean.",
        )
    with suppress(LakeError):  # its upgrade was interrupted after the commit; a lake may be opened to be read only
        store.put(LAKE_FILE, lake_file())
    return manifest


def _check_settings(store: Store, current: Settings, requested: SettingValues) -> None:
    name = current.differing(requested)
    if name is None:
        return
    has, wants = (settings.to_text()[name] for settings in (current, current.changed(**requested)))
    option = name.replace("_", "-")
    raise UsageError(
        f"{store.root} has the {option.replace('-', ' ')} {has!r}, not {wants!r}",
        advice=f"Leave it out, or change it: `motet settings --lake {store.root} --{option} …`.",
    )
