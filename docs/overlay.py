"""Write the pictures of docs/overlay.md and docs/can.md: a ring with a route, zones, states, and histograms of hops.

Run: python docs/overlay.py
"""

from pathlib import Path
from random import Random

from motet.overlay.protocol import can_membership, pastry_messages
from motet.overlay.protocol.identifiers import identifier_of
from motet.overlay.protocol.node import SECOND
from motet.overlay.protocol.zones import Space
from motet.overlay.sim.can_networks import SimulatedCan
from motet.overlay.sim.drawing import draw_histogram, draw_ring, draw_states, draw_zones
from motet.overlay.sim.rings import SimulatedRing
from motet.reproduce.overlays import study_hops

FOLDER = Path(__file__).parent


def pictures() -> dict[str, str]:
    """The content of each picture."""
    histograms = {f"{nodes:,}".replace(",", " "): study_hops(nodes).histogram() for nodes in (100, 1_000, 10_000)}
    changes = pastry_messages.TRANSITIONS.items()
    pastry = {(source.value, change.value): target.value for (source, change), (_, target) in changes}
    return {
        "overlay-ring.svg": ring(),
        "overlay-states.svg": draw_states(pastry),
        "overlay-hops.svg": draw_histogram(histograms),
        "can.svg": zones(),
        "can-states.svg": draw_states(can_membership.TRANSITIONS, height=460),
    }


def ring() -> str:
    """A ring of 120 nodes with the leaf set of one of them and the longest route to it."""
    network = SimulatedRing(seed=3)
    network.build(120, has_proximity=False)
    key = identifier_of("temperature")
    route = max((network.route(contact, key) for contact in network.active), key=len)
    root = network.responsible(key)
    identifiers = [contact.identifier for contact in network.active]
    leaves = [contact.identifier for contact in network.pastry(root.address).leaves]
    hops = [hop.identifier for hop in route]
    return draw_ring(identifiers, node=root.identifier, leaves=leaves, route=hops, key=key)


def zones() -> str:
    """The zones of a small CAN, with a way by Algorithm 3.1 from one corner to the other."""
    network = SimulatedCan(seed=4, space=Space(2))
    network.grow(24)
    random = Random(4)  # noqa: S311  a simulation, not a secret
    for _ in range(60):
        network.put(random.choice(network.addresses()), random)
    network.wait(20 * SECOND)
    goal = ("\U00100000", "\U00100000")
    path = [network.addresses()[0]]
    while network.can(path[-1]).members.owned_claim(goal) is None:
        path.append(network.can(path[-1]).members.next_hops(goal)[0])
    held = {address: network.can(address).members.zones() for address in network.addresses()}
    loads = {address: network.storage(address).statistics()["own"] for address in network.addresses()}
    return draw_zones(network.space, held, loads=loads, path=path)


if __name__ == "__main__":
    for name, content in pictures().items():
        (FOLDER / name).write_text(content, encoding="utf-8")
