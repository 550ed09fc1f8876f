"""Random scenarios: a seed says how many nodes crash, return, join, leave or are cut off, and when."""

from __future__ import annotations

from random import Random
from typing import Any

from motet.overlay.protocol.coordinates import Alphabet
from motet.overlay.sim.scenario import CAN, PASTRY, Scenario, ScenarioStep


def random_scenario(seed: int, *, nodes: int | None = None, protocol: str = PASTRY) -> Scenario:
    """A scenario in which everything happens that the protocols promise to survive, drawn from a seed.

    >>> random_scenario(1) == random_scenario(1), random_scenario(1, protocol="can").dimensions in (2, 3, 4)
    (True, True)
    """
    random = Random(seed)  # noqa: S311  a simulation
    return _CanSchedule(random, nodes or 14).draw() if protocol == CAN else _PastrySchedule(random, nodes or 20).draw()


class _Schedule:
    """The steps so far, and the nodes that have not crashed or left."""

    def __init__(self, random: Random, nodes: int) -> None:
        self.random = random
        self.nodes = nodes
        self.names = [f"n{index}" for index in range(nodes)]
        self.steps: list[ScenarioStep] = []
        self.now = 5.0

    def add(self, action: str, *, after: float = 0, **arguments: Any) -> None:
        """Add a step some seconds after the last one."""
        self.now = round(self.now + after + self.delay(), 3)
        self.steps.append(ScenarioStep(self.now, action, arguments))

    def delay(self) -> float:
        """The seconds before a step that follows at once, drawn at random."""
        raise NotImplementedError

    def add_nodes(self, action: str, names: list[str]) -> None:
        """Let nodes crash or leave for good."""
        for name in names:
            self.add(action, node=name)
            self.names.remove(name)

    def add_broken_links(self, links: list[tuple[str, str]], waits: tuple[int, ...]) -> None:
        """Break links, then repair them in random order."""
        for name, peer in links:
            self.add("break", node=name, peer=peer)
        wait = self.random.choice(waits)
        for name, peer in self.random.sample(links, len(links)):
            self.add("repair", after=wait, node=name, peer=peer)


