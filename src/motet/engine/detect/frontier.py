"""The frontier along a batch of records: which record was the first to pass an instant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from motet.engine.detect.columns import Ints
from motet.engine.detect.table_kernels import first_passing
from motet.model.times import END_OF_TIME

NO_FRONTIER = np.iinfo(np.int64).min // 4  # before anything has moved the frontier
END_FRONTIER = np.iinfo(np.int64).max // 4  # once the end of time has come


def clamp_frontier(instant: int) -> int:
    """Where the frontier stands: at the end of time it has passed everything."""
    return END_FRONTIER if instant >= END_OF_TIME else instant


@dataclass(frozen=True, slots=True)
class Frontier:
    """Records that moved the frontier, with where it stood once they were there.

    >>> frontier = Frontier.from_records(np.array([3, 4, 7]), np.array([5, 5, 9]), NO_FRONTIER)
    >>> frontier.passing_offsets(np.array([4, 5])), frontier.current
    (array([3, 7]), 9)
    """

    offsets: Ints
    instants: Ints
    previous: int  # where it stood before the batch
    first_offset: int  # the offset of the batch's first record

    @classmethod
    def from_records(cls, offsets: Ints, instants: Ints, before: int) -> Frontier:
        """Of all records of a batch; a frontier at the end of time has passed everything."""
        reached = np.where(instants >= END_OF_TIME, END_FRONTIER, instants)
        reached = np.maximum.accumulate(np.maximum(reached, before)) if len(reached) else reached
        moved = np.flatnonzero(np.diff(reached, prepend=np.int64(before)) > 0)
        return cls(offsets[moved], reached[moved], before, int(offsets[0]) if len(offsets) else 0)

    @property
    def current(self) -> int:
        """Where the frontier stands at the end."""
        return int(self.instants[-1]) if len(self.instants) else self.previous

    def has_passed(self, instants: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = instants < self.current
        return found

    def passing_offsets(self, instants: npt.NDArray[Any]) -> Ints:
        """The offsets of the records that passed these instants, which are passed.

        What was passed before is known with the batch's first record: only that can have shortened a lag.
        """
        return first_passing(self.instants, self.offsets, self.previous, self.first_offset, instants)
