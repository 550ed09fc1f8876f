"""The messages, commands and outcomes of topic trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from motet.overlay.protocol.identifiers import Contact
from motet.overlay.protocol.node import Command, Outcome, PeerMessage, peer_message


@peer_message
class JoinTopic(PeerMessage):
    """A node that wants a parent in a topic's tree; `is_repair` if it had one and may have missed publications."""

    topic: int
    child: Contact
    is_repair: bool


@peer_message
class TopicHeartbeat(PeerMessage):
    """A parent is alive; the path is that from the root to it. `predecessor` is a root whose children it takes over."""

    topic: int
    parent: Contact
    path: tuple[int, ...]
    predecessor: int | None
    sender_field: ClassVar[str | None] = "parent"


@peer_message
class TopicAlive(PeerMessage):
    """A child is alive and still has this parent."""

    topic: int


@peer_message
class LeaveTopic(PeerMessage):
    """The sender is no longer a child of the receiver."""

    topic: int


@peer_message
class RejectChild(PeerMessage):
    """The sender is no longer a parent of the receiver."""

    topic: int


@peer_message
class RootReplica(PeerMessage):
    """The children of a root, for the node that will be responsible after it."""

    topic: int
    root: Contact
    children: tuple[Contact, ...]
    sender_field: ClassVar[str | None] = "root"


@peer_message
class PublishRequest(PeerMessage):
    """The body of a query: publish to a topic."""

    topic: int
    publisher: int
    number: int
    payload: bytes
    traffic: ClassVar[str] = "data"


@peer_message
class PublishReply(PeerMessage):
    """The root has the publication; `members` is how many children got it from there."""

    members: int
    traffic: ClassVar[str] = "data"


@peer_message
class Publication(PeerMessage):
    """A publication on its way down the tree."""

    request: int
    topic: int
    publisher: int
    number: int
    payload: bytes
    traffic: ClassVar[str] = "data"


@peer_message
class PublicationReply(PeerMessage):
    """The child has the publication."""

    request: int
    traffic: ClassVar[str] = "data"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribeTopic(Command):
    """Receive the publications of a topic."""

    topic: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsubscribeTopic(Command):
    """Receive no more publications of a topic."""

    topic: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishTopic(Command):
    """Publish to a topic. The tag comes back with the outcome."""

    tag: int
    topic: int
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDelivered(Outcome):
    """A publication for this subscriber; each is delivered once."""

    topic: int
    publisher: int
    number: int
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPublished(Outcome):
    """The root of the topic has the publication."""

    tag: int
    topic: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishFailed(Outcome):
    """No root answered within a minute; the publication may have been delivered or not."""

    tag: int
    topic: int
