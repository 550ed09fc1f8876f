"""What must hold of a CAN: its zones and neighbours, what multicasts reach, and which values a search finds.

The views of peers come from the simulator or from processes; random points and regions are what the checks ask for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from fractions import Fraction
from itertools import combinations
from random import Random
from typing import NamedTuple

from motet.overlay.protocol.can import Can
from motet.overlay.protocol.can_membership import MEMBER
from motet.overlay.protocol.coordinates import CanPoint, CoordinateRange
from motet.overlay.protocol.node import SECOND
from motet.overlay.protocol.zones import Region, Space, Zone, region_of

COMMAND_LIMIT = 150 * SECOND  # after which a command without an answer has no effect any more


class PeerView(NamedTuple):
    """The state of a peer, its zones, and those that it takes for its neighbours'."""

    state: str
    zones: tuple[Zone, ...]
    neighbours: Mapping[str, tuple[Zone, ...]]


def view_of(can: Can) -> PeerView:
    """The view of a peer."""
    neighbours = {a: tuple([claim.zone for claim in n.claims]) for a, n in can.members.neighbours.items()}
    return PeerView(can.state, tuple(can.members.zones()), neighbours)


def can_violations(space: Space, peers: Mapping[str, PeerView]) -> list[str]:
    """What is wrong with the zones and neighbours once a CAN has settled.

    >>> space = Space(2)
    >>> can_violations(space, {"a": PeerView(MEMBER, (space.whole,), {})})
    []
    """
    return [*_tiling_violations(space, peers), *_neighbour_violations(peers), *_assignment_violations(peers)]


def _tiling_violations(space: Space, peers: Mapping[str, PeerView]) -> list[str]:
    """Each point has one owner."""
    claims = [(zone, address) for address, peer in peers.items() for zone in peer.zones]
    overlaps = [
        f"{address} and {second} both hold a part of {zone}"
        for (zone, address), (next_zone, second) in combinations(claims, 2)
        if zone.overlaps(next_zone)
    ]
    free = 1 - sum((space.volume(zone) for zone, _ in claims), Fraction())
    return overlaps or ([f"{float(free):.6f} of the space has no owner"] if free else [])


def _neighbour_violations(peers: Mapping[str, PeerView]) -> Iterator[str]:
    """Neighbours are exactly the peers with adjacent zones, and their zones are right."""
    for address, peer in peers.items():
        expected = {
            second: set(near.zones)
            for second, near in peers.items()
            if second != address and any(zone.side_of(next_zone) for zone in peer.zones for next_zone in near.zones)
        }
        actual = {second: set(zones) for second, zones in peer.neighbours.items() if zones}
        for second in sorted(expected.keys() | actual.keys()):
            if expected.get(second) != actual.get(second):
                yield f"{address} is wrong about its neighbour {second}"


def _assignment_violations(peers: Mapping[str, PeerView]) -> list[str]:
    """Each peer is a member with one zone."""
    return [
        f"{address} is {peer.state} with {len(peer.zones)} zones"
        for address, peer in peers.items()
        if peer.state != MEMBER or len(peer.zones) != 1
    ]


def delivery_violations(expected: Counter[str], actual: Counter[str]) -> list[str]:
    """Which peers a multicast reached more or less often than they have zones in its region."""
    return [
        f"a multicast reached {address} {actual[address]} times instead of {expected[address]}"
        for address in sorted(expected.keys() | actual.keys())
        if expected[address] != actual[address]
    ]


def random_point(space: Space, random: Random) -> CanPoint:
    """A point, uniform over the space."""
    return tuple(space.alphabet.text_at(random.getrandbits(40), 2**40) for _ in range(space.dimensions))


def random_region(space: Space, random: Random) -> Region:
    """Fixed, bounded and free coordinates in any mixture."""
    intervals = []
    for low, high in zip(random_point(space, random), random_point(space, random), strict=True):
        bounds = CoordinateRange(min(low, high), max(low, high))
        intervals.append(random.choice([CoordinateRange(low, low), bounds, CoordinateRange()]))
    return region_of(*intervals)


class ValueLedger:
    """Which values must be there, and which must not, by the commands that were given and answered.

    The last command on a value counts, once it is answered. Of commands at the same time either may have been the
    last: then nothing is promised, until a later one is answered.

    >>> ledger = ValueLedger()
    >>> ledger.completed(ledger.issued(("a",), b"x", is_present=True, now=0))
    >>> ledger.violations(set())
    ["b'x' at ('a',) is lost"]
    """

    def __init__(self) -> None:
        self.tags: dict[str, tuple[tuple[CanPoint, bytes], bool, int]] = {}
        self._open: set[str] = set()
        self._last: dict[tuple[CanPoint, bytes], str] = {}
        self._promised: dict[tuple[CanPoint, bytes], bool] = {}

    def issued(self, point: CanPoint, value: bytes, *, is_present: bool, now: int) -> str:
        """Note a command that stores or removes a value; its tag."""
        tag, key = f"command {len(self.tags)}", (point, value)
        self._promised.pop(key, None)
        is_alone = not any(
            self.tags[earlier][0] == key and now - self.tags[earlier][2] < COMMAND_LIMIT for earlier in self._open
        )
        self.tags[tag] = key, is_present, now
        self._open.add(tag)
        self._last[key] = tag if is_alone else ""
        return tag

    def completed(self, tag: str) -> None:
        """Note that a command was answered."""
        if tag in self._open:
            self._open.remove(tag)
            key, is_present, _ = self.tags[tag]
            if self._last[key] == tag:
                self._promised[key] = is_present

    def lose(self, retained: Collection[tuple[CanPoint, bytes | None]]) -> list[str]:
        """Promise nothing more of values of which there is no copy left; these values."""
        lost = [key for key, is_present in self._promised.items() if is_present and key not in retained]
        for key in lost:
            del self._promised[key]
        return [f"{value!r} at {point}" for point, value in lost]

    def violations(self, values: Collection[tuple[CanPoint, bytes]]) -> list[str]:
        """Which of the promises the values that were found break."""
        return [
            f"{key[1]!r} at {key[0]} is {'lost' if is_present else 'there after its removal'}"
            for key, is_present in self._promised.items()
            if (key in values) != is_present
        ]
