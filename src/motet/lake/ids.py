"""Where a log holds the event of an IRI, exact, without all IRIs in memory.

It is stored as sorted runs of (64-bit hash of the IRI, offset) in memory-mapped files, each for a range of offsets. If
a hash occurs, the IRI at that offset is read and compared. A lost run is rebuilt from the log, and two processes that
write the same run write the same bytes.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from motet.lake.segments import read_rows
from motet.lake.snapshot import DataFile, Snapshot
from motet.lake.store import Store
from motet.model.batches import content_digests
from motet.model.errors import LakeError

IdHashes = npt.NDArray[np.uint64]
OffsetColumn = npt.NDArray[np.int64]

MAGIC = b"motetid1"
_HASH = np.dtype("<u8")
TAIL_IDS = 65_536  # ids in memory before they are written as a run
TAIL_SEGMENTS = 1_024  # segments a newly opened lake may have to read before its first append
SMALL_LOOKUP = 32  # ids that are looked up one by one
NEW = -1  # instead of an offset: the log does not hold the id
NO_HASHES, NO_OFFSETS = np.empty(0, np.uint64), np.empty(0, np.int64)
MAX_MERGED_IDS = 1 << 24  # larger runs are not merged, so that a merge takes at most a few seconds


def hash_ids(ids: list[str]) -> IdHashes:
    """Stable 64-bit hashes. Publishers choose the IRIs, so collisions must be hard to find."""
    digests = b"".join([blake2b(iri.encode(), digest_size=8).digest() for iri in ids])
    return np.frombuffer(digests, _HASH).astype(np.uint64, copy=False)


@dataclass(frozen=True)
class HashRun:
    """The ids of the events with offsets in ``[first, stop)``, sorted by hash, then by offset."""

    first: int
    stop: int
    hashes: IdHashes
    offsets: OffsetColumn

    def may_hold(self, hashes: IdHashes) -> bool:
        """Whether one of a few hashes occurs here."""
        indexes = self.hashes.searchsorted(hashes).tolist()
        neighbours = [self.hashes.item(index) for index in indexes if index < len(self.hashes)]
        return not set(neighbours).isdisjoint(hashes.tolist())

    def possible_duplicates(self, hashes: IdHashes) -> tuple[npt.NDArray[np.intp], OffsetColumn]:
        """Indexes into ``hashes`` of those that occur here, and the offsets of the entries; one pair per entry."""
        low = np.searchsorted(self.hashes, hashes)
        hits = np.flatnonzero(low < len(self.hashes))
        hits = hits[self.hashes[low[hits]] == hashes[hits]]
        if not len(hits):
            return hits, NO_OFFSETS
        counts = np.searchsorted(self.hashes, hashes[hits], side="right") - low[hits]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.repeat(hits, counts), self.offsets[np.repeat(low[hits], counts) + within]


@dataclass
class _Tail:
    """The newest ids, which are not in a run yet."""

    first: int = 0
    stop: int = 0
    segments: int = 0
    ids: dict[str, int] = field(default_factory=dict)  # with their offsets
    hashes: list[IdHashes] = field(default_factory=list)
    offsets: list[OffsetColumn] = field(default_factory=list)
    count: int = 0


class EventIds:
    """The event IRIs of one lake, as far as this process has read it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._runs: list[HashRun] = []
        self._tail = _Tail()
        self._is_read = False  # the runs, and the segments after them

    def digests(self, ids: list[str], hashes: IdHashes, snapshot: Snapshot) -> dict[int, bytes]:
        """The content digests of the events of a snapshot that have one of the ids, by index into these."""
        self._follow(snapshot)
        is_small = len(ids) <= SMALL_LOOKUP and self._tail.ids.keys().isdisjoint(ids)
        if is_small and not any(run.may_hold(hashes) for run in self._runs):
            return {}
        return _stored_digests(self.offsets(ids, hashes, snapshot), snapshot)

    def offsets(self, ids: list[str], hashes: IdHashes, snapshot: Snapshot) -> OffsetColumn:
        """The offset of the event with each of the ids, NEW if the snapshot has none."""
        self._follow(snapshot)
        tail = self._tail.ids
        found = np.fromiter((tail.get(iri, NEW) for iri in ids), np.int64, len(ids))
        order = np.argsort(hashes)  # so that neighbours in a run are looked up together
        for run in self._runs:
            candidates, offsets = run.possible_duplicates(hashes[order])
            if not len(offsets):
                continue
            by_offset = np.argsort(offsets)
            candidates, offsets = order[candidates][by_offset], offsets[by_offset]
            stored = snapshot.rows_at(offsets, ["id"])["id"]
            is_same = pc.equal(stored, pa.array([ids[index] for index in candidates], pa.string())).to_numpy()
            found[candidates[is_same]] = offsets[is_same]
        return found

    def add(self, ids: list[str], hashes: IdHashes, first: int) -> None:
        """Add events that this process has just committed at offsets from ``first`` on."""
        self._add(ids, hashes, np.arange(first, first + len(ids)))
        self._tail.stop = first + len(ids)
        self._tail.segments += 1
        self._flush_tail()

    def _follow(self, snapshot: Snapshot) -> None:
        """Add the events committed since the last call."""
        if self._is_read and self._tail.stop == snapshot.next_offset:
            return
        if not self._is_read:
            self._runs = load_runs(self._store, snapshot.next_offset)
            at = self._runs[-1].stop if self._runs else 0
            self._tail = _Tail(at, at)
        self._is_read = False  # if reading fails halfway, all is read again
        for segment in snapshot.overlapping(self._tail.stop, snapshot.next_offset):
            if "event" in segment.kinds:
                self._tail.segments += 1
                self._read(segment)
            self._tail.stop = segment.stop
            self._flush_tail()
        self._is_read = True

    def _read(self, segment: DataFile) -> None:
        for batch in read_rows(self._store, segment.name, self._tail.stop, segment.stop, ["offset", "kind", "id"]):
            events = batch.filter(pc.equal(batch.column("kind"), "event"))
            ids = events.column("id").to_pylist()
            self._add(ids, hash_ids(ids), events.column("offset").to_numpy())
            self._tail.stop = batch.column("offset")[-1].as_py() + 1
            self._flush_tail()

    def _add(self, ids: list[str], hashes: IdHashes, offsets: OffsetColumn) -> None:
        if len(ids) < TAIL_IDS:
            self._tail.ids.update(zip(ids, offsets.tolist(), strict=True))  # a larger batch becomes a run at once
        self._tail.count += len(hashes)
        self._tail.hashes.append(hashes)
        self._tail.offsets.append(offsets)

    def _flush_tail(self) -> None:
        """Write the tail as a run once it is large, merged with the earlier runs that are not much larger."""
        tail = self._tail
        if tail.count < TAIL_IDS and tail.segments < TAIL_SEGMENTS:
            return
        merged = _sorted_run(tail.first, tail.stop, [NO_HASHES, *tail.hashes], [NO_OFFSETS, *tail.offsets])
        merged_runs = []
        while self._runs and len(self._runs[-1].hashes) <= min(2 * len(merged.hashes), MAX_MERGED_IDS):
            merged_runs.append(self._runs.pop())
            merged = _merge(merged_runs[-1], merged)
        self._runs.append(merged)
        self._tail = _Tail(tail.stop, tail.stop)
        with suppress(LakeError):  # without the file, the next process reads the segments instead
            self._store.put(run_name(merged.first, merged.stop), _to_bytes(merged))
            self._runs[-1] = _load(self._store, merged.first, merged.stop) or merged  # memory-mapped
            for run in merged_runs:
                self._store.delete(run_name(run.first, run.stop))