class _PastrySchedule(_Schedule):
    """At most three nodes lose their values between two rounds of repair: a value has four replicas."""

    def delay(self) -> float:
        return self.random.expovariate(1.0)

    def draw(self) -> Scenario:
        random = self.random
        for index in range(12):
            self.add("store", node=random.choice(self.names), key=f"key {index}", value=f"value {index}")
        for name in random.sample(self.names, len(self.names) // 2):
            self.add("subscribe", node=name, topic=f"topic {random.randrange(2)}")
        for _ in range(random.randint(2, 5)):
            self.now += 20
            self._add_epoch()
            self.now += 100
        return Scenario(
            nodes=self.nodes,
            latency=random.choice(["geographic", "uniform"]),
            loss=random.choice([0.0, 0.02, 0.05]),
            duplication=random.choice([0.0, 0.02]),
            reordering=random.choice([0.0, 0.05]),
            steps=tuple(self.steps),
        )

    def _add_epoch(self) -> None:
        random, names, add = self.random, self.names, self.add
        kind = random.choice(["crash", "restart", "return", "join", "leave", "pause", "partition", "links", "write"])
        if len(names) < 6:  # three may be lost, and three take part
            kind = "join"
        chosen = random.sample(names, 3)
        if kind in ("crash", "leave"):
            self.add_nodes(kind, chosen[: random.randint(1, 3)])
        elif kind == "restart":
            for name in chosen:
                add("crash", node=name, lose_disk=random.random() < 0.5)
            for name in chosen:
                add("restart", node=name)
        elif kind == "return":
            self._add_return(chosen)
        elif kind == "join":
            for _ in range(random.randint(1, 5)):
                names.append(f"n{1 + max(int(name[1:]) for name in names) + random.randrange(2)}")
                add("join", node=names[-1])
        elif kind == "pause":
            add("pause", node=chosen[0], seconds=random.choice([2, 10, 40]))
        elif kind == "partition":
            add("partition", nodes=sorted(random.sample(names, random.randint(1, len(names) - 1))))
            add("heal", after=random.choice([10, 60, 300]))
        elif kind == "links":
            self.add_broken_links([(name, random.choice(names)) for name in random.sample(names, 5)], (0, 20, 60))
        else:
            add("store", node=chosen[0], key=f"key {random.randrange(12)}", value=f"new {random.randrange(1000)}")
            add(random.choice(["subscribe", "unsubscribe"]), node=chosen[1], topic=f"topic {random.randrange(2)}")
            add("publish", node=chosen[2], topic=f"topic {random.randrange(2)}", value="something")
            add("lookups", rate=2, seconds=20)

    def _add_return(self, chosen: list[str]) -> None:
        """A node is away for a moment; soon after its return two fail, it may be one of them."""
        random = self.random
        self.add("crash", node=chosen[0], lose_disk=random.random() < 0.5)
        self.add("restart", after=random.choice([0, 5, 40]), node=chosen[0])
        failing = random.sample(chosen, 2)
        self.add("crash", after=random.choice([0, 10, 30]), node=failing[0])
        self.add("crash", node=failing[1])
        self.names[:] = [name for name in self.names if name not in failing]


_CAN_WEIGHTS = {  # by kind of step
    "crash": 3, "restart": 2, "join": 2, "leave": 2, "pause": 2, "split": 2,
    "links": 1, "put": 2, "remove": 3, "multicast": 1, "lookups": 1,
}  # fmt: skip


class _CanSchedule(_Schedule):
    """At most two peers lose their values between two rounds of repair; links lose nothing at the end."""

    def __init__(self, random: Random, nodes: int) -> None:
        super().__init__(random, nodes)
        self._dimensions = random.choice((2, 3, 4))
        self._alphabet = Alphabet()
        self._values: list[tuple[list[str], str]] = []
        self._repaired = 0.0  # when every value that was put during a split has its copies

    def delay(self) -> float:
        return self.random.random()

    def draw(self) -> Scenario:
        random = self.random
        for _ in range(10):
            self._put()
        for _ in range(10):
            self.now += random.choice((1, 5, 20, 60))
            (kind,) = random.choices(list(_CAN_WEIGHTS), weights=list(_CAN_WEIGHTS.values()))
            self._add_step(kind)
        self.add("heal")
        self.add("calm")
        return Scenario(
            protocol=CAN,
            nodes=self.nodes,
            dimensions=self._dimensions,
            greedy=random.random() < 0.5,
            latency="uniform",
            loss=random.choice([0.0, 0.05, 0.1]),
            duplication=0.05,
            reordering=0.1,
            settle=1200,
            steps=tuple(self.steps),
        )

    def _add_step(self, kind: str) -> None:
        random, names, add = self.random, self.names, self.add
        if kind == "put":
            self._put()
        elif kind == "remove":
            self._remove()
        elif kind == "multicast":
            add("multicast", node=random.choice(names), region=self._region(), value="during churn")
        elif kind == "lookups":
            add("lookups", rate=2, seconds=20)
        elif kind == "split":
            self._add_split()
        elif kind == "crash":
            # a value that was put on a side of one peer has no copies before
            self.now = max(self.now, self._repaired)
            # fewer than the copies of a value; the next ones after these were made again
            self.add_nodes("crash", random.sample(names, min(2, self._spare)))
            add("lookups", after=90, rate=1, seconds=5)
        else:
            self._add_membership(kind, random.choice(names))

    @property
    def _spare(self) -> int:
        """The number of peers that may end."""
        return max(0, len(self.names) - 4)

    def _add_membership(self, kind: str, chosen: str) -> None:
        """A peer returns, joins, leaves or stands still, or peers cannot reach each other."""
        random, names, add = self.random, self.names, self.add
        if kind == "restart":
            add("crash", node=chosen, lose_disk=False)
            add("restart", after=random.choice((1, 10, 60)), node=chosen)
        elif kind == "join":
            names.append(f"n{1 + max(int(name[1:]) for name in names)}")
            add("join", node=names[-1])
        elif kind == "leave" and self._spare:
            self.add_nodes("leave", [chosen])
        elif kind == "pause":
            add("pause", node=chosen, seconds=random.choice((5, 30, 60)))
        elif kind == "links":
            pairs = [random.sample(names, 2) for _ in range(4)]
            self.add_broken_links([(name, peer) for name, peer in pairs], (0, 20, 60))

    def _add_split(self) -> None:
        """Two sides that do not reach each other, with values put and removed meanwhile."""
        random, names = self.random, self.names
        wait = random.choice((10, 60, 120))
        self.add("partition", nodes=sorted(random.sample(names, random.randint(1, len(names) - 1))))
        for _ in range(2):
            self.now += wait
            self._put()
        self._remove()
        self.add("heal", after=random.choice((10, 60, 120)))
        self._repaired = self.now + 120

    def _put(self) -> None:
        """Put a value, perhaps one again that was removed."""
        random = self.random
        is_again = self._values and random.random() < 0.3
        at, value = random.choice(self._values) if is_again else (self._point(), f"value {len(self._values)}")
        self._values.append((at, value))
        self.add("put", node=random.choice(self.names), point=at, value=value)

    def _remove(self) -> None:
        at, value = self.random.choice(self._values)
        self.add("remove", node=self.random.choice(self.names), point=at, value=value)

    def _point(self) -> list[str]:
        return [self._alphabet.text_at(self.random.getrandbits(40), 2**40) for _ in range(self._dimensions)]

    def _region(self) -> list[Any]:
        pairs = zip(self._point(), self._point(), strict=True)
        return [self.random.choice([low, [min(low, high), max(low, high)], None]) for low, high in pairs]
