"""Write docs/can.svg: 24 peers of a CAN, coloured by their stored values, and the way of a message.

Run: python docs/can.py
"""

from pathlib import Path
from random import Random

from motet.overlay.protocol.node import SECOND
from motet.overlay.protocol.zones import Space
from motet.overlay.sim.can_drawing import draw_zones
from motet.overlay.sim.can_networks import SimulatedCan

PICTURE = Path(__file__).with_suffix(".svg")


def picture() -> str:
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
    zones = {address: network.can(address).members.zones() for address in network.addresses()}
    loads = {address: network.storage(address).statistics()["own"] for address in network.addresses()}
    return draw_zones(network.space, zones, loads=loads, path=path)


if __name__ == "__main__":
    PICTURE.write_text(picture())