def _stored_digests(offsets: OffsetColumn, snapshot: Snapshot) -> dict[int, bytes]:
    """The content digests of the events at these offsets, by index; not of those that are NEW.

    Events of format 1 have no digest; it is computed from their triples.
    """
    indexes = np.flatnonzero(offsets != NEW)
    distinct, positions = np.unique(offsets[indexes], return_inverse=True)
    digests = snapshot.rows_at(distinct, ["digest"])["digest"].to_pylist()
    missing = np.array([row for row, digest in enumerate(digests) if digest is None], np.int64)
    if len(missing):
        computed = content_digests(snapshot.rows_at(distinct[missing], ["triples"]))
        for row, digest in zip(missing.tolist(), computed, strict=True):
            digests[row] = digest
    return {index: digests[position] for index, position in zip(indexes.tolist(), positions.tolist(), strict=True)}


def run_name(first: int, stop: int) -> str:
    return f"ids/{first:020}-{stop:020}.run"


def load_runs(store: Store, next_offset: int) -> list[HashRun]:
    """Runs on disk that cover the offsets from 0 on without gaps; of several with the same start the longest."""
    runs: list[HashRun] = []
    ranges = [offsets for name in store.names("ids") if (offsets := _offset_range(name))]
    for first, stop in sorted(ranges, key=lambda offsets: (offsets[0], -offsets[1])):
        if first == (runs[-1].stop if runs else 0) and stop <= next_offset:
            run = _load(store, first, stop)
            if run is not None:
                runs.append(run)
    return runs


def _offset_range(name: str) -> tuple[int, int] | None:
    first, _, stop = name.removeprefix("ids/").removesuffix(".run").partition("-")
    return (int(first), int(stop)) if first.isdigit() and stop.isdigit() else None


def _load(store: Store, first: int, stop: int) -> HashRun | None:
    """The run of an offset range; None if it has been merged into another one or is damaged."""
    try:
        content = np.memmap(store.path(run_name(first, stop)), dtype="<u8", mode="r")
    except (OSError, ValueError):
        return None
    if len(content) < 2 or content[:1].tobytes() != MAGIC or len(content) != 2 + 2 * int(content[1]):
        return None
    count = int(content[1])
    values = np.asarray(content)  # still memory-mapped; its slices cost less than those of a memmap
    return HashRun(first, stop, values[2 : 2 + count], values[2 + count :].view("<i8"))


def _to_bytes(run: HashRun) -> bytes:
    count = np.array([len(run.hashes)], "<u8")
    return b"".join([MAGIC, count.tobytes(), run.hashes.astype("<u8").tobytes(), run.offsets.astype("<i8").tobytes()])


def _merge(left: HashRun, right: HashRun) -> HashRun:
    return _sorted_run(left.first, right.stop, [left.hashes, right.hashes], [left.offsets, right.offsets])


def _sorted_run(first: int, stop: int, hashes: list[IdHashes], offsets: list[OffsetColumn]) -> HashRun:
    unsorted = np.concatenate(hashes)
    order = np.argsort(unsorted, kind="stable")
    return HashRun(first, stop, unsorted[order], np.concatenate(offsets)[order])
