"""Who holds which zone of a CAN: reports to neighbours, disputes, failure and takeover, and the states of a peer.

Every peer reports its claims to its neighbours. Whatever a peer sees given up without a new owner is vacant; after a
while, in the order of their rank, the peers around it take it over. Overlapping claims, as after a network split, are
resolved in pairs: the lower ranked peer cuts its zone. How zones are given away on purpose is in `can`.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Protocol

from motet.model.errors import UsageError
from motet.overlay.protocol.can_messages import (
    CanStateChanged,
    Claim,
    OwnerRequest,
    PeerClaims,
    ZoneReport,
    ZoneRequest,
    are_valid_claims,
    is_valid_point,
)
from motet.overlay.protocol.can_neighbourhood import CanSettings, Neighbour, Neighbourhood, Vacancy
from motet.overlay.protocol.coordinates import CanPoint
from motet.overlay.protocol.node import SECOND, NodeProtocol, to_fields
from motet.overlay.protocol.requests import MAX_SENDERS, ReliableLink
from motet.overlay.protocol.zones import Space, Zone, open_faces

NEW, JOINING, MEMBER, SUSPENDED, LEAVING, LEFT = "new", "joining", "member", "suspended", "leaving", "left"

TRANSITIONS: dict[tuple[str, str], str] = {
    (NEW, "create"): MEMBER,
    (NEW, "join"): JOINING,
    (NEW, "zones restored"): SUSPENDED,
    (JOINING, "zone received"): MEMBER,
    (JOINING, "leave"): LEFT,
    (MEMBER, "zone received"): MEMBER,
    (MEMBER, "zones lost"): JOINING,
    (MEMBER, "clock jumped"): SUSPENDED,
    (MEMBER, "leave"): LEAVING,
    (SUSPENDED, "neighbours checked"): MEMBER,
    (SUSPENDED, "zone received"): SUSPENDED,
    (SUSPENDED, "zones lost"): JOINING,
    (SUSPENDED, "clock jumped"): SUSPENDED,
    (SUSPENDED, "leave"): LEAVING,
    (LEAVING, "zones given"): LEFT,
    (LEAVING, "zones lost"): LEFT,
    (LEAVING, "clock jumped"): LEAVING,
    (LEFT, "create"): MEMBER,
    (LEFT, "join"): JOINING,
}
"""The states of a peer: (state, what happened) to the next state. Anything else is refused or ignored."""

MAX_HOPS = 1024
MAX_CONTACTS = 64  # addresses of former neighbours


class ZoneContents(Protocol):
    """What the peer's zones store, as `can_storage` implements it."""

    def points_in(self, zone: Zone) -> list[CanPoint]: ...

    def copy(self, address: str, zone: Zone, finished: Callable[[bool], None]) -> None: ...

    def zones_changed(self) -> None: ...

    def neighbour_reported(self, address: str) -> None: ...

    def tick(self) -> None: ...

    def retaining(self) -> tuple[str, ...]: ...

    def is_settled(self) -> bool: ...


