"""A protocol for tests of the simulator: five nodes pass a token around with timers and persist how often."""

from collections.abc import Mapping

from motet.overlay.protocol.node import NodeProtocol, PeerMessage, PeerNode, Timer, peer_message
from motet.overlay.sim.network import Network
from motet.overlay.sim.simulator import Simulator


@peer_message
class Token(PeerMessage):
    count: int


class Ring(NodeProtocol):
    name = "ring"

    def __init__(self, index: int) -> None:
        super().__init__()
        self.receivers = {Token: self._receive}
        self.next = f"n{(index + 1) % 5}"
        self.passes = 0

    def started(self, disk: Mapping[str, bytes]) -> None:
        self.passes = int(disk.get("passes", b"0"))
        self.node.counts["restored"] = self.passes
        self.node.set_timer(("ring",), self.node.now + 100_000)

    def expired(self, timer: Timer) -> None:
        self.node.send(self.next, Token(count=self.passes))
        self.node.set_timer(timer, self.node.now + 100_000)

    def _receive(self, sender: str, message: Token) -> None:
        self.passes += 1
        self.node.persist("passes", b"%d" % self.passes)


def start_ring(seed: int) -> Simulator:
    simulator = Simulator(seed=seed, network=Network(loss=0.1, reordering=0.1))
    for index in range(5):
        simulator.start(f"n{index}", lambda address: PeerNode(address, [Ring(int(address[1:]))]))
    simulator.run(until=10_000_000)
    return simulator
