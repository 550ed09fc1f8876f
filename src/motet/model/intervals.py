"""Closed intervals of time and the thirteen relations between two of them (language page, section 6)."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Interval(NamedTuple):
    """``[start, end]`` in microseconds, both ends included; a point has ``start == end``."""

    start: int
    end: int


class Relation(Enum):
    """Allen's relations; exactly one holds between any two intervals, points included."""

    BEFORE = "BEFORE"
    AFTER = "AFTER"
    MEETS = "MEETS"
    MET_BY = "MET BY"
    OVERLAPS = "OVERLAPS"
    OVERLAPPED_BY = "OVERLAPPED BY"
    STARTS = "STARTS"
    STARTED_BY = "STARTED BY"
    DURING = "DURING"
    INCLUDES = "INCLUDES"
    FINISHES = "FINISHES"
    FINISHED_BY = "FINISHED BY"
    EQUALS = "EQUALS"

    @property
    def inverse(self) -> Relation:
        """The relation of b to a when this is the relation of a to b.

        >>> Relation.DURING.inverse
        <Relation.INCLUDES: 'INCLUDES'>
        """
        return _INVERSES[self]

    def holds(self, a: Interval, b: Interval) -> bool:
        """
        >>> Relation.MEETS.holds(Interval(1, 2), Interval(2, 3))
        True
        """
        if self in _CONDITIONS:
            return _CONDITIONS[self](a, b)
        return _CONDITIONS[self.inverse](b, a)


_CONDITIONS = {
    Relation.BEFORE: lambda a, b: a.end < b.start,
    Relation.MEETS: lambda a, b: a.end == b.start and a.start < b.start and a.end < b.end,
    Relation.OVERLAPS: lambda a, b: a.start < b.start < a.end < b.end,
    Relation.STARTS: lambda a, b: a.start == b.start and a.end < b.end,
    Relation.DURING: lambda a, b: a.start > b.start and a.end < b.end,
    Relation.FINISHES: lambda a, b: a.start > b.start and a.end == b.end,
    Relation.EQUALS: lambda a, b: a == b,
}

_PAIRS = (
    (Relation.BEFORE, Relation.AFTER),
    (Relation.MEETS, Relation.MET_BY),
    (Relation.OVERLAPS, Relation.OVERLAPPED_BY),
    (Relation.STARTS, Relation.STARTED_BY),
    (Relation.DURING, Relation.INCLUDES),
    (Relation.FINISHES, Relation.FINISHED_BY),
    (Relation.EQUALS, Relation.EQUALS),
)
_INVERSES = dict(_PAIRS) | {b: a for a, b in _PAIRS}


def relation(a: Interval, b: Interval) -> Relation:
    """The one relation that holds between two intervals.

    >>> relation(Interval(1, 5), Interval(3, 9))
    <Relation.OVERLAPS: 'OVERLAPS'>
    """
    return next(candidate for candidate in Relation if candidate.holds(a, b))
