"""Requests to a CAN: put, find and multicast, and their answers on the reverse path.

A unicast goes to the owner of its key. A multicast goes to a point of its region first, then by the optimal broadcast
to every zone that meets the region, or by naive flooding (Algorithm 3.2). A peer that has forwarded a request waits for
as many answers, merges them and returns one. Answers are addressed to the lower corner of the zone that sent a request.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from motet.model.errors import UsageError
from motet.overlay.protocol.can import LEAVING, MAX_HOPS, MEMBER, Can
from motet.overlay.protocol.can_messages import (
    CanAnswer,
    CanRequest,
    PeerClaims,
    PointValue,
    are_valid_claims,
    is_valid_point,
    is_valid_region,
)
from motet.overlay.protocol.can_neighbourhood import CanSettings
from motet.overlay.protocol.can_storage import CanStorage
from motet.overlay.protocol.coordinates import CanPoint
from motet.overlay.protocol.node import MILLISECOND, SECOND, Command, NodeProtocol, Outcome, PeerNode, Timer
from motet.overlay.protocol.reliable_link import ReliableLink
from motet.overlay.protocol.zones import Region, Space, Zone, broadcast_children, entry_point, region_of

PUT, GET, SEARCH, DELIVER = "put", "get", "search", "deliver"
FLOOD = " by flooding"  # ends the kind of a multicast that is not sent by the optimal broadcast
KINDS = (PUT, GET, SEARCH, DELIVER, SEARCH + FLOOD, DELIVER + FLOOD)
HOP_SHARE = 100 * MILLISECOND  # of the patience of a request, for each hop
MIN_PATIENCE = 2 * SECOND
MAX_SEEN = 8192
MAX_FORWARDS = 3  # peers that are tried for one hop


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAtPoint(Command):
    """Store a value at a point."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class CanDelivered(Outcome):
    """A multicast reached a zone of this peer."""

    origin: str
    payload: bytes
    zone: Zone


@dataclass(frozen=True, slots=True, kw_only=True)
class CanResult(Outcome):
    """The answer to a command. If it is not complete, some peer did not answer in time, at the last attempt, too."""

    tag: str
    values: tuple[PointValue, ...]
    peers: int
    hops: int
    is_complete: bool
    attempts: int


@dataclass(slots=True)
class _Pending:
    """A request that was forwarded, and what has been answered."""

    request: CanRequest
    zone: Zone
    finish: Callable[[CanAnswer], None]
    awaited: set[CanPoint] = field(default_factory=set)
    values: dict[PointValue, None] = field(default_factory=dict)
    executor: PeerClaims | None = None
    peers: int = 0
    hops: int = 0
    is_complete: bool = True
    is_executing: bool = True


