"""The state of a processor in Spark's state store: a base and deltas, so that a batch writes only what it changed.

A process also caches its processors. A processor is removed from the cache while it is used: if its batch fails, the
next one reads the stored state.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import astuple, dataclass

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from motet.engine.runtime.processor import Processor
from motet.engine.state.snapshot import StateSnapshot, apply_deltas, make_delta

STATE_HEADER = "reached long, base long, deltas long, changed long, mark string"  # stored names
MAX_DELTAS = 24  # of one base
MAX_CACHED = 4096  # processors in one process


@dataclass(frozen=True)
class StateHeader:
    """The progress of a processor whose state is stored, in the order of STATE_HEADER."""

    processed_to: int = 0  # the offset below which all records are processed
    base_bytes: int = 0  # 0: there is no state yet
    deltas: int = 0  # the number of deltas after the base
    delta_bytes: int = 0
    mark: str = ""  # what the owner of the state compares


@dataclass
class CachedProcessor:
    """A processor of this process, with the header and the snapshot of its stored state."""

    header: StateHeader
    processor: Processor
    snapshot: StateSnapshot


class StateStore:
    """The stored state of the current key."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._header = handle.getValueState("place", STATE_HEADER)
        self._base = handle.getValueState("base", "data binary")
        self._deltas = handle.getListState("deltas", "data binary")

    def header(self) -> StateHeader:
        return StateHeader(*(self._header.get() or ()))

    def read_snapshot(self, header: StateHeader) -> StateSnapshot:
        """The stored snapshot; there must be a base."""
        (base,) = self._base.get() or (b"",)
        return apply_deltas(base, [data for (data,) in self._deltas.get()] if header.deltas else [])

    def persist(self, cached: CachedProcessor, processed_to: int, mark: str) -> CachedProcessor:
        """Write a delta, or a new base when the deltas would become larger than the base or too many."""
        snapshot, stored = cached.processor.snapshot(), cached.header
        delta = make_delta(cached.snapshot, snapshot) if stored.base_bytes else b""
        delta_bytes = stored.delta_bytes + len(delta)
        if not stored.base_bytes or stored.deltas >= MAX_DELTAS or delta_bytes > stored.base_bytes:
            header = StateHeader(processed_to, len(snapshot.data), 0, 0, mark)
            self._base.update((snapshot.data,))
            self._deltas.clear()
        else:
            header = StateHeader(processed_to, stored.base_bytes, stored.deltas + 1, delta_bytes, mark)
            self._deltas.appendValue((delta,))
        self._header.update(astuple(header))
        return CachedProcessor(header, cached.processor, snapshot)


_cache: dict[Hashable, CachedProcessor] = {}


def take_cached(key: Hashable) -> CachedProcessor | None:
    """Remove the processor of a key from the cache of this process; the stored state may be newer."""
    return _cache.pop(key, None)


def cache(key: Hashable, processor: CachedProcessor) -> None:
    """Cache a processor; the oldest entry is evicted when there are too many."""
    _cache[key] = processor
    if len(_cache) > MAX_CACHED:
        del _cache[next(iter(_cache))]
