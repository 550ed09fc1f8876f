"""Scribe: for each topic a tree of the reverse routes from its members to the node responsible for the topic.

A join is routed towards the topic and ends at the first node in the tree. Parents send heartbeats with the path from
the root, by which a child finds a lost parent and a cycle. A node with too many children passes newcomers on to them.
The root's children are replicated on its leaf set: when it fails, the next responsible node takes them over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from motet.model.errors import UsageError
from motet.overlay.protocol.identifiers import Contact, closeness, jitter
from motet.overlay.protocol.node import SECOND, NodeProtocol, PeerMessage, Timer
from motet.overlay.protocol.pastry import Pastry, RingApplication
from motet.overlay.protocol.pastry_messages import RingAnswer
from motet.overlay.protocol.requests import Requests
from motet.overlay.protocol.scribe_messages import (
    JoinTopic,
    LeaveTopic,
    Publication,
    PublicationReply,
    PublishFailed,
    PublishReply,
    PublishRequest,
    PublishTopic,
    RejectChild,
    RootReplica,
    SubscribeTopic,
    TopicAlive,
    TopicDelivered,
    TopicHeartbeat,
    TopicPublished,
    UnsubscribeTopic,
)

HEARTBEAT_PERIOD = 15 * SECOND
PARENT_TIMEOUT = 50 * SECOND
CHILD_TIMEOUT = 110 * SECOND  # seven answers in a row must be lost before a live child is dropped
REJOIN_PERIOD = 5 * SECOND
RETENTION = 120 * SECOND  # how long a publication is sent again to a child that comes back
ATTEMPTS = 5
MAX_CHILDREN = 16
MAX_RETAINED = 64  # publications of a topic that are sent again, and their bytes
MAX_RETAINED_BYTES = 1 << 22
MAX_PAYLOAD = 1 << 20
MAX_KNOWN = 1024
MAX_PATH = 64
ROOT_REPLICAS = 3


@dataclass(slots=True)
class TopicState:
    """What a node knows of a topic in whose tree it is."""

    is_subscribed: bool = False
    is_root: bool = False
    parent: Contact | None = None
    former_parent: int | None = None
    path: tuple[int, ...] = ()
    parent_message_at: int = 0
    joined_at: int = -REJOIN_PERIOD
    had_parent: bool = False
    children: dict[Contact, int] = field(default_factory=dict)
    replica: RootReplica | None = None
    retained: dict[tuple[int, int], tuple[int, bytes]] = field(default_factory=dict)

    @property
    def is_attached(self) -> bool:
        return self.is_root or self.parent is not None

    @property
    def is_needed(self) -> bool:
        return self.is_subscribed or bool(self.children)


class Scribe(NodeProtocol, RingApplication):
    """The topic trees of one node."""

    name = "scribe"

    def __init__(self, pastry: Pastry, *, max_children: int = MAX_CHILDREN) -> None:
        super().__init__()
        self.pastry = pastry
        self.max_children = max_children
        self.topics: dict[int, TopicState] = {}
        self.requests = Requests(self, pastry.trips)
        self.commands = {
            SubscribeTopic: self._subscribe,
            UnsubscribeTopic: self._unsubscribe,
            PublishTopic: self._publish,
        }
        self.receivers = {
            JoinTopic: self._receive_join,
            TopicHeartbeat: self._receive_heartbeat,
            TopicAlive: self._receive_alive,
            LeaveTopic: self._receive_leave,
            RejectChild: self._receive_reject,
            RootReplica: self._receive_replica,
            Publication: self._receive_publication,
            PublicationReply: self._receive_reply,
        }
        self._known: dict[tuple[int, int, int], None] = {}
        self._publications = 0
        self._is_ticking = False
        pastry.register(self, [JoinTopic, PublishRequest])

    # Of the application

    def _subscribe(self, command: SubscribeTopic) -> None:
        topic = self._topic(command.topic)
        topic.is_subscribed = True
        if not topic.is_attached:
            self._join(command.topic, topic)

    def _unsubscribe(self, command: UnsubscribeTopic) -> None:
        topic = self.topics.get(command.topic)
        if topic is not None:
            topic.is_subscribed = False
            self._leave_if_unneeded(command.topic, topic)

    def _publish(self, command: PublishTopic) -> None:
        if len(command.payload) > MAX_PAYLOAD:
            raise UsageError(
                f"a publication of {len(command.payload):,} bytes; {MAX_PAYLOAD:,} are allowed",
                advice="Store the content as values, and publish their keys.",
            )
        node = self.node
        self._publications += 1
        body = PublishRequest(
            topic=command.topic,
            publisher=self.pastry.identifier,
            number=node.now + self._publications,
            payload=command.payload,
        )

        def answered(_answer: RingAnswer, _duration: int) -> None:
            node.report(TopicPublished(tag=command.tag, topic=command.topic))

        self.pastry.ask(
            command.topic, body, answered, lambda: node.report(PublishFailed(tag=command.tag, topic=command.topic))
        )

    # The tree

    def _topic(self, key: int) -> TopicState:
        if not self._is_ticking:
            self._is_ticking = True
            delay = REJOIN_PERIOD + jitter(self.pastry.identifier, self.node.now, SECOND)
            self.node.set_timer(("scribe", "round"), self.node.now + delay)
        return self.topics.setdefault(key, TopicState())

    def _join(self, key: int, topic: TopicState) -> None:
        """Send a join towards the topic, or become the root."""
        topic.joined_at = self.node.now
        if self.pastry.is_active and self.pastry.is_responsible(key):
            self._become_root(key, topic)
        elif self.pastry.is_active:
            self.pastry.route(key, JoinTopic(topic=key, child=self.pastry.own, is_repair=topic.had_parent))

    def _become_root(self, key: int, topic: TopicState) -> None:
        if topic.is_root:
            return
        self.node.record(key, "root of the topic")
        predecessor = topic.replica.root.identifier if topic.replica else topic.former_parent
        if topic.parent is not None:
            self.node.send(topic.parent.address, LeaveTopic(topic=key))
        topic.is_root, topic.parent, topic.path = True, None, ()
        if topic.replica is not None:
            for child in topic.replica.children:
                if child != self.pastry.own:
                    topic.children.setdefault(child, self.node.now)
            topic.replica = None
        self._send_heartbeats(key, topic, predecessor)

    def forward(self, key: int, payload: PeerMessage, origin: Contact, next_hop: Contact) -> bool:
        """Take a child on its way; the way ends here if this node is, or now wants to be, in the tree."""
        if not isinstance(payload, JoinTopic) or payload.child == self.pastry.own:
            return True
        if not self.pastry.is_active:
            return True
        topic = self._topic(key)
        if payload.child.identifier in topic.path or payload.child == topic.parent:
            return True  # the child is above this node
        self._adopt(key, topic, payload)
        if not topic.is_attached and self.node.now - topic.joined_at >= REJOIN_PERIOD:
            self._join(key, topic)
        return False

    def deliver(self, key: int, payload: PeerMessage, origin: Contact) -> None:
        if isinstance(payload, JoinTopic) and payload.child != self.pastry.own:
            topic = self._topic(key)
            self._become_root(key, topic)
            self._adopt(key, topic, payload)
        elif isinstance(payload, JoinTopic):
            self._become_root(key, self._topic(key))

    def _adopt(self, key: int, topic: TopicState, join: JoinTopic) -> None:
        """Take a child, or pass it on to a child if there are too many."""
        child = join.child
        if child not in topic.children and len(topic.children) >= self.max_children:
            candidates = [contact for contact in topic.children if contact != child]
            nearest = min(candidates, key=lambda contact: closeness(contact.identifier, child.identifier))
            self.node.send(nearest.address, join)
            return
        topic.children[child] = self.node.now
        self.node.record(key, "child %s", child.address)
        self._send_heartbeat(key, topic, child, None)
        if join.is_repair:
            since = self.node.now - RETENTION
            for (publisher, number), (at, payload) in topic.retained.items():
                if at >= since:
                    self._pass_down(key, publisher, number, payload, child)

    def _receive_join(self, sender: str, message: JoinTopic) -> None:
        """A parent with too many children passes a newcomer on."""
        topic = self.topics.get(message.topic)
        if topic is None or not topic.is_attached or message.child == self.pastry.own:
            return
        is_from_parent = topic.parent is not None and topic.parent.address == sender
        if is_from_parent and message.child.identifier not in topic.path:
            self._adopt(message.topic, topic, message)

    def _path(self, topic: TopicState) -> tuple[int, ...]:
        return (*topic.path, self.pastry.identifier)

    def _send_heartbeat(self, key: int, topic: TopicState, child: Contact, predecessor: int | None) -> None:
        self.node.send(
            child.address,
            TopicHeartbeat(topic=key, parent=self.pastry.own, path=self._path(topic), predecessor=predecessor),
        )

    def _send_heartbeats(self, key: int, topic: TopicState, predecessor: int | None = None) -> None:
        for child in topic.children:
            self._send_heartbeat(key, topic, child, predecessor)

    def _receive_heartbeat(self, sender: str, message: TopicHeartbeat) -> None:
        topic = self.topics.get(message.topic)
        parent = message.parent
        if topic is None or topic.is_root or not topic.is_needed:
            self.node.send(sender, LeaveTopic(topic=message.topic))
            return
        if self.pastry.identifier in message.path or len(message.path) > MAX_PATH:
            self._detach(message.topic, topic, "cycle in the tree")
            self.node.send(sender, LeaveTopic(topic=message.topic))
            return
        if topic.parent not in (None, parent) and message.predecessor != topic.parent.identifier:
            self.node.send(sender, LeaveTopic(topic=message.topic))
            return
        is_new_path = topic.path != message.path
        topic.parent, topic.path, topic.parent_message_at = parent, message.path, self.node.now
        topic.had_parent = True
        topic.children.pop(parent, None)
        self.node.send(sender, TopicAlive(topic=message.topic))
        if is_new_path:  # descendants hear of it at once: cycles are found early
            self._send_heartbeats(message.topic, topic)

    def _receive_alive(self, sender: str, message: TopicAlive) -> None:
        topic = self.topics.get(message.topic)
        child = self._child(topic, sender)
        if topic is None or child is None:
            self.node.send(sender, RejectChild(topic=message.topic))
        else:
            topic.children[child] = self.node.now

    def _receive_leave(self, sender: str, message: LeaveTopic) -> None:
        topic = self.topics.get(message.topic)
        child = self._child(topic, sender)
        if topic is not None and child is not None:
            del topic.children[child]
            self._leave_if_unneeded(message.topic, topic)

    def _receive_reject(self, sender: str, message: RejectChild) -> None:
        topic = self.topics.get(message.topic)
        if topic is not None and topic.parent is not None and topic.parent.address == sender:
            self._detach(message.topic, topic, "the parent left the tree")

    def _child(self, topic: TopicState | None, address: str) -> Contact | None:
        children = topic.children if topic is not None else {}
        return next((child for child in children if child.address == address), None)

    def _detach(self, key: int, topic: TopicState, reason: str) -> None:
        """Lose the parent and look for another one at once."""
        self.node.record(key, "no parent: %s", reason)
        if topic.parent is not None:
            topic.former_parent = topic.parent.identifier
        topic.parent, topic.path = None, ()
        if topic.is_needed:
            self._join(key, topic)

    def _leave_if_unneeded(self, key: int, topic: TopicState) -> None:
        if not topic.is_needed and not topic.is_root:
            if topic.parent is not None:
                self.node.send(topic.parent.address, LeaveTopic(topic=key))
            if topic.replica is None:
                del self.topics[key]
            else:
                topic.parent, topic.path = None, ()

    # Repair

    def neighbours_changed(self) -> None:
        if not self.pastry.is_active:
            return
        for key, topic in list(self.topics.items()):
            self._check_root(key, topic)

    def _check_root(self, key: int, topic: TopicState) -> None:
        """Become the root when responsible, and a child of the new root when no longer."""
        is_responsible = self.pastry.is_responsible(key)
        if topic.is_root and not is_responsible:
            topic.is_root = False
            topic.had_parent = True
            if topic.is_needed:
                self._join(key, topic)
            else:
                self._leave_if_unneeded(key, topic)
        elif is_responsible and not topic.is_root and (topic.is_needed or topic.replica is not None):
            self._become_root(key, topic)

    def expired(self, timer: Timer) -> None:
        if timer[1] == "request":
            self.requests.expired(timer)
            return
        self.node.set_timer(("scribe", "round"), self.node.now + REJOIN_PERIOD)
        if self.pastry.is_active:
            for key, topic in list(self.topics.items()):
                self._maintain(key, topic)

    def _maintain(self, key: int, topic: TopicState) -> None:
        now = self.node.now
        self._check_root(key, topic)
        for child in [child for child, message_at in topic.children.items() if message_at < now - CHILD_TIMEOUT]:
            del topic.children[child]
        if topic.parent is not None and topic.parent_message_at < now - PARENT_TIMEOUT:
            self._detach(key, topic, "no heartbeat")
        elif topic.is_needed and not topic.is_attached:
            self._join(key, topic)
        if now // HEARTBEAT_PERIOD != (now - REJOIN_PERIOD) // HEARTBEAT_PERIOD:
            if topic.is_attached:
                self._send_heartbeats(key, topic)
            if topic.is_root:
                self._replicate_root(key, topic)
        expired = now - RETENTION
        while topic.retained and next(iter(topic.retained.values()))[0] < expired:
            del topic.retained[next(iter(topic.retained))]
        if key in self.topics:
            self._leave_if_unneeded(key, topic)

    def _replicate_root(self, key: int, topic: TopicState) -> None:
        message = RootReplica(topic=key, root=self.pastry.own, children=tuple(topic.children))
        near = sorted(self.pastry.leaves, key=lambda contact: closeness(contact.identifier, key))
        for contact in near[:ROOT_REPLICAS]:
            self.node.send(contact.address, message)

    def _receive_replica(self, _sender: str, message: RootReplica) -> None:
        topic = self._topic(message.topic)
        if topic.is_root:
            if not self.pastry.is_responsible(message.topic):
                self._check_root(message.topic, topic)
        elif message.children:
            topic.replica = message
        else:
            topic.replica = None
            self._leave_if_unneeded(message.topic, topic)

    def hand_over(self, ready: Callable[[], None]) -> None:
        for key, topic in self.topics.items():
            if topic.is_root:
                self._replicate_root(key, topic)
            elif topic.parent is not None:
                self.node.send(topic.parent.address, LeaveTopic(topic=key))
            for child in topic.children:
                self.node.send(child.address, RejectChild(topic=key))
        ready()

    # Publications

    def answer(self, key: int, body: PeerMessage, origin: Contact, number: int) -> None:
        if isinstance(body, PublishRequest):
            topic = self.topics.get(key)
            if topic is not None:
                self._become_root(key, topic)
            self._take(key, body.publisher, body.number, body.payload)
            self.pastry.reply(origin, number, PublishReply(members=len(topic.children) if topic else 0))

    def _receive_publication(self, sender: str, message: Publication) -> None:
        self.node.send(sender, PublicationReply(request=message.request))
        self._take(message.topic, message.publisher, message.number, message.payload)

    def _take(self, key: int, publisher: int, number: int, payload: bytes) -> None:
        """Deliver a publication and pass it down, unless it was here before."""
        mark = (key, publisher, number)
        topic = self.topics.get(key)
        if mark in self._known or topic is None:
            return
        self._known[mark] = None
        if len(self._known) > MAX_KNOWN:
            del self._known[next(iter(self._known))]
        topic.retained[publisher, number] = (self.node.now, payload)
        sizes = sum(len(payload) for _, payload in topic.retained.values())
        while len(topic.retained) > MAX_RETAINED or sizes > MAX_RETAINED_BYTES:
            _, dropped = topic.retained.pop(next(iter(topic.retained)))
            sizes -= len(dropped)
        if topic.is_subscribed:
            self.node.report(TopicDelivered(topic=key, publisher=publisher, number=number, payload=payload))
        for child in list(topic.children):
            self._pass_down(key, publisher, number, payload, child)

    def _pass_down(self, key: int, publisher: int, number: int, payload: bytes, child: Contact) -> None:
        request = self.requests.next_number()
        message = Publication(request=request, topic=key, publisher=publisher, number=number, payload=payload)
        self.requests.send(request, child.address, message, attempts=ATTEMPTS)

    def _receive_reply(self, sender: str, message: PublicationReply) -> None:
        self.requests.answered(message.request, sender)

    # For people

    def statistics(self) -> dict[str, int]:
        """Topics, subscriptions, roots and children of this node."""
        topics = self.topics.values()
        return {
            "topics": len(topics),
            "subscriptions": sum(topic.is_subscribed for topic in topics),
            "roots": sum(topic.is_root for topic in topics),
            "children": sum(len(topic.children) for topic in topics),
        }
