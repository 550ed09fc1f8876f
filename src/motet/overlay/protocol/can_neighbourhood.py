"""What a peer of a CAN knows of the zones around it: its own, its neighbours', and who is next for a message or a zone.

There are no messages and no timers here; `can` keeps this state up to date.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from motet.overlay.protocol.can_messages import Claim, PeerClaims
from motet.overlay.protocol.coordinates import CanPoint
from motet.overlay.protocol.node import SECOND
from motet.overlay.protocol.zones import Space, Zone, nearer_zones, next_hop, sides


@dataclass(frozen=True, slots=True, kw_only=True)
class CanSettings:
    """How a peer behaves; times in microseconds. All peers of an overlay agree on the space only."""

    period: int = 5 * SECOND  # between reports
    failure_after: int = 17 * SECOND  # without a report a neighbour has failed
    takeover_step: int = 2 * SECOND  # between the candidates for a vacant zone
    join_after: int = 20 * SECOND  # until a join is tried again
    replicas: int = 3
    request_timeout: int = 20 * SECOND
    attempts: int = 5  # of a request
    is_greedy: bool = False  # route by distance, not by Algorithm 3.1
    is_proximity_aware: bool = False  # prefer near peers among those that make progress
    max_shortcuts: int = 0  # peers far away that are used as neighbours, too


@dataclass(slots=True)
class Neighbour:
    """What a neighbour last reported; provisional until it has reported to this peer itself."""

    claims: tuple[Claim, ...]
    reported_at: int
    neighbours: tuple[PeerClaims, ...] = ()
    retaining: tuple[str, ...] = ()
    is_provisional: bool = False


@dataclass(slots=True)
class Vacancy:
    """An area without a known owner; `heirs` are the peers around it."""

    claim: Claim
    since: int
    heirs: tuple[PeerClaims, ...]
    has_failed: bool  # its owner failed; otherwise the new owner is about to report
    due: int = 0


class Neighbourhood:
    """The zones and neighbours of a peer."""

    def __init__(self, space: Space, settings: CanSettings, round_trips: dict[str, int]) -> None:
        self.space = space
        self.settings = settings
        self.round_trips = round_trips
        self.address = ""
        self.clock: Callable[[], int] = lambda: 0
        self.claims: list[Claim] = []
        self.neighbours: dict[str, Neighbour] = {}
        self.vacancies: list[Vacancy] = []
        self.shortcuts: OrderedDict[str, tuple[Zone, ...]] = OrderedDict()
        self.suspects: dict[str, int] = {}

    def clear(self) -> None:
        """Hold no zone and know no neighbour."""
        self.claims = []
        self.neighbours = {}
        self.vacancies = []
        self.shortcuts.clear()
        self.suspects.clear()

    def zones(self) -> list[Zone]:
        return [claim.zone for claim in self.claims]

    def neighbour_zones(self) -> Iterator[tuple[Zone, str]]:
        return ((claim.zone, address) for address, n in self.neighbours.items() for claim in n.claims)

    def covered_zones(self) -> list[Zone]:
        """All zones with a known owner."""
        return [*self.zones(), *(zone for zone, _ in self.neighbour_zones())]

    def is_related(self, claims: Iterable[Claim]) -> bool:
        """Whether a peer with these claims is a neighbour, or disputes a zone."""
        return any(
            own.overlaps(claim.zone) or own.side_of(claim.zone) is not None for claim in claims for own in self.zones()
        )

    # Where messages go

    def owned_claim(self, point: CanPoint) -> Claim | None:
        """The own claim whose zone contains a point."""
        return next((claim for claim in self.claims if claim.zone.contains(point)), None)

    def owner_of(self, point: CanPoint) -> str | None:
        """The owner of a point as far as this peer knows: itself, a neighbour, or None."""
        if self.owned_claim(point) is not None:
            return self.address
        return next((address for zone, address in self.neighbour_zones() if zone.contains(point)), None)

    def sides(self, zone: Zone) -> dict[tuple[int, int], list[str]]:
        """The neighbours of one of its zones, by dimension and direction."""
        zones = {address: [claim.zone for claim in neighbour.claims] for address, neighbour in self.neighbours.items()}
        return sides(zone, zones)

    def nearest_zone(self, key: CanPoint) -> Zone | None:
        """The own zone from which a message to a key is sent on."""
        return min(self.zones(), key=lambda zone: (self.space.distance(zone, key), zone.lower), default=None)

    def next_hops(self, key: CanPoint) -> list[str]:
        """The peers to which a message for a key is forwarded, the best first; peers that did not answer come last."""
        zone = self.nearest_zone(key)
        if zone is None:
            return []
        owners: dict[Zone, str] = {}
        for neighbour_zone, address in self.neighbour_zones():
            owners[neighbour_zone] = address
        hops = self._ordered_zones(zone, owners, key)
        return sorted(dict.fromkeys(owners[hop] for hop in hops), key=self.is_suspect)

    def _ordered_zones(self, zone: Zone, owners: dict[Zone, str], key: CanPoint) -> list[Zone]:
        """Zones to go to, the best first; a zone that contains the key is better than all others."""
        for address, zones in self.shortcuts.items():
            owners |= {
                far: address for far in zones if far not in owners and (self.settings.is_greedy or far.contains(key))
            }
        direct = [hop for hop in owners if hop.contains(key)]
        hops = (
            nearer_zones(self.space, zone, list(owners), key)
            if self.settings.is_greedy
            else next_hop(zone, owners, key)
        )
        own = self.space.distance(zone, key)
        if self.settings.is_proximity_aware and self.settings.is_greedy and own:
            # The time for each part of the way, as far as round trips are known.
            hops.sort(key=lambda hop: self.round_trips.get(owners[hop], SECOND) / (own - self.space.distance(hop, key)))
        return list(dict.fromkeys([*direct, *hops]))

    def add_shortcut(self, address: str, zones: tuple[Zone, ...]) -> None:
        """Use a peer far away as a neighbour, too; the oldest shortcut is dropped."""
        if self.settings.max_shortcuts and address != self.address:
            self.shortcuts[address] = zones
            self.shortcuts.move_to_end(address)
            if len(self.shortcuts) > self.settings.max_shortcuts:
                self.shortcuts.popitem(last=False)

    def is_suspect(self, address: str) -> bool:
        """Whether a peer did not acknowledge a message lately and has not reported since."""
        return self.suspects.get(address, -self.settings.failure_after) > self.clock() - self.settings.failure_after

    def suspect(self, address: str) -> None:
        """A peer did not acknowledge a message: prefer others until it reports."""
        self.suspects[address] = self.clock()
        self.shortcuts.pop(address, None)

    # Candidates for zones

    def heirs(self, zone: Zone) -> list[str]:
        """The neighbours around a zone that can take it, the best first."""
        return [
            address
            for address, neighbour in sorted(
                self.neighbours.items(), key=lambda item: self.takeover_rank(zone, item[0], item[1].claims)
            )
            if not neighbour.is_provisional and any(claim.zone.side_of(zone) for claim in neighbour.claims)
        ]

    def takeover_rank(self, zone: Zone, address: str, claims: Iterable[Claim]) -> tuple[object, ...]:
        zones = [claim.zone for claim in claims]
        can_merge = any(self.space.merge(zone, candidate) is not None for candidate in zones)
        return not can_merge, sum(self.space.volume(candidate) for candidate in zones), address

    def merging_neighbour(self, zone: Zone) -> str | None:
        """A neighbour that can merge a zone with its own; of two peers with several zones, the smaller address."""
        return next(
            (
                address
                for address, neighbour in sorted(self.neighbours.items())
                if not neighbour.is_provisional and (len(neighbour.claims) == 1 or address < self.address)
                if any(self.space.merge(zone, claim.zone) is not None for claim in neighbour.claims)
            ),
            None,
        )

    def smallest_neighbour(self, below: Zone | None) -> str | None:
        """The neighbour with the smallest zone; only if it is smaller than a given one."""
        volumes = [
            (self.space.volume(claim.zone), address)
            for address, neighbour in self.neighbours.items()
            if not neighbour.is_provisional
            for claim in neighbour.claims
        ]
        if not volumes:
            return None
        volume, address = min(volumes)
        return address if below is None or volume < self.space.volume(below) else None
