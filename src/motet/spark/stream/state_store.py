"""How a kernel is kept as state of a query: a base and the deltas since, so that a batch writes what it changed.

A process also remembers the kernels themselves. One that is taken is no longer remembered: if its batch fails halfway,
whoever comes next reads the state.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import astuple, dataclass

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from motet.engine.runtime.processor import Processor
from motet.engine.state.snapshot import StateSnapshot, apply_deltas, make_delta

PLACE = "reached long, base long, deltas long, changed long, mark string"
DELTAS = 24  # of one base at most
KERNELS = 4096  # in one process at most


@dataclass(frozen=True)
class StateHeader:
    """Where the state of a kernel stands."""

    processed_to: int = 0  # all records below are read
    base_bytes: int = 0  # bytes
    deltas: int = 0  # how many follow the base
    delta_bytes: int = 0  # bytes of all of them
    mark: str = ""  # what else there is to know


@dataclass
class CachedProcessor:
    """A kernel in this process, and what of it is in the state."""

    header: StateHeader
    kernel: Processor
    saved: StateSnapshot


class StateStore:
    """The state that belongs to the key at hand."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._place = handle.getValueState("place", PLACE)
        self._base = handle.getValueState("base", "data binary")
        self._deltas = handle.getListState("deltas", "data binary")

    def header(self) -> StateHeader:
        return StateHeader(*(self._place.get() or ()))

    def saved(self, place: StateHeader) -> StateSnapshot:
        """What a kernel goes on from; there must be a base."""
        (base,) = self._base.get() or (b"",)
        return apply_deltas(base, [data for (data,) in self._deltas.get()] if place.deltas else [])

    def persist(self, running: CachedProcessor, reached: int, mark: str) -> CachedProcessor:
        """Write what has changed; everything, when the changes have become more than what they change."""
        saved, before = running.kernel.snapshot(), running.header
        change = make_delta(running.saved, saved) if before.base_bytes else b""
        if not before.base_bytes or before.deltas >= DELTAS or before.delta_bytes + len(change) > before.base_bytes:
            place = StateHeader(reached, len(saved.data), 0, 0, mark)
            self._base.update((saved.data,))
            self._deltas.clear()
        else:
            place = StateHeader(reached, before.base_bytes, before.deltas + 1, before.delta_bytes + len(change), mark)
            self._deltas.appendValue((change,))
        self._place.update(astuple(place))
        return CachedProcessor(place, running.kernel, saved)


_running: dict[Hashable, CachedProcessor] = {}


def take_cached(key: Hashable) -> CachedProcessor | None:
    """The kernel of a key that this process had last; where it stands, others may be further."""
    return _running.pop(key, None)


def cache(key: Hashable, running: CachedProcessor) -> None:
    """Remember a kernel; the one that was remembered first goes when there are too many."""
    _running[key] = running
    if len(_running) > KERNELS:
        del _running[next(iter(_running))]
