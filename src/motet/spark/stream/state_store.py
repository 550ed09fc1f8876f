"""How a kernel is kept as state of a query: a base and the deltas since, so that a batch writes what it changed.

A process also remembers the kernels themselves. One that is taken is no longer remembered: if its batch fails halfway,
whoever comes next reads the state.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import astuple, dataclass

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from motet.engine.detect.saving import Saved, apply, delta
from motet.engine.kernel import Kernel

PLACE = "reached long, base long, deltas long, changed long, mark string"
DELTAS = 24  # of one base at most
KERNELS = 4096  # in one process at most


@dataclass(frozen=True)
class Place:
    """Where the state of a kernel stands."""

    reached: int = 0  # all records below are read
    base: int = 0  # bytes
    deltas: int = 0  # how many follow the base
    changed: int = 0  # bytes of all of them
    mark: str = ""  # what else there is to know


@dataclass
class Running:
    """A kernel in this process, and what of it is in the state."""

    place: Place
    kernel: Kernel
    saved: Saved


class Keeping:
    """The state that belongs to the key at hand."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._place = handle.getValueState("place", PLACE)
        self._base = handle.getValueState("base", "data binary")
        self._deltas = handle.getListState("deltas", "data binary")

    def place(self) -> Place:
        return Place(*(self._place.get() or ()))

    def saved(self, place: Place) -> Saved:
        """What a kernel goes on from; there must be a base."""
        (base,) = self._base.get() or (b"",)
        return apply(base, [data for (data,) in self._deltas.get()] if place.deltas else [])

    def keep(self, running: Running, reached: int, mark: str) -> Running:
        """Write what has changed; everything, when the changes have become more than what they change."""
        saved, before = running.kernel.saved(), running.place
        change = delta(running.saved, saved) if before.base else b""
        if not before.base or before.deltas >= DELTAS or before.changed + len(change) > before.base:
            place = Place(reached, len(saved.data), 0, 0, mark)
            self._base.update((saved.data,))
            self._deltas.clear()
        else:
            place = Place(reached, before.base, before.deltas + 1, before.changed + len(change), mark)
            self._deltas.appendValue((change,))
        self._place.update(astuple(place))
        return Running(place, running.kernel, saved)


_running: dict[Hashable, Running] = {}


def take(key: Hashable) -> Running | None:
    """The kernel of a key that this process had last; where it stands, others may be further."""
    return _running.pop(key, None)


def put(key: Hashable, running: Running) -> None:
    """Remember a kernel; the one that was remembered first goes when there are too many."""
    _running[key] = running
    if len(_running) > KERNELS:
        del _running[next(iter(_running))]
