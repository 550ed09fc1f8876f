"""Interval codes: a class is below another iff its number lies in one of the other's intervals.

A single look-up with single inheritance; multiple inheritance adds intervals. Gaps are left so that a class can be
added later without changing the number of any other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from motet.model.errors import UsageError
from motet.ontology.codes.cover import LONG, Cover, Interval, cover, inherited, merged, tree_children
from motet.ontology.codes.interface import Nodes
from motet.ontology.hierarchy import Hierarchy

#: All numbers are below this; half of them are kept for classes that find no gap.
_END = 2**62
#: An added class takes this share of the gap it is put into, so that others find room after it and inside it.
_SHARE = 8


@dataclass(frozen=True)
class IntervalCodes:
    """A number and intervals for each node; ``free`` is where the gap at the end of a node's own interval begins."""

    hierarchy: Hierarchy
    own: tuple[Interval, ...]
    free: tuple[int, ...]
    intervals: tuple[tuple[Interval, ...], ...]
    end: int

    @property
    def bits(self) -> int:
        return _END.bit_length() - 1

    @cached_property
    def cover(self) -> Cover:
        return cover([low for low, _ in self.own], self.intervals)

    def subsumes(self, upper: Nodes, lower: Nodes) -> NDArray[np.bool_]:
        return self.cover.contains(upper, lower)

    def below(self, node: int, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which class numbers (``cover.points``) lie below a class: the test that matching makes."""
        intervals = self.intervals[node]
        if len(intervals) == 1 and numbers.size >= LONG:
            from motet.ontology.codes.kernels import inside_one

            found: NDArray[np.bool_] = inside_one(numbers, *intervals[0])
            return found
        if len(intervals) == 1:
            return (numbers >= intervals[0][0]) & (numbers < intervals[0][1])
        borders = np.array(intervals, dtype=np.int64).ravel()
        return np.searchsorted(borders, numbers, side="right") % 2 == 1

    def add(self, name: str, parents: Iterable[str]) -> IntervalCodes:
        """The codes with one more class below the given ones. No class gets another number."""
        if name in self.hierarchy.node_of:
            raise UsageError(f"the class {name} has a code already", advice="encode the ontology anew to move a class")
        above = {self.hierarchy.node_of[parent] for parent in parents}
        direct = above.difference(*(self.hierarchy.ancestors[node] for node in above))
        interval, free, end = self._room(direct)
        everything_above = above.union(*(self.hierarchy.ancestors[node] for node in above))
        intervals = list(self.intervals)
        for node in everything_above:
            intervals[node] = merged((*intervals[node], interval))
        return IntervalCodes(
            Hierarchy(
                (*self.hierarchy.groups, (name,)),
                (*self.hierarchy.parents, tuple(sorted(direct))),
                self.hierarchy.unsatisfiable,
            ),
            (*self.own, interval),
            (*free, interval[0] + 1),
            (*intervals, (interval,)),
            end,
        )

    def _room(self, parents: Iterable[int]) -> tuple[Interval, list[int], int]:
        """An unused interval, if possible inside a parent's, with what is free afterwards."""
        free = list(self.free)
        widest = max(parents, key=lambda node: (self.own[node][1] - free[node], -node), default=None)
        if widest is not None and self.own[widest][1] > free[widest]:
            low = free[widest]
            free[widest] += max(1, (self.own[widest][1] - low) // _SHARE)
            return (low, free[widest]), free, self.end
        width = max(1, (_END - self.end) // 2**16)
        if self.end + width > _END:
            raise UsageError("no class number is left", advice="encode the ontology anew")
        return (self.end, self.end + width), free, self.end + width


def encode(hierarchy: Hierarchy) -> IntervalCodes:
    """Number the classes along a tree, leaving an equal gap at the end of each class's interval.

    >>> from motet.ontology.hierarchy import hierarchy_from_parents
    >>> pets = hierarchy_from_parents({"Cat": ["Pet"], "Dog": ["Pet"]})
    >>> codes = encode(pets)
    >>> codes.subsumes(np.array([pets.node_of["Pet"]]), np.array([pets.node_of["Cat"], pets.node_of["Dog"]]))
    array([ True,  True])
    """
    gap = _END // 2 // (2 * len(hierarchy.groups) + 1)
    roots, children = tree_children(hierarchy)
    own: list[Interval] = [(0, 0)] * len(hierarchy.groups)
    free = [0] * len(hierarchy.groups)
    low = 0
    waiting = [(root, False) for root in reversed(roots)]
    while waiting:
        node, is_left = waiting.pop()
        if is_left:
            own[node], free[node] = (own[node][0], low + gap), max(low, own[node][0] + 1)
        else:
            own[node] = (low, low)
            waiting.append((node, True))
            waiting.extend((child, False) for child in reversed(children[node]))
        low += gap
    return IntervalCodes(hierarchy, tuple(own), tuple(free), tuple(inherited(hierarchy, own)), low)
