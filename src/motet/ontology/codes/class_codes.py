"""The protocol of class codes, and the interval cover that interval and digit codes share.

Each class has one parent in a spanning tree and an interval inside the parent's interval. Its other ancestors list that
interval as an additional one (the tree cover of Agrawal, Borgida and Jagadish). A class subsumes another iff one of its
intervals contains the other's number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from motet.ontology.hierarchy import Hierarchy

Nodes = NDArray[np.int64]


class ClassCodes(Protocol):
    """Codes of the nodes of a hierarchy. A class is given by its node, ``hierarchy.node_of[name]``."""

    @property
    def hierarchy(self) -> Hierarchy: ...

    @property
    def bits(self) -> int:
        """The length of the longest code in bits."""
        ...

    def subsumes(self, upper: Nodes, lower: Nodes) -> NDArray[np.bool_]:
        """Whether each upper class subsumes the lower one, elementwise; the arrays broadcast."""
        ...


#: ``[first, stop)``
CodeInterval = tuple[int, int]

#: Arrays of at least this length are tested by compiled code, which takes time to load.
MIN_COMPILED_LENGTH = 2**16


def inherit_intervals(hierarchy: Hierarchy, tree_intervals: Sequence[CodeInterval]) -> list[tuple[CodeInterval, ...]]:
    """All intervals of each node: its tree interval and those of its descendants."""
    intervals: list[tuple[CodeInterval, ...]] = [()] * len(tree_intervals)
    for node in range(len(tree_intervals) - 1, -1, -1):
        below = (interval for child in hierarchy.children[node] for interval in intervals[child])
        intervals[node] = merge_intervals((tree_intervals[node], *below))
    return intervals


def merge_intervals(intervals: Iterable[CodeInterval]) -> tuple[CodeInterval, ...]:
    """The union of intervals as disjoint intervals.

    >>> merge_intervals([(6, 8), (0, 4), (1, 2), (4, 5)])
    ((0, 5), (6, 8))
    """
    result: list[CodeInterval] = []
    for low, high in sorted(intervals):
        if result and low <= result[-1][1]:
            result[-1] = (result[-1][0], max(high, result[-1][1]))
        else:
            result.append((low, high))
    return tuple(result)


@dataclass(frozen=True, slots=True)
class IntervalCover:
    """The intervals of all nodes in arrays, and the number of each node."""

    points: NDArray[np.int64]
    first: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]

    @property
    def max_intervals(self) -> int:
        """The maximum number of intervals of one class."""
        return int(np.diff(self.first).max(initial=0))

    def contains(self, upper: Nodes, lower: Nodes) -> NDArray[np.bool_]:
        """Whether an interval of each upper node contains the number of the lower one, elementwise."""
        upper, lower = np.broadcast_arrays(upper, lower)
        if upper.size >= MIN_COMPILED_LENGTH:
            from motet.ontology.codes.interval_kernels import inside_any

            mask = inside_any(self.points, self.first, self.low, self.high, upper.ravel(), lower.ravel())
            return np.asarray(mask, np.bool_).reshape(upper.shape)
        points = self.points[lower]
        if self.max_intervals <= 1:
            return (self.low[upper] <= points) & (points < self.high[upper])
        index = self._last_not_above(upper, points)
        return (index >= self.first[upper]) & (points < self.high[index])

    def _last_not_above(self, upper: Nodes, points: NDArray[np.int64]) -> NDArray[np.int64]:
        """The last interval of each node that starts at or before the point; the index before its first one if none."""
        below, above = self.first[upper] - 1, self.first[upper + 1]
        for _ in range(self.max_intervals.bit_length()):
            is_open = above - below > 1
            middle = np.where(is_open, (below + above) // 2, below)
            is_at_or_below = is_open & (self.low[middle] <= points)
            below = np.where(is_at_or_below, middle, below)
            above = np.where(is_open & ~is_at_or_below, middle, above)
        return below


def build_cover(points: Sequence[int], intervals: Sequence[tuple[CodeInterval, ...]]) -> IntervalCover:
    """The cover of nodes with these numbers and intervals; numbers of more than 63 bits are replaced by their ranks."""
    flat = [interval for node_intervals in intervals for interval in node_intervals]
    first = np.concatenate([[0], np.cumsum([len(node_intervals) for node_intervals in intervals])]).astype(np.int64)
    columns = [list(points), [low for low, _ in flat], [high for _, high in flat]]
    if any(high >= 2**63 for high in columns[2]):
        rank = {number: index for index, number in enumerate(sorted(set().union(*columns)))}
        columns = [[rank[number] for number in column] for column in columns]
    numbers, low, high = (np.array(column, np.int64) for column in columns)
    return IntervalCover(numbers, first, low, high)
