"""What the zones of a peer store: values at points, replicated at neighbours, handed over with zones.

A peer retains every value it has received until the owner of its point has it. Values inside own zones are copied to
the replicas; values outside are copies for a neighbour, or on their way to an owner. So values follow their zones
through takeovers and network splits, whoever held them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from motet.overlay.protocol.can import LEFT, NEW, Can
from motet.overlay.protocol.can_messages import PointValue, ValueTransfer, is_valid_point
from motet.overlay.protocol.coordinates import CanPoint
from motet.overlay.protocol.node import NodeProtocol
from motet.overlay.protocol.reliable_link import ReliableLink
from motet.overlay.protocol.zones import Region, Zone, region_contains

BATCH = 64  # values of one message
MAX_BATCH_BYTES = 262_144
RETENTION = 2  # failure periods after its owner has it, a copy that is no replica is dropped


@dataclass(slots=True)
class _Copying:
    """The points still to be copied to a peer; one batch is on its way at a time."""

    points: dict[CanPoint, None] = field(default_factory=dict)
    is_sending: bool = False
    finished: list[tuple[Zone, Callable[[bool], None]]] = field(default_factory=list)


class CanStorage(NodeProtocol):
    """The stored values of a peer and their replicas."""

    name = "storage"

    def __init__(self, can: Can, link: ReliableLink) -> None:
        super().__init__()
        self.values: dict[CanPoint, dict[bytes, None]] = {}
        self.replicas: tuple[str, ...] = ()
        self._can = can
        self._link = link
        self.put_at_owner: Callable[[CanPoint, bytes, Callable[[bool], None]], None]
        self._own_points: dict[CanPoint, None] = {}
        self._returning: set[CanPoint] = set()
        self._copies: dict[str, _Copying] = {}
        self._confirmed: dict[CanPoint, tuple[str, int]] = {}  # whose copy of a foreign value, since when
        self._unreplicated: dict[CanPoint, set[str]] = {}  # own points, and the replicas that have not got them yet
        self._replicated: dict[CanPoint, list[Callable[[], None]]] = {}
        can.contents = self
        link.handlers[ValueTransfer] = self._transfer_received

    def started(self, disk: Mapping[str, bytes]) -> None:
        for key, value in disk.items():
            if key.startswith("can.value."):
                point, texts = json.loads(value)
                self.values[tuple(point)] = dict.fromkeys(bytes.fromhex(text) for text in texts)

    def statistics(self) -> dict[str, int]:
        own = sum(
            len(values) for point, values in self.values.items() if self._can.members.owned_claim(point) is not None
        )
        return {
            "own": own,
            "copies": sum(map(len, self.values.values())) - own,
            "unreplicated": len(self._unreplicated),
            "replicas": len(self.replicas),
        }

    # For requests

    def put(self, point: CanPoint, value: bytes, replicated: Callable[[], None]) -> None:
        """Store a value in an own zone; call `replicated` when all replicas have it."""
        self._add([PointValue(point, value)])
        self._own_points[point] = None
        self._replicated.setdefault(point, []).append(replicated)
        self._replicate([point])

    def get(self, region: Region, zone: Zone) -> tuple[PointValue, ...]:
        """The values in a region and an own zone, in the order of their points."""
        return tuple(
            PointValue(point, value)
            for point in sorted(p for p in self.values if zone.contains(p) and region_contains(region, p))
            for value in sorted(self.values[point])
        )

    # For the membership

    def points_in(self, zone: Zone) -> list[CanPoint]:
        return [point for point in self.values if zone.contains(point)]

    def copy(self, address: str, zone: Zone, finished: Callable[[bool], None]) -> None:
        """Copy all values in a zone to a peer, also those that are added meanwhile."""
        copying = self._copies.setdefault(address, _Copying())
        copying.finished.append((zone, finished))
        copying.points |= dict.fromkeys(self.points_in(zone))
        self._send_batch(address)

    def zones_changed(self) -> None:
        """Choose replicas among the new neighbours, and replicate the values of new zones."""
        self._choose_replicas()
        own = [point for point in self.values if self._can.members.owned_claim(point) is not None]
        gained = [point for point in own if point not in self._own_points]
        self._own_points = dict.fromkeys(own)
        for point in [point for point in self._unreplicated if point not in self._own_points]:
            self._forget_replication(point)
        self._replicate(gained)

    def neighbour_reported(self, address: str) -> None:
        self._choose_replicas()

    def tick(self) -> None:
        self._choose_replicas()
        self._return_foreign()

    def is_settled(self) -> bool:
        """Whether the owner of every value retained here has it."""
        return not any(self._is_unconfirmed(point) for point in self.values) or not self._can.members.neighbours

    # Values

    def _add(self, values: Iterable[PointValue]) -> list[CanPoint]:
        """Store values; the points that have a new one."""
        changed: dict[CanPoint, None] = {}
        for point, value in values:
            stored = self.values.setdefault(point, {})
            if value not in stored:
                stored[value] = None
                changed[point] = None
        for point in changed:
            self._persist(point)
            for address, copying in list(self._copies.items()):
                if any(zone.contains(point) for zone, _ in copying.finished):
                    copying.points[point] = None
                    self._send_batch(address)
        return list(changed)

    def _drop(self, point: CanPoint) -> None:
        del self.values[point]
        self._confirmed.pop(point, None)
        self._persist(point)

    def _persist(self, point: CanPoint) -> None:
        key = "can.value." + hashlib.blake2b("\0".join(point).encode(), digest_size=16).hexdigest()
        values = self.values.get(point)
        stored = json.dumps([list(point), [value.hex() for value in values]]).encode() if values else None
        self.node.persist(key, stored)

    def _transfer_received(self, sender: str, transfer: ValueTransfer) -> bool:
        if self._can.state in (NEW, LEFT):
            return False
        valid = [value for value in transfer.values if is_valid_point(self._can.space, value.point)]
        self.node.counts["storage.invalid"] += len(transfer.values) - len(valid)
        changed = self._add(valid)
        own = [point for point in changed if self._can.members.owned_claim(point) is not None]
        self._own_points |= dict.fromkeys(own)
        self._replicate(own, but=sender)
        for point, _ in valid:
            if self._can.members.owner_of(point) == sender:
                self._confirmed[point] = sender, self.node.now
        return True

    # Replicas

    def _choose_replicas(self) -> None:
        """Retain replicas while they are neighbours; fill up by the hash of both addresses."""
        if not self._can.members.claims:
            self.replicas = ()
            return
        neighbours = self._can.members.neighbours
        candidates = [
            address
            for address, neighbour in neighbours.items()
            if not neighbour.is_provisional and not self._can.members.is_suspect(address)
        ]
        retained = [address for address in self.replicas if address in candidates]
        added = sorted((address for address in candidates if address not in retained), key=self._replica_order)
        chosen = tuple((*retained, *added)[: self._can.settings.replicas])
        if chosen == self.replicas:
            return
        lost = [address for address in self.replicas if address not in chosen]
        new = [address for address in chosen if address not in self.replicas]
        self.replicas = chosen
        self._replicate(self._own_points, to=new)
        for address in lost:
            self._replica_has(address, list(self._unreplicated))

    def _replica_order(self, address: str) -> bytes:
        return hashlib.blake2b(f"{self.node.address} {address}".encode(), digest_size=8).digest()

    def _replicate(self, points: Iterable[CanPoint], *, to: Iterable[str] | None = None, but: str = "") -> None:
        points = dict.fromkeys(points)
        addresses = [address for address in (self.replicas if to is None else to) if address != but]
        for address in addresses:
            for point in points:
                self._unreplicated.setdefault(point, set()).add(address)
            self._copies.setdefault(address, _Copying()).points |= points
            self._send_batch(address)
        for point in points:
            if not self._unreplicated.get(point):
                self._forget_replication(point)

    def _replica_has(self, address: str, points: Iterable[CanPoint]) -> None:
        for point in points:
            missing = self._unreplicated.get(point)
            if missing is not None:
                missing.discard(address)
                if not missing:
                    self._forget_replication(point)

    def _forget_replication(self, point: CanPoint) -> None:
        self._unreplicated.pop(point, None)
        if self._can.members.owned_claim(point) is None:
            self._replicated.pop(point, None)  # the owner answers; the origin tries again
        for replicated in self._replicated.pop(point, ()):
            replicated()

    # Copying

    def _send_batch(self, address: str) -> None:
        copying = self._copies[address]
        if copying.is_sending:
            return
        batch: list[CanPoint] = []
        size = 0
        for point in copying.points:
            size += sum(map(len, self.values.get(point, ()))) + sum(map(len, point))
            if batch and (len(batch) == BATCH or size > MAX_BATCH_BYTES):
                break
            batch.append(point)
        if not batch:
            del self._copies[address]
            for _, finished in copying.finished:
                finished(True)
            return
        for point in batch:
            del copying.points[point]
        copying.is_sending = True
        values = tuple(PointValue(point, value) for point in batch for value in self.values.get(point, ()))
        self._link.send(
            address,
            ValueTransfer(values=values),
            acknowledged=lambda: self._batch_acknowledged(address, copying, batch),
            failed=lambda: self._copy_failed(address, copying),
        )

    def _batch_acknowledged(self, address: str, copying: _Copying, batch: list[CanPoint]) -> None:
        copying.is_sending = False
        for point in batch:
            if point not in copying.points and self._can.members.owner_of(point) == address:
                self._confirmed[point] = address, self.node.now
        self._replica_has(address, [point for point in batch if point not in copying.points])
        self._send_batch(address)

    def _copy_failed(self, address: str, copying: _Copying) -> None:
        self._copies.pop(address, None)
        self._can.members.suspect(address)
        self._choose_replicas()
        self._replica_has(address, list(self._unreplicated))
        for _, finished in copying.finished:
            finished(False)

    # Values for other owners

    def _is_unconfirmed(self, point: CanPoint) -> bool:
        owner = self._can.members.owner_of(point)
        return owner != self.node.address and (owner is None or self._confirmed.get(point, ("", 0))[0] != owner)

    def _return_foreign(self) -> None:
        """Send values to owners that may not have them; drop copies that the owner does not want here any more."""
        retention = RETENTION * self._can.settings.failure_after
        copied: dict[str, None] = {}
        for point in list(self.values):
            owner = self._can.members.owner_of(point)
            if owner == self.node.address:
                self._confirmed.pop(point, None)
            elif owner is None:
                self._return_afar(point)
            elif not (neighbour := self._can.members.neighbours[owner]).is_provisional:
                confirmed_by, since = self._confirmed.get(point, ("", 0))
                if confirmed_by != owner:
                    self._copies.setdefault(owner, _Copying()).points[point] = None
                    copied[owner] = None
                elif self.node.now - since > retention and self.node.address not in neighbour.replicas:
                    self._drop(point)
        for address in copied:
            self._send_batch(address)

    def _return_afar(self, point: CanPoint) -> None:
        """Put values of a point that belongs to no neighbour; drop them when the owner and its replicas have them."""
        if point in self._returning or len(self._returning) >= BATCH:
            return
        self._returning.add(point)
        values = list(self.values[point])
        pending = len(values)

        def finished(is_stored: bool) -> None:
            nonlocal pending
            pending -= is_stored
            self._returning.discard(point)
            if not pending and self._can.members.owner_of(point) is None and list(self.values.get(point, ())) == values:
                self._drop(point)

        for value in values:
            self.put_at_owner(point, value, finished)
