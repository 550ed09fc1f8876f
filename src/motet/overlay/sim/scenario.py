"""Scenarios: what happens to a network of nodes and when, from a file or at random from a seed.

A scenario is a list of steps at instants. A step that cannot be applied (its node does not run) has no effect, so that
a scenario stays valid when steps are removed. `scenario_run` runs it in the simulator, `overlay.net` on processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from motet.model.errors import UsageError
from motet.overlay.protocol.coordinates import Alphabet, CoordinateRange
from motet.overlay.protocol.zones import Region, region_of
from motet.overlay.sim.network import GeographicLatency, Network, UniformLatency

PASTRY, CAN = "pastry", "can"

COMMON_ACTIONS: dict[str, tuple[str, ...]] = {
    "join": ("node",),
    "crash": ("node",),
    "restart": ("node",),
    "leave": ("node",),
    "pause": ("node", "seconds"),
    "partition": ("nodes",),
    "break": ("node", "peer"),
    "repair": ("node", "peer"),
    "heal": (),
    "calm": (),
    "lookups": ("rate", "seconds"),
}
ACTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    PASTRY: {
        **COMMON_ACTIONS,
        "store": ("node", "key", "value"),
        "subscribe": ("node", "topic"),
        "unsubscribe": ("node", "topic"),
        "publish": ("node", "topic", "value"),
    },
    CAN: {
        **COMMON_ACTIONS,
        "put": ("node", "point", "value"),
        "remove": ("node", "point", "value"),
        "multicast": ("node", "region", "value"),
    },
}
"""The actions of a step with their arguments. Nodes are names: n0, n1, … in the order of their first start.

`heal` ends partitions and repairs links, `calm` ends loss, repetition and reordering.
"""

OPTIONAL_ARGUMENTS = {"crash": ("lose_disk",)}
COMMON_SETTINGS = ("protocol", "nodes", "latency", "loss", "duplication", "reordering", "settle")
SETTINGS = {PASTRY: (*COMMON_SETTINGS, "leaf_size"), CAN: (*COMMON_SETTINGS, "dimensions", "greedy")}
MAX_SECONDS = 10_000_000
MAX_RATE = 10_000


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

    protocol: str = PASTRY
    nodes: int = 20
    leaf_size: int = 8
    dimensions: int = 2
    greedy: bool = False
    latency: str = "geographic"
    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    settle: float = 900
    steps: tuple[ScenarioStep, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The scenario as a file holds it."""
        settings = {name: getattr(self, name) for name in SETTINGS[self.protocol]}
        return settings | {"steps": [step.to_dict() for step in self.steps]}

    def network(self) -> Network:
        latency = GeographicLatency() if self.latency == "geographic" else UniformLatency()
        return Network(latency=latency, loss=self.loss, duplication=self.duplication, reordering=self.reordering)


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
    protocol = value.get("protocol", PASTRY)
    if protocol not in ACTIONS:
        raise UsageError(f"{name}: protocol is {protocol!r}", advice=f"Use {' or '.join(ACTIONS)}.")
    unknown = [key for key in value if key not in (*SETTINGS[protocol], "steps")]
    if unknown:
        advice = f"The keys for {protocol} are {', '.join((*SETTINGS[protocol], 'steps'))}."
        raise UsageError(f"{name}: {unknown[0]!r} is unknown", advice=advice)
    settings = {key: parse_setting(key, item, name) for key, item in value.items() if key != "steps"}
    scenario = Scenario(**settings)
    steps = value.get("steps") or []
    if not isinstance(steps, list):
        raise UsageError(f"{name}: steps is no list", advice="Write each step as - {at: 10, do: crash, node: n3}.")
    parsed = [_parse_step(step, scenario, f"{name}, step {index}") for index, step in enumerate(steps, 1)]
    return replace(scenario, steps=tuple(sorted(parsed, key=lambda step: step.at)))


_CHOICES = {"latency": ("geographic", "uniform"), "protocol": (PASTRY, CAN), "greedy": (True, False)}
_LIMITS = {
    "nodes": (1, 100_000),
    "leaf_size": (4, 128),
    "dimensions": (1, 16),
    "loss": (0, 0.99),
    "duplication": (0, 1),
    "reordering": (0, 1),
    "settle": (0, MAX_SECONDS),
}


