"""The messages, commands and outcomes of a CAN, and what of a message is checked before it is used."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple, TypeVar

from motet.overlay.protocol.coordinates import CanPoint, CoordinateRange, is_text
from motet.overlay.protocol.node import Command, Outcome, PeerMessage, peer_message
from motet.overlay.protocol.zones import Region, Space, Zone

MAX_CLAIMS = 256  # of one peer
MAX_COORDINATE = 16_384  # characters
MAX_VERSION = 2**62
MAX_VALUE = 1 << 20
DIGEST_BYTES = 16
BATCH = 64  # values of one message
MAX_BATCH_BYTES = 1 << 18  # of these values and their points; one that is larger is sent alone


class Claim(NamedTuple):
    """A zone that a peer holds. Takeovers count how often a zone was taken from a peer that failed.

    Where claims overlap, the one with fewer takeovers holds: a peer that was only unreachable gets its zone back. Then
    the newer version holds, then the smaller address.
    """

    zone: Zone
    takeovers: int
    version: int

    def rank(self, address: str) -> tuple[int, int, str]:
        return self.takeovers, -self.version, address


class PeerClaims(NamedTuple):
    """A peer and the zones that it holds."""

    address: str
    claims: tuple[Claim, ...]


class PointValue(NamedTuple):
    """A value at a point of the space."""

    point: CanPoint
    value: bytes

    @property
    def size(self) -> int:
        return len(self.value) + _size_of(self.point)


class PointEntry(NamedTuple):
    """What is stored of a value at a point: itself, or only its digest when it was removed.

    The mark of a removed value is retained: a late copy of the value has an older version and does not bring it back.
    Versions are the microseconds of a command, or one more than what it replaces. The higher version holds; of equal
    ones, the removal.
    """

    point: CanPoint
    digest: bytes
    version: int
    value: bytes | None

    @classmethod
    def of(cls, point: CanPoint, value: bytes, version: int) -> PointEntry:
        return cls(point, digest_of(value), version, value)

    @property
    def key(self) -> EntryKey:
        return EntryKey(self.point, self.digest)

    @property
    def rank(self) -> tuple[int, bool]:
        return self.version, self.value is None

    @property
    def size(self) -> int:
        return len(self.value or b"") + _size_of(self.point)

    @property
    def problem(self) -> str | None:
        """What is wrong with an entry from elsewhere."""
        if not 0 < self.version <= MAX_VERSION:
            return f"{self.version} is no version"
        if len(self.digest) != DIGEST_BYTES or (self.value is not None and digest_of(self.value) != self.digest):
            return "the digest is not that of the value"
        return "the value is too large" if len(self.value or b"") > MAX_VALUE else None


class EntryKey(NamedTuple):
    """A point and the digest of a value: what an entry is about."""

    point: CanPoint
    digest: bytes


def digest_of(value: bytes) -> bytes:
    """The digest by which a removed value is recognised."""
    return hashlib.blake2b(value, digest_size=DIGEST_BYTES).digest()


def _size_of(point: CanPoint) -> int:
    """The bytes of a point, about."""
    return 40 + sum(len(text) if text.isascii() else 4 * len(text) for text in point)


_Sized = TypeVar("_Sized", PointValue, PointEntry)


def batches(values: Iterable[_Sized]) -> list[tuple[_Sized, ...]]:
    """Values in the order given, as many together as one message may have.

    >>> list(map(len, batches([PointValue(("a",), b"x")] * 70)))
    [64, 6]
    """
    made: list[list[_Sized]] = []
    size = 0
    for value in values:
        size += value.size
        if not made or len(made[-1]) == BATCH or size > MAX_BATCH_BYTES:
            made.append([])
            size = value.size
        made[-1].append(value)
    return [tuple(batch) for batch in made]


@peer_message
class ZoneReport(PeerMessage):
    """What a peer holds, whom it takes for neighbours, and who is to retain copies of its values.

    It is sent regularly, and at every change.
    """

    sequence: int
    claims: tuple[Claim, ...]
    neighbours: tuple[PeerClaims, ...]
    retaining: tuple[str, ...]
    is_answer: bool


@peer_message
class ZoneRequest(PeerMessage):
    """Routed to the owner of a point, which gives a part of its zone to the newcomer."""

    newcomer: str
    key: CanPoint
    hops: int


@peer_message
class OwnerRequest(PeerMessage):
    """Routed to the owner of a point, which reports to the peer that looks for it."""

    address: str
    key: CanPoint
    hops: int


@peer_message
class PairRequest(PeerMessage):
    """Passed to ever smaller zones, until one can merge with a neighbour: its peer may take a zone of the holder."""

    holder: str
    hops: int


@peer_message
class PairFound(PeerMessage):
    """The sender's zone can merge with a neighbour's, so the sender can take another zone."""


@peer_message
class ZoneHandover(PeerMessage):
    """Gives a zone to the receiver, with the peers around it."""

    claim: Claim
    neighbours: tuple[PeerClaims, ...]


@peer_message
class HandoverRefused(PeerMessage):
    """The receiver takes no zones: the giver keeps it."""

    claim: Claim


@peer_message
class ValueTransfer(PeerMessage):
    """Copies of what is stored, for its owner or for a replica."""

    traffic: ClassVar[str] = "data"

    values: tuple[PointEntry, ...]


@peer_message
class CanRequest(PeerMessage):
    """A request on its way: to the owner of its key, or to all peers that meet its region.

    `version` is that of the value to be stored or removed; the body is the value, or the digest of the one to remove.
    `sender_corner` is the lower corner of the zone it was sent from, the address of the answer. Once a multicast has
    entered its region, `root` is where, and `target` the lower corner of the zone it is for.
    """

    traffic: ClassVar[str] = "lookup"

    origin: str
    sequence: int
    kind: str
    key: CanPoint
    region: tuple[CoordinateRange, ...]
    root: CanPoint | None
    target: CanPoint | None
    body: bytes
    version: int
    sender_corner: CanPoint
    hops: int
    patience: int


@peer_message
class CanAnswer(PeerMessage):
    """The merged answers of a part of the tree of a request, for the peer whose zone has the corner `to`.

    Its values are the last ones; `parts` is how many messages with more of them were sent before it. `version` and
    `is_present` are what holds for the value of a request that stores or removes one.
    """

    traffic: ClassVar[str] = "lookup"

    origin: str
    sequence: int
    to: CanPoint
    child: CanPoint
    values: tuple[PointValue, ...]
    parts: int
    version: int
    is_present: bool
    executor: PeerClaims | None
    peers: int
    hops: int
    relays: int
    is_complete: bool
    is_truncated: bool


@peer_message
class CanAnswerPart(PeerMessage):
    """Values of an answer that are too many for one message."""

    traffic: ClassVar[str] = "lookup"

    origin: str
    sequence: int
    to: CanPoint
    child: CanPoint
    index: int
    values: tuple[PointValue, ...]
    relays: int


# Commands


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateCan(Command):
    """Become the first peer, with the whole space."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinCan(Command):
    """Join by any peers of the overlay, at a point or, without one, at a random point."""

    contacts: tuple[str, ...]
    key: CanPoint | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveCan(Command):
    """Hand over all zones and stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAtPoint(Command):
    """Store a value at a point, beside others that are there. The tag comes back with the result."""

    tag: str
    point: CanPoint
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveAtPoint(Command):
    """Remove a value from a point."""

    tag: str
    point: CanPoint
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FindInRegion(Command):
    """Find the values in a region; a region that is a point is looked up at its owner."""

    tag: str
    region: Region
    is_flooded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MulticastToRegion(Command):
    """Deliver a payload to every peer whose zone meets a region."""

    tag: str
    region: Region
    payload: bytes
    is_flooded: bool = False


# Outcomes


@dataclass(frozen=True, slots=True, kw_only=True)
class CanStateChanged(Outcome):
    """The peer entered a state of `TRANSITIONS`."""

    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CanDelivered(Outcome):
    """A multicast reached a zone of this peer."""

    origin: str
    payload: bytes
    zone: Zone


@dataclass(frozen=True, slots=True, kw_only=True)
class CanValues(Outcome):
    """Values that a command found; the result follows when it has all of them."""

    tag: str
    values: tuple[PointValue, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CanResult(Outcome):
    """The answer to a command. If it is not complete, some peer did not answer in time, at the last attempt, too.

    `count` is how many values were found; of a result that is truncated there are more. `owner` is the peer that
    stored, removed or looked up a value at a point.
    """

    tag: str
    count: int
    owner: str | None
    peers: int
    hops: int
    is_complete: bool
    is_truncated: bool
    attempts: int


# Checks


def is_valid_zone(space: Space, zone: Zone) -> bool:
    """Whether a zone from elsewhere is a box of this space."""
    return (
        is_valid_point(space, zone.lower)
        and len(zone.upper) == space.dimensions
        and 0 <= zone.axis < space.dimensions
        and all(upper is None or (len(upper) <= MAX_COORDINATE and is_text(upper)) for upper in zone.upper)
        and all(upper is None or lower < upper for lower, upper in zip(zone.lower, zone.upper, strict=True))
    )


def is_valid_point(space: Space, point: CanPoint) -> bool:
    return len(point) == space.dimensions and all(len(text) <= MAX_COORDINATE and is_text(text) for text in point)


def is_valid_region(space: Space, region: tuple[CoordinateRange, ...]) -> bool:
    """Whether a region from elsewhere has an interval of text on each dimension, none of them empty."""
    return is_valid_point(space, tuple(interval.low for interval in region)) and all(
        interval.high is None or (len(interval.high) <= MAX_COORDINATE and interval.low <= interval.high)
        for interval in region
    )


@lru_cache(maxsize=16_384)
def are_valid_claims(space: Space, claims: tuple[Claim, ...]) -> bool:
    """Whether claims are few, disjoint and of this space."""
    return (
        len(claims) <= MAX_CLAIMS
        and all(is_valid_zone(space, claim.zone) for claim in claims)
        and all(0 <= claim.takeovers <= MAX_VERSION and 0 <= claim.version <= MAX_VERSION for claim in claims)
        and not any(left.zone.overlaps(right.zone) for i, left in enumerate(claims) for right in claims[i + 1 :])
    )
