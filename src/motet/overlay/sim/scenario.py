"""Scenarios: what happens to a network of Pastry nodes and when, from a file or at random from a seed.

A scenario is a list of steps at instants. A step that cannot be applied (its node does not run) has no effect, so that
a scenario stays valid when steps are removed: `shrink` removes as many as it can while something is still violated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from motet.model.errors import UsageError
from motet.overlay.protocol.identifiers import identifier_of
from motet.overlay.protocol.node import SECOND, NodeProtocol, Outcome
from motet.overlay.protocol.pastry import Pastry
from motet.overlay.protocol.scribe import PublishTopic, Scribe, SubscribeTopic, TopicDelivered, UnsubscribeTopic
from motet.overlay.protocol.values import StoreValue, ValueStore, ValueStored
from motet.overlay.sim.invariants import ring_violations, safety_violations, topic_violations, value_violations
from motet.overlay.sim.network import GeographicLatency, Network, UniformLatency
from motet.overlay.sim.rings import LookupFigures, SimulatedRing

CHECK_PERIOD = 30 * SECOND

ACTIONS: dict[str, tuple[str, ...]] = {
    "join": ("node",),
    "crash": ("node",),
    "restart": ("node",),
    "leave": ("node",),
    "pause": ("node", "seconds"),
    "partition": ("nodes",),
    "break": ("node", "peer"),
    "repair": ("node", "peer"),
    "heal": (),
    "lookups": ("rate", "seconds"),
    "store": ("node", "key", "value"),
    "subscribe": ("node", "topic"),
    "unsubscribe": ("node", "topic"),
    "publish": ("node", "topic", "value"),
}
"""The actions of a step with their arguments. Nodes are names: n0, n1, … in the order of their first start."""

OPTIONAL_ARGUMENTS = {"crash": ("lose_disk",)}


@dataclass(frozen=True, slots=True)
class ScenarioStep:
    """One action at an instant, in seconds."""

    at: float
    action: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {"at": self.at, "do": self.action, **self.arguments}

    def __str__(self) -> str:
        arguments = " ".join(f"{name}={value}" for name, value in self.arguments.items())
        return f"{self.at:g} s: {self.action} {arguments}".rstrip()


@dataclass(frozen=True, slots=True)
class Scenario:
    """The size of a network, the behaviour of its links, the steps, and the time to settle after the last one."""

    nodes: int = 20
    leaf_size: int = 8
    latency: str = "geographic"
    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    settle: float = 900
    steps: tuple[ScenarioStep, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The scenario as a file holds it."""
        names = ("nodes", "leaf_size", "latency", "loss", "duplication", "reordering", "settle")
        return {name: getattr(self, name) for name in names} | {"steps": [step.to_dict() for step in self.steps]}

    def network(self) -> Network:
        latency = GeographicLatency() if self.latency == "geographic" else UniformLatency()
        return Network(latency=latency, loss=self.loss, duplication=self.duplication, reordering=self.reordering)


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """What a run violated, when it was found, and the trace hash."""

    violations: tuple[str, ...]
    step: int
    at: float
    trace: str
    figures: LookupFigures


def load_scenario(path: Path) -> Scenario:
    """Read a scenario from a YAML or JSON file; UsageError says what is wrong with it."""
    import yaml

    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"{path} cannot be read: {error}", advice="Give a YAML or JSON file.") from None
    return parse_scenario(value, str(path))


