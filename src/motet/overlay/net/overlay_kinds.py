"""What the overlays do differently in a process: how a node is made, joins and leaves, and what operators read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from motet.model.errors import UsageError
from motet.overlay.net.host import NodeHost, NodeQuery
from motet.overlay.net.node_directory import NodeDirectory, NodeSettings
from motet.overlay.protocol.can import Can
from motet.overlay.protocol.can_membership import LEFT, MEMBER
from motet.overlay.protocol.can_messages import CanStateChanged, CreateCan, JoinCan, LeaveCan, is_valid_point
from motet.overlay.protocol.can_neighbourhood import CanSettings
from motet.overlay.protocol.can_requests import can_node
from motet.overlay.protocol.can_storage import CanStorage
from motet.overlay.protocol.identifiers import format_identifier, identifier_of
from motet.overlay.protocol.node import PeerNode, from_field, to_field
from motet.overlay.protocol.pastry import Pastry
from motet.overlay.protocol.pastry_messages import Joined, JoinRing, LeaveRing, Left
from motet.overlay.protocol.scribe import Scribe
from motet.overlay.protocol.values import ValueStore
from motet.overlay.protocol.zones import Space, Zone
from motet.overlay.sim.scenario import CAN, PASTRY


class OverlayKind(ABC):
    """One kind of overlay. The queries `place` and `next_hop` are for operators (`motet overlay status`, `route`)."""

    @property
    def queries(self) -> Mapping[str, NodeQuery]:
        """The operators' requests that read the state of a node."""
        return {"place": self.place, "next_hop": self.next_hop}

    @abstractmethod
    def make_node(self, settings: NodeSettings) -> PeerNode:
        """The protocols of a node."""

    @abstractmethod
    def prepare_beginning(self, directory: NodeDirectory) -> None:
        """Change what a node persisted before it begins an overlay: there is nobody yet whom it knew."""

    @abstractmethod
    def earlier_contacts(self, node: PeerNode) -> tuple[str, ...]:
        """The addresses of peers from an earlier run."""

    @abstractmethod
    def has_place(self, node: PeerNode) -> bool:
        """Whether a node that has started holds its place already, from its disk, and need not join."""

    @abstractmethod
    async def join(self, host: NodeHost, contacts: tuple[str, ...], *, seconds: float) -> bool:
        """Join by contacts, or begin an overlay without any; False if the node is not a member in time."""

    @abstractmethod
    async def leave(self, host: NodeHost, *, seconds: float) -> None:
        """Hand over what the node is responsible for, as far as there is time."""

    @abstractmethod
    def place(self, node: PeerNode, argument: Any) -> dict[str, Any]:
        """The state of a node and its place among the others."""

    @abstractmethod
    def next_hop(self, node: PeerNode, argument: Any) -> list[Any]:
        """The address to which a message for a key goes next, and whether it ends there."""


class RingKind(OverlayKind):
    """Pastry's ring. A key is written as 32 hexadecimal digits."""

    def make_node(self, settings: NodeSettings) -> PeerNode:
        """The place on the ring is the hash of the address, for which the certificate vouches."""
        pastry = Pastry(identifier_of(settings.address), leaf_size=settings.leaf_size)
        return PeerNode(settings.address, [pastry, ValueStore(pastry), Scribe(pastry)])

    def prepare_beginning(self, directory: NodeDirectory) -> None:
        directory.persist("pastry.peers", None)

    def earlier_contacts(self, node: PeerNode) -> tuple[str, ...]:
        return _pastry(node).persisted_addresses()

    def has_place(self, node: PeerNode) -> bool:
        return False

    async def join(self, host: NodeHost, contacts: tuple[str, ...], *, seconds: float) -> bool:
        return await host.wait_for(Joined, seconds=seconds, after=JoinRing(via=contacts)) is not None

    async def leave(self, host: NodeHost, *, seconds: float) -> None:
        await host.wait_for(Left, seconds=seconds, after=LeaveRing())

    def place(self, node: PeerNode, argument: Any) -> dict[str, Any]:
        pastry = _pastry(node)
        return {
            "identifier": format_identifier(pastry.identifier),
            "state": pastry.state.value,
            "leaves": [contact.address for contact in pastry.leaves],
        }

    def next_hop(self, node: PeerNode, argument: Any) -> list[Any]:
        contact, is_last = _pastry(node).next_hop(int(str(argument), 16))
        return [contact.address or node.address, is_last]


