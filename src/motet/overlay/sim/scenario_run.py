"""Runs scenarios in the simulator: applies their steps, checks what must hold during and after it, shrinks failures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from motet.overlay.protocol.can_membership import MEMBER
from motet.overlay.protocol.can_messages import CanResult, LeaveCan, MulticastToRegion
from motet.overlay.protocol.can_neighbourhood import CanSettings
from motet.overlay.protocol.identifiers import identifier_of
from motet.overlay.protocol.node import SECOND, NodeProtocol, Outcome
from motet.overlay.protocol.pastry import Pastry
from motet.overlay.protocol.scribe import Scribe
from motet.overlay.protocol.scribe_messages import PublishTopic, SubscribeTopic, TopicDelivered, UnsubscribeTopic
from motet.overlay.protocol.value_messages import StoreValue, ValueStored
from motet.overlay.protocol.values import ValueStore
from motet.overlay.protocol.zones import Space
from motet.overlay.sim.can_networks import SimulatedCan
from motet.overlay.sim.invariants import leaf_set_violations, ring_violations, topic_violations, value_violations
from motet.overlay.sim.network import Network
from motet.overlay.sim.random_scenario import random_scenario
from motet.overlay.sim.rings import LookupFigures, SimulatedRing
from motet.overlay.sim.scenario import CAN, PASTRY, Scenario, ScenarioStep, parse_region
from motet.overlay.sim.simulator import Simulator

CHECK_PERIOD = 30 * SECOND
LEAST_SETTLE = 120 * SECOND  # how long a run goes on after its last step, at least: pauses must be over
ENDINGS = ("heal", "repair", "calm")  # steps that end a disturbance
SEPARATIONS = {"partition", "break", "pause"}  # during these a lookup may reach the closest node of one side


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """What a run violated, when it was found, and the trace hash."""

    violations: tuple[str, ...]
    step: int
    at: float
    trace: str
    figures: LookupFigures


class ScenarioRun(ABC):
    """One run of a scenario with a seed; `make_run` makes the one for its protocol.

    `observer` is called with the run and what has happened, after each step and in between.
    """

    legend: str
    """What the colours of pictures mean."""

    def __init__(
        self, scenario: Scenario, simulator: Simulator, observer: Callable[[ScenarioRun, str], None] | None
    ) -> None:
        self.scenario = scenario
        self.simulator = simulator
        self._observer = observer or (lambda _run, _what: None)
        self._violation: tuple[str, ...] = ()
        self._applied = 0
        simulator.outcome_listeners.append(self._listen)

    def run(self) -> ScenarioResult:
        """Apply all steps, let the network settle, and check the invariants."""
        simulator = self.simulator
        self._build()
        start = simulator.now
        for index, step in enumerate(self.scenario.steps, 1):
            at = start + int(step.at * SECOND)
            simulator.schedule(at, lambda index=index, step=step: self._apply(index, step))  # type: ignore[misc]
        last = start + int(max((step.at for step in self.scenario.steps), default=0.0) * SECOND)
        end = last + int(self.scenario.settle * SECOND)
        settled = last + LEAST_SETTLE
        while simulator.now < end and not self._violation and not (simulator.now > settled and self._is_settled()):
            simulator.run(until=min(end, simulator.now + CHECK_PERIOD))
            self._observer(self, "")
            self._violation = tuple(self._safety_violations()[:1])
        if not self._violation:
            self._violation = tuple(self._settled_violations())
        return ScenarioResult(
            self._violation, self._applied, simulator.now / SECOND, simulator.trace_hash(), self.figures
        )

    @property
    @abstractmethod
    def figures(self) -> LookupFigures:
        """What became of the lookups."""

    @abstractmethod
    def picture(self) -> str:
        """The network as it is now, as SVG."""

    # What a protocol decides

    @abstractmethod
    def _build(self) -> None:
        """Start the network with which the scenario begins."""

    @abstractmethod
    def _is_active(self, node: str) -> bool:
        """Whether a step may be applied to a node."""

    def _is_settled(self) -> bool:
        """Whether the checks may be made before the time to settle is over."""
        return False

    @abstractmethod
    def _safety_violations(self) -> list[str]:
        """What must hold at every instant."""

    @abstractmethod
    def _settled_violations(self) -> Iterator[str]:
        """What must hold once the network has settled."""

    @abstractmethod
    def _listen(self, address: str, outcome: Outcome) -> None: ...

    # Steps

    def _apply(self, index: int, step: ScenarioStep) -> None:
        self._applied = index
        if self._violation:
            return
        node = step.arguments.get("node")
        if node is not None and self._is_active(node) == (step.action in ("join", "restart")):
            return
        getattr(self, f"_{step.action}")(**step.arguments)
        self._observer(self, str(step))

    @abstractmethod
    def _join(self, node: str) -> None: ...

    @abstractmethod
    def _crash(self, node: str, *, lose_disk: bool = True) -> None: ...

    @abstractmethod
    def _restart(self, node: str) -> None: ...

    @abstractmethod
    def _leave(self, node: str) -> None: ...

    @abstractmethod
    def _lookups(self, rate: float, seconds: float) -> None: ...

    def _pause(self, node: str, seconds: float) -> None:
        self.simulator.pause(node, int(seconds * SECOND))

    def _partition(self, nodes: list[str]) -> None:
        self.simulator.network.partition([nodes])

    def _break(self, node: str, peer: str) -> None:
        self.simulator.network.break_link(node, peer)

    def _repair(self, node: str, peer: str) -> None:
        self.simulator.network.repair_link(node, peer)

    def _heal(self) -> None:
        self.simulator.network.heal()

    def _calm(self) -> None:
        self.simulator.network.calm()


class RingRun(ScenarioRun):
    """A run of Pastry nodes with values and topics."""

    legend = "blue: active; orange: active with wrong neighbours; grey: joining, suspended or leaving"

    def __init__(
        self,
        scenario: Scenario,
        *,
        seed: int,
        is_detailed: bool = False,
        observer: Callable[[ScenarioRun, str], None] | None = None,
    ) -> None:
        self.ring = SimulatedRing(
            seed=seed,
            network=scenario.network(),
            leaf_size=scenario.leaf_size,
            layers=_layers,
            is_detailed=is_detailed,
        )
        self.stored: dict[int, bytes | None] = {}
        self._pending: dict[int, tuple[int, bytes | None]] = {}
        self._subscribers: dict[int, set[str]] = {}
        self._received: set[tuple[str, int, bytes]] = set()
        self._may_be_separated = not SEPARATIONS.isdisjoint(step.action for step in scenario.steps)
        super().__init__(scenario, self.ring.simulator, observer)

    @property
    def figures(self) -> LookupFigures:
        return self.ring.figures

    def picture(self) -> str:
        from motet.overlay.sim.drawing import draw_ring_states

        ring = self.ring
        misplaced = {contact.address for contact in ring.misplaced()}
        return draw_ring_states(
            {
                ring.contact(address).identifier: (
                    address,
                    "other"
                    if not ring.pastry(address).is_active
                    else "misplaced"
                    if address in misplaced
                    else "active",
                )
                for address in self.simulator.hosts
            }
        )

    def _build(self) -> None:
        self.ring.build(self.scenario.nodes)

    def _is_active(self, node: str) -> bool:
        return node in self.simulator.hosts and node in {contact.address for contact in self.ring.active}

    def _safety_violations(self) -> list[str]:
        wrong = 0 if self._may_be_separated else self.ring.figures.misdelivered
        delivery = [f"{wrong} lookups were delivered to a node that is not responsible"] if wrong else []
        return leaf_set_violations(self.ring) + delivery

    def _is_settled(self) -> bool:
        return next(self._structure_violations(), None) is None

    def _structure_violations(self) -> Iterator[str]:
        """What is wrong with nodes, neighbours, values and topics as they are now."""
        ring = self.ring
        if not ring.active:
            yield "no node is active"
            return
        idle = [address for address in self.simulator.hosts if not ring.pastry(address).is_active]
        yield from (f"{address} is {ring.pastry(address).state.value}, not active" for address in idle)
        yield from ring_violations(ring)
        yield from value_violations(ring, self.stored)
        yield from topic_violations(ring)

    def _settled_violations(self) -> Iterator[str]:
        ring, simulator = self.ring, self.simulator
        violations = list(self._structure_violations())
        if violations:
            yield from violations
            return
        before, ring.figures = ring.figures, LookupFigures()
        ring.lookups(rate=10, until=simulator.now + 5 * SECOND)
        self._received.clear()
        for topic in sorted(self._subscribers):
            simulator.command(ring.active[0].address, PublishTopic(tag=0, topic=topic, payload=b"last"))
        simulator.run(until=simulator.now + 70 * SECOND)
        figures, ring.figures = ring.figures, before
        if figures.failed or figures.misdelivered:
            yield f"after settling {figures.failed} lookups failed, {figures.misdelivered} were delivered wrongly"
        for topic, subscribers in sorted(self._subscribers.items()):
            alive = {address for address in subscribers if address in simulator.hosts}
            missed = sorted(address for address in alive if (address, topic, b"last") not in self._received)
            if missed:
                yield f"{', '.join(missed)}: the last publication of a topic was not delivered"

    def _join(self, node: str) -> None:
        if node not in self.simulator.hosts and node not in self.simulator.disks:
            self.ring.join(contact=self.ring.contact(node))

    def _crash(self, node: str, *, lose_disk: bool = True) -> None:
        if len(self.ring.active) > 1:
            self.ring.crash(node, lose_disk=lose_disk)
            for subscribers in self._subscribers.values():
                subscribers.discard(node)

    def _restart(self, node: str) -> None:
        if node not in self.simulator.hosts and node in self.simulator.disks:
            self.ring.rejoin(self.ring.contact(node))

    def _leave(self, node: str) -> None:
        if len(self.ring.active) > 1:
            self.ring.leave(node)
            for subscribers in self._subscribers.values():
                subscribers.discard(node)

    def _lookups(self, rate: float, seconds: float) -> None:
        self.ring.lookups(rate=rate, until=self.simulator.now + int(seconds * SECOND))

    def _store(self, node: str, key: str, value: str) -> None:
        number = identifier_of(key)
        tag = len(self._pending) + 1
        self._pending[tag] = (number, value.encode())
        self.simulator.command(node, StoreValue(tag=tag, key=number, value=value.encode()))

    def _subscribe(self, node: str, topic: str) -> None:
        self._subscribers.setdefault(identifier_of(topic), set()).add(node)
        self.simulator.command(node, SubscribeTopic(topic=identifier_of(topic)))

    def _unsubscribe(self, node: str, topic: str) -> None:
        self._subscribers.setdefault(identifier_of(topic), set()).discard(node)
        self.simulator.command(node, UnsubscribeTopic(topic=identifier_of(topic)))

    def _publish(self, node: str, topic: str, value: str) -> None:
        self.simulator.command(node, PublishTopic(tag=0, topic=identifier_of(topic), payload=value.encode()))

    def _listen(self, address: str, outcome: Outcome) -> None:
        if isinstance(outcome, ValueStored) and outcome.tag in self._pending:
            key, value = self._pending[outcome.tag]
            self.stored[key] = value
        elif isinstance(outcome, TopicDelivered):
            self._received.add((address, outcome.topic, outcome.payload))


def _layers(pastry: Pastry) -> list[NodeProtocol]:
    return [ValueStore(pastry), Scribe(pastry)]


class CanRun(ScenarioRun):
    """A run of peers of a CAN."""

    legend = "zones of the peers in two dimensions; the darker, the more stored values"

    def __init__(
        self,
        scenario: Scenario,
        *,
        seed: int,
        is_detailed: bool = False,
        observer: Callable[[ScenarioRun, str], None] | None = None,
    ) -> None:
        self.axes = (0, 1)
        self.can = SimulatedCan(
            seed=seed,
            space=Space(scenario.dimensions),
            settings=CanSettings(is_greedy=scenario.greedy),
            network=Network(latency=scenario.network().latency),
            is_detailed=is_detailed,
        )
        self._figures = LookupFigures()
        self._lookup_tags: set[str] = set()
        super().__init__(scenario, self.can.simulator, observer)

    @property
    def figures(self) -> LookupFigures:
        return self._figures

    def picture(self) -> str:
        from motet.overlay.sim.drawing import draw_zones

        can = self.can
        zones = {address: can.can(address).members.zones() for address in can.addresses()}
        loads = {address: can.storage(address).statistics()["own"] for address in can.addresses()}
        return draw_zones(can.space, zones, dimensions=self.axes, loads=loads)

    def _build(self) -> None:
        self.can.grow(self.scenario.nodes)
        links = self.scenario.network()
        for name in ("loss", "duplication", "reordering"):
            setattr(self.simulator.network, name, getattr(links, name))

    def _is_active(self, node: str) -> bool:
        return node in self.simulator.hosts

    def _is_settled(self) -> bool:
        self.can.stop_left()
        return not self.can.violations()

    def _safety_violations(self) -> list[str]:
        self.can.stop_left()
        return [
            f"{address} holds {left} and {right}, which overlap"
            for address in self.can.addresses()
            for left, right in combinations(self.can.can(address).members.zones(), 2)
            if left.overlaps(right)
        ] + [f"{value} was lost with fewer peers than have copies" for value in self.can.wiped]

    def _settled_violations(self) -> Iterator[str]:
        can, random = self.can, self.simulator.random
        violations = can.violations()
        if violations:
            yield from violations
            return
        can.wait(60 * SECOND)  # the last copies reach their owners
        yield from can.value_violations()
        for is_flooded in (False, False, False, True):
            yield from can.multicast_violations(random, is_flooded=is_flooded)
        yield from can.lookup_violations(random)

    def _join(self, node: str) -> None:
        members = self.can.members()
        if node not in self.simulator.disks and members:  # some contacts: one of them may fail before it answers
            self.can.start(self.simulator.random.sample(members, min(3, len(members))), address=node)

    def _crash(self, node: str, *, lose_disk: bool = True) -> None:
        if len(self.can.addresses()) > 1:
            self.can.crash([node], lose_disk=lose_disk)

    def _restart(self, node: str) -> None:
        if node in self.simulator.disks:
            self.can.restart(node)

    def _leave(self, node: str) -> None:
        if self.can.can(node).state == MEMBER and len(self.can.members()) > 1:
            self.simulator.command(node, LeaveCan())

    def _lookups(self, rate: float, seconds: float) -> None:
        until = self.simulator.now + int(seconds * SECOND)

        def start() -> None:
            if self.simulator.now < until and self.can.members():
                self.figures.started += 1
                self._lookup_tags.add(self.can.look_up(self.simulator.random))
                delay = int(self.simulator.random.expovariate(rate) * SECOND)
                self.simulator.schedule(self.simulator.now + delay, start)

        start()

    def _listen(self, address: str, outcome: Outcome) -> None:
        if isinstance(outcome, CanResult) and outcome.tag in self._lookup_tags:
            self.figures.delivered += outcome.is_complete
            self.figures.failed += not outcome.is_complete
            if outcome.is_complete:
                self.figures.hops.append(outcome.hops)

    def _put(self, node: str, point: list[str], value: str) -> None:
        self.can.store(node, tuple(point), value.encode())

    def _remove(self, node: str, point: list[str], value: str) -> None:
        self.can.remove(node, tuple(point), value.encode())

    def _multicast(self, node: str, region: list[Any], value: str) -> None:
        command = MulticastToRegion(tag=f"step {self._applied}", region=parse_region(region), payload=value.encode())
        self.simulator.command(node, command)


def make_run(
    scenario: Scenario,
    *,
    seed: int,
    is_detailed: bool = False,
    observer: Callable[[ScenarioRun, str], None] | None = None,
) -> ScenarioRun:
    """The run of a scenario with a seed.

    >>> scenario = Scenario(nodes=8, settle=120, steps=(ScenarioStep(5, "crash", {"node": "n3"}),))
    >>> make_run(scenario, seed=1).run().violations
    ()
    """
    kind = CanRun if scenario.protocol == CAN else RingRun
    return kind(scenario, seed=seed, is_detailed=is_detailed, observer=observer)


def shrink(scenario: Scenario, *, seed: int, max_runs: int = 60) -> Scenario:
    """Remove steps while the run still violates an invariant: first large pieces, then single steps.

    Steps that end a disturbance stay: without them every network would violate something.
    """
    steps = list(scenario.steps)
    size = max(1, len(steps) // 2)
    runs = 0
    while runs < max_runs:
        index, is_smaller = 0, False
        while index < len(steps) and runs < max_runs:
            ending = [step for step in steps[index : index + size] if step.action in ENDINGS]
            candidate = steps[:index] + ending + steps[index + size :]
            runs += 1
            if (
                len(candidate) < len(steps)
                and make_run(replace(scenario, steps=tuple(candidate)), seed=seed).run().violations
            ):
                steps, is_smaller = candidate, True
            else:
                index += size
        if size == 1 and not is_smaller:
            break
        size = max(1, size // 2)
    return replace(scenario, steps=tuple(steps))


@dataclass(frozen=True, slots=True)
class SeedReport:
    """The result of one seed and, if it violated something, the smallest schedule that still does."""

    seed: int
    result: ScenarioResult
    shrunk: Scenario | None

    def to_dict(self) -> dict[str, Any]:
        report: dict[str, Any] = {"seed": self.seed, "trace": self.result.trace}
        if self.shrunk is not None:
            report |= {
                "violations": list(self.result.violations),
                "step": self.result.step,
                "at": self.result.at,
                "schedule": self.shrunk.to_dict(),
            }
        return report


def run_seed(
    seed: int, scenario: Scenario | None = None, *, nodes: int | None = None, protocol: str = PASTRY
) -> SeedReport:
    """Run a scenario, or the random one of the seed, and shrink it if it violates something."""
    scenario = scenario or random_scenario(seed, nodes=nodes, protocol=protocol)
    result = make_run(scenario, seed=seed).run()
    return SeedReport(seed, result, shrink(scenario, seed=seed) if result.violations else None)