def parse_scenario(value: Any, name: str = "the scenario") -> Scenario:
    """A scenario from the dictionary of a file.

    >>> parse_scenario({"nodes": 4, "steps": [{"at": 3, "do": "crash", "node": "n1"}]}).steps[0].action
    'crash'
    """
    if not isinstance(value, dict):
        raise UsageError(f"{name} is no mapping", advice="Begin with a line such as `nodes: 20`.")
    defaults = Scenario().to_dict()
    unknown = sorted(set(value) - set(defaults))
    if unknown:
        raise UsageError(f"{name}: {unknown[0]!r} is unknown", advice=f"The keys are {', '.join(defaults)}.")
    settings = {key: item for key, item in value.items() if key != "steps"}
    for key, item in settings.items():
        kind = str if key == "latency" else (int, float)
        if not isinstance(item, kind) or isinstance(item, bool):
            raise UsageError(f"{name}: {key} is {item!r}", advice=f"Give a value such as {defaults[key]!r}.")
    if settings.get("latency", "geographic") not in ("geographic", "uniform"):
        raise UsageError(f"{name}: latency is {settings['latency']!r}", advice="Use geographic or uniform.")
    if not 1 <= settings.get("nodes", 1) <= 100_000:
        raise UsageError(f"{name}: nodes is {settings['nodes']}", advice="Use 1 to 100000.")
    steps = [_parse_step(step, f"{name}, step {index}") for index, step in enumerate(value.get("steps") or [], 1)]
    return Scenario(**settings, steps=tuple(sorted(steps, key=lambda step: step.at)))


def _parse_step(value: Any, name: str) -> ScenarioStep:
    if not isinstance(value, dict) or not isinstance(value.get("at"), int | float):
        raise UsageError(f"{name} has no time", advice="Write a step as {at: 10, do: crash, node: n3}.")
    action = value.get("do")
    if action not in ACTIONS:
        raise UsageError(f"{name}: {action!r} is no action", advice=f"The actions are {', '.join(ACTIONS)}.")
    arguments = {key: item for key, item in value.items() if key not in ("at", "do")}
    missing = [key for key in ACTIONS[action] if key not in arguments]
    unknown = sorted(set(arguments) - {*ACTIONS[action], *OPTIONAL_ARGUMENTS.get(action, ())})
    if missing or unknown:
        problem = f"{missing[0]} is missing" if missing else f"{unknown[0]!r} is unknown"
        raise UsageError(f"{name}: {problem}", advice=f"{action} has {', '.join(ACTIONS[action]) or 'no arguments'}.")
    return ScenarioStep(float(value["at"]), action, arguments)


# Random scenarios


