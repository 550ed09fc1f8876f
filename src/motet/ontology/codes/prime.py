"""Prime codes: the code of a class is the product of its prime and its ancestors' primes; to subsume is to divide.

The paper multiplies the codes of the parents. Where two parents share an ancestor, that counts its prime twice, and
codes double in length with every such level. Here each prime counts once, which gives the same answers
(``literal=True`` follows the paper, for measurements). The length of codes grows with the number of ancestors and the
size of their primes: see ``bits``.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from motet.model.errors import LimitError
from motet.ontology.codes.class_codes import Nodes
from motet.ontology.hierarchy import Hierarchy

#: Maximum length of a code in bits; division of longer ones is too slow.
BITS_LIMIT = 2**16


@dataclass(frozen=True)
class PrimeCodes:
    """A prime and a code for each node."""

    hierarchy: Hierarchy
    primes: tuple[int, ...]
    codes: tuple[int, ...]

    @property
    def bits(self) -> int:
        return max((code.bit_length() for code in self.codes), default=0)

    @cached_property
    def _numbers(self) -> NDArray[np.object_]:
        return np.array([*self.codes, 0], dtype=object)[:-1]

    def subsumes(self, upper: Nodes, lower: Nodes) -> NDArray[np.bool_]:
        remainders = np.asarray(self._numbers[lower] % self._numbers[upper], dtype=object)
        return np.equal(remainders, 0).astype(np.bool_)

    def generalisations(self, code: int) -> tuple[int, ...]:
        """The nodes whose prime divides a code: the class itself and its ancestors."""
        return tuple(node for node, prime in enumerate(self.primes) if code % prime == 0)


def encode(hierarchy: Hierarchy, *, literal: bool = False, bits_limit: int = BITS_LIMIT) -> PrimeCodes:
    """Assign the smallest primes to the classes with most descendants, and multiply.

    >>> from motet.ontology.hierarchy import hierarchy_from_parents
    >>> encode(hierarchy_from_parents({"Film": ["Video"], "Action": ["Film"]})).codes
    (2, 6, 30)
    """
    below = Counter(node for ancestors in hierarchy.ancestors for node in ancestors)
    by_descendants = sorted(range(len(hierarchy.groups)), key=lambda node: (-below[node], node))
    primes = [0] * len(by_descendants)
    for node, prime in zip(by_descendants, first_primes(len(by_descendants)), strict=True):
        primes[node] = prime
    codes: list[int] = []
    for node, parents in enumerate(hierarchy.parents):
        above = [codes[parent] for parent in parents]
        code = primes[node] * (math.prod(above) if literal else math.lcm(*above))
        if code.bit_length() > bits_limit:
            raise LimitError(
                f"the prime code of {hierarchy.groups[node][0]} needs more than {bits_limit} bits",
                advice="use interval codes for this ontology",
            )
        codes.append(code)
    return PrimeCodes(hierarchy, tuple(primes), tuple(codes))


def first_primes(count: int) -> list[int]:
    """The first ``count`` primes.

    >>> first_primes(6)
    [2, 3, 5, 7, 11, 13]
    """
    if count == 0:
        return []
    end = 16 if count < 6 else int(count * (math.log(count) + math.log(math.log(count)))) + 1
    sieve = np.ones(end + 1, dtype=np.bool_)
    sieve[:2] = False
    for number in range(2, math.isqrt(end) + 1):
        if sieve[number]:
            sieve[number * number :: number] = False
    return [int(number) for number in np.flatnonzero(sieve)[:count]]
