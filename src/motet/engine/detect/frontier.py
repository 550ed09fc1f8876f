"""The frontier along a batch of records: which record was the first to move it past an instant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from motet.engine.detect.table_kernels import first_offsets_past
from motet.jit.compiled import Ints
from motet.model.timeline import END_FRONTIER


@dataclass(frozen=True, slots=True)
class Frontier:
    """The records of a batch that moved the frontier, and the frontier after each of them.

    >>> frontier = Frontier.from_records(np.array([3, 4, 7]), np.array([5, 5, 9]), 0)
    >>> frontier.offsets_past(np.array([4, 5])), frontier.current
    (array([3, 7]), 9)
    """

    offsets: Ints
    instants: Ints
    previous: int  # the frontier before the batch
    first_offset: int  # of the batch
    current: int  # the frontier after the last record

    @classmethod
    def from_records(cls, offsets: Sequence[int] | Ints, instants: Sequence[int] | Ints, previous: int) -> Frontier:
        """From the offset of each record of a batch and the frontier after it, as a `FrontierTimeline` has them."""
        highest = np.maximum.accumulate(np.append(previous, instants))
        moved = np.flatnonzero(highest[1:] > highest[:-1])
        return cls(
            np.asarray(offsets, np.int64)[moved], highest[1:][moved], previous, int(offsets[0]), int(highest[-1])
        )

    def before(self) -> Frontier:
        """The frontier before the batch."""
        return Frontier(self.offsets[:0], self.instants[:0], self.previous, self.first_offset, self.previous)

    def has_passed(self, instants: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        passed: npt.NDArray[np.bool_] = instants < self.current
        return passed

    def offsets_past(self, instants: npt.NDArray[Any]) -> Ints:
        """The offsets of the records that moved the frontier past these instants, all of which it has passed.

        For an instant that was passed before the batch this is the batch's first offset: a subscription record there
        can have shortened a lag.
        """
        return first_offsets_past(self.instants, self.offsets, self.previous, self.first_offset, instants)


_INSTANTS = 1 << 60  # added to instants in the place of offsets, so that they are greater than every offset


@dataclass(frozen=True, slots=True)
class ProbeFrontier(Frontier):
    """A frontier at the end of time that moves there microsecond by microsecond: what it makes final has the least
    frontier at which it is final in the place of the emission offset.

    >>> frontier = ProbeFrontier.after(5)
    >>> frontier.final_frontiers(frontier.offsets_past(np.array([3, 7])))
    array([5, 8])
    """

    @classmethod
    def after(cls, previous: int) -> ProbeFrontier:
        """The probe of a state whose frontier is known."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), previous, 0, END_FRONTIER)

    def offsets_past(self, instants: npt.NDArray[Any]) -> Ints:
        passing: Ints = np.maximum(instants + 1, self.previous) + _INSTANTS
        return passing

    def final_frontiers(self, offsets: Ints) -> Ints:
        """The least frontiers behind emission offsets that this frontier has given."""
        return offsets[offsets >= _INSTANTS // 2] - _INSTANTS
