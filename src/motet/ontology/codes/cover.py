"""Which numbers lie below a class, when the hierarchy is a DAG and the numbers follow a tree?

Each class hangs below one of its parents in a tree and owns an interval there. Its other ancestors list that interval
as one more of theirs (the tree cover of Agrawal, Borgida and Jagadish). A class subsumes another iff one of its
intervals holds the other's number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motet.ontology.codes.interface import Nodes
from motet.ontology.hierarchy import Hierarchy

#: From the first number to the one after the last.
Interval = tuple[int, int]

_NO_PARENT = -1
#: From this length on, a compiled pass over the arrays is worth loading the compiler.
LONG = 2**16


def tree_parents(hierarchy: Hierarchy) -> list[int]:
    """The parent below which each node hangs: the one with most ancestors, which leaves fewest to list it once more."""
    ancestors = hierarchy.ancestors
    return [
        max(parents, key=lambda parent: (len(ancestors[parent]), -parent)) if parents else _NO_PARENT
        for parents in hierarchy.parents
    ]


def tree_children(hierarchy: Hierarchy) -> tuple[list[int], list[list[int]]]:
    """The roots of the tree, and each node's children in it."""
    roots: list[int] = []
    children: list[list[int]] = [[] for _ in hierarchy.groups]
    for node, parent in enumerate(tree_parents(hierarchy)):
        (roots if parent == _NO_PARENT else children[parent]).append(node)
    return roots, children


def inherited(hierarchy: Hierarchy, own: Sequence[Interval]) -> list[tuple[Interval, ...]]:
    """All intervals of each node: its own and those of everything below it."""
    found: list[tuple[Interval, ...]] = [()] * len(own)
    for node in range(len(own) - 1, -1, -1):
        below = (interval for child in hierarchy.children[node] for interval in found[child])
        found[node] = merged((own[node], *below))
    return found


def merged(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    """
    >>> merged([(6, 8), (0, 4), (1, 2), (4, 5)])
    ((0, 5), (6, 8))
    """
    result: list[Interval] = []
    for low, high in sorted(intervals):
        if result and low <= result[-1][1]:
            result[-1] = (result[-1][0], max(high, result[-1][1]))
        else:
            result.append((low, high))
    return tuple(result)


@dataclass(frozen=True, slots=True)
class Cover:
    """Intervals of all nodes, one after the other, and each node's own number."""

    points: NDArray[np.int64]
    first: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]

    @property
    def most(self) -> int:
        """The greatest number of intervals that one class has."""
        return int(np.diff(self.first).max(initial=0))

    def contains(self, upper: Nodes, lower: Nodes) -> NDArray[np.bool_]:
        """Element by element, whether an interval of the upper node holds the number of the lower one."""
        upper, lower = np.broadcast_arrays(upper, lower)
        if upper.size >= LONG:
            from motet.ontology.codes.kernels import inside_any

            found = inside_any(self.points, self.first, self.low, self.high, upper.ravel(), lower.ravel())
            return np.asarray(found, np.bool_).reshape(upper.shape)
        points = self.points[lower]
        if self.most <= 1:
            return (self.low[upper] <= points) & (points < self.high[upper])
        place = self._last_not_above(upper, points)
        return (place >= self.first[upper]) & (points < self.high[place])

    def _last_not_above(self, upper: Nodes, points: NDArray[np.int64]) -> NDArray[np.int64]:
        """Binary search in each node's own stretch of intervals; one before the stretch if all lie above."""
        below, above = self.first[upper] - 1, self.first[upper + 1]
        for _ in range(self.most.bit_length()):
            open_ = above - below > 1
            middle = np.where(open_, (below + above) // 2, below)
            reached = open_ & (self.low[middle] <= points)
            below = np.where(reached, middle, below)
            above = np.where(open_ & ~reached, middle, above)
        return below


def cover(points: Sequence[int], intervals: Sequence[tuple[Interval, ...]]) -> Cover:
    """Lay the intervals out in arrays. Only the order of numbers counts: past 63 bits, ranks stand for them."""
    flat = [interval for found in intervals for interval in found]
    first = np.concatenate([[0], np.cumsum([len(found) for found in intervals])]).astype(np.int64)
    columns = [list(points), [low for low, _ in flat], [high for _, high in flat]]
    if any(high >= 2**63 for high in columns[2]):
        rank = {number: place for place, number in enumerate(sorted(set().union(*columns)))}
        columns = [[rank[number] for number in column] for column in columns]
    numbers, low, high = (np.array(column, np.int64) for column in columns)
    return Cover(numbers, first, low, high)
