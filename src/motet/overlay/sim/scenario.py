"""Scenarios: what happens to a network of nodes and when; how a file is read and written.

A scenario is a list of steps at instants. A step that cannot be applied (its node does not run) has no effect, so that
a scenario stays valid when steps are removed. `scenario_run` runs it in the simulator, `overlay.net` on processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from motet.model.errors import UsageError
from motet.overlay.protocol.coordinates import CoordinateRange
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
