"""Write the pictures of docs/overlay.md: a ring with a route, the states of a node, and histograms of hops.

Run: python docs/overlay.py
"""

from pathlib import Path

from motet.overlay.protocol.identifiers import identifier_of
from motet.overlay.protocol.pastry_states import TRANSITIONS
from motet.overlay.sim.ring_drawing import draw_histogram, draw_ring, draw_states
from motet.overlay.sim.rings import SimulatedRing
from motet.overlay.sim.static_hops import study_hops

FOLDER = Path(__file__).parent


def pictures() -> dict[str, str]:
    """The content of each picture."""
    ring = SimulatedRing(seed=3)
    ring.build(120, has_proximity=False)
    key = identifier_of("temperature")
    route = max((ring.route(contact, key) for contact in ring.active), key=len)
    root = ring.responsible(key)
    identifiers = [contact.identifier for contact in ring.active]
    leaves = [contact.identifier for contact in ring.pastry(root.address).leaves]
    hops = [hop.identifier for hop in route]
    histograms = {f"{nodes:,}".replace(",", " "): study_hops(nodes).histogram() for nodes in (100, 1_000, 10_000)}
    return {
        "overlay-ring.svg": draw_ring(identifiers, node=root.identifier, leaves=leaves, route=hops, key=key),
        "overlay-states.svg": draw_states(TRANSITIONS),
        "overlay-hops.svg": draw_histogram(histograms),
    }


if __name__ == "__main__":
    for name, content in pictures().items():
        (FOLDER / name).write_text(content, encoding="utf-8")
