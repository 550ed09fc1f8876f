"""Which event IRIs the log already holds, exactly, without keeping them in memory.

The lake keeps sorted runs of (64-bit hash of the IRI, offset) as memory-mapped files, each for a range of offsets. A
hash that hits is only a suspicion: the IRI at that offset is read and compared. Runs are derived from the log, so a
lost one is built again, and two processes that write the same one write the same bytes.
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
from motet.model.errors import LakeError

Hashes = npt.NDArray[np.uint64]
Offsets = npt.NDArray[np.int64]

MAGIC = b"motetid1"
_HASH = np.dtype("<u8")
TAIL_IDS = 65_536  # ids kept in memory before they become a run
TAIL_SEGMENTS = 1_024  # segments a newly opened lake may have to read before its first append
NO_HASHES, NO_OFFSETS = np.empty(0, np.uint64), np.empty(0, np.int64)
MAX_MERGED_IDS = 1 << 24  # ids; larger runs are left alone, so that a merge stays below a few seconds


def hash_ids(ids: list[str]) -> Hashes:
    """Stable 64-bit hashes. Publishers choose IRIs, so a hash whose collisions are easy to find would not do."""
    digests = b"".join([blake2b(iri.encode(), digest_size=8).digest() for iri in ids])
    return np.frombuffer(digests, _HASH).astype(np.uint64, copy=False)


@dataclass(frozen=True)
class HashRun:
    """The ids of the events with offsets in ``[first, stop)``, sorted by hash, then by offset."""

    first: int
    stop: int
    hashes: Hashes
    offsets: Offsets

    def may_hold(self, hashes: Hashes) -> bool:
        """Whether one of a few hashes occurs here."""
        places = self.hashes.searchsorted(hashes).tolist()
        found = [self.hashes.item(place) for place in places if place < len(self.hashes)]
        return not set(found).isdisjoint(hashes.tolist())

    def possible_duplicates(self, hashes: Hashes) -> tuple[npt.NDArray[np.intp], Offsets]:
        """For each hash that occurs here: its position in ``hashes``, and an offset; one pair per entry."""
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
    """The newest ids, not yet in a run: few enough to be kept as they are."""

    first: int = 0
    stop: int = 0
    segments: int = 0
    ids: set[str] = field(default_factory=set)
    hashes: list[Hashes] = field(default_factory=list)
    offsets: list[Offsets] = field(default_factory=list)
    count: int = 0


class EventIds:
    """The event IRIs of one lake, as far as this process has followed it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._store = snapshot.store
        self._runs = load_runs(snapshot.store, snapshot.next_offset)
        at = self._runs[-1].stop if self._runs else 0
        self._tail = _Tail(at, at)

    def follow(self, snapshot: Snapshot) -> None:
        """Take in the events that were committed since."""
        if self._tail.stop == snapshot.next_offset:
            return
        for segment in snapshot.overlapping(self._tail.stop, snapshot.next_offset):
            if "event" in segment.kinds:
                self._tail.segments += 1
                self._read(segment)
            self._tail.stop = segment.stop
            self._flush_tail()

    def _read(self, segment: DataFile) -> None:
        for batch in read_rows(self._store, segment.name, self._tail.stop, segment.stop, ["offset", "kind", "id"]):
            events = batch.filter(pc.equal(batch.column("kind"), "event"))
            ids = events.column("id").to_pylist()
            self._add(ids, hash_ids(ids), events.column("offset").to_numpy())
            self._tail.stop = batch.column("offset")[-1].as_py() + 1
            self._flush_tail()

    def add(self, ids: list[str], hashes: Hashes, first: int) -> None:
        """Take in events this process has just committed at offsets from ``first`` on."""
        self._add(ids, hashes, np.arange(first, first + len(ids)))
        self._tail.stop = first + len(ids)
        self._tail.segments += 1
        self._flush_tail()

    def holds_none(self, ids: list[str], hashes: Hashes) -> bool:
        """Whether a few ids are new for certain; ``follow`` must have seen the snapshot they shall follow."""
        return self._tail.ids.isdisjoint(ids) and not any(run.may_hold(hashes) for run in self._runs)

    def existing(self, ids: list[str], hashes: Hashes, snapshot: Snapshot) -> npt.NDArray[np.bool_]:
        """Which of the ids the log holds; ``follow`` must have seen the snapshot."""
        tail = self._tail.ids
        found = np.fromiter((iri in tail for iri in ids), bool, len(ids))
        order = np.argsort(hashes)  # neighbours in a run are then asked for together
        for run in self._runs:
            suspects, offsets = run.possible_duplicates(hashes[order])
            if not len(offsets):
                continue
            by_offset = np.argsort(offsets)
            suspects = order[suspects][by_offset]
            held = snapshot.ids_at(offsets[by_offset])
            asked = pa.array([ids[suspect] for suspect in suspects], pa.string())
            found[suspects[pc.equal(held, asked).to_numpy(zero_copy_only=False)]] = True
        return found

    def _add(self, ids: list[str], hashes: Hashes, offsets: Offsets) -> None:
        if len(ids) < TAIL_IDS:
            self._tail.ids.update(ids)  # a larger batch becomes a run at once, so its set would be thrown away
        self._tail.count += len(hashes)
        self._tail.hashes.append(hashes)
        self._tail.offsets.append(offsets)

    def _flush_tail(self) -> None:
        """Turn a tail that has grown into a run, merged with the earlier runs that are not much larger."""
        tail = self._tail
        if tail.count < TAIL_IDS and tail.segments < TAIL_SEGMENTS:
            return
        merged = _sorted_run(tail.first, tail.stop, [NO_HASHES, *tail.hashes], [NO_OFFSETS, *tail.offsets])
        old = []
        while self._runs and len(self._runs[-1].hashes) <= min(2 * len(merged.hashes), MAX_MERGED_IDS):
            old.append(self._runs.pop())
            merged = _merge(old[-1], merged)
        self._runs.append(merged)
        self._tail = _Tail(tail.stop, tail.stop)
        with suppress(LakeError):  # derived: without the file, the next process reads the segments instead
            self._store.put(run_name(merged.first, merged.stop), _to_bytes(merged))
            self._runs[-1] = _load(self._store, merged.first, merged.stop) or merged  # mapped, not held
            for run in old:
                self._store.delete(run_name(run.first, run.stop))


