"""One run of a scenario on real processes of this machine: starts them, applies the steps, and stops them.

The clocks of the nodes run `speed` times as fast as real time: a scenario of an hour takes six minutes at speed 10. The
nodes delay, lose, repeat and reorder their messages as the scenario says, by the simulator's model of a network. What
is specific to a protocol is in `scenario_processes`.
"""

from __future__ import annotations

import asyncio
import signal
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from motet.model.errors import OverlayError, UsageError
from motet.overlay.net.host import encode_links
from motet.overlay.net.local_network import LocalNetwork, OperatorClient
from motet.overlay.net.node_directory import NodeSettings
from motet.overlay.protocol.node import Command, Outcome
from motet.overlay.sim.scenario import Scenario, ScenarioStep

MAX_PROCESSES = 64


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """What a run on processes violated, and what became of its lookups and values."""

    violations: tuple[str, ...]
    figures: dict[str, int]
    seconds: float


class ProcessRun(ABC):
    """One run of a scenario on processes. Nodes n0, n1, … are the processes node-1, node-2, …"""

    def __init__(self, scenario: Scenario, directory: Path, *, seed: int, speed: float, is_plain: bool) -> None:
        nodes = max([scenario.nodes, *(1 + _index(name) for step in scenario.steps for name in _names(step))])
        if nodes > MAX_PROCESSES:
            raise UsageError(
                f"the scenario has {nodes} nodes; {MAX_PROCESSES} processes are allowed",
                advice="Run it in the simulator, or make it smaller.",
            )
        if (directory / "network.json").exists():
            raise UsageError(f"{directory} has a network already", advice="Choose another --directory.")
        self.scenario = scenario
        self.speed = speed
        self.figures: Counter[str] = Counter()
        self._network = LocalNetwork.create(
            directory,
            nodes,
            NodeSettings(
                address="",
                network="",
                is_plain=is_plain,
                protocol=scenario.protocol,
                leaf_size=scenario.leaf_size,
                dimensions=scenario.dimensions,
                greedy=scenario.greedy,
                speed=speed,
            ),
        )
        self._credentials = self._network.book.credentials()
        self._random = Random(seed)  # noqa: S311  an experiment
        self._links = scenario.network()
        self._tags = count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._started = 0.0

    async def run(self, on_step: Callable[[str], object] = lambda text: None) -> ProcessResult:
        """Start the nodes, apply all steps, let the network settle, check the promises, and stop everything."""
        try:
            await self._network.start(count=self.scenario.nodes)
            self._note_running()
            await self._set_links()
            begun = self._started = time.monotonic()
            for step in self.scenario.steps:
                await self._wait_until(step.at)
                on_step(str(step))
                await self._apply(step)
            last = max((step.at for step in self.scenario.steps), default=0.0)
            on_step(f"{self.scenario.settle:g} s to settle")
            await self._settle(max(last, self._now()) + self.scenario.settle)
            await self._finish_tasks()
            violations = await self._violations()
            return ProcessResult(tuple(violations), dict(sorted(self.figures.items())), time.monotonic() - begun)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._network.stop()

    # What a protocol decides

    @abstractmethod
    def _note_running(self) -> None:
        """Note which processes run, after a change."""

    @abstractmethod
    async def _note_end(self, node: str, *, has_lost_disk: bool) -> None:
        """Note that the process of a node has ended or will end."""

    @abstractmethod
    async def _look_up_at_random(self, name: str) -> None:
        """Look up a random key from a process, and count what becomes of it."""

    @abstractmethod
    async def _violations(self) -> list[str]:
        """What does not hold once the network has settled."""

    async def _settle(self, until: float) -> None:
        """Wait until the network may be checked."""
        await self._wait_until(until)

    # Time

    def _now(self) -> float:
        """Seconds of the scenario since its start."""
        return (time.monotonic() - self._started) * self.speed

    async def _wait_until(self, at: float) -> None:
        await asyncio.sleep(max(0.0, at - self._now()) / self.speed)

    # Steps

    async def _apply(self, step: ScenarioStep) -> None:
        node = step.arguments.get("node")
        if node is not None and (process_name(node) in self._network.processes) == (step.action in ("join", "restart")):
            return
        await getattr(self, f"_{step.action}")(**step.arguments)

    async def _join(self, node: str) -> None:
        directory = self._network.book.node_directory(self._network.book.entry(process_name(node)))
        if not directory.log_path.exists():  # it has never run
            await self._restart(node)

    async def _restart(self, node: str) -> None:
        name = process_name(node)

        async def start() -> None:
            await self._network.start_node(name)
            await self._set_links_of(name)
            self._note_running()

        self._start(start())

    async def _crash(self, node: str, *, lose_disk: bool = True) -> None:
        name = process_name(node)
        if len(self._network.processes) > 1:
            await self._network.kill(name)
            if lose_disk:
                self._network.book.node_directory(self._network.book.entry(name)).clear_disk()
            await self._note_end(node, has_lost_disk=lose_disk)

    async def _leave(self, node: str) -> None:
        if len(self._network.processes) > 1:
            process = self._network.release(process_name(node))

            async def leave() -> None:
                process.terminate()
                await process.wait()

            await self._note_end(node, has_lost_disk=False)
            self._start(leave())

    async def _pause(self, node: str, seconds: float) -> None:
        process = self._network.processes[process_name(node)]

        async def resume() -> None:
            await asyncio.sleep(seconds / self.speed)
            if process.returncode is None:
                process.send_signal(signal.SIGCONT)

        process.send_signal(signal.SIGSTOP)
        self._start(resume())

    async def _partition(self, nodes: list[str]) -> None:
        self._links.partition([[self._address(node) for node in nodes]])
        await self._set_links()

    async def _break(self, node: str, peer: str) -> None:
        self._links.break_link(self._address(node), self._address(peer))
        await self._set_links()

    async def _repair(self, node: str, peer: str) -> None:
        self._links.repair_link(self._address(node), self._address(peer))
        await self._set_links()

    async def _heal(self) -> None:
        self._links.heal()
        await self._set_links()

    async def _calm(self) -> None:
        self._links.calm()
        await self._set_links()

    async def _lookups(self, rate: float, seconds: float) -> None:
        async def look_up_all() -> None:
            end = self._now() + seconds
            while self._now() < end and self._network.processes:
                self._start(self._look_up_at_random(self._random_process()))
                await asyncio.sleep(self._random.expovariate(rate) / self.speed)

        self._start(look_up_all())

    # Nodes

    def _address(self, node: str) -> str:
        return self._network.book.entry(process_name(node)).address

    def _random_process(self) -> str:
        return self._random.choice(sorted(self._network.processes))

    def _next_tag(self) -> int:
        return next(self._tags)

    def _operate(self, name: str) -> AbstractAsyncContextManager[OperatorClient]:
        return self._network.book.operate(self._network.book.entry(name).address, self._credentials)

    async def _set_links(self) -> None:
        await asyncio.gather(*map(self._set_links_of, list(self._network.processes)), return_exceptions=True)

    async def _set_links_of(self, name: str) -> None:
        async with self._operate(name) as operator:
            await operator.request("links", encode_links(self._links))

    async def _command(self, name: str, command: Command) -> None:
        async with self._operate(name) as operator:
            await operator.command(command)

    async def _outcome(
        self, name: str, command: Command, kinds: tuple[type[Outcome], ...], tag: int | str
    ) -> Outcome | None:
        """The outcome of a command with a tag, or None if its node has ended."""
        try:
            async with self._operate(name) as operator:
                await operator.request("listen")
                await operator.command(command)
                return await operator.outcome(
                    lambda outcome: isinstance(outcome, kinds) and getattr(outcome, "tag", None) == tag
                )
        except (OverlayError, OSError):
            return None

    # Tasks

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish_tasks(self) -> None:
        """Wait for everything that was started; an error of it is raised here."""
        while self._tasks:
            await asyncio.gather(*self._tasks)


def process_name(node: str) -> str:
    """The name of a node's process."""
    return f"node-{1 + _index(node)}"


def _names(step: ScenarioStep) -> Iterator[str]:
    """The nodes that a step names."""
    yield from (step.arguments[key] for key in ("node", "peer") if key in step.arguments)
    yield from step.arguments.get("nodes", ())


def _index(node: str) -> int:
    """The number of a node's name."""
    if node[:1] == "n" and node[1:].isdecimal():
        return int(node[1:])
    raise UsageError(f"{node!r} is no node of a scenario", advice="Its nodes are n0, n1, and so on.")