class CanRequests(NodeProtocol):
    """The requests of a peer, and those of others that it forwards and answers."""

    name = "requests"

    def __init__(self, can: Can, storage: CanStorage, link: ReliableLink) -> None:
        super().__init__()
        self.commands = {
            StoreAtPoint: lambda c: self._command(c.tag, PUT, self._point_region(c.point), c.value),
            FindInRegion: self._find,
            MulticastToRegion: lambda c: self._command(
                c.tag, DELIVER + FLOOD * c.is_flooded, self._checked(c.region), c.payload
            ),
        }
        link.handlers |= {CanRequest: self._request_received, CanAnswer: self._answer_received}
        storage.put_at_owner = self._put_at_owner
        self._can = can
        self._storage = storage
        self._link = link
        self._sequence = 0
        self._pending: dict[int, _Pending] = {}
        self._awaited: dict[tuple[str, int, CanPoint, CanPoint], int] = {}
        self._seen: OrderedDict[tuple[str, int, CanPoint], None] = OrderedDict()
        self._retries: dict[int, Callable[[], None]] = {}

    def expired(self, timer: Timer) -> None:
        if timer[1] == "retry":
            self._retries.pop(timer[2])()
            return
        pending = self._pending.get(timer[2])
        if pending is not None:
            pending.is_complete = False
            pending.awaited.clear()
            pending.is_executing = False
            self._finish_if_answered(timer[2])

    def statistics(self) -> dict[str, int]:
        return {"pending": len(self._pending), "retries": len(self._retries)}

    # Commands

    def _point_region(self, point: CanPoint) -> Region:
        if not is_valid_point(self._can.space, point):
            raise UsageError(
                f"a point has {self._can.space.dimensions} coordinates without surrogates",
                advice="Pass a tuple of them.",
            )
        return region_of(*point)

    def _checked(self, region: Region) -> Region:
        if not is_valid_region(self._can.space, region):
            raise UsageError(f"a region has {self._can.space.dimensions} intervals", advice="Use region_of(…).")
        return region

    def _find(self, command: FindInRegion) -> None:
        region = self._checked(command.region)
        kind = GET if all(interval.is_fixed for interval in region) else SEARCH + FLOOD * command.is_flooded
        self._command(command.tag, kind, region, b"")

    def _command(self, tag: str, kind: str, region: Region, body: bytes) -> None:
        self._start(kind, region, body, lambda answer, attempts: self._report(tag, answer, attempts))

    def _report(self, tag: str, answer: CanAnswer, attempts: int) -> None:
        self.node.report(
            CanResult(
                tag=tag,
                values=answer.values,
                peers=answer.peers,
                hops=answer.hops,
                is_complete=answer.is_complete,
                attempts=attempts,
            )
        )

    def _put_at_owner(self, point: CanPoint, value: bytes, finished: Callable[[bool], None]) -> None:
        self._start(PUT, region_of(*point), value, lambda answer, _: finished(answer.is_complete))

    def _start(
        self, kind: str, region: Region, body: bytes, finished: Callable[[CanAnswer, int], None], attempt: int = 1
    ) -> None:
        """Make a request of this peer; it is repeated with a new sequence until it is complete."""
        zones = self._can.members.zones()
        zone = zones[0] if zones else self._can.space.whole
        key = entry_point(zone, region)
        zone = self._can.members.nearest_zone(key) or zone
        self._sequence = max(self._sequence + 1, self.node.now)
        request = CanRequest(
            origin=self.node.address,
            sequence=self._sequence,
            kind=kind,
            key=key,
            region=region,
            root=None,
            target=None,
            body=body,
            sender_corner=zone.lower,
            hops=0,
            patience=self._can.settings.request_timeout,
        )

        def answered(answer: CanAnswer) -> None:
            if answer.is_complete or attempt >= self._can.settings.attempts:
                if answer.executor is not None:
                    zones = tuple(claim.zone for claim in answer.executor.claims)
                    self._can.members.add_shortcut(answer.executor.address, zones)
                finished(answer, attempt)
                return
            self.node.counts["requests.repeated"] += 1
            self._retries[request.sequence] = lambda: self._start(kind, region, body, finished, attempt + 1)
            self.node.set_timer((self.name, "retry", request.sequence), self.node.now + SECOND * attempt)

        self.node.record(self._story_key(request), "%s, attempt %d", kind, attempt)
        if zones and self._can.state in (MEMBER, LEAVING):
            self._process(request, answered)
        else:
            answered(self._empty_answer(request, is_complete=False))

    def _story_key(self, request: CanRequest) -> str:
        return f"{request.origin}/{request.sequence}"

    # Requests of peers

    def _request_received(self, sender: str, request: CanRequest) -> bool:
        if not self._is_valid(request):
            self.node.counts["requests.invalid"] += 1
            return True
        if self._can.state not in (MEMBER, LEAVING) or not self._can.members.claims:
            return False
        self._process(request, self._send_answer)
        return True

    def _is_valid(self, request: CanRequest) -> bool:
        space = self._can.space
        points = [request.key, request.sender_corner, *(p for p in (request.root, request.target) if p is not None)]
        return (
            request.kind in KINDS
            and all(is_valid_point(space, point) for point in points)
            and is_valid_region(space, request.region)
            and 0 <= request.hops <= MAX_HOPS
            and (request.root is None) == (request.target is None)
        )

    def _process(self, request: CanRequest, finish: Callable[[CanAnswer], None]) -> None:
        """Forward a request towards its key or target, or execute it and forward it in its region."""
        claim = self._can.members.owned_claim(request.target or request.key)
        zone = claim.zone if claim else None
        if zone is None and request.kind.endswith(FLOOD):
            zone = next((own for own in self._can.members.zones() if own.meets(request.region)), None)
        if zone is None:
            near = self._can.members.nearest_zone(request.target or request.key)
            assert near is not None, "a peer without zones processes no request"
            token = self._await(request, near, finish)
            self._pending[token].is_executing = False
            self._forward(token, request.target or request.key)
            return
        self._execute(request, zone, finish)

    def _await(self, request: CanRequest, zone: Zone, finish: Callable[[CanAnswer], None]) -> int:
        self._sequence = max(self._sequence + 1, self.node.now)
        token = self._sequence
        self._pending[token] = _Pending(request, zone, finish, hops=request.hops)
        patience = min(max(request.patience, MIN_PATIENCE), self._can.settings.request_timeout)
        self.node.set_timer((self.name, "patience", token), self.node.now + patience)
        return token

    def _forward(self, token: int, key: CanPoint, tried: tuple[str, ...] = ()) -> None:
        """Send a request on by one hop; if the peer does not acknowledge it, by the next best one."""
        pending = self._pending.get(token)
        if pending is None:
            return
        hops = [address for address in self._can.members.next_hops(key) if address not in tried]
        if not hops or len(tried) >= MAX_FORWARDS or pending.request.hops >= MAX_HOPS:
            self.node.counts["requests.stuck"] += 1
            self._answer_missing(token, key)
            return
        self.node.record(self._story_key(pending.request), "forwarded to %s", hops[0])

        def failed() -> None:
            self._can.members.suspect(hops[0])
            self._forward(token, key, (*tried, hops[0]))

        self._expect(token, key)
        self._link.send(hops[0], self._onward(pending, pending.request), attempts=3, failed=failed)

    def _onward(self, pending: _Pending, request: CanRequest) -> CanRequest:
        return replace(
            request,
            sender_corner=pending.zone.lower,
            hops=request.hops + 1,
            patience=max(MIN_PATIENCE, min(request.patience, self._can.settings.request_timeout) - HOP_SHARE),
        )

    def _expect(self, token: int, child: CanPoint) -> None:
        pending = self._pending[token]
        pending.awaited.add(child)
        self._awaited[pending.request.origin, pending.request.sequence, pending.zone.lower, child] = token

    def _execute(self, request: CanRequest, zone: Zone, finish: Callable[[CanAnswer], None]) -> None:
        is_multicast = request.kind not in (PUT, GET)
        mark = (request.origin, request.sequence, zone.lower)
        if mark in self._seen:
            self.node.counts["requests.duplicates"] += 1
            finish(self._empty_answer(request, is_complete=True))
            return
        self._seen[mark] = None
        if len(self._seen) > MAX_SEEN:
            self._seen.popitem(last=False)
        self.node.counts["requests.executed"] += 1
        self.node.record(self._story_key(request), "%s executed in %s", request.kind, zone)
        token = self._await(request, zone, finish)
        pending = self._pending[token]
        pending.peers = 1
        if is_multicast:
            self._multicast(token, zone)
        if request.kind == PUT:
            pending.executor = PeerClaims(self.node.address, tuple(self._can.members.claims))
            self._storage.put(request.key, request.body, lambda: self._executed(token))
            return
        if request.kind.startswith(DELIVER):
            self.node.report(CanDelivered(origin=request.origin, payload=request.body, zone=zone))
        else:
            pending.values |= dict.fromkeys(self._storage.get(request.region, zone))
            if not is_multicast:
                pending.executor = PeerClaims(self.node.address, tuple(self._can.members.claims))
        self._executed(token)

    def _executed(self, token: int) -> None:
        if token in self._pending:
            self._pending[token].is_executing = False
            self._finish_if_answered(token)

    def _multicast(self, token: int, zone: Zone) -> None:
        """Send a request to the zones behind this one: its children in the tree, or every neighbour in the region."""
        pending = self._pending[token]
        request = pending.request
        root = request.root or request.key
        owners = dict(self._can.members.neighbour_zones())
        owners |= {own: self.node.address for own in self._can.members.zones() if own != zone}
        if request.kind.endswith(FLOOD):
            children = [
                n for n in owners if n.meets(request.region) and zone.side_of(n) and n.lower != request.sender_corner
            ]
        else:
            children = broadcast_children(zone, owners, request.region, root)
        for child in children:
            self._expect(token, child.lower)
        for child in children:
            onward = replace(self._onward(pending, request), root=root, target=child.lower)
            if owners[child] == self.node.address:
                self._process(onward, self._answered)
            else:
                self.node.counts["requests.multicast"] += 1
                self._send_to_child(token, owners[child], child.lower, onward)

    def _send_to_child(self, token: int, address: str, corner: CanPoint, request: CanRequest) -> None:
        def failed() -> None:
            self._can.members.suspect(address)
            self._answer_missing(token, corner)

        self._link.send(address, request, attempts=4, failed=failed)

    # Answers

    def _empty_answer(self, request: CanRequest, *, is_complete: bool) -> CanAnswer:
        return CanAnswer(
            origin=request.origin,
            sequence=request.sequence,
            to=request.sender_corner,
            child=request.target or request.key,
            values=(),
            executor=None,
            peers=0,
            hops=request.hops,
            relays=0,
            is_complete=is_complete,
        )

    def _answer_missing(self, token: int, child: CanPoint) -> None:
        """A part of the tree of a request cannot be reached."""
        pending = self._pending.get(token)
        if pending is not None:
            pending.is_complete = False
            pending.awaited.discard(child)
            self._finish_if_answered(token)

    def _send_answer(self, answer: CanAnswer) -> None:
        """Send an answer to the owner of its corner, over neighbours if need be."""
        owner = self._can.members.owner_of(answer.to)
        if owner == self.node.address:
            self._answered(answer)
            return
        hops = [owner] if owner is not None else self._can.members.next_hops(answer.to)
        if hops and answer.relays < MAX_HOPS:
            onward = replace(answer, relays=answer.relays + 1)
            self._link.send(hops[0], onward, failed=lambda: self._can.members.suspect(hops[0]))

    def _answer_received(self, sender: str, answer: CanAnswer) -> None:
        space = self._can.space
        points = [answer.to, answer.child, *(value.point for value in answer.values)]
        claims = answer.executor.claims if answer.executor else ()
        if not all(is_valid_point(space, point) for point in points) or not are_valid_claims(space, claims):
            self.node.counts["requests.invalid"] += 1
        else:
            self._send_answer(answer)

    def _answered(self, answer: CanAnswer) -> None:
        token = self._awaited.pop((answer.origin, answer.sequence, answer.to, answer.child), None)
        pending = self._pending.get(token) if token is not None else None
        if token is None or pending is None or answer.child not in pending.awaited:
            self.node.counts["requests.late"] += 1
            return
        pending.awaited.discard(answer.child)
        pending.values |= dict.fromkeys(answer.values)
        pending.executor = pending.executor or answer.executor
        pending.peers += answer.peers
        pending.hops = max(pending.hops, answer.hops)
        pending.is_complete = pending.is_complete and answer.is_complete
        self._finish_if_answered(token)

    def _finish_if_answered(self, token: int) -> None:
        pending = self._pending[token]
        if pending.awaited or pending.is_executing:
            return
        del self._pending[token]
        self.node.cancel_timer((self.name, "patience", token))
        answer = self._empty_answer(pending.request, is_complete=pending.is_complete)
        pending.finish(
            replace(
                answer,
                values=tuple(pending.values),
                executor=pending.executor,
                peers=pending.peers,
                hops=pending.hops,
            )
        )


def can_node(address: str, space: Space, settings: CanSettings | None = None) -> PeerNode:
    """A peer of a CAN with all its protocols.

    >>> can_node("a", Space(2)).statistics()["can.zones"]
    0
    """
    link = ReliableLink()
    can = Can(space, link, settings)
    storage = CanStorage(can, link)
    return PeerNode(address, [link, can, storage, CanRequests(can, storage, link)])
