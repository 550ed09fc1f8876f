"""A peer of a CAN: how it joins and leaves, hands zones over, and holds one zone again after it took over another.

What it knows of other peers, and what it does when one of them fails, is in `can_membership`; what its zones store is
copied by `can_storage`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from motet.model.errors import DecodeError, UsageError
from motet.overlay.protocol.can_membership import (
    JOINING,
    LEAVING,
    LEFT,
    MAX_HOPS,
    MEMBER,
    SUSPENDED,
    TRANSITIONS,
    CanMembership,
)
from motet.overlay.protocol.can_messages import (
    Claim,
    CreateCan,
    HandoverRefused,
    JoinCan,
    LeaveCan,
    PairFound,
    PairRequest,
    PeerClaims,
    ZoneHandover,
    ZoneReport,
    ZoneRequest,
    are_valid_claims,
    is_valid_point,
)
from motet.overlay.protocol.can_neighbourhood import CanSettings, Neighbour
from motet.overlay.protocol.coordinates import CanPoint
from motet.overlay.protocol.node import Timer, from_fields
from motet.overlay.protocol.requests import ReliableLink
from motet.overlay.protocol.zones import Space, Zone


class Can(CanMembership):
    """The protocol of a peer in a CAN."""

    def __init__(self, space: Space, link: ReliableLink, settings: CanSettings | None = None) -> None:
        super().__init__(space, link, settings)
        self.commands = {CreateCan: self._create, JoinCan: self._join, LeaveCan: self._leave}
        link.handlers |= {
            ZoneRequest: self._join_requested,
            PairRequest: self._pair_requested,
            PairFound: self._pair_found,
            ZoneHandover: self._handover_received,
            HandoverRefused: self._handover_refused,
        }
        self._join_key: CanPoint | None = None
        self._attempt = 0
        self._tick_due = 0

    # Commands and timers

    def started(self, disk: Mapping[str, bytes]) -> None:
        """Restore zones and contacts; the peer stays suspended until it has checked its neighbours."""
        self.members.address = self.node.address
        self.members.clock = lambda: self.node.now
        stored = disk.get("can.zones")
        if stored is None:
            return
        try:
            report = from_fields(json.loads(stored))
        except (ValueError, DecodeError):
            report = None
        if not isinstance(report, ZoneReport) or not are_valid_claims(self.space, report.claims):
            self.node.counts["can.unreadable"] += 1
            return
        self._add_contacts(entry.address for entry in report.neighbours)
        if report.claims:
            self.members.claims = list(report.claims)
            self._enter("zones restored")
            self._introduce(report.neighbours, is_provisional=True)
            self._start_ticking()
            self._zones_changed()

    def expired(self, timer: Timer) -> None:
        if timer[1] == "tick":
            self._tick()
        elif timer[1] == "join":
            self._try_join()
        else:
            self._take_vacancies()

    def statistics(self) -> dict[str, int]:
        return {
            "zones": len(self.members.claims),
            "neighbours": len(self.members.neighbours),
            "vacancies": len(self.members.vacancies),
            "open faces": len(self._open_since),
            "shortcuts": len(self.members.shortcuts),
            "contacts": len(self._contacts),
        }

    def _create(self, _: CreateCan) -> None:
        self._enter("create")
        self.members.claims = [Claim(self.space.whole, 0, 0)]
        self._start_ticking()
        self._zones_changed()

    def _join(self, command: JoinCan) -> None:
        if not command.contacts:
            raise UsageError("a join needs the address of a peer", advice="Name a peer, or create the overlay.")
        if command.key is not None and not is_valid_point(self.space, command.key):
            raise UsageError(f"{command.key} is no point of the space", advice="Pass a coordinate for each dimension.")
        self._join_key = command.key
        self._enter("join")
        self._add_contacts(reversed(command.contacts))
        self._start_ticking()
        self._try_join()

    def _leave(self, _: LeaveCan) -> None:
        self._enter("leave")
        self._hand_over_all()

    def _start_ticking(self) -> None:
        fraction = int.from_bytes(hashlib.blake2b(self.node.address.encode(), digest_size=4).digest(), "big")
        self._tick_due = self.node.now + 1 + self.settings.period * fraction // 2**32
        self.node.set_timer((self.name, "tick"), self._tick_due)

    def _tick(self) -> None:
        if self.state == LEFT:
            return
        now = self.node.now
        if now - self._tick_due > self.settings.failure_after // 2:
            self._clock_jumped()
        self._ticks += 1
        self._tick_due = now + self.settings.period
        self.node.set_timer((self.name, "tick"), self._tick_due)
        self._detect_failures()
        self._check_faces()
        self._take_vacancies()
        for address in self.members.neighbours:
            self._report(address)
        if self._ticks % 4 == 0:
            for address in self._contacts:
                if address not in self.members.neighbours:
                    self._report(address)
        self._report_to_acquaintance()
        if self.state == MEMBER:
            self._reassign()
        elif self.state == LEAVING:
            self._hand_over_all()
        elif self.state == SUSPENDED and not self.members.neighbours:
            self._enter("neighbours checked")
        self.contents.tick()
        self._persist()

    def _clock_jumped(self) -> None:
        """This peer was not scheduled for long: silence of its neighbours means nothing."""
        if self.members.claims:
            self._enter("clock jumped")
        for neighbour in self.members.neighbours.values():
            neighbour.reported_at = self.node.now
        for vacancy in self.members.vacancies:
            vacancy.since = self.node.now
        self._open_since.clear()

    # Join

    def _try_join(self) -> None:
        if self.state != JOINING:
            return
        self._attempt += 1
        contacts = [*reversed(self._contacts), *self._acquaintances]
        if contacts:
            key = self._join_key or self._random_point(self._attempt)
            contact = contacts[(self._attempt - 1) % len(contacts)]
            self._link.send(contact, ZoneRequest(newcomer=self.node.address, key=key, hops=0))
        self.node.set_timer((self.name, "join"), self.node.now + self.settings.join_after)

    def _random_point(self, attempt: int) -> CanPoint:
        """A point by the hash of address and attempt, uniform over the space."""
        alphabet = self.space.alphabet
        digests = [
            hashlib.blake2b(f"{self.node.address} {attempt} {i}".encode(), digest_size=8).digest()
            for i in range(self.space.dimensions)
        ]
        return tuple(alphabet.text_at(int.from_bytes(digest, "big"), 2**64) for digest in digests)

    def _join_requested(self, _: str, request: ZoneRequest) -> None:
        if not is_valid_point(self.space, request.key) or self.state != MEMBER:
            return
        if self.members.owned_claim(request.key) is None:
            self._forward(request.key, ZoneRequest(newcomer=request.newcomer, key=request.key, hops=request.hops + 1))
            return
        newcomer = request.newcomer
        if newcomer in self._copying or newcomer in self._given or newcomer == self.node.address:
            return
        zone = self._zone_to_give(request.key)
        if zone is not None:
            self._hand_over(newcomer, *zone)

    def _zone_to_give(self, key: CanPoint) -> tuple[Claim, Zone] | None:
        """An extra zone, or the upper half of the zone with a point: the lower half keeps its corner, its address."""
        free = [claim for claim in self.members.claims if claim not in {c for c, _ in self._copying.values()}]
        if len(self.members.claims) > 1 and len(free) > 1:
            extra = min(free, key=lambda claim: self.space.volume(claim.zone))
            return extra, extra.zone
        claim = next((claim for claim in free if claim.zone.contains(key)), None)
        halves = self.space.split(claim.zone, self.contents.points_in(claim.zone)) if claim else None
        return (claim, halves[1]) if claim and halves else None

    # Handover

    def _hand_over(self, to: str, claim: Claim, zone: Zone) -> None:
        """Copy what a zone stores to another peer, then give it the zone."""
        self._copying[to] = claim, zone
        self.contents.copy(to, zone, lambda is_copied: self._copied(to, is_copied=is_copied))

    def _copied(self, to: str, *, is_copied: bool) -> None:
        claim, zone = self._copying.pop(to)
        if not is_copied or claim not in self.members.claims:
            return
        given = Claim(zone, claim.takeovers, claim.version + 1)
        self.members.claims.remove(claim)
        rest = self.space.subtract(claim.zone, zone)
        self.members.claims += [Claim(piece, claim.takeovers, claim.version + 1) for piece in rest]
        self._given[to] = given
        neighbour = self.members.neighbours.get(to) or Neighbour((), self.node.now, is_provisional=True)
        neighbour.claims = (*neighbour.claims, given)
        self.members.neighbours[to] = neighbour
        around = [
            *self._zone_report(is_answer=False).neighbours,
            PeerClaims(self.node.address, tuple(self.members.claims)),
        ]
        self.node.record(self.node.address, "handed %s over to %s", zone, to)
        self._link.send(
            to,
            ZoneHandover(claim=given, neighbours=tuple(around)),
            acknowledged=lambda: self._handed_over(to),
            failed=lambda: self._take_back(to),
        )
        self._zones_changed()

    def _handed_over(self, to: str) -> None:
        self._given.pop(to, None)
        if self.state == LEAVING:
            self._hand_over_all()

    def _take_back(self, to: str) -> None:
        """The receiver did not acknowledge a zone; if it holds it after all, its claim ranks higher."""
        claim = self._given.pop(to, None)
        self.members.neighbours.pop(to, None)
        if claim is not None:
            self._gain([claim._replace(takeovers=claim.takeovers + 1)])

    def _handover_received(self, sender: str, message: ZoneHandover) -> bool:
        """Take a zone; a refused message is not acknowledged, so that the giver still knows what it gave."""
        if not are_valid_claims(self.space, (message.claim,)):
            self.node.counts["can.invalid"] += 1
            return True
        if (self.state, "zone received") not in TRANSITIONS:
            self._link.send(sender, HandoverRefused(claim=message.claim))
            return False
        self.node.record(self.node.address, "received %s from %s", message.claim.zone, sender)
        self._enter("zone received")
        pieces = self.space.uncovered(message.claim.zone, self.members.zones())
        self._gain([message.claim._replace(zone=piece) for piece in pieces])
        self._introduce(message.neighbours, is_provisional=True)
        self.contents.zones_changed()
        for address in self.members.neighbours:
            self._report(address)
        return True

    def _handover_refused(self, sender: str, message: HandoverRefused) -> None:
        claim = self._given.get(sender)
        if claim is not None and claim == message.claim:
            del self._given[sender]
            self._gain([claim._replace(version=claim.version + 1)])

    # Leave

    def all_zones_lost(self) -> None:
        if self.state in (MEMBER, SUSPENDED):
            self._enter("zones lost")
            self._join_key = None
            self._try_join()
        elif self.state == LEAVING and not self._given:
            self._finish_leaving()

    def _hand_over_all(self) -> None:
        """Give each zone to the neighbour that can merge it, or to the one of smallest volume."""
        if self.state != LEAVING:
            return
        copied = [claim for claim, _ in self._copying.values()]
        for claim in [claim for claim in self.members.claims if claim not in copied]:
            heirs = [
                heir for heir in self.members.heirs(claim.zone) if heir not in self._copying and heir not in self._given
            ]
            if heirs:
                self._hand_over(heirs[0], claim, claim.zone)
        if not self.members.neighbours or not (self.members.claims or self._given):
            self._finish_leaving()

    def _finish_leaving(self) -> None:
        if self.contents.is_settled() and self.state == LEAVING:
            self._enter("zones given")
            self.members.clear()
            self._persist()
            self.node.cancel_timer((self.name, "tick"))

    # Reassignment: one zone per peer again

    def _reassign(self) -> None:
        if len(self.members.claims) < 2 or self._copying or self._given:
            return
        for claim in sorted(self.members.claims, key=lambda claim: self.space.volume(claim.zone)):
            address = self.members.merging_neighbour(claim.zone)
            if address is not None:
                self._hand_over(address, claim, claim.zone)
                return
        smaller = self.members.smallest_neighbour(None)
        if smaller is not None:
            self._link.send(smaller, PairRequest(holder=self.node.address, hops=0))

    def _pair_requested(self, _: str, request: PairRequest) -> None:
        """Zones of smallest volume have a sibling that is not split, so the way down ends at a pair."""
        if self.state != MEMBER or request.holder == self.node.address or len(self.members.claims) != 1:
            return
        (claim,) = self.members.claims
        if self.members.merging_neighbour(claim.zone) is not None:
            self._link.send(request.holder, PairFound())
            return
        smaller = self.members.smallest_neighbour(claim.zone)
        if smaller is not None and request.hops < MAX_HOPS:
            self._link.send(smaller, PairRequest(holder=request.holder, hops=request.hops + 1))

    def _pair_found(self, sender: str, _: PairFound) -> None:
        if self.state == MEMBER and len(self.members.claims) > 1 and not self._copying and not self._given:
            claim = min(self.members.claims, key=lambda claim: self.space.volume(claim.zone))
            self._hand_over(sender, claim, claim.zone)
