"""Digit codes (OCId): a class has the digits of its parent and sets the first zero digit.

A code has ``length`` digits of ``b`` bits (the paper's l and b). Similar classes have close codes: siblings are ordered
by similarity, and the heavier a class, the more codes are free after it. More siblings than values of a digit are
divided into groups with a separate digit; a deeper hierarchy gets longer codes. The codes below a class start with
its digits; a class with several parents is in the tree below one of them, and the others list its prefix in addition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from motet.model.errors import UsageError
from motet.ontology.codes.class_codes import IntervalCover, Nodes, build_cover, inherit_intervals
from motet.ontology.hierarchy import Hierarchy, tree_children

Digits = tuple[int, ...]
#: The similarity of two nodes, from 0 to 1.
Similarity = Callable[[int, int], float]
#: Ordering siblings by similarity is quadratic; more siblings than this are ordered by id.
_MAX_ORDERED_SIBLINGS = 256


@dataclass(frozen=True)
class DigitCodes:
    """The digits of each node, without trailing zeros."""

    hierarchy: Hierarchy
    digits: tuple[Digits, ...]
    b: int
    min_length: int

    @cached_property
    def length(self) -> int:
        """The number of digits of a code: ``min_length``, or more if the hierarchy needs more."""
        return max(self.min_length, max(map(len, self.digits), default=0))

    @property
    def bits(self) -> int:
        return self.b * self.length

    def number(self, node: int) -> int:
        """The code as one number, including trailing zeros."""
        value = 0
        for digit in self.digits[node]:
            value = value << self.b | digit
        return value << self.b * (self.length - len(self.digits[node]))

    @cached_property
    def cover(self) -> IntervalCover:
        points = [self.number(node) for node in range(len(self.digits))]
        tree_intervals = [
            (point, point + (1 << self.b * (self.length - len(digits))))
            for point, digits in zip(points, self.digits, strict=True)
        ]
        return build_cover(points, inherit_intervals(self.hierarchy, tree_intervals))

    def subsumes(self, upper: Nodes, lower: Nodes) -> NDArray[np.bool_]:
        return self.cover.contains(upper, lower)


def encode(
    hierarchy: Hierarchy,
    *,
    b: int = 4,
    length: int = 8,
    weights: Sequence[float] | None = None,
    similarity: Similarity | None = None,
) -> DigitCodes:
    """The digit codes of a hierarchy.

    >>> from motet.ontology.hierarchy import hierarchy_from_parents
    >>> encode(hierarchy_from_parents({"Cat": ["Pet"], "Dog": ["Pet"], "Tom": ["Cat"]}), b=3, length=4).digits
    ((1,), (1, 3), (1, 1), (1, 3, 1))
    """
    if b < 2:
        raise UsageError(f"digits of {b} bits cannot distinguish siblings", advice="use b of at least 2")
    roots, children = tree_children(hierarchy)
    loads = _loads(children, weights)
    similarity_of = similarity or _jaccard(hierarchy)
    digits: list[Digits] = [()] * len(hierarchy.groups)
    stack: list[tuple[Digits, list[int]]] = [((), _by_similarity(None, roots, similarity_of))]
    while stack:
        prefix, siblings = stack.pop()
        groups = _at_most(2**b - 1, siblings)
        values = _spaced([sum(loads[node] for node in group) for group in groups], 2**b - 1)
        for value, group in zip(values, groups, strict=True):
            if len(groups) < len(siblings):
                stack.append(((*prefix, value), group))
            else:
                digits[group[0]] = (*prefix, value)
                stack.append((digits[group[0]], _by_similarity(group[0], children[group[0]], similarity_of)))
    return DigitCodes(hierarchy, tuple(digits), b, length)


def _loads(children: Sequence[Sequence[int]], weights: Sequence[float] | None) -> list[float]:
    """The total weight of the subtree of each node."""
    loads = [1.0] * len(children) if weights is None else [float(weight) for weight in weights]
    if len(loads) != len(children):
        raise UsageError(f"{len(loads)} weights for {len(children)} classes", advice="give one weight per node")
    for node in range(len(children) - 1, -1, -1):
        loads[node] += sum(loads[child] for child in children[node])
    return loads


def _at_most(slots: int, siblings: Sequence[int]) -> list[list[int]]:
    """The siblings, neighbours together, in as many groups as a digit can tell apart."""
    if len(siblings) <= slots:
        return [[node] for node in siblings]
    ends = [len(siblings) * slot // slots for slot in range(slots + 1)]
    return [list(siblings[start:end]) for start, end in pairwise(ends)]


def _spaced(loads: Sequence[float], last: int) -> list[int]:
    """Increasing digits from 1 to at most ``last``, with gaps in proportion to the loads."""
    spare, total, before = last - len(loads), sum(loads), 0.0
    values = []
    for index, load in enumerate(loads):
        values.append(1 + index + (int(spare * before / total) if total > 0 else 0))
        before += load
    return values


def _by_similarity(parent: int | None, siblings: Sequence[int], similarity_of: Similarity) -> list[int]:
    """Siblings in a chain: first the one most similar to the parent, then the one most similar to the previous."""
    if len(siblings) > _MAX_ORDERED_SIBLINGS:
        return sorted(siblings)
    remaining, ordered = sorted(siblings), []
    previous = parent
    while remaining:
        nearest = remaining[0] if previous is None else _nearest(previous, remaining, similarity_of)
        remaining.remove(nearest)
        ordered.append(nearest)
        previous = nearest
    return ordered


def _nearest(node: int, candidates: Sequence[int], similarity_of: Similarity) -> int:
    return max(candidates, key=lambda candidate: (similarity_of(node, candidate), -candidate))


def _jaccard(hierarchy: Hierarchy) -> Similarity:
    """The Jaccard similarity of the neighbourhoods (ancestors, children and the node) of two nodes."""
    neighbourhoods = [
        above.union(below, (node,))
        for node, (above, below) in enumerate(zip(hierarchy.ancestors, hierarchy.children, strict=True))
    ]

    def similarity_of(a: int, b: int) -> float:
        return len(neighbourhoods[a] & neighbourhoods[b]) / len(neighbourhoods[a] | neighbourhoods[b])

    return similarity_of