def parse_setting(key: str, value: Any, name: str) -> Any:
    """The value of a setting; UsageError says what is wrong with it."""
    if key in _CHOICES:
        if value not in _CHOICES[key]:
            advice = f"Use {' or '.join(str(choice).lower() for choice in _CHOICES[key])}."
            raise UsageError(f"{name}: {key} is {value!r}", advice=advice)
        return value
    low, high = _LIMITS[key]
    is_number = isinstance(value, int if isinstance(getattr(Scenario(), key), int) else (int, float))
    if not is_number or isinstance(value, bool) or not low <= value <= high:
        raise UsageError(f"{name}: {key} is {value!r}", advice=f"Use a number from {low} to {high}.")
    return value


def _parse_step(value: Any, scenario: Scenario, name: str) -> ScenarioStep:
    if not isinstance(value, dict) or not _is_number(value.get("at"), MAX_SECONDS):
        raise UsageError(f"{name} has no time", advice="Write a step as {at: 10, do: crash, node: n3}.")
    actions = ACTIONS[scenario.protocol]
    action = value.get("do")
    if action not in actions:
        known = ", ".join(actions)
        raise UsageError(f"{name}: {action!r} is no action", advice=f"The actions for {scenario.protocol} are {known}.")
    arguments = {key: item for key, item in value.items() if key not in ("at", "do")}
    missing = [key for key in actions[action] if key not in arguments]
    unknown = sorted(set(arguments) - {*actions[action], *OPTIONAL_ARGUMENTS.get(action, ())})
    if missing or unknown:
        problem = f"{missing[0]} is missing" if missing else f"{unknown[0]!r} is unknown"
        raise UsageError(f"{name}: {problem}", advice=f"{action} has {', '.join(actions[action]) or 'no arguments'}.")
    for key, item in arguments.items():
        advice = _advice_on(key, item, scenario.dimensions)
        if advice:
            raise UsageError(f"{name}: {key} is {item!r}", advice=advice)
    return ScenarioStep(float(value["at"]), action, arguments)


def _advice_on(key: str, value: Any, dimensions: int) -> str | None:
    """What to write instead of a wrong argument; None if it is right."""
    if key in ("node", "peer"):
        return None if _is_name(value) else "Nodes are n0, n1, and so on."
    if key == "nodes":
        return None if isinstance(value, list) and all(map(_is_name, value)) else "Write a list: [n0, n1]."
    if key in ("seconds", "rate"):
        limit = MAX_SECONDS if key == "seconds" else MAX_RATE
        return None if _is_number(value, limit) and value > 0 else f"Write a number above 0, up to {limit}."
    if key == "lose_disk":
        return None if isinstance(value, bool) else "Write true or false."
    if key in ("point", "region"):
        is_right = isinstance(value, list) and len(value) == dimensions
        kinds = all(isinstance(item, str) or (key == "region" and _is_interval(item)) for item in value or ())
        interval = "; an interval is [low, high], a free dimension null" if key == "region" else ""
        return None if is_right and kinds else f"Write a list of {dimensions} texts{interval}."
    return None if isinstance(value, str) else "Write a text, in quotes if it looks like a number."


