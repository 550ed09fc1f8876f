"""What must hold in a network of Pastry nodes: at every instant, and once it had time to settle.

Each check returns the violations as text; none is a success.
"""

from __future__ import annotations

from itertools import pairwise

from motet.overlay.protocol.identifiers import closeness, format_identifier
from motet.overlay.protocol.neighbours import LeafSet
from motet.overlay.protocol.scribe import Scribe, TopicState
from motet.overlay.protocol.values import REPLICAS, ValueStore
from motet.overlay.sim.rings import SimulatedRing


def leaf_set_violations(ring: SimulatedRing) -> list[str]:
    """What must hold at every instant: the order and size of leaf sets."""
    violations = []
    for contact in ring.active:
        leaves: LeafSet = ring.pastry(contact.address).leaves
        offsets = [(leaf.identifier - contact.identifier) % 2**128 for leaf in leaves]
        if any(left >= right for left, right in pairwise(offsets)) or len(leaves) > leaves.size:
            violations.append(f"{contact.address}: the leaf set is out of order or too large")
        if contact in leaves or contact in ring.pastry(contact.address).table:
            violations.append(f"{contact.address}: the node is its own neighbour")
    return violations


def ring_violations(ring: SimulatedRing) -> list[str]:
    """What must hold after the network has settled: one owner per key, symmetric neighbours."""
    violations = []
    for contact in ring.misplaced():
        index = ring.active.index(contact)
        right, left = ring.active[(index + 1) % len(ring.active)], ring.active[index - 1]
        leaves = ring.pastry(contact.address).leaves
        present = " and ".join(leaf.address if leaf else "nobody" for leaf in (leaves.left, leaves.right))
        violations.append(f"{contact.address}: its neighbours are {present}, not {left.address} and {right.address}")
    return violations


def value_violations(ring: SimulatedRing, stored: dict[int, bytes | None]) -> list[str]:
    """What must hold after the network has settled: all nodes that replicate a key have its value."""
    violations = []
    for key, value in stored.items():
        nodes = sorted(ring.active, key=lambda contact: closeness(contact.identifier, key))
        for contact in nodes[:REPLICAS]:
            store = ring.simulator.node(contact.address).protocols["values"]
            assert isinstance(store, ValueStore)
            present = store.held().get(key)
            if present != value:
                name = format_identifier(key)[:8]
                violations.append(f"key {name}: {contact.address} has {present!r} instead of {value!r}")
    return violations


def topic_violations(ring: SimulatedRing) -> list[str]:
    """What must hold after the network has settled: one root per topic, no cycles, subscribers attached to the root."""
    trees: dict[int, dict[str, TopicState]] = {}
    for contact in ring.active:
        scribe = ring.simulator.node(contact.address).protocols["scribe"]
        assert isinstance(scribe, Scribe)
        for key, topic in scribe.topics.items():
            trees.setdefault(key, {})[contact.address] = topic
    return [violation for key, tree in sorted(trees.items()) for violation in _tree_violations(ring, key, tree)]


def _tree_violations(ring: SimulatedRing, key: int, tree: dict[str, TopicState]) -> list[str]:
    name = format_identifier(key)[:8]
    owner = min(ring.active, key=lambda contact: closeness(contact.identifier, key)).address
    violations = [
        f"topic {name}: {address} is root, {owner} is responsible"
        for address, topic in tree.items()
        if topic.is_root and address != owner
    ]
    for address, topic in tree.items():
        if not topic.is_subscribed:
            continue
        chain = [address]
        while (parent := tree[chain[-1]].parent) is not None and parent.address in tree and len(chain) <= len(tree):
            children = {child.address for child in tree[parent.address].children}
            if chain[-1] not in children:
                violations.append(f"topic {name}: {parent.address} does not have its child {chain[-1]}")
                break
            chain.append(parent.address)
        if chain[-1] != owner:
            what = "is in a cycle" if len(chain) > len(tree) else f"hangs below {chain[-1]}, not below the root {owner}"
            violations.append(f"topic {name}: the subscriber {address} {what}")
    return violations
