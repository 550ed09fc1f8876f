"""The messages, commands and outcomes of Pastry, and the states of a node as a table.

The diagram in the documentation is drawn from the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from motet.overlay.protocol.identifiers import Contact
from motet.overlay.protocol.node import Command, Outcome, PeerMessage, peer_message


class PastryState(Enum):
    """The states of a node."""

    IDLE = "idle"
    JOINING = "joining"
    CONFIRMING = "confirming"
    PREPARING = "preparing"
    ACTIVE = "active"
    SUSPENDED = "suspended"
    LEAVING = "leaving"
    LEFT = "left"


class PastryInput(Enum):
    """What changes the state of a node."""

    BEGIN = "no ring to join"
    JOIN = "join, or no reply to it"
    WELCOMED = "join reply"
    CONFIRMED = "all neighbours answered"
    ISOLATED = "no neighbour answered"
    PREPARED = "values transferred"
    STALLED = "not scheduled for long"
    LEAVE = "leave"
    DEPARTED = "departure noted, values handed over"


S, I = PastryState, PastryInput  # noqa: E741  the two columns of the table

TRANSITIONS: dict[tuple[PastryState, PastryInput], tuple[str, PastryState]] = {
    (S.IDLE, I.BEGIN): ("_activate", S.ACTIVE),
    (S.IDLE, I.JOIN): ("_request_join", S.JOINING),
    (S.IDLE, I.LEAVE): ("_stop", S.LEFT),
    (S.JOINING, I.JOIN): ("_request_join", S.JOINING),
    (S.JOINING, I.BEGIN): ("_activate", S.ACTIVE),
    (S.JOINING, I.WELCOMED): ("_confirm", S.CONFIRMING),
    (S.JOINING, I.LEAVE): ("_stop", S.LEFT),
    (S.CONFIRMING, I.CONFIRMED): ("_prepare", S.PREPARING),
    (S.CONFIRMING, I.ISOLATED): ("_retry_join", S.JOINING),
    (S.CONFIRMING, I.LEAVE): ("_depart", S.LEAVING),
    (S.PREPARING, I.PREPARED): ("_activate", S.ACTIVE),
    (S.PREPARING, I.LEAVE): ("_depart", S.LEAVING),
    (S.ACTIVE, I.STALLED): ("_suspend", S.SUSPENDED),
    (S.ACTIVE, I.LEAVE): ("_depart", S.LEAVING),
    (S.SUSPENDED, I.CONFIRMED): ("_resume", S.ACTIVE),
    (S.SUSPENDED, I.ISOLATED): ("_resume", S.ACTIVE),
    (S.SUSPENDED, I.LEAVE): ("_depart", S.LEAVING),
    (S.LEAVING, I.DEPARTED): ("_stop", S.LEFT),
}
"""For each state and input: the method to call and the next state. Other pairs have no effect."""


# Routing


@peer_message
class Forward(PeerMessage):
    """A message on its way to the node responsible for a key; each hop acknowledges it."""

    request: int
    key: int
    hops: int
    origin: Contact
    payload: PeerMessage
    traffic: ClassVar[str] = "lookup"


@peer_message
class Acknowledgement(PeerMessage):
    """The hop has taken a message over."""

    request: int
    traffic: ClassVar[str] = "lookup"


@peer_message
class RingQuery(PeerMessage):
    """The payload of a question to the node responsible for a key; without a body it is a lookup."""

    number: int
    body: PeerMessage | None
    traffic: ClassVar[str] = "lookup"


@peer_message
class RingAnswer(PeerMessage):
    """The answer to a query, sent straight to its origin."""

    number: int
    root: Contact
    hops: int
    body: PeerMessage | None
    sender_field: ClassVar[str | None] = "root"
    traffic: ClassVar[str] = "lookup"


# Membership


@peer_message
class JoinRequest(PeerMessage):
    """The payload that a newcomer has routed to its own identifier; hops add rows of their routing tables."""

    newcomer: Contact
    depth: int
    contacts: tuple[Contact, ...]


@peer_message
class JoinReply(PeerMessage):
    """The answer of the node closest to a newcomer: contacts of the route, and its leaf set with itself."""

    contacts: tuple[Contact, ...]
    leaves: tuple[Contact, ...]


@peer_message
class LeafProbe(PeerMessage):
    """An exchange of leaf sets: the sender's contact, its leaf set, and members that failed lately."""

    request: int
    contact: Contact
    leaves: tuple[Contact, ...]
    failed: tuple[Contact, ...]
    sender_field: ClassVar[str | None] = "contact"


@peer_message
class LeafReply(PeerMessage):
    """The other half of an exchange of leaf sets."""

    request: int
    contact: Contact
    leaves: tuple[Contact, ...]
    failed: tuple[Contact, ...]
    sender_field: ClassVar[str | None] = "contact"


@peer_message
class TableProbe(PeerMessage):
    """A request for a row of a routing table; the answer also shows that its sender is alive, and how far away."""

    request: int
    contact: Contact
    row: int
    sender_field: ClassVar[str | None] = "contact"


@peer_message
class TableReply(PeerMessage):
    """A row of a routing table."""

    request: int
    contact: Contact
    contacts: tuple[Contact, ...]
    sender_field: ClassVar[str | None] = "contact"


@peer_message
class Departure(PeerMessage):
    """The sender leaves the ring and is no longer responsible for any key."""

    request: int
    contact: Contact
    sender_field: ClassVar[str | None] = "contact"


@peer_message
class DepartureReply(PeerMessage):
    """The departure is noted."""

    request: int


# Commands


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRing(Command):
    """Join the ring of these addresses, in any order, or begin a new ring if there are none."""

    via: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveRing(Command):
    """Hand over what this node is responsible for, and leave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup(Command):
    """Find the node responsible for a key. The tag comes back with the answer."""

    tag: int
    key: int


# Outcomes


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined(Outcome):
    """The node is active: it answers for its keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspended(Outcome):
    """The node had no processor for long; it checks its neighbours before it answers for keys again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed(Outcome):
    """The suspended node is active again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left(Outcome):
    """The node has left the ring and may be stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered(Outcome):
    """A query arrived at this node, which holds itself responsible for its key."""

    key: int
    origin: Contact
    number: int
    hops: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupAnswered(Outcome):
    """The node responsible for a key, the hops to it and the time until the answer."""

    tag: int
    key: int
    root: Contact
    hops: int
    duration: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupFailed(Outcome):
    """A lookup without an answer within its time."""

    tag: int
    key: int
