"""Digit codes (OCId): a class copies its parent's digits and sets the first zero one.

``length`` digits of ``b`` bits (the paper's l). Near classes have near codes: siblings stand in order of similarity,
each next to the one most like it, and the heavier a class the more codes are left free after it. More siblings than a
digit can tell apart are divided into groups, which take a digit of their own; a hierarchy deeper than that gets
longer codes. Below a class are the codes that begin with its digits; a class with several parents hangs below one of
them, and the others list its prefix as one more of theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from motet.model.errors import UsageError
from motet.ontology.codes.cover import Cover, cover, inherited, tree_children
from motet.ontology.codes.interface import Nodes
from motet.ontology.hierarchy import Hierarchy

Digits = tuple[int, ...]
#: How alike two nodes are, from 0 to 1.
Similarity = Callable[[int, int], float]
#: Finding each sibling's nearest one is quadratic; above this number they are sorted instead.
_MANY = 256


@dataclass(frozen=True)
class DigitCodes:
    """The digits of each node, without the zeros at the end."""

    hierarchy: Hierarchy
    digits: tuple[Digits, ...]
    b: int
    wanted_length: int

    @cached_property
    def length(self) -> int:
        """Digits of a code: as many as wanted, or more if the hierarchy needs more."""
        return max(self.wanted_length, max(map(len, self.digits), default=0))

    @property
    def bits(self) -> int:
        return self.b * self.length

    def number(self, node: int) -> int:
        """The code as one number, zeros at the end included."""
        value = 0
        for digit in self.digits[node]:
            value = value << self.b | digit
        return value << self.b * (self.length - len(self.digits[node]))

    @cached_property
    def cover(self) -> Cover:
        points = [self.number(node) for node in range(len(self.digits))]
        own = [
            (point, point + (1 << self.b * (self.length - len(digits))))
            for point, digits in zip(points, self.digits, strict=True)
        ]
        return cover(points, inherited(self.hierarchy, own))

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
    """
    >>> from motet.ontology.hierarchy import hierarchy_from_parents
    >>> encode(hierarchy_from_parents({"Cat": ["Pet"], "Dog": ["Pet"], "Tom": ["Cat"]}), b=3, length=4).digits
    ((1,), (1, 3), (1, 1), (1, 3, 1))
    """
    if b < 2:
        raise UsageError(f"digits of {b} bits cannot tell siblings apart", advice="use b of at least 2")
    roots, children = tree_children(hierarchy)
    loads = _loads(children, weights)
    alike = similarity or _jaccard(hierarchy)
    digits: list[Digits] = [()] * len(hierarchy.groups)
    waiting: list[tuple[Digits, list[int]]] = [((), _by_similarity(None, roots, alike))]
    while waiting:
        prefix, siblings = waiting.pop()
        groups = _at_most(2**b - 1, siblings)
        values = _spaced([sum(loads[node] for node in group) for group in groups], 2**b - 1)
        for value, group in zip(values, groups, strict=True):
            if len(groups) < len(siblings):
                waiting.append(((*prefix, value), group))
            else:
                digits[group[0]] = (*prefix, value)
                waiting.append((digits[group[0]], _by_similarity(group[0], children[group[0]], alike)))
    return DigitCodes(hierarchy, tuple(digits), b, length)


def _loads(children: Sequence[Sequence[int]], weights: Sequence[float] | None) -> list[float]:
    """The weight of each node with everything below it in the tree."""
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
    ends = [len(siblings) * place // slots for place in range(slots + 1)]
    return [list(siblings[start:end]) for start, end in pairwise(ends)]


def _spaced(loads: Sequence[float], last: int) -> list[int]:
    """Rising digits from 1 to at most ``last``, with room after each in proportion to its load."""
    spare, total, before = last - len(loads), sum(loads), 0.0
    values = []
    for place, load in enumerate(loads):
        values.append(1 + place + (int(spare * before / total) if total > 0 else 0))
        before += load
    return values


def _by_similarity(parent: int | None, siblings: Sequence[int], alike: Similarity) -> list[int]:
    """The one most like the parent first, then always the one most like the one before."""
    if len(siblings) > _MANY:
        return sorted(siblings)
    left, ordered = sorted(siblings), []
    former = parent
    while left:
        nearest = left[0] if former is None else _nearest(former, left, alike)
        left.remove(nearest)
        ordered.append(nearest)
        former = nearest
    return ordered


def _nearest(node: int, others: Sequence[int], alike: Similarity) -> int:
    return max(others, key=lambda other: (alike(node, other), -other))


def _jaccard(hierarchy: Hierarchy) -> Similarity:
    """The share of the neighbourhood (all ancestors, direct children) that two nodes have in common."""
    around = [
        above.union(below, (node,))
        for node, (above, below) in enumerate(zip(hierarchy.ancestors, hierarchy.children, strict=True))
    ]

    def alike(a: int, b: int) -> float:
        return len(around[a] & around[b]) / len(around[a] | around[b])

    return alike
