"""What the zones of a peer store: values at points, replicated at neighbours, handed over with zones.

A peer retains every entry it has received until the owner of its point has it. Entries inside own zones are copied to
the replicas; those outside are copies for a neighbour, or on their way to an owner. So values follow their zones
through takeovers and network splits, whoever held them. A removed value leaves an entry without its content, which
moves as values do: wherever a copy of the value is still held, the newer entry replaces it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from motet.overlay.protocol.can import Can
from motet.overlay.protocol.can_membership import LEFT, NEW
from motet.overlay.protocol.can_messages import (
    BATCH,
    EntryKey,
    PointEntry,
    PointValue,
    ValueTransfer,
    batches,
    is_valid_point,
)
from motet.overlay.protocol.coordinates import CanPoint
from motet.overlay.protocol.node import NodeProtocol
from motet.overlay.protocol.requests import ReliableLink
from motet.overlay.protocol.zones import Region, Zone, region_contains

MAX_RETURNS = 64  # entries that are put at an owner further away at the same time
RETENTION = 2  # failure periods after its owner has it and has last named this peer, a copy is dropped


@dataclass(slots=True)
class _Copying:
    """The entries still to be copied to a peer; one batch is on its way at a time."""

    keys: dict[EntryKey, None] = field(default_factory=dict)
    is_sending: bool = False
    finished: list[tuple[Zone, Callable[[bool], None]]] = field(default_factory=list)


class CanStorage(NodeProtocol):
    """The stored values of a peer and their replicas."""

    name = "storage"

    def __init__(self, can: Can, link: ReliableLink) -> None:
        super().__init__()
        self.entries: dict[CanPoint, dict[bytes, PointEntry]] = {}
        self.replicas: tuple[str, ...] = ()
        self._can = can
        self._link = link
        self.put_at_owner: Callable[[PointEntry, Callable[[bool], None]], None]
        self._own: dict[EntryKey, None] = {}  # entries in own zones
        self._owners: dict[CanPoint, str | None] = {}  # of points, while the zones around are unchanged
        self._zones_around: tuple[object, ...] = ()
        self._returning: set[EntryKey] = set()
        self._copies: dict[str, _Copying] = {}
        self._confirmed: dict[EntryKey, tuple[str, int]] = {}  # whose copy of a foreign entry, since when
        self._unreplicated: dict[EntryKey, set[str]] = {}  # own entries, and the replicas that have not got them yet
        self._replicated: dict[EntryKey, list[Callable[[], None]]] = {}
        can.contents = self
        link.handlers[ValueTransfer] = self._transfer_received

    def started(self, disk: Mapping[str, bytes]) -> None:
        for name, data in disk.items():
            if name.startswith("can.value."):
                point, digest, version, value = json.loads(data)
                entry = PointEntry(
                    tuple(point), bytes.fromhex(digest), version, None if value is None else bytes.fromhex(value)
                )
                self.entries.setdefault(entry.point, {})[entry.digest] = entry
        self.zones_changed()  # the zones were restored before the values

    def statistics(self) -> dict[str, int]:
        """Values in own zones, copies of others, marks of removed ones, and what the replicas have not got yet."""
        values = [entry for entry in self._all() if entry.value is not None]
        own = sum(self._is_own(entry.point) for entry in values)
        return {
            "own": own,
            "copies": len(values) - own,
            "removed": sum(map(len, self.entries.values())) - len(values),
            "unreplicated": len(self._unreplicated),
            "replicas": len(self.replicas),
        }

    # For requests

    def apply(self, entry: PointEntry) -> PointEntry:
        """Store or remove a value in an own zone; the entry that holds then, which may be a newer one."""
        self._add([entry])
        self._own[entry.key] = None
        return self.entries[entry.point][entry.digest]

    def replicate(self, key: EntryKey, replicated: Callable[[], None]) -> None:
        """Copy an entry to the replicas, and call `replicated` when all of them have it."""
        self._replicated.setdefault(key, []).append(replicated)
        self._replicate([key])

    def get(self, region: Region, zone: Zone) -> Iterator[PointValue]:
        """The values in a region and an own zone, in the order of their points."""
        for point in sorted(p for p in self.entries if zone.contains(p) and region_contains(region, p)):
            for value in sorted(entry.value for entry in self.entries[point].values() if entry.value is not None):
                yield PointValue(point, value)

    # For the membership

    def points_in(self, zone: Zone) -> list[CanPoint]:
        """The points in a zone that have a value, one for each value."""
        return [entry.point for entry in self._all() if entry.value is not None and zone.contains(entry.point)]

    def copy(self, address: str, zone: Zone, finished: Callable[[bool], None]) -> None:
        """Copy everything in a zone to a peer, also what is added meanwhile."""
        copying = self._copies.setdefault(address, _Copying())
        copying.finished.append((zone, finished))
        copying.keys |= dict.fromkeys(entry.key for entry in self._all() if zone.contains(entry.point))
        self._send_batch(address)

    def zones_changed(self) -> None:
        """Choose replicas among the new neighbours, and replicate what is in new zones."""
        self._choose_replicas()
        own = dict.fromkeys(entry.key for entry in self._all() if self._is_own(entry.point))
        gained = [key for key in own if key not in self._own]
        self._own = own
        for key in [key for key in self._unreplicated if key not in self._own]:
            self._end_replication(key)
        self._replicate(gained)

    def neighbour_reported(self, address: str) -> None:
        self._choose_replicas()

    def tick(self) -> None:
        self._choose_replicas()
        self._return_foreign()

    def retaining(self) -> tuple[str, ...]:
        """The peers that are to retain their copies: the replicas and, until these have everything, all neighbours."""
        is_replicated = len(self.replicas) == self._can.settings.replicas and not self._unreplicated
        return self.replicas if is_replicated else tuple(self._can.members.neighbours)

    def is_settled(self) -> bool:
        """Whether the owner of everything retained here has it."""
        self._note_zones()
        return not self._can.members.neighbours or not any(
            self._owner(entry.point) != self.node.address and not self._is_confirmed(entry) for entry in self._all()
        )

    # Entries

    def _all(self) -> Iterator[PointEntry]:
        return (entry for entries in self.entries.values() for entry in entries.values())

    def _current(self, key: EntryKey) -> PointEntry | None:
        return self.entries.get(key.point, {}).get(key.digest)

    def _is_own(self, point: CanPoint) -> bool:
        return self._can.members.owned_claim(point) is not None

    def _add(self, entries: Iterable[PointEntry]) -> list[EntryKey]:
        """Store entries that are newer than what is here; their keys."""
        changed: dict[EntryKey, None] = {}
        for entry in entries:
            stored = self.entries.setdefault(entry.point, {})
            present = stored.get(entry.digest)
            if present is None or present.rank < entry.rank:
                stored[entry.digest] = entry
                changed[entry.key] = None
        for key in changed:
            self._confirmed.pop(key, None)
            self._persist(key)
            for address, copying in list(self._copies.items()):
                if any(zone.contains(key.point) for zone, _ in copying.finished):
                    copying.keys[key] = None
                    self._send_batch(address)
        return list(changed)

    def _drop(self, key: EntryKey) -> None:
        entries = self.entries[key.point]
        del entries[key.digest]
        if not entries:
            del self.entries[key.point]
        self._confirmed.pop(key, None)
        self._persist(key)

    def _persist(self, key: EntryKey) -> None:
        name = hashlib.blake2b(json.dumps([list(key.point), key.digest.hex()]).encode(), digest_size=16).hexdigest()
        entry = self._current(key)
        stored = None
        if entry is not None:
            value = None if entry.value is None else entry.value.hex()
            stored = json.dumps([list(entry.point), entry.digest.hex(), entry.version, value]).encode()
        self.node.persist("can.value." + name, stored)

    def _transfer_received(self, sender: str, transfer: ValueTransfer) -> bool:
        if self._can.state in (NEW, LEFT):
            return False
        valid = [entry for entry in transfer.values if is_valid_point(self._can.space, entry.point)]
        self.node.counts["storage.invalid"] += len(transfer.values) - len(valid)
        own = [key for key in self._add(valid) if self._is_own(key.point)]
        self._own |= dict.fromkeys(own)
        self._replicate(own, but=sender)
        for entry in valid:
            if self._current(entry.key) != entry:  # the sender has missed what happened since
                self._queue_copies(sender, [entry.key])
            elif self._can.members.owner_of(entry.point) == sender:
                self._confirmed[entry.key] = sender, self.node.now
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
        self._replicate(self._own, to=new)
        for address in lost:
            self._replica_has(address, list(self._unreplicated))

    def _replica_order(self, address: str) -> bytes:
        return hashlib.blake2b(f"{self.node.address} {address}".encode(), digest_size=8).digest()

    def _replicate(self, keys: Iterable[EntryKey], *, to: Iterable[str] | None = None, but: str = "") -> None:
        keys = list(keys)
        for address in [address for address in (self.replicas if to is None else to) if address != but]:
            for key in keys:
                self._unreplicated.setdefault(key, set()).add(address)
            self._queue_copies(address, keys)
        for key in keys:
            if not self._unreplicated.get(key):
                self._end_replication(key)

    def _replica_has(self, address: str, keys: Iterable[EntryKey]) -> None:
        for key in keys:
            missing = self._unreplicated.get(key)
            if missing is not None:
                missing.discard(address)
                if not missing:
                    self._end_replication(key)

    def _end_replication(self, key: EntryKey) -> None:
        self._unreplicated.pop(key, None)
        if not self._is_own(key.point):
            self._replicated.pop(key, None)  # the owner answers; the origin tries again
        for replicated in self._replicated.pop(key, ()):
            replicated()

    # Copying

    def _queue_copies(self, address: str, keys: Iterable[EntryKey]) -> None:
        self._copies.setdefault(address, _Copying()).keys |= dict.fromkeys(keys)
        self._send_batch(address)

    def _send_batch(self, address: str) -> None:
        copying = self._copies[address]
        if copying.is_sending:
            return
        batch = self._next_batch(copying.keys)
        if not batch:
            del self._copies[address]
            for _, finished in copying.finished:
                finished(True)
            return
        copying.is_sending = True
        self._link.send(
            address,
            ValueTransfer(values=batch),
            acknowledged=lambda: self._batch_acknowledged(address, copying, batch),
            failed=lambda: self._copy_failed(address, copying),
        )

    def _next_batch(self, keys: dict[EntryKey, None]) -> tuple[PointEntry, ...]:
        """Take the first keys of which one message has the entries; those that were dropped meanwhile are left out."""
        entries: list[PointEntry] = []
        for key in list(islice(keys, BATCH)):
            entry = self._current(key)
            if entry is None:
                del keys[key]
            else:
                entries.append(entry)
        if not entries:
            return self._next_batch(keys) if keys else ()
        batch = batches(entries)[0]
        for entry in batch:
            del keys[entry.key]
        return batch

    def _batch_acknowledged(self, address: str, copying: _Copying, batch: tuple[PointEntry, ...]) -> None:
        copying.is_sending = False
        current = [entry for entry in batch if entry.key not in copying.keys and self._current(entry.key) == entry]
        for entry in current:
            if self._can.members.owner_of(entry.point) == address:
                self._confirmed[entry.key] = address, self.node.now
        self._replica_has(address, [entry.key for entry in current])
        self._send_batch(address)

    def _copy_failed(self, address: str, copying: _Copying) -> None:
        self._copies.pop(address, None)
        self._can.members.suspect(address)
        self._choose_replicas()
        self._replica_has(address, list(self._unreplicated))
        for _, finished in copying.finished:
            finished(False)

    # Entries for other owners

    def _owner(self, point: CanPoint) -> str | None:
        """The owner of a point as far as this peer knows; `_note_zones` first."""
        if point not in self._owners:
            self._owners[point] = self._can.members.owner_of(point)
        return self._owners[point]

    def _note_zones(self) -> None:
        """Compute the owners of points again if the zones around have changed."""
        members = self._can.members
        zones_around = (*members.claims, *((address, n.claims) for address, n in members.neighbours.items()))
        if zones_around != self._zones_around:
            self._zones_around = zones_around
            self._owners.clear()

    def _is_confirmed(self, entry: PointEntry) -> bool:
        """Whether the owner of a foreign entry is known and has it."""
        owner = self._owner(entry.point)
        return owner is not None and self._confirmed.get(entry.key, ("", 0))[0] == owner

    def _return_foreign(self) -> None:
        """Send entries to owners that may not have them; drop copies that the owner does not want here any more."""
        self._note_zones()
        retention = RETENTION * self._can.settings.failure_after
        copied: dict[str, list[EntryKey]] = {}
        for entry in list(self._all()):
            owner = self._owner(entry.point)
            if owner == self.node.address:
                self._confirmed.pop(entry.key, None)
            elif owner is None:
                self._return_afar(entry)
            elif not (neighbour := self._can.members.neighbours[owner]).is_provisional:
                confirmed_by, since = self._confirmed.get(entry.key, ("", 0))
                if confirmed_by != owner:
                    copied.setdefault(owner, []).append(entry.key)
                elif self.node.address in neighbour.retaining:
                    self._confirmed[entry.key] = owner, self.node.now
                elif self.node.now - since > retention:
                    self._drop(entry.key)
        for address, keys in copied.items():
            self._queue_copies(address, keys)

    def _return_afar(self, entry: PointEntry) -> None:
        """Put an entry whose point belongs to no neighbour; drop it when the owner and its replicas have it."""
        if entry.key in self._returning or len(self._returning) >= MAX_RETURNS:
            return
        self._returning.add(entry.key)

        def finished(is_stored: bool) -> None:
            self._returning.discard(entry.key)
            if is_stored and self._can.members.owner_of(entry.point) is None and self._current(entry.key) == entry:
                self._drop(entry.key)

        self.put_at_owner(entry, finished)
