"""Hops and delays of Pastry over ideal tables, computed with NumPy for up to 100 000 nodes and many lookups at once.

Identifiers have 64 bits here, which changes no hop below a billion nodes. An entry of a routing table is the closest of
some random candidates, as in a network whose tables had time to improve.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

DIGITS = 16
MAX_HOPS = 64
BASE_DELAY = 0.05  # a hop within one place, as a share of the way across the square; the simulator's default


@dataclass(frozen=True, slots=True)
class HopStudy:
    """Hops of many lookups, and the delays of their routes and of the direct ways."""

    nodes: int
    hops: np.ndarray[Any, np.dtype[np.int64]]
    routed: np.ndarray[Any, np.dtype[np.float64]]
    direct: np.ndarray[Any, np.dtype[np.float64]]

    @property
    def mean_hops(self) -> float:
        return float(self.hops.mean())

    @property
    def stretch(self) -> float:
        """The mean delay of the routes relative to the mean direct delay."""
        return float(self.routed.mean() / self.direct.mean())

    @property
    def mean_of_stretches(self) -> float:
        """The mean of each route's own ratio, which short ways dominate."""
        return float((self.routed / self.direct).mean())

    def histogram(self) -> dict[int, int]:
        """How many lookups took how many hops."""
        values, counts = np.unique(self.hops, return_counts=True)
        return {int(value): int(count) for value, count in zip(values, counts, strict=True)}


def study_hops(
    nodes: int, *, lookups: int = 20_000, leaf_size: int = 16, seed: int = 1, candidates: int = 16
) -> HopStudy:
    """Route random keys from random nodes.

    >>> study = study_hops(100, lookups=2_000)
    >>> 1.5 < study.mean_hops < 1.9
    True
    """
    random = np.random.default_rng(seed)
    identifiers = np.unique(random.integers(0, 2**64, nodes, dtype=np.uint64))
    points = random.random((len(identifiers), 2))
    keys = random.integers(0, 2**64, lookups, dtype=np.uint64)
    origins = random.integers(0, len(identifiers), lookups)
    roots = _closest(identifiers, keys)
    hops = np.zeros(lookups, dtype=np.int64)
    delays = np.zeros(lookups)
    current = origins.copy()
    moving = np.flatnonzero(current != roots)
    for _ in range(MAX_HOPS):
        if not len(moving):
            break
        following = _next_hops(
            identifiers, points, current[moving], keys[moving], roots[moving], leaf_size, random, candidates
        )
        delays[moving] += _delay(points, current[moving], following)
        hops[moving] += 1
        current[moving] = following
        moving = moving[following != roots[moving]]
    away = origins != roots
    direct = _delay(points, origins[away], roots[away])
    return HopStudy(nodes, hops, delays[away], direct)


def _closest(identifiers: Any, keys: Any) -> Any:
    after = np.searchsorted(identifiers, keys) % len(identifiers)
    before = (after - 1) % len(identifiers)
    to_after, to_before = identifiers[after] - keys, keys - identifiers[before]  # modulo 2**64
    return np.where(to_after < to_before, after, before)


def _next_hops(
    identifiers: Any, points: Any, current: Any, keys: Any, roots: Any, leaf_size: int, random: Any, candidates: int
) -> Any:
    count, half = len(identifiers), leaf_size // 2
    offset = (roots - current) % count
    is_leaf = (offset <= half) | (offset >= count - half)
    entries, is_filled = _table_entries(identifiers, points, current, keys, random, candidates)
    towards = np.where(offset < count // 2, current + half, current - half) % count  # the last leaf on the way
    return np.where(is_leaf, roots, np.where(is_filled, entries, towards))


def _table_entries(
    identifiers: Any, points: Any, current: Any, keys: Any, random: Any, candidates: int
) -> tuple[Any, Any]:
    """The entry for the key's next digit: the closest of some nodes that share one more digit with the key."""
    different = identifiers[current] ^ keys
    shared = sum(((different >> np.uint64(60 - 4 * row)) == 0).astype(np.int64) for row in range(DIGITS))
    width = (60 - 4 * np.minimum(shared, DIGITS - 1)).astype(np.uint64)
    low = keys >> width << width
    high = low | ((np.uint64(1) << width) - np.uint64(1))
    first = np.searchsorted(identifiers, low, side="left")
    stop = np.searchsorted(identifiers, high, side="right")
    size = np.maximum(stop - first, 1)
    sample = first[:, None] + (random.random((len(keys), candidates)) * size[:, None]).astype(np.int64)
    sample = np.minimum(sample, len(identifiers) - 1)
    away = points[sample] - points[current][:, None, :]
    nearest = np.argmin((away**2).sum(axis=2), axis=1)
    return sample[np.arange(len(keys)), nearest], stop > first


def _delay(points: Any, left: Any, right: Any) -> Any:
    return BASE_DELAY + np.sqrt(((points[left] - points[right]) ** 2).sum(axis=1))