def random_scenario(seed: int, *, nodes: int = 20) -> Scenario:
    """A scenario in which everything happens that the protocols promise to survive, drawn from a seed.

    At most three nodes lose their values between two rounds of repair: a value has four replicas.
    """
    random = Random(seed)  # noqa: S311  a simulation
    names = [f"n{index}" for index in range(nodes)]
    steps: list[ScenarioStep] = []
    now = 5.0

    def add(action: str, *, after: float = 0, **arguments: Any) -> None:
        nonlocal now
        now = round(now + after + random.expovariate(1.0), 3)
        steps.append(ScenarioStep(now, action, arguments))

    for index in range(12):
        add("store", node=random.choice(names), key=f"key {index}", value=f"value {index}")
    for name in random.sample(names, len(names) // 2):
        add("subscribe", node=name, topic=f"topic {random.randrange(2)}")
    for _ in range(random.randint(2, 5)):
        now += 20
        _add_epoch(random, names, add)
        now += 100
    return Scenario(
        nodes=nodes,
        latency=random.choice(["geographic", "uniform"]),
        loss=random.choice([0.0, 0.02, 0.05]),
        duplication=random.choice([0.0, 0.02]),
        reordering=random.choice([0.0, 0.05]),
        steps=tuple(steps),
    )


def _add_epoch(random: Random, names: list[str], add: Callable[..., None]) -> None:  # noqa: PLR0912  kinds
    kind = random.choice(["crash", "restart", "join", "leave", "pause", "partition", "links", "write"])
    chosen = random.sample(names, 3)
    if kind == "crash":
        for name in chosen[: random.randint(1, 3)]:
            add("crash", node=name)
            names.remove(name)
    elif kind == "restart":
        for name in chosen:
            add("crash", node=name, lose_disk=random.random() < 0.5)
        for name in chosen:
            add("restart", node=name)
    elif kind == "join":
        for _ in range(random.randint(1, 5)):
            names.append(f"n{1 + max(int(name[1:]) for name in names) + random.randrange(2)}")
            add("join", node=names[-1])
    elif kind == "leave":
        for name in chosen[: random.randint(1, 3)]:
            add("leave", node=name)
            names.remove(name)
    elif kind == "pause":
        add("pause", node=chosen[0], seconds=random.choice([2, 10, 40]))
    elif kind == "partition":
        add("partition", nodes=sorted(random.sample(names, random.randint(1, len(names) - 1))))
        add("heal", after=random.choice([10, 60, 300]))
    elif kind == "links":
        links = [(name, random.choice(names)) for name in random.sample(names, 5)]
        for name, peer in links:
            add("break", node=name, peer=peer)
        wait = random.choice([0, 20, 60])
        for name, peer in random.sample(links, len(links)):
            add("repair", after=wait, node=name, peer=peer)
    else:
        add("store", node=chosen[0], key=f"key {random.randrange(12)}", value=f"new {random.randrange(1000)}")
        add(random.choice(["subscribe", "unsubscribe"]), node=chosen[1], topic=f"topic {random.randrange(2)}")
        add("publish", node=chosen[2], topic=f"topic {random.randrange(2)}", value="something")
        add("lookups", rate=2, seconds=20)


# Runs


class ScenarioRun:
    """One run of a scenario with a seed.

    >>> scenario = Scenario(nodes=8, settle=120, steps=(ScenarioStep(5, "crash", {"node": "n3"}),))
    >>> ScenarioRun(scenario, seed=1).run().violations
    ()
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        seed: int,
        is_detailed: bool = False,
        observer: Callable[[SimulatedRing, str], None] | None = None,
    ) -> None:
        self.scenario = scenario
        self._observer = observer or (lambda _ring, _what: None)
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
        self._violation: tuple[str, ...] = ()
        self._applied = 0
        self.ring.simulator.outcome_listeners.append(self._listen)

    def run(self) -> ScenarioResult:
        """Apply all steps, let the network settle, and check the invariants."""
        ring, simulator = self.ring, self.ring.simulator
        ring.build(self.scenario.nodes)
        for index, step in enumerate(self.scenario.steps, 1):
            simulator.schedule(int(step.at * SECOND), lambda index=index, step=step: self._apply(index, step))  # type: ignore[misc]
        last = max((step.at for step in self.scenario.steps), default=0.0)
        end = int((last + self.scenario.settle) * SECOND)
        while simulator.now < end and not self._violation:
            simulator.run(until=min(end, simulator.now + CHECK_PERIOD))
            self._observer(ring, "")
            self._violation = tuple(safety_violations(ring)[:1]) if not ring.figures.misdelivered else ()
        if not self._violation:
            self._violation = tuple(self._settled_violations())
        return ScenarioResult(
            self._violation, self._applied, simulator.now / SECOND, simulator.trace_hash(), ring.figures
        )

    def _settled_violations(self) -> Iterator[str]:
        ring, simulator = self.ring, self.ring.simulator
        if not ring.active:
            yield "no node is active"
            return
        idle = [address for address in simulator.hosts if not ring.pastry(address).is_active]
        yield from (f"{address} is {ring.pastry(address).state.value}, not active" for address in idle)
        yield from ring_violations(ring)
        yield from value_violations(ring, self.stored)
        yield from topic_violations(ring)
        ring.figures = LookupFigures()
        ring.lookups(rate=10, until=simulator.now + 5 * SECOND)
        self._received.clear()
        for topic in sorted(self._subscribers):
            simulator.command(ring.active[0].address, PublishTopic(tag=0, topic=topic, payload=b"last"))
        simulator.run(until=simulator.now + 70 * SECOND)
        figures = ring.figures
        if figures.failed or figures.misdelivered:
            yield f"after settling {figures.failed} lookups failed, {figures.misdelivered} were delivered wrongly"
        for topic, subscribers in sorted(self._subscribers.items()):
            alive = {address for address in subscribers if address in simulator.hosts}
            missed = sorted(address for address in alive if (address, topic, b"last") not in self._received)
            if missed:
                yield f"{', '.join(missed)}: the last publication of a topic was not delivered"

    def _apply(self, index: int, step: ScenarioStep) -> None:
        self._applied = index
        if self._violation:
            return
        arguments = step.arguments
        node = arguments.get("node")
        is_running = node in self.ring.simulator.hosts and node in {contact.address for contact in self.ring.active}
        if node is not None and is_running == (step.action in ("join", "restart")):
            return
        getattr(self, f"_{step.action}")(**arguments)
        self._observer(self.ring, str(step))

    def _join(self, node: str) -> None:
        if node not in self.ring.simulator.hosts and node not in self.ring.simulator.disks:
            self.ring.join(contact=self.ring.contact(node))

    def _crash(self, node: str, *, lose_disk: bool = True) -> None:
        if len(self.ring.active) > 1:
            self.ring.crash(node, lose_disk=lose_disk)
            for subscribers in self._subscribers.values():
                subscribers.discard(node)

    def _restart(self, node: str) -> None:
        if node not in self.ring.simulator.hosts and node in self.ring.simulator.disks:
            self.ring.rejoin(self.ring.contact(node))

    def _leave(self, node: str) -> None:
        if len(self.ring.active) > 1:
            self.ring.leave(node)
            for subscribers in self._subscribers.values():
                subscribers.discard(node)

    def _pause(self, node: str, seconds: float) -> None:
        self.ring.simulator.pause(node, int(seconds * SECOND))

    def _partition(self, nodes: list[str]) -> None:
        self.ring.network.partition([nodes])

    def _break(self, node: str, peer: str) -> None:
        self.ring.network.break_link(node, peer)

    def _repair(self, node: str, peer: str) -> None:
        self.ring.network.repair_link(node, peer)

    def _heal(self) -> None:
        self.ring.network.heal()

    def _lookups(self, rate: float, seconds: float) -> None:
        self.ring.lookups(rate=rate, until=self.ring.simulator.now + int(seconds * SECOND))

    def _store(self, node: str, key: str, value: str) -> None:
        number = identifier_of(key)
        tag = len(self._pending) + 1
        self._pending[tag] = (number, value.encode())
        self.ring.simulator.command(node, StoreValue(tag=tag, key=number, value=value.encode()))

    def _subscribe(self, node: str, topic: str) -> None:
        self._subscribers.setdefault(identifier_of(topic), set()).add(node)
        self.ring.simulator.command(node, SubscribeTopic(topic=identifier_of(topic)))

    def _unsubscribe(self, node: str, topic: str) -> None:
        self._subscribers.setdefault(identifier_of(topic), set()).discard(node)
        self.ring.simulator.command(node, UnsubscribeTopic(topic=identifier_of(topic)))

    def _publish(self, node: str, topic: str, value: str) -> None:
        self.ring.simulator.command(node, PublishTopic(tag=0, topic=identifier_of(topic), payload=value.encode()))

    def _listen(self, address: str, outcome: Outcome) -> None:
        if isinstance(outcome, ValueStored) and outcome.tag in self._pending:
            key, value = self._pending[outcome.tag]
            self.stored[key] = value
        elif isinstance(outcome, TopicDelivered):
            self._received.add((address, outcome.topic, outcome.payload))


def _layers(pastry: Pastry) -> list[NodeProtocol]:
    return [ValueStore(pastry), Scribe(pastry)]


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
            ending = [step for step in steps[index : index + size] if step.action in ("heal", "repair")]
            candidate = steps[:index] + ending + steps[index + size :]
            runs += 1
            if (
                len(candidate) < len(steps)
                and ScenarioRun(replace(scenario, steps=tuple(candidate)), seed=seed).run().violations
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


def run_seed(seed: int, scenario: Scenario | None = None, *, nodes: int = 20) -> SeedReport:
    """Run a scenario, or the random one of the seed, and shrink it if it violates something."""
    scenario = scenario or random_scenario(seed, nodes=nodes)
    result = ScenarioRun(scenario, seed=seed).run()
    return SeedReport(seed, result, shrink(scenario, seed=seed) if result.violations else None)
