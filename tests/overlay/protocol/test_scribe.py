"""Scribe: every subscriber of a topic is in its tree and receives each publication once."""

from collections import Counter

import pytest
from tests.overlay.rings import assert_ring_is_right

from motet.model.errors import UsageError
from motet.overlay.protocol.identifiers import identifier_of
from motet.overlay.protocol.node import SECOND, Outcome
from motet.overlay.protocol.scribe import MAX_PAYLOAD, Scribe
from motet.overlay.protocol.scribe_messages import (
    PublishTopic,
    SubscribeTopic,
    TopicDelivered,
    TopicPublished,
    UnsubscribeTopic,
)
from motet.overlay.sim.invariants import topic_violations
from motet.overlay.sim.network import GeographicLatency, Network
from motet.overlay.sim.rings import SimulatedRing

TOPIC = identifier_of("building")


class Topics:
    """A ring with Scribe, and what its subscribers received."""

    def __init__(self, seed: int, *, nodes: int = 40, loss: float = 0.0, max_children: int = 16) -> None:
        network = Network(latency=GeographicLatency(), loss=loss)
        self.ring = SimulatedRing(
            seed=seed, network=network, layers=lambda pastry: [Scribe(pastry, max_children=max_children)]
        )
        self.ring.build(nodes)
        self.received: Counter[tuple[str, bytes]] = Counter()
        self.published = 0
        self.ring.simulator.outcome_listeners.append(self._listen)

    def _listen(self, address: str, outcome: Outcome) -> None:
        if isinstance(outcome, TopicDelivered):
            self.received[address, outcome.payload] += 1
        elif isinstance(outcome, TopicPublished):
            self.published += 1

    def subscribe(self, addresses: list[str]) -> None:
        for address in addresses:
            self.ring.simulator.command(address, SubscribeTopic(topic=TOPIC))
        self.run(40)

    def publish(self, payload: bytes) -> None:
        origin = self.ring.active[0].address
        self.ring.simulator.command(origin, PublishTopic(tag=0, topic=TOPIC, payload=payload))

    def run(self, seconds: int) -> None:
        self.ring.simulator.run(until=self.ring.simulator.now + seconds * SECOND)

    def scribe(self, address: str) -> Scribe:
        scribe = self.ring.simulator.node(address).protocols["scribe"]
        assert isinstance(scribe, Scribe)
        return scribe

    def subscribers(self) -> list[str]:
        addresses = [contact.address for contact in self.ring.active]
        return [a for a in addresses if (t := self.scribe(a).topics.get(TOPIC)) is not None and t.is_subscribed]


def test_every_subscriber_receives_each_publication_once() -> None:
    """Publications reach all subscribers and nobody else, although messages are lost."""
    topics = Topics(1, loss=0.05)
    subscribers = [contact.address for contact in topics.ring.active[::3]]
    topics.subscribe(subscribers)
    for number in range(5):
        topics.publish(b"%d" % number)
    topics.run(30)
    assert topics.received == Counter({(a, b"%d" % number): 1 for a in subscribers for number in range(5)})
    assert topics.published == 5
    assert topic_violations(topics.ring) == []


def test_a_publication_that_is_too_large_is_refused() -> None:
    """The error names the size and the limit; nothing is sent."""
    topics = Topics(1, nodes=2)
    with pytest.raises(UsageError, match="a publication of 1,048,577 bytes; 1,048,576 are allowed"):
        topics.publish(bytes(MAX_PAYLOAD + 1))


def test_unsubscribed_branches_leave_the_tree() -> None:
    """A branch without subscribers is removed up to the first node that is still needed."""
    topics = Topics(2)
    topics.subscribe([contact.address for contact in topics.ring.active])
    for contact in topics.ring.active[1:]:
        topics.ring.simulator.command(contact.address, UnsubscribeTopic(topic=TOPIC))
    topics.run(60)
    topics.publish(b"x")
    topics.run(10)
    assert topics.received == Counter({(topics.ring.active[0].address, b"x"): 1})
    in_tree = [
        c.address for c in topics.ring.active if (t := topics.scribe(c.address).topics.get(TOPIC)) and t.is_needed
    ]
    assert len(in_tree) <= 4


def test_children_are_limited() -> None:
    """No node has more children than allowed; the newcomers are below them."""
    topics = Topics(3, nodes=60, max_children=4)
    topics.subscribe([contact.address for contact in topics.ring.active])
    topics.run(60)
    children = [len(topics.scribe(contact.address).topics[TOPIC].children) for contact in topics.ring.active]
    assert max(children) <= 4
    topics.publish(b"x")
    topics.run(30)
    assert topics.received == Counter({(contact.address, b"x"): 1 for contact in topics.ring.active})
    assert topic_violations(topics.ring) == []


def test_the_next_root_takes_the_children_over() -> None:
    """When the root crashes, its replica's publications reach the children soon."""
    topics = Topics(4)
    topics.subscribe([contact.address for contact in topics.ring.active])
    root = topics.ring.responsible(TOPIC).address
    topics.ring.crash(root)
    topics.run(60)
    assert topic_violations(topics.ring) == []
    topics.publish(b"x")
    topics.run(30)
    assert topics.received == Counter({(contact.address, b"x"): 1 for contact in topics.ring.active})


def test_a_cycle_in_a_tree_is_found_and_opened() -> None:
    """Of three nodes that are parents of each other one finds its own identifier in a path, and joins again."""
    topics = Topics(6)
    topics.subscribe([contact.address for contact in topics.ring.active])
    leaves = [node for node in topics.ring.active if not topics.scribe(node.address).topics[TOPIC].children][:3]
    for index, own in enumerate(leaves):
        topic = topics.scribe(own.address).topics[TOPIC]
        topics.scribe(topic.parent.address if topic.parent else "").topics[TOPIC].children.pop(own)
        topic.parent, topic.children = leaves[(index + 1) % 3], {leaves[index - 1]: topics.ring.simulator.now}
    assert [violation for violation in topic_violations(topics.ring) if "is in a cycle" in violation] != []
    topics.run(60)
    assert topic_violations(topics.ring) == []


def test_trees_are_repaired_after_crashes_joins_and_a_partition() -> None:
    """Whatever happened, live subscribers are attached to one tree without cycles afterwards."""
    topics = Topics(5, loss=0.02)
    ring = topics.ring
    topics.subscribe([contact.address for contact in ring.active])
    for contact in ring.random.sample(ring.active, 15):
        ring.crash(contact.address)
    for _ in range(10):
        ring.join()
    topics.run(200)
    ring.network.partition([[contact.address for contact in ring.active[::2]]])
    topics.run(300)
    ring.network.heal()
    topics.run(900)
    assert_ring_is_right(ring)
    assert topic_violations(ring) == []
    topics.received.clear()
    topics.publish(b"x")
    topics.run(30)
    assert topics.received == Counter({(address, b"x"): 1 for address in topics.subscribers()})
    assert len(topics.subscribers()) == 25
