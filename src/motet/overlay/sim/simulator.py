"""The simulator: a queue of inputs in virtual time, hosts for nodes, and a hash of everything that happened.

All randomness comes from one seed, and nothing depends on the order of Python's hashes: the same seed gives the same
trace in every process. Nodes see only `handle(now, input)`; the simulator carries out their effects.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter
from collections.abc import Callable
from random import Random

from motet.model.errors import UsageError
from motet.overlay.protocol.node import (
    CancelTimer,
    Expired,
    Input,
    Outcome,
    PeerNode,
    Persist,
    Received,
    Send,
    SetTimer,
    Started,
    Timer,
)
from motet.overlay.sim.network import Machines, Network

NodeFactory = Callable[[str], PeerNode]


class SimulatedHost:
    """One run of a node, from its start to its crash: the node and its timers."""

    __slots__ = ("address", "is_alive", "node", "paused_until", "timers")

    def __init__(self, address: str, node: PeerNode) -> None:
        self.address = address
        self.node = node
        self.timers: dict[Timer, int] = {}
        self.paused_until = 0
        self.is_alive = True


class Simulator:
    """Runs nodes over a simulated network in virtual time.

    >>> simulator = Simulator(seed=7)
    >>> _ = simulator.start("a", lambda address: PeerNode(address, []))
    >>> simulator.run(until=1_000_000)
    >>> simulator.now, sorted(simulator.hosts)
    (1000000, ['a'])

    `is_detailed` adds the content of every input to the trace hash; without it the hash covers time, receiver and type,
    which is faster and still differs as soon as two runs do. `machines` are shared by nodes and take time for messages.
    """

    def __init__(
        self, *, seed: int, network: Network | None = None, is_detailed: bool = True, machines: Machines | None = None
    ) -> None:
        self.seed = seed
        self.random = Random(seed)  # noqa: S311  a simulation, not a secret
        self.network = network or Network()
        self.machines = machines
        self.is_detailed = is_detailed
        self.now = 0
        self.steps = 0
        self.hosts: dict[str, SimulatedHost] = {}
        self.disks: dict[str, dict[str, bytes]] = {}
        self.sent: Counter[type] = Counter()
        """How many messages of each type were sent; routed messages count as their payload."""
        self.outcome_listeners: list[Callable[[str, Outcome], None]] = []
        self._factories: dict[str, NodeFactory] = {}
        self._queue: list[tuple[int, int, SimulatedHost | None, object]] = []
        self._sequence = 0
        self._trace = hashlib.blake2b(digest_size=16)

    # Nodes

    def start(self, address: str, factory: NodeFactory | None = None) -> PeerNode:
        """Start a node, or start it again after a crash with what is on its disk."""
        if address in self.hosts:
            raise UsageError(f"{address} already runs", advice="Crash it first.")
        if factory is not None:
            self._factories[address] = factory
        host = SimulatedHost(address, self._factories[address](address))
        self.hosts[address] = host
        self._handle(host, Started(disk=dict(self.disks.setdefault(address, {}))))
        return host.node

    def crash(self, address: str, *, lose_disk: bool = False) -> None:
        """Stop a node at once; with `lose_disk` what it persisted is lost, too."""
        self.hosts.pop(address).is_alive = False
        if lose_disk:
            self.disks[address] = {}

    def pause(self, address: str, duration: int) -> None:
        """Give a node no processor for some time; its inputs are handled, in order, after it."""
        self.hosts[address].paused_until = self.now + duration

    def node(self, address: str) -> PeerNode:
        """The running node at an address."""
        return self.hosts[address].node

    def command(self, address: str, command: Input) -> None:
        """Give a node a command now."""
        host = self.hosts[address]
        if host.paused_until > self.now:
            self._push(host.paused_until, host, command)
        else:
            self._handle(host, command)

    # Time

    def schedule(self, at: int, action: Callable[[], None]) -> None:
        """Call a function at an instant of virtual time."""
        self._push(max(at, self.now), None, action)

    def run(self, *, until: int) -> None:
        """Process everything that is due up to an instant, inclusively."""
        while self._queue and self._queue[0][0] <= until:
            self.step()
        self.now = max(self.now, until)

    def step(self) -> bool:
        """Process the next entry of the queue; False if it is empty."""
        if not self._queue:
            return False
        at, sequence, host, item = heapq.heappop(self._queue)
        self.now = at
        if host is None:
            if callable(item):
                self.steps += 1
                item()
            else:
                self._arrive(*item)  # type: ignore[misc]
        elif host.is_alive:
            if host.paused_until > at:
                # Entries keep their order: a timer stays valid under its new sequence.
                self._sequence += 1
                if isinstance(item, tuple) and host.timers.get(item) == sequence:
                    host.timers[item] = self._sequence
                heapq.heappush(self._queue, (host.paused_until, self._sequence, host, item))
            elif not isinstance(item, tuple):
                self._handle(host, item)  # type: ignore[arg-type]
            elif host.timers.get(item) == sequence:
                del host.timers[item]
                self._handle(host, Expired(timer=item))
        return True

    def trace_hash(self) -> str:
        """A hash of all inputs so far: equal for equal runs."""
        return self._trace.hexdigest()

    # Inside

    def _push(self, at: int, host: SimulatedHost | None, item: object) -> None:
        self._sequence += 1
        heapq.heappush(self._queue, (at, self._sequence, host, item))

    def _arrive(self, to: str, received: Received) -> None:
        host = self.hosts.get(to)
        if host is None:
            return
        if host.paused_until > self.now:
            self._push(host.paused_until, host, received)
        elif self.machines is not None:
            self._push(self.machines.reserve(to, self.now), host, received)
        else:
            self._handle(host, received)

    def _handle(self, host: SimulatedHost, node_input: Input) -> None:
        self.steps += 1
        if self.is_detailed:
            self._trace.update(f"{self.now} {host.address} {node_input!r}\n".encode())
        else:
            subject = node_input.message if type(node_input) is Received else node_input
            self._trace.update(f"{self.now} {host.address} {type(subject).__name__}\n".encode())
        address = host.address
        now = self.now
        for effect in host.node.handle(now, node_input):
            kind = type(effect)
            if kind is Send:
                self._send(address, effect)  # type: ignore[arg-type]
            elif kind is SetTimer:
                self._push(max(effect.at, now), host, effect.timer)  # type: ignore[union-attr]
                host.timers[effect.timer] = self._sequence  # type: ignore[union-attr]
            elif kind is CancelTimer:
                host.timers.pop(effect.timer, None)  # type: ignore[union-attr]
            elif kind is Persist:
                self._persist(address, effect)  # type: ignore[arg-type]
            else:
                for listener in self.outcome_listeners:
                    listener(address, effect)  # type: ignore[arg-type]

    def _send(self, sender: str, send: Send) -> None:
        self.sent[type(getattr(send.message, "payload", send.message))] += 1
        received = None
        for delay in self.network.delays(self.random, sender, send.to):
            received = received or Received(sender=sender, message=send.message)
            self._push(self.now + delay, None, (send.to, received))

    def _persist(self, address: str, effect: Persist) -> None:
        disk = self.disks[address]
        if effect.value is None:
            disk.pop(effect.key, None)
        else:
            disk[effect.key] = effect.value