def run_name(first: int, stop: int) -> str:
    return f"ids/{first:020}-{stop:020}.run"


def load_runs(store: Store, next_offset: int) -> list[HashRun]:
    """Runs on disk that follow one another from offset 0, the longest first where there is a choice."""
    runs: list[HashRun] = []
    spans = [span for name in store.names("ids") if (span := _span(name))]
    for first, stop in sorted(spans, key=lambda span: (span[0], -span[1])):
        if first == (runs[-1].stop if runs else 0) and stop <= next_offset:
            run = _load(store, first, stop)
            if run is not None:
                runs.append(run)
    return runs


def _span(name: str) -> tuple[int, int] | None:
    first, _, stop = name.removeprefix("ids/").removesuffix(".run").partition("-")
    return (int(first), int(stop)) if first.isdigit() and stop.isdigit() else None


def _load(store: Store, first: int, stop: int) -> HashRun | None:
    """The run of this name, or None when it has just been merged into another or is damaged."""
    try:
        words = np.memmap(store.path(run_name(first, stop)), dtype="<u8", mode="r")
    except (OSError, ValueError):
        return None
    if len(words) < 2 or words[:1].tobytes() != MAGIC or len(words) != 2 + 2 * int(words[1]):
        return None
    count = int(words[1])
    plain = np.asarray(words)  # still mapped; its slices cost less than those of a memmap
    return HashRun(first, stop, plain[2 : 2 + count], plain[2 + count :].view("<i8"))


def _to_bytes(run: HashRun) -> bytes:
    count = np.array([len(run.hashes)], "<u8")
    return b"".join([MAGIC, count.tobytes(), run.hashes.astype("<u8").tobytes(), run.offsets.astype("<i8").tobytes()])


def _merge(left: HashRun, right: HashRun) -> HashRun:
    return _sorted_run(left.first, right.stop, [left.hashes, right.hashes], [left.offsets, right.offsets])


def _sorted_run(first: int, stop: int, hashes: list[Hashes], offsets: list[Offsets]) -> HashRun:
    together = np.concatenate(hashes)
    order = np.argsort(together, kind="stable")
    return HashRun(first, stop, together[order], np.concatenate(offsets)[order])