class CanMembership(NodeProtocol):
    """The zones of a peer and what it knows of those around them."""

    name = "can"

    def __init__(self, space: Space, link: ReliableLink, settings: CanSettings | None) -> None:
        super().__init__()
        self.space = space
        self.settings = settings or CanSettings()
        self.state = NEW
        self.members = Neighbourhood(space, self.settings, link.round_trips)
        self.contents: ZoneContents
        self.receivers = {ZoneReport: self._report_received}
        link.handlers[OwnerRequest] = self._owner_requested
        self._link = link
        self._contacts: OrderedDict[str, None] = OrderedDict()  # former neighbours and peers to join by
        self._acquaintances: OrderedDict[str, None] = OrderedDict()  # peers further away
        self._sequences: OrderedDict[str, int] = OrderedDict()
        self._contacted: dict[str, int] = {}
        self._copying: dict[str, tuple[Claim, Zone]] = {}  # by receiver: the zone to be handed over when copied
        self._given: dict[str, Claim] = {}  # handed over, not acknowledged yet
        self._open_since: dict[Zone, int] = {}
        self._persisted: ZoneReport | None = None
        self._sequence = 0
        self._ticks = 0

    def known_addresses(self) -> tuple[str, ...]:
        """The addresses of peers by which this one may join again: its neighbours and former ones."""
        return (*self.members.neighbours, *self._contacts)

    def all_zones_lost(self) -> None:
        """This peer has no zone any more."""

    def _enter(self, event: str) -> None:
        state = TRANSITIONS.get((self.state, event))
        if state is None:
            raise UsageError(f"{self.node.address} is {self.state}", advice=f"'{event}' is not possible now.")
        if state != self.state:
            self.node.record(self.node.address, "%s: %s to %s", event, self.state, state)
            self.state = state
            self.node.report(CanStateChanged(state=state))

    def _add_contacts(self, addresses: Iterable[str]) -> None:
        for address in addresses:
            if address != self.node.address:
                self._contacts[address] = None
                self._contacts.move_to_end(address)
        while len(self._contacts) > MAX_CONTACTS:
            self._contacts.popitem(last=False)

    # Reports

    def _report_to_acquaintance(self) -> None:
        """Report to one peer further away: it heals a split whose sides have no common neighbour left."""
        if self._acquaintances:
            address, _ = self._acquaintances.popitem(last=False)
            if address not in self.members.neighbours:
                self._acquaintances[address] = None
                self._report(address)

    def _report(self, to: str, *, is_answer: bool = False) -> None:
        self._sequence = max(self._sequence + 1, self.node.now)
        self.node.send(to, self._zone_report(is_answer=is_answer))

    def _zone_report(self, *, is_answer: bool) -> ZoneReport:
        return ZoneReport(
            sequence=self._sequence,
            claims=tuple(self.members.claims),
            neighbours=tuple(
                PeerClaims(address, neighbour.claims)
                for address, neighbour in self.members.neighbours.items()
                if not neighbour.is_provisional
            ),
            retaining=self.contents.retaining(),
            is_answer=is_answer,
        )

    def _report_received(self, sender: str, report: ZoneReport) -> None:
        if not are_valid_claims(self.space, report.claims) or sender == self.node.address:
            self.node.counts["can.invalid"] += 1
            return
        if report.sequence <= self._sequences.get(sender, -1):
            return
        self._sequences[sender] = report.sequence
        self._sequences.move_to_end(sender)
        if len(self._sequences) > MAX_SENDERS:
            self._sequences.popitem(last=False)
        if self.state in (NEW, LEFT):
            if not report.is_answer:
                self._report(sender, is_answer=True)
            return
        self.members.suspects.pop(sender, None)
        is_disputed = self._resolve(sender, report.claims)
        is_new = self._update_neighbour(sender, report)
        if self.state == SUSPENDED:
            self._enter("neighbours checked")
        if is_disputed or (not report.is_answer and (is_new or sender not in self.members.neighbours)):
            self._report(sender, is_answer=not is_disputed)
        self._introduce(report.neighbours)
        for address in (sender, *(entry.address for entry in report.neighbours)):
            if address != self.node.address and address not in self.members.neighbours:
                self._acquaintances.setdefault(address)
        while len(self._acquaintances) > MAX_CONTACTS:
            self._acquaintances.popitem(last=False)
        self.contents.neighbour_reported(sender)

    def _update_neighbour(self, sender: str, report: ZoneReport) -> bool:
        """Store what a peer reports; whether it was no neighbour before, or only a provisional one."""
        earlier = self.members.neighbours.pop(sender, None)
        if self.members.is_related(report.claims):
            self.members.neighbours[sender] = Neighbour(
                report.claims, self.node.now, report.neighbours, report.retaining
            )
            self._contacts.pop(sender, None)
        if earlier is not None and earlier.claims != report.claims:
            self._add_vacancies(earlier, has_failed=False)
        return sender in self.members.neighbours and (earlier is None or earlier.is_provisional)

    def _introduce(self, entries: Iterable[PeerClaims], *, is_provisional: bool = False) -> None:
        """Report to peers that may be neighbours and do not know it yet."""
        horizon = self.node.now - self.settings.period
        for address, claims in entries:
            if address == self.node.address or address in self.members.neighbours:
                continue
            if not are_valid_claims(self.space, claims) or not self.members.is_related(claims):
                continue
            if is_provisional:
                self.members.neighbours[address] = Neighbour(claims, self.node.now, is_provisional=True)
            if is_provisional or self._contacted.get(address, horizon) <= horizon:
                self._contacted[address] = self.node.now
                if len(self._contacted) > MAX_SENDERS:
                    self._contacted.clear()
                self._report(address)

    def _resolve(self, sender: str, claims: tuple[Claim, ...]) -> bool:
        """Cut own zones where a higher ranked claim overlaps them; whether a lower ranked one does."""
        is_disputed = has_lost = False
        for claim in claims:
            for own in [own for own in self.members.claims if own.zone.overlaps(claim.zone)]:
                if own.rank(self.node.address) < claim.rank(sender):
                    is_disputed = True
                    continue
                has_lost = True
                self.node.record(self.node.address, "%s holds %s", sender, claim.zone)
                self.members.claims.remove(own)
                self.members.claims += [own._replace(zone=z) for z in self.space.subtract(own.zone, claim.zone)]
        if has_lost:
            self.node.counts["can.yielded"] += 1
            self._add_contacts([sender])
            self._zones_changed()
        return is_disputed

    # Zones

    def _zones_changed(self) -> None:
        """Merge zones, forget peers that are no neighbours any more, and tell all of it to the neighbours."""
        self._merge_own()
        before = list(self.members.neighbours)
        for address in before:
            if not self.members.is_related(self.members.neighbours[address].claims):
                del self.members.neighbours[address]
        self.contents.zones_changed()
        for address in before:
            self._report(address)
        self._persist()
        if not self.members.claims:
            if self.state in (MEMBER, SUSPENDED):
                self._add_contacts(before)
            self.all_zones_lost()

    def _merge_own(self) -> None:
        claims = self.members.claims
        copied = [claim for claim, _ in self._copying.values()]
        pair = next(
            (
                (left, right, zone)
                for i, left in enumerate(claims)
                for right in claims[i + 1 :]
                if left not in copied and right not in copied
                if (zone := self.space.merge(left.zone, right.zone)) is not None
            ),
            None,
        )
        if pair is not None:
            left, right, zone = pair
            claims.remove(left)
            claims.remove(right)
            claims.append(Claim(zone, max(left.takeovers, right.takeovers), max(left.version, right.version) + 1))
            self._merge_own()

    def _persist(self) -> None:
        """Store the zones and the neighbours, if they have changed."""
        neighbours = tuple([PeerClaims(a, neighbour.claims) for a, neighbour in self.members.neighbours.items()])
        claims = tuple(self.members.claims)
        report = ZoneReport(sequence=0, claims=claims, neighbours=neighbours, retaining=(), is_answer=False)
        if report != self._persisted:
            self._persisted = report
            self.node.persist("can.zones", json.dumps(to_fields(report)).encode())

    def _gain(self, claims: list[Claim]) -> None:
        covered = self.members.zones()
        for claim in claims:
            pieces = self.space.uncovered(claim.zone, covered)
            self.members.claims += [claim._replace(zone=piece) for piece in pieces]
        if self.state == JOINING and self.members.claims:
            self._enter("zone received")
        self._zones_changed()

    # Failure and takeover

    def _detect_failures(self) -> None:
        horizon = self.node.now - self.settings.failure_after
        for address in [a for a, n in self.members.neighbours.items() if n.reported_at < horizon]:
            failed = self.members.neighbours.pop(address)
            self.node.counts["can.failures"] += 1
            self.node.record(self.node.address, "%s has failed", address)
            self._add_contacts([address])
            self._add_vacancies(failed, has_failed=True)

    def _add_vacancies(self, neighbour: Neighbour, *, has_failed: bool) -> None:
        """Note what a neighbour held and no known peer holds now."""
        covers = self.members.covered_zones()
        covers += [vacancy.claim.zone for vacancy in self.members.vacancies]
        for claim in neighbour.claims:
            for piece in self.space.uncovered(claim.zone, covers):
                vacancy = Vacancy(claim._replace(zone=piece), self.node.now, neighbour.neighbours, has_failed)
                self.members.vacancies.append(vacancy)
        self._take_vacancies()

    def _take_vacancies(self) -> None:
        """Take the vacant areas around own zones whose time has come, and set a timer for the next one."""
        covers = self.members.covered_zones()
        remaining: list[Vacancy] = []
        taken: list[Vacancy] = []
        for vacancy in self.members.vacancies:
            for piece in self.space.uncovered(vacancy.claim.zone, covers):
                if any(own.side_of(piece) for own in self.members.zones()):
                    part = Vacancy(vacancy.claim._replace(zone=piece), vacancy.since, vacancy.heirs, vacancy.has_failed)
                    part.due = part.since + self._takeover_delay(part)
                    (taken if part.due <= self.node.now and self.state == MEMBER else remaining).append(part)
        self.members.vacancies = remaining
        if taken:
            self._take(taken)
        elif remaining:
            due = min(vacancy.due for vacancy in remaining)
            self.node.set_timer((self.name, "takeover"), max(due, self.node.now + SECOND))

    def _takeover_delay(self, vacancy: Vacancy) -> int:
        """One step for each better candidate that is known; longer if the new owner is about to report."""
        zone = vacancy.claim.zone
        candidates = {address: neighbour.claims for address, neighbour in self.members.neighbours.items()}
        own = self.members.takeover_rank(zone, self.node.address, self.members.claims)
        better = sum(
            self.members.takeover_rank(zone, address, claims) < own
            for address, claims in candidates.items()
            if any(claim.zone.side_of(zone) for claim in claims)
        )
        return better * self.settings.takeover_step + (0 if vacancy.has_failed else self.settings.failure_after)

    def _take(self, vacancies: list[Vacancy]) -> None:
        for vacancy in vacancies:
            self.node.counts["can.takeovers"] += 1
            self.node.record(self.node.address, "took over %s", vacancy.claim.zone)
        self._gain([v.claim._replace(takeovers=v.claim.takeovers + 1) for v in vacancies])
        for vacancy in vacancies:
            self._introduce(vacancy.heirs, is_provisional=True)

    def _check_faces(self) -> None:
        """Look for the owners of areas across faces that no neighbour covers; take them if there is none for long."""
        if self.state not in (MEMBER, LEAVING):
            return
        zones = self.members.covered_zones()
        covers = [*zones, *(vacancy.claim.zone for vacancy in self.members.vacancies)]
        parts = [part for own in self.members.zones() for part in open_faces(self.space, own, covers)]
        self._open_since = {part: self._open_since.get(part, self.node.now) for part in parts}
        for part, since in self._open_since.items():
            if self.node.now - since > 3 * self.settings.failure_after and self.state == MEMBER:
                # A claim that loses against any peer that holds a part of this area.
                claim = Claim(part, max(own.takeovers for own in self.members.claims) + 8, 0)
                self._take([Vacancy(claim, self.node.now, (), has_failed=True)])
                return
            request = OwnerRequest(address=self.node.address, key=part.lower, hops=0)
            around = list(self.members.neighbours)
            if around:  # each time by another neighbour: the direct way may lead across the open face
                self._link.send(around[self._ticks % len(around)], request)

    def _owner_requested(self, _: str, request: OwnerRequest) -> None:
        if not is_valid_point(self.space, request.key) or request.address == self.node.address:
            return
        if self.members.owned_claim(request.key) is not None:
            self._report(request.address)
        else:
            self._forward(request.key, OwnerRequest(address=request.address, key=request.key, hops=request.hops + 1))

    # Routing

    def _forward(self, key: CanPoint, message: ZoneRequest | OwnerRequest) -> None:
        """Send a message on towards a key; at a hole it ends here."""
        hops = self.members.next_hops(key)
        if hops and message.hops < MAX_HOPS:
            self._link.send(hops[0], message, failed=lambda: self.members.suspect(hops[0]))
