"""Runs a scenario on real processes of this machine: the file that the simulator runs, with the same promises checked.

The clocks of the nodes run `speed` times as fast as real time: a scenario of an hour takes six minutes at speed 10. The
nodes delay, lose, repeat and reorder their messages as the scenario says, by the simulator's model of a network.
"""

from __future__ import annotations

import asyncio
import secrets
import signal
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from motet.model.errors import OverlayError, UsageError
from motet.overlay.net.host import encode_links
from motet.overlay.net.local_network import LocalNetwork
from motet.overlay.protocol.identifiers import BITS, closeness, identifier_of
from motet.overlay.protocol.node import Outcome
from motet.overlay.protocol.scribe import PublishTopic, SubscribeTopic, TopicDelivered, UnsubscribeTopic
from motet.overlay.protocol.values import FetchValue, StoreValue, ValueFailed, ValueFetched, ValueStored
from motet.overlay.sim.scenario import Scenario, ScenarioStep

MAX_PROCESSES = 64
LAST_LOOKUPS = 50
LAST_PAYLOAD = b"last"


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """What a run on processes violated, and what became of its lookups and values."""

    violations: tuple[str, ...]
    figures: dict[str, int]
    seconds: float


class ProcessScenario:
    """One run of a scenario on processes. Nodes n0, n1, … are the processes node-1, node-2, …"""

    def __init__(
        self, scenario: Scenario, directory: Path, *, seed: int = 1, speed: float = 10.0, is_plain: bool = False
    ) -> None:
        names = [str(step.arguments["node"]) for step in scenario.steps if "node" in step.arguments]
        count = max([scenario.nodes, *(1 + _index(name) for name in names)])
        if count > MAX_PROCESSES:
            raise UsageError(
                f"the scenario has {count} nodes; {MAX_PROCESSES} processes are allowed",
                advice="Run it in the simulator, or make it smaller.",
            )
        if (directory / "network.json").exists():
            raise UsageError(f"{directory} has a network already", advice="Choose another --directory.")
        self.scenario = scenario
        self.speed = speed
        self.figures: Counter[str] = Counter()
        self._network = LocalNetwork.create(
            directory, count, is_plain=is_plain, leaf_size=scenario.leaf_size, speed=speed
        )
        self._credentials = self._network.book.credentials()
        self._random = Random(seed)  # noqa: S311  an experiment
        self._links = scenario.network()
        self._stored: dict[str, bytes] = {}
        self._subscribers: dict[str, set[str]] = {}
        self._active: list[frozenset[str]] = [frozenset()]
        self._tasks: set[asyncio.Task[None]] = set()
        self._started = 0.0

    async def run(self, on_step: Callable[[str], object] = lambda text: None) -> ProcessResult:
        """Start the nodes, apply all steps, let the network settle, check the promises, and stop everything."""
        try:
            await self._network.start(count=self.scenario.nodes)
            self._note_active()
            await self._set_links()
            begun = self._started = time.monotonic()
            for step in self.scenario.steps:
                await self._wait_until(step.at)
                on_step(str(step))
                await self._apply(step)
            last = max((step.at for step in self.scenario.steps), default=0.0)
            on_step(f"{self.scenario.settle:g} s to settle")
            await self._wait_until(max(last, self._now()) + self.scenario.settle)
            await self._finish_tasks()
            violations = await self._violations()
            return ProcessResult(tuple(violations), dict(sorted(self.figures.items())), time.monotonic() - begun)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._network.stop()

    # Time

    def _now(self) -> float:
        """Seconds of the scenario since its start."""
        return (time.monotonic() - self._started) * self.speed

    async def _wait_until(self, at: float) -> None:
        await asyncio.sleep(max(0.0, at - self._now()) / self.speed)

    # Steps

    async def _apply(self, step: ScenarioStep) -> None:
        node = step.arguments.get("node")
        if node is not None and (_process(node) in self._network.processes) == (step.action in ("join", "restart")):
            return
        await getattr(self, f"_{step.action}")(**step.arguments)

    async def _join(self, node: str) -> None:
        directory = self._network.book.node_directory(self._network.book.entry(_process(node)))
        if not directory.log_path.exists():  # it has never run
            await self._restart(node)

    async def _restart(self, node: str) -> None:
        name = _process(node)

        async def start() -> None:
            await self._network.start_node(name)
            await self._set_links_of(name)
            self._note_active()

        self._start(start())

    async def _crash(self, node: str, *, lose_disk: bool = True) -> None:
        name = _process(node)
        if len(self._network.processes) > 1:
            await self._network.kill(name)
            self._note_active()
            self._unsubscribe_all(node)
            if lose_disk:
                self._network.book.node_directory(self._network.book.entry(name)).clear_disk()

    async def _leave(self, node: str) -> None:
        if len(self._network.processes) > 1:
            process = self._network.release(_process(node))

            async def leave() -> None:
                process.terminate()
                await process.wait()

            self._note_active()
            self._unsubscribe_all(node)
            self._start(leave())

    async def _pause(self, node: str, seconds: float) -> None:
        process = self._network.processes[_process(node)]

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

    async def _lookups(self, rate: float, seconds: float) -> None:
        async def look_up_all() -> None:
            end = self._now() + seconds
            while self._now() < end and self._network.processes:
                name = self._random.choice(sorted(self._network.processes))
                self._start(self._look_up(name, self._random.getrandbits(BITS)))
                await asyncio.sleep(self._random.expovariate(rate) / self.speed)

        self._start(look_up_all())

    async def _store(self, node: str, key: str, value: str) -> None:
        async def store() -> None:
            tag = secrets.randbelow(2**31)
            command = StoreValue(tag=tag, key=identifier_of(key), value=value.encode())
            outcome = await self._ask(_process(node), command, (ValueStored, ValueFailed), tag)
            if isinstance(outcome, ValueStored):
                self._stored[key] = value.encode()
                self.figures["values stored"] += 1
            else:
                self._stored.pop(key, None)  # stored or not: nothing is promised

        self._start(store())

    async def _subscribe(self, node: str, topic: str) -> None:
        self._subscribers.setdefault(topic, set()).add(node)
        await self._command(_process(node), SubscribeTopic(topic=identifier_of(topic)))

    async def _unsubscribe(self, node: str, topic: str) -> None:
        self._subscribers.setdefault(topic, set()).discard(node)
        await self._command(_process(node), UnsubscribeTopic(topic=identifier_of(topic)))

    async def _publish(self, node: str, topic: str, value: str) -> None:
        command = PublishTopic(tag=0, topic=identifier_of(topic), payload=value.encode())
        await self._command(_process(node), command)

    # Nodes

    def _address(self, node: str) -> str:
        return self._network.book.entry(_process(node)).address

    def _note_active(self) -> None:
        """Note which nodes run: a lookup is judged by those that ran at one instant of it."""
        book = self._network.book
        self._active.append(frozenset(book.entry(name).address for name in self._network.processes))

    def _unsubscribe_all(self, node: str) -> None:
        for subscribers in self._subscribers.values():
            subscribers.discard(node)

    async def _set_links(self) -> None:
        await asyncio.gather(*map(self._set_links_of, list(self._network.processes)), return_exceptions=True)

    async def _set_links_of(self, name: str) -> None:
        async with self._network.book.operate(self._network.book.entry(name).address, self._credentials) as operator:
            await operator.request("links", encode_links(self._links))

    async def _command(self, name: str, command: Any) -> None:
        async with self._network.book.operate(self._network.book.entry(name).address, self._credentials) as operator:
            await operator.command(command)

    async def _ask(self, name: str, command: Any, kinds: tuple[type[Outcome], ...], tag: int) -> Outcome | None:
        """The outcome of a command with a tag, or None if its node has ended."""
        try:
            address = self._network.book.entry(name).address
            async with self._network.book.operate(address, self._credentials) as operator:
                await operator.request("listen")
                await operator.command(command)
                return await operator.outcome(
                    lambda outcome: isinstance(outcome, kinds) and getattr(outcome, "tag", None) == tag
                )
        except (OverlayError, OSError):
            return None

    async def _look_up(self, name: str, key: int) -> None:
        first = len(self._active) - 1
        self.figures["lookups"] += 1
        try:
            async with self._network.book.operate(
                self._network.book.entry(name).address, self._credentials
            ) as operator:
                answer = await operator.look_up(key)
        except (OverlayError, OSError):
            self.figures["lookups abandoned" if name not in self._network.processes else "lookups failed"] += 1
            return
        closest = {
            min(active, key=lambda address: closeness(identifier_of(address), key)) for active in self._active[first:]
        }
        if answer.root.address not in closest:
            self.figures["lookups misdelivered"] += 1

    # The end

    async def _violations(self) -> list[str]:
        violations = []
        for name in sorted(self._network.processes):
            address = self._network.book.entry(name).address
            async with self._network.book.operate(address, self._credentials) as operator:
                place = await operator.request("place")
            if place["state"] != "active":
                violations.append(f"{name} is {place['state']}, not active")
            violations += self._leaf_violations(name, address, place["leaves"])
        for key, value in sorted(self._stored.items()):
            if await self._fetch(key) != value:
                violations.append(f"the value of {key!r} is lost")
        return [*violations, *await self._lookup_violations(), *await self._topic_violations()]

    def _leaf_violations(self, name: str, address: str, leaves: list[str]) -> list[str]:
        ring = sorted(self._active[-1], key=identifier_of)
        half, index = self.scenario.leaf_size // 2, ring.index(address)
        expected = {ring[(index + offset) % len(ring)] for offset in range(-half, half + 1)} - {address}
        if len(ring) > self.scenario.leaf_size and set(leaves) != expected:
            return [f"{name} has other neighbours than the ring"]
        if len(ring) <= self.scenario.leaf_size and set(leaves) != set(ring) - {address}:
            return [f"{name} does not know all nodes"]
        return []

    async def _fetch(self, key: str) -> bytes | None:
        tag = secrets.randbelow(2**31)
        name = self._random.choice(sorted(self._network.processes))
        command = FetchValue(tag=tag, key=identifier_of(key))
        outcome = await self._ask(name, command, (ValueFetched, ValueFailed), tag)
        return outcome.value if isinstance(outcome, ValueFetched) else None

    async def _lookup_violations(self) -> list[str]:
        before = Counter(self.figures)
        for _ in range(LAST_LOOKUPS):
            name = self._random.choice(sorted(self._network.processes))
            self._start(self._look_up(name, self._random.getrandbits(BITS)))
        await self._finish_tasks()
        wrong = Counter(self.figures) - before
        failed, misdelivered = wrong["lookups failed"], wrong["lookups misdelivered"]
        if failed or misdelivered:
            return [f"after settling {failed} lookups failed, {misdelivered} were delivered wrongly"]
        return []

    async def _topic_violations(self) -> list[str]:
        violations = []
        for topic, subscribers in sorted(self._subscribers.items()):
            receptions = {node: asyncio.Event() for node in sorted(subscribers)}
            receivers = [
                asyncio.create_task(self._receive_last(node, topic, is_listening))
                for node, is_listening in receptions.items()
            ]
            await asyncio.gather(*(is_listening.wait() for is_listening in receptions.values()))
            publisher = self._random.choice(sorted(self._network.processes))
            command = PublishTopic(tag=0, topic=identifier_of(topic), payload=LAST_PAYLOAD)
            await self._command(publisher, command)
            results = await asyncio.gather(*receivers)
            missed = [node for node, is_received in zip(receptions, results, strict=True) if not is_received]
            if missed:
                violations.append(f"{', '.join(missed)}: the last publication of {topic!r} was not delivered")
        return violations

    async def _receive_last(self, node: str, topic: str, is_listening: asyncio.Event) -> bool:
        key = identifier_of(topic)
        try:
            async with self._network.book.operate(self._address(node), self._credentials) as operator:
                await operator.request("listen")
                is_listening.set()
                await operator.outcome(
                    lambda outcome: (
                        isinstance(outcome, TopicDelivered) and (outcome.topic, outcome.payload) == (key, LAST_PAYLOAD)
                    ),
                    seconds=max(10.0, 70.0 / self.speed),
                )
        except (OverlayError, OSError):
            return False
        finally:
            is_listening.set()
        return True

    # Tasks

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish_tasks(self) -> None:
        """Wait for everything that was started; an error of it is raised here."""
        while self._tasks:
            await asyncio.gather(*self._tasks)


def _index(node: str) -> int:
    """The number of a node's name."""
    if node[:1] == "n" and node[1:].isdecimal():
        return int(node[1:])
    raise UsageError(f"{node!r} is no node of a scenario", advice="Its nodes are n0, n1, and so on.")


def _process(node: str) -> str:
    """The name of a node's process."""
    return f"node-{1 + _index(node)}"
