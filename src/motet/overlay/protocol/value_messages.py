"""The messages, commands and outcomes of values, and the values in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from motet.overlay.protocol.identifiers import Contact, identifier_of
from motet.overlay.protocol.node import Command, Outcome, PeerMessage, peer_message


class Holding(NamedTuple):
    """A key, the version that is held, and a digest of its value."""

    key: int
    version: int
    digest: int


class StoredValue(NamedTuple):
    """A value of a key; None marks a removed one. The higher version counts, then the greater digest."""

    key: int
    version: int
    value: bytes | None

    @property
    def holding(self) -> Holding:
        digest = 0 if self.value is None else identifier_of(self.value) >> 65
        return Holding(self.key, self.version, digest)


@peer_message
class PutValue(PeerMessage):
    """The body of a query: store a value, or remove it."""

    key: int
    value: bytes | None


@peer_message
class GetValue(PeerMessage):
    """The body of a query: the value of a key."""

    key: int


@peer_message
class ValueReply(PeerMessage):
    """The answer to both: the value, and the version under which it is stored (0: never stored)."""

    version: int
    value: bytes | None


@peer_message
class TransferRequest(PeerMessage):
    """A newcomer requests the values it has to hold, in the order of their keys, after one of them."""

    request: int
    contact: Contact
    after: int
    sender_field: ClassVar[str | None] = "contact"


@peer_message
class TransferReply(PeerMessage):
    """Values for a newcomer; the next ones follow on another request, unless these are the last."""

    request: int
    values: tuple[StoredValue, ...]
    is_last: bool


@peer_message
class Holdings(PeerMessage):
    """What the sender holds and the receiver should hold, too."""

    request: int
    holdings: tuple[Holding, ...]


@peer_message
class HoldingsReply(PeerMessage):
    """The keys of those values that the receiver holds neither in this version nor in a newer one."""

    request: int
    missing: tuple[int, ...]


@peer_message
class Replicate(PeerMessage):
    """Values to hold."""

    request: int
    values: tuple[StoredValue, ...]


@peer_message
class ReplicateReply(PeerMessage):
    """The values are held."""

    request: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreValue(Command):
    """Store a value under a key; None removes it. The tag comes back with the outcome."""

    tag: int
    key: int
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchValue(Command):
    """Fetch the value of a key."""

    tag: int
    key: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueStored(Outcome):
    """All replicas have the value."""

    tag: int
    key: int
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueFetched(Outcome):
    """The value of a key, or None."""

    tag: int
    key: int
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueFailed(Outcome):
    """Nobody answered within a minute; a value to be stored may be stored or not."""

    tag: int
    key: int
