"""Requests to a CAN: store, remove, find and multicast, and their answers on the reverse path.

A unicast goes to the owner of its key. A multicast goes to a point of its region first, then by the optimal broadcast
to every zone that meets the region, or by naive flooding (Algorithm 3.2). A peer that has forwarded a request waits for
as many answers, merges them and returns one, in several messages if it is large. Answers are addressed to the lower
corner of the zone that sent a request.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from motet.model.errors import UsageError
from motet.overlay.protocol.can import Can
from motet.overlay.protocol.can_membership import LEAVING, MAX_HOPS, MEMBER
from motet.overlay.protocol.can_messages import (
    MAX_VALUE,
    MAX_VERSION,
    CanAnswer,
    CanAnswerPart,
    CanDelivered,
    CanRequest,
    CanResult,
    CanValues,
    FindInRegion,
    MulticastToRegion,
    PeerClaims,
    PointEntry,
    PointValue,
    RemoveAtPoint,
    StoreAtPoint,
    are_valid_claims,
    batches,
    digest_of,
    is_valid_point,
    is_valid_region,
)
from motet.overlay.protocol.can_neighbourhood import CanSettings
from motet.overlay.protocol.can_storage import CanStorage
from motet.overlay.protocol.coordinates import CanPoint
from motet.overlay.protocol.node import MILLISECOND, SECOND, NodeProtocol, PeerNode, Timer
from motet.overlay.protocol.requests import ReliableLink
from motet.overlay.protocol.zones import Region, Space, Zone, broadcast_children, entry_point, region_of

PUT, REMOVE, GET, SEARCH, DELIVER = "put", "remove", "get", "search", "deliver"
FLOOD = " by flooding"  # ends the kind of a multicast that is not sent by the optimal broadcast
KINDS = (PUT, REMOVE, GET, SEARCH, DELIVER, SEARCH + FLOOD, DELIVER + FLOOD)
HOP_SHARE = 100 * MILLISECOND  # of the patience of a request, for each hop
MIN_PATIENCE = 2 * SECOND
MAX_SEEN = 8192
MAX_FORWARDS = 3  # peers that are tried for one hop
MAX_ANSWER_BYTES = 1 << 25  # of the values of a request; further ones are left out


@dataclass(slots=True)
class _Pending:
    """A request that was forwarded, and what has been answered."""

    request: CanRequest
    zone: Zone
    finish: Callable[[CanAnswer], None]
    awaited: set[CanPoint] = field(default_factory=set)
    parts: dict[CanPoint, set[int]] = field(default_factory=dict)  # of the answer of each peer, without its last
    last_parts: dict[CanPoint, CanAnswer] = field(default_factory=dict)  # that have overtaken others
    values: dict[PointValue, None] = field(default_factory=dict)
    size: int = 0
    version: int = 0
    is_present: bool = False
    executor: PeerClaims | None = None
    peers: int = 0
    hops: int = 0
    is_complete: bool = True
    is_truncated: bool = False
    is_executing: bool = True

    def add(self, values: Iterable[PointValue]) -> None:
        """Take over values, as many as the answer may have."""
        for value in values:
            self.size += value.size
            if self.size > MAX_ANSWER_BYTES:
                self.is_truncated = True
                return
            self.values[value] = None


class CanRequests(NodeProtocol):
    """The requests of a peer, and those of others that it forwards and answers."""

    name = "requests"

    def __init__(self, can: Can, storage: CanStorage, link: ReliableLink) -> None:
        super().__init__()
        self.commands = {
            StoreAtPoint: lambda c: self._change(c.tag, PUT, c.point, c.value, c.value),
            RemoveAtPoint: lambda c: self._change(c.tag, REMOVE, c.point, c.value, digest_of(c.value)),
            FindInRegion: self._find,
            MulticastToRegion: self._deliver,
        }
        link.handlers |= {
            CanRequest: self._request_received,
            CanAnswer: self._answer_received,
            CanAnswerPart: self._answer_received,
        }
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

    def _change(self, tag: str, kind: str, point: CanPoint, value: bytes, body: bytes) -> None:
        self._check_size("value", value)
        if not is_valid_point(self._can.space, point):
            raise UsageError(
                f"a point has {self._can.space.dimensions} coordinates without surrogates",
                advice="Pass a tuple of them.",
            )
        region = region_of(*point)
        self._start(kind, region, body, lambda answer, n: self._report(tag, answer, n), max(1, self.node.now))

    def _find(self, command: FindInRegion) -> None:
        region = self._checked(command.region)
        kind = GET if all(interval.is_fixed for interval in region) else SEARCH + FLOOD * command.is_flooded
        self._start(kind, region, b"", lambda answer, attempts: self._report(command.tag, answer, attempts))

    def _deliver(self, command: MulticastToRegion) -> None:
        self._check_size("payload", command.payload)
        kind, region = DELIVER + FLOOD * command.is_flooded, self._checked(command.region)
        self._start(kind, region, command.payload, lambda answer, n: self._report(command.tag, answer, n))

    def _checked(self, region: Region) -> Region:
        if not is_valid_region(self._can.space, region):
            raise UsageError(f"a region has {self._can.space.dimensions} intervals", advice="Use region_of(…).")
        return region

    def _check_size(self, what: str, content: bytes) -> None:
        if len(content) > MAX_VALUE:
            raise UsageError(
                f"a {what} of {len(content):,} bytes; {MAX_VALUE:,} are allowed",
                advice="Divide it, and store its pieces at points of their own.",
            )

    def _report(self, tag: str, answer: CanAnswer, attempts: int) -> None:
        for values in batches(answer.values):
            self.node.report(CanValues(tag=tag, values=values))
        self.node.report(
            CanResult(
                tag=tag,
                count=len(answer.values),
                owner=answer.executor and answer.executor.address,
                peers=answer.peers,
                hops=answer.hops,
                is_complete=answer.is_complete,
                is_truncated=answer.is_truncated,
                attempts=attempts,
            )
        )

    def _put_at_owner(self, entry: PointEntry, finished: Callable[[bool], None]) -> None:
        """Have the owner of a point take an entry over; if the owner has a newer one, that is as good."""
        kind, body = (REMOVE, entry.digest) if entry.value is None else (PUT, entry.value)
        region = region_of(*entry.point)
        self._start(kind, region, body, lambda answer, _: finished(answer.is_complete), entry.version, is_copy=True)

    def _start(
        self,
        kind: str,
        region: Region,
        body: bytes,
        finished: Callable[[CanAnswer, int], None],
        version: int = 0,
        *,
        is_copy: bool = False,
        attempt: int = 1,
    ) -> None:
        """Make a request of this peer; it is repeated with a new sequence until it is complete.

        A repetition has the same version, so that a late one does not undo what came after it. If something newer
        holds while the command is still open (a clock is ahead of this one), the next attempt is newer.
        """
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
            version=version,
            sender_corner=zone.lower,
            hops=0,
            patience=self._can.settings.request_timeout,
        )

        def answered(answer: CanAnswer) -> None:
            is_outdated = version and not is_copy and answer.is_complete and answer.is_present != (kind == PUT)
            next_version = min(answer.version + 1, MAX_VERSION) if is_outdated else version
            if is_outdated:
                answer = replace(answer, is_complete=False)
            if answer.is_complete or attempt >= self._can.settings.attempts:
                if answer.executor is not None:
                    zones = tuple(claim.zone for claim in answer.executor.claims)
                    self._can.members.add_shortcut(answer.executor.address, zones)
                finished(answer, attempt)
                return
            self.node.counts["requests.repeated"] += 1
            self._retries[request.sequence] = lambda: self._start(
                kind, region, body, finished, next_version, is_copy=is_copy, attempt=attempt + 1
            )
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
            and (request.kind not in (PUT, REMOVE) or self._entry_of(request).problem is None)
        )

    def _entry_of(self, request: CanRequest) -> PointEntry:
        """What a request stores: a value, or the mark of one that is removed."""
        if request.kind == PUT:
            return PointEntry.of(request.key, request.body, request.version)
        return PointEntry(request.key, request.body, request.version, None)

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
        is_multicast = request.kind not in (PUT, REMOVE, GET)
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
        if not is_multicast:
            pending.executor = PeerClaims(self.node.address, tuple(self._can.members.claims))
        if request.kind in (PUT, REMOVE):
            present = self._storage.apply(self._entry_of(request))
            pending.version, pending.is_present = present.version, present.value is not None
            self._storage.replicate(present.key, lambda: self._executed(token))
            return
        if request.kind.startswith(DELIVER):
            self.node.report(CanDelivered(origin=request.origin, payload=request.body, zone=zone))
        else:
            pending.add(self._storage.get(request.region, zone))
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
            parts=0,
            version=0,
            is_present=False,
            executor=None,
            peers=0,
            hops=request.hops,
            relays=0,
            is_complete=is_complete,
            is_truncated=False,
        )

    def _answer_missing(self, token: int, child: CanPoint) -> None:
        """A part of the tree of a request cannot be reached."""
        pending = self._pending.get(token)
        if pending is not None:
            pending.is_complete = False
            pending.awaited.discard(child)
            self._finish_if_answered(token)

    def _send_answer(self, answer: CanAnswer) -> None:
        """Send an answer to the owner of its corner, in as many messages as its values need, one after the other."""
        *parts, last = batches(answer.values) or [()]
        messages: list[CanAnswer | CanAnswerPart] = [
            CanAnswerPart(
                origin=answer.origin,
                sequence=answer.sequence,
                to=answer.to,
                child=answer.child,
                index=index,
                values=values,
                relays=answer.relays,
            )
            for index, values in enumerate(parts)
        ]
        messages.append(replace(answer, values=last, parts=len(parts)))
        remaining = iter(messages)

        def send_next() -> None:
            message = next(remaining, None)
            if message is not None:
                self._relay(message, send_next)

        send_next()

    def _relay(self, answer: CanAnswer | CanAnswerPart, sent: Callable[[], None] | None = None) -> None:
        """Send an answer, or a part of one, to the owner of its corner, over neighbours if need be."""
        owner = self._can.members.owner_of(answer.to)
        if owner == self.node.address:
            self._answered(answer)
            if sent is not None:
                sent()
            return
        hops = [owner] if owner is not None else self._can.members.next_hops(answer.to)
        if hops and answer.relays < MAX_HOPS:
            onward = replace(answer, relays=answer.relays + 1)
            suspect = self._can.members.suspect
            self._link.send(hops[0], onward, acknowledged=sent, failed=lambda: suspect(hops[0]))

    def _answer_received(self, sender: str, answer: CanAnswer | CanAnswerPart) -> None:
        space = self._can.space
        points = [answer.to, answer.child, *(value.point for value in answer.values)]
        executor = answer.executor if isinstance(answer, CanAnswer) else None
        claims = executor.claims if executor else ()
        if not all(is_valid_point(space, point) for point in points) or not are_valid_claims(space, claims):
            self.node.counts["requests.invalid"] += 1
        else:
            self._relay(answer)

    def _answered(self, answer: CanAnswer | CanAnswerPart) -> None:
        mark = (answer.origin, answer.sequence, answer.to, answer.child)
        token = self._awaited.get(mark)
        pending = self._pending.get(token) if token is not None else None
        if token is None or pending is None or answer.child not in pending.awaited:
            self._awaited.pop(mark, None)
            self.node.counts["requests.late"] += 1
            return
        parts = pending.parts.setdefault(answer.child, set())
        if isinstance(answer, CanAnswer):
            pending.last_parts[answer.child] = answer
        elif answer.index not in parts:
            parts.add(answer.index)
            pending.add(answer.values)
        last = pending.last_parts.get(answer.child)
        if last is not None and len(parts) >= last.parts:
            del self._awaited[mark]
            self._merge(pending, last)
            self._finish_if_answered(token)

    def _merge(self, pending: _Pending, answer: CanAnswer) -> None:
        pending.awaited.discard(answer.child)
        pending.add(answer.values)
        pending.executor = pending.executor or answer.executor
        pending.version, pending.is_present = answer.version, answer.is_present
        pending.peers += answer.peers
        pending.hops = max(pending.hops, answer.hops)
        pending.is_complete = pending.is_complete and answer.is_complete
        pending.is_truncated = pending.is_truncated or answer.is_truncated

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
                version=pending.version,
                is_present=pending.is_present,
                executor=pending.executor,
                peers=pending.peers,
                hops=pending.hops,
                is_truncated=pending.is_truncated,
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
