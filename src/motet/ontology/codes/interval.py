"""Interval codes: a class is below another iff its number lies in one of the other's intervals.

With single inheritance each class has one interval; multiple inheritance adds intervals. Gaps allow a class to be added
later without changing the numbers of the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from motet.model.errors import UsageError
from motet.ontology.codes.class_codes import (
    MIN_COMPILED_LENGTH,
    CodeInterval,
    IntervalCover,
    Nodes,
    build_cover,
    inherit_intervals,
    merge_intervals,
)
from motet.ontology.hierarchy import Hierarchy, tree_children

#: Upper limit of numbers; the upper half is reserved for added classes whose parents have no gap left.
_END = 2**62
#: An added class takes this fraction of a gap, which leaves room after it and inside it.
_GAP_FRACTION = 8


@dataclass(frozen=True)
class IntervalCodes:
    """A number and intervals for each node; ``free`` is the start of the gap at the end of a node's tree interval."""

    hierarchy: Hierarchy
    tree_intervals: tuple[CodeInterval, ...]
    free: tuple[int, ...]
    intervals: tuple[tuple[CodeInterval, ...], ...]
    end: int

    @property
    def bits(self) -> int:
        return _END.bit_length() - 1

    @cached_property
    def cover(self) -> IntervalCover:
        return build_cover([low for low, _ in self.tree_intervals], self.intervals)

    def subsumes(self, upper: Nodes, lower: Nodes) -> NDArray[np.bool_]:
        return self.cover.contains(upper, lower)

    def below(self, node: int, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mask of the class numbers (``cover.points``) that are below a class, as matching tests it."""
        intervals = self.intervals[node]
        if len(intervals) == 1 and numbers.size >= MIN_COMPILED_LENGTH:
            from motet.ontology.codes.interval_kernels import inside_one

            mask: NDArray[np.bool_] = inside_one(numbers, *intervals[0])
            return mask
        if len(intervals) == 1:
            return (numbers >= intervals[0][0]) & (numbers < intervals[0][1])
        bounds = np.array(intervals, dtype=np.int64).ravel()
        return np.searchsorted(bounds, numbers, side="right") % 2 == 1

    def add(self, name: str, parents: Iterable[str]) -> IntervalCodes:
        """The codes with one more class below its parents; the numbers of other classes do not change."""
        if name in self.hierarchy.node_of:
            raise UsageError(f"the class {name} already has a code", advice="encode the ontology again to move a class")
        above = {self.hierarchy.node_of[parent] for parent in parents}
        direct = above.difference(*(self.hierarchy.ancestors[node] for node in above))
        interval, free, end = self._allocate(direct)
        ancestors = above.union(*(self.hierarchy.ancestors[node] for node in above))
        intervals = list(self.intervals)
        for node in ancestors:
            intervals[node] = merge_intervals((*intervals[node], interval))
        return IntervalCodes(
            Hierarchy(
                (*self.hierarchy.groups, (name,)),
                (*self.hierarchy.parents, tuple(sorted(direct))),
                self.hierarchy.unsatisfiable,
            ),
            (*self.tree_intervals, interval),
            (*free, interval[0] + 1),
            (*intervals, (interval,)),
            end,
        )

    def _allocate(self, parents: Iterable[int]) -> tuple[CodeInterval, list[int], int]:
        """An unused interval, inside that of a parent if possible, with the new values of ``free`` and ``end``."""
        free = list(self.free)
        widest = max(parents, key=lambda node: (self.tree_intervals[node][1] - free[node], -node), default=None)
        if widest is not None and self.tree_intervals[widest][1] > free[widest]:
            low = free[widest]
            free[widest] += max(1, (self.tree_intervals[widest][1] - low) // _GAP_FRACTION)
            return (low, free[widest]), free, self.end
        width = max(1, (_END - self.end) // 2**16)
        if self.end + width > _END:
            raise UsageError("no class number is left", advice="encode the ontology again")
        return (self.end, self.end + width), free, self.end + width


def encode(hierarchy: Hierarchy) -> IntervalCodes:
    """Number the classes along the spanning tree, with equal gaps at the ends of their intervals.

    >>> from motet.ontology.hierarchy import hierarchy_from_parents
    >>> pets = hierarchy_from_parents({"Cat": ["Pet"], "Dog": ["Pet"]})
    >>> codes = encode(pets)
    >>> codes.subsumes(np.array([pets.node_of["Pet"]]), np.array([pets.node_of["Cat"], pets.node_of["Dog"]]))
    array([ True,  True])
    """
    gap = _END // 2 // (2 * len(hierarchy.groups) + 1)
    roots, children = tree_children(hierarchy)
    tree_intervals: list[CodeInterval] = [(0, 0)] * len(hierarchy.groups)
    free = [0] * len(hierarchy.groups)
    low = 0
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        node, is_visited = stack.pop()
        if is_visited:
            tree_intervals[node], free[node] = (
                (tree_intervals[node][0], low + gap),
                max(low, tree_intervals[node][0] + 1),
            )
        else:
            tree_intervals[node] = (low, low)
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(children[node]))
        low += gap
    return IntervalCodes(
        hierarchy, tuple(tree_intervals), tuple(free), tuple(inherit_intervals(hierarchy, tree_intervals)), low
    )