class CanKind(OverlayKind):
    """The CAN. A key is a list of coordinates."""

    @property
    def queries(self) -> Mapping[str, NodeQuery]:
        return {**super().queries, "entries": self.entries}

    def make_node(self, settings: NodeSettings) -> PeerNode:
        return can_node(settings.address, Space(settings.dimensions), CanSettings(is_greedy=settings.greedy))

    def prepare_beginning(self, directory: NodeDirectory) -> None:
        """A peer that has zones on its disk keeps them; the others then find it as their neighbour."""

    def earlier_contacts(self, node: PeerNode) -> tuple[str, ...]:
        return _can(node).known_addresses()

    def has_place(self, node: PeerNode) -> bool:
        return bool(_can(node).members.claims)

    async def join(self, host: NodeHost, contacts: tuple[str, ...], *, seconds: float) -> bool:
        command = None if self.has_place(host.node) else JoinCan(contacts=contacts) if contacts else CreateCan()
        return _can(host.node).state == MEMBER or await self._wait_for_state(host, MEMBER, seconds, command)

    async def leave(self, host: NodeHost, *, seconds: float) -> None:
        await self._wait_for_state(host, LEFT, seconds, LeaveCan())

    async def _wait_for_state(
        self, host: NodeHost, state: str, seconds: float, command: JoinCan | CreateCan | LeaveCan | None
    ) -> bool:
        def is_reached(outcome: CanStateChanged) -> bool:
            return outcome.state == state

        return await host.wait_for(CanStateChanged, seconds=seconds, after=command, where=is_reached) is not None

    def place(self, node: PeerNode, argument: Any) -> dict[str, Any]:
        can = _can(node)
        members = can.members
        return {
            "state": can.state,
            "share": float(sum(map(can.space.volume, members.zones()))),
            "zones": to_field(tuple(members.zones())),
            "neighbours": {
                address: to_field(tuple(claim.zone for claim in neighbour.claims))
                for address, neighbour in sorted(members.neighbours.items())
            },
            "values": _storage(node).statistics()["own"],
        }

    def next_hop(self, node: PeerNode, argument: Any) -> list[Any]:
        can = _can(node)
        point = tuple(map(str, argument)) if isinstance(argument, list) else ()
        if not is_valid_point(can.space, point):
            raise UsageError(
                f"the space has {can.space.dimensions} dimensions", advice="Name a coordinate for each of them."
            )
        hops = [node.address] if can.members.owned_claim(point) else can.members.next_hops(point)
        return [hops[0] if hops else node.address, not hops or hops[0] == node.address]

    def entries(self, node: PeerNode, argument: Any) -> list[Any]:
        """The points and digests of the values of which a node has a copy."""
        return [
            [list(entry.point), entry.digest]
            for entries in _storage(node).entries.values()
            for entry in entries.values()
            if entry.value is not None
        ]


KINDS: dict[str, OverlayKind] = {PASTRY: RingKind(), CAN: CanKind()}


def zones_of(fields: Any) -> tuple[Zone, ...]:
    """The zones in an answer to `place`; DecodeError if there are none."""
    zones: tuple[Zone, ...] = from_field(fields, tuple[Zone, ...], "the answer to `place`")
    return zones


def _pastry(node: PeerNode) -> Pastry:
    protocol = node.protocols["pastry"]
    assert isinstance(protocol, Pastry)
    return protocol


def _can(node: PeerNode) -> Can:
    protocol = node.protocols["can"]
    assert isinstance(protocol, Can)
    return protocol


def _storage(node: PeerNode) -> CanStorage:
    protocol = node.protocols["storage"]
    assert isinstance(protocol, CanStorage)
    return protocol
