"""Messages of a CAN, and what of them is checked before it is believed."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from motet.overlay.protocol.coordinates import CanPoint, CoordinateRange, is_text
from motet.overlay.protocol.messages import PeerMessage, peer_message
from motet.overlay.protocol.zones import Space, Zone

MAX_CLAIMS = 256  # of one peer
MAX_COORDINATE = 65_536  # characters
MAX_VERSION = 2**62


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


@peer_message
class ZoneReport(PeerMessage):
    """What a peer holds and whom it takes for neighbours: sent regularly, and at every change."""

    sequence: int
    claims: tuple[Claim, ...]
    neighbours: tuple[PeerClaims, ...]
    replicas: tuple[str, ...]
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
    """Copies of stored values, for their owner or for a replica."""

    traffic = "data"

    values: tuple[PointValue, ...]


@peer_message
class CanRequest(PeerMessage):
    """A request on its way: to the owner of its key, or to all peers that meet its region.

    `sender_corner` is the lower corner of the zone it was sent from, the address of the answer. Once a multicast has
    entered its region, `root` is where, and `target` the lower corner of the zone it is for.
    """

    traffic = "lookup"

    origin: str
    sequence: int
    kind: str
    key: CanPoint
    region: tuple[CoordinateRange, ...]
    root: CanPoint | None
    target: CanPoint | None
    body: bytes
    sender_corner: CanPoint
    hops: int
    patience: int


@peer_message
class CanAnswer(PeerMessage):
    """The merged answers of a part of the tree of a request, for the peer whose zone has the corner `to`."""

    traffic = "lookup"

    origin: str
    sequence: int
    to: CanPoint
    child: CanPoint
    values: tuple[PointValue, ...]
    executor: PeerClaims | None
    peers: int
    hops: int
    relays: int
    is_complete: bool


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
