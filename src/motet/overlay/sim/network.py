"""The simulated network: latency, loss, duplication, reordering, partitions and broken links; and shared machines."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from motet.overlay.protocol.node import MILLISECOND


class LatencyModel(Protocol):
    """How long a message takes from one address to another, in microseconds."""

    def delay(self, random: Random, sender: str, receiver: str) -> int: ...


@dataclass(frozen=True, slots=True)
class UniformLatency:
    """Delays drawn anew for each message, uniformly between two bounds."""

    minimum: int = 10 * MILLISECOND
    maximum: int = 100 * MILLISECOND

    def delay(self, random: Random, sender: str, receiver: str) -> int:
        return self.minimum + int(random.random() * (self.maximum - self.minimum))


@dataclass(slots=True)
class GeographicLatency:
    """Delays by distance on a square: each address gets a random point when it is first used.

    The delay is `base` plus the distance times `per_side` (what it takes from one side to the other), and jitter.
    """

    base: int = 5 * MILLISECOND
    per_side: int = 100 * MILLISECOND
    jitter: float = 0.05
    points: dict[str, tuple[float, float]] = field(default_factory=dict)

    def point(self, random: Random, address: str) -> tuple[float, float]:
        if address not in self.points:
            self.points[address] = (random.random(), random.random())
        return self.points[address]

    def mean(self, sender: str, receiver: str) -> float:
        """The mean delay between two addresses that have a point."""
        x, y = self.points[sender]
        u, v = self.points[receiver]
        return (self.base + self.per_side * math.hypot(x - u, y - v)) * (1 + self.jitter / 2)

    def delay(self, random: Random, sender: str, receiver: str) -> int:
        x, y = self.points.get(sender) or self.point(random, sender)
        u, v = self.points.get(receiver) or self.point(random, receiver)
        exact = self.base + self.per_side * math.hypot(x - u, y - v)
        return int(exact * (1 + self.jitter * random.random()))


@dataclass(slots=True, kw_only=True)
class Network:
    """What happens to a message between two nodes. Probabilities are per message; all may change during a run."""

    latency: LatencyModel = field(default_factory=UniformLatency)
    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    group_of: dict[str, int] = field(default_factory=dict)
    broken_links: set[tuple[str, str]] = field(default_factory=set)

    def partition(self, groups: Iterable[Iterable[str]]) -> None:
        """Separate groups of addresses from each other. Addresses in no group form a group of their own."""
        self.group_of = {address: number for number, group in enumerate(groups, 1) for address in group}

    def heal(self) -> None:
        """End partitions and repair all links."""
        self.group_of = {}
        self.broken_links = set()

    def calm(self) -> None:
        """Lose, repeat and reorder nothing any more."""
        self.loss = self.duplication = self.reordering = 0.0

    def break_link(self, left: str, right: str) -> None:
        """Break the link between two addresses, in both directions."""
        self.broken_links |= {(left, right), (right, left)}

    def repair_link(self, left: str, right: str) -> None:
        self.broken_links -= {(left, right), (right, left)}

    def is_connected(self, sender: str, receiver: str) -> bool:
        """Whether a message can pass at all."""
        if self.group_of and self.group_of.get(sender, 0) != self.group_of.get(receiver, 0):
            return False
        return not self.broken_links or (sender, receiver) not in self.broken_links

    def delays(self, random: Random, sender: str, receiver: str) -> list[int]:
        """The delay of each copy of a message that arrives: none, one or two."""
        if (self.group_of or self.broken_links) and not self.is_connected(sender, receiver):
            return []
        if self.loss and random.random() < self.loss:
            return []
        delay = self.latency.delay(random, sender, receiver)
        if self.reordering and random.random() < self.reordering:
            delay += self.latency.delay(random, sender, receiver) * (1 + int(3 * random.random()))
        if self.duplication and random.random() < self.duplication:
            return [delay, delay + self.latency.delay(random, sender, receiver)]
        return [delay]


@dataclass(slots=True)
class Machines:
    """Machines that nodes share, as many nodes on each: a machine handles one message after the other.

    >>> machines = Machines(count=1, cost=10)
    >>> machines.reserve("a", 0), machines.reserve("b", 3), machines.reserve("a", 50)
    (10, 20, 60)
    """

    count: int
    cost: int  # microseconds of a machine for each message that one of its nodes receives
    _machine_of: dict[str, int] = field(default_factory=dict)
    _busy_until: dict[int, int] = field(default_factory=dict)

    def reserve(self, address: str, now: int) -> int:
        """The instant at which a message that arrives now has been handled."""
        machine = self._machine_of.setdefault(address, len(self._machine_of) % self.count)
        until = max(now, self._busy_until.get(machine, 0)) + self.cost
        self._busy_until[machine] = until
        return until