def _is_number(value: Any, limit: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= limit


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value[:1] == "n" and value[1:].isdecimal() and value.isascii()


def _is_interval(value: Any) -> bool:
    if value is None:
        return True
    is_pair = isinstance(value, list) and len(value) == 2 and all(isinstance(bound, str) for bound in value)
    return is_pair and value[0] <= value[1]


def parse_region(value: list[Any]) -> Region:
    """The region of a step: texts are fixed, pairs bounded, null is free."""
    return region_of(*(CoordinateRange(*item) if isinstance(item, list) else item for item in value))


# Random scenarios


def random_scenario(seed: int, *, nodes: int | None = None, protocol: str = PASTRY) -> Scenario:
    """A scenario in which everything happens that the protocols promise to survive, drawn from a seed.

    >>> random_scenario(1) == random_scenario(1), random_scenario(1, protocol="can").dimensions in (2, 3, 4)
    (True, True)
    """
    random = Random(seed)  # noqa: S311  a simulation
    return _random_can(random, nodes or 14) if protocol == CAN else _random_pastry(random, nodes or 20)


def _random_pastry(random: Random, nodes: int) -> Scenario:
    """At most three nodes lose their values between two rounds of repair: a value has four replicas."""
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
    kind = random.choice(["crash", "restart", "return", "join", "leave", "pause", "partition", "links", "write"])
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
    elif kind == "return":  # a node is away for a moment; soon after its return two fail, it may be one of them
        add("crash", node=chosen[0], lose_disk=random.random() < 0.5)
        add("restart", after=random.choice([0, 5, 40]), node=chosen[0])
        failing = random.sample(chosen, 2)
        add("crash", after=random.choice([0, 10, 30]), node=failing[0])
        add("crash", node=failing[1])
        names[:] = [name for name in names if name not in failing]
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


def _random_can(random: Random, nodes: int) -> Scenario:
    """At most two peers lose their values between two rounds of repair; links lose nothing at the end."""
    names = [f"n{index}" for index in range(nodes)]
    dimensions = random.choice((2, 3, 4))
    alphabet = Alphabet()
    values: list[tuple[list[str], str]] = []
    steps: list[ScenarioStep] = []
    now, repaired = 5.0, 0.0

    def add(action: str, *, after: float = 0, **arguments: Any) -> None:
        nonlocal now
        now = round(now + after + random.random(), 3)
        steps.append(ScenarioStep(now, action, arguments))

    def point() -> list[str]:
        return [alphabet.text_at(random.getrandbits(40), 2**40) for _ in range(dimensions)]

    def region() -> list[Any]:
        pairs = zip(point(), point(), strict=True)
        return [random.choice([low, [min(low, high), max(low, high)], None]) for low, high in pairs]

    def put() -> None:
        is_again = values and random.random() < 0.3  # the same value again, perhaps after its removal
        at, value = random.choice(values) if is_again else (point(), f"value {len(values)}")
        values.append((at, value))
        add("put", node=random.choice(names), point=at, value=value)

    for _ in range(10):
        put()
    for _ in range(10):
        now += random.choice((1, 5, 20, 60))
        kinds = (
            "crash",
            "restart",
            "join",
            "leave",
            "pause",
            "split",
            "links",
            "put",
            "remove",
            "multicast",
            "lookups",
        )
        (kind,) = random.choices(kinds, weights=(3, 2, 2, 2, 2, 2, 1, 2, 3, 1, 1))
        if kind == "put":
            put()
        elif kind == "remove":
            at, value = random.choice(values)
            add("remove", node=random.choice(names), point=at, value=value)
        elif kind == "multicast":
            add("multicast", node=random.choice(names), region=region(), value="during churn")
        elif kind == "lookups":
            add("lookups", rate=2, seconds=20)
        elif kind == "split":
            wait = random.choice((10, 60, 120))
            add("partition", nodes=sorted(random.sample(names, random.randint(1, len(names) - 1))))
            for _ in range(2):
                now += wait
                put()
            at, value = random.choice(values)
            add("remove", node=random.choice(names), point=at, value=value)
            add("heal", after=random.choice((10, 60, 120)))
            repaired = now + 120
        else:
            if kind == "crash":  # a value that was put on a side of one peer has no copies before
                now = max(now, repaired)
            _add_membership(random, kind, names, add)
    add("heal")
    add("calm")
    return Scenario(
        protocol=CAN,
        nodes=nodes,
        dimensions=dimensions,
        greedy=random.random() < 0.5,
        latency="uniform",
        loss=random.choice([0.0, 0.05, 0.1]),
        duplication=0.05,
        reordering=0.1,
        settle=1200,
        steps=tuple(steps),
    )


def _add_membership(random: Random, kind: str, names: list[str], add: Callable[..., None]) -> None:
    """Peers that crash, return, join, leave, stand still, or cannot reach each other."""
    spare = max(0, len(names) - 4)
    chosen = random.sample(names, min(2, spare)) if kind == "crash" else random.sample(names, 1)
    if kind == "crash":  # fewer than the copies of a value; the next ones after these were made again
        for name in chosen:
            add("crash", node=name)
            names.remove(name)
        add("lookups", after=90, rate=1, seconds=5)
    elif kind == "restart":
        add("crash", node=chosen[0], lose_disk=False)
        add("restart", after=random.choice((1, 10, 60)), node=chosen[0])
    elif kind == "join":
        names.append(f"n{1 + max(int(name[1:]) for name in names)}")
        add("join", node=names[-1])
    elif kind == "leave" and spare:
        add("leave", node=chosen[0])
        names.remove(chosen[0])
    elif kind == "pause":
        add("pause", node=chosen[0], seconds=random.choice((5, 30, 60)))
    elif kind == "links":
        links = [random.sample(names, 2) for _ in range(4)]
        for name, peer in links:
            add("break", node=name, peer=peer)
        wait = random.choice((0, 20, 60))
        for name, peer in random.sample(links, len(links)):
            add("repair", after=wait, node=name, peer=peer)
